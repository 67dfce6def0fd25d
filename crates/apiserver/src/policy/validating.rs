//! Validating admission policies on requests.
//!
//! Mirrors `apiserver/pkg/admission/plugin/policy/validating`: dispatcher and validator.

use std::collections::BTreeMap;

use cel::{Type, Value as CelValue};
use serde_json::{Value, json};

use super::conditions::Match;
use super::definition::{Definition, params};
use super::expression::{BUDGET, Compiler, Expression, Facts, Input, Scope};
use super::source::{Binding, Bound};
use super::view::{Authorizer, View, namespace_object, target};
use crate::admission::{Context, Request, Verdict};
use crate::fields::text;
use crate::metrics::admission::PolicyCheck;
use crate::status::{Cause, Status};

/// The longest message that an expression may give.
const MESSAGE_MAX: usize = 5 * 1024;
/// The longest value of an audit annotation.
const ANNOTATION_MAX: usize = 10 * 1024;

#[derive(Debug)]
pub(super) struct Policy {
    definition: Definition,
    validations: Vec<Validation>,
    annotations: Vec<(String, Expression)>,
}

#[derive(Debug)]
struct Validation {
    expression: Expression,
    message: String,
    message_expression: Option<Expression>,
    reason: &'static str,
}

/// What a policy says against a request.
struct Refusal {
    message: String,
    /// "" where something failed.
    reason: &'static str,
}

/// What evaluating a policy with one set of parameters came to.
#[derive(Default)]
struct Judged {
    /// By the place of the validation.
    refusals: Vec<(usize, Refusal)>,
    annotations: Vec<(String, String)>,
    failed_annotations: Vec<String>,
}

impl Policy {
    pub(super) fn compile(policy: &Value) -> Policy {
        let mut compiler = Compiler::with_variables();
        let mut definition = Definition::read(policy, &mut compiler);
        let scope = definition.scope();
        let without_authorizer = Scope {
            authorizer: false,
            ..scope
        };
        let spec = &policy["spec"];
        let validations = spec["validations"].as_array().into_iter().flatten();
        let validations = validations.map(|validation| Validation {
            expression: compiler.expression(text(validation, "expression"), scope, &[Type::Bool]),
            message: text(validation, "message").trim().to_owned(),
            message_expression: Some(text(validation, "messageExpression"))
                .filter(|text| !text.is_empty())
                .map(|text| compiler.expression(text, without_authorizer, &[Type::String])),
            reason: reason(text(validation, "reason")),
        });
        let validations = validations.collect();
        let annotations = spec["auditAnnotations"].as_array().into_iter().flatten();
        let annotations = annotations.map(|annotation| {
            let value = text(annotation, "valueExpression");
            let returns = [Type::String, Type::Null];
            let expression = compiler.expression(value, scope, &returns);
            (text(annotation, "key").to_owned(), expression)
        });
        let annotations = annotations.collect();
        definition.variables = compiler.finish();
        Policy {
            validations,
            annotations,
            definition,
        }
    }

    /// Evaluates everything for one set of parameters. The error stands for all validations.
    fn judge(&self, facts: &Facts<'_>) -> Result<Judged, String> {
        let variables = Some(&self.definition.variables);
        match self.definition.conditions.evaluate(facts, variables) {
            Match::Yes => {}
            Match::No(_) => return Ok(Judged::default()),
            Match::Error(why) => return Err(why),
        }
        let mut judged = Judged::default();
        let input = Input::new(*facts, variables);
        let mut budget = BUDGET;
        let mut results = Vec::with_capacity(self.validations.len());
        for validation in &self.validations {
            let result = validation.expression.evaluate(&input, &mut budget);
            results.push(result.map_err(|exhausted| exhausted.to_string())?);
        }
        let messages = self.messages(facts, &mut budget);
        let checked = self.validations.iter().zip(results).enumerate();
        for (index, (validation, result)) in checked {
            let failed = |message: String| Refusal {
                message,
                reason: "",
            };
            let refusal = match (result, &messages) {
                (Err(why), _) => failed(why),
                (_, Err(why)) => failed(format!("failed messageExpression: {why}")),
                (Ok(CelValue::Bool(true)), _) => continue,
                (Ok(_), Ok(messages)) => Refusal {
                    message: validation.refusal(messages.get(index)),
                    reason: validation.reason,
                },
            };
            let ignored = refusal.reason.is_empty() && self.definition.ignores_errors;
            if !ignored {
                judged.refusals.push((index, refusal));
            }
        }
        self.annotate(facts, &mut judged)?;
        Ok(judged)
    }

