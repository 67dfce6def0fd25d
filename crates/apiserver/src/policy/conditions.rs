//! Match conditions: whether a policy or a webhook has anything to say about a request.
//!
//! Mirrors `apiserver/pkg/admission/plugin/webhook/matchconditions`. Compile a list once with [`Conditions::read`], and
//! ask for every request; webhooks have no parameters and no variables: `Compiler::default()`.

use cel::{Type, Value as CelValue};
use serde_json::Value;

use super::criteria::Target;
use super::expression::{CONDITIONS_BUDGET, Compiler, Expression, Facts, Input, Scope, Variables};
use super::view::{Authorizer, View};
use crate::admission::{Context, Request};
use crate::kinds::Kind;

/// The compiled `matchConditions` of a policy or a webhook.
#[derive(Debug)]
pub(crate) struct Conditions {
    list: Vec<(String, Expression)>,
    /// `failurePolicy: Ignore`
    ignores_errors: bool,
}

/// What conditions say of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Match {
    Yes,
    /// The name of the condition that is false; none if one failed and failures are ignored.
    No(Option<String>),
    /// The request is to be refused: a condition could not be evaluated, and the failure policy is `Fail`.
    Error(String),
}

impl Conditions {
    /// Reads `matchConditions`. One that does not compile fails when it is evaluated.
    pub(crate) fn read(
        list: &Value,
        params: bool,
        compiler: &mut Compiler,
        ignores_errors: bool,
    ) -> Conditions {
        let scope = Scope {
            params,
            authorizer: true,
            patches: false,
        };
        let list = list.as_array().into_iter().flatten();
        let list = list.map(|condition| {
            let text = |member: &str| condition[member].as_str().unwrap_or_default();
            let expression = compiler.expression(text("expression"), scope, &[Type::Bool]);
            (text("name").to_owned(), expression)
        });
        Conditions {
            list: list.collect(),
            ignores_errors,
        }
    }

    /// One false condition decides; otherwise errors count by the failure policy. UPSTREAM: conditions never see the
    /// namespace object.
    pub(crate) fn evaluate(&self, facts: &Facts<'_>, variables: Option<&Variables>) -> Match {
        if self.list.is_empty() {
            return Match::Yes;
        }
        let facts = Facts {
            namespace: &Value::Null,
            ..*facts
        };
        let input = Input::new(facts, variables);
        let mut budget = CONDITIONS_BUDGET;
        let mut results = Vec::with_capacity(self.list.len());
        for (name, expression) in &self.list {
            match expression.evaluate(&input, &mut budget) {
                Ok(result) => results.push((name, result)),
                Err(exhausted) => return self.failed(exhausted.to_string()),
            }
        }
        let mut errors = Vec::new();
        for (name, result) in results {
            match result {
                Ok(CelValue::Bool(false)) => return Match::No(Some(name.clone())),
                Ok(_) => {}
                Err(why) => errors.push(why),
            }
        }
        match crate::admission::aggregate(errors) {
            Some(errors) => self.failed(errors),
            None => Match::Yes,
        }
    }

    /// What conditions without parameters and variables say, for a webhook that is to see a request at a version.
    pub(crate) fn of_request(
        &self,
        context: &Context<'_>,
        request: &Request<'_>,
        matched: &Kind,
        target: &Target<'_>,
    ) -> Match {
        if self.list.is_empty() {
            return Match::Yes;
        }
        let view = View::new(context, request, matched, target.object, target.old);
        let authorizer = Authorizer::new(context, request);
        self.evaluate(&view.facts(&Value::Null, &authorizer), None)
    }

    fn failed(&self, why: String) -> Match {
        match self.ignores_errors {
            true => Match::No(None),
            false => Match::Error(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    fn check(conditions: &[&str], ignores_errors: bool, expected: Expect) {
        let list = conditions.iter().enumerate();
        let list: Vec<Value> = list
            .map(|(index, text)| json!({"name": format!("c{index}"), "expression": text}))
            .collect();
        let mut compiler = Compiler::default();
        let list = Value::Array(list);
        let conditions = Conditions::read(&list, false, &mut compiler, ignores_errors);
        let object = json!({"metadata": {"name": "a"}});
        let facts = Facts {
            object: &object,
            old: &Value::Null,
            request: &json!({"operation": "CREATE"}),
            namespace: &json!({"metadata": {"name": "default"}}),
            params: &Value::Null,
            authorizer: None,
        };
        expected.assert_eq(&format!("{:?}", conditions.evaluate(&facts, None)));
    }

    /// `TestMatch` of matchconditions
    #[test]
    fn a_false_condition_decides_whatever_the_others_say() {
        check(&[], false, expect!["Yes"]);
        check(
            &["object.metadata.name == 'a'", "true"],
            false,
            expect!["Yes"],
        );
        check(
            &["object.missing == 1", "request.operation == 'UPDATE'"],
            false,
            expect![[r#"No(Some("c1"))"#]],
        );
    }

    #[test]
    fn errors_count_by_the_failure_policy() {
        let failing = ["true", "object.a == 1", "object.b == 1"];
        check(
            &failing,
            false,
            expect![[
                r#"Error("[expression 'object.a == 1' resulted in error: no such key: a, expression 'object.b == 1' resulted in error: no such key: b]")"#
            ]],
        );
        check(&failing, true, expect!["No(None)"]);
        check(
            &["1"],
            false,
            expect![[r#"Error("compilation error: must evaluate to bool but got int")"#]],
        );
    }

    #[test]
    fn conditions_never_see_the_namespace() {
        check(
            &["namespaceObject.metadata.name == 'default'"],
            false,
            expect![[
                r#"Error("expression 'namespaceObject.metadata.name == 'default'' resulted in error: no such key: metadata")"#
            ]],
        );
    }

    #[test]
    fn all_conditions_share_a_budget() {
        let costly = "lists.range(90000).all(x, x >= 0)";
        check(
            &[costly; 9],
            false,
            expect![[
                r#"Error("validation failed due to running out of cost budget, no further validation rules will be run")"#
            ]],
        );
    }
}
