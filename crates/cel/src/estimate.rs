//! What an expression can cost at most, before it has ever run: from the sizes that schemas permit.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::ast::{Call, Expr, Fold, Literal, Node};
use crate::check::Checked;
use crate::cost::{LIST, MAP, STRUCT, TRAVERSE};
use crate::env::Env;
use crate::estimate_calls as calls;
use crate::types::Type;

/// From the least to the most; used for sizes and for costs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Range {
    pub min: u64,
    pub max: u64,
}

impl Range {
    pub const UNKNOWN: Range = Range {
        min: 0,
        max: u64::MAX,
    };

    pub const fn fixed(value: u64) -> Range {
        Range {
            min: value,
            max: value,
        }
    }

    pub fn plus(self, other: Range) -> Range {
        Range {
            min: self.min.saturating_add(other.min),
            max: self.max.saturating_add(other.max),
        }
    }

    pub fn times(self, other: Range) -> Range {
        Range {
            min: self.min.saturating_mul(other.min),
            max: self.max.saturating_mul(other.max),
        }
    }

    pub fn scaled(self, factor: f64) -> Range {
        let scale = |value: u64| {
            let scaled = (value as f64 * factor).ceil();
            if scaled >= 18_446_744_073_709_551_616.0 {
                u64::MAX
            } else {
                scaled as u64
            }
        };
        Range {
            min: scale(self.min),
            max: scale(self.max),
        }
    }

    pub fn union(self, other: Range) -> Range {
        Range {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }
}

/// Estimates a checked expression.
pub fn estimate(checked: &Checked, env: &Env) -> Range {
    let mut coster = Coster {
        checked,
        env,
        paths: FxHashMap::default(),
        sizes: FxHashMap::default(),
        entries: FxHashMap::default(),
        locals: Vec::new(),
    };
    coster.cost(&checked.ast.root)
}

pub(crate) type Path = Vec<Arc<str>>;

/// How big the keys and values of something are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entries {
    list: bool,
    key: Range,
    value: Range,
}

struct Local {
    name: Arc<str>,
    path: Path,
    size: Option<Range>,
    entries: Option<Entries>,
}

pub(crate) struct Coster<'a> {
    checked: &'a Checked,
    env: &'a Env,
    paths: FxHashMap<u32, Path>,
    sizes: FxHashMap<u32, Range>,
    entries: FxHashMap<u32, Entries>,
    locals: Vec<Local>,
}

/// An argument of a call, as cost functions look at it.
pub(crate) struct Part<'a> {
    pub expr: &'a Expr,
    pub of: Type,
    pub path: Option<Path>,
    /// What was computed from the expression itself.
    pub computed: Option<Range>,
}

/// A call's own cost, and how big its result is.
pub(crate) struct CallCost {
    pub cost: Range,
    pub size: Option<Range>,
}

