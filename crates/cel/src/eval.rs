//! Evaluation by walking the tree, with upstream's account of what each step costs.
//!
//! Upstream flattens selections into attributes: `a.b.c` is one attribute with two qualifiers, and costs three. A
//! conditional is an attribute as well, whose branches are not charged for being one.

use std::sync::Arc;

use crate::ast::{Call, Expr, Fold, List as ListNode, Literal, Node, Struct, op};
use crate::call::call;
use crate::cost;
use crate::program::{Activation, Program};
use crate::regexes;
use crate::show::plain;
use crate::value::{BuiltMap, Evaluated, Fault, Key, List, Map, Object, Value};

pub(crate) struct Evaluator<'p, 'v, 'a> {
    program: &'p Program,
    activation: &'v dyn Activation<'a>,
    scopes: Vec<(Arc<str>, Evaluated<'a>)>,
    pub cost: u64,
    limit: u64,
}

impl<'p, 'v, 'a> Evaluator<'p, 'v, 'a> {
    pub fn new(
        program: &'p Program,
        activation: &'v dyn Activation<'a>,
        limit: u64,
    ) -> Evaluator<'p, 'v, 'a> {
        Evaluator {
            program,
            activation,
            scopes: Vec::new(),
            cost: 0,
            limit,
        }
    }

    pub fn over(&self) -> bool {
        self.cost > self.limit
    }

    fn charge(&mut self, cost: u64) -> Result<(), Fault> {
        self.cost = self.cost.saturating_add(cost);
        if self.over() {
            return Err(Fault::Cancelled);
        }
        Ok(())
    }

    pub fn eval(&mut self, expr: &Expr) -> Evaluated<'a> {
        if let Some(constant) = self.program.constants.get(&expr.id) {
            return Ok(constant.clone());
        }
        match &expr.node {
            Node::Ident(_) | Node::Select(_) => self.attribute(expr),
            Node::Call(call) => self.eval_call(expr, call),
            Node::List(list) => self.eval_list(list),
            Node::Map(entries) => self.eval_map(entries),
            Node::Struct(message) => self.eval_struct(message),
            Node::Fold(fold) => self.eval_fold(fold),
            Node::Literal(_) | Node::Missing => Err(Fault::new("invalid expression")),
        }
    }

    /// An attribute looked at for itself: it costs one more than finding it.
    fn attribute(&mut self, expr: &Expr) -> Evaluated<'a> {
        let found = self.resolve(expr);
        let test = matches!(&expr.node, Node::Select(select) if select.test);
        let conditional = is_conditional_base(expr);
        if !test && !conditional && !matches!(found, Err(Fault::Cancelled)) {
            self.charge(1)?;
        }
        found
    }

    /// Finds what an attribute leads to, charging for each qualifier on the way.
    fn resolve(&mut self, expr: &Expr) -> Evaluated<'a> {
        if let Some(constant) = self.program.constants.get(&expr.id) {
            return Ok(constant.clone());
        }
        match &expr.node {
            Node::Ident(name) => self.variable(name),
            Node::Select(select) => {
                if let Some(computed) = self.computed(&select.operand, &select.field) {
                    self.charge(1)?;
                    return if select.test {
                        Ok(Value::Bool(true))
                    } else {
                        computed
                    };
                }
                let base = self.base(&select.operand)?;
                if select.test {
                    return self.test(base, &select.field);
                }
                let key = Value::text(select.field.clone());
                self.qualify(base, &key, false)
            }
            Node::Call(call) if is_qualifier(&call.function) => {
                let [operand, index] = &*call.args else {
                    return Err(Fault::NoSuchOverload);
                };
                if let Node::Literal(Literal::String(field)) = &index.node
                    && let Some(computed) = self.computed(operand, field)
                {
                    self.charge(1)?;
                    return computed.map(Value::some);
                }
                let base = self.base(operand)?;
                // UPSTREAM: an optional that is empty is never qualified, so its index is never evaluated.
                if matches!(base, Value::Optional(None)) {
                    return Ok(base);
                }
                let index = self.index(index)?;
                self.qualify(base, &index, &*call.function != op::INDEX)
            }
            Node::Call(call) if &*call.function == op::CONDITIONAL => {
                let [condition, then, otherwise] = &*call.args else {
                    return Err(Fault::NoSuchOverload);
                };
                match self.eval(condition)? {
                    Value::Bool(true) => self.base(then),
                    Value::Bool(false) => self.base(otherwise),
                    _ => Err(Fault::NoSuchOverload),
                }
            }
            _ => self.eval(expr),
        }
    }

    /// What a qualifier is applied to: an attribute is resolved without being charged for, anything else evaluated.
    fn base(&mut self, expr: &Expr) -> Evaluated<'a> {
        match &expr.node {
            Node::Select(select) if select.test => self.eval(expr),
            Node::Ident(_) | Node::Select(_) => self.resolve(expr),
            Node::Call(call)
                if is_qualifier(&call.function) || &*call.function == op::CONDITIONAL =>
            {
                self.resolve(expr)
            }
            _ => self.eval(expr),
        }
    }

    /// A field that the activation computes.
    fn computed(&self, operand: &Expr, field: &str) -> Option<Evaluated<'a>> {
        let Node::Ident(name) = &operand.node else {
            return None;
        };
        let scoped = self.scopes.iter().any(|(known, _)| known == name);
        if scoped {
            return None;
        }
        self.activation.field(name, field)
    }

    fn index(&mut self, expr: &Expr) -> Evaluated<'a> {
        self.base(expr)
    }

    fn variable(&mut self, name: &str) -> Evaluated<'a> {
        let scoped = self.scopes.iter().rev().find(|(known, _)| &**known == name);
        if let Some((_, value)) = scoped {
            return value.clone();
        }
        self.activation
            .variable(name)
            .unwrap_or_else(|| Err(Fault::new(format!("no such attribute(s): {name}"))))
    }

    fn test(&mut self, base: Value<'a>, field: &str) -> Evaluated<'a> {
        if matches!(base, Value::Optional(None)) {
            return Ok(Value::Bool(false));
        }
        let key = Value::text(field);
        let inner = match base {
            Value::Optional(Some(inner)) => (*inner).clone(),
            other => other,
        };
        self.charge(1)?;
        Ok(Value::Bool(matches!(find(&inner, &key), Ok(Some(_)))))
    }

    /// One step from a value to what it holds under a key.
    fn qualify(&mut self, base: Value<'a>, key: &Value<'a>, optional: bool) -> Evaluated<'a> {
        let (base, held) = match base {
            Value::Optional(None) => return Ok(Value::none()),
            Value::Optional(Some(inner)) => ((*inner).clone(), true),
            other => (other, false),
        };
        let found = find(&base, key);
        if held || optional {
            return match found? {
                Some(value) => {
                    self.charge(1)?;
                    let value = value?;
                    // An optional inside of another is one.
                    Ok(Value::some(value))
                }
                None => Ok(Value::none()),
            };
        }
        self.charge(1)?;
        match found? {
            Some(value) => value,
            None => Err(missing(&base, key)),
        }
    }

    fn eval_call(&mut self, expr: &Expr, call: &Call) -> Evaluated<'a> {
        match &*call.function {
            op::INDEX | op::OPT_INDEX | op::OPT_SELECT => {
                let found = self.resolve(expr);
                let conditional = is_conditional_base(expr);
                if !conditional && !matches!(found, Err(Fault::Cancelled)) {
                    self.charge(1)?;
                }
                found
            }
            op::CONDITIONAL => self.resolve(expr),
            op::AND => self.logical(&call.args, false),
            op::OR => self.logical(&call.args, true),
            op::NOT_STRICTLY_FALSE => {
                let value = call.args.first().map(|arg| self.eval(arg));
                if let Some(Err(Fault::Cancelled)) = value {
                    return Err(Fault::Cancelled);
                }
                self.charge(1)?;
                Ok(Value::Bool(!matches!(value, Some(Ok(Value::Bool(false))))))
            }
            "or" | "orValue" => self.optional_or(call),
            _ => self.apply(expr, call),
        }
    }

    fn optional_or(&mut self, call: &Call) -> Evaluated<'a> {
        let (Some(target), [otherwise]) = (&call.target, &*call.args) else {
            return Err(Fault::NoSuchOverload);
        };
        match self.eval(target)? {
            Value::Optional(None) => self.eval(otherwise),
            Value::Optional(Some(value)) if &*call.function == "orValue" => Ok((*value).clone()),
            value => Ok(value),
        }
    }

    /// `&&` and `||`: one side that decides makes an error of the other unimportant.
    fn logical(&mut self, args: &[Expr], decides: bool) -> Evaluated<'a> {
        let mut error = None;
        for arg in args {
            match self.eval(arg) {
                Ok(Value::Bool(flag)) if flag == decides => return Ok(Value::Bool(decides)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => {
                    error.get_or_insert(Fault::NoSuchOverload);
                }
                Err(Fault::Cancelled) => return Err(Fault::Cancelled),
                Err(fault) => {
                    error.get_or_insert(fault);
                }
            }
        }
        error.map_or(Ok(Value::Bool(!decides)), Err)
    }

    fn apply(&mut self, expr: &Expr, node: &Call) -> Evaluated<'a> {
        let overload = self.program.checked.overload(expr);
        if let Some(members) = self.program.members.get(&expr.id) {
            let element = self.eval(&node.args[0])?;
            let found = Key::of(&element).is_some_and(|key| members.contains(&key));
            return Ok(Value::Bool(found));
        }
        let parts = node.target.iter().chain(&node.args);
        let count = parts.clone().count();
        let mut args = Vec::with_capacity(count);
        let mut failed = None;
        for (index, part) in parts.enumerate() {
            let taken = match (index, &part.node) {
                (0, Node::Ident(name)) if &**name == crate::macros::ACCUMULATOR => {
                    self.charge(1)?;
                    self.take_accumulator()
                }
                _ => self.eval(part),
            };
            match taken {
                Ok(value) => args.push(value),
                Err(Fault::Cancelled) => return Err(Fault::Cancelled),
                Err(fault) => {
                    // UPSTREAM: up to two arguments are all evaluated, whatever became of the first; of more, those
                    // up to the one that failed. Once all are, the call is charged for as if it had been made.
                    if count > 2 && index + 1 < count {
                        return Err(fault);
                    }
                    failed.get_or_insert(fault);
                    args.push(Value::Bool(false));
                }
            }
        }
        if let Some(fault) = failed {
            self.charge(cost::call(&node.function, overload, &args, None))?;
            return Err(fault);
        }
        self.invoke(expr, node, overload, args)
    }

    fn invoke(
        &mut self,
        expr: &Expr,
        node: &Call,
        overload: &str,
        args: Vec<Value<'a>>,
    ) -> Evaluated<'a> {
        let name = &*node.function;
        // What follows from the result is charged for afterwards, everything else before.
        let by_result = matches!(name, "join" | "slice" | "lists.range" | "reverse");
        if !by_result {
            let cost = cost::call(name, overload, &args, None);
            self.charge(cost)?;
            return self.perform(expr, name, overload, args);
        }
        let result = self.perform(expr, name, overload, args.clone());
        let cost = cost::call(name, overload, &args, result.as_ref().ok());
        self.charge(cost)?;
        result
    }

    fn perform(
        &mut self,
        expr: &Expr,
        name: &str,
        overload: &str,
        args: Vec<Value<'a>>,
    ) -> Evaluated<'a> {
        match (name, overload) {
            ("matches" | "find" | "findAll", _) => self.search(expr, name, &args),
            ("sum", "list_double_sum_double") if args[0].size() == Some(0) => {
                Ok(Value::Double(0.0))
            }
            ("sum", "list_uint_sum_uint") if args[0].size() == Some(0) => Ok(Value::Uint(0)),
            ("sum", "list_duration_sum_duration") if args[0].size() == Some(0) => {
                Ok(Value::Duration(0))
            }
            _ => call(name, args, self.activation.authorizer()),
        }
    }

    /// Regular expressions, compiled before where their pattern is constant.
    fn search(&mut self, expr: &Expr, name: &str, args: &[Value<'a>]) -> Evaluated<'a> {
        let [Value::String(text), Value::String(pattern), rest @ ..] = args else {
            return Err(Fault::NoSuchOverload);
        };
        let compiled;
        let regex = match self.program.patterns.get(&expr.id) {
            Some(regex) => regex,
            None => {
                compiled = regexes::compile(pattern).map_err(|why| {
                    Fault::new(match name {
                        "matches" => why,
                        _ => format!("Illegal regex: {why}"),
                    })
                })?;
                &compiled
            }
        };
        Ok(match name {
            "matches" => Value::Bool(regex.is_match(text)),
            "find" => Value::text(regex.find(text).map_or("", |found| found.as_str())),
            _ => {
                let most = match rest {
                    [Value::Int(most)] => *most,
                    _ => -1,
                };
                let most = usize::try_from(most).unwrap_or(usize::MAX);
                let found = regex.find_iter(text).take(most);
                Value::texts(found.map(|found| found.as_str().to_owned()))
            }
        })
    }

    fn eval_list(&mut self, list: &ListNode) -> Evaluated<'a> {
        let mut items = Vec::with_capacity(list.elements.len());
        for (index, element) in list.elements.iter().enumerate() {
            let value = self.eval(element)?;
            if !list.optional.contains(&(index as u32)) {
                items.push(value);
                continue;
            }
            match value {
                Value::Optional(Some(held)) => items.push((*held).clone()),
                Value::Optional(None) => {}
                other => return Err(not_optional("list element", &other)),
            }
        }
        self.charge(cost::LIST)?;
        Ok(Value::list(items))
    }

    fn eval_map(&mut self, entries: &[crate::ast::Entry]) -> Evaluated<'a> {
        let mut made = BuiltMap::default();
        for entry in entries {
            let key = self.eval(&entry.key)?;
            let value = self.eval(&entry.value)?;
            let value = match value {
                Value::Optional(Some(held)) if entry.optional => (*held).clone(),
                Value::Optional(None) if entry.optional => {
                    made.remove(&key);
                    continue;
                }
                other if entry.optional => return Err(not_optional("map entry", &other)),
                other => other,
            };
            made.insert(key, value)?;
        }
        self.charge(cost::MAP)?;
        Ok(Value::Map(Map::Made(Arc::new(made))))
    }

    fn eval_struct(&mut self, message: &Struct) -> Evaluated<'a> {
        let mut fields = Vec::with_capacity(message.fields.len());
        for field in &message.fields {
            let value = self.eval(&field.value)?;
            let value = match value {
                Value::Optional(Some(held)) if field.optional => (*held).clone(),
                Value::Optional(None) if field.optional => continue,
                other => other,
            };
            fields.push((field.name.clone(), value));
        }
        self.charge(cost::STRUCT)?;
        Ok(Value::Object(Arc::new(Object {
            name: message.name.clone(),
            fields,
        })))
    }

    fn eval_fold(&mut self, fold: &Fold) -> Evaluated<'a> {
        let depth = self.scopes.len();
        let result = self.run_fold(fold);
        self.scopes.truncate(depth);
        result
    }

    fn run_fold(&mut self, fold: &Fold) -> Evaluated<'a> {
        let range = self.eval(&fold.range)?;
        let init = self.eval(&fold.init);
        let at = self.scopes.len();
        self.scopes.push((fold.accumulator.clone(), init));
        self.scopes.push((fold.variable.clone(), Ok(Value::Null)));
        if let Some(second) = &fold.second {
            self.scopes.push((second.clone(), Ok(Value::Null)));
        }
        match range {
            Value::List(list) => {
                for index in 0..list.len() {
                    let item = list.get(index).unwrap_or(Err(Fault::NoSuchOverload));
                    let pair = if fold.second.is_some() {
                        (Ok(Value::Int(index as i64)), Some(item))
                    } else {
                        (item, None)
                    };
                    if !self.step(fold, at, pair)? {
                        break;
                    }
                }
            }
            Value::Map(map) => {
                for (key, value) in map.entries() {
                    let second = fold.second.is_some().then_some(value);
                    if !self.step(fold, at, (Ok(key), second))? {
                        break;
                    }
                }
            }
            _ => return Err(Fault::NoSuchOverload),
        }
        self.scopes.truncate(at + 1);
        self.eval(&fold.result)
    }

    /// One turn; false when the condition says that it is enough.
    fn step(
        &mut self,
        fold: &Fold,
        at: usize,
        (first, second): (Evaluated<'a>, Option<Evaluated<'a>>),
    ) -> Result<bool, Fault> {
        self.scopes[at + 1].1 = first;
        if let Some(second) = second {
            self.scopes[at + 2].1 = second;
        }
        match self.eval(&fold.condition) {
            Ok(Value::Bool(false)) => return Ok(false),
            Err(Fault::Cancelled) => return Err(Fault::Cancelled),
            _ => {}
        }
        // Conditions and steps that are constants cost nothing: time is bounded all the same.
        let gathered = self.eval(&fold.step);
        if let Err(Fault::Cancelled) = gathered {
            return Err(Fault::Cancelled);
        }
        self.scopes[at].1 = gathered;
        Ok(true)
    }

    /// The innermost accumulator, moved out: the step that asks for it is about to replace it.
    fn take_accumulator(&mut self) -> Evaluated<'a> {
        let found = self
            .scopes
            .iter_mut()
            .rev()
            .find(|(name, _)| &**name == crate::macros::ACCUMULATOR);
        match found {
            Some((_, value)) => match value {
                // Numbers are counted, not grown, and the count is looked at again.
                Ok(Value::List(_) | Value::Map(_)) => std::mem::replace(value, Ok(Value::Null)),
                other => other.clone(),
            },
            None => Err(Fault::NoSuchOverload),
        }
    }
}

