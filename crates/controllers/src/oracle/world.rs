//! What is really in the API server, whatever the managers' caches say, and what may be known of the run.

use std::any::{Any, TypeId, type_name};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::collections::HashMap;
use api::kinds::Metadata;
use api::{Clock, Gates, Key, Meta, MicroTime, Resource, ResourceType, Time, Uid};
use runtime::informer::MetadataInformer;
use runtime::triggers::by_controller;
use runtime::{IndexValue, Informers, Store};

use super::change::{Actor, Change, Viewed};
use super::history::RELISTING;
use super::{LAG, REACTION, SLOW_REACTION, Verdict};
use crate::Config;

/// After this long every cache has an object, whatever stands still: longer than the longest fault.
const SEEN_BY_ALL_SECONDS: i64 = 120;

/// Where nothing stands still an object is seen at once; times of objects are whole seconds.
const SEEN_SOON_SECONDS: i64 = 2;

/// A kind, and how its objects are read.
#[derive(Clone)]
pub struct View {
    pub resource: ResourceType,
    type_id: fn() -> TypeId,
    mirror: fn() -> Box<dyn Mirror>,
    informer: fn(&Informers) -> Arc<dyn MetadataInformer>,
}

impl View {
    pub const fn of<K: Resource>() -> View {
        View {
            resource: K::TYPE,
            type_id: TypeId::of::<K>,
            mirror: || Box::new(Held::<K>::new()),
            informer: |informers| informers.of::<K>(),
        }
    }

    /// Tells two views of one kind apart.
    pub fn type_id(&self) -> TypeId {
        (self.type_id)()
    }

    /// A manager's informer of this kind.
    pub fn informer(&self, informers: &Informers) -> Arc<dyn MetadataInformer> {
        (self.informer)(informers)
    }
}

/// What an oracle may know of the run.
pub struct Run {
    pub clock: Clock,
    /// How far the clock of a manager may be ahead: it acts by its own.
    pub skew: Duration,
    pub gates: Gates,
    pub config: Config,
    /// The PEM that every namespace gets.
    pub root_ca: &'static str,
    /// Something may keep caches behind the server for a while, somewhere in the run: deadlines get that much longer.
    pub has_lag: bool,
    /// How far caches are behind at this moment.
    pub lag: Box<dyn Lag + Send>,
    /// Who wrote what is being checked.
    pub acting: Option<Actor>,
    /// Requests may take seconds.
    pub has_slow_requests: bool,
    /// Several managers contend for the lease.
    pub is_contended: bool,
    /// Since when the manager that leads has done so: it remembers nothing from before.
    pub led_since: MicroTime,
    /// When the server last lost changes.
    pub lost_changes_at: Option<MicroTime>,
    /// How many objects an owner may have created without being told that it did.
    pub unacknowledged: Box<dyn Fn(&Uid) -> i32 + Send>,
}

/// How often a check was asked, and how often there was a reason not to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub evaluated: u64,
    pub suspended: u64,
}

/// Whether a writer has seen an object as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sight {
    Seen,
    /// Somebody else changed it in this very moment, or while a request of the writer took its time: of the two, either may
    /// have come first.
    News,
    /// What has changed did not reach the writer's cache, or did so after it may have decided.
    Unseen,
}

impl Sight {
    /// Unseen if there is a reason not to hold the writer to it.
    pub fn unless(excused: bool) -> Sight {
        if excused { Sight::Unseen } else { Sight::Seen }
    }
}

/// Knows how far the caches of managers are behind the server.
pub trait Lag {
    fn sight(&self, writer: Actor, plural: &str, object: &Key) -> Sight;
    /// Has the writer seen what is gone?
    fn sight_of_deletions(&self, writer: Actor, plural: &str) -> Sight;
    /// May this writer have acted on a view of this kind that lacked anything?
    fn is_behind(&self, writer: Actor, plural: &str) -> bool;
    /// Has its view of this kind lacked anything since then?
    fn was_behind_since(&self, writer: Actor, plural: &str, since: MicroTime) -> bool;
}

/// A change as the server tells of it.
pub struct Raw<'a> {
    pub group: &'a str,
    pub plural: &'a Cow<'static, str>,
    pub namespace: &'a str,
    pub name: &'a str,
    pub is_deleted: bool,
    /// The object; for a deletion its last state.
    pub body: &'a [u8],
}

/// Every object there is: in each view that somebody has of its kind, and as metadata.
pub struct World {
    pub run: Run,
    views: Vec<View>,
    mirrors: Vec<Box<dyn Mirror>>,
    by_type: HashMap<TypeId, usize>,
    by_plural: HashMap<Cow<'static, str>, Vec<usize>>,
    metadata: BTreeMap<Uid, (Cow<'static, str>, Meta)>,
    tallies: RefCell<BTreeMap<&'static str, Tally>>,
}

impl World {
    pub fn new(run: Run, views: impl IntoIterator<Item = View>) -> World {
        let mut world = World {
            run,
            views: Vec::new(),
            mirrors: Vec::new(),
            by_type: HashMap::default(),
            by_plural: HashMap::default(),
            metadata: BTreeMap::new(),
            tallies: RefCell::default(),
        };
        for view in views {
            let (type_id, number) = (view.type_id(), world.views.len());
            if world.by_type.contains_key(&type_id) {
                continue;
            }
            world.by_type.insert(type_id, number);
            let plural = view.resource.plural.clone();
            world.by_plural.entry(plural).or_default().push(number);
            world.mirrors.push((view.mirror)());
            world.views.push(view);
        }
        world
    }

