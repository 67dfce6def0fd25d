//! What looks like a call and is not: `has`, the comprehensions over one and two variables, and the optionals'.

use std::sync::Arc;

use crate::ast::{Call, Expr, Fold, List, Literal, Node, Select, op};
use crate::parser::{Parser, call};

/// The hidden variable in which a comprehension gathers its result.
pub const ACCUMULATOR: &str = "@result";
/// More nodes than any text of the permitted size has by itself.
const NODES_MAX: usize = 200_000;
const UNUSED: &str = "#unused";
const SORTED: &str = "@__sortBy_input__";

/// Why a call stays one.
pub(crate) enum Unexpanded {
    Plain {
        target: Option<Expr>,
        args: Vec<Expr>,
    },
    Fault {
        at: u32,
        message: String,
    },
}

type Expanded = Result<Expr, Unexpanded>;

pub(crate) fn expand(
    parser: &mut Parser<'_>,
    id: u32,
    name: &str,
    target: Option<Expr>,
    args: Vec<Expr>,
) -> Expanded {
    let Some(target) = target else {
        if name == "has" && args.len() == 1 {
            return has(parser, id, args);
        }
        return Err(Unexpanded::Plain { target: None, args });
    };
    let mut make = Make {
        place: parser.place(id),
        parser,
    };
    match (name, args.len()) {
        ("all" | "exists" | "exists_one" | "existsOne", 2 | 3) => {
            let two = args.len() == 3;
            quantifier(&mut make, name, target, args, two)
        }
        ("map", 2 | 3) => {
            let mut args = args.into_iter();
            let variable = simple(args.next(), "argument is not an identifier")?;
            let rest: Vec<Expr> = args.collect();
            collect_list(&mut make, target, (variable, None), rest)
        }
        ("filter", 2) => filter(&mut make, target, args),
        ("transformList", 3 | 4) => {
            let (variables, rest) = pair(args)?;
            collect_list(&mut make, target, variables, rest)
        }
        ("transformMap" | "transformMapEntry", 3 | 4) => {
            let (variables, rest) = pair(args)?;
            collect_map(&mut make, target, variables, rest, name == "transformMap")
        }
        ("optMap" | "optFlatMap", 2) => opt_map(&mut make, name, target, args),
        ("sortBy", 2) => sort_by(&mut make, target, args),
        _ => Err(Unexpanded::Plain {
            target: Some(target),
            args,
        }),
    }
}

fn fault<T>(at: u32, message: impl Into<String>) -> Result<T, Unexpanded> {
    Err(Unexpanded::Fault {
        at,
        message: message.into(),
    })
}

fn has(parser: &mut Parser<'_>, id: u32, mut args: Vec<Expr>) -> Expanded {
    let Some(arg) = args.pop() else {
        return fault(id, "invalid argument to has() macro");
    };
    match arg.node {
        Node::Select(select) if !select.test => {
            let place = parser.place(id);
            let select = Select {
                test: true,
                ..*select
            };
            Ok(parser.node(place, Node::Select(Box::new(select))))
        }
        _ => fault(arg.id, "invalid argument to has() macro"),
    }
}

/// Builds nodes that all stand where the macro's call stands.
struct Make<'a, 'b> {
    parser: &'a mut Parser<'b>,
    place: u32,
}

impl Make<'_, '_> {
    fn node(&mut self, node: Node) -> Expr {
        self.parser.node(self.place, node)
    }

    fn literal(&mut self, literal: Literal) -> Expr {
        self.node(Node::Literal(literal))
    }

    fn ident(&mut self, name: &str) -> Expr {
        self.node(Node::Ident(name.into()))
    }

    fn result(&mut self) -> Expr {
        self.ident(ACCUMULATOR)
    }

    fn call(&mut self, function: &str, args: Vec<Expr>) -> Expr {
        let id = self.parser.id(self.place);
        call(id, function, args)
    }

    fn method(&mut self, function: &str, target: Expr, args: Vec<Expr>) -> Expr {
        self.node(Node::Call(Box::new(Call {
            function: function.into(),
            target: Some(target),
            args,
        })))
    }

    fn list(&mut self, elements: Vec<Expr>) -> Expr {
        self.node(Node::List(List {
            elements,
            optional: Vec::new(),
        }))
    }

    /// `variable = value in result`, as a fold over nothing.
    fn bind(&mut self, variable: &str, value: Expr, result: Expr) -> Expr {
        let range = self.list(Vec::new());
        let condition = self.literal(Literal::Bool(false));
        let step = self.ident(variable);
        self.node(Node::Fold(Box::new(Fold {
            range,
            variable: UNUSED.into(),
            second: None,
            accumulator: variable.into(),
            init: value,
            condition,
            step,
            result,
        })))
    }

