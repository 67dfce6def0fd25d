//! TokenRequest: a token for a service account, perhaps bound to a pod, a secret or a node.

use crate::Body;
use crate::admission::Operation;
use crate::auth::tokens::{Bound, Grant};
use crate::kinds;
use crate::rest::metadata::{new_uid, text};
use crate::rest::{Context, response};
use crate::status::{Cause, Status, Subject};
use api::Time;
use http::Response;
use serde_json::{Value, json};

/// UPSTREAM: how long a token is good if the request does not say, and at least.
const DEFAULT_SECONDS: i64 = 3600;
const MIN_SECONDS: i64 = 600;
const MAX_SECONDS: i64 = 1 << 32;

impl Context {
    pub(super) async fn request_token(&mut self) -> Result<Response<Body>, Status> {
        let dry_run = self.create_options()?;
        let mut request = self.decode_part("authentication.k8s.io/v1", "TokenRequest")?;
        request["metadata"]["name"] = json!(self.info.name);
        request["metadata"]["namespace"] = json!(self.info.namespace);
        // UPSTREAM: NodeRestriction asks for whom the token is meant before that has a default.
        self.check_node(&request)?;
        if request["spec"]["audiences"]
            .as_array()
            .is_none_or(Vec::is_empty)
        {
            request["spec"]["audiences"] = json!(self.shared.tokens.audiences());
        }
        let account = self.find()?;
        self.wait_durable(account.revision).await?;
        let account = account.value(&self.stored_kind);
        let shown = Some(("authentication.k8s.io/v1", "TokenRequest"));
        let request = self
            .admit_unstored(Operation::Create, shown, request, dry_run)
            .await?;
        let spec = request["spec"].clone();
        let seconds = spec["expirationSeconds"]
            .as_i64()
            .unwrap_or(DEFAULT_SECONDS);
        if !(MIN_SECONDS..=MAX_SECONDS).contains(&seconds) {
            let message = format!(
                "Invalid value: {seconds}: may not specify a duration less than 10 minutes"
            );
            let cause = Cause::new("spec.expirationSeconds", "FieldValueInvalid", message);
            return Err(Status::invalid(
                "authentication.k8s.io",
                "TokenRequest",
                "",
                vec![cause],
            ));
        }
        let seconds = self.shared.tokens.limit(seconds);
        let mut audiences: Vec<String> = spec["audiences"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|item| item.as_str().map(str::to_owned))
            .collect();
        if audiences.is_empty() {
            audiences.extend_from_slice(self.shared.tokens.audiences());
        }
        let bound = self.bound(&spec["boundObjectRef"], text(&account, "name"))?;
        let now = self.shared.now_seconds();
        let grant = Grant {
            namespace: &self.info.namespace,
            name: text(&account, "name"),
            uid: text(&account, "uid"),
            audiences: &audiences,
            id: &new_uid(&self.shared),
            expires: now + seconds,
            bound: &bound,
        };
        let token =
            self.shared.tokens.sign(now, &grant).ok_or_else(|| {
                Status::internal("the key for service account tokens is not usable")
            })?;
        let mut answer = json!({
            "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"name": text(&account, "name"), "namespace": self.info.namespace, "creationTimestamp": self.shared.now()},
            "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": null},
            "status": {"token": token, "expirationTimestamp": Time::from_unix(now + seconds).to_string()},
        });
        answer["spec"]["boundObjectRef"] = spec["boundObjectRef"].clone();
        Ok(response::value(201, &answer))
    }

    /// What the token shall be bound to; it must exist, and a pod must run as this service account.
    fn bound(&self, reference: &Value, account: &str) -> Result<Bound, Status> {
        if !reference.is_object() {
            return Ok(Bound::default());
        }
        let (kind_name, member, plural) = match reference["kind"].as_str() {
            Some("Pod") => ("Pod", "pod", "pods"),
            Some("Secret") => ("Secret", "secret", "secrets"),
            Some("Node") => ("Node", "node", "nodes"),
            other => {
                let other = other.unwrap_or_default();
                let version = reference["apiVersion"].as_str().unwrap_or_default();
                let version = if version.contains('/') {
                    version.to_owned()
                } else {
                    format!("/{version}")
                };
                return Err(Status::bad_request(format!(
                    "cannot bind token to object of type {version}, Kind={other}"
                )));
            }
        };
        let name = reference["name"].as_str().unwrap_or_default();
        let subject = Subject {
            group: "",
            plural,
            name,
        };
        let kind = kinds::find("", kind_name).ok_or_else(|| Status::not_found(subject))?;
        let key = if kind.namespaced {
            format!("{}/{name}", self.info.namespace)
        } else {
            name.to_owned()
        };
        let object = self
            .shared
            .store
            .get(kind, &key)
            .ok_or_else(|| Status::not_found(subject))?
            .value(kind);
        let (wanted, uid) = (
            reference["uid"].as_str().unwrap_or_default(),
            text(&object, "uid"),
        );
        if !wanted.is_empty() && wanted != uid {
            let why = format!(
                "the UID in the bound object reference ({wanted}) does not match the UID in record. The object might have been deleted and then recreated"
            );
            return Err(Status::conflict(subject, &why));
        }
        let mut bound = Bound {
            kind: member,
            name: name.to_owned(),
            uid: uid.to_owned(),
            node: None,
        };
        if kind_name == "Pod" {
            if object["spec"]["serviceAccountName"] != account {
                return Err(Status::bad_request(format!(
                    "cannot bind token for serviceaccount \"{account}\" to pod running with different serviceaccount name."
                )));
            }
            let node = object["spec"]["nodeName"].as_str().unwrap_or_default();
            if let Some(kind) = kinds::find("", "Node").filter(|_| !node.is_empty())
                && let Some(stored) = self.shared.store.get(kind, node)
            {
                bound.node = Some((node.to_owned(), text(&stored.value(kind), "uid").to_owned()));
            }
        }
        Ok(bound)
    }
}
