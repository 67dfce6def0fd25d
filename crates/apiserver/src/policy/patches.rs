//! What mutations do to an object: apply configurations (`Object{…}`) and JSON patches (`[JSONPatch{…}]`).

use cel::{Type, Value as CelValue};
use serde_json::{Value, json};

use super::expression::{BUDGET, Expression, Input, Scope, Variables};
use crate::apply;
use crate::fields::text;
use crate::kinds::Kind;
use crate::patch;
use crate::semantics;
use crate::status::Status;

/// One mutation of a policy.
#[derive(Debug)]
pub(super) struct Mutation {
    expression: Expression,
    patches_json: bool,
}

/// Why an object was not changed.
pub(super) enum Failure {
    /// The policy fails, and its failure policy decides.
    Policy(String),
    /// The request fails.
    Request(Box<Status>),
}

impl Mutation {
    pub(super) fn compile(mutation: &Value, scope: Scope, variables: &Variables) -> Mutation {
        let patches_json = mutation["patchType"] == "JSONPatch";
        let (member, returns) = match patches_json {
            true => ("jsonPatch.expression", Type::list(Type::named("JSONPatch"))),
            false => ("applyConfiguration.expression", Type::named("Object")),
        };
        let scope = Scope {
            patches: true,
            ..scope
        };
        Mutation {
            expression: Expression::new(text(mutation, member), scope, Some(variables), &[returns]),
            patches_json,
        }
    }

    /// The object, of a kind, after the mutation.
    pub(super) fn change(
        &self,
        kind: &Kind,
        object: &Value,
        input: &Input<'_>,
    ) -> Result<Value, Failure> {
        if let Some(why) = self.expression.error() {
            return Err(Failure::Policy(why.to_owned()));
        }
        let mut budget = BUDGET;
        let evaluated = self.expression.evaluate(input, &mut budget);
        let evaluated = evaluated.map_err(|exhausted| Failure::Policy(exhausted.to_string()))?;
        let value = evaluated.map_err(Failure::Policy)?;
        match self.patches_json {
            true => patch_json(kind, object, &value),
            false => apply_configuration(kind, object, &value),
        }
    }
}

fn apply_configuration(
    kind: &Kind,
    object: &Value,
    value: &CelValue<'_>,
) -> Result<Value, Failure> {
    let fail = |why: String| Failure::Policy(why);
    check_names(value).map_err(|why| fail(format!("type mismatch: {why}")))?;
    let mut config = value
        .to_json()
        .filter(Value::is_object)
        .ok_or_else(|| fail("invalid return type: it cannot be written as JSON".to_owned()))?;
    crate::rest::retype(kind, &mut config);
    let untyped = |why: String| {
        fail(format!(
            "error applying patch: failed to convert patch object to typed object: {why}"
        ))
    };
    if let Some(faults) = apply::faults(kind, &config) {
        return Err(untyped(faults));
    }
    let mut changed = object.clone();
    apply::overlay(kind, &mut changed, &config)
        .map_err(|why| fail(format!("error applying patch: {why}")))?;
    let (changed, _) = semantics::decode(kind, changed).map_err(|status| fail(status.message))?;
    Ok(changed)
}

fn patch_json(kind: &Kind, object: &Value, value: &CelValue<'_>) -> Result<Value, Failure> {
    let fail = |why: String| Failure::Policy(why);
    let CelValue::List(list) = value else {
        return Err(fail(
            "type mismatch: JSONPatchType.expression should evaluate to array".to_owned(),
        ));
    };
    if list.len() > patch::MAX_OPERATIONS {
        let count = list.len();
        return Err(fail(format!(
            "JSON Patch: {count} operations are more than {}",
            patch::MAX_OPERATIONS
        )));
    }
    let operations = list.iter().map(|operation| {
        let operation = operation.map_err(|fault| fault.to_string())?;
        written(&operation)
    });
    let operations: Vec<Value> = operations.collect::<Result<_, _>>().map_err(fail)?;
    let operations = Value::Array(operations);
    patch::check_depth(object, &operations).map_err(|status| fail(status.message))?;
    let operations = operations.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut changed = object.clone();
    if let Err(index) = patch::operate_all(&mut changed, operations) {
        let failed = &operations[index];
        if failed["op"] == "test" {
            // UPSTREAM: a test that fails leaves the object as it is.
            return Ok(object.clone());
        }
        let mut before = object.clone();
        let why = match patch::operate_all(&mut before, &operations[..index]) {
            Ok(()) => why_not(&before, failed),
            Err(_) => "it does not apply".to_owned(),
        };
        return Err(fail(format!("JSON Patch: {why}")));
    }
    let internal = |why: String| Failure::Request(Box::new(Status::internal(why)));
    if kind.custom().is_some() {
        return Ok(changed);
    }
    let decoded = semantics::decode(kind, changed);
    let (changed, unknown) = decoded.map_err(|status| internal(status.message))?;
    if unknown.is_empty() {
        return Ok(changed);
    }
    let fields: Vec<String> = unknown
        .iter()
        .map(|path| format!("unknown field \"{path}\""))
        .collect();
    Err(internal(format!(
        "strict decoding error: {}",
        fields.join(", ")
    )))
}

