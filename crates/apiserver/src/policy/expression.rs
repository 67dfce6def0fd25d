//! Expressions of policies and match conditions: what they may speak of, compiling them, and evaluating them within a
//! budget.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) use cel::admission::Scope;
use cel::admission::Types;
use cel::{Activation, Authorize, Check, Env, Evaluated, Fault, Program, Type};
use cel::{PER_CALL_LIMIT, Value as CelValue};
use serde_json::Value;

/// What the expressions of one policy may cost together, for each kind of them.
pub(crate) const BUDGET: u64 = 10_000_000;
/// What all match conditions of a policy or a webhook may.
pub(crate) const CONDITIONS_BUDGET: u64 = BUDGET / 4;
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";
/// How deep an expression may nest together with the variables that it uses: variables can use one another, and
/// each level takes its part of the stack.
const DEPTH_MAX: usize = 600;
/// Variables that expressions share, in their order: each may use those before it.
#[derive(Debug, Default)]
pub(crate) struct Variables(Vec<Variable>);

#[derive(Debug)]
struct Variable {
    name: Arc<str>,
    of: Type,
    /// How deep it nests, with what it uses.
    depth: usize,
    program: Result<Program, String>,
}

/// Why an expression does not compile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CompileError {
    pub detail: String,
    /// Nothing that the user wrote is to blame.
    pub internal: bool,
}

/// An expression that was compiled, or cannot be.
#[derive(Debug)]
pub(crate) struct Expression {
    pub text: String,
    program: Result<Program, String>,
}

/// The budget is used up: nothing more is evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutOfBudget;

impl std::fmt::Display for OutOfBudget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(OUT_OF_BUDGET)
    }
}

impl Expression {
    pub(crate) fn new(
        text: &str,
        scope: Scope,
        variables: Option<&Variables>,
        returns: &[Type],
    ) -> Expression {
        let compiled = compile(text, scope, variables, returns);
        Expression {
            text: text.to_owned(),
            program: compiled
                .map(|(program, _)| program)
                .map_err(|error| error.detail),
        }
    }

    /// Why it does not compile.
    pub(crate) fn error(&self) -> Option<&str> {
        self.program.as_ref().err().map(String::as_str)
    }

    /// Evaluates it, taking what it costs from the budget. The inner error is what messages say.
    pub(crate) fn evaluate<'a>(
        &self,
        input: &Input<'a>,
        budget: &mut u64,
    ) -> Result<Result<CelValue<'a>, String>, OutOfBudget> {
        let program = match &self.program {
            Ok(program) => program,
            Err(why) => return Ok(Err(format!("compilation error: {why}"))),
        };
        let outcome = program.evaluate(input, PER_CALL_LIMIT);
        let cost = outcome.cost.saturating_add(input.spent.take());
        *budget = budget.checked_sub(cost).ok_or(OutOfBudget)?;
        Ok(outcome.value.map_err(|fault| {
            let text = &self.text;
            format!("expression '{text}' resulted in error: {fault}")
        }))
    }
}

/// Compiles an expression that must be of one of the types given; none stands for any.
pub(crate) fn compile(
    text: &str,
    scope: Scope,
    variables: Option<&Variables>,
    returns: &[Type],
) -> Result<(Program, usize), CompileError> {
    let invalid = |detail: String| CompileError {
        detail,
        internal: false,
    };
    let env = environment(scope, variables);
    let checked = cel::compile(text, &env)
        .map_err(|issues| invalid(format!("compilation failed: {issues}")))?;
    let output = checked.output();
    if !returns.is_empty() && !returns.contains(output) {
        let names: Vec<String> = returns.iter().map(go_name).collect();
        let expected = match &*names {
            [one] => one.clone(),
            several => format!("one of [{}]", several.join(" ")),
        };
        let found = go_name(output);
        return Err(invalid(format!(
            "must evaluate to {expected} but got {found}"
        )));
    }
    let used = cel::selected_fields(&checked, "variables");
    let below = variables.iter().flat_map(|variables| &variables.0);
    let below = below.filter(|variable| used.contains(&variable.name));
    let depth = cel::depth(&checked) + below.map(|variable| variable.depth).max().unwrap_or(0);
    if depth > DEPTH_MAX {
        return Err(invalid(format!(
            "the expression and the variables that it uses nest {depth} levels deep, at most {DEPTH_MAX} are allowed"
        )));
    }
    let program = Program::new(checked).map_err(|why| CompileError {
        detail: format!("program instantiation failed: {why}"),
        internal: true,
    })?;
    Ok((program, depth))
}

