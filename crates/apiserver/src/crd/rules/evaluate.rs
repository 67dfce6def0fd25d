//! Rules on objects.

use api::syntax::go_quote;
use cel::{Activation, Decl, Evaluated, Fault, PER_CALL_LIMIT, Value as CelValue};
use serde_json::Value;

use super::{Node, Rule};
use crate::crd::schema::Ready;
use crate::status::Cause;

/// What all rules of one request may cost together.
const BUDGET: u64 = 10_000_000;
/// The longest message that an expression may give.
const MESSAGE_MAX: usize = 5 * 1024;
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";
/// Causes after which it is clear that the object is wrong.
const CAUSES_MAX: usize = 1_000;

/// What rules say about an object: refusals, and warnings about what was wrong before and has not changed.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub causes: Vec<Cause>,
    pub warnings: Vec<String>,
}

/// Evaluates all rules of a schema on an object that is created, or that replaces `old`.
pub(crate) fn validate(schema: &Ready, object: &Value, old: Option<&Value>) -> Findings {
    let mut run = Run {
        findings: Findings::default(),
        budget: BUDGET,
    };
    if let Some(root) = schema.rules.root(&schema.value) {
        let place = Place {
            path: String::new(),
            old,
            same: old.is_some_and(|old| old == object),
        };
        // The budget may end it early; what was found by then stands.
        let _ = run.node(root, object, &place);
    }
    run.findings
}

struct Run {
    findings: Findings,
    budget: u64,
}

/// No further rule is run.
struct Exhausted;

/// Where a rule looks, and what was there before.
struct Place<'a> {
    path: String,
    /// The value that this one replaces, as far as the two can be told to belong together.
    old: Option<&'a Value>,
    /// Whether this, or the nearest thing around it that has an old value, has not changed.
    same: bool,
}

