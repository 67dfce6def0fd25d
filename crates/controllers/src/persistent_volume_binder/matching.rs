//! Which volume suits a claim. Pure, but for the index that is kept beside the cache.
//!
//! Free volumes are kept by class and access modes, smallest first: a claim looks at those that are as large as it asks
//! for, and takes the first that suits. Bound volumes, of which there are most, are not looked at.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::collections::HashMap;
use api::kinds::{PersistentVolume, PersistentVolumeClaim};
use api::{Gate, Gates, Istr, Key, Quantity, Selector};
use parking_lot::Mutex;
use runtime::{Change, Index, IndexValue};

use super::class;

/// Volumes by the claim that they name.
pub const BY_CLAIM: Index<PersistentVolume> = Index {
    name: "claim",
    values: |volume, found| {
        if let Some(held) = &volume.spec.claim_ref {
            found(IndexValue::In(held.namespace.clone(), held.name.clone()));
        }
    },
};

const MODES: [&str; 4] = [
    "ReadWriteOnce",
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOncePod",
];

/// A set of access modes; none where one of them is unknown.
pub fn modes(modes: &[Istr]) -> Option<u8> {
    modes.iter().try_fold(0, |set, mode| {
        let place = MODES.iter().position(|known| mode == known)?;
        Some(set | 1 << place)
    })
}

/// The sets that have all of these modes, those with the fewest first.
fn supersets(wanted: u8) -> Vec<u8> {
    let mut sets: Vec<u8> = (0..16).filter(|set| set & wanted == wanted).collect();
    sets.sort_by_key(|set| set.count_ones());
    sets
}

/// Volumes that are bound to no claim, as far as the cache has seen.
#[derive(Default)]
pub struct FreeVolumes(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// Those that name no claim.
    free: HashMap<Place, BTreeSet<(Quantity, Istr)>>,
    /// Those that name one, by class: it is not there yet, or gone and they are retained. They are told of, no more.
    kept: BTreeSet<(Istr, Istr)>,
}

/// Class and access modes.
type Place = (Istr, u8);

/// How many volumes are told of that are kept for other claims, so that there is room for those that are free.
const KEPT_TOLD: usize = 2;

impl FreeVolumes {
    pub fn on_change(&self, change: Change<'_, PersistentVolume>) {
        let (old, new) = match change {
            Change::Added(new) => (None, Some(new)),
            Change::Updated { old, new } => (Some(old), Some(new)),
            Change::Deleted(old) => (Some(old), None),
        };
        let mut known = self.0.lock();
        if let Some(entry) = old.and_then(|old| kept(old)) {
            known.kept.remove(&entry);
        }
        known.kept.extend(new.and_then(|new| kept(new)));
        let all = &mut known.free;
        if let Some((place, entry)) = old.and_then(|old| free(old))
            && let Some(held) = all.get_mut(&place)
        {
            held.remove(&entry);
            if held.is_empty() {
                all.remove(&place);
            }
        }
        if let Some((place, entry)) = new.and_then(|new| free(new)) {
            all.entry(place).or_default().insert(entry);
        }
    }

    /// The names of a few, to be told of: those of the class first, the largest of them first, but for some that are kept
    /// for a claim.
    pub fn some(&self, class: &str) -> Vec<Istr> {
        let known = self.0.lock();
        let all = &known.free;
        let kept = known.kept.range((Istr::new(class), Istr::default())..);
        let kept = kept.take_while(|(other, _)| other == class);
        let kept = kept.take(KEPT_TOLD).map(|(_, name)| name);
        let place = |set: u8| (Istr::new(class), set);
        let own = (0..16).filter_map(|set| all.get(&place(set)));
        let own = own.flat_map(|held| held.iter().rev());
        let others = all.iter().filter(|((other, _), _)| other != class);
        let others = others.flat_map(|(_, held)| held.iter());
        let free = own.chain(others).map(|(_, name)| name);
        kept.chain(free).take(TOLD).cloned().collect()
    }

    /// The names of those of this class and with these modes that are at least so large, smallest first, until `take`
    /// accepts one.
    fn first<T>(
        &self,
        place: &Place,
        at_least: &Quantity,
        mut take: impl FnMut(&str) -> Option<T>,
    ) -> Option<T> {
        let known = self.0.lock();
        let from = (at_least.clone(), Istr::default());
        let mut held = known.free.get(place)?.range(from..);
        held.find_map(|(_, name)| take(name))
    }
}

