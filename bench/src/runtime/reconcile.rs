//! What it costs to look at a large ReplicaSet and find that nothing is to be done.

use anyhow::{Result, ensure};
use api::kinds::{Pod, ReplicaSet};
use api::{Key, Rng};
use bytes::Bytes;
use client::{Client, Transport};
use futures_util::{StreamExt, stream};
use http_body_util::{BodyExt, StreamBody};
use runtime::informer::StreamOptions;
use runtime::stop::Stop;
use runtime::{Informers, Next};

use super::{bookmark, pods};

/// Enough for a figure in hundredths of a millisecond.
const ROUNDS: usize = 1000;

/// CPU of one reconcile of a settled ReplicaSet with so many pods, in milliseconds.
pub(super) fn cpu_ms(replicas: usize) -> Result<f64> {
    eprintln!("reconciling a ReplicaSet of {replicas} pods");
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    tokio.block_on(async {
        let options = StreamOptions {
            rng: Rng::from_seed(1),
            resync: None,
        };
        let client = Client::new(transport(replicas));
        let informers = std::sync::Arc::new(Informers::new(client, options));
        let context = super::context(&informers);
        let controller = controllers::replicaset::controller::<ReplicaSet>(&context, 1);
        let (_stopper, stop) = Stop::new();
        informers.start(&stop);
        informers.of::<Pod>().synced().wait().await;
        informers.of::<ReplicaSet>().synced().wait().await;
        let key = Key::new("team-0", "service-0-6d4cf56db6");
        // What needs a write fails here: nobody answers.
        let next = controller.reconcile(&key).await?;
        ensure!(matches!(next, Next::AwaitChange), "the set is not settled");
        let before = super::cpu()?;
        for _ in 0..ROUNDS {
            controller.reconcile(&key).await?;
        }
        let spent = super::cpu()?.seconds_since(&before);
        Ok(spent * 1e3 / ROUNDS as f64)
    })
}

/// A server with one ReplicaSet and its pods.
fn transport(replicas: usize) -> Transport {
    Transport::new(tower::service_fn(move |request: http::Request<Bytes>| {
        let first: Box<dyn Iterator<Item = String> + Send> = match request.uri().path() {
            "/apis/apps/v1/replicasets" => {
                Box::new(std::iter::once(pods::replica_set(0, replicas)))
            }
            "/api/v1/pods" => Box::new(
                (0..replicas)
                    .map(|number| pods::event("ADDED", number * pods::REPLICA_SETS, number + 2, 0)),
            ),
            _ => Box::new(std::iter::empty()),
        };
        let lines = first.chain(std::iter::once(bookmark(replicas + 2)));
        let frames = stream::iter(lines)
            .chain(stream::pending())
            .map(|line| Ok::<_, client::BoxError>(http_body::Frame::data(Bytes::from(line))));
        let body = BodyExt::boxed_unsync(StreamBody::new(frames));
        async move { Ok::<_, client::BoxError>(http::Response::new(body)) }
    }))
}
