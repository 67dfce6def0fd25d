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
/// Variables that expressions share.
#[derive(Debug, Default)]
pub(crate) struct Variables(BTreeMap<Arc<str>, Variable>);

#[derive(Debug)]
struct Variable {
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

/// Compiles the expressions of one policy, or of anything else that has some. Declarations are made once for each scope:
/// there can be many variables and many expressions.
#[derive(Debug, Default)]
pub(crate) struct Compiler {
    variables: Option<Variables>,
    environments: Vec<(Scope, Env)>,
}

impl Compiler {
    /// For expressions that may use variables, of which there are none yet.
    pub(crate) fn with_variables() -> Compiler {
        Compiler {
            variables: Some(Variables::default()),
            environments: Vec::new(),
        }
    }

    /// Compiles one more variable, which those after it may use even if it is wrong. The last of a name counts.
    pub(crate) fn declare(
        &mut self,
        name: &str,
        text: &str,
        scope: Scope,
    ) -> Result<(), CompileError> {
        let compiled = self.compile(text, scope, &[]);
        let of = compiled
            .as_ref()
            .map_or(Type::Dyn, |(program, _)| program.checked().output().clone());
        for (_, env) in &mut self.environments {
            cel::admission::declare_variable(env, name, &of);
        }
        let (program, depth, error) = match compiled {
            Ok((program, depth)) => (Ok(program), depth, None),
            Err(error) => (Err(error.detail.clone()), 0, Some(error)),
        };
        let variable = Variable { depth, program };
        let variables = self.variables.get_or_insert_default();
        variables.0.insert(name.into(), variable);
        error.map_or(Ok(()), Err)
    }

    /// Compiles an expression that must be of one of the types given; none stands for any. It comes with how deep it
    /// nests.
    pub(crate) fn compile(
        &mut self,
        text: &str,
        scope: Scope,
        returns: &[Type],
    ) -> Result<(Program, usize), CompileError> {
        let invalid = |detail: String| CompileError {
            detail,
            internal: false,
        };
        let at = self.environment(scope);
        let env = &self.environments[at].1;
        let checked = cel::compile(text, env)
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
        let known = |name: &Arc<str>| self.variables.as_ref()?.0.get(name);
        let below = used.iter().filter_map(known);
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

    /// An expression that fails when it is evaluated, if it does not compile.
    pub(crate) fn expression(&mut self, text: &str, scope: Scope, returns: &[Type]) -> Expression {
        let compiled = self.compile(text, scope, returns);
        Expression {
            text: text.to_owned(),
            program: compiled
                .map(|(program, _)| program)
                .map_err(|error| error.detail),
        }
    }

    /// The variables that were declared.
    pub(crate) fn finish(self) -> Variables {
        self.variables.unwrap_or_default()
    }

    /// The place of the declarations for a scope.
    fn environment(&mut self, scope: Scope) -> usize {
        let mut known = self.environments.iter();
        if let Some(at) = known.position(|(known, _)| *known == scope) {
            return at;
        }
        let mut env = cel::admission::environment(scope, &Types::default());
        if let Some(variables) = &self.variables {
            cel::admission::allow_variables(&mut env);
            for (name, variable) in &variables.0 {
                let program = variable.program.as_ref();
                let of = program.map_or(&Type::Dyn, |program| program.checked().output());
                cel::admission::declare_variable(&mut env, name, of);
            }
        }
        self.environments.push((scope, env));
        self.environments.len() - 1
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

    fn compute(&self, name: &str, variable: &Variable) -> Evaluated<'a> {
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
        let (name, variable) = self.variables?.0.get_key_value(field)?;
        if let Some(computed) = self.computed.borrow().get(field) {
            return Some(computed.clone());
        }
        let computed = self.compute(name, variable);
        let mut held = self.computed.borrow_mut();
        held.insert(name.clone(), computed.clone());
        Some(computed)
    }

    fn authorizer(&self) -> Option<&dyn Authorize> {
        self.facts.authorizer.map(|(authorizer, _)| authorizer)
    }
}
