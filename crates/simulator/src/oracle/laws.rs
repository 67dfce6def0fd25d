//! What must hold after every single write, whoever made it: the laws between controllers.

use std::time::Duration;

use api::Meta;
use bytes::Bytes;
use controllers::garbage_collector::kept_its_word;
use controllers::oracle::{Actor, Change, Verdict};
use http::Method;

use super::{Inner, Place};

/// Deletes whatever is in a namespace, under whatever name.
const NAMESPACES: &str = controllers::namespace::DESCRIPTOR.name;

/// A manager whose lease was lost with the tail goes on until it has failed to renew it for ten seconds, and may be told
/// so late (two tries, each up to two seconds slow).
const RENEWAL: Duration = Duration::from_secs(16);

impl Inner {
    /// A request that must not even be sent.
    pub(super) fn check_request(
        &mut self,
        actor: Actor,
        method: &Method,
        place: &Place,
        body: &Bytes,
    ) -> Verdict {
        let Actor::Manager(number, controller) = actor else {
            return Ok(());
        };
        if matches!(place.plural.as_str(), "leases" | "events") || controller.is_empty() {
            return Ok(());
        }
        self.checks += 1;
        self.check_leads(number, controller, place)?;
        match *method == Method::DELETE && controller != NAMESPACES {
            true => check_preconditions(controller, place, body),
            false => Ok(()),
        }
    }

    /// Only the leader writes.
    fn check_leads(&self, number: usize, controller: &str, place: &Place) -> Verdict {
        let lost_at = self.world.run.lost_changes_at;
        let is_lost = lost_at.is_some_and(|at| self.world.now().since(at) < RENEWAL);
        let leader = self.leader.as_deref();
        match self.identities.get(&number) {
            Some(identity) if leader != Some(identity) && !is_lost => Err(format!(
                "{controller} of {identity} writes to {} although {} holds the lease",
                place.plural,
                leader.unwrap_or("nobody")
            )),
            _ => Ok(()),
        }
    }

    /// Asks the laws and the oracles about a change that `by` made; none for one that nobody checks.
    pub(super) fn check_change(&mut self, change: Option<&Change>, by: Option<Actor>) -> Verdict {
        if let Some(change) = change {
            self.history.observe(&self.world, change);
            for oracle in self.of.values_mut() {
                oracle.observe(&self.world, change);
            }
        }
        let controller = match by {
            Some(Actor::Manager(_, controller)) => Some(controller),
            Some(Actor::Nodes) => None,
            Some(Actor::User) | None => return Ok(()),
        };
        self.checks += 1;
        self.world.run.acting = by;
        let Some(change) = change else {
            return Ok(());
        };
        match controller {
            Some(controller) => self.check_write(controller, change),
            None if self.world.is_forgiven() => Ok(()),
            None => self.ask_others("", change),
        }
    }

    fn check_write(&self, controller: &str, change: &Change) -> Verdict {
        let Some(oracle) = self.of.get(controller) else {
            let (plural, key) = (&change.plural, change.meta().map(Meta::key));
            return Err(format!(
                "{controller:?} wrote {plural} {key:?}, and no oracle knows it"
            ));
        };
        oracle.after_any_write(&self.world, change)?;
        if self.world.is_forgiven() {
            return Ok(());
        }
        self.check_word(change)?;
        self.check_progress(change)?;
        if !oracle.may_adopt_unseen(&self.world, change) {
            self.check_adoption(change)?;
        }
        oracle.after_write(&self.world, change)?;
        self.ask_others(controller, change)
    }

    /// Asks all oracles but that of the controller that wrote.
    fn ask_others(&self, controller: &str, change: &Change) -> Verdict {
        let mut others = self.of.iter().filter(|(name, _)| **name != controller);
        others.try_for_each(|(_, other)| other.after_write_of_another(&self.world, change))
    }

    /// Nothing is gone before the collector has done what was asked for.
    fn check_word(&self, change: &Change) -> Verdict {
        let Some(before) = change
            .meta_before()
            .filter(|_| change.meta_after().is_none())
        else {
            return Ok(());
        };
        let asked_at = before.deleted_at.unwrap_or_default();
        let was_seen = |meta: &&Meta| self.world.was_seen(meta, asked_at);
        kept_its_word(before, self.world.all().filter(was_seen))
    }

    /// Nobody is adopted by the dead.
    fn check_adoption(&self, change: &Change) -> Verdict {
        let (Some(before), Some(after)) = (change.meta_before(), change.meta_after()) else {
            return Ok(());
        };
        let Some(owner) = after.controller().filter(|_| before.controller().is_none()) else {
            return Ok(());
        };
        match self.history.is_long_gone(&self.world, &owner.uid) {
            true => Err(format!(
                "{} was adopted by {} {}, which is being deleted or gone",
                after.key(),
                owner.kind,
                owner.name
            )),
            false => Ok(()),
        }
    }

    /// What a controller says to have seen, it cannot unsee.
    fn check_progress(&self, change: &Change) -> Verdict {
        let (Some(_), Some(after)) = (change.meta_before(), change.meta_after()) else {
            return Ok(());
        };
        match self.history.unobserved(&after.uid) {
            Some((was, is)) => Err(format!(
                "{}: observedGeneration went from {was} back to {is}",
                after.key()
            )),
            None => Ok(()),
        }
    }
}

/// Who deletes by name says whom they mean.
fn check_preconditions(controller: &str, place: &Place, body: &Bytes) -> Verdict {
    let Some(name) = &place.name else {
        return Ok(());
    };
    let options: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let held = &options["preconditions"];
    match held["uid"].is_null() && held["resourceVersion"].is_null() {
        true => Err(format!(
            "{controller} deletes {} {}/{name} by its name alone: another one may have it by now",
            place.plural, place.namespace
        )),
        false => Ok(()),
    }
}
