//! Who makes a claim's volume grow. Pure.

use api::decision::Line;
use api::kinds::{PersistentVolume, PersistentVolumeClaim};

pub const RESIZER: &str = "volume.kubernetes.io/storage-resizer";
const PRE_RESIZE_CAPACITY: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The claim has what it requests.
    Nothing,
    /// A driver has taken over from what was built in: it is told.
    Mark {
        built_in: &'static str,
        driver: &'static str,
    },
    /// Somebody outside knows what to do.
    Wait,
}

pub fn plan(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Result<Step, String> {
    let (meta, held) = (&claim.metadata, volume.spec.claim_ref.as_ref());
    let is_its = held.is_some_and(|held| held.namespace == meta.namespace && held.uid == meta.uid);
    if !is_its {
        let key = meta.key();
        return Err(format!(
            "persistent Volume is not bound to PVC being updated : {key}"
        ));
    }
    let has = claim.status.storage.clone().unwrap_or_default();
    let is_resized = volume.metadata.annotation(PRE_RESIZE_CAPACITY).is_some();
    if claim.spec.storage <= has && !is_resized {
        return Ok(Step::Nothing);
    }
    Ok(match volume.spec.built_in() {
        Some((built_in, driver)) => Step::Mark { built_in, driver },
        None => Step::Wait,
    })
}

impl Step {
    pub fn message(self) -> Option<String> {
        match self {
            Step::Nothing => None,
            Step::Mark { built_in, .. } => Some(format!(
                "CSI migration enabled for {built_in}; waiting for external resizer to expand the pvc"
            )),
            Step::Wait => Some("waiting for an external controller to expand this PVC".to_owned()),
        }
    }

    pub fn line(self) -> Option<Line> {
        match self {
            Step::Nothing => None,
            Step::Mark { driver, .. } => Some(
                Line::acts(
                    "MarksResizer",
                    format!("asks {driver} to make its volume grow"),
                )
                .because("it requests more than it has"),
            ),
            Step::Wait => Some(
                Line::waits(
                    "WaitsForResizer",
                    "waits until its driver has expanded its volume",
                )
                .because("it requests more than it has"),
            ),
        }
    }
}
