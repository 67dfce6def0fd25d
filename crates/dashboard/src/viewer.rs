//! Who looks, and what they may see: as the API server says, asked for each resource and namespace.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::ResourceType;
use client::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::feed::{Frame, Scope};

/// Somebody with a session.
pub struct Viewer {
    pub(crate) name: String,
    /// Acts and reads with the viewer's own rights.
    pub(crate) client: Client,
    rights: Rights,
}

enum Rights {
    /// Whoever started the cluster: its kubeconfig is in the same folder as the key of the link.
    Owner,
    /// Somebody whose rights are asked for, with the answers so far. Namespaces and kinds bound their number.
    Asked(Mutex<BTreeMap<Scope, bool>>),
}

const ACCESS_REVIEWS: ResourceType = ResourceType::cluster(
    "authorization.k8s.io",
    "v1",
    "selfsubjectaccessreviews",
    "SelfSubjectAccessReview",
);

/// Decisions have a rule of their own on the API server, and here.
const DECISIONS: &str = "/debug/controllers/";

/// Answers that are kept; beyond it they are asked for again.
const ANSWERS_MAX: usize = 10_000;

impl Viewer {
    pub fn owner(client: Client) -> Arc<Viewer> {
        Arc::new(Viewer {
            name: "owner".to_owned(),
            client,
            rights: Rights::Owner,
        })
    }

    pub fn named(name: &str, client: Client) -> Arc<Viewer> {
        Arc::new(Viewer {
            name: name.to_owned(),
            client,
            rights: Rights::Asked(Mutex::default()),
        })
    }

    pub(crate) fn sees_all(&self) -> bool {
        matches!(self.rights, Rights::Owner)
    }

    /// A frame as this viewer may see it.
    pub(crate) async fn render(&self, frame: &Frame) -> String {
        let Rights::Asked(known) = &self.rights else {
            return frame.render(|_| true);
        };
        for scope in frame.scopes() {
            let is_known = known.lock().contains_key(&**scope);
            if !is_known {
                let answer = self.ask(scope).await;
                let mut known = known.lock();
                if known.len() >= ANSWERS_MAX {
                    known.clear();
                }
                known.insert((**scope).clone(), answer);
            }
        }
        let known = known.lock();
        frame.render(|scope| known.get(scope).copied().unwrap_or(false))
    }

    /// Are all answers as they were? Rights come and go.
    pub(crate) async fn is_unchanged(&self) -> bool {
        let Rights::Asked(known) = &self.rights else {
            return true;
        };
        let answers = known.lock().clone();
        for (scope, answer) in answers {
            if self.ask(&scope).await != answer {
                known.lock().clear();
                return false;
            }
        }
        true
    }

    /// May this viewer list this resource in this namespace?
    async fn ask(&self, scope: &Scope) -> bool {
        if scope.plural.is_empty() {
            return false;
        }
        let resource = json!({"resourceAttributes": {
            "verb": "list", "group": scope.group, "resource": scope.plural, "namespace": scope.namespace,
        }});
        is_allowed(&self.client, resource).await
            && (!scope.decided || may_read_decisions(&self.client).await)
    }
}

/// May whoever this client is read what controllers decided?
pub async fn may_read_decisions(client: &Client) -> bool {
    let decided = json!({"nonResourceAttributes": {"verb": "get", "path": DECISIONS}});
    is_allowed(client, decided).await
}

async fn is_allowed(client: &Client, spec: Value) -> bool {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec,
    });
    let answer = client.create(&ACCESS_REVIEWS, "", review.to_string()).await;
    // Who cannot be asked about sees nothing.
    let Ok(body) = answer else { return false };
    serde_json::from_slice::<Value>(&body).is_ok_and(|answer| answer["status"]["allowed"] == true)
}
