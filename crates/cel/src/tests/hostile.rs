//! Expressions from people who mean harm: nothing panics, nothing takes for ever.

use proptest::prelude::*;
use serde_json::json;

use crate::{Activation, Env, Evaluated, PER_CALL_LIMIT, Program, Type};

struct Vars<'a>(Evaluated<'a>);

impl<'a> Activation<'a> for Vars<'a> {
    fn variable(&self, name: &str) -> Option<Evaluated<'a>> {
        (name == "self").then(|| self.0.clone())
    }
}

fn run(text: &str) -> Result<String, String> {
    let mut env = Env::default();
    env.variable("self", Type::Dyn);
    let checked = crate::compile(text, &env)?;
    let _ = crate::estimate(&checked, &env);
    let program = Program::new(checked)?;
    let data = json!({"a": [1, "x", null, {"b": 1.5}], "s": "text", "n": -3, "m": {"k": "v"}});
    let outcome = program.evaluate(&Vars(Ok(crate::dynamic(&data))), PER_CALL_LIMIT);
    outcome
        .value
        .map(|value| format!("{value:?}"))
        .map_err(|fault| fault.to_string())
}

#[test]
fn deep_and_long_expressions_are_refused() {
    let deep = format!("{}1{}", "(".repeat(300), ")".repeat(300));
    let selected = format!("self{}", ".a".repeat(300));
    let summed = format!("1{}", "+1".repeat(300));
    for text in [deep, selected, summed] {
        let issues = run(&text).unwrap_err();
        assert!(issues.contains("recursion limit exceeded: 250"), "{issues}");
    }
    let issues = run(&"1".repeat(100_001)).unwrap_err();
    assert!(issues.contains("code point size exceeds limit"), "{issues}");
    // Logical chains are balanced, so they may be long.
    let chain = format!("true{}", " && true".repeat(5_000));
    assert_eq!(run(&chain).as_deref(), Ok("true"));
}

#[test]
fn loops_end_when_their_cost_is_used_up() {
    let limit = "operation cancelled: actual cost limit exceeded";
    for text in [
        "lists.range(100000).all(x, lists.range(1000).all(y, x == y || true))",
        "lists.range(9000000000000).size() > 0",
        "lists.range(30000).map(x, lists.range(30000).map(y, x)).size() > 1",
    ] {
        assert_eq!(run(text).unwrap_err(), limit, "{text}");
    }
}

#[test]
fn doubling_macros_are_bounded() {
    let text = format!("optional.of(1){}", ".optMap(x, x)".repeat(60));
    let issues = run(&text).unwrap_err();
    assert!(issues.contains("max recursion depth exceeded"), "{issues}");
}

#[test]
fn patterns_are_bounded() {
    for text in [
        "'a'.matches('((a{1000}){1000}){1000}')",
        "'a'.matches('(' + self.s)",
        "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'.matches('(a*)*b')",
    ] {
        let _ = run(text);
    }
}

const WORDS: [&str; 48] = [
    "self",
    ".",
    "a",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    ",",
    ":",
    "?",
    "==",
    "&&",
    "||",
    "!",
    "-",
    "+",
    "*",
    "/",
    "%",
    "in",
    "1",
    "2u",
    "3.5",
    "'s'",
    "b'x'",
    "true",
    "null",
    "x",
    ".map(x, ",
    ".all(x, ",
    ".exists(x, y, ",
    "has(",
    "size(",
    ".matches(",
    "duration(",
    "timestamp(",
    ".format([",
    "optional.of(",
    ".orValue(",
    ".?",
    "[?",
    "quantity(",
    "ip(",
    "\"",
    "'''",
    "\\",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn any_text_is_answered(text in "\\PC{0,60}") {
        let _ = run(&text);
    }

    #[test]
    fn any_words_are_answered(words in prop::collection::vec(prop::sample::select(&WORDS[..]), 0..20)) {
        let _ = run(&words.concat());
    }
}
