//! Watches of the kinds that quotas name, and that come and go with them and with their definitions.
//!
//! Kinds that other controllers cache are shared with them; for the rest there is a stream of metadata, which the garbage
//! collector reads, too, where it runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::kinds::{DeviceClass, ResourceClaim};
use api::quota::{self, Counted, DeviceClasses, Evaluator, IGNORED};
use api::{Istr, Resource, ResourceType};
use runtime::Informers;
use runtime::informer::{MetadataInformer, MetadataStreams};

use crate::discovery::{Known, Monitor};

/// Core kinds that the controller caches in any case.
const CACHED: [&str; 3] = ["pods", "services", "persistentvolumeclaims"];

pub(super) struct Monitors {
    informers: Arc<Informers>,
    streams: MetadataStreams,
    served: Known,
    /// What can be counted, by group and plural.
    countable: BTreeMap<(String, String), ResourceType>,
    open: BTreeMap<ResourceType, Monitor>,
    /// Somebody names devices: then their classes matter.
    reads_devices: bool,
}

/// A kind that is watched.
pub(super) struct Opened {
    pub(super) resource: ResourceType,
    pub(super) informer: Arc<dyn MetadataInformer>,
    /// Nobody here listens to it yet.
    pub(super) is_new: bool,
}

/// Kinds that were not served before.
pub(super) struct New(BTreeSet<(String, String)>);

impl New {
    pub(super) fn contains(&self, (group, plural): (&str, &str)) -> bool {
        self.0.contains(&(group.to_owned(), plural.to_owned()))
    }
}

impl Monitors {
    pub(super) fn new(informers: Arc<Informers>, streams: MetadataStreams) -> Monitors {
        Monitors {
            informers,
            streams,
            served: Known::default(),
            countable: BTreeMap::new(),
            open: BTreeMap::new(),
            reads_devices: false,
        }
    }

    pub(super) fn served(&self) -> Known {
        self.served.clone()
    }

    /// Takes in what is served now; gives the kinds that were not before.
    pub(super) fn update(&mut self, known: Known) -> New {
        let mut countable: BTreeMap<(String, String), ResourceType> = known
            .found
            .preferred(&["create", "list", "watch", "delete"])
            .map(|served| &served.resource)
            .filter(|resource| resource.namespaced)
            .filter(|resource| !IGNORED.contains(&(&*resource.group, &*resource.plural)))
            .map(|resource| (group_resource(resource), resource.clone()))
            .collect();
        // Groups that did not answer are unknown, not gone.
        for (name, resource) in &self.countable {
            if known.found.is_unknown(resource) {
                countable
                    .entry(name.clone())
                    .or_insert_with(|| resource.clone());
            }
        }
        let new = countable
            .keys()
            .filter(|name| !self.countable.contains_key(*name));
        let new = New(new.cloned().collect());
        self.countable = countable;
        self.served = known;
        new
    }

    /// Closes what no quota names any more, or nobody serves.
    pub(super) fn keep<'a>(&mut self, named: impl Iterator<Item = &'a Istr>) {
        let wanted: BTreeSet<ResourceType> = named.filter_map(|name| self.kind_of(name)).collect();
        self.open
            .retain(|resource, monitor| monitor.is_shared || wanted.contains(resource));
    }

    /// Can anybody say how much of this is used?
    pub(super) fn can_count(&self, name: &str) -> bool {
        let core = CACHED.iter().map(|plural| Evaluator::of("", plural));
        let devices = DeviceClasses::default();
        core.into_iter()
            .any(|evaluator| evaluator.tracks(name, &devices))
            || self.kind_of(name).is_some()
    }

    /// The informers of the kinds that these names stand for, beside those that are cached in any case. Whoever calls
    /// listens to those that are new, once nobody holds the lock any more: a listener is told of all objects at once.
    pub(super) fn open<'a>(&mut self, named: impl Iterator<Item = &'a Istr>) -> Vec<Opened> {
        let wanted: BTreeSet<ResourceType> = named.filter_map(|name| self.kind_of(name)).collect();
        let mut opened = Vec::new();
        for resource in wanted {
            let known = self.open.get(&resource);
            let (informer, is_new) = match known.map(|monitor| monitor.informer.clone()) {
                Some(informer) => (informer, false),
                None => {
                    let monitor = self.start(&resource);
                    let informer = monitor.informer.clone();
                    self.open.insert(resource.clone(), monitor);
                    (informer, true)
                }
            };
            opened.push(Opened {
                resource,
                informer,
                is_new,
            });
        }
        opened
    }

    fn start(&mut self, resource: &ResourceType) -> Monitor {
        let evaluator = Evaluator::of(&resource.group, &resource.plural);
        if evaluator.counted() == Counted::Devices && *resource == ResourceClaim::TYPE {
            self.reads_devices = true;
            self.informers.of::<DeviceClass>();
            self.informers.of::<ResourceClaim>();
        }
        Monitor::of(&self.informers, resource, || self.streams.of(resource))
    }

    /// What device classes stand for; nothing before somebody names devices.
    pub(super) fn classes(&self, extended: bool) -> DeviceClasses {
        if !self.reads_devices || !extended {
            return DeviceClasses::default();
        }
        let classes = self.informers.store::<DeviceClass>().list();
        DeviceClasses::new(classes.iter().map(|class| &**class))
    }

    /// The kind that has to be watched for this name.
    fn kind_of(&self, name: &str) -> Option<ResourceType> {
        let (group, plural) = match quota::counted_kind(name) {
            Some(kind) => kind,
            None if quota::may_be_devices(name) => {
                (&*ResourceClaim::TYPE.group, &*ResourceClaim::TYPE.plural)
            }
            None => return None,
        };
        if group.is_empty() && CACHED.contains(&plural) {
            return None;
        }
        self.countable
            .get(&(group.to_owned(), plural.to_owned()))
            .cloned()
    }
}

fn group_resource(resource: &ResourceType) -> (String, String) {
    (resource.group.to_string(), resource.plural.to_string())
}
