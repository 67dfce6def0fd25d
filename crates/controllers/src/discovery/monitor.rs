//! How one kind is watched by those who watch whatever there is.

use std::sync::Arc;

use api::ResourceType;
use runtime::Informers;
use runtime::informer::MetadataInformer;

pub(crate) struct Monitor {
    /// Others read it, too: it costs nothing to keep, and to listen twice would be a waste.
    pub is_shared: bool,
    pub informer: Arc<dyn MetadataInformer>,
}

impl Monitor {
    /// Kinds that controllers cache are shared with them, which is known once all are built; of the rest there is a stream of
    /// metadata.
    pub fn of(
        informers: &Informers,
        resource: &ResourceType,
        stream: impl FnOnce() -> Arc<dyn MetadataInformer>,
    ) -> Monitor {
        let shared = informers.of_resource(resource);
        Monitor {
            is_shared: shared.is_some(),
            informer: shared.unwrap_or_else(stream),
        }
    }
}
