//! A term: the controllers between becoming the leader and ceasing to be it.
//!
//! Controllers are built before the term begins, so that a standby's caches are warm and its queues
//! are filled. When the term ends they finish what is in hand and are gone; the next term builds
//! new ones on the same caches.

use std::future::Future;
use std::time::Duration;

use api::Rng;
use client::Client;
use futures_util::future::join_all;
use runtime::{Stop, Task, spawn};
use tracing::{info, warn};

use crate::built::{self, Parts, Ready, Stops};
use crate::descriptors::Descriptor;

/// Controllers that are built and wait for their term.
pub struct Term {
    controllers: Vec<(Ready, Task<()>, Stops)>,
    start_interval: Duration,
    rng: Rng,
}

impl Term {
    /// Builds the selected controllers. `client` gives each its own.
    pub async fn build<F>(
        parts: &Parts,
        selected: &[&'static Descriptor],
        client: impl Fn(&'static Descriptor) -> F,
    ) -> Result<Term, client::Error>
    where
        F: Future<Output = Result<Client, client::Error>>,
    {
        let mut controllers = Vec::new();
        for descriptor in selected {
            let Some(built) = built::find(descriptor.name) else {
                continue;
            };
            let built = built.build(parts, client(descriptor).await?);
            controllers.extend(built.map(|(ready, writing, stops)| (ready, spawn(writing), stops)));
        }
        Ok(Term {
            controllers,
            start_interval: parts.config.generic.controller_start_interval.to_std(),
            rng: parts.rng.fork(),
        })
    }

    pub fn names(&self) -> Vec<&'static str> {
        self.controllers
            .iter()
            .map(|(ready, ..)| ready.name)
            .collect()
    }

    /// Runs all controllers until the signal comes and they have finished what they had in hand.
    pub async fn run(self, stop: Stop, patience: Duration) {
        let running = self.controllers.into_iter().map(|(ready, writer, stops)| {
            // UPSTREAM: starts are spread by chance over up to twice the interval.
            let delay = self.start_interval.mul_f64(1.0 + self.rng.unit());
            run_one(ready, writer, stops, delay, stop.clone(), patience)
        });
        let tasks: Vec<Task<()>> = running.map(spawn).collect();
        join_all(tasks).await;
    }
}

async fn run_one(
    ready: Ready,
    writer: Task<()>,
    stops: Stops,
    delay: Duration,
    stop: Stop,
    patience: Duration,
) {
    let name = ready.name;
    if stop.or(tokio::time::sleep(delay)).await.is_none() {
        return;
    }
    let mut running = ready.run(stop.clone());
    tokio::select! {
        biased;
        () = &mut running => {}
        () = async {
            stop.stopped().await;
            tokio::time::sleep(patience).await;
        } => warn!(controller = name, "did not finish in time and is dropped"),
    }
    drop(running);
    // The last events still go out.
    drop(stops);
    let _ = writer.await;
    info!(controller = name, "stopped");
}
