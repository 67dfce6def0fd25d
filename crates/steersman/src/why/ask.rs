//! Who knows why: a manager of ours, or else our own plans on a copy of the objects.

use std::path::PathBuf;

use anyhow::{Result, bail};
use api::decision::{Decided, Started};
use bytes::Bytes;
use client::Client;
use client::https::ConnectError;
use explain::{Facts, Source};
use http::Request;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::gather::decided_about;
use crate::connect::Connection;

/// Where decisions are asked for.
pub(crate) struct Manager {
    client: Client,
    address: String,
    /// It was named by the user, so that it is an error if it does not answer.
    asked_for: bool,
}

/// What the manager answered, or why nobody did.
pub(crate) enum Answer {
    Decisions {
        address: String,
        decided: Vec<Decided>,
        started: Option<Started>,
    },
    Nobody(String),
}

/// Managers older than this do not say what runs.
#[derive(Deserialize)]
struct Runs {
    #[serde(flatten)]
    started: Option<Started>,
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

    pub(crate) async fn ask(&self, facts: &Facts) -> Result<Answer> {
        match self.decisions(facts).await {
            Ok(answer) => Ok(answer),
            Err(error) if error.is_forbidden() => Ok(Answer::Nobody(self.refusal())),
            Err(error) if self.asked_for => bail!("{}", self.failure(&error)),
            Err(_) => {
                let why = "no manager of ours answers there; --manager names one";
                Ok(Answer::Nobody(why.to_owned()))
            }
        }
    }

    async fn decisions(&self, facts: &Facts) -> Result<Answer, client::Error> {
        #[derive(Deserialize)]
        struct About {
            controllers: Vec<Decided>,
        }
        let Runs { started } = self.read(manager::serving::DECISIONS).await?;
        let mut decided = Vec::new();
        for object in decided_about(facts) {
            let About { controllers } = self.read(&target(object)).await?;
            decided.extend(controllers);
        }
        Ok(Answer::Decisions {
            address: self.address.clone(),
            decided,
            started,
        })
    }

    /// Who may not ask the controllers still sees the objects.
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
    fn failure(&self, error: &client::Error) -> String {
        let address = &self.address;
        if let Some(why) = unreachable(error) {
            return format!(
                "cannot ask the manager at {address}: {why}; check that it runs and that --manager is right"
            );
        }
        let described = client::describe(error);
        let hint = match is_about_certificates(error) {
            true => {
                "; --manager-certificate-authority names who signed its certificate, or the certificate itself (kube-controller-manager.crt in its --cert-dir)"
            }
            false => "",
        };
        format!("cannot ask the manager at {address}: {described}{hint}")
    }

    async fn read<T: DeserializeOwned>(&self, target: &str) -> Result<T, client::Error> {
        let request = Request::get(target)
            .header(http::header::ACCEPT, "application/json")
            .body(Bytes::new())
            .map_err(|error| client::Error::InvalidRequest(format!("{target:?}: {error}")))?;
        let body = self.client.request(request).await?;
        serde_json::from_slice(&body).map_err(|error| {
            client::Error::InvalidRequest(format!(
                "{target:?} was answered by something else: {error}"
            ))
        })
    }
}

/// The path that asks for the decisions about an object: neither about those of its namesakes in other groups nor
/// about those that had its name before it.
fn target(object: &Value) -> String {
    let text = |pointer: &str| {
        let found = object.pointer(pointer).and_then(Value::as_str);
        escape(found.unwrap_or_default())
    };
    let (kind, group) = (text("/kind"), escape(explain::group_of(object)));
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    let (prefix, uid) = (manager::serving::DECISIONS, text("/metadata/uid"));
    format!("{prefix}?kind={kind}&group={group}&namespace={namespace}&name={name}&uid={uid}")
}

/// Why no connection was established, if that is what failed.
fn connect_error(error: &client::Error) -> Option<&ConnectError> {
    let mut causes = std::iter::successors(std::error::Error::source(error), |one| one.source());
    causes.find_map(|cause| cause.downcast_ref())
}

