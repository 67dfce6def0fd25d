//! What must hold when nothing changes any more.

use api::decision::Decided;
use api::kinds::Pod;
use api::{Key, Meta, ResourceType};
use controllers::Descriptor;
use controllers::oracle::{Oracle, Sight, Verdict, View};
use runtime::{Decisions, Informers, Metrics};

use super::{Inner, Oracles, views};

impl Oracles {
    /// Is every object as it should be?
    pub(crate) fn check_converged(&self) -> Verdict {
        let mut inner = self.lock();
        inner.checks += 1;
        inner.world.run.acting = None;
        inner.ask_all(|oracle, inner| oracle.at_rest(&inner.world))?;
        inner
            .events
            .check(inner.world.now().since(inner.began_at))?;
        inner.check_leftovers()
    }

    /// Is done what nobody has to wait for, although the cluster may never be quiet?
    pub(crate) fn check_in_time(&self) -> Verdict {
        let mut inner = self.lock();
        inner.checks += 1;
        inner.world.run.acting = None;
        inner.ask_all(|oracle, inner| oracle.in_time(&inner.world))
    }

    /// Is what the managers say true, now that they have nothing more to do? Holds even if a user has paused, suspended or
    /// broken something. `is_busy` if they never had nothing to do, so that nobody can be held to it.
    pub(crate) fn check_even_if_paused(&self, is_busy: bool) -> Verdict {
        let mut inner = self.lock();
        inner.checks += 1;
        inner.world.run.acting = None;
        let name = "what is reported is true before users put everything right";
        inner.world.check(name, Sight::unless(is_busy), || {
            inner.ask_all(|oracle, inner| oracle.even_if_paused(&inner.world))
        })
    }

    /// Does a key fail that may, as it does upstream? Then it waits for a long time once the reason is gone.
    pub(crate) fn has_rightful_failures(&self, metrics: &Metrics) -> bool {
        let inner = self.lock();
        let mut pending = metrics.pending_work().look().into_iter();
        pending.any(|(name, pending)| {
            let oracle = inner.oracle_of(&name);
            let mut failing = pending.failing.iter();
            oracle.is_ok_and(|oracle| failing.any(|key| oracle.may_fail(&inner.world, &parse(key))))
        })
    }

    /// Does a controller have a reason to repeat events for ever?
    pub(crate) fn may_complain(&self) -> bool {
        let inner = self.lock();
        let mut oracles = inner.of.values();
        oracles.any(|oracle| oracle.may_complain(&inner.world))
    }

    /// Does a manager's cache hold what the server holds?
    pub(crate) fn check_caches(&self, informers: &Informers) -> Verdict {
        let mut inner = self.lock();
        inner.checks += 1;
        // Leases, which are not among them, are renewed all the time: at any moment one may be on its way to the cache.
        let views: Vec<View> = views::cached().cloned().collect();
        inner.world.check_caches(&views, informers)
    }

    /// Is every decision about an object of a kind that its controller declares, and by its uid?
    pub(crate) fn check_decisions(&self, decisions: &Decisions) -> Verdict {
        self.lock().checks += 1;
        for Decided {
            controller, object, ..
        } in decisions.about(|_, _| true)
        {
            let declared = controllers::find(&controller).map(|found| found.decides_about);
            let is_kind =
                |kind: &ResourceType| kind.kind == object.kind && kind.group == object.group;
            let is_declared =
                declared.is_some_and(|kinds| kinds.is_empty() || kinds.iter().any(is_kind));
            if !is_declared {
                return Err(format!(
                    "{controller} does not declare that it decides about {object}"
                ));
            }
            if object.uid.is_empty() {
                return Err(format!(
                    "{controller} decides about {object} without its uid"
                ));
            }
        }
        Ok(())
    }

    /// Has a manager finished everything? One that stands by has not begun.
    pub(crate) fn check_pending_work(&self, identity: Option<&str>, metrics: &Metrics) -> Verdict {
        let mut inner = self.lock();
        if identity.is_some() && identity != inner.leader.as_deref() {
            return Ok(());
        }
        inner.checks += 1;
        for (name, pending) in metrics.pending_work().look() {
            if let Some(key) = pending.busy.first() {
                return Err(format!("{name}: {key} is stuck in the queue"));
            }
            for key in &pending.failing {
                inner.check_failing(&name, key)?;
            }
            if let Some(key) = pending.expecting.first() {
                return Err(format!("{name}: {key} expects what never comes"));
            }
            for key in &pending.held {
                inner.check_remembered(&name, key)?;
            }
        }
        Ok(())
    }
}

impl Inner {
    fn ask_all(&self, ask: impl Fn(&dyn Oracle, &Inner) -> Verdict) -> Verdict {
        self.of.values().try_for_each(|oracle| ask(&**oracle, self))
    }

    /// The oracle of a controller, by the name of the controller or of one of its queues.
    fn oracle_of(&self, name: &str) -> Result<&dyn Oracle, String> {
        let is_meant = |it: &&Descriptor| it.name == name || it.queues.contains(&name);
        let found = controllers::built().find(is_meant);
        let oracle = found.and_then(|found| self.of.get(found.name));
        let oracle = oracle.map(|oracle| &**oracle);
        oracle.ok_or_else(|| format!("no oracle knows the queue or controller {name}"))
    }

    fn check_failing(&self, name: &str, key: &str) -> Verdict {
        match self.oracle_of(name)?.may_fail(&self.world, &parse(key)) {
            true => Ok(()),
            false => Err(format!("{name}: {key} fails, although all has converged")),
        }
    }

    pub(super) fn check_remembered(&self, name: &str, key: &str) -> Verdict {
        match self.oracle_of(name)?.exists(&self.world, &parse(key)) {
            Some(true) => Ok(()),
            Some(false) => Err(format!("{name} remembers {key}, which does not exist")),
            None => Err(format!(
                "{name} remembers {key}, and its oracle does not know what that is"
            )),
        }
    }

    /// Nothing is half gone, and nothing is in a namespace that is not there.
    fn check_leftovers(&self) -> Verdict {
        let namespaces = self.world.store::<api::kinds::Namespace>();
        for (plural, meta) in self.world.all_metadata() {
            if meta.is_terminating() && !self.may_stay(plural, meta) {
                return Err(format!("{plural} {} is still being deleted", meta.key()));
            }
        }
        for (plural, meta) in self.world.all_metadata() {
            let namespace = &meta.namespace;
            if !namespace.is_empty() && namespaces.find("", namespace).is_none() {
                return Err(format!("{plural} {} is in no namespace", meta.key()));
            }
        }
        Ok(())
    }

    /// May something stay half gone? Volumes are the provisioner's, and one whose claim came back with a restored server
    /// is stuck. A claim waits for the last pod that uses it: one that was taken from its set runs on.
    fn may_stay(&self, plural: &str, meta: &Meta) -> bool {
        let by_nodes = match plural {
            "persistentvolumes" => true,
            "persistentvolumeclaims" => {
                let pods = self.world.store::<Pod>().in_namespace(&meta.namespace);
                pods.iter().any(|pod| uses(pod, meta))
            }
            _ => false,
        };
        let mut oracles = self.of.values();
        by_nodes || oracles.any(|oracle| oracle.may_stay(&self.world, plural, meta))
    }
}

/// Does the pod mount this claim?
fn uses(pod: &Pod, claim: &Meta) -> bool {
    let mut volumes = pod.volumes().iter();
    volumes.any(|volume| *volume.claim_name == *claim.name)
}

/// A key in words: `namespace/name`, or a name alone.
fn parse(key: &str) -> Key {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    Key::new(namespace, name)
}
