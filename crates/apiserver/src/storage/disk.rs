//! Making writes survive: nothing to do in memory.

use super::Stored;
use crate::kinds::Kind;

pub(crate) enum Durability {
    /// Everything is gone when the process ends.
    Memory,
}

#[derive(Debug, thiserror::Error)]
#[error("the write could not be made durable: {0}")]
pub(crate) struct WriteFailed(pub(crate) String);

impl Durability {
    pub(super) fn is_memory(&self) -> bool {
        matches!(self, Durability::Memory)
    }

    pub(super) fn put(&self, _kind: &Kind, _object: &Stored) {}

    pub(super) fn remove(&self, _kind: &Kind, _key: &str, _revision: u64) {}

    pub(super) fn submit(&self, _revision: u64) {}

    pub(super) fn check(&self, _revision: u64) -> Result<(), WriteFailed> {
        Ok(())
    }
}
