//! `x-kubernetes-validations`: rules in schemas, compiled once and evaluated on every write.
//!
//! Mirrors `apiextensions-apiserver/pkg/apiserver/schema/cel`. Rules stand where the schema has them: on the object
//! itself, on properties, on items and on values of maps, and within `allOf`. Each evaluation is bounded, and all of one
//! request together.

mod evaluate;
mod field_path;
mod verify;

pub(crate) use evaluate::validate;
pub(crate) use verify::verify;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use cel::{Checked, Decl, Env, Program, Type};
use serde_json::Value;

pub(crate) const RULES: &str = "x-kubernetes-validations";
/// Schemas nest no deeper than bodies do.
const DEPTH_MAX: usize = 200;

/// The rules of a version's schema, compiled when they are first needed.
#[derive(Clone, Debug, Default)]
pub struct CompiledRules(Arc<OnceLock<Option<Node>>>);

impl CompiledRules {
    pub(crate) fn any(&self, schema: &Value) -> bool {
        self.root(schema).is_some()
    }

    fn root(&self, schema: &Value) -> Option<&Node> {
        self.0.get_or_init(|| Node::new(schema, true, 0)).as_ref()
    }
}

/// One place of a schema that has rules, or has places below it that do.
#[derive(Debug, Default)]
struct Node {
    /// The schema's `type`, which messages name.
    kind: String,
    rules: Vec<Rule>,
    decl: Option<Arc<Decl>>,
    properties: BTreeMap<String, Node>,
    additional: Option<Box<Node>>,
    items: Option<Box<Node>>,
    all_of: Vec<Node>,
    /// The keys by which old and new items belong together, in lists of type map.
    keys: Option<Vec<String>>,
}

#[derive(Debug)]
struct Rule {
    text: Text,
    program: Result<Program, String>,
    message: Option<Program>,
    uses_old: bool,
    field_path: Option<String>,
}

/// A rule as it was written.
#[derive(Debug, Clone, Default)]
struct Text {
    rule: String,
    message: String,
    message_expression: String,
    reason: String,
    field_path: String,
    optional_old: Option<bool>,
}

impl Text {
    fn read(rule: &Value) -> Text {
        let text = |name: &str| rule[name].as_str().unwrap_or_default().to_owned();
        Text {
            rule: text("rule"),
            message: text("message"),
            message_expression: text("messageExpression"),
            reason: text("reason"),
            field_path: text("fieldPath"),
            optional_old: rule["optionalOldSelf"].as_bool(),
        }
    }

    /// What messages call the rule.
    fn shown(&self) -> &str {
        if self.message.is_empty() {
            return self.rule.trim();
        }
        self.message.trim()
    }
}

impl Node {
    fn new(schema: &Value, resource: bool, depth: usize) -> Option<Node> {
        if depth > DEPTH_MAX || !schema.is_object() {
            return None;
        }
        let embedded = |schema: &Value| schema["x-kubernetes-embedded-resource"] == true;
        let below = |schema: &Value| Node::new(schema, embedded(schema), depth + 1);
        let mut node = Node {
            kind: schema["type"].as_str().unwrap_or_default().to_owned(),
            ..Node::default()
        };
        node.take_rules(schema, schema, resource);
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            if let Some(found) = below(property) {
                node.properties.insert(name.clone(), found);
            }
        }
        let inner = |name: &str| schema.get(name).and_then(below).map(Box::new);
        node.additional = inner("additionalProperties");
        node.items = inner("items");
        for part in schema["allOf"].as_array().into_iter().flatten() {
            let mut nested = Node {
                kind: node.kind.clone(),
                ..Node::default()
            };
            nested.take_rules(part, schema, resource);
            if !nested.rules.is_empty() {
                node.all_of.push(nested);
            }
        }
        if schema["x-kubernetes-list-type"] == "map" {
            let keys = schema["x-kubernetes-list-map-keys"].as_array();
            let keys = keys.into_iter().flatten().filter_map(Value::as_str);
            node.keys = Some(keys.map(str::to_owned).collect());
        }
        let empty = node.rules.is_empty()
            && node.properties.is_empty()
            && node.additional.is_none()
            && node.items.is_none()
            && node.all_of.is_empty();
        (!empty).then_some(node)
    }

    /// Compiles the rules of `ruled` for data of `schema`.
    fn take_rules(&mut self, ruled: &Value, schema: &Value, resource: bool) {
        let Some(rules) = ruled[RULES].as_array().filter(|rules| !rules.is_empty()) else {
            return;
        };
        let Some(scope) = Scope::new(schema, resource) else {
            return;
        };
        self.rules = rules
            .iter()
            .map(Text::read)
            .filter(|text| !text.rule.trim().is_empty())
            .map(|text| Rule::new(text, &scope, schema))
            .collect();
        self.decl = Some(scope.decl);
    }
}

impl Rule {
    fn new(text: Text, scope: &Scope, schema: &Value) -> Rule {
        let env = scope.env(text.optional_old == Some(true));
        let checked = compile_rule(&text.rule, env);
        let uses_old = checked
            .as_ref()
            .is_ok_and(|checked| cel::uses_variable(checked, "oldSelf"));
        let message = Some(&text.message_expression).filter(|message| !message.is_empty());
        let message = message.and_then(|message| {
            let checked = compile_message(message, env).ok()?;
            Program::new(checked).ok()
        });
        let field_path = Some(&text.field_path)
            .filter(|path| !path.is_empty())
            .and_then(|path| field_path::resolve(path, schema).ok());
        Rule {
            program: checked.and_then(|checked| {
                Program::new(checked).map_err(|why| format!("program instantiation failed: {why}"))
            }),
            message,
            uses_old,
            field_path,
            text,
        }
    }
}

/// What a rule may speak of.
struct Scope {
    decl: Arc<Decl>,
    plain: Env,
    optional: Env,
}

impl Scope {
    fn new(schema: &Value, resource: bool) -> Option<Scope> {
        let decl = Arc::new(Decl::from_schema(schema, "selfType", resource)?);
        let mut plain = Env::default();
        plain
            .declared("self", decl.clone())
            .declared("oldSelf", decl.clone());
        let mut optional = Env::default();
        optional
            .declared("self", decl.clone())
            .optional("oldSelf", decl.clone());
        Some(Scope {
            decl,
            plain,
            optional,
        })
    }

    fn env(&self, optional: bool) -> &Env {
        if optional {
            &self.optional
        } else {
            &self.plain
        }
    }
}

fn compile_rule(rule: &str, env: &Env) -> Result<Checked, String> {
    let checked =
        cel::compile(rule, env).map_err(|issues| format!("compilation failed: {issues}"))?;
    if *checked.output() != Type::Bool {
        return Err("cel expression must evaluate to a bool".to_owned());
    }
    Ok(checked)
}

fn compile_message(message: &str, env: &Env) -> Result<Checked, String> {
    let checked = cel::compile(message, env)
        .map_err(|issues| format!("messageExpression compilation failed: {issues}"))?;
    if *checked.output() != Type::String {
        return Err("messageExpression must evaluate to a string".to_owned());
    }
    Ok(checked)
}
