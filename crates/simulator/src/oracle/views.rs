//! How far the managers' views are behind the server: which changes of which kind have not reached which cache.
//!
//! A controller cannot be blamed for what it did not see. Whether it saw something is measured here, by kind and by
//! moment, so that a check is suspended only where and while a view really lagged.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::kinds::Lease;
use api::{Clock, Key, MicroTime, Resource};
use controllers::oracle::{Actor, Lag, REACTION, SLOW_REACTION, Sight, View, World};
use manager::run::select;
use parking_lot::Mutex;
use runtime::Informers;
use runtime::informer::{MetadataChange, MetadataInformer};

use crate::cluster::options;
use crate::faults::FaultInjector;

/// Clones share it: caches tell it what has reached them.
#[derive(Clone)]
pub(super) struct Views(Arc<Mutex<State>>);

struct State {
    clock: Clock,
    injector: FaultInjector,
    managers: BTreeMap<usize, Caches>,
    /// What changed lately, by the plural of its kind.
    changed: BTreeMap<String, BTreeMap<Key, Vec<Changed>>>,
}

/// What one manager has been told, by the plural of the kind.
type Caches = BTreeMap<Cow<'static, str>, Cache>;

struct Cache {
    informer: Arc<dyn MetadataInformer>,
    pending: BTreeMap<Key, Pending>,
    /// When a change of an object arrived that was not of that very moment.
    late: BTreeMap<Key, MicroTime>,
    /// The same of any object, and of any that is gone.
    late_at: Option<MicroTime>,
    late_deletion_at: Option<MicroTime>,
}

/// A change of an object.
struct Changed {
    at: MicroTime,
    by: Option<Actor>,
    is_deleted: bool,
}

/// A change that has not arrived.
struct Pending {
    at: MicroTime,
    /// None for a deletion.
    revision: Option<u64>,
}

impl Views {
    pub(super) fn new(clock: Clock, injector: FaultInjector) -> Views {
        Views(Arc::new(Mutex::new(State {
            clock,
            injector,
            managers: BTreeMap::new(),
            changed: BTreeMap::new(),
        })))
    }

    /// A manager begins with empty caches: everything that there is has yet to reach it.
    pub(super) fn expect(&self, manager: usize, informers: &Informers, world: &World) {
        let mut caches = Caches::new();
        for view in cached() {
            let cache = Cache {
                informer: view.informer(informers),
                pending: BTreeMap::new(),
                late: BTreeMap::new(),
                late_at: None,
                late_deletion_at: None,
            };
            caches.insert(view.resource.plural.clone(), cache);
        }
        for (plural, meta) in world.all_metadata() {
            if let Some(cache) = caches.get_mut(plural) {
                let pending = Pending {
                    at: MicroTime::default(),
                    revision: Some(meta.resource_version),
                };
                cache.pending.insert(meta.key(), pending);
            }
        }
        self.0.lock().managers.insert(manager, caches);
        self.follow(manager, informers);
    }

    pub(super) fn forget_managers(&self) {
        self.0.lock().managers.clear();
    }

    /// Listens to what reaches the caches of a manager. Once more when it leads again: who stops to lead stops to listen.
    pub(super) fn follow(&self, manager: usize, informers: &Informers) {
        for view in cached() {
            let (views, plural) = (self.clone(), view.resource.plural.clone());
            let informer = view.informer(informers);
            informer.on_metadata_change(Box::new(move |change| match change {
                MetadataChange::Added(new) | MetadataChange::Updated { new, .. } => {
                    views.arrived(manager, &plural, &new.key(), Some(new.resource_version));
                }
                MetadataChange::Deleted(last) => {
                    views.arrived(manager, &plural, &last.key(), None);
                }
                MetadataChange::Resynced(_) => {}
            }));
        }
    }

    /// The server has changed an object.
    pub(super) fn changed(&self, plural: &str, key: Key, revision: Option<u64>, by: Option<Actor>) {
        let mut state = self.0.lock();
        let at = state.clock.now();
        let changed = state.changed.entry(plural.to_owned()).or_default();
        changed.retain(|_, changes| {
            changes.retain(|before| at.since(before.at) <= SLOW_REACTION);
            !changes.is_empty()
        });
        let is_deleted = revision.is_none();
        let changes = changed.entry(key.clone()).or_default();
        changes.push(Changed { at, by, is_deleted });
        for caches in state.managers.values_mut() {
            if let Some(cache) = caches.get_mut(plural) {
                // The oldest change that is missing says how old the view is.
                let pending = cache.pending.entry(key.clone());
                let pending = pending.or_insert(Pending { at, revision });
                pending.revision = revision;
            }
        }
    }

    /// The server has lost changes, and everyone lists anew: nobody can say what is on its way.
    pub(super) fn forget_lost(&self) {
        let mut state = self.0.lock();
        let now = state.clock.now();
        state.changed.clear();
        for cache in state.managers.values_mut().flat_map(Caches::values_mut) {
            cache.pending.clear();
            cache.late_at = Some(now);
            cache.late_deletion_at = Some(now);
        }
    }

    fn arrived(&self, manager: usize, plural: &str, key: &Key, seen: Option<u64>) {
        let mut state = self.0.lock();
        let now = state.clock.now();
        let caches = state.managers.get_mut(&manager);
        let Some(cache) = caches.and_then(|caches| caches.get_mut(plural)) else {
            return;
        };
        let is_met = cache
            .pending
            .get(key)
            .is_some_and(|it| match (it.revision, seen) {
                (Some(changed), Some(seen)) => seen >= changed,
                (None, None) => true,
                _ => false,
            });
        let met = cache.pending.get(key).filter(|_| is_met);
        // What was there before the manager began is no news: it does nothing before it has seen all of it.
        let is_late = |met: &Pending| met.at < now && met.at > MicroTime::default();
        if met.is_some_and(is_late) {
            cache.late.retain(|_, at| now.since(*at) <= SLOW_REACTION);
            cache.late.insert(key.clone(), now);
            cache.late_at = Some(now);
            if seen.is_none() {
                cache.late_deletion_at = Some(now);
            }
        }
        if is_met {
            cache.pending.remove(key);
        }
    }
}

