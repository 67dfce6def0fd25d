//! `metadata.managedFields`: keeping it true through updates and applies.

use super::compare::{Comparison, fields_of};
use super::fields::Fields;
use super::last_applied::{self, KUBECTL};
use super::merge;
use super::schema::Place;
use super::set::{FieldSet, path_text};
use super::versions::{AtVersion, Difference, Differences, Managed, Versions, prune};
use crate::convert;
use crate::kinds::Kind;
use crate::rest::metadata_mut;
use crate::status::{Cause, Status};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// UPSTREAM: with more managers of updates than this, the oldest are merged into one.
const MAX_UPDATE_MANAGERS: usize = 10;
const ANCIENT: &str = "ancient-changes";
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
const SCALE_VERSION: &str = "autoscaling/v1";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Apply,
    Update,
}

/// Who changes an object, how, and when.
#[derive(Clone, Debug)]
pub(crate) struct Manager {
    pub(crate) name: String,
    pub(crate) operation: Operation,
    pub(crate) api_version: String,
    pub(crate) subresource: String,
    /// As objects spell it.
    pub(crate) now: String,
}

impl Manager {
    /// UPSTREAM: changes through scale carry no time.
    fn time(&self) -> String {
        if self.is_scale() {
            String::new()
        } else {
            self.now.clone()
        }
    }

    fn is_scale(&self) -> bool {
        self.subresource == "scale"
    }
}

/// One entry of managedFields.
#[derive(Clone, Debug)]
struct Entry {
    manager: Manager,
    /// Empty if unknown.
    time: String,
    fields: Fields,
}

impl Entry {
    fn is_of(&self, manager: &Manager) -> bool {
        let mine = &self.manager;
        // UPSTREAM: an applier is the same whatever version it applies.
        let same_version =
            manager.operation == Operation::Apply || mine.api_version == manager.api_version;
        mine.name == manager.name
            && mine.operation == manager.operation
            && mine.subresource == manager.subresource
            && same_version
    }
}

/// Records that `manager` made `old` into `new`. Objects whose managed fields were cleared stay without them.
pub(crate) fn update(
    kind: &Kind,
    new: &mut Value,
    old: Option<&Value>,
    manager: &Manager,
    reset: &[&[&str]],
) {
    let recorded = update_across(kind, new, old, manager, reset, None);
    debug_assert!(recorded.is_ok(), "nothing is converted");
}

/// The same where fields are managed at several versions. It fails where an object cannot be converted.
pub(crate) fn update_across(
    kind: &Kind,
    new: &mut Value,
    old: Option<&Value>,
    manager: &Manager,
    reset: &[&[&str]],
    versions: Option<&mut Versions<'_>>,
) -> Result<(), Status> {
    let schema = kind.schema();
    let place = Place::of(kind, schema.as_deref());
    let mut entries = match old {
        Some(_) if cleared(new) => {
            metadata_mut(new).remove("managedFields");
            return Ok(());
        }
        // UPSTREAM: the client may set them, as when it restores an object.
        _ if super::has_managed_fields(new) => read(new),
        Some(_) => return Ok(()),
        None => Vec::new(),
    };
    if manager.is_scale() && !replicas_are_owned(kind, &entries) {
        // UPSTREAM: where nobody owns the replicas, a scale has no managed fields to be kept.
        return Ok(());
    }
    let nothing = empty(kind);
    let own = Difference::of(place, old.unwrap_or(&nothing), new, reset);
    let mut differences = Differences::new(own);
    if let (Some(versions), Some(old)) = (versions, old) {
        let others = other_versions(kind, &entries);
        let missing = differences.add((old, new), &others, reset, versions)?;
        entries.retain(|entry| !missing.contains(&entry.manager.api_version));
    }
    for entry in &mut entries {
        let Difference { changed, lost } = differences.at(&entry.manager.api_version);
        if entry.fields.overlap(changed) || entry.fields.overlap(lost) {
            let fields = entry.fields.set_mut();
            *fields = fields.difference(changed).difference(lost);
        }
    }
    let mut gained = differences.own.changed;
    strip(&mut gained);
    if !gained.is_empty() {
        match entries.iter_mut().find(|entry| entry.is_of(manager)) {
            Some(entry) => {
                entry.fields.set_mut().union(&gained);
                entry.time = manager.time();
            }
            None => entries.push(Entry {
                manager: manager.clone(),
                time: manager.time(),
                fields: gained.into(),
            }),
        }
    }
    write(new, entries);
    Ok(())
}