/// An operation as JSON.
fn written(operation: &CelValue<'_>) -> Result<Value, String> {
    let CelValue::Object(object) = operation else {
        return Err(
            "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch"
                .to_owned(),
        );
    };
    let mut written = json!({"op": "", "path": ""});
    for (name, value) in &object.fields {
        if &**name == "value" {
            check_names(value).map_err(|why| format!("type mismatch: {why}"))?;
        }
        let json = value.to_json().ok_or_else(|| {
            let of = value.type_name();
            format!(
                "JSONPath valueExpression evaluated to a type that could not marshal to JSON: {of}"
            )
        })?;
        if &**name != "from" || json != "" {
            written[&**name] = json;
        }
    }
    Ok(written)
}

/// Whether objects within an object have the names of the fields that they stand in.
fn check_names(value: &CelValue<'_>) -> Result<(), String> {
    let CelValue::Object(object) = value else {
        return Ok(());
    };
    let mut wrong = Vec::new();
    names_match(value, &object.name, &mut wrong);
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong.join("\n")),
    }
}

fn names_match(value: &CelValue<'_>, expected: &str, wrong: &mut Vec<String>) {
    match value {
        CelValue::Object(object) => {
            if *object.name != *expected {
                wrong.push(format!(
                    "unexpected type name \"{}\", expected \"{expected}\", which matches field name path from root Object type",
                    object.name
                ));
            }
            for (name, member) in &object.fields {
                names_match(member, &format!("{expected}.{name}"), wrong);
            }
        }
        CelValue::List(list) => list
            .iter()
            .flatten()
            .for_each(|item| names_match(&item, expected, wrong)),
        CelValue::Map(map) => map
            .entries()
            .into_iter()
            .filter_map(|(_, value)| value.ok())
            .for_each(|value| names_match(&value, expected, wrong)),
        _ => {}
    }
}

/// Why an operation does not apply, in the words of upstream's library, as far as they can be told from outside.
fn why_not(object: &Value, operation: &Value) -> String {
    let (op, path, from) = (
        text(operation, "op"),
        text(operation, "path"),
        text(operation, "from"),
    );
    let (parent, key) = path.rsplit_once('/').unwrap_or(("", path));
    let container = object.pointer(parent);
    let key = key.replace("~1", "/").replace("~0", "~");
    let in_list = container.is_some_and(Value::is_array);
    let at_index = || match key.parse::<i64>() {
        Ok(index) => format!("Unable to access invalid index: {index}: invalid index referenced"),
        Err(_) => format!(
            "value was not a proper array index: '{key}': strconv.Atoi: parsing \"{key}\": invalid syntax"
        ),
    };
    match op {
        "add" if container.is_none() => {
            format!("add operation does not apply: doc is missing path: \"{path}\": missing value")
        }
        "add" if in_list => format!("error in add for path: '{path}': {}", at_index()),
        "remove" if container.is_none() => format!(
            "remove operation does not apply: doc is missing path: \"{path}\": missing value"
        ),
        "remove" if in_list => format!("error in remove for path: '{path}': {}", at_index()),
        "remove" => format!(
            "error in remove for path: '{path}': Unable to remove nonexistent key: {key}: missing value"
        ),
        "replace" if container.is_none() => {
            format!("replace operation does not apply: doc is missing path: {path}: missing value")
        }
        "replace" => {
            format!("replace operation does not apply: doc is missing key: {path}: missing value")
        }
        "move"
            if object
                .pointer(from.rsplit_once('/').map_or("", |(parent, _)| parent))
                .is_some() =>
        {
            let key = from.rsplit('/').next().unwrap_or_default();
            format!(
                "error in move for path: '{key}': Unable to remove nonexistent key: {key}: missing value"
            )
        }
        "move" | "copy" => {
            format!(
                "{op} operation does not apply: doc is missing from path: {from}: missing value"
            )
        }
        other => format!("Unexpected kind: {other}"),
    }
}
