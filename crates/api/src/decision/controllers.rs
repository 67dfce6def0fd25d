//! Names of controllers that `steersman why` asks about: their descriptors use them too, so that neither can change alone.

pub const CSR_APPROVING: &str = "certificatesigningrequest-approving-controller";
pub const CSR_CLEANER: &str = "certificatesigningrequest-cleaner-controller";
pub const CSR_SIGNING: &str = "certificatesigningrequest-signing-controller";

/// The component of the events that the persistent volume binder emits.
pub const PERSISTENT_VOLUME_BINDER_EVENTS: &str = "persistentvolume-controller";
