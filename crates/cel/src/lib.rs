//! The Common Expression Language as Kubernetes 1.36 speaks it.
//!
//! From text to value in steps, each in a module of its own: [`source`] and [`lexer`] and [`parser`] (with [`macros`])
//! make a tree of the text, [`check`] gives its nodes types, [`validate`] looks at what types do not tell,
//! [`estimate`] says what it can cost at most, [`program`] computes constants, `eval` evaluates and accounts.
//!
//! It behaves as cel-go 0.26 with Kubernetes' libraries at compatibility version 1.35: messages, positions, types,
//! estimated and actual costs. `tests/golden` holds what upstream's own engine answered.
//!
//! Everything is bounded, for expressions come from users: the text, nesting, nodes, the size of compiled patterns,
//! and the cost of an evaluation. Nothing in here does IO or knows an API server.

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

pub use authorizer::{Asker, Authorize, Check, Decision, Resource};
pub use check::Checked;
pub use data::{dynamic, typed};
pub use decl::{Decl, Field, Kind, ListType};
pub use env::Env;
pub use escape::{escape, unescape};
pub use estimate::{Range, estimate};
pub use kube::Kube;
pub use program::{Activation, Nothing, Outcome, PER_CALL_LIMIT, Program};
pub use regexes::{
    complaint as pattern_complaint, repeats_too_often, translate as translate_pattern,
};
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
    fn uses(expr: &ast::Expr, name: &str) -> bool {
        use ast::Node;
        match &expr.node {
            Node::Ident(known) => &**known == name,
            Node::Select(select) => uses(&select.operand, name),
            Node::Call(call) => call.target.iter().chain(&call.args).any(|e| uses(e, name)),
            Node::List(list) => list.elements.iter().any(|e| uses(e, name)),
            Node::Map(entries) => entries
                .iter()
                .any(|entry| uses(&entry.key, name) || uses(&entry.value, name)),
            Node::Struct(message) => message.fields.iter().any(|field| uses(&field.value, name)),
            Node::Fold(fold) => [
                &fold.range,
                &fold.init,
                &fold.condition,
                &fold.step,
                &fold.result,
            ]
            .into_iter()
            .any(|e| uses(e, name)),
            Node::Literal(_) | Node::Missing => false,
        }
    }
    uses(&checked.ast.root, name)
}
