//! A scenario from a seed: some are calm, some are wild, all are small.

use std::borrow::Cow;
use std::time::Duration;

use api::kinds::Pod;
use api::{Resource, ResourceType, Rng};
use client::Propagation;
use controllers::job::doubt_if_killed;
use controllers::oracle::{Actions, Draw};
use serde_json::json;

use super::workloads::{Workload, draw_kind};
use super::{Action, Fault, Scenario, Step, Target, UserAction};
use crate::cluster::ZONES;
use crate::faults::FaultRates;
use crate::oracle::cached;

/// The namespace that is there from the start, and the one that comes and goes.
const NAMESPACES: [&str; 2] = ["default", "shop"];

/// No run has more workloads than this: small worlds find bugs faster.
const WORKLOADS_MAX: usize = 4;

/// What a controller deals with within this time can happen while other things do.
const SOON: Duration = Duration::from_secs(60 * 60);

/// Five days cost as much as thirty runs: of the runs with one node and one manager, which are three in sixteen, one in
/// forty (one in two hundred of all) finds what there is to be found.
const DAYS_ONE_IN: usize = 40;

/// Longer than it takes another manager to lead after a crash (15 seconds) and to look around.
const HAND_OVER: Duration = Duration::from_secs(25);

/// Longer than the grace period of nodes (50 seconds) and a look at all of them.
const MISSED: Duration = Duration::from_secs(60);

/// Longer than the time from the end of a workload to the pod that comes after it.
const UNSEEN_END: Duration = Duration::from_secs(15);

impl Scenario {
    pub fn from_seed(seed: u64) -> Scenario {
        let rng = Rng::from_seed(seed ^ 0x5eed);
        let nodes = 1 + rng.below(4);
        let managers = if rng.chance(4) { 2 } else { 1 };
        let skewed = managers == 2 && rng.chance(2);
        // Of its own, so that runs of one family are what they are without it.
        let is_dual_stack = Rng::from_seed(seed ^ 0xd0a1).chance(2);
        let mut draft = Draft {
            rng: rng.fork(),
            nodes,
            managers,
            is_dual_stack,
            has_faults: !rng.chance(4),
            workloads: Vec::new(),
            pods: 0,
            disturbances: 0,
            steps: Vec::new(),
            at: Duration::ZERO,
        };
        for _ in 0..8 + rng.below(10) {
            draft.action();
            if draft.has_faults && rng.chance(3) {
                draft.fault();
            }
            draft.at += Duration::from_millis(rng.below(8000) as u64);
        }
        if nodes == 1 && managers == 1 && rng.chance(DAYS_ONE_IN) {
            draft.wait_for_days();
        }
        draft.steps.sort_by_key(|step| step.at);
        draft.doubt_killed_jobs();
        Scenario {
            name: format!("seed {seed}"),
            seed,
            nodes,
            managers,
            skew: Duration::from_secs(if skewed { 1 + rng.below(5) as u64 } else { 0 }),
            faults: if draft.has_faults {
                FaultRates::from_seed(&rng)
            } else {
                FaultRates::default()
            },
            is_dual_stack,
            crash_after_write: None,
            steps: draft.steps,
        }
    }
}

struct Draft {
    rng: Rng,
    nodes: usize,
    managers: usize,
    is_dual_stack: bool,
    /// Faults come in all mixes; a quarter of the runs have none but a user who changes their mind.
    has_faults: bool,
    workloads: Vec<Workload>,
    pods: usize,
    disturbances: usize,
    steps: Vec<Step>,
    at: Duration,
}

impl Draft {
    fn push(&mut self, at: Duration, action: Action) {
        self.steps.push(Step { at, action });
    }

    fn action(&mut self) {
        let made = self.workloads.len();
        let action = if made == 0 || (made < WORKLOADS_MAX && self.rng.chance(3)) {
            self.create()
        } else if self.rng.chance(7) {
            return self.disturb();
        } else {
            self.act()
        };
        self.push(self.at, Action::User(action));
    }

