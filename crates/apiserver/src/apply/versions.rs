//! Managed fields of several versions of one kind: what somebody manages at another version than that of the request is
//! compared, kept and removed at that version.
//!
//! UPSTREAM: structured-merge-diff's `Updater.update` and `prune`, which ask a `Converter`.

use super::compare::{Comparison, fields_of};
use super::merge;
use super::schema::Place;
use super::set::FieldSet;
use crate::crd::schema::Ready;
use crate::schema::Type;
use crate::status::Status;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// An object at another version, and the schema of that version.
pub(crate) struct AtVersion {
    pub(crate) schema: Schema,
    pub(crate) value: Value,
}

pub(crate) enum Schema {
    Custom(Arc<Ready>),
    BuiltIn(&'static Type),
}

impl Schema {
    fn place(&self) -> Place<'_> {
        match self {
            Schema::Custom(schema) => Place::Root(&schema.value),
            Schema::BuiltIn(ty) => Place::Object(ty),
        }
    }
}

/// Says what an object is at another version of its kind (`example.com/v1`); none: there is no such version any more.
pub(crate) type Versions<'a> = dyn FnMut(&Value, &str) -> Result<Option<AtVersion>, Status> + 'a;

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

    /// Adds those at other versions. Returns the versions that there are no more.
    pub(super) fn add(
        &mut self,
        (old, new): (&Value, &Value),
        at: &BTreeSet<String>,
        reset: &[&[&str]],
        versions: &mut Versions<'_>,
    ) -> Result<BTreeSet<String>, Status> {
        let mut missing = BTreeSet::new();
        for version in at {
            let (Some(old), Some(new)) = (versions(old, version)?, versions(new, version)?) else {
                missing.insert(version.clone());
                continue;
            };
            let difference = Difference::of(new.schema.place(), &old.value, &new.value, reset);
            self.others.push((version.clone(), difference));
        }
        Ok(missing)
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
        let same = managed.iter().filter(|held| held.version == version);
        FieldSet::union_of(same.map(|held| &held.fields))
    };
    let Some(first) = versions(merged, &before.version)? else {
        return Ok(merged.clone());
    };
    let mut whole = first.value.clone();
    let mut pruned = whole.clone();
    let place = first.schema.place();
    merge::prune(place, &mut pruned, &before.fields, &at(&before.version));
    let others: BTreeSet<&str> = managed.iter().map(|held| held.version.as_str()).collect();
    for version in others.into_iter().filter(|other| *other != before.version) {
        let (Some(converted), Some(left)) =
            (versions(&whole, version)?, versions(&pruned, version)?)
        else {
            continue;
        };
        let place = converted.schema.place();
        whole = converted.value;
        let mut kept = fields_of(place, &left.value);
        let gone = fields_of(place, &whole).difference(&kept);
        kept.union(&at(version));
        pruned = whole.clone();
        merge::prune(place, &mut pruned, &gone, &kept);
    }
    // UPSTREAM: what is left is what was there, with its own order, without what nobody got back.
    let Some(left) = versions(&pruned, &before.version)? else {
        return Ok(merged.clone());
    };
    let place = first.schema.place();
    let kept = fields_of(place, &left.value);
    let gone = fields_of(place, &first.value).difference(&kept);
    let gone = gone.intersection(&before.fields);
    let mut pruned = first.value.clone();
    merge::prune(place, &mut pruned, &gone, &kept);
    Ok(pruned)
}
