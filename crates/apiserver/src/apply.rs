//! Server-side apply: who owns which field, and what follows when someone applies less than last time.
//!
//! The algorithms are those of structured-merge-diff on JSON values, with the schema tables (or a custom
//! definition's schema) saying which lists are sets or maps and which objects have one owner as a whole.

mod compare;
mod fields;
mod last_applied;
mod manage;
mod merge;
mod overlay;
mod schema;
mod set;
mod shapes;
mod typed;
mod versions;

pub(crate) use last_applied::unless_changed;
pub(crate) use manage::{Manager, Operation, apply, update, update_across};
pub(crate) use overlay::overlay;
pub(crate) use shapes::Shapes;
pub(crate) use typed::faults;
pub(crate) use versions::{AtVersion, Schema, Versions};

/// Whether an object says who manages it.
pub(crate) fn has_managed_fields(value: &serde_json::Value) -> bool {
    value["metadata"]["managedFields"]
        .as_array()
        .is_some_and(|list| !list.is_empty())
}