    fn create(&mut self) -> UserAction {
        let number = self.workloads.len();
        let namespace = NAMESPACES[usize::from(self.rng.chance(4))];
        let kind = draw_kind(&self.rng);
        let target = Target {
            resource: kind.resource.clone(),
            namespace,
            name: format!("w{number}"),
        };
        if namespace != NAMESPACES[0] {
            self.push(
                self.at,
                Action::User(UserAction::CreateNamespace(namespace)),
            );
        }
        // Overlapping selectors are a mistake that users make.
        let shared = number > 0 && self.rng.chance(12);
        let app = if shared { "w0" } else { target.name.as_str() }.to_owned();
        let object = (kind.draw)(&self.rng, &target, &app);
        self.workloads.push(Workload {
            kind,
            target: target.clone(),
            app,
            versions: vec![0],
        });
        UserAction::Create(target, object)
    }

    fn act(&mut self) -> UserAction {
        let chosen = self.rng.below(self.workloads.len());
        let target = self.workloads[chosen].target.clone();
        let nth = self.rng.below(6);
        match self.rng.below(20) {
            0..=9 => {
                let workload = &mut self.workloads[chosen];
                let (patch, what) = (workload.kind.change)(&self.rng, &mut workload.versions);
                UserAction::Change(target, patch, what)
            }
            10 | 11 => UserAction::DeletePod(target, nth),
            12 => UserAction::EvictPod(target, nth),
            13 => UserAction::StrayPod(target, nth),
            14 => UserAction::DisownPod(target, nth),
            15 => UserAction::AddGhostOwner(target, nth),
            16 => self.bare_pod(target),
            17 => self.delete(chosen),
            18 if self.rng.chance(2) => {
                let pool = ["a", "b"][self.rng.below(2)];
                UserAction::LabelNode(self.rng.below(self.nodes), pool)
            }
            18 => {
                let effect = self.rng.chance(2).then_some("NoSchedule");
                UserAction::TaintNode(self.rng.below(self.nodes), effect)
            }
            _ if self.rng.chance(2) => UserAction::DeleteNamespace(NAMESPACES[1]),
            _ => self.delete(chosen),
        }
    }

    /// Something that concerns one controller; it may take several steps.
    fn disturb(&mut self) {
        self.disturbances += 1;
        let chosen = self.rng.below(self.workloads.len());
        // Of its own, so that what one controller draws moves nothing else.
        let rng = self.rng.fork();
        let draw = Draw {
            rng: &rng,
            namespace: self.workloads[chosen].target.namespace,
            number: self.disturbances,
            nodes: self.nodes,
            is_dual_stack: self.is_dual_stack,
        };
        let choice = actions_that(|takes| takes < SOON);
        let actions = (choice[self.rng.below(choice.len())].draw)(&draw);
        let concerned: Vec<_> = actions.iter().filter_map(UserAction::target).collect();
        if !concerned.is_empty() && self.has_faults && self.rng.chance(2) {
            let target = concerned[self.rng.below(concerned.len())];
            let (plural, lasts) = (plural_of(&target.resource), self.millis(25_000));
            self.push(self.at, Action::Fault(Fault::Freeze { plural, lasts }));
        }
        let mut at = self.at;
        for action in actions {
            at += Duration::from_millis(200 + rng.below(5000) as u64);
            self.push(at, Action::User(action));
        }
    }

    /// Does what takes a controller days to deal with, and waits for that. Without nodes, because they speak all day, and
    /// with one manager, because two of them do.
    fn wait_for_days(&mut self) {
        let choice = actions_that(|takes| takes >= SOON);
        let Some(takes) = choice.iter().map(|chosen| chosen.takes).max() else {
            return;
        };
        for chosen in choice {
            let actions = (chosen.draw)(&Draw {
                rng: &self.rng.fork(),
                namespace: NAMESPACES[0],
                number: self.disturbances + 1,
                nodes: self.nodes,
                is_dual_stack: self.is_dual_stack,
            });
            for action in actions {
                self.push(self.at, Action::User(action));
            }
        }
        self.push(self.at, Action::Fault(Fault::LoseNode(0)));
        let end = self.at + takes;
        self.push(end, Action::Fault(Fault::ReturnNodes));
    }

