//! A term: the controllers between becoming the leader and ceasing to be it.
//!
//! Controllers are built before the term begins, so that a standby's caches are warm and its queues
//! are filled. When the term ends they finish what is in hand and are gone; the next term builds
//! new ones on the same caches.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::time::Duration;

use api::Rng;
use api::decision::Started;
use client::Client;
use controllers::{ControllerWithEvents, Descriptor, Environment, EventsStopper};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use runtime::{Runnable, Stop, Task, panic_text, spawn};
use tracing::{error, info, warn};

/// Controllers that are built and wait for their term.
pub struct Term {
    controllers: Vec<(Runnable, Task<()>, EventsStopper)>,
    skipped: Vec<&'static str>,
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
        let (mut controllers, mut skipped) = (Vec::new(), Vec::new());
        for descriptor in selected {
            let Some(built) = descriptor.build(environment, client(descriptor).await?) else {
                info!(controller = descriptor.name, "Warning: skipping controller");
                skipped.push(descriptor.name);
                continue;
            };
            let ControllerWithEvents {
                controller,
                events,
                events_stopper,
            } = built;
            controllers.push((controller, spawn(events), events_stopper));
        }
        Ok(Term {
            controllers,
            skipped,
            start_interval,
            rng: environment.rng.fork(),
        })
    }

    /// The controllers that it runs, and those that have nothing to do by their configuration.
    pub fn started(&self) -> Started {
        let running = self.controllers.iter();
        Started {
            running: running
                .map(|(controller, ..)| controller.name.into())
                .collect(),
            skipped: self.skipped.iter().map(|name| (*name).into()).collect(),
        }
    }

    /// Runs all controllers until the term is over and they have finished what they had in hand. A panic outside of a
    /// reconcile would leave a leader without one of its controllers: it ends the term for all, and the next builds them again.
    pub async fn run(
        self,
        over: impl Future<Output = ()>,
        patience: Duration,
    ) -> Result<(), Panicked> {
        let (ender, end) = Stop::new();
        let mut running: FuturesUnordered<Task<Result<(), Panicked>>> = self
            .controllers
            .into_iter()
            .map(|(controller, writer, stopper)| {
                // UPSTREAM: starts are spread by chance over up to twice the interval.
                let delay = self.start_interval.mul_f64(1.0 + self.rng.unit());
                spawn(run_one(
                    controller,
                    writer,
                    stopper,
                    delay,
                    end.clone(),
                    patience,
                ))
            })
            .collect();
        let mut over = pin!(over);
        let mut outcome = Ok(());
        while !end.is_stopped() {
            tokio::select! {
                biased;
                () = &mut over => ender.stop(),
                Some(ended) = running.next(), if !running.is_empty() => {
                    if let Ok(Err(panicked)) = ended {
                        outcome = Err(panicked);
                        ender.stop();
                    }
                }
            }
        }
        while running.next().await.is_some() {}
        outcome
    }
}