/// The versions of this kind, but for its own, at which any fields are managed. Those of other groups are of its scale.
fn other_versions(kind: &Kind, entries: &[Entry]) -> BTreeSet<String> {
    let is_event = convert::is_event(kind);
    let is_other = |version: &str| {
        let group = version.split_once('/').map(|(group, _)| group);
        version != kind.api_version() && (is_event || group == Some(&*kind.group))
    };
    let versions = entries
        .iter()
        .map(|entry| entry.manager.api_version.as_str());
    let others = versions.filter(|version| is_other(version));
    others.map(str::to_owned).collect()
}

/// An explicitly empty list, or one empty entry: the client wants no tracking.
fn cleared(new: &Value) -> bool {
    match new["metadata"]["managedFields"].as_array() {
        Some(list) => {
            list.is_empty()
                || (list.len() == 1 && list[0].as_object().is_some_and(serde_json::Map::is_empty))
        }
        None => false,
    }
}

/// Merges an applied configuration into the live object: the new object with its managed fields.
pub(crate) fn apply(
    kind: &Kind,
    live: Option<&Value>,
    config: &Value,
    manager: &Manager,
    force: bool,
    reset: &[&[&str]],
    mut versions: Option<&mut Versions<'_>>,
) -> Result<Value, Status> {
    let schema = kind.schema();
    let place = Place::of(kind, schema.as_deref());
    let nothing = empty(kind);
    let mut entries = live.map(read).unwrap_or_default();
    entries.extend(live.and_then(|live| before_first(kind, live, &entries, manager, reset)));
    let mut fields = fields_of(place, config);
    for path in reset {
        fields.remove_tree(path);
    }
    // UPSTREAM: nobody is said to own a name, but whoever applies it keeps the metadata that it is in.
    let owned = fields.clone();
    strip(&mut fields);
    let mut merged = live.cloned().unwrap_or_else(|| nothing.clone());
    merge::merge(place, &mut merged, config);
    let others = other_versions(kind, &entries);
    let position = entries.iter().position(|entry| entry.is_of(manager));
    let previous = position.map(|index| entries.remove(index));
    match (&previous, versions.as_deref_mut()) {
        (None, _) => {}
        (Some(previous), Some(versions)) if !others.is_empty() => {
            merged = prune_across(kind, merged, previous, owned, &entries, versions)?;
        }
        (Some(previous), _) => {
            let others = entries.iter().map(|entry| entry.fields.set());
            let owned = FieldSet::union_of(others.chain([&owned]));
            merge::prune(place, &mut merged, previous.fields.set(), &owned);
        }
    }
    let own = Difference::of(place, live.unwrap_or(&nothing), &merged, reset);
    let mut differences = Differences::new(own);
    if let (Some(versions), Some(live)) = (versions, live) {
        let others = other_versions(kind, &entries);
        let missing = differences.add((live, &merged), &others, reset, versions)?;
        entries.retain(|entry| !missing.contains(&entry.manager.api_version));
    }
    let is_kubectl = manager.name == KUBECTL && !manager.is_scale();
    let own = match live {
        Some(live) if is_kubectl => last_applied::fields(place, &manager.api_version, live),
        _ => FieldSet::default(),
    };
    resolve_conflicts(&mut entries, &differences, &own, force, manager)?;
    for entry in &mut entries {
        let lost = &differences.at(&entry.manager.api_version).lost;
        if entry.fields.overlap(lost) {
            let fields = entry.fields.set_mut();
            *fields = fields.difference(lost);
        }
    }
    // UPSTREAM: an apply that changes nothing has no time of its own.
    let time = match live {
        Some(live) if *live == merged => previous.map(|entry| entry.time).unwrap_or_default(),
        _ => manager.time(),
    };
    let entry = Entry {
        manager: manager.clone(),
        time,
        fields: fields.into(),
    };
    entries.insert(position.unwrap_or(entries.len()).min(entries.len()), entry);
    write(&mut merged, entries);
    if is_kubectl {
        last_applied::update(&mut merged, config);
    }
    Ok(merged)
}