    /// A pod that is killed in time ends well, and with it a job that was to fail. Whether it is in time is a matter of
    /// luck.
    fn doubt_killed_jobs(&mut self) {
        let app_of = |target: &Target| {
            let mut workloads = self.workloads.iter();
            // Whoever evicts need not know the kind.
            workloads.find(|workload| {
                let known = &workload.target;
                (known.namespace, &known.name) == (target.namespace, &target.name)
            })
        };
        let killed = self.steps.iter().filter_map(|step| match &step.action {
            Action::User(UserAction::DeletePod(target, _) | UserAction::EvictPod(target, _)) => {
                app_of(target)
            }
            // A job that is suspended or gets smaller deletes pods.
            Action::User(UserAction::Change(target, ..)) => app_of(target),
            _ => None,
        });
        let mut killed: Vec<String> = killed.map(|workload| workload.app.clone()).collect();
        let evicts = |step: &Step| match &step.action {
            Action::User(action) => action.evicts(),
            Action::Fault(fault) => matches!(fault, Fault::StopKubelet(_)),
        };
        if self.steps.iter().any(evicts) {
            killed = self.workloads.iter().map(|it| it.app.clone()).collect();
        }
        for step in &mut self.steps {
            if let Action::User(UserAction::Create(_, object)) = &mut step.action {
                doubt_if_killed(object, &killed);
            }
        }
    }

    fn bare_pod(&mut self, target: Target) -> UserAction {
        self.pods += 1;
        let name = format!("bare-{}", self.pods);
        let pod = json!({
            "apiVersion": "v1", "kind": Pod::TYPE.kind,
            "metadata": {
                "name": name, "namespace": target.namespace,
                "labels": {"app": target.name, "version": "0"},
            },
            "spec": {"containers": [{"name": "c", "image": "app:0"}]},
        });
        UserAction::CreatePod(target, pod)
    }

    /// Deletes a workload; half the time it comes back under the same name.
    fn delete(&mut self, chosen: usize) -> UserAction {
        let target = self.workloads[chosen].target.clone();
        let policy = [
            Propagation::Background,
            Propagation::Foreground,
            Propagation::Orphan,
        ][self.rng.below(3)];
        if self.rng.chance(2) {
            let later = self.at + Duration::from_millis(500 + self.rng.below(8000) as u64);
            let workload = &self.workloads[chosen];
            let mut object = (workload.kind.draw)(&self.rng, &target, &workload.app);
            if let Some(spec) = object["spec"].as_object_mut() {
                // UPSTREAM: pods that were orphaned without claims cannot be given any, and a StatefulSet
                // that adopts them tries forever.
                spec.remove("volumeClaimTemplates");
            }
            self.push(
                later,
                Action::User(UserAction::Create(target.clone(), object)),
            );
        }
        UserAction::Delete(target, policy)
    }

    /// A workload goes while nobody is told of it, and then a pod comes that it would have taken.
    fn unseen_end(&mut self) {
        let chosen = self.rng.below(self.workloads.len());
        let target = self.workloads[chosen].target.clone();
        let plural = plural_of(&target.resource);
        let lasts = UNSEEN_END + self.millis(10_000);
        let freeze = Fault::Freeze { plural, lasts };
        self.push(self.at, Action::Fault(freeze));
        let deleted_at = self.at + self.millis(1000);
        let delete = UserAction::Delete(target.clone(), Propagation::Background);
        self.push(deleted_at, Action::User(delete));
        let stray = match self.rng.chance(2) {
            true => self.bare_pod(target),
            false => UserAction::DisownPod(target, self.rng.below(6)),
        };
        let found_at = deleted_at + Duration::from_millis(500) + self.millis(12_000);
        self.push(found_at, Action::User(stray));
    }

