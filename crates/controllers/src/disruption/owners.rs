//! How many pods are expected: what the owners of the pods that are there are scaled to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::int_or_string::IntOrStringError;
use api::kinds::{Deployment, Pod, ReplicaSet, ReplicationController, StatefulSet};
use api::selector::SelectorError;
use api::syntax::go_quote;
use api::{OwnerRef, Resource, Uid};
use runtime::{Context, Error, Store};

use crate::scale::{ScaleError, Scales};

/// What the owners of pods are scaled to together, and the pods that have none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    pub pods: i32,
    pub unmanaged: Vec<Arc<str>>,
}

/// Why pods could not be counted, in upstream's words.
#[derive(Debug, thiserror::Error)]
pub enum CountError {
    #[error(transparent)]
    Selector(SelectorError),
    #[error(transparent)]
    Value(IntOrStringError),
    #[error("found no controllers for pod {}", go_quote(.0))]
    NoController(Arc<str>),
    #[error(transparent)]
    Scale(#[from] ScaleError),
}

impl CountError {
    /// The error that another attempt may not meet.
    pub(super) fn retry(&self) -> Option<Error> {
        match self {
            CountError::Scale(ScaleError::Client(_) | ScaleError::Discovery(_)) => {
                Some(Error::Retry(self.to_string()))
            }
            _ => None,
        }
    }

    /// Is the owner of a kind that nobody serves, or not yet?
    pub(super) fn is_unserved(&self) -> bool {
        matches!(self, CountError::Scale(ScaleError::NoMatch { .. }))
    }
}

/// Knows the scale of owners: of the usual kinds from caches, of others from the API server.
pub(super) struct Owners {
    controllers: Arc<Store<ReplicationController>>,
    sets: Arc<Store<ReplicaSet>>,
    deployments: Arc<Store<Deployment>>,
    stateful_sets: Arc<Store<StatefulSet>>,
    scales: Scales,
}

/// Who wants the pods, and how many.
type Scaled = (Uid, i32);

impl Owners {
    pub(super) fn new(context: &Context) -> Owners {
        let informers = &context.informers;
        Owners {
            controllers: informers.store::<ReplicationController>(),
            sets: informers.store::<ReplicaSet>(),
            deployments: informers.store::<Deployment>(),
            stateful_sets: informers.store::<StatefulSet>(),
            scales: Scales::new(&context.client),
        }
    }

    /// Each owner counts once, however many of the pods are its own.
    pub(super) async fn expected(&self, pods: &[Arc<Pod>]) -> Result<Expected, CountError> {
        let mut expected = Expected::default();
        let mut scales: BTreeMap<Uid, i32> = BTreeMap::new();
        let mut asked: BTreeSet<&Uid> = BTreeSet::new();
        for pod in pods {
            let meta = &pod.metadata;
            let Some(owner) = meta.controller() else {
                expected.unmanaged.push(meta.name.clone());
                continue;
            };
            if asked.contains(&owner.uid) {
                continue;
            }
            let found = match self.cached(&meta.namespace, owner) {
                Some(found) => Some(found),
                None => self.fetch_scale(&meta.namespace, owner).await?,
            };
            let (uid, replicas) =
                found.ok_or_else(|| CountError::NoController(meta.name.clone()))?;
            asked.insert(&owner.uid);
            scales.insert(uid, replicas);
        }
        expected.pods = scales.into_values().fold(0, i32::saturating_add);
        Ok(expected)
    }

    /// The usual kinds: a Deployment stands for its ReplicaSets.
    fn cached(&self, namespace: &str, owner: &OwnerRef) -> Option<Scaled> {
        let group = owner.group();
        match &*owner.kind {
            "ReplicationController" if group.is_empty() => {
                let found = find(&self.controllers, namespace, owner)?;
                scaled(&*found, found.spec.replicas)
            }
            "StatefulSet" if group == "apps" => {
                let found = find(&self.stateful_sets, namespace, owner)?;
                scaled(&*found, found.spec.replicas)
            }
            "ReplicaSet" if is_apps(group) => {
                let set = find(&self.sets, namespace, owner)?;
                match set.metadata.controller() {
                    Some(above) if above.kind == "Deployment" => {
                        let above = Some(above).filter(|above| is_apps(above.group()))?;
                        let found = find(&self.deployments, namespace, above)?;
                        scaled(&*found, found.spec.replicas)
                    }
                    _ => scaled(&*set, set.spec.replicas),
                }
            }
            _ => None,
        }
    }

    /// Any other kind, and one of the usual ones that the caches do not know.
    async fn fetch_scale(
        &self,
        namespace: &str,
        owner: &OwnerRef,
    ) -> Result<Option<Scaled>, CountError> {
        let resource = self
            .scales
            .resource(&owner.api_version, &owner.kind)
            .await?;
        let scale = self.scales.get(&resource, namespace, &owner.name).await?;
        let scale = scale.filter(|scale| scale.metadata.uid == owner.uid);
        Ok(scale.map(|scale| (scale.metadata.uid, scale.spec.replicas)))
    }
}

fn find<K: Resource>(store: &Store<K>, namespace: &str, owner: &OwnerRef) -> Option<Arc<K>> {
    let found = store.find(namespace, &owner.name)?;
    (found.meta().uid == owner.uid).then_some(found)
}

/// UPSTREAM: owner references of long ago name the group in which these kinds began.
fn is_apps(group: &str) -> bool {
    matches!(group, "apps" | "extensions")
}

fn scaled<K: Resource>(owner: &K, replicas: Option<i32>) -> Option<Scaled> {
    // The API server's default, should it not have filled it in.
    Some((owner.meta().uid.clone(), replicas.unwrap_or(1)))
}
