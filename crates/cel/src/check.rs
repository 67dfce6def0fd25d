//! Gives every node its type and every call its overloads, or says what does not fit, in cel-go's words.

use std::sync::Arc;

use crate::ast::{Ast, Call, Expr, Fold, List, Literal, Node, Select, Struct, op, qualified_name};
use crate::env::Env;
use crate::functions::{Overload, overloads};
use crate::source::Issues;
use crate::types::{Type, Unifier, instantiate, most_general};

/// A tree whose nodes have types.
#[derive(Debug)]
pub struct Checked {
    pub ast: Ast,
    types: Vec<Type>,
    references: Vec<Reference>,
}

/// What a node refers to.
#[derive(Debug, Clone, Default)]
pub(crate) enum Reference {
    #[default]
    None,
    Variable,
    /// A type, by its name.
    Type,
    Overloads(Vec<Arc<str>>),
}

impl Checked {
    pub fn type_of(&self, expr: &Expr) -> &Type {
        self.types.get(expr.id as usize).unwrap_or(&Type::Dyn)
    }

    pub fn output(&self) -> &Type {
        self.type_of(&self.ast.root)
    }

    pub(crate) fn reference(&self, expr: &Expr) -> &Reference {
        self.references
            .get(expr.id as usize)
            .unwrap_or(&Reference::None)
    }

    /// The overloads that a call might take.
    pub(crate) fn overloads(&self, expr: &Expr) -> &[Arc<str>] {
        match self.reference(expr) {
            Reference::Overloads(ids) => ids,
            _ => &[],
        }
    }

    /// The overload of a call, where the types leave just one.
    pub(crate) fn overload(&self, expr: &Expr) -> &str {
        match self.overloads(expr) {
            [one] => one,
            _ => "",
        }
    }
}

pub fn check(ast: Ast, env: &Env, issues: &mut Issues) -> Checked {
    let nodes = ast.places.len();
    let mut checker = Checker {
        env,
        places: &ast.places,
        issues,
        unifier: Unifier::default(),
        scopes: Vec::new(),
        types: vec![Type::Error; nodes],
        references: vec![Reference::None; nodes],
    };
    let mut root = ast.root.clone();
    checker.check(&mut root);
    let Checker {
        unifier,
        types,
        references,
        ..
    } = checker;
    let types = types
        .iter()
        .map(|of| unifier.substitute(of, true))
        .collect();
    Checked {
        ast: Ast {
            root,
            places: ast.places,
        },
        types,
        references,
    }
}

struct Checker<'a> {
    env: &'a Env,
    places: &'a [u32],
    issues: &'a mut Issues,
    unifier: Unifier,
    /// The variables of comprehensions around here, innermost last.
    scopes: Vec<(Arc<str>, Type)>,
    types: Vec<Type>,
    references: Vec<Reference>,
}

