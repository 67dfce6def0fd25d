//! Operators by precedence, and the trees that they make.

use crate::ast::{Expr, Node, op};
use crate::lexer::Token;
use crate::parser::call;

/// Precedences; a logical operator's terms are gathered, so that long chains are not deep.
const OR: u8 = 1;
const AND: u8 = 2;
pub(crate) const RELATION: u8 = 3;
pub(crate) const SUM: u8 = 4;
pub(crate) const PRODUCT: u8 = 5;

/// An operator that waits for its last operand.
pub(crate) struct Open {
    pub level: u8,
    pub function: &'static str,
    pub terms: Vec<Expr>,
    pub ids: Vec<u32>,
}

impl Open {
    pub fn is_chain(&self) -> bool {
        self.level <= AND
    }

    pub fn close(mut self, last: Expr) -> Expr {
        self.terms.push(last);
        balance(&self.ids, &mut self.terms.into_iter(), self.function)
    }
}

pub(crate) fn operator(token: Token) -> Option<(u8, &'static str)> {
    Some(match token {
        Token::In => (RELATION, op::IN),
        Token::Mark(mark) => match mark {
            "||" => (OR, op::OR),
            "&&" => (AND, op::AND),
            "==" => (RELATION, op::EQUALS),
            "!=" => (RELATION, op::NOT_EQUALS),
            "<" => (RELATION, "_<_"),
            "<=" => (RELATION, "_<=_"),
            ">" => (RELATION, "_>_"),
            ">=" => (RELATION, "_>=_"),
            "+" => (SUM, op::ADD),
            "-" => (SUM, "_-_"),
            "*" => (PRODUCT, "_*_"),
            "/" => (PRODUCT, "_/_"),
            "%" => (PRODUCT, "_%_"),
            _ => return None,
        },
        _ => return None,
    })
}

/// The tree that halves the operators left and right of the middle one.
fn balance(ids: &[u32], terms: &mut impl Iterator<Item = Expr>, function: &str) -> Expr {
    let missing = || Expr {
        id: 0,
        node: Node::Missing,
    };
    if ids.is_empty() {
        return terms.next().unwrap_or_else(missing);
    }
    let middle = ids.len() / 2;
    let left = balance(&ids[..middle], terms, function);
    let right = balance(&ids[middle + 1..], terms, function);
    call(ids[middle], function, vec![left, right])
}

/// How deep selections, calls and operators other than the logical ones nest.
pub(crate) fn depth(expr: &Expr) -> u32 {
    match &expr.node {
        Node::Select(select) => 1 + depth(&select.operand),
        Node::Call(call) => {
            let logical = matches!(&*call.function, op::AND | op::OR | op::NOT | op::NEGATE);
            let parts = call.target.iter().chain(&call.args);
            u32::from(!logical) + parts.map(depth).max().unwrap_or(0)
        }
        Node::List(list) => list.elements.iter().map(depth).max().unwrap_or(0),
        Node::Map(entries) => entries
            .iter()
            .map(|entry| depth(&entry.key).max(depth(&entry.value)))
            .max()
            .unwrap_or(0),
        Node::Struct(message) => message
            .fields
            .iter()
            .map(|field| depth(&field.value))
            .max()
            .unwrap_or(0),
        Node::Fold(fold) => {
            let parts = [&fold.range, &fold.init, &fold.step, &fold.result];
            parts.into_iter().map(depth).max().unwrap_or(0)
        }
        Node::Literal(_) | Node::Ident(_) | Node::Missing => 0,
    }
}
