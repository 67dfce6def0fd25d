//! Upstream: TestControllerCache.

use std::sync::Arc;
use std::time::Duration;

use api::kinds::PersistentVolume;
use api::{Key, Resource};
use runtime::Store;

use super::volume;
use crate::storage::latest::Latest;

fn at(text: &str, revision: u64) -> Arc<PersistentVolume> {
    let mut volume = (*volume(text)).clone();
    volume.metadata.resource_version = revision;
    Arc::new(volume)
}

#[tokio::test(start_paused = true)]
async fn what_was_written_counts_until_the_cache_has_seen_it() {
    let store = Arc::new(Store::<PersistentVolume>::new());
    let latest = Latest::new(store.clone());
    let seen = || {
        let found = latest.get(&Key::new("", "v"));
        found.map(|volume| volume.meta().resource_version)
    };
    assert_eq!(seen(), None);
    store.put(at("v", 5));
    latest.note(at("v", 7));
    assert_eq!(seen(), Some(7));
    store.put(at("v", 6));
    assert_eq!(seen(), Some(7));
    store.put(at("v", 8));
    assert_eq!(seen(), Some(8));
    // What is gone is gone, and a namesake is another.
    latest.note(at("v", 9));
    store.remove("", "v");
    assert_eq!(seen(), None);
    let mut namesake = (*at("v", 3)).clone();
    namesake.metadata.uid = "another".into();
    latest.note(at("v", 9));
    store.put(Arc::new(namesake));
    assert_eq!(seen(), Some(3));
    // A server that was restored from a backup never gets there.
    store.put(at("v", 4));
    latest.note(at("v", 9));
    tokio::time::sleep(Duration::from_secs(301)).await;
    assert_eq!(seen(), Some(4));
}