    /// Kubelets stop posting status for long enough to be missed, perhaps for so long that their pods are evicted. Half the
    /// time they do not come back before users put everything right.
    fn stop_kubelets(&mut self, nodes: impl IntoIterator<Item = usize>) {
        let (from, lasts) = (self.at + self.millis(4000), MISSED + self.millis(400_000));
        let ends = self.rng.chance(2);
        for node in nodes {
            self.push(from, Action::Fault(Fault::StopKubelet(node)));
            if ends {
                self.push(from + lasts, Action::Fault(Fault::StartKubelet(node)));
            }
        }
    }

    fn millis(&self, most: usize) -> Duration {
        Duration::from_millis(self.rng.below(most) as u64)
    }

    fn fault(&mut self) {
        // What users are busy with is where an old view does harm.
        let plural = match self.rng.chance(2) {
            true => {
                let watched = watched();
                watched[self.rng.below(watched.len())]
            }
            false => {
                let busy = &self.workloads[self.rng.below(self.workloads.len())];
                plural_of(&busy.target.resource)
            }
        };
        let node = self.rng.below(self.nodes);
        let manager = self.rng.below(self.managers);
        let (at, later) = (self.at + self.millis(4000), self.at + self.millis(30_000));
        let fault = match self.rng.below(15) {
            0..=2 => Fault::CrashManager {
                manager,
                down: self.millis(4000),
            },
            3 => Fault::RestartServer {
                lost: 0,
                down: self.millis(5000),
            },
            4 => Fault::RestartServer {
                lost: 1 + self.rng.below(12) as u64,
                down: self.millis(5000),
            },
            5 | 6 => Fault::Freeze {
                plural,
                lasts: self.millis(25_000),
            },
            7 => Fault::Delay {
                plural,
                by: self.millis(3000),
                lasts: self.millis(30_000),
            },
            8 => Fault::CutWatches,
            9 => Fault::ExpireWatches,
            10 if self.managers > 1 && self.rng.chance(2) => {
                // The one who takes over has stood by with an old view. Most often the first one leads.
                let lasts = HAND_OVER + self.millis(10_000);
                self.push(
                    self.at,
                    Action::Fault(Fault::Freeze {
                        plural: "pods",
                        lasts,
                    }),
                );
                Fault::CrashManager {
                    manager: 0,
                    down: HAND_OVER,
                }
            }
            10 if self.managers > 1 => {
                // Whoever hears of no node for so long takes all of them for lost, and would say so once it is back.
                let least = [Duration::ZERO, MISSED][self.rng.below(2)];
                Fault::Isolate {
                    manager,
                    lasts: least + self.millis(40_000),
                }
            }
            10 => {
                self.push(later, Action::Fault(Fault::StartKubelet(node)));
                Fault::StopKubelet(node)
            }
            11 => return self.unseen_end(),
            12 => return self.stop_kubelets([node]),
            13 => {
                let zone = node % ZONES;
                return self.stop_kubelets((zone..self.nodes).step_by(ZONES));
            }
            _ => {
                self.push(
                    later + Duration::from_secs(60),
                    Action::Fault(Fault::ReturnNodes),
                );
                Fault::LoseNode(node)
            }
        };
        self.push(at, Action::Fault(fault));
    }
}

/// What users do that concerns single controllers, by how long these take to deal with it.
fn actions_that(take: impl Fn(Duration) -> bool) -> Vec<Actions> {
    let all = controllers::built().flat_map(|descriptor| descriptor.actions);
    all.filter(|actions| take(actions.takes)).copied().collect()
}

/// Kinds whose watches may fail one by one: each as often as there are controllers that cache it.
fn watched() -> Vec<&'static str> {
    let cached = cached().map(|view| plural_of(&view.resource));
    cached.collect()
}

fn plural_of(resource: &ResourceType) -> &'static str {
    match resource.plural {
        Cow::Borrowed(plural) => plural,
        // Kinds that were discovered; the generator knows its own by heart.
        Cow::Owned(_) => "pods",
    }
}
