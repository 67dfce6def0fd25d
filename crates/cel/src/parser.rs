//! Tokens to trees, by CEL's grammar, with ANTLR's words for what does not fit.
//!
//! Like ANTLR we leave out one token that is too many and put in one that is missing, and go on; anything else ends
//! the parse. Everything is bounded: the text by [`SOURCE_MAX`], nesting by [`DEPTH_MAX`].

use std::sync::Arc;

use crate::ast::{Ast, Call, Entry, Expr, Field, List, Literal, Node, Select, Struct, op};
use crate::escape::RESERVED;
use crate::lexer::{Lexeme, Token, lex};
use crate::literal;
use crate::precedence::{Open, PRODUCT, RELATION, SUM, depth, operator};
use crate::source::{Issues, NOWHERE, SOURCE_MAX, Source};

/// How deep one rule of the grammar may be nested in itself: cel-go's number.
pub const DEPTH_MAX: u32 = 250;

const OPERAND: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

/// Parses an expression; the tree is whole only where nothing was reported.
pub fn parse(source: &Source, issues: &mut Issues) -> Ast {
    let mut parser = Parser::new(source, issues);
    if source.text.len() > SOURCE_MAX {
        let size = source.text.len();
        let message =
            format!("expression code point size exceeds limit: size: {size}, limit {SOURCE_MAX}");
        parser.issues.report(NOWHERE, message);
        return parser.ast(None);
    }
    parser.lexemes = lex(&source.text, parser.issues);
    let root = parser.start();
    parser.ast(root)
}

/// The parse ended; what was wrong is reported.
struct Ended;
type Parsed<T> = Result<T, Ended>;

pub(crate) struct Parser<'a> {
    source: &'a Source,
    pub(crate) issues: &'a mut Issues,
    lexemes: Vec<Lexeme>,
    at: usize,
    places: Vec<u32>,
    depth: [u32; 4],
}

/// The rules that can nest in themselves, each counted by itself as ANTLR's contexts are.
#[derive(Clone, Copy)]
enum Rule {
    Expr,
    Relation,
    Calc,
    Member,
}

