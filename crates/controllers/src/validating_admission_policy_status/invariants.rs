//! What must hold: always ([`safe`]), and once nothing changes any more ([`converged`]).

use api::kinds::ValidatingAdmissionPolicy;

use super::DESCRIPTOR;
use super::actions::WRONG;
use crate::oracle::{Change, Oracle, Verdict, World, no_business};

#[derive(Default)]
pub struct PolicyStatusOracle;

impl Oracle for PolicyStatusOracle {
    fn after_write(&self, _world: &World, change: &Change) -> Verdict {
        match change.updated::<ValidatingAdmissionPolicy>() {
            Some((before, after)) => safe(&before, &after),
            None => no_business(DESCRIPTOR.name, change),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        let policies = world.store::<ValidatingAdmissionPolicy>().list();
        policies.iter().try_for_each(|policy| converged(policy))
    }
}

/// The status is about the policy as it is, and names the expressions that cannot fit: users write one that does not.
pub fn converged(policy: &ValidatingAdmissionPolicy) -> Result<(), String> {
    let name = &policy.metadata.name;
    let generation = policy.metadata.generation;
    if policy.status.observed_generation < generation {
        return Err(format!(
            "generation {generation} of admission policy {name} was not checked"
        ));
    }
    let checking = policy.status.type_checking.iter();
    let warnings: Vec<_> = checking
        .flat_map(|checking| &checking.expression_warnings)
        .collect();
    for (index, validation) in policy.spec.validations.iter().enumerate() {
        let field = format!("spec.validations[{index}].expression");
        let warned = warnings.iter().any(|warning| warning.field_ref == field);
        let wrong = validation.expression == WRONG;
        if wrong != warned {
            return Err(format!(
                "{field} of admission policy {name} {} a warning",
                if wrong { "lacks" } else { "has" }
            ));
        }
    }
    Ok(())
}

/// Nothing but the status changes, and it never speaks of an older generation than before.
pub fn safe(
    before: &ValidatingAdmissionPolicy,
    after: &ValidatingAdmissionPolicy,
) -> Result<(), String> {
    let name = &after.metadata.name;
    let mut expected = before.clone();
    expected.status = after.status.clone();
    expected.metadata.resource_version = after.metadata.resource_version;
    if expected != *after {
        return Err(format!(
            "more than the status of admission policy {name} was changed"
        ));
    }
    let observed = after.status.observed_generation;
    if observed < before.status.observed_generation || observed > after.metadata.generation {
        return Err(format!(
            "the status of admission policy {name} went from generation {} to {observed}",
            before.status.observed_generation
        ));
    }
    Ok(())
}
