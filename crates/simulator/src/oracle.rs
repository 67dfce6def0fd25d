//! Sees every single change, in order, and knows what must not happen.
//!
//! It holds a copy of what is really in the API server, whatever the managers' caches say. After each write it asks the
//! oracles of all controllers ([`controllers::oracle::Oracle`]) and the laws between controllers; at the end it asks
//! what must hold when nothing changes any more. What one controller has to do is in that controller's folder.

mod events;
mod history;
mod laws;
mod rest;
mod views;

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::{Clock, Key, MicroTime};
use apiserver::{ApiServer, Changed};
use bytes::Bytes;
use controllers::oracle::{Actor, Change, Oracle, Raw, Run, Tally, Verdict, World};
use http::Method;
use runtime::Informers;
use tokio::sync::Notify;

use crate::cluster::{LEASE, ROOT_CA, options};
use crate::faults::FaultInjector;
use crate::scenario::Scenario;
use events::Events;
use history::History;
use views::Views;
pub(crate) use views::cached;

/// The oracles of all controllers, and the laws between them. Clones share them.
#[derive(Clone)]
pub(crate) struct Oracles(Arc<Mutex<Inner>>, Arc<Notify>);

struct Inner {
    world: World,
    /// By the name of the controller.
    of: BTreeMap<&'static str, Box<dyn Oracle>>,
    history: History,
    views: Views,
    events: Events,
    began_at: MicroTime,
    revision: u64,
    broken: Option<String>,
    checks: u64,
    /// Who holds the managers' lease.
    leader: Option<String>,
    /// Who each manager is in the lease. Empty while there is one that need not ask.
    identities: BTreeMap<usize, String>,
    /// The caches of each manager.
    informers: BTreeMap<usize, Arc<Informers>>,
    /// How many requests there were in the present second.
    requests: (MicroTime, u32),
    /// How many changes there were in all, but for those that go on for ever, and how many are too many.
    changes: u64,
    changes_max: u64,
    counts: Counts,
}

/// How busy the server was.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Everything that was asked, reads and watches too.
    pub requests: u64,
    /// Everything that changed: leases and events too.
    pub changes: u64,
}

/// More requests in a second than anything here has a reason for: somebody runs in circles, and virtual
/// time may never move again.
const REQUESTS_A_SECOND_MAX: u32 = 20_000;

/// What a request is about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    pub(crate) plural: String,
    pub(crate) namespace: String,
    /// None for requests about many objects.
    pub(crate) name: Option<String>,
}

impl Place {
    pub(crate) fn of(path: &str) -> Place {
        let mut parts = path.trim_start_matches('/').split('/');
        let skipped = match parts.next() {
            Some("api") => 1,
            Some("apis") => 2,
            _ => return Place::default(),
        };
        let rest: Vec<&str> = parts.skip(skipped).collect();
        let (namespace, rest) = match rest.as_slice() {
            // The namespace itself, or its status and finalizers.
            ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => ("", rest.as_slice()),
            ["namespaces", namespace, rest @ ..] => (*namespace, rest),
            rest => ("", rest),
        };
        Place {
            plural: rest.first().copied().unwrap_or_default().to_owned(),
            namespace: namespace.to_owned(),
            name: rest.get(1).map(|name| (*name).to_owned()),
        }
    }

    fn holds(&self, changed: &Changed) -> bool {
        self.plural == changed.plural
            && self.namespace == changed.namespace
            && self.name.as_ref().is_none_or(|name| *name == changed.name)
    }
}

impl Oracles {
    pub(crate) fn new(
        server: &ApiServer,
        clock: Clock,
        injector: FaultInjector,
        is_dual_stack: bool,
    ) -> Oracles {
        let built = controllers::built();
        let of: BTreeMap<&'static str, Box<dyn Oracle>> = built
            .filter_map(|descriptor| Some((descriptor.name, descriptor.oracle?())))
            .collect();
        let options = options(is_dual_stack);
        let gates = options.gates.for_controllers();
        let caches = controllers::built().flat_map(|descriptor| descriptor.cached(gates));
        let asked_for = of.values().flat_map(|oracle| oracle.views());
        let requests_since = clock.now();
        let views = Views::new(clock.clone(), injector.clone());
        let (requests, run) = (
            (requests_since, 0),
            Run {
                clock,
                skew: Duration::ZERO,
                gates,
                config: options.config.controllers.clone(),
                root_ca: ROOT_CA,
                has_lag: false,
                lag: Box::new(views.clone()),
                acting: None,
                has_slow_requests: false,
                is_contended: false,
                lost_changes_at: None,
                led_since: requests_since,
                unacknowledged: Box::new(move |owner| injector.unacknowledged(owner)),
            },
        );
        let oracles = Oracles(
            Arc::new(Mutex::new(Inner {
                world: World::new(run, caches.cloned().chain(asked_for)),
                of,
                history: History::default(),
                views,
                informers: BTreeMap::new(),
                events: Events::default(),
                began_at: requests_since,
                revision: 0,
                broken: None,
                checks: 0,
                leader: None,
                identities: BTreeMap::new(),
                requests,
                changes: 0,
                changes_max: u64::MAX,
                counts: Counts::default(),
            })),
            Arc::default(),
        );
        oracles.lock().read_all(server);
        oracles
    }