/// Removes what is no longer applied where fields are managed at several versions.
fn prune_across(
    kind: &Kind,
    merged: Value,
    previous: &Entry,
    owned: FieldSet,
    entries: &[Entry],
    versions: &mut Versions<'_>,
) -> Result<Value, Status> {
    let managed = |entry: &Entry| Managed {
        version: entry.manager.api_version.clone(),
        fields: entry.fields.set().clone(),
    };
    let own = kind.api_version();
    let mut all: Vec<Managed> = entries.iter().map(managed).collect();
    all.push(Managed {
        version: own.to_owned(),
        fields: owned,
    });
    let pruned = prune(&merged, &managed(previous), &all, versions)?;
    let Some(AtVersion {
        value: mut pruned, ..
    }) = versions(&pruned, own)?
    else {
        return Ok(merged);
    };
    // Conversions leave them out.
    if let Some(held) = merged["metadata"].get("managedFields") {
        metadata_mut(&mut pruned).insert("managedFields".into(), held.clone());
    }
    Ok(pruned)
}

/// What was there before anyone's fields were kept belongs to nobody in particular.
fn before_first(
    kind: &Kind,
    live: &Value,
    entries: &[Entry],
    manager: &Manager,
    reset: &[&[&str]],
) -> Option<Entry> {
    let mut fields = FieldSet::default();
    if manager.is_scale() {
        let path = replicas_path(kind);
        let found = path.iter().fold(live, |value, step| &value[&step[2..]]);
        // UPSTREAM: a Scale does not show that there are none.
        if replicas_are_owned(kind, entries) || found.as_i64().unwrap_or(0) == 0 {
            return None;
        }
        fields.insert(&path);
    } else if entries.is_empty() {
        let schema = kind.schema();
        let place = Place::of(kind, schema.as_deref());
        fields = Comparison::of(place, &empty(kind), live).added;
        strip(&mut fields);
        reset.iter().for_each(|path| fields.remove_tree(path));
    } else {
        return None;
    }
    Some(Entry {
        manager: Manager {
            name: BEFORE_FIRST_APPLY.into(),
            operation: Operation::Update,
            ..manager.clone()
        },
        time: manager.time(),
        fields: fields.into(),
    })
}

/// Where the replicas of a kind are.
fn replicas_path(kind: &Kind) -> Vec<String> {
    let custom = kind.custom().and_then(|version| version.scale.as_ref());
    let replicas = custom.map_or(".spec.replicas", |scale| scale.spec_replicas.as_str());
    let steps = replicas.split('.').skip(1);
    steps.map(|step| format!("f:{step}")).collect()
}

fn replicas_are_owned(kind: &Kind, entries: &[Entry]) -> bool {
    let path = replicas_path(kind);
    entries
        .iter()
        .any(|entry| entry.fields.set().contains_at_or_below(&path))
}

/// Fields that others own and that would change, and that are not the applier's own by what it applied before: a
/// conflict, or, by force, no longer theirs.
fn resolve_conflicts(
    entries: &mut [Entry],
    differences: &Differences,
    own: &FieldSet,
    force: bool,
    applier: &Manager,
) -> Result<(), Status> {
    let mut conflicts = Vec::new();
    let changed = |entry: &Entry| &differences.at(&entry.manager.api_version).changed;
    let touched = |entry: &&Entry| !force && entry.fields.overlap(changed(entry));
    for entry in entries.iter().filter(touched) {
        let changed = changed(entry);
        let disputed = entry.fields.set().intersection(changed).difference(own);
        if disputed.is_empty() {
            continue;
        }
        let mut owner = entry.manager.clone();
        if applier.is_scale() {
            // UPSTREAM: through scale, everyone's fields are those of a Scale.
            owner.api_version = SCALE_VERSION.to_owned();
        }
        conflicts.push((owner, disputed));
    }
    if !conflicts.is_empty() {
        return Err(conflict(&conflicts));
    }
    for entry in entries {
        let changed = &differences.at(&entry.manager.api_version).changed;
        if entry.fields.overlap(changed) {
            let fields = entry.fields.set_mut();
            *fields = fields.difference(changed);
        }
    }
    Ok(())
}

fn conflict(conflicts: &[(Manager, FieldSet)]) -> Status {
    let mut causes = Vec::new();
    let mut texts = Vec::new();
    for (manager, disputed) in conflicts {
        let mut who = format!("\"{}\"", manager.name);
        if !manager.subresource.is_empty() {
            who.push_str(&format!(" with subresource \"{}\"", manager.subresource));
        }
        if manager.operation == Operation::Update {
            who.push_str(&format!(" using {}", manager.api_version));
        }
        let paths: Vec<String> = disputed
            .paths()
            .iter()
            .map(|path| path_text(path))
            .collect();
        let message = format!("conflict with {who}");
        causes.extend(
            paths
                .iter()
                .map(|path| Cause::new(path.as_str(), "FieldManagerConflict", message.as_str())),
        );
        texts.push(match paths.as_slice() {
            [path] => format!("conflict with {who}: {path}"),
            _ => format!("conflicts with {who}:\n- {}", paths.join("\n- ")),
        });
    }
    let count = causes.len();
    let noun = if count == 1 { "conflict" } else { "conflicts" };
    let mut status = Status::new(
        409,
        "Conflict",
        format!("Apply failed with {count} {noun}: {}", texts.join("\n")),
    );
    status.details.causes = causes;
    status
}