impl Coster<'_> {
    fn cost(&mut self, expr: &Expr) -> Range {
        match &expr.node {
            Node::Literal(_) | Node::Missing => Range::default(),
            Node::Ident(name) => {
                let local = self.local(name).map(|local| local.path.clone());
                let path = local.unwrap_or_else(|| vec![name.clone()]);
                self.paths.insert(expr.id, path);
                Range::fixed(1)
            }
            Node::Select(select) => {
                let mut sum = self.cost(&select.operand);
                if select.test {
                    return sum;
                }
                let target = self.checked.type_of(&select.operand);
                if matches!(target, Type::Map(_) | Type::Struct(_)) {
                    sum = sum.plus(Range::fixed(1));
                }
                let mut path = self.path(&select.operand);
                path.push(select.field.clone());
                self.paths.insert(expr.id, path);
                sum
            }
            Node::Call(call) => self.cost_call(expr, call),
            Node::List(list) => {
                let mut sum = Range::default();
                let mut item = Range {
                    min: u64::MAX,
                    max: 0,
                };
                if list.elements.is_empty() {
                    item.min = 0;
                }
                for element in &list.elements {
                    sum = sum.plus(self.cost(element));
                    item = item.union(self.size_or_unknown(element));
                }
                let entries = Entries {
                    list: true,
                    key: Range::fixed(1),
                    value: item,
                };
                self.entries.insert(expr.id, entries);
                sum.plus(Range::fixed(LIST))
            }
            Node::Map(entries) => self.cost_map(expr, entries),
            Node::Struct(message) => {
                let fields = message.fields.iter();
                let sum = fields.fold(Range::default(), |sum, field| {
                    sum.plus(self.cost(&field.value))
                });
                sum.plus(Range::fixed(STRUCT))
            }
            Node::Fold(fold) => self.cost_fold(expr, fold),
        }
    }

    fn cost_map(&mut self, expr: &Expr, entries: &[crate::ast::Entry]) -> Range {
        let least = if entries.is_empty() { 0 } else { u64::MAX };
        let mut key = Range { min: least, max: 0 };
        let mut value = key;
        let mut sum = Range::default();
        for entry in entries {
            sum = sum
                .plus(self.cost(&entry.key))
                .plus(self.cost(&entry.value));
            key = key.union(self.size_or_unknown(&entry.key));
            value = value.union(self.size_or_unknown(&entry.value));
        }
        let entries = Entries {
            list: false,
            key,
            value,
        };
        self.entries.insert(expr.id, entries);
        sum.plus(Range::fixed(MAP))
    }

    fn cost_fold(&mut self, expr: &Expr, fold: &Fold) -> Range {
        let mut sum = self.cost(&fold.range).plus(self.cost(&fold.init));
        let depth = self.locals.len();
        let gathered = Local {
            name: fold.accumulator.clone(),
            path: self.path(&fold.init),
            size: self.size(&fold.init),
            entries: self.entries_of(&fold.init),
        };
        self.locals.push(gathered);
        if fold.is_binding() && &*fold.accumulator != "__result__" {
            sum = sum.plus(self.cost(&fold.result));
            self.locals.truncate(depth);
            if let Some(size) = self.size(&fold.result) {
                self.sizes.insert(expr.id, size);
            }
            if let Some(entries) = self.entries_of(&fold.result) {
                self.entries.insert(expr.id, entries);
            }
            return sum;
        }
        self.push_variables(fold);
        let turn = self.cost(&fold.condition).plus(self.cost(&fold.step));
        self.locals.truncate(depth + 1);
        sum = sum.plus(self.cost(&fold.result));
        self.locals.truncate(depth);
        let turns = self.size_or_unknown(&fold.range);
        sum = sum.plus(turns.times(turn));
        match &fold.init.node {
            Node::Literal(_) => {
                if let Some(size) = self.size(&fold.init) {
                    self.sizes.insert(expr.id, size);
                }
            }
            Node::List(_) | Node::Map(_) => {
                self.sizes.insert(expr.id, turns);
                if let Some(entries) = self.entries_of(&fold.step) {
                    self.entries.insert(expr.id, entries);
                }
            }
            _ => {}
        }
        sum
    }

    fn push_variables(&mut self, fold: &Fold) {
        let entries = self.entries_of(&fold.range);
        let list = match entries {
            Some(entries) => entries.list,
            None => matches!(self.checked.type_of(&fold.range), Type::List(_)),
        };
        let path = self.path(&fold.range);
        let key = entries.map(|entries| entries.key);
        let value = entries.map(|entries| entries.value);
        let local = |name: &Arc<str>, step: &str, size| {
            let mut path = path.clone();
            path.push(step.into());
            Local {
                name: name.clone(),
                path,
                size,
                entries: None,
            }
        };
        let items = if list { "@items" } else { "@values" };
        let keys = if list { "@indices" } else { "@keys" };
        match &fold.second {
            Some(second) => {
                let first = local(&fold.variable, keys, key);
                let second = local(second, items, value);
                self.locals.push(first);
                self.locals.push(second);
            }
            None => {
                let (step, size) = if list {
                    ("@items", value)
                } else {
                    ("@keys", key)
                };
                let only = local(&fold.variable, step, size);
                self.locals.push(only);
            }
        }
    }

    fn cost_call(&mut self, expr: &Expr, call: &Call) -> Range {
        if &*call.function == "dyn"
            && let [arg] = &*call.args
        {
            let cost = self.cost(arg).plus(Range::fixed(1));
            if let Some(size) = self.size(arg) {
                self.sizes.insert(expr.id, size);
            }
            if let Some(entries) = self.entries_of(arg) {
                self.entries.insert(expr.id, entries);
            }
            return cost;
        }
        let costs: Vec<Range> = call.args.iter().map(|arg| self.cost(arg)).collect();
        let args: Vec<Part<'_>> = call.args.iter().map(|arg| self.part(arg)).collect();
        let overloads = self.checked.overloads(expr);
        if overloads.is_empty() {
            return Range::default();
        }
        let mut sum = Range::default();
        let mut target = None;
        if let Some(receiver) = &call.target {
            sum = self.cost(receiver);
            target = Some(self.part(receiver));
        }
        let mut own = Range {
            min: u64::MAX,
            max: 0,
        };
        let mut size: Option<Range> = None;
        for overload in overloads {
            let found = self.overload_cost(expr, call, overload, target.as_ref(), &args, &costs);
            own = own.union(found.cost);
            if let Some(found) = found.size {
                size = Some(size.map_or(found, |size| size.union(found)));
            }
            let step = match &**overload {
                "index_list" => Some("@items"),
                "index_map" => Some("@values"),
                _ => None,
            };
            if let (Some(step), Some(base)) = (step, call.args.first()) {
                size = self.entries_of(base).map(|entries| entries.value);
                let mut path = self.path(base);
                path.push(step.into());
                self.paths.insert(expr.id, path);
            }
            if size.is_none() {
                size = self.size(expr);
            }
        }
        if let Some(size) = size {
            self.sizes.insert(expr.id, size);
        }
        sum.plus(own)
    }

    fn overload_cost(
        &mut self,
        expr: &Expr,
        call: &Call,
        overload: &str,
        target: Option<&Part<'_>>,
        args: &[Part<'_>],
        costs: &[Range],
    ) -> CallCost {
        let all = costs
            .iter()
            .fold(Range::default(), |sum, cost| sum.plus(*cost));
        let sizes = |part: &Part<'_>| self.part_size(part);
        let known = calls::by_overload(overload, target, args, &sizes).or_else(|| {
            calls::by_function(&call.function, overload, target, args, &sizes, &|part| {
                self.element_of(part)
            })
        });
        if let Some(known) = known {
            return CallCost {
                cost: known.cost.plus(all),
                size: known.size,
            };
        }
        match overload {
            "logical_or" | "logical_and" => {
                let cost = Range {
                    min: costs[0].min,
                    max: costs[0].plus(costs[1]).max,
                };
                CallCost { cost, size: None }
            }
            "conditional" => {
                let unknown = Range::UNKNOWN;
                let size = args[1].computed.unwrap_or(unknown);
                let size = size.union(args[2].computed.unwrap_or(unknown));
                if let (Some(one), Some(two)) = (
                    self.entries_of(&call.args[1]),
                    self.entries_of(&call.args[2]),
                ) {
                    self.entries.insert(expr.id, joined(one, two));
                }
                CallCost {
                    cost: costs[0].plus(costs[1].union(costs[2])),
                    size: Some(size),
                }
            }
            "add_string" | "add_bytes" | "add_list" => {
                let unknown = Range::UNKNOWN;
                let size = args[0].computed.unwrap_or(unknown);
                let size = size.plus(args[1].computed.unwrap_or(unknown));
                if let (Some(one), Some(two)) = (
                    self.entries_of(&call.args[0]),
                    self.entries_of(&call.args[1]),
                ) {
                    self.entries.insert(expr.id, joined(one, two));
                }
                let own = if overload == "add_list" {
                    Range::fixed(1)
                } else {
                    size.scaled(TRAVERSE)
                };
                CallCost {
                    cost: own.plus(all),
                    size: Some(size),
                }
            }
            _ => {
                let own = calls::plain(overload, target, args);
                CallCost {
                    cost: own.cost.plus(all),
                    size: own.size,
                }
            }
        }
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|local| &*local.name == name)
    }

    fn path(&self, expr: &Expr) -> Path {
        if let Node::Ident(name) = &expr.node
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&expr.id).cloned().unwrap_or_default()
    }

    fn part<'e>(&mut self, expr: &'e Expr) -> Part<'e> {
        let path = self.path(expr);
        let hidden = path
            .first()
            .is_some_and(|first| &**first == crate::macros::ACCUMULATOR);
        Part {
            expr,
            of: self.checked.type_of(expr).clone(),
            path: (!hidden && !path.is_empty()).then_some(path),
            computed: self.size(expr),
        }
    }

    fn schema_size(&self, path: &Path) -> Option<Range> {
        let first = path.first()?;
        // UPSTREAM: what has no variable behind it is taken for the root of the schema.
        let decl = self.env.decl(first).or_else(|| self.env.first_decl())?;
        let max = decl.size_at(path)?;
        Some(Range { min: 0, max })
    }

    fn part_size(&self, part: &Part<'_>) -> Range {
        let by_schema = || part.path.as_ref().and_then(|path| self.schema_size(path));
        part.computed.or_else(by_schema).unwrap_or(Range::UNKNOWN)
    }

    /// The type and the size of a list's elements.
    fn element_of(&self, part: &Part<'_>) -> Option<(Type, Range)> {
        let of = match &part.of {
            Type::List(element) => (**element).clone(),
            Type::Map(pair) => pair.0.clone(),
            Type::Opaque(_, params) => params.first()?.clone(),
            _ => return None,
        };
        let path = part.path.clone().map(|mut path| {
            path.push("@items".into());
            path
        });
        let size = path.and_then(|path| self.schema_size(&path));
        Some((of, size.unwrap_or(Range::UNKNOWN)))
    }

    fn size_or_unknown(&mut self, expr: &Expr) -> Range {
        self.size(expr).unwrap_or(Range::UNKNOWN)
    }

    fn size(&mut self, expr: &Expr) -> Option<Range> {
        if let Some(size) = self.sizes.get(&expr.id) {
            return Some(*size);
        }
        if let Some(size) = literal_size(expr) {
            return Some(Range::fixed(size));
        }
        let path = self.path(expr);
        if let Some(size) = self.schema_size(&path) {
            self.sizes.insert(expr.id, size);
            return Some(size);
        }
        if is_scalar(self.checked.type_of(expr)) {
            return Some(Range::fixed(1));
        }
        match &expr.node {
            Node::Ident(name) => self.local(name)?.size,
            _ => None,
        }
    }

    fn entries_of(&self, expr: &Expr) -> Option<Entries> {
        if let Some(entries) = self.entries.get(&expr.id) {
            return Some(*entries);
        }
        match &expr.node {
            Node::Ident(name) => self.local(name)?.entries,
            _ => None,
        }
    }
}

fn joined(one: Entries, two: Entries) -> Entries {
    Entries {
        list: one.list,
        key: one.key.union(two.key),
        value: one.value.union(two.value),
    }
}

fn literal_size(expr: &Expr) -> Option<u64> {
    Some(match &expr.node {
        Node::Literal(Literal::String(text)) => text.chars().count() as u64,
        Node::Literal(Literal::Bytes(bytes)) => bytes.len() as u64,
        Node::Literal(_) => 1,
        Node::List(list) => list.elements.len() as u64,
        Node::Map(entries) => entries.len() as u64,
        _ => return None,
    })
}

fn is_scalar(of: &Type) -> bool {
    match of {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => {
            true
        }
        other => other.unwrapped().is_some_and(is_scalar),
    }
}

/// The constant of a call's argument.
pub(crate) fn int_literal(expr: &Expr) -> Option<i64> {
    match &expr.node {
        Node::Literal(Literal::Int(number)) => Some(*number),
        _ => None,
    }
}