    /// Takes over what is known of a run before it begins.
    pub(crate) fn expect(&self, scenario: &Scenario) {
        let mut inner = self.lock();
        inner.changes_max = scenario.changes_max();
        let run = &mut inner.world.run;
        run.has_lag = scenario.views_may_lag();
        run.has_slow_requests = scenario.faults.slow > 0;
        run.skew = scenario.skew;
    }

    /// Forgets what it saw and looks at everything: the server has lost changes.
    pub(crate) fn start_over(&self, server: &ApiServer) {
        let mut inner = self.lock();
        inner.history.forget_lost();
        inner.views.forget_lost();
        inner.of.values_mut().for_each(|it| it.forget_lost());
        inner.read_all(server);
        let now = inner.world.now();
        inner.world.run.lost_changes_at = Some(now);
    }

    /// A process begins that writes events.
    pub(crate) fn expect_new_writer(&self) {
        self.lock().events.writers += 1;
    }

    /// A manager begins, and remembers nothing.
    pub(crate) fn expect_manager(&self, manager: usize, informers: &Arc<Informers>) {
        let mut inner = self.lock();
        inner.views.expect(manager, informers, &inner.world);
        inner.informers.insert(manager, informers.clone());
        inner.events.writers += 1;
        inner.world.run.led_since = inner.world.now();
    }

    /// The run is over. Caches hold their client, and a client leads back here.
    pub(crate) fn forget_managers(&self) {
        let mut inner = self.lock();
        inner.informers.clear();
        inner.views.forget_managers();
    }

    /// From here on this manager may write only while the lease names it.
    pub(crate) fn expect_candidate(&self, manager: usize, identity: &str) {
        let mut inner = self.lock();
        inner.identities.insert(manager, identity.to_owned());
        inner.world.run.is_contended = inner.identities.len() > 1;
    }

    /// Looks at a request before it is sent.
    pub(crate) fn before(&self, actor: Actor, method: &Method, place: &Place, body: &Bytes) {
        let verdict = self.lock().check_request(actor, method, place, body);
        self.conclude(verdict);
    }

    /// Counts any request, reads too.
    pub(crate) fn count(&self, actor: Actor) {
        let mut inner = self.lock();
        let now = inner.world.now();
        if now.since(inner.requests.0) >= Duration::from_secs(1) {
            inner.requests = (now, 0);
        }
        inner.requests.1 += 1;
        inner.counts.requests += 1;
        let spins = inner.requests.1 == REQUESTS_A_SECOND_MAX;
        drop(inner);
        if spins {
            let problem =
                format!("{actor} and others sent {REQUESTS_A_SECOND_MAX} requests in a second");
            self.conclude(Err(problem));
        }
    }

    /// Waits until something is broken.
    pub(crate) async fn breaks(&self) -> String {
        loop {
            if let Some(problem) = self.broken() {
                return problem;
            }
            self.1.notified().await;
        }
    }

    /// Looks at what has changed since the last time; `actor` did what is at `place`.
    pub(crate) fn look(&self, server: &ApiServer, actor: Actor, place: &Place) {
        let mut inner = self.lock();
        let from = inner.revision;
        if server.revision() <= from {
            return;
        }
        for changed in server.changes_after(from) {
            let by = place.holds(&changed).then_some(actor);
            let verdict = inner.take_in(&changed, actor, by);
            if verdict.is_err() {
                drop(inner);
                return self.conclude(verdict);
            }
        }
    }

    fn conclude(&self, verdict: Verdict) {
        if let Err(problem) = verdict {
            self.lock().broken.get_or_insert(problem);
            self.1.notify_one();
        }
    }

    pub(crate) fn broken(&self) -> Option<String> {
        self.lock().broken.clone()
    }

    pub(crate) fn checks(&self) -> u64 {
        self.lock().checks
    }

    pub(crate) fn tallies(&self) -> BTreeMap<&'static str, Tally> {
        self.lock().world.tallies()
    }

    pub(crate) fn counts(&self) -> Counts {
        self.lock().counts
    }

    /// What a user sees in the end, without names and times: to compare two runs of the same actions.
    pub(crate) fn end_state(&self) -> Vec<String> {
        let inner = self.lock();
        let namespaces = inner.world.store::<api::kinds::Namespace>().list();
        let namespaces = namespaces.iter().map(|held| &held.metadata.name);
        let mut lines: Vec<String> = namespaces.map(|name| format!("namespace {name}")).collect();
        for oracle in inner.of.values() {
            lines.extend(oracle.end_state(&inner.world));
        }
        lines.sort();
        lines
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock()
    }
}

impl Inner {
    fn read_all(&mut self, server: &ApiServer) {
        self.world.clear();
        self.leader = None;
        self.events.forget_lost();
        for changed in server.objects() {
            if let Err(problem) = self.mirror(&changed, None) {
                self.broken.get_or_insert(problem);
            }
        }
        self.revision = server.revision();
    }