/// Why there is no connection at all: the client's own words speak of an API server and a kubeconfig, and a manager
/// is neither.
fn unreachable(error: &client::Error) -> Option<String> {
    match connect_error(error)? {
        ConnectError::Unreachable { source, .. } => Some(source.to_string()),
        ConnectError::TimedOut { seconds, .. } => Some(format!("no answer within {seconds} s")),
        _ => None,
    }
}

/// Is the manager's certificate one that we do not trust, or ours one that it does not?
fn is_about_certificates(error: &client::Error) -> bool {
    matches!(
        connect_error(error),
        Some(
            ConnectError::UnknownAuthority { .. }
                | ConnectError::Expired { .. }
                | ConnectError::NotYetValid { .. }
                | ConnectError::WrongName { .. }
                | ConnectError::ClientCertificateRefused { .. }
        )
    )
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

/// Adds the decisions to the facts: those that were answered, or those that our own controllers make on a copy. Call it
/// outside of any runtime: the copy has its own time.
pub(crate) fn complete(mut facts: Facts, answer: Answer) -> Facts {
    match answer {
        Answer::Decisions {
            address,
            decided,
            started,
        } => {
            facts.source = Source::Manager(address);
            facts.decisions = decided;
            facts.started = started;
        }
        // A plan from half of the objects would be one for another cluster.
        Answer::Nobody(why) if !facts.has_inputs_of_a_plan() => {
            facts.source = Source::Part(why);
        }
        Answer::Nobody(why) => {
            facts.source = Source::Objects(why);
            facts.decisions = on_a_copy(&facts);
        }
    }
    facts
}

fn on_a_copy(facts: &Facts) -> Vec<Decided> {
    if explain::kind_of(&facts.object) == "Pod" {
        // Its owner is known and the owner's other pods are not: the owner would replace them all.
        return Vec::new();
    }
    let objects = std::iter::once(&facts.object).chain(&facts.related);
    preview::decide(objects.cloned().collect(), facts.now)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answered_by_nobody(kind: &str, unread: &[&str]) -> Facts {
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
        complete(facts, Answer::Nobody("nobody answers".to_owned()))
    }

    /// A plan without its inputs would be one for another cluster.
    #[test]
    fn nothing_is_planned_on_half_of_the_objects() {
        let facts = answered_by_nobody("Deployment", &[]);
        assert_eq!(facts.source, Source::Objects("nobody answers".to_owned()));
        let about = facts.decisions.iter().map(|one| one.object.to_string());
        assert_eq!(about.collect::<Vec<_>>(), ["Deployment shop/asked"]);

        for unread in [&["ReplicaSet"][..], &["Pod"], &["Pod", "ReplicaSet"]] {
            let facts = answered_by_nobody("Deployment", unread);
            assert_eq!(facts.source, Source::Part("nobody answers".to_owned()));
            assert!(facts.decisions.is_empty(), "{unread:?}");
        }
        assert!(answered_by_nobody("Pod", &[]).decisions.is_empty());
    }

    #[test]
    fn the_manager_is_asked_about_this_very_object() {
        let job = json!({"apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "a&b", "namespace": "shop", "uid": "u-1"}});
        assert_eq!(
            target(&job),
            "/debug/controllers/?kind=Job&group=batch&namespace=shop&name=a%26b&uid=u-1"
        );
        let node =
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "u-2"}});
        assert_eq!(
            target(&node),
            "/debug/controllers/?kind=Node&group=&namespace=&name=n&uid=u-2"
        );
    }

    #[test]
    fn what_runs_is_known_if_the_manager_says_so() {
        let started = |answer: Value| serde_json::from_value::<Runs>(answer).unwrap().started;
        let said = started(json!({"controllers": [], "running": ["job"], "skipped": []}));
        assert_eq!(said.unwrap().running, ["job"]);
        assert_eq!(started(json!({"controllers": ["job"]})), None);
    }

    #[test]
    fn names_are_escaped() {
        assert_eq!(escape("system:node-1.a"), "system:node-1.a");
        assert_eq!(escape("a&b=c d"), "a%26b%3Dc%20d");
    }
}
