use parking_lot::Mutex;
use std::sync::Arc;

use api::ResourceType;
use bytes::Bytes;
use client::{Body, BoxError, DeleteOptions, Patch, Transport};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};

use super::*;

const PODS: ResourceType = ResourceType::namespaced("", "v1", "pods", "Pod");

/// A fenced client, the hand on the fence, and what reached the server, which takes `delay` to answer.
struct Fenced {
    client: Client,
    leadership: watch::Sender<Leadership>,
    arrived: Arc<Mutex<Vec<String>>>,
}

fn fenced(delay: Duration) -> Fenced {
    let arrived = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&arrived);
    let server = Transport::new(tower::service_fn(move |request: Request<Bytes>| {
        log.lock().push(request.method().to_string());
        async move {
            tokio::time::sleep(delay).await;
            let body = Full::new(Bytes::from_static(b"{}")).map_err(|never| match never {});
            Ok::<_, BoxError>(Response::new(Body::new(body)))
        }
    }));
    let leadership = watch::Sender::new(Leadership::Standby { holder: None });
    Fenced {
        client: Client::new(Fence::around(server, leadership.subscribe())),
        leadership,
        arrived,
    }
}

impl Fenced {
    fn lead_for(&self, seconds: u64) {
        let until = Instant::now() + Duration::from_secs(seconds);
        self.leadership.send_replace(Leadership::Leading {
            since: Instant::now(),
            until,
        });
    }

    async fn write(&self) -> Result<(), String> {
        let answer = self.client.create(&PODS, "web", "{}").await;
        answer.map(drop).map_err(|error| client::describe(&error))
    }

    fn arrived(&self) -> Vec<String> {
        std::mem::take(&mut self.arrived.lock())
    }
}

#[tokio::test(start_paused = true)]
async fn a_standby_reads_but_does_not_write() {
    let fenced = fenced(Duration::ZERO);
    let client = &fenced.client;
    client.get(&PODS, "web", "a").await.unwrap();
    fenced.write().await.unwrap_err();
    let patch = Patch::Merge(Bytes::from_static(b"{}"));
    client
        .patch(&PODS, "web", "a", None, &patch)
        .await
        .unwrap_err();
    client
        .replace(&PODS, "web", "a", None, "{}")
        .await
        .unwrap_err();
    client
        .delete(&PODS, "web", "a", &DeleteOptions::default())
        .await
        .unwrap_err();
    assert_eq!(fenced.arrived(), ["GET"]);
}

#[tokio::test(start_paused = true)]
async fn writes_pass_until_the_deadline_and_not_a_moment_longer() {
    let fenced = fenced(Duration::ZERO);
    fenced.lead_for(10);
    pass(9.999).await;
    fenced.write().await.unwrap();
    pass(0.001).await;
    let refused = fenced.write().await.unwrap_err();
    assert!(
        refused.contains("does not hold the leader lease"),
        "{refused}"
    );
    assert_eq!(fenced.arrived(), ["POST"]);
    fenced.lead_for(10);
    fenced.write().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_write_is_given_up_at_the_deadline() {
    let fenced = fenced(Duration::from_secs(60));
    fenced.lead_for(10);
    let started = Instant::now();
    let abandoned = fenced.write().await.unwrap_err();
    assert_eq!(started.elapsed().as_secs(), 10);
    assert!(abandoned.contains("may have taken effect"), "{abandoned}");
}

#[tokio::test(start_paused = true)]
async fn renewals_keep_a_slow_write_alive() {
    let fenced = fenced(Duration::from_secs(25));
    fenced.lead_for(10);
    let renewals = async {
        for _ in 0..20 {
            pass(2.0).await;
            fenced.lead_for(10);
        }
    };
    let (answer, ()) = tokio::join!(fenced.write(), renewals);
    answer.unwrap();
}

#[tokio::test(start_paused = true)]
async fn stepping_down_gives_up_at_once() {
    let fenced = fenced(Duration::from_secs(60));
    fenced.lead_for(10);
    let started = Instant::now();
    let step_down = async {
        pass(3.0).await;
        let holder = Some("other".to_owned());
        fenced
            .leadership
            .send_replace(Leadership::Standby { holder });
    };
    let (answer, ()) = tokio::join!(fenced.write(), step_down);
    answer.unwrap_err();
    assert_eq!(started.elapsed().as_secs(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_election_that_has_ended_closes_the_fence() {
    let Fenced {
        client,
        leadership,
        arrived,
    } = fenced(Duration::ZERO);
    let until = Instant::now() + Duration::from_secs(10);
    leadership.send_replace(Leadership::Leading {
        since: Instant::now(),
        until,
    });
    drop(leadership);
    client.create(&PODS, "web", "{}").await.unwrap_err();
    assert!(arrived.lock().is_empty());
}
