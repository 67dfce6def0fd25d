//! Rules of a definition that is written: whether they compile, and what they can cost.

use api::syntax::go_quote;
use serde_json::Value;

use super::{DEPTH_MAX, RULES, Scope, Text, compile_message, compile_rule, field_path};
use crate::status::Cause;

/// The most that one rule may be estimated to cost.
const RULE_LIMIT: u64 = 10_000_000;
/// The most that all rules of a schema may.
const TOTAL_LIMIT: u64 = 100_000_000;
/// The biggest request: what has no limit of its own is bounded by it.
const REQUEST_MAX: u64 = 3 * 1024 * 1024;
const REASONS: [&str; 4] = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

/// What is wrong with the rules of a schema, which is structural and stands at `path`. Rules that `old` has already
/// are held to be fine.
pub(crate) fn verify(path: &str, schema: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut verifier = Verifier {
        old_rules: old.map(all_rules).unwrap_or_default(),
        ..Verifier::default()
    };
    let place = Place {
        path,
        cardinality: Some(1),
        uncorrelated: None,
        resource: true,
        depth: 0,
    };
    verifier.node(schema, &place);
    let mut causes = verifier.schema_causes;
    if causes.is_empty() {
        causes = verifier.rule_causes;
    }
    if verifier.total > TOTAL_LIMIT {
        verifier
            .expensive
            .sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
        for (path, _) in verifier.expensive.iter().take(4) {
            let why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            causes.push(forbidden(path, why));
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        causes.push(forbidden(path, &excess(what, verifier.total, TOTAL_LIMIT)));
    }
    causes
}

#[derive(Default)]
struct Verifier {
    schema_causes: Vec<Cause>,
    rule_causes: Vec<Cause>,
    old_rules: Vec<String>,
    total: u64,
    expensive: Vec<(String, u64)>,
}

struct Place<'a> {
    path: &'a str,
    /// How often the place can occur in one object, if lists and maps around it are limited.
    cardinality: Option<u64>,
    /// The list around it whose old and new items nobody can tell to belong together.
    uncorrelated: Option<&'a str>,
    resource: bool,
    depth: usize,
}

impl Verifier {
    fn node(&mut self, schema: &Value, place: &Place<'_>) {
        if place.depth > DEPTH_MAX || !schema.is_object() {
            return;
        }
        let path = place.path;
        let cardinality = elements(schema).and_then(|most| {
            place
                .cardinality
                .map(|cardinality| cardinality.saturating_mul(most))
        });
        let listed = schema["x-kubernetes-list-type"] == "map";
        let below = |verifier: &mut Verifier, inner: &Value, inner_path: String, list: bool| {
            let uncorrelated = if list && !listed {
                Some(place.uncorrelated.unwrap_or(path))
            } else {
                place.uncorrelated
            };
            verifier.node(
                inner,
                &Place {
                    path: &inner_path,
                    cardinality,
                    uncorrelated,
                    resource: inner["x-kubernetes-embedded-resource"] == true,
                    depth: place.depth + 1,
                },
            );
        };
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            below(self, property, format!("{path}.properties[{name}]"), false);
        }
        if let Some(values) = schema.get("additionalProperties") {
            below(self, values, format!("{path}.additionalProperties"), false);
        }
        if let Some(items) = schema.get("items") {
            below(self, items, format!("{path}.items"), true);
        }
        let rules = schema[RULES]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        if !rules.is_empty() {
            let texts: Vec<Text> = rules.iter().map(Text::read).collect();
            self.texts(&texts, rules, schema, path);
            if self.schema_causes.is_empty() {
                self.expressions(&texts, schema, place);
            }
        }
    }

    /// What a rule must say, before it is looked at as an expression.
    fn texts(&mut self, texts: &[Text], rules: &[Value], schema: &Value, path: &str) {
        let lines = |text: &str| text.contains(['\n', '\r']);
        for (index, (text, written)) in texts.iter().zip(rules).enumerate() {
            let at = |name: &str| format!("{path}.{RULES}[{index}].{name}");
            let rule = text.rule.trim();
            let message = text.message.trim();
            let found = if rule.is_empty() {
                Some(required(&at("rule"), "rule is not specified"))
            } else if !text.message.is_empty() && message.is_empty() {
                let why = "must be non-empty if specified";
                Some(invalid(&at("message"), &go_quote(&text.message), why))
            } else if lines(message) {
                let why = "must not contain line breaks";
                Some(invalid(&at("message"), &go_quote(&text.message), why))
            } else if lines(rule) && message.is_empty() {
                let why = "message must be specified if rule contains line breaks";
                Some(required(&at("message"), why))
            } else {
                None
            };
            self.schema_causes.extend(found);
            let expression = &text.message_expression;
            if !expression.is_empty() && expression.trim().is_empty() {
                let why = "messageExpression must be non-empty if specified";
                self.schema_causes
                    .push(required(&at("messageExpression"), why));
            }
            if !written["reason"].is_null() && !REASONS.contains(&text.reason.as_str()) {
                let list = REASONS.map(go_quote).join(", ");
                let shown = go_quote(&text.reason);
                let why = format!("Unsupported value: {shown}: supported values: {list}");
                self.schema_causes
                    .push(Cause::new(at("reason"), "FieldValueNotSupported", why));
            }
            self.field_path(&text.field_path, schema, &at("fieldPath"));
        }
    }

    fn field_path(&mut self, field_path: &str, schema: &Value, at: &str) {
        if field_path.is_empty() {
            return;
        }
        let shown = go_quote(field_path);
        let mut wrong = |why: &str| self.schema_causes.push(invalid(at, &shown, why));
        if field_path.trim().is_empty() {
            wrong("must be non-empty if specified");
        }
        if field_path.contains(['\n', '\r']) {
            wrong("must not contain line breaks");
        }
        if field_path::resolve(field_path, schema).is_err() {
            wrong("must be a valid path");
        }
    }

    fn expressions(&mut self, texts: &[Text], schema: &Value, place: &Place<'_>) {
        let path = place.path;
        let Some(scope) = Scope::new(schema, place.resource) else {
            let why = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
            let message = format!("Internal error: {why}");
            let field = format!("{path}.{RULES}");
            self.rule_causes
                .push(Cause::new(field, "InternalError", message));
            return;
        };
        let cardinality = place
            .cardinality
            .unwrap_or(REQUEST_MAX / (scope.decl.min_size() + 1));
        for (index, text) in texts.iter().enumerate() {
            let at = |name: &str| format!("{path}.{RULES}[{index}].{name}");
            self.rule(text, &scope, cardinality, place, &at);
        }
    }

    fn rule(
        &mut self,
        text: &Text,
        scope: &Scope,
        cardinality: u64,
        place: &Place<'_>,
        at: &dyn Fn(&str) -> String,
    ) {
        let env = scope.env(text.optional_old == Some(true));
        let known = self.old_rules.contains(&text.rule);
        let mut uses_old = false;
        match compile_rule(&text.rule, env) {
            Ok(checked) => {
                uses_old = cel::uses_variable(&checked, "oldSelf");
                let cost = cel::estimate(&checked, env).max.saturating_mul(cardinality);
                self.cost("estimated rule cost", &at("rule"), cost, known);
                if let Err(why) = cel::Program::new(checked) {
                    let why = format!("program instantiation failed: {why}");
                    self.wrong(&at("rule"), text, &why);
                }
            }
            Err(why) => self.wrong(&at("rule"), text, &why),
        }
        if !text.message_expression.is_empty() {
            match compile_message(&text.message_expression, env) {
                Ok(checked) => {
                    let cost = cel::estimate(&checked, env).max;
                    let what = "estimated messageExpression cost";
                    self.cost(what, &at("messageExpression"), cost, known);
                }
                Err(why) => self.wrong(&at("messageExpression"), text, &why),
            }
        }
        if uses_old {
            if let Some(list) = place.uncorrelated {
                let why = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
                );
                self.rule_causes
                    .push(invalid(&at("rule"), &go_quote(&text.rule), &why));
            }
        } else if let Some(optional) = text.optional_old {
            let why = "may not be set if oldSelf is not used in rule";
            self.rule_causes
                .push(invalid(&at("optionalOldSelf"), &optional.to_string(), why));
        }
    }

    fn cost(&mut self, what: &str, at: &str, cost: u64, known: bool) {
        if cost > RULE_LIMIT && !known {
            self.rule_causes
                .push(forbidden(at, &excess(what, cost, RULE_LIMIT)));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= TOTAL_LIMIT / 100 {
            self.expensive.push((at.to_owned(), cost));
        }
    }

    fn wrong(&mut self, at: &str, text: &Text, why: &str) {
        self.rule_causes.push(invalid(at, &go_struct(text), why));
    }
}

