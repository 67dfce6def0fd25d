//! The Common Expression Language as Kubernetes 1.36 speaks it.
//!
//! From text to value in steps, each in a module of its own: [`source`] and [`lexer`] and [`parser`] (with [`macros`])
//! make a tree of the text, [`check`] gives its nodes types, [`validate`] looks at what types do not tell,
//! `estimate` says what it can cost at most, `program` computes constants, `eval` evaluates and accounts.
//!
//! It behaves as cel-go 0.26 with Kubernetes' libraries at compatibility version 1.35: messages, positions, types,
//! estimated and actual costs. `tests/golden` holds what upstream's own engine answered.
//!
//! Everything is bounded, for expressions come from users: the text, nesting, nodes, the size of compiled patterns,
//! and the cost of an evaluation. Nothing in here does IO or knows an API server.

pub mod admission;
mod ast;
mod authorizer;
mod call;
mod check;
mod convert;
mod cost;
mod data;
mod decl;
mod env;
mod escape;
mod estimate;
mod estimate_calls;
mod eval;
mod format;
mod formats;
mod functions;
mod kube;
mod lexer;
mod lists;
mod literal;
mod macros;
mod net;
mod operators;
mod parser;
mod precedence;
mod program;
mod regexes;
mod semver;
mod show;
mod source;
mod text;
mod types;
mod url;
mod validate;
mod value;

#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use authorizer::{Asker, Authorize, Check, Decision, Resource};
pub use check::Checked;
pub use data::{dynamic, typed};
pub use decl::{Decl, Field, Kind, ListType};
pub use env::Env;
pub use escape::{escape, is_identifier, unescape};
pub use estimate::{Range, estimate};
pub use kube::Kube;
pub use program::{Activation, Nothing, Outcome, PER_CALL_LIMIT, Program};
pub use regexes::{
    complaint as pattern_complaint, repeats_too_often, translate as translate_pattern,
};
pub use semver::Semver;
pub use source::{Issue, Issues, Source};
pub use types::Type;
pub use url::Url;
pub use value::{Evaluated, Fault, Instant, List, Map, Object, Text, Value};

/// Parses and checks an expression; the error is what cel-go prints.
pub fn compile(text: &str, env: &Env) -> Result<Checked, String> {
    let source = Source::new(text);
    let mut issues = Issues::default();
    let ast = parser::parse(&source, &mut issues);
    if !issues.is_empty() {
        return Err(issues.display(&source));
    }
    let checked = check::check(ast, env, &mut issues);
    if issues.is_empty() {
        validate::validate(&checked, &mut issues);
    }
    if !issues.is_empty() {
        return Err(issues.display(&source));
    }
    Ok(checked)
}

/// Whether a checked expression uses a variable, as rules about changes use `oldSelf`.
pub fn uses_variable(checked: &Checked, name: &str) -> bool {
    let mut found = false;
    checked.ast.root.walk(1, &mut |expr, _| {
        found |= matches!(&expr.node, ast::Node::Ident(known) if &**known == name);
    });
    found
}

/// The fields that a checked expression selects from a variable, each once.
pub fn selected_fields(checked: &Checked, variable: &str) -> std::collections::BTreeSet<Arc<str>> {
    let mut fields = std::collections::BTreeSet::new();
    let is_it =
        |expr: &ast::Expr| matches!(&expr.node, ast::Node::Ident(known) if &**known == variable);
    checked.ast.root.walk(1, &mut |expr, _| match &expr.node {
        ast::Node::Select(select) if is_it(&select.operand) => {
            fields.insert(select.field.clone());
        }
        ast::Node::Call(call) if &*call.function == ast::op::OPT_SELECT => {
            if let [operand, field] = &*call.args
                && is_it(operand)
                && let ast::Node::Literal(ast::Literal::String(field)) = &field.node
            {
                fields.insert(field.clone());
            }
        }
        _ => {}
    });
    fields
}

/// How deep a checked expression nests: evaluating it takes so many steps of the stack.
pub fn depth(checked: &Checked) -> usize {
    let mut deepest = 0;
    let root = &checked.ast.root;
    root.walk(1, &mut |_, depth| deepest = deepest.max(depth));
    deepest
}
