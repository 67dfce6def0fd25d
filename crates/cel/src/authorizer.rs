//! `authorizer.group("apps").resource("deployments").check("create").allowed()`: questions about permissions.

use std::sync::Arc;

use crate::kube::Kube;
use crate::value::{Evaluated, Fault, Value};

/// A question as far as it has been put, or its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check {
    Authorizer(Asker),
    Path(Asker, String),
    Group(Asker, String),
    Resource(Asker, Resource),
    Decision(Decision),
}

/// Whose permissions are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asker {
    /// The user of the request.
    User,
    ServiceAccount {
        namespace: String,
        name: String,
    },
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resource {
    pub group: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub field_selector: String,
    pub label_selector: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    pub allowed: bool,
    pub reason: String,
    pub error: Option<String>,
}

/// Who answers.
pub trait Authorize {
    /// `check` is a path or a resource.
    fn authorize(&self, check: &Check, verb: &str) -> Decision;
}

impl Check {
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Check::Authorizer(_) => "kubernetes.authorization.Authorizer",
            Check::Path(..) => "kubernetes.authorization.PathCheck",
            Check::Group(..) => "kubernetes.authorization.GroupCheck",
            Check::Resource(..) => "kubernetes.authorization.ResourceCheck",
            Check::Decision(_) => "kubernetes.authorization.Decision",
        }
    }

    pub fn value<'a>(self) -> Value<'a> {
        Value::Kube(Arc::new(Kube::Check(Arc::new(self))))
    }
}

/// A method of a question or an answer; `None` if there is none of that name.
pub(crate) fn method<'a>(
    name: &str,
    check: &Check,
    args: &[Value<'a>],
    authorizer: Option<&dyn Authorize>,
) -> Option<Evaluated<'a>> {
    let text = |index: usize| match args.get(index) {
        Some(Value::String(text)) => text.to_string(),
        _ => String::new(),
    };
    let next = match (name, check) {
        ("path", Check::Authorizer(asker)) => Check::Path(asker.clone(), text(0)),
        ("group", Check::Authorizer(asker)) => Check::Group(asker.clone(), text(0)),
        ("serviceAccount", Check::Authorizer(_)) => Check::Authorizer(Asker::ServiceAccount {
            namespace: text(0),
            name: text(1),
        }),
        ("resource", Check::Group(asker, group)) => {
            let resource = Resource {
                group: group.clone(),
                resource: text(0),
                ..Resource::default()
            };
            Check::Resource(asker.clone(), resource)
        }
        ("check", Check::Path(..) | Check::Resource(..)) => {
            let Some(authorizer) = authorizer else {
                return Some(Err(Fault::NoSuchOverload));
            };
            Check::Decision(authorizer.authorize(check, &text(0)))
        }
        (_, Check::Resource(asker, resource)) => {
            let mut resource = resource.clone();
            let part = match name {
                "subresource" => &mut resource.subresource,
                "namespace" => &mut resource.namespace,
                "name" => &mut resource.name,
                "fieldSelector" => &mut resource.field_selector,
                "labelSelector" => &mut resource.label_selector,
                _ => return None,
            };
            *part = text(0);
            Check::Resource(asker.clone(), resource)
        }
        (_, Check::Decision(decision)) => {
            return Some(Ok(match name {
                "allowed" => Value::Bool(decision.allowed),
                "reason" => Value::text(decision.reason.as_str()),
                "errored" => Value::Bool(decision.error.is_some()),
                "error" => Value::text(decision.error.as_deref().unwrap_or_default()),
                _ => return None,
            }));
        }
        _ => return None,
    };
    Some(Ok(next.value()))
}