impl<'a> Place<'a> {
    fn below(&self, path: String, old: Option<&'a Value>, now: &Value) -> Place<'a> {
        Place {
            path,
            old,
            same: old.map_or(self.same, |old| old == now),
        }
    }
}

impl Run {
    fn node(&mut self, node: &Node, value: &Value, place: &Place<'_>) -> Result<(), Exhausted> {
        if value.is_null() || self.findings.causes.len() > CAUSES_MAX {
            return Ok(());
        }
        self.rules(node, value, place)?;
        for part in &node.all_of {
            self.rules(part, value, place)?;
        }
        match value {
            Value::Array(items) => self.items(node, items, place),
            Value::Object(members) => {
                for (name, member) in members {
                    let old = place.old.and_then(|old| old.get(name));
                    if let Some(below) = &node.additional {
                        let path = format!("{}[{name}]", place.path);
                        self.node(below, member, &place.below(path, old, member))?;
                    }
                    if let Some(below) = node.properties.get(name) {
                        let path = join(&place.path, name);
                        self.node(below, member, &place.below(path, old, member))?;
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn items(&mut self, node: &Node, items: &[Value], place: &Place<'_>) -> Result<(), Exhausted> {
        let Some(below) = &node.items else {
            return Ok(());
        };
        let old = place.old.and_then(Value::as_array);
        let partners = node.keys.as_ref().zip(old);
        let partners = partners.map(|(keys, old)| {
            let keyed = old.iter().map(|item| (key_of(item, keys), item));
            (keys, keyed.collect::<std::collections::BTreeMap<_, _>>())
        });
        for (index, item) in items.iter().enumerate() {
            let before = partners
                .as_ref()
                .and_then(|(keys, old)| old.get(&key_of(item, keys)).copied());
            let path = format!("{}[{index}]", place.path);
            self.node(below, item, &place.below(path, before, item))?;
        }
        Ok(())
    }

    fn rules(&mut self, node: &Node, value: &Value, place: &Place<'_>) -> Result<(), Exhausted> {
        let Some(decl) = node.decl.as_deref().filter(|_| !node.rules.is_empty()) else {
            return Ok(());
        };
        if self.budget == 0 {
            self.refuse(&place.path, &node.kind, OUT_OF_BUDGET);
            return Err(Exhausted);
        }
        for rule in &node.rules {
            self.rule(node, rule, decl, value, place)?;
        }
        Ok(())
    }

    fn rule(
        &mut self,
        node: &Node,
        rule: &Rule,
        decl: &Decl,
        value: &Value,
        place: &Place<'_>,
    ) -> Result<(), Exhausted> {
        let program = match &rule.program {
            Ok(program) => program,
            Err(why) => {
                let message = format!("rule compile error: {why}");
                self.refuse(&place.path, &node.kind, &message);
                return Ok(());
            }
        };
        let optional = rule.text.optional_old == Some(true);
        if rule.uses_old && place.old.is_none() && !optional {
            return Ok(());
        }
        let variables = Variables {
            value,
            old: place.old,
            decl,
            optional,
        };
        let outcome = program.evaluate(&variables, PER_CALL_LIMIT);
        self.spend(outcome.cost, &place.path, &node.kind)?;
        let shown = rule.text.shown();
        match outcome.value {
            Ok(CelValue::Bool(true)) => Ok(()),
            Ok(_) => self.failed(node, rule, &variables, place),
            Err(Fault::Cancelled) => {
                let message = format!(
                    "'{}': no further validation rules will be run due to call cost exceeds limit for rule: {shown}",
                    Fault::Cancelled
                );
                self.refuse(&place.path, &node.kind, &message);
                Err(Exhausted)
            }
            Err(why @ Fault::NoSuchOverload) => {
                let message = format!(
                    "'{why}': call arguments did not match a supported operator, function or macro signature for rule: {shown}"
                );
                self.refuse(&place.path, &node.kind, &message);
                Ok(())
            }
            Err(Fault::Error(why)) => {
                let message = format!("{why} evaluating rule: {shown}");
                self.refuse(&place.path, &node.kind, &message);
                Ok(())
            }
        }
    }

    fn spend(&mut self, cost: u64, path: &str, kind: &str) -> Result<(), Exhausted> {
        match self.budget.checked_sub(cost) {
            Some(rest) => {
                self.budget = rest;
                Ok(())
            }
            None => {
                self.refuse(path, kind, OUT_OF_BUDGET);
                Err(Exhausted)
            }
        }
    }

    /// A rule that does not hold.
    fn failed(
        &mut self,
        node: &Node,
        rule: &Rule,
        variables: &Variables<'_>,
        place: &Place<'_>,
    ) -> Result<(), Exhausted> {
        let path = match &rule.field_path {
            Some(below) => join(&place.path, below),
            None => place.path.clone(),
        };
        let text = &rule.text;
        let mut detail = None;
        if let Some(message) = &rule.message {
            let outcome = message.evaluate(variables, PER_CALL_LIMIT);
            let Some(rest) = self.budget.checked_sub(outcome.cost) else {
                let why = "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run";
                self.refuse(&path, &node.kind, why);
                return Err(Exhausted);
            };
            self.budget = rest;
            match outcome.value {
                Ok(CelValue::String(given)) => detail = usable(&given),
                Err(Fault::Cancelled) => {
                    let source = go_quote(&text.message_expression);
                    let why = format!(
                        "no further validation rules will be run due to call cost exceeds limit for messageExpression: {source}"
                    );
                    self.refuse(&path, &node.kind, &why);
                    return Err(Exhausted);
                }
                _ => {}
            }
        }
        let detail = detail.unwrap_or_else(|| {
            if text.message.is_empty() {
                format!("failed rule: {}", text.rule.trim())
            } else {
                text.message.trim().to_owned()
            }
        });
        let whole = matches!(node.kind.as_str(), "object" | "array");
        let shown = match variables.value {
            _ if whole => String::new(),
            Value::String(text) => format!(": {}", go_quote(text)),
            other => format!(": {other}"),
        };
        let (reason, message) = match text.reason.as_str() {
            "FieldValueForbidden" => ("FieldValueForbidden", format!("Forbidden: {detail}")),
            "FieldValueRequired" => ("FieldValueRequired", format!("Required value: {detail}")),
            "FieldValueDuplicate" => ("FieldValueDuplicate", format!("Duplicate value{shown}")),
            _ => (
                "FieldValueInvalid",
                format!("Invalid value{shown}: {detail}"),
            ),
        };
        let cause = Cause::new(named(&path), reason, message);
        // What was wrong before and has not been touched is let through with a word.
        if !rule.uses_old && place.same {
            let warning = format!("{}: {}", cause.field, cause.message);
            self.findings.warnings.push(warning);
        } else {
            self.findings.causes.push(cause);
        }
        Ok(())
    }

    fn refuse(&mut self, path: &str, kind: &str, why: &str) {
        let message = format!("Invalid value: {}: {why}", go_quote(kind));
        let cause = Cause::new(named(path), "FieldValueInvalid", message);
        self.findings.causes.push(cause);
    }
}

/// UPSTREAM: the object itself has no path, and Go prints that.
fn named(path: &str) -> &str {
    if path.is_empty() { "<nil>" } else { path }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        return name.to_owned();
    }
    format!("{path}.{name}")
}

/// A message that can be shown: one line, not empty, not too long.
fn usable(message: &str) -> Option<String> {
    let message = message.trim();
    let fine = !message.is_empty() && message.len() <= MESSAGE_MAX && !message.contains('\n');
    fine.then(|| message.to_owned())
}

fn key_of(item: &Value, keys: &[String]) -> Vec<String> {
    keys.iter().map(|key| item[key].to_string()).collect()
}

struct Variables<'a> {
    value: &'a Value,
    old: Option<&'a Value>,
    decl: &'a Decl,
    optional: bool,
}

impl<'a> Activation<'a> for Variables<'a> {
    fn variable(&self, name: &str) -> Option<Evaluated<'a>> {
        match (name, self.old) {
            ("self", _) => Some(cel::typed(self.value, self.decl)),
            ("oldSelf", Some(old)) if self.optional => {
                Some(cel::typed(old, self.decl).map(CelValue::some))
            }
            ("oldSelf", None) if self.optional => Some(Ok(CelValue::none())),
            ("oldSelf", Some(old)) => Some(cel::typed(old, self.decl)),
            _ => None,
        }
    }
}
