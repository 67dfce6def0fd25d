//! Who knows why: a manager of ours, or else our own plans on a copy of the objects.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Result, bail};
use api::decision::Decided;
use bytes::Bytes;
use client::Client;
use client::https::ConnectError;
use explain::{Facts, Source};
use http::Request;
use serde::Deserialize;

use super::gather::decided_about;
use crate::connect::Connection;

/// Where decisions are asked for.
pub(crate) struct Manager {
    client: Client,
    address: String,
    /// It was named by the user, so that its silence is an error.
    asked_for: bool,
}

/// What the manager said, or why nobody did.
pub(crate) enum Heard {
    Decisions {
        address: String,
        by_object: BTreeMap<String, Vec<Decided>>,
    },
    Nobody(String),
}

impl Manager {
    pub(crate) fn reach(
        connection: &Connection,
        address: Option<&str>,
        authority: Option<PathBuf>,
    ) -> Result<Manager> {
        Ok(match address {
            Some(address) => Manager {
                client: connection.elsewhere(address, authority)?,
                address: address.to_owned(),
                asked_for: true,
            },
            None => Manager {
                client: connection.client.clone(),
                address: connection.server.clone(),
                asked_for: false,
            },
        })
    }

    pub(crate) async fn hear(&self, facts: &Facts) -> Result<Heard> {
        let mut by_object = BTreeMap::new();
        for object in decided_about(facts) {
            let text = |pointer: &str| {
                let found = object.pointer(pointer).and_then(serde_json::Value::as_str);
                found.unwrap_or_default().to_owned()
            };
            let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
            let kind = text("/kind");
            match self.about(&kind, &namespace, &name).await {
                Ok(heard) => {
                    by_object.insert(Facts::key(&kind, &namespace, &name), heard);
                }
                Err(error) if error.is_forbidden() => {
                    return Ok(Heard::Nobody(self.refusal()));
                }
                Err(error) if self.asked_for => bail!("{}", self.silence(&error)),
                Err(_) => {
                    let why = "no manager of ours answers there; --manager names one";
                    return Ok(Heard::Nobody(why.to_owned()));
                }
            }
        }
        Ok(Heard::Decisions {
            address: self.address.clone(),
            by_object,
        })
    }

    /// Who may not hear the controllers still sees the objects.
    fn refusal(&self) -> String {
        let place = match self.asked_for {
            true => format!(" of the manager at {}", self.address),
            false => String::new(),
        };
        format!(
            "you may not read /debug/controllers/{place}, which a rule with nonResourceURLs would allow"
        )
    }

    /// Why the manager that was named could not be asked.
    fn silence(&self, error: &client::Error) -> String {
        let address = &self.address;
        if let Some(why) = unreachable(error) {
            return format!(
                "cannot ask the manager at {address}: {why}; check that it runs and that --manager is right"
            );
        }
        let told = client::describe(error);
        let hint = match told.contains("certificate") {
            true => {
                "; --manager-certificate-authority names who signed its certificate, or the certificate itself (kube-controller-manager.crt in its --cert-dir)"
            }
            false => "",
        };
        format!("cannot ask the manager at {address}: {told}{hint}")
    }