    /// Takes in one change and checks it. `actor` is at work; `by` says whether this is what it did.
    fn take_in(&mut self, changed: &Changed, actor: Actor, by: Option<Actor>) -> Verdict {
        self.revision = changed.revision;
        // A pod that finds no node for days says so every few minutes.
        let is_chatter =
            changed.plural == "leases" || changed.plural == "events" && actor == Actor::Nodes;
        self.changes += u64::from(!is_chatter);
        self.counts.changes += 1;
        let most = self.changes_max;
        if self.changes > most {
            return Err(format!("there were more than {most} changes, and no end"));
        }
        if !matches!(&*changed.plural, "leases" | "events") {
            let key = Key::new(&changed.namespace, &changed.name);
            let revision = (!changed.is_deleted).then_some(changed.revision);
            self.views.changed(&changed.plural, key, revision, by);
        }
        let change = self.mirror(changed, by)?;
        self.check_change(change.as_ref(), by)
    }

    /// The change, if it is one that anybody checks: leases and events are not.
    fn mirror(&mut self, changed: &Changed, by: Option<Actor>) -> Result<Option<Change>, String> {
        let is_lease = changed.plural == "leases";
        match &*changed.plural {
            "events" => {
                self.events.note(changed);
                return Ok(None);
            }
            "leases" => self.note_lease(changed),
            _ => self.history.note_observed(changed),
        }
        let raw = Raw {
            group: &changed.group,
            plural: &changed.plural,
            namespace: &changed.namespace,
            name: &changed.name,
            is_deleted: changed.is_deleted,
            body: &changed.body,
        };
        let change = self.world.apply(&raw, by, is_lease)?;
        Ok((!is_lease).then_some(change))
    }

    /// Who stopped to lead stopped to listen, and took everyone's listeners with it.
    fn follow(&self, leader: Option<&str>) {
        let mut identities = self.identities.iter();
        let found = identities.find(|(_, identity)| Some(identity.as_str()) == leader);
        if let Some((manager, _)) = found
            && let Some(informers) = self.informers.get(manager)
        {
            self.views.follow(*manager, informers);
        }
    }

    fn note_lease(&mut self, changed: &Changed) {
        if (changed.namespace.as_str(), changed.name.as_str()) != LEASE {
            return;
        }
        let lease: serde_json::Value = serde_json::from_slice(&changed.body).unwrap_or_default();
        let holder = lease["spec"]["holderIdentity"].as_str();
        let leader = holder
            .filter(|holder| !holder.is_empty() && !changed.is_deleted)
            .map(str::to_owned);
        if self.leader != leader {
            self.events.writers += 1;
            self.follow(leader.as_deref());
            self.world.run.led_since = self.world.now();
        }
        self.leader = leader;
    }
}

#[cfg(test)]
mod tests {
    use controllers::oracle::Raw;

    use super::*;
    use crate::cluster::Cluster;

    fn cluster() -> Cluster {
        Cluster::new(1, false, |rng| FaultInjector::idle(rng.fork()))
    }

    fn pod(name: &str) -> Vec<u8> {
        let metadata = serde_json::json!({"name": name, "namespace": "default", "uid": name});
        let pod = serde_json::json!({"metadata": metadata, "spec": {}, "status": {}});
        pod.to_string().into_bytes()
    }

    /// Tells of a pod that this controller has created.
    fn created_by(controller: &'static str, name: &str) -> Verdict {
        let cluster = cluster();
        let mut inner = cluster.oracles().lock();
        let by = Some(Actor::Manager(0, controller));
        let raw = Raw {
            group: "",
            plural: &"pods".into(),
            namespace: "default",
            name,
            is_deleted: false,
            body: &pod(name),
        };
        let change = inner.world.apply(&raw, by, false)?;
        inner.check_change(Some(&change), by)
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_of_a_controller_that_no_oracle_knows_is_an_error() {
        assert_eq!(created_by("replicaset-controller", "a"), Ok(()));
        let problem = created_by("cloud-controller", "a").unwrap_err();
        let expected = r#""cloud-controller" wrote pods Some(default/a), and no oracle knows it"#;
        assert_eq!(problem, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_the_controller_has_no_reason_for_is_an_error() {
        let problem = created_by("ttl-controller", "a").unwrap_err();
        assert_eq!(
            problem,
            "ttl-controller has no business with pods default/a"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_that_no_oracle_knows_is_an_error() {
        let cluster = cluster();
        let inner = cluster.oracles().lock();
        let unknown = inner.check_remembered("nobody", "default/a").unwrap_err();
        assert_eq!(unknown, "no oracle knows the queue or controller nobody");
        let gone = inner.check_remembered("replicaset-controller", "default/a");
        let gone = gone.unwrap_err();
        assert_eq!(
            gone,
            "replicaset-controller remembers default/a, which does not exist"
        );
        let vague = inner
            .check_remembered("ttlcontroller", "node-0")
            .unwrap_err();
        assert_eq!(
            vague,
            "ttlcontroller remembers node-0, and its oracle does not know what that is"
        );
    }
}
