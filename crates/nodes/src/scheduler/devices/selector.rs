//! Which devices a class or a request means, in CEL.

use std::collections::BTreeMap;
use std::sync::Arc;

use cel::{Activation, Env, Evaluated, Kube, Program, Semver, Type, Value};
use parking_lot::Mutex;

use crate::devices::{Attribute, Device};

/// UPSTREAM: what one evaluation may cost.
const COST_MAX: u64 = 1_000_000;

/// UPSTREAM: so many compiled expressions are kept; there are rarely more than a few.
const KEPT_MAX: usize = 10_000;

const DEVICE: &str = "kubernetes.DRADevice";

/// Compiled expressions, by their text.
pub(in super::super) struct Selectors {
    env: Env,
    programs: Mutex<BTreeMap<Box<str>, Compiled>>,
}

type Compiled = Arc<Result<Program, String>>;

impl Default for Selectors {
    fn default() -> Selectors {
        let mut env = Env::default();
        let by_domain = |values: Type| Type::map(Type::String, Type::map(Type::String, values));
        env.computed("device", DEVICE)
            .computed_field(DEVICE, "driver", Type::String)
            .computed_field(DEVICE, "allowMultipleAllocations", Type::Bool)
            .computed_field(DEVICE, "attributes", by_domain(Type::Dyn))
            .computed_field(
                DEVICE,
                "capacity",
                by_domain(Type::named("kubernetes.Quantity")),
            );
        Selectors {
            env,
            programs: Mutex::default(),
        }
    }
}

impl Selectors {
    /// Does the expression hold of the device? The error is worded as upstream's.
    pub(super) fn matches(
        &self,
        expression: &str,
        driver: &str,
        device: &Device,
    ) -> Result<bool, String> {
        let program = self.compile(expression);
        let program = program
            .as_ref()
            .as_ref()
            .map_err(|error| format!("CEL compile error: {error}"))?;
        let outcome = program.evaluate(&Facts { driver, device }, COST_MAX);
        match outcome.value {
            Ok(Value::Bool(holds)) => Ok(holds),
            Ok(other) => Err(format!(
                "CEL runtime error: CEL result of type {} could not be converted to bool",
                other.type_name()
            )),
            Err(fault) => Err(format!("CEL runtime error: {fault}")),
        }
    }

    fn compile(&self, expression: &str) -> Compiled {
        let mut programs = self.programs.lock();
        if let Some(known) = programs.get(expression) {
            return known.clone();
        }
        if programs.len() >= KEPT_MAX {
            programs.clear();
        }
        let compiled = cel::compile(expression, &self.env)
            .map_err(|issues| format!("compilation failed: {issues}"))
            .and_then(|checked| {
                Program::new(checked)
                    .map_err(|error| format!("program instantiation failed: {error}"))
            });
        let compiled = Arc::new(compiled);
        programs.insert(expression.into(), compiled.clone());
        compiled
    }
}

/// What an expression may ask of a device.
struct Facts<'d> {
    driver: &'d str,
    device: &'d Device,
}

impl<'a> Activation<'a> for Facts<'_> {
    fn variable(&self, _: &str) -> Option<Evaluated<'a>> {
        None
    }

    fn field(&self, _: &str, field: &str) -> Option<Evaluated<'a>> {
        Some(match field {
            "driver" => Ok(Value::text(self.driver)),
            "allowMultipleAllocations" => Ok(Value::Bool(false)),
            "attributes" => self.attributes(),
            "capacity" => {
                let capacity = self.device.capacity.iter();
                let amounts = capacity.map(|(name, held)| {
                    let amount = Kube::Quantity(held.value.clone());
                    (&**name, Value::Kube(Arc::new(amount)))
                });
                Ok(self.by_domain(amounts))
            }
            _ => return None,
        })
    }
}

impl Facts<'_> {
    fn attributes<'a>(&self) -> Evaluated<'a> {
        let mut values: Vec<(&str, Value<'a>)> = Vec::new();
        for (name, attribute) in &self.device.attributes {
            let value = match attribute {
                Attribute::Int(number) => Value::Int(*number),
                Attribute::Bool(flag) => Value::Bool(*flag),
                Attribute::String(text) => Value::text(&**text),
                Attribute::Version(text) => {
                    let version = Semver::parse(text).map_err(|error| {
                        cel::Fault::new(format!(
                            "attribute {name}: parse semantic version: {error}"
                        ))
                    })?;
                    Value::Kube(Arc::new(Kube::Semver(version)))
                }
            };
            values.push((name, value));
        }
        Ok(self.by_domain(values))
    }

    /// Names without a domain are the driver's. A domain that has nothing is empty, and no error.
    fn by_domain<'a, 'n>(
        &self,
        values: impl IntoIterator<Item = (&'n str, Value<'a>)>,
    ) -> Value<'a> {
        let mut domains: BTreeMap<String, Vec<(String, Value<'a>)>> = BTreeMap::new();
        for (name, value) in values {
            let (domain, id) = name.split_once('/').unwrap_or((self.driver, name));
            let held = domains.entry(domain.to_owned()).or_default();
            held.push((id.to_owned(), value));
        }
        let maps = domains
            .into_iter()
            .map(|(domain, held)| (domain, Value::map(held, None)));
        Value::map(maps, Some(Value::map([], None)))
    }
}