/// The class and the name of a volume that names a claim and is not bound to it.
fn kept(volume: &PersistentVolume) -> Option<(Istr, Istr)> {
    let is_kept = volume.spec.claim_ref.is_some()
        && matches!(&*volume.status.phase, "Available" | "Released");
    is_kept.then(|| {
        let name = Istr::new(&volume.metadata.name);
        (class::of_volume(volume).into(), name)
    })
}

fn free(volume: &PersistentVolume) -> Option<(Place, (Quantity, Istr))> {
    if volume.spec.claim_ref.is_some() {
        return None;
    }
    let place = (
        class::of_volume(volume).into(),
        modes(&volume.spec.access_modes)?,
    );
    let size = volume.spec.storage.clone().unwrap_or_default();
    Some((place, (size, Istr::new(&volume.metadata.name))))
}

/// Where a claim's volume is looked for.
pub struct Volumes<'a> {
    pub free: &'a FreeVolumes,
    /// The newest that is known of a volume that no other claim is just being given.
    pub get: &'a dyn Fn(&str) -> Option<Arc<PersistentVolume>>,
    /// Volumes whose reference names the claim.
    pub naming: &'a dyn Fn(&Key) -> Vec<Arc<PersistentVolume>>,
    pub gates: Gates,
}

/// The volume that suits best: one that names the claim, or the smallest that is free. With `delayed`, nobody but the
/// scheduler chooses, by naming the claim in a volume.
pub fn find(
    claim: &PersistentVolumeClaim,
    delayed: bool,
    volumes: &Volumes<'_>,
) -> Result<Option<Arc<PersistentVolume>>, String> {
    let asked = claim.spec.volume_attributes_class_name.as_ref();
    if !volumes.gates.enabled(Gate::VolumeAttributesClass)
        && asked.is_some_and(|class| !class.is_empty())
    {
        return Err(format!(
            "unsupported volumeAttributesClassName is set on claim {} when the feature-gate VolumeAttributesClass is disabled",
            claim.metadata.key()
        ));
    }
    let selector = selector(claim)?;
    let Some(wanted) = modes(&claim.spec.access_modes) else {
        return Ok(None);
    };
    let mut naming = (volumes.naming)(&claim.metadata.key());
    naming.retain(|volume| {
        is_bound_to(volume, claim) && suits_when_named(volume, claim, volumes.gates)
    });
    naming.sort_by(|one, two| one.metadata.name.cmp(&two.metadata.name));
    let class = Istr::new(class::of_claim(claim));
    // UPSTREAM: fewer modes come first, also before a volume that names the claim and has more.
    for set in supersets(wanted) {
        let named = naming
            .iter()
            .find(|volume| modes(&volume.spec.access_modes) == Some(set));
        if let Some(volume) = named {
            return Ok(Some(volume.clone()));
        }
        if delayed {
            continue;
        }
        let take = |name: &str| {
            let volume = (volumes.get)(name)?;
            let suits = passed_over(&volume, claim, selector.as_ref(), volumes.gates).is_none();
            suits.then_some(volume)
        };
        let place = (class.clone(), set);
        if let Some(volume) = volumes.free.first(&place, &claim.spec.storage, take) {
            return Ok(Some(volume));
        }
    }
    Ok(None)
}

fn selector(claim: &PersistentVolumeClaim) -> Result<Option<Selector>, String> {
    let Some(selector) = &claim.spec.selector else {
        return Ok(None);
    };
    let key = claim.metadata.key();
    selector.compile().map(Some).map_err(|error| {
        format!("error creating internal label selector for claim: {key}: {error}")
    })
}

/// Does the volume name this claim? A reference without uid is a user's.
pub fn is_bound_to(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let meta = &claim.metadata;
    volume.spec.claim_ref.as_ref().is_some_and(|held| {
        *held.name == *meta.name
            && held.namespace == meta.namespace
            && (held.uid.is_empty() || held.uid == meta.uid)
    })
}

fn suits_when_named(
    volume: &PersistentVolume,
    claim: &PersistentVolumeClaim,
    gates: Gates,
) -> bool {
    let size = volume.spec.storage.clone().unwrap_or_default();
    size >= claim.spec.storage
        && has_same_mode(volume, claim)
        && attributes_class(volume, claim, gates)
        && !volume.metadata.is_terminating()
}

pub fn has_same_mode(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    mode(&volume.spec.volume_mode) == mode(&claim.spec.volume_mode)
}

fn mode(given: &str) -> &str {
    if given.is_empty() {
        "Filesystem"
    } else {
        given
    }
}

