//! StorageVersionMigrations: all objects of a resource are written again, in the version that is stored now.

use serde::{Deserialize, Serialize};

use crate::conditions::{self, Condition};
use crate::intern::Istr;
use crate::meta::{Meta, or_default};
use crate::resource::ResourceType;

pub const MIGRATION_RUNNING: &str = "Running";
pub const MIGRATION_SUCCEEDED: &str = "Succeeded";
pub const MIGRATION_FAILED: &str = "Failed";

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct StorageVersionMigration {
    pub metadata: Meta,
    #[serde(deserialize_with = "or_default")]
    pub spec: StorageVersionMigrationSpec,
    #[serde(deserialize_with = "or_default")]
    pub status: StorageVersionMigrationStatus,
}

crate::view!(
    StorageVersionMigration,
    ResourceType::cluster(
        "storagemigration.k8s.io",
        "v1beta1",
        "storageversionmigrations",
        "StorageVersionMigration"
    )
);

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct StorageVersionMigrationSpec {
    #[serde(deserialize_with = "or_default")]
    pub resource: MigratedResource,
}

/// What is migrated, in whatever version.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Default)]
#[serde(default)]
pub struct MigratedResource {
    pub group: Istr,
    pub resource: Istr,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageVersionMigrationStatus {
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
    /// Objects that are newer were written in the right version.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub resource_version: Istr,
}

impl StorageVersionMigration {
    pub fn is_running(&self) -> bool {
        conditions::is_true(&self.status.conditions, MIGRATION_RUNNING)
    }

    pub fn is_over(&self) -> bool {
        let held = &self.status.conditions;
        conditions::is_true(held, MIGRATION_SUCCEEDED)
            || conditions::is_true(held, MIGRATION_FAILED)
    }
}
