//! Types of expressions, how they are printed, and which fits where.

use std::fmt;
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Type {
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    List(Arc<Type>),
    Map(Arc<(Type, Type)>),
    /// An object with declared fields, or one of Kubernetes' values such as `kubernetes.Quantity`.
    Struct(Arc<str>),
    /// `net.IP`, `optional_type(…)`
    Opaque(Arc<str>, Arc<[Type]>),
    /// A parameter of a function's declaration.
    Param(Arc<str>),
    /// A type that the checker has yet to find.
    Var(u32),
    /// The type of a type.
    Type(Option<Arc<Type>>),
    /// What follows from something that was wrong already.
    Error,
}

impl Type {
    pub fn list(element: Type) -> Type {
        Type::List(Arc::new(element))
    }

    pub fn map(key: Type, value: Type) -> Type {
        Type::Map(Arc::new((key, value)))
    }

    pub fn optional(of: Type) -> Type {
        Type::Opaque("optional_type".into(), Arc::new([of]))
    }

    pub fn named(name: &str) -> Type {
        Type::Struct(name.into())
    }

    pub fn is_dyn(&self) -> bool {
        matches!(self, Type::Dyn)
    }

    pub fn is_dyn_or_error(&self) -> bool {
        matches!(self, Type::Dyn | Type::Error)
    }

    /// What an optional holds.
    pub fn unwrapped(&self) -> Option<&Type> {
        match self {
            Type::Opaque(name, params) if &**name == "optional_type" => params.first(),
            _ => None,
        }
    }

    /// The name by which values of this type are known while evaluating: `type(x)` prints it.
    pub fn runtime_name(&self) -> &str {
        match self {
            Type::Dyn => "dyn",
            Type::Null => "null_type",
            Type::Bool => "bool",
            Type::Int => "int",
            Type::Uint => "uint",
            Type::Double => "double",
            Type::String => "string",
            Type::Bytes => "bytes",
            Type::Duration => "google.protobuf.Duration",
            Type::Timestamp => "google.protobuf.Timestamp",
            Type::List(_) => "list",
            Type::Map(_) => "map",
            Type::Struct(name) | Type::Opaque(name, _) | Type::Param(name) => name,
            Type::Var(_) => "dyn",
            Type::Type(_) => "type",
            Type::Error => "!error!",
        }
    }

    /// Reads a type as declarations write it.
    pub(crate) fn parse(text: &str) -> Type {
        let text = text.trim();
        if let Some((head, inner)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
            let mut params = split_params(inner).map(Type::parse);
            let first = params.next().unwrap_or(Type::Dyn);
            return match head {
                "list" => Type::list(first),
                "map" => Type::map(first, params.next().unwrap_or(Type::Dyn)),
                "type" => Type::Type(Some(Arc::new(first))),
                _ => Type::Opaque(head.into(), Arc::new([first])),
            };
        }
        match text {
            "dyn" => Type::Dyn,
            "null" => Type::Null,
            "bool" => Type::Bool,
            "int" => Type::Int,
            "uint" => Type::Uint,
            "double" => Type::Double,
            "string" => Type::String,
            "bytes" => Type::Bytes,
            "duration" => Type::Duration,
            "timestamp" => Type::Timestamp,
            name if name.starts_with("net.") => Type::Opaque(name.into(), Arc::new([])),
            name if name.len() == 1 => Type::Param(name.into()),
            name => Type::Struct(name.into()),
        }
    }
}

/// `a, map(b, c)` at its outer commas.
fn split_params(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    text.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    })
}

pub(crate) fn parse_list(text: &str) -> Vec<Type> {
    if text.is_empty() {
        return Vec::new();
    }
    split_params(text).map(Type::parse).collect()
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Null => f.write_str("null"),
            Type::Duration => f.write_str("duration"),
            Type::Timestamp => f.write_str("timestamp"),
            Type::List(element) => write!(f, "list({element})"),
            Type::Map(pair) => write!(f, "map({}, {})", pair.0, pair.1),
            Type::Opaque(name, params) if !params.is_empty() => {
                write!(f, "{name}(")?;
                for (index, param) in params.iter().enumerate() {
                    let comma = if index > 0 { ", " } else { "" };
                    write!(f, "{comma}{param}")?;
                }
                f.write_str(")")
            }
            Type::Var(number) => write!(f, "_var{number}"),
            Type::Type(Some(inner)) => write!(f, "type({inner})"),
            other => f.write_str(other.runtime_name()),
        }
    }
}

/// What the checker has found out about its unknown types. Attempts that fail are undone.
#[derive(Debug, Default)]
pub(crate) struct Unifier {
    found: Vec<Option<Type>>,
    undo: Vec<(u32, Option<Type>)>,
}

impl Unifier {
    pub fn fresh(&mut self) -> Type {
        self.found.push(None);
        Type::Var(self.found.len() as u32 - 1)
    }

    fn get(&self, var: u32) -> Option<&Type> {
        self.found.get(var as usize)?.as_ref()
    }

    fn set(&mut self, var: u32, to: Type) {
        let slot = &mut self.found[var as usize];
        let before = slot.replace(to);
        self.undo.push((var, before));
    }

    /// Whether a value of one type may stand where the other is expected, learning from it.
    pub fn assignable(&mut self, to: &Type, from: &Type) -> bool {
        self.attempt(|unifier| unifier.fits(to, from))
    }

    pub fn assignable_lists(&mut self, to: &[Type], from: &[Type]) -> bool {
        self.attempt(|unifier| unifier.fit_lists(to, from))
    }