fn is_qualifier(function: &str) -> bool {
    matches!(function, op::INDEX | op::OPT_INDEX | op::OPT_SELECT)
}

/// Whether the attribute begins with a conditional, which is not charged for.
fn is_conditional_base(expr: &Expr) -> bool {
    match &expr.node {
        Node::Select(select) if !select.test => is_conditional_base(&select.operand),
        Node::Call(call) if &*call.function == op::CONDITIONAL => true,
        Node::Call(call) if is_qualifier(&call.function) => {
            call.args.first().is_some_and(is_conditional_base)
        }
        _ => false,
    }
}

/// What a value holds under a key; `None` if it has nothing there.
fn find<'a>(base: &Value<'a>, key: &Value<'a>) -> Result<Option<Evaluated<'a>>, Fault> {
    match base {
        Value::Map(Map::Made(made)) => {
            let held = made.get(key).or(made.otherwise.as_ref());
            Ok(held.cloned().map(Ok))
        }
        Value::Map(map) => Ok(map.get(key)),
        Value::List(list) => index(list, key),
        Value::Object(object) => {
            let Value::String(name) = key else {
                return Err(Fault::NoSuchOverload);
            };
            let field = object.fields.iter().find(|(known, _)| **known == **name);
            Ok(field.map(|(_, value)| Ok(value.clone())))
        }
        _ => Ok(None),
    }
}

fn index<'a>(list: &List<'a>, key: &Value<'a>) -> Result<Option<Evaluated<'a>>, Fault> {
    let at = match key {
        Value::Int(at) => *at,
        Value::Uint(at) => i64::try_from(*at).unwrap_or(i64::MAX),
        Value::Double(at) if at.trunc() == *at && at.abs() < 1e15 => *at as i64,
        other => {
            let message = format!("unsupported index type '{}' in list", other.type_name());
            return Err(Fault::new(message));
        }
    };
    Ok(usize::try_from(at).ok().and_then(|at| list.get(at)))
}

fn missing(base: &Value<'_>, key: &Value<'_>) -> Fault {
    match base {
        Value::List(_) => Fault::new(format!("index out of bounds: {}", plain(key))),
        _ => Fault::new(format!("no such key: {}", plain(key))),
    }
}

fn not_optional(what: &str, value: &Value<'_>) -> Fault {
    Fault::new(format!(
        "cannot initialize optional {what} from non-optional value {value:?}"
    ))
}
