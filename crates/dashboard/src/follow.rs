//! One informer for each kind, for the process and not for each page, while some page is open.

use std::sync::Arc;

use api::{ResourceType, Rng};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use runtime::informer::StreamOptions;
use runtime::{Change, Informer, Stop};

use crate::feed::{Feed, Item, Scope};
use crate::kinds::{Drawn, KINDS};
use crate::rows::Row;
use crate::verdicts::Verdicts;

/// What every informer needs.
#[derive(Clone)]
pub(crate) struct Follower {
    pub(crate) feed: Arc<Feed>,
    pub(crate) verdicts: Arc<Verdicts>,
    pub(crate) client: client::Client,
    pub(crate) rng: Rng,
    pub(crate) stop: Stop,
}

impl Follower {
    /// Keeps the rows of all kinds in step with the API server until it is told to stop.
    pub(crate) fn all(&self) -> Vec<BoxFuture<'static, ()>> {
        let all = KINDS.iter();
        all.map(|kind| (kind.follow)(self.clone())).collect()
    }
}

/// Keeps the rows of one kind in step.
pub(crate) fn rows_of<K: Drawn>(follower: Follower) -> BoxFuture<'static, ()> {
    let informer = Arc::new(Informer::<Row<K>>::new());
    let (feed, verdicts) = (follower.feed, follower.verdicts);
    informer.on_change(move |change| {
        let row = change.object();
        let key = key_of(row);
        match change {
            Change::Deleted(_) => {
                feed.remove(&key);
                verdicts.forget(&key, &K::TYPE, &row.meta);
                if let Some((resource, name, _)) = &row.unsettles {
                    let key = key_in(resource, &row.meta.namespace, name);
                    verdicts.touch(&key, resource, &row.meta.namespace, name, false);
                }
            }
            Change::Added(_) | Change::Updated { .. } => {
                feed.put(
                    &key,
                    Item {
                        scope: scope_of(row),
                        json: row.json.clone(),
                    },
                );
                verdicts.note(&key, &K::TYPE, &row.meta, row.open, K::RESTS_ON_OTHERS);
                if let Some((resource, name, open)) = &row.unsettles {
                    let key = key_in(resource, &row.meta.namespace, name);
                    verdicts.touch(&key, resource, &row.meta.namespace, name, *open);
                }
            }
        }
    });
    let options = StreamOptions {
        rng: follower.rng,
        resync: None,
    };
    let (client, stop) = (follower.client, follower.stop);
    async move { informer.run(client, options, stop).await }.boxed()
}

fn key_of<K: Drawn>(row: &Row<K>) -> String {
    key_in(&K::TYPE, &row.meta.namespace, &row.meta.name)
}

fn key_in(resource: &ResourceType, namespace: &str, name: &str) -> String {
    format!("{}/{namespace}/{name}", resource.kind)
}

fn scope_of<K: Drawn>(row: &Row<K>) -> Arc<Scope> {
    let resource = K::TYPE;
    Arc::new(Scope {
        group: resource.group.to_string(),
        plural: resource.plural.to_string(),
        namespace: row.meta.namespace.to_string(),
        decided: false,
    })
}
