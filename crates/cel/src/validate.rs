//! What types do not tell: literals that cannot be converted, patterns that are none, lists of mixed types, formats
//! that do not fit their arguments.

use std::collections::BTreeSet;

use crate::ast::{Expr, Literal, Node};
use crate::check::Checked;
use crate::convert::convert;
use crate::format::{Clause, Part, parse};
use crate::regexes;
use crate::source::Issues;
use crate::types::Type;
use crate::value::Value;

pub(crate) fn validate(checked: &Checked, issues: &mut Issues) {
    let mut found = Found {
        checked,
        literals: [Vec::new(), Vec::new(), Vec::new()],
        mixed: Vec::new(),
        formats: Vec::new(),
    };
    found.walk(&checked.ast.root, false);
    let [durations, timestamps, patterns] = found.literals;
    let named = [
        ("duration", durations),
        ("timestamp", timestamps),
        ("matches", patterns),
    ];
    let mut seen = BTreeSet::new();
    for (name, ids) in named {
        for id in ids {
            report(checked, issues, id, format!("invalid {name} argument"));
        }
    }
    for (id, message) in found.mixed.into_iter().chain(found.formats) {
        // Copies of one expression stand in one place.
        if seen.insert((checked.ast.place(id), message.clone())) {
            report(checked, issues, id, message);
        }
    }
}

fn report(checked: &Checked, issues: &mut Issues, id: u32, message: String) {
    issues.report(checked.ast.place(id), message);
}

struct Found<'a> {
    checked: &'a Checked,
    literals: [Vec<u32>; 3],
    mixed: Vec<(u32, String)>,
    formats: Vec<(u32, String)>,
}

impl Found<'_> {
    /// `formatted` is set within the arguments of `format`, whose list may be mixed.
    fn walk(&mut self, expr: &Expr, formatted: bool) {
        match &expr.node {
            Node::Select(select) => self.walk(&select.operand, formatted),
            Node::Call(call) => {
                self.literal_argument(&call.function, &call.args);
                if &*call.function == "format" {
                    self.format(expr, call.target.as_ref(), &call.args);
                }
                let within = formatted || &*call.function == "format";
                for part in call.target.iter().chain(&call.args) {
                    self.walk(part, within);
                }
            }
            Node::List(list) => {
                if !formatted {
                    let elements = list.elements.iter().enumerate();
                    let elements =
                        elements.map(|(index, e)| (e, list.optional.contains(&(index as u32))));
                    self.homogeneous(elements);
                }
                for element in &list.elements {
                    self.walk(element, formatted);
                }
            }
            Node::Map(entries) => {
                if !formatted {
                    self.homogeneous(entries.iter().map(|entry| (&entry.key, false)));
                    self.homogeneous(entries.iter().map(|entry| (&entry.value, entry.optional)));
                }
                for entry in entries {
                    self.walk(&entry.key, formatted);
                    self.walk(&entry.value, formatted);
                }
            }
            Node::Struct(message) => {
                for field in &message.fields {
                    self.walk(&field.value, formatted);
                }
            }
            Node::Fold(fold) => {
                for part in [
                    &fold.range,
                    &fold.init,
                    &fold.condition,
                    &fold.step,
                    &fold.result,
                ] {
                    self.walk(part, formatted);
                }
            }
            Node::Literal(_) | Node::Ident(_) | Node::Missing => {}
        }
    }

    fn literal_argument(&mut self, function: &str, args: &[Expr]) {
        let Some(Node::Literal(Literal::String(text))) = args.first().map(|arg| &arg.node) else {
            return;
        };
        let id = args[0].id;
        let value = || Value::text(text.clone());
        match function {
            "duration" if convert("duration", value()).is_err() => self.literals[0].push(id),
            "timestamp" if convert("timestamp", value()).is_err() => self.literals[1].push(id),
            "matches" if regexes::compile(text).is_err() => self.literals[2].push(id),
            _ => {}
        }
    }

    fn homogeneous<'e>(&mut self, elements: impl Iterator<Item = (&'e Expr, bool)>) {
        let mut first: Option<Type> = None;
        for (element, optional) in elements {
            let of = self.checked.type_of(element);
            let of = match of.unwrapped() {
                Some(inner) if optional => inner.clone(),
                _ => of.clone(),
            };
            match &first {
                None => first = Some(of),
                Some(before) if !equivalent(before, &of) => {
                    let message = format!("expected type '{before}' but found '{of}'");
                    self.mixed.push((element.id, message));
                    return;
                }
                Some(_) => {}
            }
        }
    }

    fn format(&mut self, expr: &Expr, target: Option<&Expr>, args: &[Expr]) {
        let (Some(target), [list]) = (target, args) else {
            return;
        };
        let (Node::Literal(Literal::String(format)), Node::List(list)) = (&target.node, &list.node)
        else {
            return;
        };
        let parts = match parse(format) {
            Ok(parts) => parts,
            Err(message) => {
                self.formats.push((expr.id, message));
                return;
            }
        };
        let mut used = 0;
        for part in parts {
            let Part::Clause(clause) = part else {
                continue;
            };
            let Some(arg) = list.elements.get(used) else {
                self.formats
                    .push((expr.id, format!("index {used} out of range")));
                return;
            };
            used += 1;
            let of = self.checked.type_of(arg);
            if !takes(clause, of) {
                let name = of.runtime_name();
                let message = crate::format::wrong_type(clause, name);
                self.formats.push((arg.id, message));
                return;
            }
        }
        let given = list.elements.len();
        if given > used {
            let message = format!(
                "too many arguments supplied to string.format (expected {used}, got {given})"
            );
            self.formats.push((expr.id, message));
        }
    }
}

fn takes(clause: Clause, of: &Type) -> bool {
    match of {
        Type::Dyn | Type::Error => true,
        Type::Int | Type::Uint => !matches!(clause, Clause::Fixed(_) | Clause::Scientific(_)),
        Type::Double => matches!(
            clause,
            Clause::String | Clause::Fixed(_) | Clause::Scientific(_)
        ),
        Type::Bool => matches!(clause, Clause::String | Clause::Binary),
        Type::String => matches!(
            clause,
            Clause::String | Clause::Hex(_) | Clause::Fixed(_) | Clause::Scientific(_)
        ),
        Type::Bytes => matches!(clause, Clause::String | Clause::Hex(_)),
        Type::Null
        | Type::Duration
        | Type::Timestamp
        | Type::List(_)
        | Type::Map(_)
        | Type::Type(_) => clause == Clause::String,
        _ => false,
    }
}

/// Types that are the same but for what is dynamic in them.
fn equivalent(one: &Type, two: &Type) -> bool {
    match (one, two) {
        (Type::List(a), Type::List(b)) => a.is_dyn() || b.is_dyn() || equivalent(a, b),
        (Type::Map(a), Type::Map(b)) => equivalent(&a.0, &b.0) && equivalent(&a.1, &b.1),
        _ => one == two,
    }
}
