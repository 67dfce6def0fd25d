//! Managed fields of several versions of one kind: what somebody manages at another version than that of the request is
//! compared, kept and removed at that version.
//!
//! UPSTREAM: structured-merge-diff's `Updater.update` and `prune`, which ask a `Converter`.

use super::compare::{Comparison, fields_of};
use super::merge;
use super::schema::Place;
use super::set::FieldSet;
use crate::crd::schema::Ready;
use crate::status::Status;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// An object at another version, and the schema of that version.
pub(crate) struct AtVersion {
    pub(crate) schema: Arc<Ready>,
    pub(crate) value: Value,
}

/// Says what an object is at another version of its kind (`example.com/v1`).
pub(crate) type Versions<'a> = dyn FnMut(&Value, &str) -> Result<AtVersion, Status> + 'a;

/// What a write does to the fields of one version.
#[derive(Default)]
pub(super) struct Difference {
    /// Added or given another value.
    pub(super) changed: FieldSet,
    pub(super) lost: FieldSet,
}

impl Difference {
    pub(super) fn of(place: Place<'_>, old: &Value, new: &Value, reset: &[&[&str]]) -> Difference {
        let comparison = Comparison::of(place, old, new);
        let (mut changed, mut lost) = (comparison.added, comparison.removed);
        changed.union(&comparison.modified);
        // What this endpoint does not write cannot be disputed through it.
        for path in reset {
            changed.remove_tree(path);
            lost.remove_tree(path);
        }
        Difference { changed, lost }
    }
}

/// What a write does to the fields of all versions at which any are managed.
pub(super) struct Differences {
    /// At the version of the request, which counts for all that have none of their own here.
    pub(super) own: Difference,
    others: Vec<(String, Difference)>,
}

impl Differences {
    pub(super) fn new(own: Difference) -> Differences {
        let others = Vec::new();
        Differences { own, others }
    }

    /// Adds those at other versions.
    pub(super) fn add(
        &mut self,
        (old, new): (&Value, &Value),
        at: &BTreeSet<String>,
        reset: &[&[&str]],
        versions: &mut Versions<'_>,
    ) -> Result<(), Status> {
        for version in at {
            let (old, new) = (versions(old, version)?, versions(new, version)?);
            let place = Place::Root(&new.schema.value);
            let difference = Difference::of(place, &old.value, &new.value, reset);
            self.others.push((version.clone(), difference));
        }
        Ok(())
    }

    pub(super) fn at(&self, version: &str) -> &Difference {
        let other = self.others.iter().find(|(at, _)| at == version);
        other.map_or(&self.own, |(_, difference)| difference)
    }
}

/// Fields, and the version at which they are managed.
pub(super) struct Managed {
    pub(super) version: String,
    pub(super) fields: FieldSet,
}

/// Removes from a merged object what was applied before and is managed by nobody any more. Everything is looked at where
/// it is managed: first at the version of what was applied before, then at those of the others, who get theirs back.
pub(super) fn prune(
    merged: &Value,
    before: &Managed,
    managed: &[Managed],
    versions: &mut Versions<'_>,
) -> Result<Value, Status> {
    let at = |version: &str| {
        let mut fields = FieldSet::default();
        let same = managed.iter().filter(|held| held.version == version);
        same.for_each(|held| fields.union(&held.fields));
        fields
    };
    let mut whole = versions(merged, &before.version)?;
    let mut pruned = whole.value.clone();
    let place = Place::Root(&whole.schema.value);
    merge::prune(place, &mut pruned, &before.fields, &at(&before.version));
    let others: BTreeSet<&str> = managed.iter().map(|held| held.version.as_str()).collect();
    for version in others.into_iter().filter(|other| *other != before.version) {
        whole = versions(&whole.value, version)?;
        let left = versions(&pruned, version)?;
        let place = Place::Root(&whole.schema.value);
        let mut kept = fields_of(place, &left.value);
        let gone = fields_of(place, &whole.value).difference(&kept);
        kept.union(&at(version));
        pruned = whole.value.clone();
        merge::prune(place, &mut pruned, &gone, &kept);
    }
    Ok(pruned)
}