/// A rule as Go prints its internal type.
fn go_struct(text: &Text) -> String {
    let quoted = |text: &str| {
        let json = Value::from(text).to_string();
        json.replace('<', "\\u003c")
            .replace('>', "\\u003e")
            .replace('&', "\\u0026")
    };
    let reason = if text.reason.is_empty() {
        "null".to_owned()
    } else {
        quoted(&text.reason)
    };
    let optional = text
        .optional_old
        .map_or("null".to_owned(), |flag| flag.to_string());
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{reason},\"FieldPath\":{},\"OptionalOldSelf\":{optional}}}",
        quoted(&text.rule),
        quoted(&text.message),
        quoted(&text.message_expression),
        quoted(&text.field_path),
    )
}

/// How many elements one value of a schema can have; `None` without a limit.
fn elements(schema: &Value) -> Option<u64> {
    let limit = |name: &str| schema[name].as_i64().map(|most| most.max(0) as u64);
    match schema["type"].as_str() {
        Some("object") if !schema["additionalProperties"].is_null() => limit("maxProperties"),
        Some("array") => limit("maxItems"),
        _ => Some(1),
    }
}

fn all_rules(schema: &Value) -> Vec<String> {
    fn collect(schema: &Value, rules: &mut Vec<String>) {
        match schema {
            Value::Object(members) => {
                for rule in schema[RULES].as_array().into_iter().flatten() {
                    rules.extend(rule["rule"].as_str().map(str::to_owned));
                }
                members.values().for_each(|member| collect(member, rules));
            }
            Value::Array(items) => items.iter().for_each(|item| collect(item, rules)),
            _ => {}
        }
    }
    let mut rules = Vec::new();
    collect(schema, &mut rules);
    rules
}

fn excess(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

fn invalid(at: &str, shown: &str, why: &str) -> Cause {
    Cause::new(
        at,
        "FieldValueInvalid",
        format!("Invalid value: {shown}: {why}"),
    )
}

fn required(at: &str, why: &str) -> Cause {
    Cause::new(at, "FieldValueRequired", format!("Required value: {why}"))
}

fn forbidden(at: &str, why: &str) -> Cause {
    Cause::new(at, "FieldValueForbidden", format!("Forbidden: {why}"))
}
