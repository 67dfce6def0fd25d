//! What is left of a StorageVersion when servers are gone. Pure.

use std::collections::BTreeSet;

use api::conditions::{self, Condition, ConditionStatus};
use api::kinds::{StorageVersion, StorageVersionStatus};
use api::{Istr, Meta, Time};

const ALL_EQUAL: &str = "AllEncodingVersionsEqual";

#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Keep,
    Update(StorageVersionStatus),
    Delete,
}

/// Is it the lease by which an API server says that it is there?
pub fn is_identity(meta: &Meta) -> bool {
    let component = meta.labels.get("apiserver.kubernetes.io/identity");
    *meta.namespace == *"kube-system" && component == Some("kube-apiserver")
}

/// `gone` are the servers without a lease.
pub fn plan(version: &StorageVersion, gone: &BTreeSet<Istr>, now: Time) -> Step {
    if gone.is_empty() {
        return Step::Keep;
    }
    let mut status = version.status.clone();
    let entries = &mut status.storage_versions;
    entries.retain(|entry| !gone.contains(&entry.api_server_id));
    if entries.is_empty() {
        return Step::Delete;
    }
    set_common_version(&mut status, version.metadata.generation, now);
    Step::Update(status)
}

fn set_common_version(status: &mut StorageVersionStatus, generation: i64, now: Time) {
    let mut versions = status.storage_versions.iter();
    let mut versions = versions.by_ref().map(|entry| &entry.encoding_version);
    let first = versions.next().cloned();
    let common = first.filter(|first| versions.all(|version| version == first));
    let before = std::mem::replace(&mut status.common_encoding_version, common);
    let common = &status.common_encoding_version;
    let (value, reason, message) = match common {
        Some(_) => (
            ConditionStatus::True,
            "CommonEncodingVersionSet",
            "Common encoding version set",
        ),
        None => (
            ConditionStatus::False,
            "CommonEncodingVersionUnset",
            "Common encoding version unset",
        ),
    };
    let condition = Condition {
        observed_generation: generation,
        ..Condition::new(ALL_EQUAL, value, reason, message, now)
    };
    conditions::set(&mut status.conditions, condition, now);
    // UPSTREAM: another common version is a transition, although the condition says True as before.
    if before.is_some() && common.is_some() && before != *common {
        let held = status.conditions.iter_mut();
        for condition in held.filter(|one| &*one.type_ == ALL_EQUAL) {
            condition.last_transition_time = Some(now);
        }
    }
}
