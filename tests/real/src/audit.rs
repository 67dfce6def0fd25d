//! The API server's audit log: who wrote what, what was refused, and what each write left behind.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

/// How much the API server records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// Nothing: for measurements that must not pay for the log.
    Off,
    /// Only the requests of a controller manager, without their objects: for counting while measuring.
    Manager,
    /// Every request with user, verb, object and answer.
    #[default]
    Requests,
    /// In addition the object that each write to `apps`, pods and events left behind.
    Objects,
}

impl Level {
    pub(crate) fn policy(self) -> String {
        let rules = match self {
            Level::Off => "- level: None",
            Level::Manager => {
                "- level: Metadata\n  users: [\"system:kube-controller-manager\"]\n- level: Metadata\n  \
                 userGroups: [\"system:serviceaccounts:kube-system\"]\n- level: None"
            }
            Level::Requests => "- level: Metadata",
            Level::Objects => {
                "- level: RequestResponse\n  verbs: [create, update, patch, delete, deletecollection]\n  \
                 resources:\n  - group: apps\n  - group: batch\n  - group: resource.k8s.io\n  - group: \"\"\n    \
                 resources: [pods, replicationcontrollers, replicationcontrollers/status, namespaces, \
                 namespaces/status, namespaces/finalize]\n- level: Metadata"
            }
        };
        format!(
            "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n{rules}\n"
        )
    }
}

/// One answered request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    pub stage: String,
    pub verb: String,
    #[serde(rename = "requestURI")]
    pub request_uri: String,
    pub user: User,
    #[serde(default)]
    pub user_agent: String,
    pub object_ref: Option<ObjectRef>,
    pub response_status: Option<ResponseStatus>,
    #[serde(default)]
    pub response_object: Option<Value>,
    pub request_received_timestamp: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct User {
    #[serde(default)]
    pub username: String,
    #[serde(default)]
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// Which of a user's credentials was shown: a hash of the certificate, or the id of the token.
    pub fn credential(&self) -> Option<&str> {
        let named = self
            .extra
            .get("authentication.kubernetes.io/credential-id")?;
        named.first().map(String::as_str)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectRef {
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub api_group: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct ResponseStatus {
    #[serde(default)]
    pub code: u16,
    #[serde(default)]
    pub message: String,
}

impl Entry {
    /// Whether the request changes something.
    pub fn is_write(&self) -> bool {
        matches!(
            self.verb.as_str(),
            "create" | "update" | "patch" | "delete" | "deletecollection"
        )
    }

    /// Whether a controller manager sent it, as itself or as one of its controllers' accounts.
    pub fn is_manager(&self) -> bool {
        let user = &self.user.username;
        user.starts_with(crate::manager::USER)
            || user.starts_with("system:serviceaccount:kube-system:")
    }

    pub fn code(&self) -> u16 {
        self.response_status
            .as_ref()
            .map_or(0, |status| status.code)
    }

    /// `replicasets` or `replicasets/status`.
    pub fn resource(&self) -> String {
        match &self.object_ref {
            None => self.request_uri.split('?').next().unwrap_or("").to_owned(),
            Some(object) if object.subresource.is_empty() => object.resource.clone(),
            Some(object) => format!("{}/{}", object.resource, object.subresource),
        }
    }

    pub fn namespace(&self) -> &str {
        self.object_ref
            .as_ref()
            .map_or("", |object| &object.namespace)
    }
}

/// All answered requests so far, oldest first. A last line that is still being written is left out.
pub fn read(log: &Path) -> Result<Vec<Entry>> {
    Reader::default().read_new(log)
}

/// Reads a log that grows, a part at a time.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    offset: u64,
}

impl Reader {
    /// The requests answered since the last call.
    pub fn read_new(&mut self, log: &Path) -> Result<Vec<Entry>> {
        use std::io::{Read, Seek, SeekFrom};
        let mut file =
            fs::File::open(log).with_context(|| format!("no audit log at {}", log.display()))?;
        file.seek(SeekFrom::Start(self.offset))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let complete = bytes
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |end| end + 1);
        self.offset += complete as u64;
        parse(&bytes[..complete])
    }
}

fn parse(bytes: &[u8]) -> Result<Vec<Entry>> {
    let lines = bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    let entries = lines.map(|line| {
        serde_json::from_slice::<Entry>(line)
            .with_context(|| format!("not an audit entry: {}", String::from_utf8_lossy(line)))
    });
    // A watch is logged when it starts and again when it ends: count its start.
    let counted = |entry: &Entry| (entry.verb == "watch") == (entry.stage == "ResponseStarted");
    entries
        .filter(|entry| entry.as_ref().map_or(true, counted))
        .collect()
}

/// Number of requests by (verb, resource).
pub fn count<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> BTreeMap<(String, String), u64> {
    let mut counts = BTreeMap::new();
    for entry in entries {
        *counts
            .entry((entry.verb.clone(), entry.resource()))
            .or_default() += 1;
    }
    counts
}

/// Requests that authorization refused, one readable line each.
pub fn forbidden(entries: &[Entry]) -> Vec<String> {
    let refused = entries.iter().filter(|entry| entry.code() == 403);
    refused
        .map(|entry| {
            let message = entry
                .response_status
                .as_ref()
                .map_or("", |status| &status.message);
            format!(
                "{} {} by {}: {message}",
                entry.verb, entry.request_uri, entry.user.username
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(verb: &str, stage: &str, code: u16, subresource: &str) -> String {
        format!(
            r#"{{"stage":"{stage}","verb":"{verb}","requestURI":"/apis/apps/v1/namespaces/a/replicasets/r","user":{{"username":"system:kube-controller-manager"}},"objectRef":{{"resource":"replicasets","subresource":"{subresource}","namespace":"a","name":"r"}},"responseStatus":{{"code":{code}}},"requestReceivedTimestamp":"2026-01-01T00:00:00Z"}}"#
        )
    }

    #[test]
    fn counts_by_verb_and_resource_and_a_watch_once() {
        let log = [
            line("update", "ResponseComplete", 200, "status"),
            line("update", "ResponseComplete", 409, "status"),
            line("watch", "ResponseStarted", 200, ""),
            line("watch", "ResponseComplete", 200, ""),
        ]
        .join("\n");
        let entries = parse(log.as_bytes()).unwrap();
        let counts: Vec<String> = count(&entries)
            .into_iter()
            .map(|((verb, what), n)| format!("{verb} {what} {n}"))
            .collect();
        assert_eq!(
            counts,
            ["update replicasets/status 2", "watch replicasets 1"]
        );
    }

    #[test]
    fn a_half_written_line_waits_for_the_next_read() {
        let path = std::env::temp_dir().join(format!("steersman-audit-{}", std::process::id()));
        let whole = line("create", "ResponseComplete", 201, "");
        fs::write(&path, format!("{whole}\n{}", &whole[..40])).unwrap();
        let mut reader = Reader::default();
        assert_eq!(reader.read_new(&path).unwrap().len(), 1);
        fs::write(&path, format!("{whole}\n{whole}\n")).unwrap();
        assert_eq!(reader.read_new(&path).unwrap().len(), 1);
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn refusals_name_user_and_path() {
        let entries = parse(line("delete", "ResponseComplete", 403, "").as_bytes()).unwrap();
        assert_eq!(
            forbidden(&entries),
            ["delete /apis/apps/v1/namespaces/a/replicasets/r by system:kube-controller-manager: "]
        );
    }
}
