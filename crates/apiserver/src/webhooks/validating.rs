//! Calling the webhooks that only refuse: all at once.

use super::Attributes;
use super::mutating::{Failure, failed};
use super::review;
use crate::metrics::admission::{Call, Outcome};
use crate::rest::Context;
use crate::status::Status;
use futures_util::future::join_all;
use serde_json::Value;
use tokio::time::Instant;

impl Context {
    /// Asks every webhook that concerns the request; each is waited for, and the first refusal counts.
    pub(crate) async fn call_validating(
        &mut self,
        attributes: &Attributes,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let object = object.unwrap_or(&Value::Null);
        let mut invocations = Vec::new();
        for hook in &attributes.configured.validating {
            if let Some(invocation) = self.invocation(hook, attributes, object, old)? {
                invocations.push((hook, invocation));
            }
        }
        let context = &*self;
        let answers = invocations.iter().map(|(hook, invocation)| async move {
            let shown = context.shown_to_webhook(attributes, &invocation.kind, object);
            let begun = Instant::now();
            let asked = context.ask(hook, invocation, attributes, &shown, old, false);
            let answer = asked.await;
            (answer, begun.elapsed())
        });
        let answers = join_all(answers).await;
        let mut refusal = None;
        for ((hook, _), (answer, took)) in invocations.iter().zip(answers) {
            let outcome = answer.and_then(|answer| {
                self.note_answer(hook, answer.warnings, answer.audit_annotations);
                match answer.allowed {
                    true => Ok(()),
                    false => {
                        let status = review::denied(&hook.spec.name, answer.result.as_ref());
                        Err(Failure::Denied(status))
                    }
                }
            });
            let call = Call {
                webhook: &hook.spec.name,
                step: "validating",
                operation: attributes.operation.name(),
                took,
            };
            let measured = match &outcome {
                Ok(()) => Outcome::Allowed,
                Err(failure) => failure.outcome(hook),
            };
            self.shared.metrics.admission.called(&call, measured);
            if let Err(status) = outcome.or_else(|failure| failed(hook, failure)) {
                refusal.get_or_insert(status);
            }
        }
        refusal.map_or(Ok(()), Err)
    }
}
