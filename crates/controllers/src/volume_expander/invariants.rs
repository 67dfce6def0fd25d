//! What must hold: nothing of a claim changes but the annotation.

use api::kinds::PersistentVolumeClaim;

use super::DESCRIPTOR;
use crate::oracle::{Change, Oracle, Verdict, World, no_business};

#[derive(Default)]
pub struct ExpanderOracle;

impl Oracle for ExpanderOracle {
    fn after_write(&self, _world: &World, change: &Change) -> Verdict {
        match change.updated::<PersistentVolumeClaim>() {
            Some((before, after)) => safe(&before, &after),
            None => no_business(DESCRIPTOR.name, change),
        }
    }

    /// What grows does so by a driver's hand.
    fn at_rest(&self, _world: &World) -> Verdict {
        Ok(())
    }
}

pub fn safe(before: &PersistentVolumeClaim, after: &PersistentVolumeClaim) -> Result<(), String> {
    let mut expected = before.clone();
    expected.metadata.annotations = after.metadata.annotations.clone();
    expected.metadata.resource_version = after.metadata.resource_version;
    match expected == *after {
        true => Ok(()),
        false => Err(format!(
            "more than an annotation of claim {} was changed",
            after.metadata.key()
        )),
    }
}