    async fn about(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Vec<Decided>, client::Error> {
        #[derive(Deserialize)]
        struct Answer {
            controllers: Vec<Decided>,
        }
        let prefix = manager::serving::DECISIONS;
        let name = escape(name);
        let target = format!("{prefix}?kind={kind}&namespace={namespace}&name={name}");
        let request = Request::get(&target)
            .header(http::header::ACCEPT, "application/json")
            .body(Bytes::new())
            .map_err(|error| client::Error::InvalidRequest(format!("{target:?}: {error}")))?;
        let body = self.client.request(request).await?;
        match serde_json::from_slice::<Answer>(&body) {
            Ok(answer) => Ok(answer.controllers),
            Err(error) => Err(client::Error::InvalidRequest(format!(
                "{target:?} was answered by something else: {error}"
            ))),
        }
    }
}

/// Why there is no connection at all: the client's own words speak of an API server and a kubeconfig, and a manager
/// is neither.
fn unreachable(error: &client::Error) -> Option<String> {
    let mut cause = std::error::Error::source(error);
    while let Some(current) = cause {
        match current.downcast_ref::<ConnectError>() {
            Some(ConnectError::Unreachable { source, .. }) => return Some(source.to_string()),
            Some(ConnectError::TimedOut { seconds, .. }) => {
                return Some(format!("no answer within {seconds} s"));
            }
            _ => cause = current.source(),
        }
    }
    None
}

/// Names of roles may hold almost anything.
fn escape(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    let mut escaped = String::new();
    for byte in name.bytes() {
        match plain(byte) {
            true => escaped.push(char::from(byte)),
            false => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

/// Adds the decisions to the facts: those heard, or those that our own controllers make on a copy. Call it
/// outside of any runtime: the copy has its own time.
pub(crate) fn complete(mut facts: Facts, heard: Heard) -> Facts {
    match heard {
        Heard::Decisions { address, by_object } => {
            facts.source = Source::Manager(address);
            facts.decisions = by_object;
        }
        // A plan from half of the objects would be one for another cluster.
        Heard::Nobody(why) if !facts.has_inputs_of_a_plan() => {
            facts.source = Source::Part(why);
        }
        Heard::Nobody(why) => {
            facts.source = Source::Objects(why);
            facts.decisions = on_a_copy(&facts);
        }
    }
    facts
}

fn on_a_copy(facts: &Facts) -> BTreeMap<String, Vec<Decided>> {
    let mut decisions: BTreeMap<String, Vec<Decided>> = BTreeMap::new();
    if facts.object["kind"] == "Pod" {
        // Its owner is known and the owner's other pods are not: the owner would replace them all.
        return decisions;
    }
    let objects = std::iter::once(&facts.object).chain(&facts.related);
    for decided in preview::decide(objects.cloned().collect(), facts.now) {
        let about = &decided.object;
        let key = Facts::key(&about.kind, &about.namespace, &about.name);
        decisions.entry(key).or_default().push(decided);
    }
    decisions
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn heard_by_nobody(kind: &str, unread: &[&str]) -> Facts {
        let object = |kind: &str, name: &str| {
            json!({"apiVersion": if kind == "Pod" { "v1" } else { "apps/v1" }, "kind": kind,
                "metadata": {"name": name, "namespace": "shop", "uid": name, "generation": 1,
                    "labels": {"app": "web"},
                    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": true}]},
                "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}},
                    "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "a", "image": "web:1"}]}},
                    "containers": [{"name": "a", "image": "web:1"}]}})
        };
        let now = api::Time::from_unix(1_000_000_000);
        let mut facts = Facts::new(now, Source::Simulation, object(kind, "asked"));
        if kind == "Pod" {
            let mut owner = object("ReplicaSet", "r");
            owner["metadata"]["ownerReferences"] = json!([]);
            facts.related.push(owner);
        } else {
            facts.object["metadata"]["ownerReferences"] = json!([]);
        }
        for kind in unread {
            facts.could_not_read(kind, String::new());
        }
        complete(facts, Heard::Nobody("nobody answers".to_owned()))
    }

    /// A plan without its inputs would be one for another cluster.
    #[test]
    fn nothing_is_planned_on_half_of_the_objects() {
        let facts = heard_by_nobody("Deployment", &[]);
        assert_eq!(facts.source, Source::Objects("nobody answers".to_owned()));
        assert!(facts.decisions.contains_key("deployment/shop/asked"));

        for unread in [&["ReplicaSet"][..], &["Pod"], &["Pod", "ReplicaSet"]] {
            let facts = heard_by_nobody("Deployment", unread);
            assert_eq!(facts.source, Source::Part("nobody answers".to_owned()));
            assert!(facts.decisions.is_empty(), "{unread:?}");
        }
        assert!(heard_by_nobody("Pod", &[]).decisions.is_empty());
    }

    #[test]
    fn names_are_escaped() {
        assert_eq!(escape("system:node-1.a"), "system:node-1.a");
        assert_eq!(escape("a&b=c d"), "a%26b%3Dc%20d");
    }
}