    /// What the message expressions give, in the order of the validations. The error: the budget is used up.
    fn messages(&self, facts: &Facts<'_>, budget: &mut u64) -> Result<Vec<Option<String>>, String> {
        let facts = Facts {
            authorizer: None,
            ..*facts
        };
        let input = Input::new(facts, Some(&self.definition.variables));
        let messages = self.validations.iter().map(|validation| {
            let Some(expression) = &validation.message_expression else {
                return Ok(None);
            };
            let result = expression.evaluate(&input, budget);
            Ok(match result.map_err(|exhausted| exhausted.to_string())? {
                Ok(CelValue::String(text)) => Some(text.to_string()),
                _ => None,
            })
        });
        messages.collect()
    }

    fn annotate(&self, facts: &Facts<'_>, judged: &mut Judged) -> Result<(), String> {
        // UPSTREAM: no authorizer here, though the expressions may name it.
        let facts = Facts {
            authorizer: None,
            ..*facts
        };
        let input = Input::new(facts, Some(&self.definition.variables));
        let mut budget = BUDGET;
        for (key, expression) in &self.annotations {
            let result = expression.evaluate(&input, &mut budget);
            match result.map_err(|exhausted| exhausted.to_string())? {
                Ok(CelValue::String(text)) => {
                    let value = text.trim();
                    if !value.is_empty() {
                        let pair = (key.clone(), value.to_owned());
                        judged.annotations.push(pair);
                    }
                }
                Ok(CelValue::Null) => {}
                Ok(other) => judged.failed_annotations.push(format!(
                    "valueExpression '{}' resulted in unsupported return type: {}. Return type must be either string or null.",
                    expression.text,
                    other.type_name()
                )),
                Err(_) if self.definition.ignores_errors => {}
                Err(why) => judged.failed_annotations.push(why),
            }
        }
        Ok(())
    }
}

impl Validation {
    fn refusal(&self, evaluated: Option<&Option<String>>) -> String {
        let evaluated = evaluated.and_then(|message| message.as_deref());
        let evaluated = evaluated.map(str::trim).filter(|message| {
            !message.is_empty() && message.len() <= MESSAGE_MAX && !message.contains('\n')
        });
        match evaluated {
            Some(message) => message.to_owned(),
            None if !self.message.is_empty() => self.message.clone(),
            None => format!("failed expression: {}", self.expression.text.trim()),
        }
    }
}

/// Lets the policies in force refuse a request, or warn about it.
pub(super) fn validate(
    context: &Context<'_>,
    request: &Request<'_>,
    object: Option<&Value>,
    old: Option<&Value>,
    policies: &[Bound<Policy>],
    verdict: &mut Verdict,
) -> Result<(), Status> {
    let mut run = Run {
        context,
        request,
        object,
        old,
        namespace: None,
        authorizer: Authorizer::new(context, request),
        denied: None,
        verdict,
    };
    for bound in policies {
        run.policy(bound);
    }
    match run.denied {
        None => Ok(()),
        Some((message, reason)) => Err(refuse(request, &message, reason)),
    }
}

struct Run<'a> {
    context: &'a Context<'a>,
    request: &'a Request<'a>,
    object: Option<&'a Value>,
    old: Option<&'a Value>,
    /// The namespace object, once it was asked for.
    namespace: Option<Value>,
    authorizer: Authorizer<'a>,
    /// The first refusal: it is what the answer says.
    denied: Option<(String, &'static str)>,
    verdict: &'a mut Verdict,
}

