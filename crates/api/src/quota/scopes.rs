//! Which objects a quota is about.

use super::Item;
use crate::gates::{Gate, Gates};
use crate::intern::Istr;
use crate::kinds::{PersistentVolumeClaim, Pod, ResourceQuota};

/// One requirement: `scopes` are such that something exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope<'a> {
    pub name: &'a str,
    pub operator: &'a str,
    pub values: &'a [Istr],
}

/// Is the object one that the quota is about? Without scopes it is about all.
pub fn matches(quota: &ResourceQuota, item: &Item<'_>) -> bool {
    quota.scopes().all(|scope| scope.matches(item))
}

/// The same, as these gates have it: claims had no scopes before they had attributes classes.
pub fn matches_gated(quota: &ResourceQuota, item: &Item<'_>, gates: Gates) -> bool {
    let is_claim = matches!(item, Item::Claim(_));
    match is_claim && !gates.enabled(Gate::VolumeAttributesClass) {
        true => quota.scopes().next().is_none(),
        false => matches(quota, item),
    }
}

impl Scope<'_> {
    pub fn matches(&self, item: &Item<'_>) -> bool {
        match item {
            Item::Pod(pod) => self.matches_pod(pod),
            Item::Claim(claim) => self.matches_claim(claim),
            Item::Service(_) | Item::Devices(..) | Item::Other => false,
        }
    }

    fn matches_pod(&self, pod: &Pod) -> bool {
        let charge = &pod.body.charge;
        match self.name {
            "Terminating" => charge.has_deadline,
            "NotTerminating" => !charge.has_deadline,
            "BestEffort" => charge.is_best_effort,
            "NotBestEffort" => !charge.is_best_effort,
            "PriorityClass" => {
                let class = Some(&charge.priority_class).filter(|class| !class.is_empty());
                self.selects(class.as_slice())
            }
            "CrossNamespacePodAffinity" => charge.crosses_namespaces,
            _ => false,
        }
    }

    fn matches_claim(&self, claim: &PersistentVolumeClaim) -> bool {
        let names: Vec<&Istr> = claim.attributes_classes().collect();
        self.name == "VolumeAttributesClass" && self.selects(&names)
    }

    /// The object names none of these, or one, or several: then one that matches will do.
    fn selects(&self, names: &[&Istr]) -> bool {
        let listed = |name: &&Istr| self.values.contains(name);
        match self.operator {
            "In" => names.iter().any(listed),
            "NotIn" => names.is_empty() || names.iter().any(|name| !listed(name)),
            "Exists" => !names.is_empty(),
            "DoesNotExist" => names.is_empty(),
            _ => false,
        }
    }
}
