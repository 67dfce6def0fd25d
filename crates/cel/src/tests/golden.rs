//! What upstream's engine answered (`cargo xtask` does not run it: `tests/real/servers/cel` prints these lines), held
//! against ours: issues, types, estimates, values, faults and costs.

use std::sync::Arc;

use serde_json::Value as Json;

use crate::{Activation, Decl, Env, Evaluated, PER_CALL_LIMIT, Program, Type, Value};

struct Self_<'a>(Evaluated<'a>);

impl<'a> Activation<'a> for Self_<'a> {
    fn variable(&self, name: &str) -> Option<Evaluated<'a>> {
        (name == "self").then(|| self.0.clone())
    }
}

/// A case's answer in upstream's form.
fn answer(case: &Json) -> Json {
    let mut env = Env::default();
    let decl = case.get("schema").map(|schema| {
        let resource = schema["x-kubernetes-embedded-resource"] == true;
        Arc::new(Decl::from_schema(schema, "selfType", resource).expect("a declaration"))
    });
    match &decl {
        Some(decl) => env.declared("self", decl.clone()),
        None => env.variable("self", Type::Dyn),
    };
    let checked = match crate::compile(case["expr"].as_str().expect("an expression"), &env) {
        Ok(checked) => checked,
        Err(issues) => return serde_json::json!({ "issues": issues }),
    };
    let estimate = crate::estimate(&checked, &env);
    let mut answer = serde_json::json!({
        "type": checked.output().to_string(),
        "estimate": [estimate.min, estimate.max],
    });
    let program = match Program::new(checked) {
        Ok(program) => program,
        Err(why) => {
            answer["fault"] = format!("program: {why}").into();
            return answer;
        }
    };
    let value = match (case.get("self"), &decl) {
        (None, _) => Ok(Value::Null),
        (Some(data), Some(decl)) => crate::typed(data, decl),
        (Some(data), None) => Ok(crate::dynamic(data)),
    };
    let outcome = program.evaluate(&Self_(value), PER_CALL_LIMIT);
    answer["cost"] = outcome.cost.into();
    match outcome.value {
        Ok(value) => answer["value"] = format!("{value:?}").into(),
        Err(fault) => answer["fault"] = fault.to_string().into(),
    }
    answer
}

fn check(cases: &str, answers: &str) {
    let mut wrong = Vec::new();
    for (case, expected) in cases.lines().zip(answers.lines()) {
        let case: Json = serde_json::from_str(case).expect("a case");
        let expected: Json = serde_json::from_str(expected).expect("an answer");
        let got = answer(&case);
        if got != expected {
            wrong.push(format!("{case}\n  upstream {expected}\n  ours     {got}"));
        }
    }
    assert_eq!(cases.lines().count(), answers.lines().count());
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn answers_as_upstream_does() {
    check(
        include_str!("golden/cases.jsonl"),
        include_str!("golden/answers.jsonl"),
    );
}