/// Without the gate, nobody knows what a class asks for, so none may be named.
fn attributes_class(
    volume: &PersistentVolume,
    claim: &PersistentVolumeClaim,
    gates: Gates,
) -> bool {
    let name = |given: &Option<Istr>| given.clone().unwrap_or_default();
    let wanted = name(&claim.spec.volume_attributes_class_name);
    let is_known = wanted.is_empty() || gates.enabled(Gate::VolumeAttributesClass);
    is_known && name(&volume.spec.volume_attributes_class_name) == wanted
}

/// Why a volume does not suit a claim that names none.
pub fn passed_over(
    volume: &PersistentVolume,
    claim: &PersistentVolumeClaim,
    selector: Option<&Selector>,
    gates: Gates,
) -> Option<String> {
    if let Some(held) = &volume.spec.claim_ref {
        let other = format!("claim {}/{}", held.namespace, held.name);
        return Some(match &*volume.status.phase {
            "Available" if is_bound_to(volume, claim) => {
                let why = unsuitable(volume, claim, selector, gates)?;
                format!("it is kept for this claim, but {why}")
            }
            "Available" => format!("it is kept for {other}"),
            "Released" => format!("it is retained with what {other} left on it"),
            _ => format!("it is bound to {other}"),
        });
    }
    unsuitable(volume, claim, selector, gates)
}

/// What of a volume does not suit a claim, whichever claim it is kept for.
fn unsuitable(
    volume: &PersistentVolume,
    claim: &PersistentVolumeClaim,
    selector: Option<&Selector>,
    gates: Gates,
) -> Option<String> {
    let spec = &volume.spec;
    let size = spec.storage.clone().unwrap_or_default();
    let (has, wants) = (class::of_volume(volume), class::of_claim(claim));
    let lacks = |mode: &&Istr| !spec.access_modes.contains(mode);
    if size < claim.spec.storage {
        return Some(format!("it is too small ({size})"));
    }
    if has != wants {
        let class = if has.is_empty() { "no class" } else { has };
        return Some(format!("it is of {class}"));
    }
    if let Some(mode) = claim.spec.access_modes.iter().find(lacks) {
        return Some(format!("it does not allow {mode}"));
    }
    if !has_same_mode(volume, claim) {
        return Some(format!("its mode is {}", mode(&spec.volume_mode)));
    }
    if !attributes_class(volume, claim, gates) {
        return Some("it is of another attributes class".to_owned());
    }
    if volume.metadata.is_terminating() {
        return Some("it is being deleted".to_owned());
    }
    if volume.status.phase != "Available" {
        let phase = &volume.status.phase;
        let phase = if phase.is_empty() { "Pending" } else { phase };
        return Some(format!("its phase is {phase}"));
    }
    let selects = selector.is_none_or(|selector| selector.matches(&volume.metadata.labels));
    (!selects).then(|| "the claim does not select its labels".to_owned())
}

/// How many volumes are told of that do not suit.
const TOLD: usize = 5;

/// Why none of these volumes suits.
pub fn explain(
    claim: &PersistentVolumeClaim,
    volumes: &[Arc<PersistentVolume>],
    gates: Gates,
) -> Vec<(Istr, String)> {
    let selector = selector(claim).ok().flatten();
    let told = volumes.iter().filter_map(|volume| {
        let why = passed_over(volume, claim, selector.as_ref(), gates)?;
        Some((Istr::new(&volume.metadata.name), why))
    });
    told.collect()
}

/// Why a volume that a claim names cannot be its; in upstream's words.
pub fn mismatch(
    volume: &PersistentVolume,
    claim: &PersistentVolumeClaim,
    gates: Gates,
) -> Option<String> {
    let size = volume.spec.storage.clone().unwrap_or_default();
    let missing = |mode: &Istr| !volume.spec.access_modes.contains(mode);
    if volume.metadata.is_terminating() {
        let name = &volume.metadata.name;
        Some(format!("the volume is marked for deletion {name:?}"))
    } else if size.value() < claim.spec.storage.value() {
        Some("requested PV is too small".to_owned())
    } else if class::of_volume(volume) != class::of_claim(claim) {
        Some("storageClassName does not match".to_owned())
    } else if !attributes_class(volume, claim, gates) {
        let why = match gates.enabled(Gate::VolumeAttributesClass) {
            true => "does not match",
            false => "is not supported when the feature-gate VolumeAttributesClass is disabled",
        };
        Some(format!("volumeAttributesClassName {why}"))
    } else if !has_same_mode(volume, claim) {
        Some("incompatible volumeMode".to_owned())
    } else if claim.spec.access_modes.iter().any(missing) {
        Some("incompatible accessMode".to_owned())
    } else {
        None
    }
}