    /// Forgets every object, but not the run.
    pub fn clear(&mut self) {
        self.mirrors = self.views.iter().map(|view| (view.mirror)()).collect();
        self.metadata.clear();
    }

    /// Takes a change in. Chatter, which goes on for ever, is not kept as metadata.
    pub fn apply(
        &mut self,
        raw: &Raw<'_>,
        by: Option<Actor>,
        is_chatter: bool,
    ) -> Result<Change, String> {
        let mut change = Change {
            plural: raw.plural.clone(),
            by,
            before: Vec::new(),
            after: Vec::new(),
        };
        for number in self.by_plural.get(raw.plural).into_iter().flatten() {
            if self.views[*number].resource.group == raw.group {
                self.mirrors[*number].apply(raw, &mut change)?;
            }
        }
        if is_chatter {
            return Ok(change);
        }
        if change.before.is_empty() && change.after.is_empty() {
            self.apply_metadata(raw, &mut change)?;
        }
        match (change.meta_before(), change.meta_after()) {
            (_, Some(meta)) => {
                let held = (raw.plural.clone(), meta.clone());
                self.metadata.insert(meta.uid.clone(), held);
            }
            (Some(meta), None) => {
                self.metadata.remove(&meta.uid);
            }
            (None, None) => {}
        }
        Ok(change)
    }

    /// A kind that nobody has a view of.
    fn apply_metadata(&self, raw: &Raw<'_>, change: &mut Change) -> Result<(), String> {
        let object = decode::<Metadata>(raw)?;
        let held = self.metadata.get(&object.metadata.uid).map(|(_, meta)| {
            Arc::new(Metadata {
                metadata: meta.clone(),
            })
        });
        match raw.is_deleted {
            true => change.before.push(held.unwrap_or(Arc::new(object))),
            false => {
                change.before.extend(held.map(|held| held as _));
                change.after.push(Arc::new(object));
            }
        }
        Ok(())
    }

    /// All objects of a kind.
    ///
    /// # Panics
    ///
    /// If no controller caches the kind and no oracle has asked for it: then nothing is known of it.
    pub fn store<K: Resource>(&self) -> &Store<K> {
        let number = self.by_type.get(&TypeId::of::<K>());
        let mirror = number.and_then(|number| self.mirrors[*number].as_any().downcast_ref());
        let Some(held) = mirror else {
            panic!("nobody has asked for a view {}", type_name::<K>());
        };
        let Held(store) = held;
        store
    }

    /// The objects of a kind that this owner controls.
    pub fn owned_by<K: Resource>(&self, owner: &Uid) -> Vec<Arc<K>> {
        let value = IndexValue::Uid(owner.clone());
        self.store::<K>().by(&by_controller(), &value)
    }

    /// The metadata of everything but chatter, by the plural of its kind.
    pub fn all_metadata(&self) -> impl Iterator<Item = (&str, &Meta)> + Clone {
        self.metadata
            .values()
            .map(|(plural, meta)| (&**plural, meta))
    }

    pub fn all(&self) -> impl Iterator<Item = &Meta> + Clone {
        self.metadata.values().map(|(_, meta)| meta)
    }

    /// Does a manager's cache of each of these kinds hold what the server holds?
    pub fn check_caches(&self, views: &[View], informers: &Informers) -> Verdict {
        views.iter().try_for_each(|view| {
            let number = self.by_type[&view.type_id()];
            self.mirrors[number].check_cache(informers)
        })
    }

    pub fn now(&self) -> MicroTime {
        self.run.clock.now()
    }

    /// The time on the clock that is furthest ahead: managers act by their own.
    pub fn latest_now(&self) -> MicroTime {
        self.now().plus(self.run.skew)
    }

    /// Is the view that the writer has of this kind so old that it cannot be blamed for what it did not see?
    pub fn may_lag<K: Resource>(&self) -> bool {
        let acting = self.run.acting;
        acting.is_some_and(|actor| self.run.lag.is_behind(actor, &K::TYPE.plural))
    }

    /// Has the view that the writer has of this kind been too old at any time since then?
    pub fn has_lagged_since<K: Resource>(&self, since: MicroTime) -> bool {
        let is_behind = |actor| self.run.lag.was_behind_since(actor, &K::TYPE.plural, since);
        self.run.acting.is_some_and(is_behind)
    }

    /// How much longer than usual something may take that depends on caches.
    pub fn delay(&self) -> Duration {
        match self.run.has_lag {
            true => LAG,
            false => Duration::ZERO,
        }
    }