    fn attempt(&mut self, try_it: impl FnOnce(&mut Self) -> bool) -> bool {
        self.undo.clear();
        let fits = try_it(self);
        if !fits {
            while let Some((var, before)) = self.undo.pop() {
                self.found[var as usize] = before;
            }
        }
        fits
    }

    fn fit_lists(&mut self, to: &[Type], from: &[Type]) -> bool {
        to.len() == from.len() && to.iter().zip(from).all(|(to, from)| self.fits(to, from))
    }

    fn fits(&mut self, one: &Type, two: &Type) -> bool {
        if let Type::Var(var) = two {
            let (valid, known) = self.substitutes(one, *var, two);
            if valid {
                return true;
            }
            if known {
                return false;
            }
        }
        if let Type::Var(var) = one {
            return self.substitutes(two, *var, one).0;
        }
        if one.is_dyn_or_error() || two.is_dyn_or_error() {
            return true;
        }
        if *one == Type::Null || *two == Type::Null {
            let other = if *one == Type::Null { two } else { one };
            return *other == Type::Null || nullable(other);
        }
        match (one, two) {
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(a), Type::List(b)) => self.fits(a, b),
            (Type::Map(a), Type::Map(b)) => self.fits(&a.0, &b.0) && self.fits(&a.1, &b.1),
            (Type::Opaque(a, of), Type::Opaque(b, with)) => a == b && self.fit_lists(of, with),
            _ => one == two,
        }
    }

    /// Whether `with` can stand for the unknown type, and whether something was known of it.
    fn substitutes(&mut self, with: &Type, var: u32, unknown: &Type) -> (bool, bool) {
        if with == unknown {
            return (true, true);
        }
        if let Some(known) = self.get(var).cloned() {
            if *with == known {
                return (true, true);
            }
            if self.fits(with, &known) {
                let general = most_general(with, &known);
                if self.absent(var, &general) {
                    self.set(var, general);
                }
                return (true, true);
            }
            return (false, true);
        }
        if self.absent(var, with) {
            self.set(var, with.clone());
            return (true, false);
        }
        (false, false)
    }

    /// Whether the unknown type does not occur within another, which would make it endless.
    fn absent(&self, var: u32, within: &Type) -> bool {
        match within {
            Type::Var(other) if *other == var => false,
            Type::Var(other) => self.get(*other).is_none_or(|known| self.absent(var, known)),
            Type::List(of) => self.absent(var, of),
            Type::Map(pair) => self.absent(var, &pair.0) && self.absent(var, &pair.1),
            Type::Opaque(_, params) => params.iter().all(|param| self.absent(var, param)),
            Type::Type(Some(of)) => self.absent(var, of),
            _ => true,
        }
    }

    /// The type with everything put in that is known; what is unknown still may become dynamic.
    pub fn substitute(&self, of: &Type, unknown_to_dyn: bool) -> Type {
        let again = |of: &Type| self.substitute(of, unknown_to_dyn);
        match of {
            Type::Var(var) => match self.get(*var) {
                Some(known) => again(known),
                None if unknown_to_dyn => Type::Dyn,
                None => of.clone(),
            },
            Type::List(element) => Type::list(again(element)),
            Type::Map(pair) => Type::map(again(&pair.0), again(&pair.1)),
            Type::Opaque(name, params) => {
                Type::Opaque(name.clone(), params.iter().map(again).collect())
            }
            Type::Type(Some(inner)) => Type::Type(Some(Arc::new(again(inner)))),
            other => other.clone(),
        }
    }
}

/// Types for which `null` stands in, for cel-go's history's sake.
fn nullable(of: &Type) -> bool {
    matches!(
        of,
        Type::Opaque(..) | Type::Struct(_) | Type::Duration | Type::Timestamp
    )
}

pub(crate) fn most_general(one: &Type, two: &Type) -> Type {
    let chosen = if less_specific(one, two) { one } else { two };
    chosen.clone()
}

fn less_specific(one: &Type, two: &Type) -> bool {
    match (one, two) {
        (Type::Dyn | Type::Var(_), _) => true,
        (_, Type::Dyn | Type::Var(_)) => false,
        (Type::Opaque(a, of), Type::Opaque(b, with)) => {
            a == b
                && of.len() == with.len()
                && of.iter().zip(with.iter()).all(|(a, b)| less_specific(a, b))
        }
        (Type::List(a), Type::List(b)) => less_specific(a, b),
        (Type::Map(a), Type::Map(b)) => less_specific(&a.0, &b.0) && less_specific(&a.1, &b.1),
        (Type::Type(_), Type::Type(_)) => true,
        _ => one == two,
    }
}

/// Puts fresh unknown types in the place of a declaration's parameters.
pub(crate) fn instantiate(
    of: &Type,
    params: &mut Vec<(Arc<str>, Type)>,
    unifier: &mut Unifier,
) -> Type {
    match of {
        Type::Param(name) => {
            if let Some((_, var)) = params.iter().find(|(known, _)| known == name) {
                return var.clone();
            }
            let var = unifier.fresh();
            params.push((name.clone(), var.clone()));
            var
        }
        Type::List(element) => Type::list(instantiate(element, params, unifier)),
        Type::Map(pair) => Type::map(
            instantiate(&pair.0, params, unifier),
            instantiate(&pair.1, params, unifier),
        ),
        Type::Opaque(name, of) => Type::Opaque(
            name.clone(),
            of.iter()
                .map(|of| instantiate(of, params, unifier))
                .collect(),
        ),
        Type::Type(Some(inner)) => Type::Type(Some(Arc::new(instantiate(inner, params, unifier)))),
        other => other.clone(),
    }
}