    fn fold(&mut self, range: Expr, variables: Variables, parts: [Expr; 4]) -> Expr {
        let [init, condition, step, result] = parts;
        self.node(Node::Fold(Box::new(Fold {
            range,
            variable: variables.0,
            second: variables.1,
            accumulator: ACCUMULATOR.into(),
            init,
            condition,
            step,
            result,
        })))
    }

    /// The same tree with numbers of its own: no node may stand in two places.
    ///
    /// Nested `optMap`s double their targets, so the whole is bounded.
    fn copy(&mut self, expr: &Expr) -> Result<Expr, Unexpanded> {
        if self.parser.nodes() > NODES_MAX {
            return fault(expr.id, "max recursion depth exceeded");
        }
        let mut copy = expr.clone();
        self.renumber(&mut copy);
        Ok(copy)
    }

    fn renumber(&mut self, expr: &mut Expr) {
        let place = self.parser.place(expr.id);
        expr.id = self.parser.id(place);
        match &mut expr.node {
            Node::Select(select) => self.renumber(&mut select.operand),
            Node::Call(call) => {
                for part in call.target.iter_mut().chain(&mut call.args) {
                    self.renumber(part);
                }
            }
            Node::List(list) => list.elements.iter_mut().for_each(|e| self.renumber(e)),
            Node::Map(entries) => {
                for entry in entries {
                    self.renumber(&mut entry.key);
                    self.renumber(&mut entry.value);
                }
            }
            Node::Struct(message) => {
                for field in &mut message.fields {
                    self.renumber(&mut field.value);
                }
            }
            Node::Fold(fold) => {
                let fold = &mut **fold;
                for part in [
                    &mut fold.range,
                    &mut fold.init,
                    &mut fold.condition,
                    &mut fold.step,
                    &mut fold.result,
                ] {
                    self.renumber(part);
                }
            }
            Node::Literal(_) | Node::Ident(_) | Node::Missing => {}
        }
    }
}

type Variables = (Arc<str>, Option<Arc<str>>);

/// A name that may be an iteration's variable.
fn simple(arg: Option<Expr>, otherwise: &str) -> Result<Arc<str>, Unexpanded> {
    let Some(arg) = arg else {
        return fault(0, otherwise);
    };
    match arg.node {
        Node::Ident(name) if &*name == ACCUMULATOR || &*name == "__result__" => {
            fault(arg.id, "iteration variable overwrites accumulator variable")
        }
        Node::Ident(name) => Ok(name),
        _ => fault(arg.id, otherwise),
    }
}

/// The two variables of a comprehension, and the arguments after them.
fn pair(args: Vec<Expr>) -> Result<(Variables, Vec<Expr>), Unexpanded> {
    let mut args = args.into_iter();
    let first = args.next();
    let second = args.next();
    let second_id = second.as_ref().map_or(0, |arg| arg.id);
    let first = simple(first, "argument must be a simple name")?;
    let second = simple(second, "argument must be a simple name")?;
    if first == second {
        return fault(second_id, format!("duplicate variable name: {first}"));
    }
    Ok(((first, Some(second)), args.collect()))
}

fn quantifier(
    make: &mut Make<'_, '_>,
    name: &str,
    target: Expr,
    args: Vec<Expr>,
    two: bool,
) -> Expanded {
    let (variables, mut rest) = if two {
        pair(args)?
    } else {
        let mut args = args.into_iter();
        let variable = simple(args.next(), "argument must be a simple name")?;
        ((variable, None), args.collect())
    };
    let Some(predicate) = rest.pop() else {
        return fault(0, "argument must be a simple name");
    };
    let parts = match name {
        "all" => {
            let init = make.literal(Literal::Bool(true));
            let so_far = make.result();
            let condition = make.call(op::NOT_STRICTLY_FALSE, vec![so_far]);
            let so_far = make.result();
            let step = make.call(op::AND, vec![so_far, predicate]);
            [init, condition, step, make.result()]
        }
        "exists" => {
            let init = make.literal(Literal::Bool(false));
            let so_far = make.result();
            let not = make.call(op::NOT, vec![so_far]);
            let condition = make.call(op::NOT_STRICTLY_FALSE, vec![not]);
            let so_far = make.result();
            let step = make.call(op::OR, vec![so_far, predicate]);
            [init, condition, step, make.result()]
        }
        _ => {
            let init = make.literal(Literal::Int(0));
            let condition = make.literal(Literal::Bool(true));
            let (so_far, one) = (make.result(), make.literal(Literal::Int(1)));
            let more = make.call(op::ADD, vec![so_far, one]);
            let same = make.result();
            let step = make.call(op::CONDITIONAL, vec![predicate, more, same]);
            let (count, one) = (make.result(), make.literal(Literal::Int(1)));
            let result = make.call(op::EQUALS, vec![count, one]);
            [init, condition, step, result]
        }
    };
    Ok(make.fold(target, variables, parts))
}

