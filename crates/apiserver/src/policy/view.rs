//! A request as expressions see it: objects at the version that a policy matched, and the admission request.

use cel::{Asker, Authorize, Check, Decision, Resource};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::criteria::Target;
use super::expression::Facts;
use crate::admission::{self, Cluster, Context, Operation, Request};
use crate::auth::Identity;
use crate::convert;
use crate::fields::text;
use crate::kinds::{Kind, Subresource};

static NULL: Value = Value::Null;

/// The objects of a request at one version, with the admission request that goes with them.
pub(crate) struct View {
    pub object: Value,
    pub old: Value,
    pub request: Value,
}

impl View {
    /// `matched` is the resource at the version that was matched.
    pub(crate) fn new(
        context: &Context<'_>,
        request: &Request<'_>,
        matched: &Kind,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> View {
        let shown = |value: Option<&Value>| match (value, request.object_type) {
            (None, _) => Value::Null,
            (Some(value), None) => at_version(value, matched),
            (Some(value), Some(_)) => value.clone(),
        };
        View {
            object: shown(object),
            old: shown(old),
            request: admission_request(context.user, request, matched, object),
        }
    }

    /// What expressions find, without parameters.
    pub(crate) fn facts<'a>(
        &'a self,
        namespace: &'a Value,
        authorizer: &'a Authorizer<'a>,
    ) -> Facts<'a> {
        Facts {
            object: &self.object,
            old: &self.old,
            request: &self.request,
            namespace,
            params: &NULL,
            authorizer: Some((authorizer, &authorizer.resource)),
        }
    }
}

/// What criteria look at.
pub(crate) fn target<'a>(
    request: &'a Request<'_>,
    object: Option<&'a Value>,
    old: Option<&'a Value>,
) -> Target<'a> {
    Target {
        operation: request.operation,
        resource: request.asked,
        subresource: request.subresource.map_or("", Subresource::name),
        namespace: namespace_of(request),
        name: name_of(request, object),
        object,
        old,
    }
}

/// Before a name is generated there is none; what is known by then is its prefix.
fn name_of<'a>(request: &'a Request<'_>, object: Option<&Value>) -> &'a str {
    let creates = request.operation == Operation::Create && request.subresource.is_none();
    match object {
        Some(object) if creates && text(object, "metadata.name") != request.name => "",
        _ => request.name,
    }
}

/// UPSTREAM: a Namespace is in itself.
fn namespace_of<'a>(request: &'a Request<'_>) -> &'a str {
    if request.kind.is("", "Namespace") {
        return request.name;
    }
    request.namespace
}

/// An object as it looks at a version of its kind, with its managed fields read.
pub(crate) fn at_version(value: &Value, kind: &Kind) -> Value {
    let mut value = value.clone();
    crate::rest::retype(kind, &mut value);
    if convert::differs(kind) {
        convert::from_storage(kind, &mut value);
    }
    let entries = value.pointer_mut("/metadata/managedFields");
    let entries = entries.and_then(Value::as_array_mut);
    for entry in entries.into_iter().flatten() {
        if let Some(Value::String(fields)) = entry.get("fieldsV1") {
            let read = serde_json::from_str(fields).unwrap_or_default();
            entry["fieldsV1"] = read;
        }
    }
    value
}

/// The namespace object of a request, with the parts that expressions may see; null for what is in none.
pub(super) fn namespace_object(context: &Context<'_>, request: &Request<'_>) -> Value {
    if request.namespace.is_empty() {
        return Value::Null;
    }
    let found = context
        .cluster
        .get(admission::namespaces(), "", request.namespace);
    let Some(found) = found else {
        return Value::Null;
    };
    const METADATA: [&str; 12] = [
        "name",
        "generateName",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "finalizers",
    ];
    let shown = METADATA.iter().filter_map(|member| {
        let value = found["metadata"].get(*member)?;
        Some(((*member).to_owned(), value.clone()))
    });
    let metadata: Map<String, Value> = shown.collect();
    json!({"metadata": metadata, "spec": found["spec"], "status": found["status"]})
}

/// The `AdmissionRequest` of a request, without its objects. `matched` is the resource at the version that was matched.
pub(crate) fn admission_request(
    user: &Identity,
    request: &Request<'_>,
    matched: &Kind,
    object: Option<&Value>,
) -> Value {
    let of_kind = |resource: &Kind| match request.object_type {
        Some((api_version, kind)) => {
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            json!({"group": group, "version": version, "kind": kind})
        }
        None => {
            json!({"group": resource.group, "version": resource.version, "kind": resource.kind})
        }
    };
    let of_resource = |resource: &Kind| json!({"group": resource.group, "version": resource.version, "resource": resource.plural});
    let mut info = json!({
        "uid": "",
        "kind": of_kind(matched),
        "resource": of_resource(matched),
        "requestKind": of_kind(request.asked),
        "requestResource": of_resource(request.asked),
        "operation": request.operation.name(),
        "userInfo": crate::rest::user_info(user),
        "dryRun": request.dry_run,
        "options": request.options,
    });
    let subresource = request.subresource.map_or("", Subresource::name);
    for (member, text) in [
        ("subResource", subresource),
        ("requestSubResource", subresource),
        ("name", name_of(request, object)),
        ("namespace", namespace_of(request)),
    ] {
        if !text.is_empty() {
            info[member] = json!(text);
        }
    }
    info
}

/// Answers questions about permissions, each once for a request.
pub(crate) struct Authorizer<'a> {
    cluster: &'a dyn Cluster,
    user: &'a Identity,
    /// `authorizer.requestResource`
    resource: Check,
    answers: Mutex<Vec<(Check, String, Decision)>>,
}

/// So many answers are kept; each costs so much of the budget that no request gets there.
const ANSWERS_MAX: usize = 64;

impl<'a> Authorizer<'a> {
    pub(crate) fn new(context: &Context<'a>, request: &Request<'_>) -> Authorizer<'a> {
        let resource = Resource {
            group: request.asked.group.to_string(),
            resource: request.asked.plural.to_string(),
            subresource: request.subresource.map_or("", Subresource::name).to_owned(),
            namespace: namespace_of(request).to_owned(),
            name: request.name.to_owned(),
            ..Resource::default()
        };
        Authorizer {
            cluster: context.cluster,
            user: context.user,
            resource: Check::Resource(Asker::User, resource),
            answers: Mutex::default(),
        }
    }
}

impl Authorize for Authorizer<'_> {
    fn authorize(&self, check: &Check, verb: &str) -> Decision {
        let mut answers = self.answers.lock();
        let known = answers
            .iter()
            .find(|(asked, of, _)| asked == check && of == verb);
        if let Some((_, _, decision)) = known {
            return decision.clone();
        }
        let decision = self.cluster.decide(self.user, check, verb);
        if answers.len() < ANSWERS_MAX {
            answers.push((check.clone(), verb.to_owned(), decision.clone()));
        }
        decision
    }
}
