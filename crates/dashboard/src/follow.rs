//! One informer for each kind, for the process and not for each page, while some page is open.

use std::sync::Arc;

use api::{Resource, Rng};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use runtime::informer::StreamOptions;
use runtime::{Change, Informer, Stop};

use crate::feed::{Feed, Item, Scope};
use crate::kinds;
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
        // The number of a kind is part of its type, so that each is named here.
        let all: [fn(Follower) -> BoxFuture<'static, ()>; kinds::COUNT] = [
            one::<0>, one::<1>, one::<2>, one::<3>, one::<4>, one::<5>, one::<6>, one::<7>,
            one::<8>, one::<9>, one::<10>, one::<11>, one::<12>, one::<13>, one::<14>, one::<15>,
        ];
        all.into_iter().map(|one| one(self.clone())).collect()
    }
}

fn one<const KIND: usize>(follower: Follower) -> BoxFuture<'static, ()> {
    let informer = Arc::new(Informer::<Row<KIND>>::new());
    let (feed, verdicts) = (follower.feed, follower.verdicts);
    informer.on_change(move |change| {
        let row = change.object();
        let key = key_of::<KIND>(row);
        match change {
            Change::Deleted(_) => {
                feed.remove(&key);
                verdicts.forget(&key, &row.meta);
            }
            Change::Added(_) | Change::Updated { .. } => {
                feed.put(
                    &key,
                    Item {
                        scope: scope_of::<KIND>(row),
                        json: row.json.clone(),
                    },
                );
                verdicts.note(&key, &Row::<KIND>::TYPE.kind, &row.meta, row.open);
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

fn key_of<const KIND: usize>(row: &Row<KIND>) -> String {
    let (kind, meta) = (&Row::<KIND>::TYPE.kind, &row.meta);
    format!("{kind}/{}/{}", &*meta.namespace, meta.name)
}

fn scope_of<const KIND: usize>(row: &Row<KIND>) -> Arc<Scope> {
    let resource = Row::<KIND>::TYPE;
    Arc::new(Scope {
        group: resource.group.to_string(),
        plural: resource.plural.to_string(),
        namespace: row.meta.namespace.to_string(),
        decided: false,
    })
}