fn empty(kind: &Kind) -> Value {
    let ty = crate::schema::type_for(&kind.group, &kind.version, &kind.kind);
    ty.filter(|_| kind.custom().is_none())
        .map_or_else(|| json!({}), crate::schema::empty)
}

/// Fields that are nobody's: identity and what the server itself writes.
fn strip(set: &mut FieldSet) {
    for path in [&["f:apiVersion"][..], &["f:kind"]] {
        set.remove_tree(path);
    }
    for name in [
        "f:name",
        "f:namespace",
        "f:creationTimestamp",
        "f:selfLink",
        "f:uid",
        "f:clusterName",
        "f:generation",
        "f:managedFields",
        "f:resourceVersion",
    ] {
        set.remove_tree(&["f:metadata", name]);
    }
    set.remove("f:metadata");
}

fn read(value: &Value) -> Vec<Entry> {
    let list = value["metadata"]["managedFields"].as_array();
    let text = |entry: &Value, member: &str| entry[member].as_str().unwrap_or_default().to_owned();
    let entries = list.into_iter().flatten().map(|entry| {
        let operation = if entry["operation"] == "Apply" {
            Operation::Apply
        } else {
            Operation::Update
        };
        let time = text(entry, "time");
        let manager = Manager {
            name: text(entry, "manager"),
            operation,
            api_version: text(entry, "apiVersion"),
            subresource: text(entry, "subresource"),
            now: String::new(),
        };
        Entry {
            manager,
            time,
            fields: Fields::read(&entry["fieldsV1"]),
        }
    });
    entries.filter(|entry| !entry.fields.is_empty()).collect()
}

/// Appliers first, then by time, as upstream sorts them.
fn write(value: &mut Value, mut entries: Vec<Entry>) {
    entries.retain(|entry| !entry.fields.is_empty());
    entries.sort_by(|a, b| {
        let updates = |entry: &Entry| entry.manager.operation == Operation::Update;
        updates(a)
            .cmp(&updates(b))
            .then_with(|| a.time.cmp(&b.time))
            .then_with(|| a.manager.name.cmp(&b.manager.name))
    });
    merge_ancient(&mut entries);
    let list: Vec<Value> = entries.into_iter().map(entry_value).collect();
    let metadata = metadata_mut(value);
    if list.is_empty() {
        metadata.remove("managedFields");
    } else {
        metadata.insert("managedFields".into(), Value::Array(list));
    }
}

/// Appliers come first.
fn merge_ancient(entries: &mut Vec<Entry>) {
    let is_update = |entry: &Entry| entry.manager.operation == Operation::Update;
    let first = entries.iter().position(is_update).unwrap_or(entries.len());
    let many = (entries.len() - first).saturating_sub(MAX_UPDATE_MANAGERS);
    if many == 0 {
        return;
    }
    let ancient = entries[first..=first + many].iter();
    let fields = FieldSet::union_of(ancient.map(|entry| entry.fields.set()));
    entries.drain(first..first + many);
    let bucket = &mut entries[first];
    *bucket.fields.set_mut() = fields;
    bucket.manager.name = ANCIENT.to_owned();
}

fn entry_value(entry: Entry) -> Value {
    entry
        .manager
        .entry_at(&entry.time, entry.fields.into_value())
}

impl Manager {
    /// The entry of managedFields for what it does now.
    pub(super) fn entry(&self, fields: Value) -> Value {
        self.entry_at(&self.time(), fields)
    }

    fn entry_at(&self, time: &str, fields: Value) -> Value {
        let operation = match self.operation {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        };
        let mut value = json!({
            "manager": self.name, "operation": operation, "apiVersion": self.api_version,
            "fieldsType": "FieldsV1",
        });
        value["fieldsV1"] = fields;
        if !time.is_empty() {
            value["time"] = json!(time);
        }
        if !self.subresource.is_empty() {
            value["subresource"] = json!(self.subresource);
        }
        value
    }
}

#[cfg(test)]
mod tests;