/// `step`, but only where `filter` holds.
fn guarded(make: &mut Make<'_, '_>, filter: Option<Expr>, step: Expr) -> Expr {
    match filter {
        None => step,
        Some(filter) => {
            let same = make.result();
            make.call(op::CONDITIONAL, vec![filter, step, same])
        }
    }
}

/// `[transform]` or `[filter, transform]`.
fn split(mut rest: Vec<Expr>) -> Result<(Option<Expr>, Expr), Unexpanded> {
    match (rest.pop(), rest.pop()) {
        (Some(transform), filter) => Ok((filter, transform)),
        (None, _) => fault(0, "argument must be a simple name"),
    }
}

fn collect_list(
    make: &mut Make<'_, '_>,
    target: Expr,
    variables: Variables,
    rest: Vec<Expr>,
) -> Expanded {
    let (filter, transform) = split(rest)?;
    let init = make.list(Vec::new());
    let condition = make.literal(Literal::Bool(true));
    let (so_far, one) = (make.result(), make.list(vec![transform]));
    let step = make.call(op::ADD, vec![so_far, one]);
    let step = guarded(make, filter, step);
    let result = make.result();
    Ok(make.fold(target, variables, [init, condition, step, result]))
}

fn filter(make: &mut Make<'_, '_>, target: Expr, args: Vec<Expr>) -> Expanded {
    let mut args = args.into_iter();
    let first = args.next();
    let element = first.clone();
    let variable = simple(first, "argument is not an identifier")?;
    let (Some(element), Some(predicate)) = (element, args.next()) else {
        return fault(0, "argument is not an identifier");
    };
    collect_list(make, target, (variable, None), vec![predicate, element])
}

fn collect_map(
    make: &mut Make<'_, '_>,
    target: Expr,
    variables: Variables,
    rest: Vec<Expr>,
    keyed: bool,
) -> Expanded {
    let (filter, transform) = split(rest)?;
    let init = make.node(Node::Map(Vec::new()));
    let condition = make.literal(Literal::Bool(true));
    let mut inserted = vec![make.result()];
    if keyed {
        inserted.push(make.ident(&variables.0));
    }
    inserted.push(transform);
    let step = make.call(op::MAP_INSERT, inserted);
    let step = guarded(make, filter, step);
    let result = make.result();
    Ok(make.fold(target, variables, [init, condition, step, result]))
}

fn opt_map(make: &mut Make<'_, '_>, name: &str, target: Expr, args: Vec<Expr>) -> Expanded {
    let mut args = args.into_iter();
    let (Some(variable), Some(transform)) = (args.next(), args.next()) else {
        return fault(0, "argument must be a simple name");
    };
    let Node::Ident(variable) = variable.node else {
        let message = format!("{name}() variable name must be a simple identifier");
        return fault(variable.id, message);
    };
    let again = make.copy(&target)?;
    let present = make.method("hasValue", target, Vec::new());
    let value = make.method("value", again, Vec::new());
    let mut mapped = make.bind(&variable, value, transform);
    if name == "optMap" {
        mapped = make.call("optional.of", vec![mapped]);
    }
    let none = make.call("optional.none", Vec::new());
    Ok(make.call(op::CONDITIONAL, vec![present, mapped, none]))
}

fn sort_by(make: &mut Make<'_, '_>, target: Expr, args: Vec<Expr>) -> Expanded {
    if matches!(
        target.node,
        Node::Literal(_) | Node::Map(_) | Node::Struct(_)
    ) {
        let message = "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
        return fault(target.id, message);
    }
    let mut args = args.into_iter();
    let variable = simple(args.next(), "argument is not an identifier")?;
    let input = make.ident(SORTED);
    let keys = collect_list(make, input, (variable, None), args.collect())?;
    let input = make.ident(SORTED);
    let sorted = make.method("@sortByAssociatedKeys", input, vec![keys]);
    Ok(make.bind(SORTED, target, sorted))
}
