//! Kinds that are questions: token reviews, access reviews, who am I. Nothing is stored.

use super::{Context, negotiate, response};
use crate::Body;
use crate::admission::Operation;
use crate::auth::rules::{Attributes, Rule};
use crate::auth::{Identity, authenticate, nodes};
use crate::status::{Cause, Status};
use http::Response;
use serde_json::{Map, Value, json};

impl Context {
    /// Answers a create-only kind.
    pub(super) async fn review(&mut self) -> Result<Response<Body>, Status> {
        if self.kind.is("", "Binding") {
            return self.bind().await;
        }
        negotiate::without_table(&self.headers)?;
        let dry_run = self.create_options()?;
        let review = self.decode_object()?.value;
        let mut review = self
            .admit_unstored(Operation::Create, None, review, dry_run)
            .await?;
        let status = match &*self.kind.kind {
            "TokenReview" => {
                if review["spec"]["token"]
                    .as_str()
                    .unwrap_or_default()
                    .is_empty()
                {
                    let why = "token is required for TokenReview in authentication";
                    return Err(Status::bad_request(why));
                }
                self.review_token(&review["spec"])
            }
            "SelfSubjectReview" => json!({"userInfo": user_info(&self.identity)}),
            "SelfSubjectAccessReview" => self.review_access(&self.identity, &review["spec"])?,
            "SubjectAccessReview" | "LocalSubjectAccessReview" => {
                let identity = subject_of(&review["spec"]);
                if identity.user.is_empty() && identity.groups.is_empty() {
                    let cause = Cause::new(
                        "spec.user",
                        "FieldValueInvalid",
                        "Invalid value: \"\": at least one of user or group must be specified",
                    );
                    return Err(self.unnamed(cause));
                }
                let namespace = &review["spec"]["resourceAttributes"]["namespace"];
                let other = namespace
                    .as_str()
                    .filter(|name| *name != self.info.namespace);
                if self.kind.namespaced
                    && let Some(other) = other
                {
                    let message =
                        format!("Invalid value: \"{other}\": must match metadata.namespace");
                    let field = "spec.resourceAttributes.namespace";
                    return Err(self.unnamed(Cause::new(field, "FieldValueInvalid", message)));
                }
                self.review_access(&identity, &review["spec"])?
            }
            "SelfSubjectRulesReview" => self.review_rules(&review["spec"]),
            _ => return Err(self.unsupported()),
        };
        let metadata = super::metadata_mut(&mut review);
        if self.kind.namespaced {
            metadata.insert("namespace".into(), json!(self.info.namespace));
        }
        if self.kind.is("authentication.k8s.io", "SelfSubjectReview") {
            metadata.insert("creationTimestamp".into(), json!(self.shared.now()));
        }
        if let Some(map) = review.as_object_mut() {
            map.insert("status".into(), status);
        }
        Ok(response::ordered(201, &review))
    }

    /// UPSTREAM: an invalid review of access does not say of which kind it is.
    fn unnamed(&self, cause: Cause) -> Status {
        Status::invalid(&self.kind.group, "", "", vec![cause])
    }

    fn review_token(&self, spec: &Value) -> Value {
        let token = spec["token"].as_str().unwrap_or_default();
        let audiences: Vec<String> = strings(&spec["audiences"]);
        match authenticate::verify(&self.shared, token, &audiences) {
            Ok((identity, audiences)) => {
                let mut status = json!({"authenticated": true, "user": user_info(&identity)});
                if !audiences.is_empty() {
                    status["audiences"] = json!(audiences);
                }
                status
            }
            Err(why) => {
                tracing::debug!(%why, "a reviewed token was not accepted");
                json!({"user": {}, "error": "invalid bearer token"})
            }
        }
    }

    fn review_access(&self, identity: &Identity, spec: &Value) -> Result<Value, Status> {
        let text = |value: &'_ Value| value.as_str().unwrap_or_default().to_owned();
        let (resource, other) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
        if resource.is_object() && other.is_object() {
            let message = format!(
                "Invalid value: {other}: cannot be specified in combination with resourceAttributes"
            );
            let cause = Cause::new("spec.nonResourceAttributes", "FieldValueInvalid", message);
            return Err(self.unnamed(cause));
        }
        if !resource.is_object() && !other.is_object() {
            let message = "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified";
            let cause = Cause::new("spec.resourceAttributes", "FieldValueInvalid", message);
            return Err(self.unnamed(cause));
        }
        let fields = [
            "verb",
            "namespace",
            "group",
            "resource",
            "subresource",
            "name",
        ]
        .map(|member| text(&resource[member]));
        let (other_verb, path) = (text(&other["verb"]), text(&other["path"]));
        let [verb, namespace, group, plural, subresource, name] = &fields;
        let asked = if resource.is_object() {
            Attributes {
                verb,
                namespace,
                group,
                resource: plural,
                subresource,
                name,
                ..Attributes::default()
            }
        } else {
            Attributes {
                verb: &other_verb,
                path: &path,
                ..Attributes::default()
            }
        };
        let (allowed, reason) = self
            .shared
            .rbac
            .decide(&self.shared.store, identity, &asked);
        let mut status = json!({"allowed": allowed});
        if !reason.is_empty() {
            status["reason"] = json!(reason);
        }
        Ok(status)
    }

    fn review_rules(&self, spec: &Value) -> Value {
        let namespace = spec["namespace"].as_str().unwrap_or_default();
        let everything = Rule {
            verbs: vec!["*".into()],
            groups: vec!["*".into()],
            resources: vec!["*".into()],
            ..Rule::default()
        };
        let every_path = Rule {
            verbs: vec!["*".into()],
            urls: vec!["*".into()],
            ..Rule::default()
        };
        let rules: Vec<Rule> = if self.identity.is_in(crate::auth::MASTERS) {
            vec![everything, every_path]
        } else {
            let held = self
                .shared
                .rbac
                .rules_of(&self.shared.store, &self.identity, namespace);
            held.iter()
                .flat_map(|rules| rules.iter().cloned())
                .collect()
        };
        let (urls, resources): (Vec<&Rule>, Vec<&Rule>) =
            rules.iter().partition(|rule| !rule.urls.is_empty());
        let values = |rules: Vec<&Rule>| rules.into_iter().map(Rule::to_value).collect::<Vec<_>>();
        let mut status = json!({"resourceRules": values(resources), "nonResourceRules": values(urls), "incomplete": false});
        if nodes::node_of(&self.identity.user, &self.identity.groups).is_some() {
            status["incomplete"] = json!(true);
            status["evaluationError"] =
                json!("node authorizer does not support user rule resolution");
        }
        status
    }
}

fn subject_of(spec: &Value) -> Identity {
    Identity {
        user: spec["user"].as_str().unwrap_or_default().to_owned(),
        uid: spec["uid"].as_str().unwrap_or_default().to_owned(),
        groups: strings(&spec["groups"]),
        ..Identity::default()
    }
}

fn strings(value: &Value) -> Vec<String> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|item| item.as_str().map(str::to_owned))
        .collect()
}

pub(crate) fn user_info(identity: &Identity) -> Value {
    let mut info = Map::new();
    info.insert("username".into(), json!(identity.user));
    if !identity.uid.is_empty() {
        info.insert("uid".into(), json!(identity.uid));
    }
    if !identity.groups.is_empty() {
        info.insert("groups".into(), json!(identity.groups));
    }
    if !identity.extra.is_empty() {
        info.insert("extra".into(), json!(identity.extra));
    }
    Value::Object(info)
}
