//! Which requests a webhook is called for.

use super::Attributes;
use super::configuration::Webhook;
use crate::kinds::Kind;
use crate::policy::conditions::Match;
use crate::policy::criteria::Target;
use crate::rest::Context;
use crate::semantics::Admission;
use crate::status::Status;
use serde_json::Value;
use std::sync::Arc;

/// How a webhook is called: with objects of this kind, which may be another version than the request's.
pub(super) struct Invocation {
    pub(super) kind: Arc<Kind>,
}

impl Context {
    /// Whether and how a webhook is called; null stands for no object.
    pub(super) fn invocation(
        &self,
        hook: &Webhook,
        attributes: &Attributes,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<Option<Invocation>, Status> {
        let admission = Admission {
            operation: attributes.operation,
            kind: &self.stored_kind,
            name: &attributes.name,
            dry_run: attributes.dry_run,
        };
        let target = Target {
            operation: attributes.operation,
            resource: &self.kind,
            subresource: &self.info.subresource,
            namespace: &attributes.namespace,
            name: &attributes.name,
            object: Some(object).filter(|object| !object.is_null()),
            old,
        };
        self.admission(&admission, |context, request| {
            let Some(kind) = hook.criteria.matches(&target, context.cluster)? else {
                return Ok(None);
            };
            let request = crate::admission::Request {
                object_type: attributes.shown_as,
                ..*request
            };
            match hook
                .conditions
                .of_request(context, &request, &kind, &target)
            {
                Match::Yes => Ok(Some(Invocation { kind })),
                Match::No(_) => Ok(None),
                Match::Error(why) => Err(request.forbidden(&why)),
            }
        })
    }
}