impl Lag for Views {
    fn sight(&self, writer: Actor, plural: &str, object: &Key) -> Sight {
        let mut state = self.0.lock();
        let Some(look) = state.look(writer, plural) else {
            return Sight::Seen;
        };
        let pending = look.cache.pending.get(object);
        let is_pending = pending.is_some_and(|pending| pending.at < look.now);
        if is_pending || look.is_recent(look.cache.late.get(object).copied()) {
            return Sight::Unseen;
        }
        let changed = look.changed.and_then(|changed| changed.get(object));
        let mut changed = changed.into_iter().flatten();
        match changed.any(|changed| look.is_news(changed)) {
            true => Sight::News,
            false => Sight::Seen,
        }
    }

    fn sight_of_deletions(&self, writer: Actor, plural: &str) -> Sight {
        let mut state = self.0.lock();
        let Some(look) = state.look(writer, plural) else {
            return Sight::Seen;
        };
        let is_missing = |it: &Pending| it.revision.is_none() && it.at < look.now;
        if look.cache.pending.values().any(is_missing)
            || look.is_recent(look.cache.late_deletion_at)
        {
            return Sight::Unseen;
        }
        let mut changed = look.all_changed();
        match changed.any(|changed| changed.is_deleted && look.is_news(changed)) {
            true => Sight::News,
            false => Sight::Seen,
        }
    }

    fn is_behind(&self, writer: Actor, plural: &str) -> bool {
        let mut state = self.0.lock();
        let Some(look) = state.look(writer, plural) else {
            return false;
        };
        let mut pending = look.cache.pending.values();
        let mut changed = look.all_changed();
        pending.any(|pending| pending.at < look.now)
            || look.is_recent(look.cache.late_at)
            || look.is_slow && changed.any(|changed| look.is_news(changed))
    }

    fn was_behind_since(&self, writer: Actor, plural: &str, since: MicroTime) -> bool {
        let mut state = self.0.lock();
        let Some(look) = state.look(writer, plural) else {
            return false;
        };
        let mut pending = look.cache.pending.values();
        look.cache.late_at.is_some_and(|at| at >= since)
            || pending.any(|pending| pending.at < look.now)
    }
}

/// What one controller of one manager sees of one kind.
struct Look<'a> {
    now: MicroTime,
    controller: &'static str,
    /// A request of the controller took its time: what it writes now was decided a while ago.
    is_slow: bool,
    cache: &'a Cache,
    changed: Option<&'a BTreeMap<Key, Vec<Changed>>>,
}

impl State {
    fn look(&mut self, writer: Actor, plural: &str) -> Option<Look<'_>> {
        let Actor::Manager(manager, controller) = writer else {
            return None;
        };
        let cache = self.managers.get_mut(&manager)?.get_mut(plural)?;
        let Cache {
            informer, pending, ..
        } = cache;
        // What came and went while nobody watched never arrives.
        pending.retain(|key, it| {
            it.revision.is_some() || informer.find_metadata(&key.namespace, &key.name).is_some()
        });
        Some(Look {
            now: self.clock.now(),
            controller,
            is_slow: self.injector.has_slowed(manager, controller),
            cache,
            changed: self.changed.get(plural),
        })
    }
}

impl Look<'_> {
    fn all_changed(&self) -> impl Iterator<Item = &Changed> {
        let objects = self.changed.into_iter().flat_map(BTreeMap::values);
        objects.flatten()
    }

    /// Did something arrive after the writer may have decided?
    fn is_recent(&self, at: Option<MicroTime>) -> bool {
        let window = if self.is_slow {
            SLOW_REACTION
        } else {
            REACTION
        };
        at.is_some_and(|at| self.now.since(at) <= window)
    }

    /// Did somebody else change it at the same time as the writer decided?
    fn is_news(&self, changed: &Changed) -> bool {
        let moment = if self.is_slow {
            SLOW_REACTION
        } else {
            Duration::ZERO
        };
        let is_own = matches!(changed.by, Some(Actor::Manager(_, name)) if name == self.controller);
        self.now.since(changed.at) <= moment && !is_own
    }
}

/// What the controllers that run cache, but for leases, which are renewed all the time. The cache of one that does not run
/// stays empty, whatever there is.
pub(crate) fn cached() -> impl Iterator<Item = &'static View> {
    let options = options(false);
    let running = select(&options.config.generic.controllers, &options.gates);
    let gates = options.gates.for_controllers();
    let views = running.into_iter().flat_map(move |it| it.cached(gates));
    views.filter(|view| view.resource != Lease::TYPE)
}

#[cfg(test)]
mod tests {
    use std::any::TypeId;
    use std::collections::BTreeSet;

    use super::*;

    /// With two of one kind nobody could tell which of them a controller has looked at.
    #[test]
    fn each_kind_is_cached_in_one_view() {
        let mut views: BTreeMap<&str, BTreeSet<TypeId>> = BTreeMap::new();
        for view in cached() {
            let of_kind = views.entry(&view.resource.plural).or_default();
            of_kind.insert(view.type_id());
        }
        let twice = views.iter().find(|(_, views)| views.len() > 1);
        assert_eq!(twice, None);
        assert!(views.contains_key("pods"));
    }
}
