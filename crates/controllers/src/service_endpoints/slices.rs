//! What those who write slices have in common: how slices name their service and who writes them.

use api::kinds::{EndpointSlice, MANAGED_BY, SERVICE_NAME};
use api::{Istr, Key};
use runtime::{Change, Index, IndexValue};

use super::WriteTracker;

pub fn is_managed_by(slice: &EndpointSlice, controller: &str) -> bool {
    slice.metadata.labels.get(MANAGED_BY) == Some(controller)
}

/// The service that a slice says it is of.
pub fn service_of(slice: &EndpointSlice) -> Option<Key> {
    let name = slice.metadata.labels.get(SERVICE_NAME)?;
    (!name.is_empty()).then(|| Key::new(&slice.metadata.namespace, name))
}

/// Finds slices by the service that they say they are of.
pub const fn by_service() -> Index<EndpointSlice> {
    Index {
        name: "service",
        values: |slice: &EndpointSlice, found| {
            let meta = &slice.metadata;
            if let Some(name) = meta.labels.get(SERVICE_NAME) {
                found(IndexValue::In(meta.namespace.clone(), Istr::new(name)));
            }
        },
    }
}

/// The slices that are said to be of this service.
pub fn of_service(key: &Key) -> IndexValue {
    IndexValue::In(key.namespace.clone(), Istr::new(&key.name))
}

/// A list as it is written. UPSTREAM: one that is empty is none, as in protobuf, which cannot tell the two apart: who
/// sends `[]` in JSON is noted as the manager of the field.
pub fn written_list<T>(list: &[T]) -> Option<&[T]> {
    (!list.is_empty()).then_some(list)
}

/// What the API server makes the names of a service's slices from.
pub fn name_prefix(service: &str) -> String {
    /// The longest name of an object.
    const LONGEST: usize = 253;
    match service.len() < LONGEST {
        true => format!("{service}-"),
        false => service.to_owned(),
    }
}

/// The services whose slices `controller` has to look at after this change, which was not its own.
pub fn concerned_by_slice(
    controller: &str,
    write_tracker: &WriteTracker,
    change: &Change<'_, EndpointSlice>,
) -> Vec<Key> {
    let one = |slice: &EndpointSlice| service_of(slice).into_iter().collect();
    let is_managed = |slice: &EndpointSlice| is_managed_by(slice, controller);
    let is_foreign =
        |slice: &EndpointSlice| is_managed(slice) && !write_tracker.is_own(&slice.metadata);
    match change {
        Change::Added(slice) if is_foreign(slice) => one(slice),
        Change::Updated { old, new } if service_of(old) != service_of(new) => {
            [service_of(old), service_of(new)]
                .into_iter()
                .flatten()
                .collect()
        }
        Change::Updated { old, new } if is_managed(old) != is_managed(new) => one(new),
        Change::Updated { new, .. } if is_foreign(new) => one(new),
        Change::Deleted(slice) if !write_tracker.gone(&slice.metadata) && is_managed(slice) => {
            one(slice)
        }
        _ => Vec::new(),
    }
}
