//! Candidates against a server that keeps one Lease. Upstream's cases are in `leaderelection_test.go`.

mod coordinated;
mod election;
mod fencing;
mod server;

use std::time::Duration;

use api::{Clock, Rng, Time};
use client::Client;
use tokio::sync::watch;

use super::*;
use crate::stop::Stopper;
use crate::{Metrics, Task};
use server::{LeaseServer, Link};

/// A running candidate.
struct Candidate {
    link: Link,
    leadership: watch::Receiver<Leadership>,
    health: LeaseHealth,
    stopper: Stopper,
    task: Task<()>,
    metrics: Metrics,
}

impl Candidate {
    fn start(server: &LeaseServer, identity: &str) -> Candidate {
        Candidate::with(server, identity, clock(), |_| {})
    }

    fn with(
        server: &LeaseServer,
        identity: &str,
        clock: Clock,
        change: impl FnOnce(&mut LeaseConfig),
    ) -> Candidate {
        let link = server.link();
        let client = Client::new(link.transport());
        let mut config = LeaseConfig::new("kube-system", "kube-controller-manager", identity);
        // What candidates ask is pinned; those that watch as well have tests of their own.
        config.watch = false;
        change(&mut config);
        // Candidates differ in their random waits, as they do in life.
        let seed = identity.bytes().map(u64::from).sum();
        let metrics = Metrics::new();
        let elector = LeaderElector::new(client, config, clock, Rng::from_seed(seed), None)
            .unwrap()
            .with_metrics(metrics.leader("kube-controller-manager"));
        let (stopper, stop) = Stop::new();
        Candidate {
            link,
            leadership: elector.leadership(),
            health: elector.health(),
            stopper,
            task: crate::spawn(elector.run(stop)),
            metrics,
        }
    }

    /// Whether the fence of this candidate is open.
    fn may_write(&self) -> bool {
        matches!(*self.leadership.borrow(), Leadership::Leading { until, .. } if Instant::now() < until)
    }

    fn leads(&self) -> bool {
        matches!(*self.leadership.borrow(), Leadership::Leading { .. })
    }

    async fn stop(self) {
        self.stopper.stop();
        self.task.await.unwrap();
    }
}

fn clock() -> Clock {
    crate::clock::following_tokio(Time::from_unix(1_700_000_000))
}

async fn pass(seconds: f64) {
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
}