impl Run<'_> {
    fn policy(&mut self, bound: &Bound<Policy>) {
        let cluster = self.context.cluster;
        let definition = &bound.policy.definition;
        let target = target(self.request, self.object, self.old);
        let matched = match definition.criteria.matches(&target, cluster) {
            Ok(Some(matched)) => matched,
            Ok(None) => return,
            Err(status) => return self.misconfigured(definition, None, &status.message),
        };
        let param_kind = match definition.served_params(cluster) {
            Ok(kind) => kind,
            Err(why) => return self.misconfigured(definition, None, &why),
        };
        let mut view = None;
        let mut annotations: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for binding in &bound.bindings {
            let criteria = binding.criteria.as_ref();
            match criteria.map(|criteria| criteria.matches(&target, cluster)) {
                None | Some(Ok(Some(_))) => {}
                Some(Ok(None)) => continue,
                Some(Err(status)) => {
                    self.misconfigured(definition, Some(binding), &status.message);
                    continue;
                }
            }
            let params = match params(param_kind.as_ref(), binding, target.namespace, cluster) {
                Ok(params) => params,
                Err(why) => {
                    self.misconfigured(definition, Some(binding), &why);
                    continue;
                }
            };
            let (context, request) = (self.context, self.request);
            let view: &View = view.get_or_insert_with(|| {
                View::new(context, request, &matched, self.object, self.old)
            });
            let namespace = self
                .namespace
                .take()
                .unwrap_or_else(|| namespace_object(context, request));
            for params in &params {
                let facts = Facts {
                    params,
                    ..view.facts(&namespace, &self.authorizer)
                };
                let judged = bound.policy.judge(&facts);
                self.act(definition, binding, judged, &mut annotations);
            }
            self.namespace = Some(namespace);
        }
        for (key, values) in annotations {
            let key = format!("{}/{key}", definition.name);
            self.verdict.annotations.insert(key, values.join(", "));
        }
    }

    /// Does what the binding wants done about refusals.
    fn act(
        &mut self,
        definition: &Definition,
        binding: &Binding,
        judged: Result<Judged, String>,
        annotations: &mut BTreeMap<String, Vec<String>>,
    ) {
        let judged = judged.unwrap_or_else(|message| {
            let refusal = Refusal {
                message,
                reason: "",
            };
            let refusals = match definition.ignores_errors {
                true => Vec::new(),
                false => vec![(0, refusal)],
            };
            Judged {
                refusals,
                ..Judged::default()
            }
        });
        let (policy, bound) = (&definition.name, &binding.name);
        for (index, refusal) in judged.refusals {
            for action in &binding.actions {
                self.verdict.policy_checks.push(PolicyCheck {
                    policy: policy.clone(),
                    binding: bound.clone(),
                    has_failed: refusal.reason.is_empty(),
                    action: match action.as_str() {
                        "Deny" => "deny",
                        "Warn" => "warn",
                        _ => "audit",
                    },
                });
                match action.as_str() {
                    "Deny" => self.deny(definition, Some(binding), &refusal.message, refusal.reason),
                    "Warn" => self.verdict.warnings.push(format!(
                        "Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{bound}': {}",
                        refusal.message
                    )),
                    _ => self.record(definition, binding, index, &refusal.message),
                }
            }
        }
        for (key, mut value) in judged.annotations {
            if value.len() > ANNOTATION_MAX {
                value.truncate(value.floor_char_boundary(ANNOTATION_MAX));
            }
            let values = annotations.entry(key).or_default();
            if !values.contains(&value) {
                values.push(value);
            }
        }
        for message in judged.failed_annotations {
            self.deny(definition, Some(binding), &message, "");
        }
    }

    /// Puts a refusal on the record for the audit log. UPSTREAM: of several the first one stays.
    fn record(&mut self, definition: &Definition, binding: &Binding, index: usize, message: &str) {
        let failure = json!([{
            "message": message,
            "policy": definition.name,
            "binding": binding.name,
            "expressionIndex": index,
            "validationActions": binding.actions,
        }]);
        let key = "validation.policy.admission.k8s.io/validation_failure";
        let held = self.verdict.annotations.entry(key.to_owned());
        held.or_insert_with(|| failure.to_string());
    }

    fn misconfigured(&mut self, definition: &Definition, binding: Option<&Binding>, why: &str) {
        if definition.ignores_errors {
            return;
        }
        let what = match binding {
            None => "policy",
            Some(_) => "binding",
        };
        let message = format!("failed to configure {what}: {why}");
        self.deny(definition, binding, &message, "");
    }

    fn deny(
        &mut self,
        definition: &Definition,
        binding: Option<&Binding>,
        message: &str,
        reason: &'static str,
    ) {
        let policy = &definition.name;
        let with = binding.map_or(String::new(), |binding| {
            format!(" with binding '{}'", binding.name)
        });
        self.denied.get_or_insert_with(|| {
            let message =
                format!("ValidatingAdmissionPolicy '{policy}'{with} denied request: {message}");
            (message, reason)
        });
    }
}

fn refuse(request: &Request<'_>, message: &str, reason: &'static str) -> Status {
    let mut status = request.forbidden(message);
    status.reason = if reason.is_empty() { "Invalid" } else { reason };
    status.code = match status.reason {
        "Forbidden" => 403,
        "Unauthorized" => 401,
        "RequestEntityTooLarge" => 413,
        _ => 422,
    };
    status.details.causes.push(Cause {
        message: message.to_owned(),
        ..Cause::default()
    });
    status
}

/// The reasons that validation lets through.
fn reason(text: &str) -> &'static str {
    match text {
        "Forbidden" => "Forbidden",
        "Unauthorized" => "Unauthorized",
        "RequestEntityTooLarge" => "RequestEntityTooLarge",
        _ => "Invalid",
    }
}
