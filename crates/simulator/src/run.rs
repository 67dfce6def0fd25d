//! One run: fault, calm, rest.

use std::time::Duration;

use api::MicroTime;
use controllers::oracle::Actor;
use tokio::time::Instant;

use crate::cluster::{Cluster, Running};
use crate::faults::FaultInjector;
use crate::report::{Failure, Report};
use crate::scenario::{Action, Fault, Scenario, UserAction};
use crate::trace::time_of_day;
use crate::user::User;

/// The cluster has this long to converge once the fault is over: longer than the longest back-off
/// that a short run can build up, and than any deadline in it.
const PATIENCE: Duration = Duration::from_secs(30 * 60);

/// Nothing may be written for this long once it has converged.
const REST: Duration = Duration::from_secs(120);

/// Longer than a status is throttled, and no multiple of a second, at which kubelets write.
const AFTERMATH: Duration = Duration::from_millis(1_300);

/// So long the user leaves things as they are when the fault is over. Some never come to rest by themselves: a pod
/// that crashes goes on crashing.
const LULL: Duration = Duration::from_secs(240);

/// Longer than a controller needs for news.
const MOMENT: Duration = Duration::from_secs(10);

/// A user looks again after this time whether what they fixed has come right.
const TIDY_EVERY: Duration = Duration::from_secs(60);

/// Runs a scenario on a thread-local runtime with virtual time.
pub fn run_scenario(scenario: &Scenario) -> Report {
    runtime().block_on(async {
        let mut run = Run::start(scenario);
        let problem = run.play_until_broken().await.err();
        run.report(problem)
    })
}

/// What happened in a run. It can be had at any time: the same scenario always goes the same way.
pub fn timeline_of(scenario: &Scenario) -> Vec<String> {
    runtime().block_on(async {
        let mut run = Run::start(scenario);
        // How it ended is known already.
        let _ = run.play_until_broken().await;
        run.timeline()
    })
}

/// What happened in a run, for programs: each moment's decisions and writes, the earliest first.
pub fn moments_of(scenario: &Scenario) -> Vec<Moment> {
    runtime().block_on(async {
        let mut run = Run::start(scenario);
        let _ = run.play_until_broken().await;
        run.moments()
    })
}

/// One thing that happened.
#[derive(Clone, Debug)]
pub enum Moment {
    /// A controller decided something.
    Decided {
        at: MicroTime,
        controller: String,
        object: api::ObjectId,
        lines: Vec<api::decision::Line>,
    },
    /// Somebody wrote, or something went wrong.
    Happened { at: MicroTime, what: String },
}