impl Variables {
    /// Compiles one more variable, which those after it may use even if it is wrong.
    pub(crate) fn declare(
        &mut self,
        name: &str,
        text: &str,
        scope: Scope,
    ) -> Result<(), CompileError> {
        let compiled = compile(text, scope, Some(self), &[]);
        let of = compiled
            .as_ref()
            .map_or(Type::Dyn, |(program, _)| program.checked().output().clone());
        let (program, depth, error) = match compiled {
            Ok((program, depth)) => (Ok(program), depth, None),
            Err(error) => (Err(error.detail.clone()), 0, Some(error)),
        };
        // The last of a name counts.
        self.0.retain(|variable| &*variable.name != name);
        self.0.push(Variable {
            name: name.into(),
            of,
            depth,
            program,
        });
        error.map_or(Ok(()), Err)
    }

    /// The variables of a policy, each with what is wrong with it kept until it is used.
    pub(crate) fn read(list: &Value, scope: Scope) -> Variables {
        let mut variables = Variables::default();
        for variable in list.as_array().into_iter().flatten() {
            let text = |member: &str| variable[member].as_str().unwrap_or_default();
            let _ = variables.declare(text("name"), text("expression"), scope);
        }
        variables
    }
}

/// A type as Go prints it.
fn go_name(of: &Type) -> String {
    let of_params = |params: &[&Type]| {
        let params: Vec<String> = params.iter().map(|param| go_name(param)).collect();
        format!("{}({})", of.runtime_name(), params.join(", "))
    };
    match of {
        Type::List(element) => of_params(&[element]),
        Type::Map(pair) => of_params(&[&pair.0, &pair.1]),
        Type::Opaque(_, params) if !params.is_empty() => {
            of_params(&params.iter().collect::<Vec<_>>())
        }
        Type::Type(Some(inner)) => of_params(&[inner]),
        other => other.runtime_name().to_owned(),
    }
}

fn environment(scope: Scope, variables: Option<&Variables>) -> Env {
    let mut env = cel::admission::environment(scope, &Types::default());
    if let Some(variables) = variables {
        cel::admission::allow_variables(&mut env);
        for variable in &variables.0 {
            cel::admission::declare_variable(&mut env, &variable.name, &variable.of);
        }
    }
    env
}

/// What expressions are evaluated on. Variables are computed when they are first used, and once.
pub(crate) struct Input<'a> {
    pub facts: Facts<'a>,
    pub variables: Option<&'a Variables>,
    computed: RefCell<BTreeMap<Arc<str>, Evaluated<'a>>>,
    /// What computing variables has cost.
    spent: Cell<u64>,
}

/// The variables that every expression has. What there is not is null.
#[derive(Clone, Copy)]
pub(crate) struct Facts<'a> {
    pub object: &'a Value,
    pub old: &'a Value,
    pub request: &'a Value,
    pub namespace: &'a Value,
    pub params: &'a Value,
    /// Who answers questions about permissions, and what the request itself asks for.
    pub authorizer: Option<(&'a dyn Authorize, &'a Check)>,
}

impl<'a> Input<'a> {
    pub(crate) fn new(facts: Facts<'a>, variables: Option<&'a Variables>) -> Input<'a> {
        Input {
            facts,
            variables,
            computed: RefCell::default(),
            spent: Cell::default(),
        }
    }

    fn compute(&self, variable: &'a Variable) -> Evaluated<'a> {
        let name = &variable.name;
        let program = variable.program.as_ref().map_err(|why| {
            Fault::new(format!(
                "composited variable {name:?} fails to compile: {why}"
            ))
        })?;
        let outcome = program.evaluate(self, PER_CALL_LIMIT);
        let spent = self.spent.get().saturating_add(outcome.cost);
        self.spent.set(spent);
        outcome.value.map_err(|fault| {
            Fault::new(format!(
                "composited variable {name:?} fails to evaluate: {fault}"
            ))
        })
    }
}

impl<'a> Activation<'a> for Input<'a> {
    fn variable(&self, name: &str) -> Option<Evaluated<'a>> {
        let facts = &self.facts;
        let data = match name {
            "object" => facts.object,
            "oldObject" => facts.old,
            "params" => facts.params,
            "request" => facts.request,
            "namespaceObject" => facts.namespace,
            "authorizer" => {
                facts.authorizer?;
                return Some(Ok(Check::Authorizer(cel::Asker::User).value()));
            }
            "authorizer.requestResource" => {
                let (_, resource) = facts.authorizer?;
                return Some(Ok(resource.clone().value()));
            }
            _ => return None,
        };
        Some(Ok(cel::dynamic(data)))
    }

    fn field(&self, variable: &str, field: &str) -> Option<Evaluated<'a>> {
        if variable != "variables" {
            return None;
        }
        let known = &self.variables?.0;
        let variable = known.iter().find(|known| &*known.name == field)?;
        if let Some(computed) = self.computed.borrow().get(field) {
            return Some(computed.clone());
        }
        let computed = self.compute(variable);
        let mut held = self.computed.borrow_mut();
        held.insert(variable.name.clone(), computed.clone());
        Some(computed)
    }

    fn authorizer(&self) -> Option<&dyn Authorize> {
        self.facts.authorizer.map(|(authorizer, _)| authorizer)
    }
}