impl<'a> Parser<'a> {
    fn new(source: &'a Source, issues: &'a mut Issues) -> Parser<'a> {
        Parser {
            source,
            issues,
            lexemes: Vec::new(),
            at: 0,
            places: vec![NOWHERE],
            depth: [0; 4],
        }
    }

    fn ast(self, root: Option<Expr>) -> Ast {
        let root = root.unwrap_or(Expr {
            id: 0,
            node: Node::Missing,
        });
        Ast {
            root,
            places: self.places,
        }
    }

    fn start(&mut self) -> Option<Expr> {
        let root = self.expr().ok()?;
        if self.here().token != Token::End {
            let last = self.lexemes.len() - 1;
            let kind = if self.at + 1 == last {
                "extraneous"
            } else {
                "mismatched"
            };
            self.complain(format!("{kind} input '{}' expecting <EOF>", self.shown()));
        }
        if depth(&root) > DEPTH_MAX {
            self.issues.report(NOWHERE, "max recursion depth exceeded");
        }
        Some(root)
    }

    fn here(&self) -> Lexeme {
        self.lexemes[self.at]
    }

    fn ahead(&self) -> Lexeme {
        self.lexemes[(self.at + 1).min(self.lexemes.len() - 1)]
    }

    fn advance(&mut self) -> Lexeme {
        let lexeme = self.here();
        self.at = (self.at + 1).min(self.lexemes.len() - 1);
        lexeme
    }

    fn text(&self, lexeme: Lexeme) -> String {
        self.source.text[lexeme.begin as usize..lexeme.end as usize]
            .iter()
            .collect()
    }

    /// The token here as ANTLR shows it.
    fn shown(&self) -> String {
        if self.here().token == Token::End {
            return "<EOF>".to_owned();
        }
        self.text(self.here())
    }

    fn complain(&mut self, message: String) {
        let at = self.here().begin;
        self.issues.report(at, format!("Syntax error: {message}"));
    }

    pub(crate) fn id(&mut self, place: u32) -> u32 {
        self.places.push(place);
        self.places.len() as u32 - 1
    }

    pub(crate) fn nodes(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn place(&self, id: u32) -> u32 {
        self.places[id as usize]
    }

    pub(crate) fn node(&mut self, place: u32, node: Node) -> Expr {
        Expr {
            id: self.id(place),
            node,
        }
    }

    fn fault(&mut self, place: u32, message: impl Into<String>) -> Expr {
        self.issues.report(place, message);
        self.node(place, Node::Missing)
    }

    fn is(&self, mark: &str) -> bool {
        self.here().token == Token::Mark(known(mark))
    }

    fn eat(&mut self, mark: &str) -> Option<Lexeme> {
        self.is(mark).then(|| self.advance())
    }

    /// A mark that must be here, with ANTLR's recovery from one token too many or too few.
    fn expect(&mut self, mark: &str, expecting: &str) -> Parsed<Lexeme> {
        if let Some(lexeme) = self.eat(mark) {
            return Ok(lexeme);
        }
        if self.here().token != Token::End && self.ahead().token == Token::Mark(known(mark)) {
            self.complain(format!(
                "extraneous input '{}' expecting {expecting}",
                self.shown()
            ));
            self.advance();
            return Ok(self.advance());
        }
        let can_follow = match self.here().token {
            Token::End | Token::In => true,
            Token::Mark(mark) => !matches!(mark, "!" | "{"),
            _ => false,
        };
        if can_follow && matches!(mark, ")" | "]") {
            self.complain(format!("missing '{mark}' at '{}'", self.shown()));
            return Ok(self.here());
        }
        self.complain(format!(
            "mismatched input '{}' expecting {expecting}",
            self.shown()
        ));
        Err(Ended)
    }

    fn deeper(&mut self, rule: Rule) -> Parsed<()> {
        self.depth[rule as usize] += 1;
        if self.depth[rule as usize] > DEPTH_MAX {
            let message = format!("expression recursion limit exceeded: {DEPTH_MAX}");
            self.issues.report(NOWHERE, message);
            return Err(Ended);
        }
        Ok(())
    }

    fn expr(&mut self) -> Parsed<Expr> {
        let before = self.depth;
        self.deeper(Rule::Expr)?;
        let parsed = self.conditional();
        self.depth = before;
        parsed
    }

    fn conditional(&mut self) -> Parsed<Expr> {
        let condition = self.binary()?;
        let Some(mark) = self.eat("?") else {
            return Ok(condition);
        };
        let id = self.id(mark.begin);
        let then = self.binary()?;
        self.expect(":", "':'")?;
        let otherwise = self.expr()?;
        Ok(call(id, op::CONDITIONAL, vec![condition, then, otherwise]))
    }

    /// Operands and the operators between them, by precedence, without a frame of the stack for each level.
    fn binary(&mut self) -> Parsed<Expr> {
        let before = self.depth;
        let mut open: Vec<Open> = Vec::new();
        let mut operand = self.unary()?;
        loop {
            let next = operator(self.here().token);
            let level = next.map_or(0, |(level, _)| level);
            while open
                .last()
                .is_some_and(|top| top.level > level || top.level == level && !top.is_chain())
            {
                if let Some(top) = open.pop() {
                    operand = top.close(operand);
                }
            }
            let Some((level, function)) = next else {
                break;
            };
            match level {
                RELATION => self.deeper(Rule::Relation)?,
                SUM | PRODUCT => self.deeper(Rule::Calc)?,
                _ => {}
            }
            let lexeme = self.advance();
            let id = self.id(lexeme.begin);
            match open.last_mut() {
                Some(top) if top.level == level => {
                    top.terms.push(operand);
                    top.ids.push(id);
                }
                _ => open.push(Open {
                    level,
                    function,
                    terms: vec![operand],
                    ids: vec![id],
                }),
            }
            operand = self.unary()?;
        }
        while let Some(top) = open.pop() {
            operand = top.close(operand);
        }
        self.depth = before;
        Ok(operand)
    }

    fn unary(&mut self) -> Parsed<Expr> {
        self.skip_to_operand()?;
        for (mark, function) in [("!", op::NOT), ("-", op::NEGATE)] {
            if !self.is(mark) {
                continue;
            }
            if mark == "-" && matches!(self.ahead().token, Token::Int | Token::Float) {
                return self.member();
            }
            let first = self.here();
            let mut count = 0;
            while self.eat(mark).is_some() {
                count += 1;
            }
            if count % 2 == 0 {
                return self.member();
            }
            let id = self.id(first.begin);
            let operand = self.member()?;
            return Ok(call(id, function, vec![operand]));
        }
        self.member()
    }

    /// An operand must begin here; one token before it is left out with a word.
    fn skip_to_operand(&mut self) -> Parsed<()> {
        if begins_operand(self.here().token) {
            return Ok(());
        }
        let shown = self.shown();
        if self.here().token != Token::End && begins_operand(self.ahead().token) {
            self.complain(format!("extraneous input '{shown}' expecting {OPERAND}"));
            self.advance();
            return Ok(());
        }
        self.complain(format!("mismatched input '{shown}' expecting {OPERAND}"));
        Err(Ended)
    }

    fn member(&mut self) -> Parsed<Expr> {
        let before = self.depth;
        self.deeper(Rule::Member)?;
        self.skip_to_operand()?;
        let mut operand = self.primary()?;
        while let Token::Mark(mark @ ("." | "[")) = self.here().token {
            self.deeper(Rule::Member)?;
            let lexeme = self.advance();
            operand = if mark == "." {
                self.select(lexeme, operand)?
            } else {
                self.index(lexeme, operand)?
            };
        }
        self.depth = before;
        Ok(operand)
    }

    fn select(&mut self, dot: Lexeme, operand: Expr) -> Parsed<Expr> {
        let optional = self.eat("?").is_some();
        let lexeme = self.here();
        let name = match lexeme.token {
            Token::Name => self.text(lexeme),
            Token::Quoted => {
                self.issues.report(lexeme.begin, "unsupported syntax: '`'");
                self.text(lexeme)
            }
            Token::True | Token::False | Token::Null => {
                self.complain(format!(
                    "mismatched input '{}' expecting IDENTIFIER",
                    self.shown()
                ));
                return Err(Ended);
            }
            Token::End => {
                self.complain("no viable alternative at input '.'".to_owned());
                return Err(Ended);
            }
            _ => {
                self.complain(format!(
                    "no viable alternative at input '.{}'",
                    self.shown()
                ));
                return Err(Ended);
            }
        };
        self.advance();
        if optional {
            let field = self.node(lexeme.begin, Node::Literal(Literal::String(name.into())));
            let id = self.id(dot.begin);
            return Ok(call(id, op::OPT_SELECT, vec![operand, field]));
        }
        if let Some(open) = self.eat("(") {
            let id = self.id(open.begin);
            let args = self.arguments()?;
            return Ok(self.call_or_macro(id, &name, Some(operand), args));
        }
        let select = Select {
            operand,
            field: name.into(),
            test: false,
        };
        Ok(self.node(dot.begin, Node::Select(Box::new(select))))
    }

    fn index(&mut self, open: Lexeme, operand: Expr) -> Parsed<Expr> {
        let optional = self.eat("?").is_some();
        let id = self.id(open.begin);
        let index = self.expr()?;
        self.expect("]", "']'")?;
        let function = if optional { op::OPT_INDEX } else { op::INDEX };
        Ok(call(id, function, vec![operand, index]))
    }

    fn arguments(&mut self) -> Parsed<Vec<Expr>> {
        let mut args = Vec::new();
        if self.eat(")").is_some() {
            return Ok(args);
        }
        loop {
            args.push(self.expr()?);
            if self.eat(",").is_none() {
                break;
            }
        }
        self.expect(")", "{')', ','}")?;
        Ok(args)
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let lexeme = self.here();
        match lexeme.token {
            Token::Mark("(") => {
                self.advance();
                let inner = self.expr()?;
                self.expect(")", "')'")?;
                Ok(inner)
            }
            Token::Mark("[") => self.list(),
            Token::Mark("{") => self.map(),
            Token::Mark(".") | Token::Name => self.named(),
            Token::Mark("-") => {
                self.advance();
                self.number(lexeme)
            }
            Token::Int | Token::Uint | Token::Float => self.number(lexeme),
            Token::Text | Token::Bytes => {
                self.advance();
                Ok(self.quoted(lexeme))
            }
            Token::True | Token::False => {
                self.advance();
                let literal = Literal::Bool(lexeme.token == Token::True);
                Ok(self.node(lexeme.begin, Node::Literal(literal)))
            }
            Token::Null => {
                self.advance();
                Ok(self.node(lexeme.begin, Node::Literal(Literal::Null)))
            }
            _ => {
                self.skip_to_operand()?;
                Err(Ended)
            }
        }
    }

    /// A number, whose sign has been read if it has one.
    fn number(&mut self, first: Lexeme) -> Parsed<Expr> {
        let lexeme = self.advance();
        let negative = first.token == Token::Mark("-");
        match literal::number(lexeme.token, &self.text(lexeme), negative) {
            Ok(literal) => Ok(self.node(first.begin, Node::Literal(literal))),
            Err(kind) => Ok(self.fault(first.begin, format!("invalid {kind} literal"))),
        }
    }

    fn quoted(&mut self, lexeme: Lexeme) -> Expr {
        match literal::unquote(&self.text(lexeme), lexeme.token == Token::Bytes) {
            Ok(literal) => self.node(lexeme.begin, Node::Literal(literal)),
            Err(message) => self.fault(lexeme.begin, message),
        }
    }

    fn list(&mut self) -> Parsed<Expr> {
        let open = self.advance();
        let id = self.id(open.begin);
        let (mut elements, mut optional) = (Vec::new(), Vec::new());
        while !self.is("]") {
            if self.is(",") && elements.is_empty() && self.ahead().token == Token::Mark("]") {
                self.advance();
                break;
            }
            if self.eat("?").is_some() {
                optional.push(elements.len() as u32);
            }
            elements.push(self.expr()?);
            if self.eat(",").is_none() {
                break;
            }
        }
        self.expect_end("]")?;
        let node = Node::List(List { elements, optional });
        Ok(Expr { id, node })
    }

    /// A closing mark after elements, where a comma might have stood as well.
    fn expect_end(&mut self, mark: &str) -> Parsed<()> {
        if self.eat(mark).is_some() {
            return Ok(());
        }
        let expecting = format!("{{'{mark}', ','}}");
        if self.ahead().token == Token::Mark(known(mark)) && self.here().token != Token::End {
            self.complain(format!(
                "extraneous input '{}' expecting {expecting}",
                self.shown()
            ));
            self.advance();
            self.advance();
            return Ok(());
        }
        self.complain(format!(
            "mismatched input '{}' expecting {expecting}",
            self.shown()
        ));
        Err(Ended)
    }

    fn map(&mut self) -> Parsed<Expr> {
        let open = self.advance();
        let id = self.id(open.begin);
        let mut entries = Vec::new();
        while !self.is("}") {
            if self.is(",") && entries.is_empty() && self.ahead().token == Token::Mark("}") {
                self.advance();
                break;
            }
            let optional = self.eat("?").is_some();
            let key = self.expr()?;
            let colon = self.expect(":", "':'")?;
            let id = self.id(colon.begin);
            let value = self.expr()?;
            entries.push(Entry {
                id,
                key,
                value,
                optional,
            });
            if self.eat(",").is_none() {
                break;
            }
        }
        self.expect_end("}")?;
        Ok(Expr {
            id,
            node: Node::Map(entries),
        })
    }

    /// A name, a call of a function, or a message: `.a`, `a(…)`, `a.b{…}`.
    fn named(&mut self) -> Parsed<Expr> {
        let first = self.here();
        let dot = self.eat(".").is_some();
        let lexeme = self.here();
        if lexeme.token != Token::Name {
            let shown = self.shown();
            self.complain(format!("no viable alternative at input '.{shown}'"));
            return Err(Ended);
        }
        if let Some(name) = self.message_name() {
            return self.message(if dot { format!(".{name}") } else { name });
        }
        self.advance();
        let name = self.text(lexeme);
        if RESERVED.contains(&&*name) {
            if self.eat("(").is_some() {
                self.arguments()?;
            }
            return Ok(self.fault(first.begin, format!("reserved identifier: {name}")));
        }
        let name = if dot { format!(".{name}") } else { name };
        if let Some(open) = self.eat("(") {
            let id = self.id(open.begin);
            let args = self.arguments()?;
            return Ok(self.call_or_macro(id, &name, None, args));
        }
        Ok(self.node(lexeme.begin, Node::Ident(name.into())))
    }

    /// `a.b.c` if a brace follows it; then it is eaten.
    fn message_name(&mut self) -> Option<String> {
        let mut at = self.at;
        let mut name = String::new();
        loop {
            let lexeme = *self.lexemes.get(at)?;
            if lexeme.token != Token::Name {
                return None;
            }
            name.push_str(&self.text(lexeme));
            at += 1;
            match self.lexemes.get(at)?.token {
                Token::Mark("{") => {
                    self.at = at;
                    return Some(name);
                }
                Token::Mark(".") => name.push('.'),
                _ => return None,
            }
            at += 1;
        }
    }

    fn message(&mut self, name: String) -> Parsed<Expr> {
        let open = self.advance();
        let id = self.id(open.begin);
        let mut fields = Vec::new();
        while !self.is("}") {
            let optional = self.eat("?").is_some();
            let lexeme = self.here();
            if !matches!(lexeme.token, Token::Name) {
                let shown = self.shown();
                self.complain(format!(
                    "mismatched input '{shown}' expecting {{'}}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}}"
                ));
                return Err(Ended);
            }
            let field = self.text(self.here());
            self.advance();
            let colon = self.expect(":", "':'")?;
            let id = self.id(colon.begin);
            let value = self.expr()?;
            fields.push(Field {
                id,
                name: field.into(),
                value,
                optional,
            });
            if self.eat(",").is_none() {
                break;
            }
        }
        self.expect_end("}")?;
        let node = Node::Struct(Struct {
            name: name.into(),
            fields,
        });
        Ok(Expr { id, node })
    }

    fn call_or_macro(
        &mut self,
        id: u32,
        name: &str,
        target: Option<Expr>,
        args: Vec<Expr>,
    ) -> Expr {
        match crate::macros::expand(self, id, name, target, args) {
            Ok(expr) => expr,
            Err(crate::macros::Unexpanded::Plain { target, args }) => {
                let node = Node::Call(Box::new(Call {
                    function: name.into(),
                    target,
                    args,
                }));
                Expr { id, node }
            }
            Err(crate::macros::Unexpanded::Fault { at, message }) => {
                let place = self.place(at);
                self.fault(place, message)
            }
        }
    }
}

/// A call of an operator or of a function that is no method.
pub(crate) fn call(id: u32, function: &str, args: Vec<Expr>) -> Expr {
    let node = Node::Call(Box::new(Call {
        function: Arc::from(function),
        target: None,
        args,
    }));
    Expr { id, node }
}

fn begins_operand(token: Token) -> bool {
    match token {
        Token::End | Token::In | Token::Quoted => false,
        Token::Mark(mark) => matches!(mark, "[" | "{" | "(" | "." | "-" | "!"),
        _ => true,
    }
}

/// The lexer's own constant for a mark.
fn known(mark: &str) -> &'static str {
    match mark {
        "(" => "(",
        ")" => ")",
        "[" => "[",
        "]" => "]",
        "{" => "{",
        "}" => "}",
        "." => ".",
        "," => ",",
        ":" => ":",
        "?" => "?",
        "!" => "!",
        _ => "-",
    }
}
