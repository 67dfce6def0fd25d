//! A checked expression made ready to be evaluated: constants computed, patterns compiled, once.

use api::collections::HashSet;
use regex::Regex;
use rustc_hash::FxHashMap;

use crate::ast::{Expr, Literal, Node, op};
use crate::authorizer::Authorize;
use crate::check::{Checked, Reference};
use crate::convert::is_conversion;
use crate::eval::Evaluator;
use crate::regexes;
use crate::types::Type;
use crate::value::{Evaluated, Fault, Key, Text, Value};

/// The most that one evaluation may cost, as upstream has it for every call.
pub const PER_CALL_LIMIT: u64 = 1_000_000;

/// What an expression finds under its variables' names.
pub trait Activation<'a> {
    fn variable(&self, name: &str) -> Option<Evaluated<'a>>;

    /// A field of a variable whose fields are computed when they are asked for; `None` for all other variables.
    fn field(&self, _variable: &str, _field: &str) -> Option<Evaluated<'a>> {
        None
    }

    /// Who answers questions about permissions, where expressions may ask them.
    fn authorizer(&self) -> Option<&dyn Authorize> {
        None
    }
}

/// No variables at all.
#[derive(Debug, Clone, Copy)]
pub struct Nothing;

impl<'a> Activation<'a> for Nothing {
    fn variable(&self, _: &str) -> Option<Evaluated<'a>> {
        None
    }
}

/// An expression that can be evaluated any number of times.
pub struct Program {
    pub(crate) checked: Checked,
    pub(crate) constants: FxHashMap<u32, Value<'static>>,
    pub(crate) members: FxHashMap<u32, HashSet<Key>>,
    pub(crate) patterns: FxHashMap<u32, Regex>,
}

/// The value, or why there is none, and what it took.
pub struct Outcome<'a> {
    pub value: Evaluated<'a>,
    pub cost: u64,
}

impl Program {
    /// Computes constants; the error is that of the first constant that cannot be computed.
    pub fn new(checked: Checked) -> Result<Program, String> {
        let mut program = Program {
            checked,
            constants: FxHashMap::default(),
            members: FxHashMap::default(),
            patterns: FxHashMap::default(),
        };
        let mut found = Found::default();
        plan(&program.checked, &program.checked.ast.root, &mut found)?;
        program.constants = found.constants;
        program.members = found.members;
        program.patterns = found.patterns;
        Ok(program)
    }

    pub fn checked(&self) -> &Checked {
        &self.checked
    }

    /// Evaluates within `limit`.
    pub fn evaluate<'a>(&self, activation: &dyn Activation<'a>, limit: u64) -> Outcome<'a> {
        let mut evaluator = Evaluator::new(self, activation, limit);
        let value = evaluator.eval(&self.checked.ast.root);
        let value = if evaluator.over() {
            Err(Fault::Cancelled)
        } else {
            value
        };
        Outcome {
            value,
            cost: evaluator.cost,
        }
    }
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Program({} nodes)", self.checked.ast.places.len())
    }
}

#[derive(Default)]
struct Found {
    constants: FxHashMap<u32, Value<'static>>,
    members: FxHashMap<u32, HashSet<Key>>,
    patterns: FxHashMap<u32, Regex>,
}

impl Found {
    fn constant(&self, expr: &Expr) -> Option<&Value<'static>> {
        self.constants.get(&expr.id)
    }
}

/// Walks the tree from its leaves, as upstream plans it.
fn plan(checked: &Checked, expr: &Expr, found: &mut Found) -> Result<(), String> {
    match &expr.node {
        Node::Literal(literal) => {
            found.constants.insert(expr.id, literal_value(literal));
        }
        Node::Ident(_) => {
            if let (Reference::Type, Type::Type(Some(of))) =
                (checked.reference(expr), checked.type_of(expr))
            {
                found.constants.insert(expr.id, Value::Type((**of).clone()));
            }
        }
        Node::Select(select) => plan(checked, &select.operand, found)?,
        Node::Call(call) => {
            for part in call.target.iter().chain(&call.args) {
                plan(checked, part, found)?;
            }
            plan_call(checked, expr, found)?;
        }
        Node::List(list) => {
            for element in &list.elements {
                plan(checked, element, found)?;
            }
            let items: Option<Vec<Value<'static>>> = list
                .elements
                .iter()
                .map(|element| found.constant(element).cloned())
                .collect();
            if let Some(items) = items.filter(|_| list.optional.is_empty()) {
                found.constants.insert(expr.id, Value::list(items));
            }
        }
        Node::Map(entries) => {
            for entry in entries {
                plan(checked, &entry.key, found)?;
                plan(checked, &entry.value, found)?;
            }
            plan_map(expr, entries, found);
        }
        Node::Struct(message) => {
            for field in &message.fields {
                plan(checked, &field.value, found)?;
            }
        }
        Node::Fold(fold) => {
            for part in [
                &fold.init,
                &fold.range,
                &fold.condition,
                &fold.step,
                &fold.result,
            ] {
                plan(checked, part, found)?;
            }
        }
        Node::Missing => {}
    }
    Ok(())
}

fn plan_map(expr: &Expr, entries: &[crate::ast::Entry], found: &mut Found) {
    let mut made = crate::value::BuiltMap::default();
    for entry in entries {
        let (Some(key), Some(value)) = (found.constant(&entry.key), found.constant(&entry.value))
        else {
            return;
        };
        if entry.optional || made.insert(key.clone(), value.clone()).is_err() {
            return;
        }
    }
    let map = crate::value::Map::Made(std::sync::Arc::new(made));
    found.constants.insert(expr.id, Value::Map(map));
}

fn plan_call(checked: &Checked, expr: &Expr, found: &mut Found) -> Result<(), String> {
    let Node::Call(call) = &expr.node else {
        return Ok(());
    };
    let parts: Vec<&Expr> = call.target.iter().chain(&call.args).collect();
    let name = &*call.function;
    match (name, &*parts) {
        (op::IN, [_, list]) if checked.overload(expr) == "in_list" => {
            let Some(Value::List(items)) = found.constant(list) else {
                return Ok(());
            };
            if items.is_empty() {
                found.constants.insert(expr.id, Value::Bool(false));
                return Ok(());
            }
            let keys: Option<HashSet<Key>> =
                items.iter().map(|item| Key::of(&item.ok()?)).collect();
            if let Some(keys) = keys {
                found.members.insert(expr.id, keys);
            }
        }
        ("matches" | "find" | "findAll", [_, pattern, ..]) => {
            let Some(Value::String(pattern)) = found.constant(pattern) else {
                return Ok(());
            };
            let compiled = regexes::compile(pattern)?;
            found.patterns.insert(expr.id, compiled);
        }
        (_, [arg]) if is_conversion(name) && call.target.is_none() => {
            if let Some(value) = found.constant(arg).cloned() {
                let converted =
                    crate::convert::convert(name, value).map_err(|fault| fault.to_string())?;
                found.constants.insert(expr.id, converted);
            }
        }
        _ => {}
    }
    Ok(())
}

fn literal_value(literal: &Literal) -> Value<'static> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(flag) => Value::Bool(*flag),
        Literal::Int(number) => Value::Int(*number),
        Literal::Uint(number) => Value::Uint(*number),
        Literal::Double(number) => Value::Double(*number),
        Literal::String(text) => Value::String(Text::Shared(text.clone())),
        Literal::Bytes(bytes) => Value::Bytes(bytes.clone()),
    }
}