    /// Has the writer seen these objects as they are, and those of their kind that are gone?
    pub fn sight<K: Resource>(&self, objects: &[Arc<K>]) -> Sight {
        let Some(writer) = self.run.acting else {
            return Sight::Seen;
        };
        let (lag, plural) = (&self.run.lag, &K::TYPE.plural);
        let seen = objects
            .iter()
            .map(|object| lag.sight(writer, plural, &object.meta().key()));
        seen.fold(lag.sight_of_deletions(writer, plural), Sight::max)
    }

    /// Asks a check that has a name, unless the writer could not see what it depends on, and counts both.
    pub fn check(
        &self,
        name: &'static str,
        sight: Sight,
        verdict: impl FnOnce() -> Verdict,
    ) -> Verdict {
        let verdict = match sight {
            Sight::Unseen => None,
            Sight::Seen => Some(verdict()),
            Sight::News => verdict().is_ok().then_some(Ok(())),
        };
        let mut tallies = self.tallies.borrow_mut();
        let tally = tallies.entry(name).or_default();
        match &verdict {
            Some(_) => tally.evaluated += 1,
            None => tally.suspended += 1,
        }
        verdict.unwrap_or(Ok(()))
    }

    /// How often each check that has a name was asked so far.
    pub fn tallies(&self) -> BTreeMap<&'static str, Tally> {
        self.tallies.borrow().clone()
    }

    /// How many objects the owner may have created without being told that it did.
    pub fn unacknowledged(&self, owner: &Uid) -> i32 {
        (self.run.unacknowledged)(owner)
    }

    /// The generation that the leader has surely seen: what was observed by one manager says nothing about what
    /// another has seen.
    pub fn surely_observed(&self, observed: i64) -> i64 {
        if self.run.is_contended { 0 } else { observed }
    }

    /// How long a decision may take from the look at the caches to the write.
    pub fn reaction(&self) -> Duration {
        match self.run.has_slow_requests {
            true => SLOW_REACTION,
            false => REACTION,
        }
    }

    /// Could every controller have seen the object by then? What is created while its owner is being deleted may come too
    /// late for the collector, upstream's as ours.
    pub fn was_seen(&self, meta: &Meta, by: Time) -> bool {
        let delay = match self.run.has_lag {
            true => SEEN_BY_ALL_SECONDS,
            false => SEEN_SOON_SECONDS,
        };
        meta.created_at.unix() + delay <= by.unix()
    }

    /// May somebody still act on what the server has lost?
    pub fn is_forgiven(&self) -> bool {
        let lost_at = self.run.lost_changes_at;
        lost_at.is_some_and(|at| self.now().since(at) < RELISTING)
    }

    /// Is the namespace there, and there to stay?
    pub fn is_namespace_alive(&self, name: &str) -> bool {
        let held = self.store::<api::kinds::Namespace>().find("", name);
        held.is_some_and(|held| !held.metadata.is_terminating())
    }
}

/// The objects of one view.
trait Mirror: Send {
    fn apply(&self, raw: &Raw<'_>, change: &mut Change) -> Result<(), String>;
    fn check_cache(&self, informers: &Informers) -> Verdict;
    fn as_any(&self) -> &dyn Any;
}

struct Held<K>(Store<K>);

impl<K: Resource> Held<K> {
    fn new() -> Held<K> {
        let store = Store::new();
        store.add_index(&by_controller());
        Held(store)
    }
}

impl<K: Resource> Mirror for Held<K> {
    fn apply(&self, raw: &Raw<'_>, change: &mut Change) -> Result<(), String> {
        let before = match raw.is_deleted {
            true => self.0.remove(raw.namespace, raw.name),
            false => {
                let object = Arc::new(decode::<K>(raw)?);
                change.after.push(object.clone());
                self.0.put(object)
            }
        };
        change
            .before
            .extend(before.map(|held| held as Arc<dyn Viewed>));
        Ok(())
    }

    fn check_cache(&self, informers: &Informers) -> Verdict {
        let cache = informers.store::<K>().list();
        let by_uid = |object: Arc<K>| (object.meta().uid.clone(), object);
        let cached: BTreeMap<Uid, Arc<K>> = cache.into_iter().map(by_uid).collect();
        for object in self.0.list() {
            let problem = match cached.get(&object.meta().uid) {
                Some(cached) if **cached == *object => continue,
                Some(_) => "is behind for",
                None => "lacks",
            };
            let key = object.key();
            return Err(format!("the cache of {} {problem} {key}", K::TYPE));
        }
        let (cached, real) = (cached.len(), self.0.len());
        match cached == real {
            true => Ok(()),
            false => Err(format!(
                "the cache of {} holds {cached} objects, the server {real}",
                K::TYPE
            )),
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn decode<K: Resource>(raw: &Raw<'_>) -> Result<K, String> {
    K::decode(raw.body).map_err(|error| format!("what the server holds makes no sense: {error}"))
}