impl Checker<'_> {
    fn report(&mut self, id: u32, message: String) {
        let place = self.places.get(id as usize).copied();
        let place = place.unwrap_or(crate::source::NOWHERE);
        self.issues.report(place, message);
    }

    fn set(&mut self, id: u32, of: Type) {
        if let Some(slot) = self.types.get_mut(id as usize) {
            *slot = of;
        }
    }

    fn get(&self, expr: &Expr) -> Type {
        let found = self.types.get(expr.id as usize);
        found.cloned().unwrap_or(Type::Error)
    }

    fn refer(&mut self, id: u32, to: Reference) {
        if let Some(slot) = self.references.get_mut(id as usize) {
            *slot = to;
        }
    }

    fn mismatch(&mut self, id: u32, expected: &Type, actual: &Type) {
        // UPSTREAM: what is printed still has its unknown types in it, unless they are substituted already.
        self.report(
            id,
            format!("expected type '{expected}' but found '{actual}'"),
        );
    }

    fn undeclared(&mut self, id: u32, name: &str) {
        self.set(id, Type::Error);
        self.report(
            id,
            format!("undeclared reference to '{name}' (in container '')"),
        );
    }

    fn check(&mut self, expr: &mut Expr) {
        let id = expr.id;
        match &mut expr.node {
            Node::Literal(literal) => {
                let of = literal_type(literal);
                self.set(id, of);
            }
            Node::Ident(name) => match self.lookup(name) {
                Some((of, reference)) => {
                    self.set(id, of);
                    self.refer(id, reference);
                    if let Some(plain) = name.strip_prefix('.') {
                        *name = plain.into();
                    }
                }
                None => {
                    let name = name.clone();
                    self.undeclared(id, &name);
                }
            },
            Node::Select(_) => self.check_select(expr),
            Node::Call(_) => self.check_call(expr),
            Node::List(list) => self.check_list(id, list),
            Node::Map(_) => self.check_map(expr),
            Node::Struct(message) => self.check_struct(id, message),
            Node::Fold(fold) => self.check_fold(id, fold),
            Node::Missing => {}
        }
    }

    fn lookup(&self, name: &str) -> Option<(Type, Reference)> {
        let name = name.strip_prefix('.').unwrap_or(name);
        let scoped = self.scopes.iter().rev().find(|(known, _)| &**known == name);
        if let Some((_, of)) = scoped {
            return Some((of.clone(), Reference::Variable));
        }
        if let Some(of) = self.env.variable_type(name) {
            return Some((of.clone(), Reference::Variable));
        }
        let named = self.env.named_type(name)?;
        Some((Type::Type(Some(Arc::new(named))), Reference::Type))
    }

    fn check_select(&mut self, expr: &mut Expr) {
        let id = expr.id;
        if let Some(name) = qualified_name(expr)
            && let Some((of, reference)) = self.lookup(&name)
        {
            self.set(id, of);
            self.refer(id, reference);
            expr.node = Node::Ident(name.trim_start_matches('.').into());
            return;
        }
        let Node::Select(select) = &mut expr.node else {
            return;
        };
        let Select {
            operand,
            field,
            test,
        } = &mut **select;
        let found = self.select_field(id, operand, field, false);
        let of = if *test { Type::Bool } else { found };
        let of = self.unifier.substitute(&of, false);
        self.set(id, of);
    }

    fn select_field(&mut self, id: u32, operand: &mut Expr, field: &str, optional: bool) -> Type {
        self.check(operand);
        let operand = self.unifier.substitute(&self.get(operand), false);
        let (target, held) = match operand.unwrapped() {
            Some(inner) => (inner.clone(), true),
            None => (operand, false),
        };
        let found = match &target {
            Type::Map(pair) => pair.1.clone(),
            Type::Struct(name) => self.field_type(id, name, field),
            Type::Var(_) => {
                self.unifier.assignable(&Type::Dyn, &target);
                Type::Dyn
            }
            _ => {
                if !target.is_dyn_or_error() {
                    let message = format!("type '{target}' does not support field selection");
                    self.report(id, message);
                }
                Type::Dyn
            }
        };
        if held || optional {
            return Type::optional(found);
        }
        found
    }

    fn field_type(&mut self, id: u32, of: &str, field: &str) -> Type {
        match self.env.field(of, field) {
            Some(Some(found)) => found,
            Some(None) => {
                self.report(id, format!("undefined field '{field}'"));
                Type::Error
            }
            None => {
                self.report(id, format!("unexpected failed resolution of '{of}'"));
                Type::Error
            }
        }
    }

    fn check_call(&mut self, expr: &mut Expr) {
        let id = expr.id;
        let Node::Call(call) = &mut expr.node else {
            return;
        };
        let Call {
            function,
            target,
            args,
        } = &mut **call;
        if &**function == op::OPT_SELECT {
            self.check_opt_select(id, args);
            return;
        }
        for arg in args.iter_mut() {
            self.check(arg);
        }
        let Some(receiver) = target else {
            let name = function.strip_prefix('.').unwrap_or(function);
            match overloads(name, self.env.mutating) {
                Some(found) => {
                    *function = name.into();
                    self.resolve(id, function, found, None, args);
                }
                None => {
                    let name = function.clone();
                    self.undeclared(id, &name);
                }
            }
            return;
        };
        // A function whose name has dots looks like a method of something.
        let qualified = qualified_name(receiver).map(|prefix| format!("{prefix}.{function}"));
        if let Some(name) = qualified {
            let name = name.strip_prefix('.').unwrap_or(&name);
            if let Some(found) = overloads(name, self.env.mutating) {
                *function = name.into();
                *target = None;
                self.resolve(id, function, found, None, args);
                return;
            }
        }
        self.check(receiver);
        match overloads(function, self.env.mutating) {
            Some(found) => self.resolve(id, function, found, Some(receiver), args),
            None => {
                let name = function.clone();
                self.undeclared(id, &name);
            }
        }
    }

    fn check_opt_select(&mut self, id: u32, args: &mut [Expr]) {
        let [operand, field] = args else {
            return;
        };
        let Node::Literal(Literal::String(name)) = &field.node else {
            return;
        };
        let name = name.clone();
        self.set(field.id, Type::String);
        let found = self.select_field(id, operand, &name, true);
        let found = self.unifier.substitute(&found, false);
        self.set(id, found);
        self.refer(
            id,
            Reference::Overloads(vec!["select_optional_field".into()]),
        );
    }

    fn resolve(
        &mut self,
        id: u32,
        function: &str,
        declared: &'static [Overload],
        target: Option<&Expr>,
        args: &[Expr],
    ) {
        if matches!(function, op::AND | op::OR) {
            return self.resolve_logical(id, declared, args);
        }
        let parts = target.into_iter().chain(args);
        let types: Vec<Type> = parts.map(|arg| self.get(arg)).collect();
        let mut result: Option<Type> = None;
        let mut ids = Vec::new();
        for overload in declared {
            if overload.method != target.is_some() || overload.args.len() != types.len() {
                continue;
            }
            let mut params = Vec::new();
            let wanted: Vec<Type> = overload
                .args
                .iter()
                .map(|arg| instantiate(arg, &mut params, &mut self.unifier))
                .collect();
            let gives = instantiate(&overload.result, &mut params, &mut self.unifier);
            if !self.unifier.assignable_lists(&types, &wanted) {
                continue;
            }
            ids.push(overload.id.clone());
            let gives = self.unifier.substitute(&gives, false);
            result = Some(match result {
                None => gives,
                Some(before) if before.is_dyn() || before == gives => before,
                Some(_) => Type::Dyn,
            });
        }
        match result {
            Some(of) => {
                self.set(id, of);
                self.refer(id, Reference::Overloads(ids));
            }
            None => self.no_overload(id, function, &types, target.is_some()),
        }
    }

    fn resolve_logical(&mut self, id: u32, declared: &'static [Overload], args: &[Expr]) {
        let mut fits = true;
        for arg in args {
            let of = self.get(arg);
            if !self.unifier.assignable(&of, &Type::Bool) {
                self.mismatch(arg.id, &Type::Bool, &of);
                fits = false;
            }
        }
        let of = if fits { Type::Bool } else { Type::Error };
        self.set(id, of);
        let ids = declared.iter().map(|overload| overload.id.clone());
        self.refer(id, Reference::Overloads(ids.collect()));
    }

    fn no_overload(&mut self, id: u32, function: &str, types: &[Type], method: bool) {
        self.set(id, Type::Error);
        let shown: Vec<String> = types
            .iter()
            .map(|of| self.unifier.substitute(of, true).to_string())
            .collect();
        let signature = match shown.split_first() {
            Some((target, args)) if method => format!("{target}.({})", args.join(", ")),
            _ => format!("({})", shown.join(", ")),
        };
        self.report(
            id,
            format!("found no matching overload for '{function}' applied to '{signature}'"),
        );
    }

    /// The type of an element or value that was written with a question mark.
    fn held(&mut self, expr: &Expr, optional: bool) -> Type {
        let of = self.get(expr);
        if !optional {
            return of;
        }
        match of.unwrapped() {
            Some(inner) => inner.clone(),
            None => {
                if !of.is_dyn() {
                    self.mismatch(expr.id, &Type::optional(of.clone()), &of);
                }
                of
            }
        }
    }

    fn check_list(&mut self, id: u32, list: &mut List) {
        let mut element: Option<Type> = None;
        for (index, expr) in list.elements.iter_mut().enumerate() {
            self.check(expr);
            let of = self.held(expr, list.optional.contains(&(index as u32)));
            element = Some(self.join(expr.id, element, of));
        }
        let element = element.unwrap_or_else(|| self.unifier.fresh());
        self.set(id, Type::list(element));
    }

    fn check_map(&mut self, expr: &mut Expr) {
        let id = expr.id;
        let Node::Map(entries) = &mut expr.node else {
            return;
        };
        let (mut key, mut value) = (None, None);
        for entry in entries {
            self.check(&mut entry.key);
            let of = self.get(&entry.key);
            key = Some(self.join(entry.key.id, key, of));
            self.check(&mut entry.value);
            let of = self.held(&entry.value, entry.optional);
            value = Some(self.join(entry.value.id, value, of));
        }
        let key = key.unwrap_or_else(|| self.unifier.fresh());
        let value = value.unwrap_or_else(|| self.unifier.fresh());
        self.set(id, Type::map(key, value));
    }

    fn join(&mut self, _id: u32, before: Option<Type>, now: Type) -> Type {
        match before {
            None => now,
            Some(before) if self.unifier.assignable(&before, &now) => most_general(&before, &now),
            Some(_) => Type::Dyn,
        }
    }

    fn check_struct(&mut self, id: u32, message: &mut Struct) {
        let plain = message.name.strip_prefix('.').unwrap_or(&message.name);
        let name: Arc<str> = plain.into();
        let Some((of, _)) = self.lookup(&name) else {
            let name = message.name.clone();
            return self.undeclared(id, &name);
        };
        message.name = name.clone();
        let of = match of {
            Type::Type(Some(of)) if matches!(*of, Type::Struct(_)) => (*of).clone(),
            Type::Type(Some(of)) => {
                self.report(id, format!("'{}' is not a message type", of.runtime_name()));
                Type::Error
            }
            other => {
                self.report(id, format!("'{other}' is not a type"));
                Type::Error
            }
        };
        self.set(id, of);
        self.refer(id, Reference::Type);
        for field in &mut message.fields {
            self.check(&mut field.value);
            let wanted = self.field_type(field.id, &name, &field.name);
            let given = self.held(&field.value, field.optional);
            if !self.unifier.assignable(&wanted, &given) {
                let shown = format!(
                    "expected type of field '{}' is '{wanted}' but provided type is '{given}'",
                    field.name
                );
                self.report(field.id, shown);
            }
        }
    }

    fn check_fold(&mut self, id: u32, fold: &mut Fold) {
        self.check(&mut fold.range);
        self.check(&mut fold.init);
        let range = self.unifier.substitute(&self.get(&fold.range), false);
        let gathered = self.get(&fold.init);
        let outer = self.scopes.len();
        self.scopes
            .push((fold.accumulator.clone(), gathered.clone()));
        let two = fold.second.is_some();
        let (first, second) = match &range {
            Type::List(element) if two => (Type::Int, (**element).clone()),
            Type::List(element) => ((**element).clone(), Type::Error),
            Type::Map(pair) => (pair.0.clone(), pair.1.clone()),
            Type::Dyn | Type::Error | Type::Var(_) => {
                self.unifier.assignable(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            _ => {
                let message = format!(
                    "expression of type '{range}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.report(fold.range.id, message);
                (Type::Error, Type::Error)
            }
        };
        let inner = self.scopes.len();
        self.scopes.push((fold.variable.clone(), first));
        if let Some(name) = &fold.second {
            self.scopes.push((name.clone(), second));
        }
        self.check(&mut fold.condition);
        self.assert(&fold.condition, &Type::Bool);
        self.check(&mut fold.step);
        self.assert(&fold.step, &gathered);
        self.scopes.truncate(inner);
        self.check(&mut fold.result);
        self.scopes.truncate(outer);
        let of = self.unifier.substitute(&self.get(&fold.result), false);
        self.set(id, of);
    }

    fn assert(&mut self, expr: &Expr, wanted: &Type) {
        let of = self.get(expr);
        if !self.unifier.assignable(wanted, &of) {
            self.mismatch(expr.id, wanted, &of);
        }
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}