impl Moment {
    pub fn at(&self) -> MicroTime {
        match self {
            Moment::Decided { at, .. } | Moment::Happened { at, .. } => *at,
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without IO needs nothing from the system")
}

struct Run<'a> {
    scenario: &'a Scenario,
    cluster: Cluster,
    user: User,
    start: Instant,
    crashes: u64,
    converging: Duration,
}

impl<'a> Run<'a> {
    fn start(scenario: &'a Scenario) -> Run<'a> {
        let mut cluster = Cluster::new(scenario.seed, scenario.is_dual_stack, |rng| match scenario
            .comes_between_managers()
        {
            true => FaultInjector::new(scenario.faults, rng.fork()),
            false => FaultInjector::idle(rng.fork()),
        });
        cluster.crash_after_write(scenario.crash_after_write);
        if !scenario.restarts_server() {
            cluster.keep_server_up();
        }
        cluster.oracles().expect(scenario);
        let user = User::new(cluster.user());
        cluster.start_nodes(scenario.nodes);
        let mut run = Run {
            scenario,
            cluster,
            user,
            start: Instant::now(),
            crashes: 0,
            converging: Duration::ZERO,
        };
        for manager in 0..scenario.managers {
            run.start_manager(manager);
        }
        run
    }

    /// What is broken is told at once: the rest of the run would only bury it.
    async fn play_until_broken(&mut self) -> Result<(), String> {
        let oracles = self.cluster.oracles().clone();
        tokio::select! {
            biased;
            problem = oracles.breaks() => Err(problem),
            outcome = self.play() => outcome,
        }
    }

    async fn play(&mut self) -> Result<(), String> {
        for step in &self.scenario.steps {
            let due = self.start + step.at;
            self.pass_time(due.saturating_duration_since(Instant::now()))
                .await;
            self.perform(&step.action).await;
        }
        self.calm().await?;
        self.rest().await
    }

    fn start_manager(&mut self, number: usize) {
        match self.scenario.managers {
            0 | 1 => self.cluster.start_manager(),
            _ => {
                let skew = self.scenario.skew * u32::try_from(number).unwrap_or(0);
                self.cluster.start_contender(number, skew);
            }
        }
    }

    async fn perform(&mut self, action: &Action) {
        if let Some(class) = action.class() {
            self.cluster.injector().count(class);
        }
        match action {
            Action::User(action) => {
                let did = self.user.act(action).await;
                self.cluster.trace().remark(Actor::User, did);
            }
            Action::Fault(fault) => {
                let remark = fault.to_string();
                self.cluster.trace().remark(Actor::Manager(0, ""), remark);
                self.make(fault).await;
            }
        }
    }

    async fn make(&mut self, fault: &Fault) {
        let injector = self.cluster.injector().clone();
        match fault {
            Fault::CrashManager { manager, down } => {
                self.cluster.crash_contender(*manager);
                self.crashes += 1;
                tokio::time::sleep(*down).await;
                self.start_manager(*manager);
            }
            Fault::RestartServer { lost, down } => {
                self.cluster.restart_server(*lost, *down).await;
            }
            Fault::StopKubelet(node) => {
                self.user
                    .annotate_node(*node, nodes::behaviour::NODE_SILENT, true)
                    .await;
            }
            Fault::StartKubelet(node) => {
                self.user
                    .annotate_node(*node, nodes::behaviour::NODE_SILENT, false)
                    .await;
            }
            Fault::LoseNode(node) => {
                self.user
                    .annotate_node(*node, nodes::behaviour::NODE_GONE, true)
                    .await;
            }
            Fault::ReturnNodes => self.cluster.start_nodes(self.scenario.nodes),
            Fault::Freeze { plural, lasts } => injector.freeze(plural, *lasts),
            Fault::Delay { plural, by, lasts } => injector.delay(plural, *by, *lasts),
            Fault::CutWatches => injector.cut_watches(),
            Fault::ExpireWatches => injector.expire_watches(),
            Fault::Isolate { manager, lasts } => injector.isolate(*manager, *lasts),
        }
    }

    /// Lets time pass; a manager that reaches its crash point is started again a second later.
    async fn pass_time(&mut self, duration: Duration) {
        let end = Instant::now() + duration;
        loop {
            let crashed = tokio::time::timeout_at(end, self.cluster.crash_point_reached()).await;
            if crashed.is_err() {
                return;
            }
            self.cluster.crash_manager();
            self.cluster.crash_after_write(None);
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.start_manager(0);
            self.crashes += 1;
        }
    }

    /// The fault is over. Waits until the managers have written nothing for a while, or patience ends.
    async fn calm(&mut self) -> Result<(), String> {
        self.cluster.injector().stop();
        // UPSTREAM: a kubelet registers its node when it starts, and never again. One whose node was deleted, or
        // was lost with the tail of the API server, has to be started anew by somebody.
        let loses = |step: &crate::Step| {
            matches!(
                step.action,
                Action::Fault(Fault::LoseNode(_) | Fault::RestartServer { lost: 1.., .. })
                    | Action::User(UserAction::DeleteNode(_))
            )
        };
        if self.scenario.steps.iter().any(loses) {
            // One that goes at this moment has to be gone before it can come back.
            self.pass_time(Duration::from_secs(10)).await;
            self.cluster.start_nodes(self.scenario.nodes);
            // They have to be there before they can be put right.
            self.pass_time(Duration::from_secs(10)).await;
        }
        self.lull().await?;
        // UPSTREAM: each look at a key that fails makes its wait longer, and nobody is told when the reason goes.
        let may_wait = {
            let oracles = self.cluster.oracles();
            let mut managers = self.cluster.managers();
            managers.any(|it| oracles.has_rightful_failures(&it.metrics))
        };
        self.user.restore(self.scenario.nodes).await;
        let finished_at = self.cluster.clock.now();
        let deadline = Instant::now() + PATIENCE;
        let mut next_tidy = Instant::now() + TIDY_EVERY;
        while Instant::now() < deadline {
            self.pass_time(Duration::from_secs(10)).await;
            if Instant::now() >= next_tidy {
                self.user.tidy().await;
                next_tidy = Instant::now() + TIDY_EVERY;
            }
            // Pods that could not run before may take a while to get ready.
            let last = self.cluster.trace().last_manager_write().max(finished_at);
            let quiet = self.cluster.clock.now().since(last);
            if quiet > REST && self.cluster.oracles().check_converged().is_ok() {
                break;
            }
        }
        if !may_wait {
            self.converging = self.cluster.trace().last_manager_write().since(finished_at);
        }
        Ok(())
    }

    /// What the user left behind, paused or broken as it may be: once the managers have nothing more to do about it,
    /// what they say must be true. Putting everything right would make them look at everything again.
    async fn lull(&mut self) -> Result<(), String> {
        let began = Instant::now();
        let deadline = began + LULL;
        while Instant::now() < deadline {
            self.pass_time(Duration::from_secs(10)).await;
            if !self.is_quiet() {
                continue;
            }
            // What a kubelet writes in this very moment has yet to reach the managers, and may be news to them.
            self.pass_time(AFTERMATH).await;
            if !self.is_quiet() {
                continue;
            }
            let oracles = self.cluster.oracles();
            let mut managers = self.cluster.managers();
            let caches = managers.try_for_each(|it| oracles.check_caches(&it.informers));
            // A watch that stood still when the faults ended is noticed after a while, and told of what it missed.
            if caches.is_err() && began.elapsed() < REST {
                continue;
            }
            caches?;
            oracles.check_in_time()?;
            return oracles.check_even_if_paused(false);
        }
        self.cluster.oracles().check_even_if_paused(true)?;
        match self.cluster.oracles().check_in_time() {
            Ok(()) => Ok(()),
            // What was orphaned a moment ago is adopted in the next.
            Err(_) => {
                self.pass_time(MOMENT).await;
                self.cluster.oracles().check_in_time()
            }
        }
    }

    /// Have the managers written nothing for a while, and have nothing more to do?
    fn is_quiet(&self) -> bool {
        let last = self.cluster.trace().last_manager_write();
        let quiet = self.cluster.clock.now().since(last);
        let ends = |running: &Running| running.metrics.pending_work().look();
        let mut ends = self.cluster.managers().flat_map(ends);
        // A key that fails is tried again later. So is one that expects to see a pod that somebody deleted before
        // the cache had it: that is given up after five minutes, as upstream.
        let tries = ends.any(|(_, ends)| {
            let waits = [&ends.busy, &ends.failing, &ends.expecting];
            waits.iter().any(|keys| !keys.is_empty())
        });
        quiet > REST && !tries
    }

    /// Converged, silent, and nothing left over.
    async fn rest(&mut self) -> Result<(), String> {
        let (oracles, trace) = (self.cluster.oracles(), self.cluster.trace());
        oracles.check_converged()?;
        oracles.check_decisions(&self.cluster.decisions)?;
        trace.begin_rest();
        tokio::time::sleep(REST).await;
        trace.check_rest(oracles.may_complain())?;
        // What a kubelet writes in this very moment has yet to reach the caches.
        tokio::time::sleep(AFTERMATH).await;
        for running in self.cluster.managers() {
            oracles.check_caches(&running.informers)?;
            oracles.check_pending_work(running.identity.as_deref(), &running.metrics)?;
        }
        Ok(())
    }

    fn report(&self, problem: Option<String>) -> Report {
        let (trace, oracles) = (self.cluster.trace(), self.cluster.oracles());
        let scenario = self.scenario;
        Report {
            name: scenario.name.clone(),
            seed: scenario.seed,
            hash: trace.hash(),
            virtual_time: self.start.elapsed(),
            converging: self.converging,
            manager_writes: trace.manager_writes(),
            writes: trace.writes().iter().sum(),
            faults: self.cluster.injector().counts(),
            crashes: self.crashes,
            checks: oracles.checks(),
            tallies: oracles.tallies(),
            counts: oracles.counts(),
            end_state: oracles.end_state(),
            granted: self.user.granted.clone(),
            failure: problem.map(|problem| Failure {
                problem,
                timeline: self.timeline(),
                shrunk: None,
                replay: String::new(),
            }),
        }
    }

    /// Writes and decisions, in the order in which they came.
    fn moments(&self) -> Vec<Moment> {
        let mut moments = Vec::new();
        for decided in self.cluster.decisions.about(|_, _| true) {
            let made = decided.decisions.iter().filter(|one| !one.lines.is_empty());
            moments.extend(made.map(|one| Moment::Decided {
                at: one.at,
                controller: decided.controller.to_string(),
                object: decided.object.clone(),
                lines: one.lines.to_vec(),
            }));
        }
        let writes = self.cluster.trace().lines().into_iter();
        moments.extend(writes.map(|(at, what)| Moment::Happened { at, what }));
        moments.sort_by_key(Moment::at);
        moments
    }

    fn timeline(&self) -> Vec<String> {
        let writes = self.cluster.trace().lines();
        let from = writes.first().map(|(at, _)| *at).unwrap_or_default();
        let mut lines: Vec<(MicroTime, String)> = Vec::new();
        for decided in self.cluster.decisions.about(|_, _| true) {
            let short = decided.controller.trim_end_matches("-controller");
            let object = &decided.object;
            for decision in &decided.decisions {
                let said: Vec<String> = decision.lines.iter().map(ToString::to_string).collect();
                let (time, said) = (time_of_day(decision.at), said.join("; "));
                if decision.at >= from && !said.is_empty() {
                    let line = format!("{time} {short:<18} decides for {object}: {said}");
                    lines.push((decision.at, line));
                }
            }
        }
        // Decisions come before the writes of the same moment, which follow from them.
        lines.extend(writes);
        lines.sort_by_key(|(at, _)| *at);
        lines.into_iter().map(|(_, line)| line).collect()
    }
}
