//! What must hold: always ([`safe`]), and once nothing changes any more ([`converged`]).

use std::sync::Arc;

use api::kinds::ClusterRole;

use super::{DESCRIPTOR, aggregate};
use crate::oracle::{Change, Oracle, Verdict, World, no_business};

const SUMS: &str = "only sums of cluster roles are written";

#[derive(Default)]
pub struct ClusterRoleOracle;

impl Oracle for ClusterRoleOracle {
    fn after_write(&self, world: &World, change: &Change) -> Verdict {
        let roles = world.store::<ClusterRole>().list();
        let (before, after) = (
            change.before::<ClusterRole>(),
            change.after::<ClusterRole>(),
        );
        match (before, after) {
            (Some(before), Some(after)) => world.check(SUMS, world.sight(&roles), || {
                safe(Some(&before), &after, &roles)
            }),
            // UPSTREAM: a role that was deleted a moment ago is created by being applied to.
            (_, Some(_)) => Ok(()),
            (_, None) => no_business(DESCRIPTOR.name, change),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        let roles = world.store::<ClusterRole>().list();
        roles.iter().try_for_each(|role| converged(role, &roles))
    }
}

/// The role is the sum of those that it selects, if it is to be a sum.
pub fn converged(role: &ClusterRole, roles: &[Arc<ClusterRole>]) -> Result<(), String> {
    match aggregate(role, roles) {
        Ok(Some(rules)) if rules != role.rules => Err(format!(
            "cluster role {} is not the sum of those that it selects",
            role.metadata.name
        )),
        _ => Ok(()),
    }
}

/// Nobody gets rights that were not given: only sums are written, and each rule is that of a role.
pub fn safe(
    before: Option<&ClusterRole>,
    after: &ClusterRole,
    roles: &[Arc<ClusterRole>],
) -> Result<(), String> {
    let name = &after.metadata.name;
    if before.is_none_or(|before| before.aggregation_rule != after.aggregation_rule)
        || after.aggregation_rule.is_none()
    {
        return Err(format!("cluster role {name} is no sum, but was written"));
    }
    let given = |rule| {
        let mut others = roles.iter().filter(|other| other.metadata.name != *name);
        others.any(|other| other.rules.contains(rule))
    };
    match after.rules.iter().find(|rule| !given(rule)) {
        Some(rule) => Err(format!("cluster role {name} got {rule:?} from nowhere")),
        None => Ok(()),
    }
}