/// A controller that panicked where nothing catches it for a single key.
#[derive(Debug, PartialEq, Eq)]
pub struct Panicked(pub &'static str);

async fn run_one(
    controller: Runnable,
    writer: Task<()>,
    events_stopper: EventsStopper,
    delay: Duration,
    stop: Stop,
    patience: Duration,
) -> Result<(), Panicked> {
    let name = controller.name;
    if stop.or(tokio::time::sleep(delay)).await.is_none() {
        return Ok(());
    }
    let mut running = AssertUnwindSafe(controller.run(stop.clone()))
        .catch_unwind()
        .boxed();
    let outcome = tokio::select! {
        biased;
        outcome = &mut running => outcome,
        () = async {
            stop.stopped().await;
            tokio::time::sleep(patience).await;
        } => {
            warn!(controller = name, "did not finish in time and is dropped");
            Ok(())
        }
    };
    drop(running);
    // The last events still go out.
    drop(events_stopper);
    let _ = writer.await;
    if let Err(panic) = outcome {
        let panic = panic_text(&*panic);
        error!(
            controller = name,
            panic, "panicked outside of a reconcile: all controllers are stopped and built again"
        );
        return Err(Panicked(name));
    }
    info!(controller = name, "stopped");
    Ok(())
}

#[cfg(test)]
mod tests {
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
        with_events(Runnable::new(name, move |stop: Stop| {
            let _ = started.send((name, Instant::now()));
            async move {
                stop.stopped().await;
                tokio::time::sleep(needs).await;
            }
        }))
    }

    /// A controller that does not wait to be stopped.
    fn runs(
        name: &'static str,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> (Runnable, Task<()>, EventsStopper) {
        with_events(Runnable::new(name, |_| future))
    }

    fn with_events(controller: Runnable) -> (Runnable, Task<()>, EventsStopper) {
        let (stopper, written) = Stop::new();
        let writer = spawn(async move { written.stopped().await });
        (controller, writer, EventsStopper(stopper))
    }

    fn term(start_interval: u64, controllers: Vec<(Runnable, Task<()>, EventsStopper)>) -> Term {
        Term {
            controllers,
            skipped: Vec::new(),
            start_interval: Duration::from_secs(start_interval),
            rng: Rng::from_seed(1),
        }
    }

    const PATIENCE: Duration = Duration::from_secs(10);

    async fn run(term: Term, end: Stop) -> Result<(), Panicked> {
        term.run(async move { end.stopped().await }, PATIENCE).await
    }

    #[tokio::test(start_paused = true)]
    async fn starts_are_spread_over_up_to_twice_the_interval() {
        let (starting, mut started) = mpsc::unbounded_channel();
        let begun = Instant::now();
        let of = |name| controller(name, Duration::ZERO, &starting);
        let (ender, end) = Stop::new();
        let running = spawn(run(term(30, vec![of("a"), of("b"), of("c")]), end));
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
        running.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_in_hand_is_finished_unless_it_takes_too_long() {
        for (needs, takes) in [(0, 0), (3, 3), (3600, 10)] {
            let (starting, mut started) = mpsc::unbounded_channel();
            let slow = controller("slow", Duration::from_secs(needs), &starting);
            let (ender, end) = Stop::new();
            let running = spawn(run(term(0, vec![slow]), end));
            started.recv().await.unwrap();
            let told = Instant::now();
            ender.stop();
            running.await.unwrap().unwrap();
            assert_eq!(told.elapsed().as_secs(), takes, "needs {needs} s");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_term_that_ends_early_starts_nobody() {
        let (starting, mut started) = mpsc::unbounded_channel();
        let late = controller("late", Duration::ZERO, &starting);
        let (ender, end) = Stop::new();
        let running = spawn(run(term(60, vec![late]), end));
        tokio::time::sleep(Duration::from_secs(1)).await;
        ender.stop();
        running.await.unwrap().unwrap();
        drop(starting);
        assert_eq!(started.recv().await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_outside_of_reconciles_ends_the_term_for_all() {
        let (starting, mut started) = mpsc::unbounded_channel();
        let well = controller("well", Duration::from_secs(3), &starting);
        let bad = runs("bad", async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            panic!("on purpose");
        });
        let begun = Instant::now();
        let (_ender, end) = Stop::new();
        let ended = run(term(0, vec![well, bad]), end).await;
        assert_eq!(ended, Err(Panicked("bad")));
        assert_eq!(
            begun.elapsed().as_secs(),
            1 + 3,
            "the other finishes what it has in hand"
        );
        started.recv().await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_controller_that_ends_early_does_not_end_the_term() {
        let begun = Instant::now();
        let over = tokio::time::sleep(Duration::from_secs(60));
        let brief = runs("brief", async {});
        term(0, vec![brief]).run(over, PATIENCE).await.unwrap();
        assert_eq!(begun.elapsed().as_secs(), 60);
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_after_another_controller_has_ended_ends_the_term() {
        let brief = runs("brief", async {});
        let bad = runs("bad", async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            panic!("on purpose");
        });
        let over = std::future::pending();
        let ended = term(0, vec![brief, bad]).run(over, PATIENCE).await;
        assert_eq!(ended, Err(Panicked("bad")));
    }
}
