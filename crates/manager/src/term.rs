//! A term: the controllers between becoming the leader and ceasing to be it.
//!
//! Controllers are built before the term begins, so that a standby's caches are warm and its queues
//! are filled. When the term ends they finish what is in hand and are gone; the next term builds
//! new ones on the same caches.

use std::future::Future;
use std::time::Duration;

use api::Rng;
use client::Client;
use controllers::{Built, Descriptor, Environment, EventsStopper};
use futures_util::future::join_all;
use runtime::{Runnable, Stop, Task, spawn};
use tracing::{info, warn};

/// Controllers that are built and wait for their term.
pub struct Term {
    controllers: Vec<(Runnable, Task<()>, EventsStopper)>,
    start_interval: Duration,
    rng: Rng,
}

impl Term {
    /// Builds the selected controllers. `client` gives each its own.
    pub async fn build<F>(
        environment: &Environment,
        selected: &[&'static Descriptor],
        start_interval: Duration,
        client: impl Fn(&'static Descriptor) -> F,
    ) -> Result<Term, client::Error>
    where
        F: Future<Output = Result<Client, client::Error>>,
    {
        let mut controllers = Vec::new();
        for descriptor in selected {
            let Some(built) = descriptor.build(environment, client(descriptor).await?) else {
                info!(controller = descriptor.name, "Warning: skipping controller");
                continue;
            };
            let Built {
                controller,
                events,
                events_stopper,
            } = built;
            controllers.push((controller, spawn(events), events_stopper));
        }
        Ok(Term {
            controllers,
            start_interval,
            rng: environment.rng.fork(),
        })
    }

    pub fn names(&self) -> Vec<&'static str> {
        self.controllers
            .iter()
            .map(|(controller, ..)| controller.name)
            .collect()
    }

    /// Runs all controllers until the signal comes and they have finished what they had in hand.
    pub async fn run(self, stop: Stop, patience: Duration) {
        let running = self
            .controllers
            .into_iter()
            .map(|(controller, writer, stopper)| {
                // UPSTREAM: starts are spread by chance over up to twice the interval.
                let delay = self.start_interval.mul_f64(1.0 + self.rng.unit());
                run_one(controller, writer, stopper, delay, stop.clone(), patience)
            });
        let tasks: Vec<Task<()>> = running.map(spawn).collect();
        join_all(tasks).await;
    }
}

async fn run_one(
    controller: Runnable,
    writer: Task<()>,
    events_stopper: EventsStopper,
    delay: Duration,
    stop: Stop,
    patience: Duration,
) {
    let name = controller.name;
    if stop.or(tokio::time::sleep(delay)).await.is_none() {
        return;
    }
    let mut running = controller.run(stop.clone());
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
    drop(events_stopper);
    let _ = writer.await;
    info!(controller = name, "stopped");
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::sync::mpsc;
    use tokio::time::Instant;

    use super::*;

    /// A controller that tells when it was started, and needs so long to finish what it has in hand.
    fn controller(
        name: &'static str,
        needs: Duration,
        started: &mpsc::UnboundedSender<(&'static str, Instant)>,
    ) -> (Runnable, Task<()>, EventsStopper) {
        let started = started.clone();
        let (stopper, written) = Stop::new();
        let run = move |stop: Stop| {
            let _ = started.send((name, Instant::now()));
            async move {
                stop.stopped().await;
                tokio::time::sleep(needs).await;
            }
            .boxed()
        };
        let ready = Runnable::new(name, run);
        let writer = spawn(async move { written.stopped().await });
        (ready, writer, EventsStopper(stopper))
    }

    fn term(start_interval: u64, controllers: Vec<(Runnable, Task<()>, EventsStopper)>) -> Term {
        Term {
            controllers,
            start_interval: Duration::from_secs(start_interval),
            rng: Rng::from_seed(1),
        }
    }

    const PATIENCE: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn starts_are_spread_over_up_to_twice_the_interval() {
        let (starting, mut started) = mpsc::unbounded_channel();
        let begun = Instant::now();
        let of = |name| controller(name, Duration::ZERO, &starting);
        let (ender, end) = Stop::new();
        let running = spawn(term(30, vec![of("a"), of("b"), of("c")]).run(end, PATIENCE));
        let mut delays = Vec::new();
        for _ in 0..3 {
            let (_, at) = started.recv().await.unwrap();
            delays.push(at - begun);
        }
        let seconds = Duration::from_secs;
        assert!(
            delays
                .iter()
                .all(|delay| (seconds(30)..=seconds(60)).contains(delay)),
            "{delays:?}"
        );
        assert!(delays[0] < delays[2], "not all at once: {delays:?}");
        ender.stop();
        running.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_in_hand_is_finished_unless_it_takes_too_long() {
        for (needs, takes) in [(0, 0), (3, 3), (3600, 10)] {
            let (starting, mut started) = mpsc::unbounded_channel();
            let slow = controller("slow", Duration::from_secs(needs), &starting);
            let (ender, end) = Stop::new();
            let running = spawn(term(0, vec![slow]).run(end, PATIENCE));
            started.recv().await.unwrap();
            let told = Instant::now();
            ender.stop();
            running.await.unwrap();
            assert_eq!(told.elapsed().as_secs(), takes, "needs {needs} s");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_term_that_ends_early_starts_nobody() {
        let (starting, mut started) = mpsc::unbounded_channel();
        let late = controller("late", Duration::ZERO, &starting);
        let (ender, end) = Stop::new();
        let running = spawn(term(60, vec![late]).run(end, PATIENCE));
        tokio::time::sleep(Duration::from_secs(1)).await;
        ender.stop();
        running.await.unwrap();
        drop(starting);
        assert_eq!(started.recv().await, None);
    }
}
