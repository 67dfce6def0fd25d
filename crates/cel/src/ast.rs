//! Expressions as trees. Macros are gone by then: they have become comprehensions.

use std::sync::Arc;

/// A parsed expression. Nodes are numbered from one; `places` says where each stands in the text.
#[derive(Debug, Clone)]
pub struct Ast {
    pub root: Expr,
    pub places: Vec<u32>,
}

impl Ast {
    pub fn place(&self, id: u32) -> u32 {
        let place = self.places.get(id as usize).copied();
        place.unwrap_or(crate::source::NOWHERE)
    }
}

#[derive(Debug, Clone)]
pub struct Expr {
    pub id: u32,
    pub node: Node,
}

impl Expr {
    /// Shows this node and all below it to `see`, each with its depth.
    pub fn walk<'a>(&'a self, depth: usize, see: &mut dyn FnMut(&'a Expr, usize)) {
        see(self, depth);
        let mut below = |expr: &'a Expr| expr.walk(depth + 1, see);
        match &self.node {
            Node::Select(select) => below(&select.operand),
            Node::Call(call) => call.target.iter().chain(&call.args).for_each(below),
            Node::List(list) => list.elements.iter().for_each(below),
            Node::Map(entries) => entries.iter().for_each(|entry| {
                below(&entry.key);
                below(&entry.value);
            }),
            Node::Struct(message) => message.fields.iter().for_each(|field| below(&field.value)),
            Node::Fold(fold) => [
                &fold.range,
                &fold.init,
                &fold.condition,
                &fold.step,
                &fold.result,
            ]
            .into_iter()
            .for_each(below),
            Node::Literal(_) | Node::Ident(_) | Node::Missing => {}
        }
    }
}

#[derive(Debug, Clone)]
pub enum Node {
    Literal(Literal),
    Ident(Arc<str>),
    Select(Box<Select>),
    Call(Box<Call>),
    List(List),
    Map(Vec<Entry>),
    Struct(Struct),
    Fold(Box<Fold>),
    /// What was left of something that could not be parsed; it never reaches the checker.
    Missing,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
}

#[derive(Debug, Clone)]
pub struct Select {
    pub operand: Expr,
    pub field: Arc<str>,
    /// `has(operand.field)`
    pub test: bool,
}

#[derive(Debug, Clone)]
pub struct Call {
    pub function: Arc<str>,
    pub target: Option<Expr>,
    pub args: Vec<Expr>,
}

#[derive(Debug, Clone)]
pub struct List {
    pub elements: Vec<Expr>,
    /// Which elements were written `?element`.
    pub optional: Vec<u32>,
}

#[derive(Debug, Clone)]
pub struct Entry {
    pub id: u32,
    pub key: Expr,
    pub value: Expr,
    pub optional: bool,
}

#[derive(Debug, Clone)]
pub struct Struct {
    pub name: Arc<str>,
    pub fields: Vec<Field>,
}

#[derive(Debug, Clone)]
pub struct Field {
    pub id: u32,
    pub name: Arc<str>,
    pub value: Expr,
    pub optional: bool,
}

/// A comprehension: what every macro over lists and maps becomes.
#[derive(Debug, Clone)]
pub struct Fold {
    pub range: Expr,
    pub variable: Arc<str>,
    /// The value beside the key or index, in comprehensions of two variables.
    pub second: Option<Arc<str>>,
    pub accumulator: Arc<str>,
    pub init: Expr,
    pub condition: Expr,
    pub step: Expr,
    pub result: Expr,
}

impl Fold {
    /// A variable bound for one expression: a fold over nothing.
    pub fn is_binding(&self) -> bool {
        let empty = matches!(&self.range.node, Node::List(list) if list.elements.is_empty());
        let never = matches!(self.condition.node, Node::Literal(Literal::Bool(false)));
        empty && never
    }
}

/// The operators' names, as functions.
pub mod op {
    pub const CONDITIONAL: &str = "_?_:_";
    pub const AND: &str = "_&&_";
    pub const OR: &str = "_||_";
    pub const NOT: &str = "!_";
    pub const NEGATE: &str = "-_";
    pub const EQUALS: &str = "_==_";
    pub const NOT_EQUALS: &str = "_!=_";
    pub const ADD: &str = "_+_";
    pub const INDEX: &str = "_[_]";
    pub const OPT_INDEX: &str = "_[?_]";
    pub const OPT_SELECT: &str = "_?._";
    pub const IN: &str = "@in";
    pub const NOT_STRICTLY_FALSE: &str = "@not_strictly_false";
    pub const MAP_INSERT: &str = "cel.@mapInsert";
}

/// `a.b.c` as one name, if it is made of names alone.
pub fn qualified_name(expr: &Expr) -> Option<String> {
    match &expr.node {
        Node::Ident(name) => Some(name.to_string()),
        Node::Select(select) if !select.test => {
            let mut name = qualified_name(&select.operand)?;
            name.push('.');
            name.push_str(&select.field);
            Some(name)
        }
        _ => None,
    }
}
