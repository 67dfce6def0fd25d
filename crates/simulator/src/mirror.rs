//! What is really in the API server, known without a watch.
//!
//! After every write the object it named is read back, so the mirror is exact at each step and
//! safety can be checked after each single write.

use std::sync::Arc;

use api::collections::HashMap;
use api::kinds::{Deployment, Pod, ReplicaSet};
use api::{Resource, Uid};
use client::Client;
use controllers::{deployment, replicaset};
use runtime::Store;
use runtime::triggers::by_controller;

pub(crate) struct Mirror {
    client: Client,
    pub(crate) pods: Store<Pod>,
    pub(crate) sets: Store<ReplicaSet>,
    pub(crate) deployments: Store<Deployment>,
    /// The most pods that each set ever wanted.
    most_wanted: HashMap<Uid, i32>,
    pub(crate) checks: u64,
}

impl Mirror {
    pub(crate) fn new(client: Client) -> Mirror {
        let mirror = Mirror {
            client,
            pods: Store::new(),
            sets: Store::new(),
            deployments: Store::new(),
            most_wanted: HashMap::default(),
            checks: 0,
        };
        mirror.pods.add_index(&by_controller());
        mirror.sets.add_index(&by_controller());
        mirror
    }

    /// Reads back what a write to `plural` in `namespace` named; checks what must always hold.
    pub(crate) async fn refresh(
        &mut self,
        plural: &str,
        namespace: &str,
        name: &str,
    ) -> Result<(), String> {
        match plural {
            "pods" => {
                let before = self.pods.find(namespace, name);
                let after = read(&self.client, &self.pods, namespace, name).await?;
                let owner = after
                    .or(before)
                    .and_then(|pod| Some(pod.metadata.controller()?.uid.clone()));
                owner.map_or(Ok(()), |uid| self.check_set(&uid))
            }
            "replicasets" => {
                if let Some(set) = read(&self.client, &self.sets, namespace, name).await? {
                    let most = self
                        .most_wanted
                        .entry(set.metadata.uid.clone())
                        .or_default();
                    *most = (*most).max(set.replicas());
                }
                Ok(())
            }
            "deployments" => read(&self.client, &self.deployments, namespace, name)
                .await
                .map(drop),
            _ => Ok(()),
        }
    }

    fn check_set(&mut self, uid: &Uid) -> Result<(), String> {
        let Some(set) = self
            .sets
            .list()
            .into_iter()
            .find(|set| set.metadata.uid == *uid)
        else {
            return Ok(());
        };
        self.checks += 1;
        let pods = self.pods_of(uid);
        replicaset::safe(
            &*set,
            &pods,
            self.most_wanted.get(uid).copied().unwrap_or(0),
        )
    }

    fn pods_of(&self, uid: &Uid) -> Vec<Arc<Pod>> {
        self.pods
            .by(&by_controller(), &runtime::IndexValue::Uid(uid.clone()))
    }

    /// Everything that must hold once nothing changes any more.
    pub(crate) fn check_converged(&mut self) -> Result<(), String> {
        for set in self.sets.list() {
            self.checks += 1;
            replicaset::converged(&*set, &self.pods_of(&set.metadata.uid))?;
        }
        for deployment in self.deployments.list() {
            self.checks += 1;
            let uid = deployment.metadata.uid.clone();
            let sets = self
                .sets
                .by(&by_controller(), &runtime::IndexValue::Uid(uid));
            deployment::converged(&deployment, &sets)?;
        }
        Ok(())
    }

    /// What a user sees in the end, without names and times: to compare two runs of the same inputs.
    pub(crate) fn end_state(&self) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for deployment in self.deployments.list() {
            let status = &deployment.status;
            lines.push(format!(
                "deployment {}: {} wanted, {} updated, {} available, generation {}",
                deployment.metadata.name,
                deployment.replicas(),
                status.updated_replicas,
                status.available_replicas,
                status.observed_generation,
            ));
        }
        for set in self
            .sets
            .list()
            .iter()
            .filter(|set| set.metadata.controller().is_none())
        {
            lines.push(format!(
                "replicaset {}: {} pods",
                set.metadata.name, set.status.replicas
            ));
        }
        let live = self
            .pods
            .list()
            .iter()
            .filter(|pod| pod.is_active())
            .count();
        lines.push(format!("{live} live pods"));
        lines.sort();
        lines
    }
}

async fn read<K: Resource>(
    client: &Client,
    store: &Store<K>,
    namespace: &str,
    name: &str,
) -> Result<Option<Arc<K>>, String> {
    match client.get_as::<K>(namespace, name).await {
        Ok(object) => {
            let object = Arc::new(object);
            store.put(object.clone());
            Ok(Some(object))
        }
        Err(error) if error.is_not_found() => {
            store.remove(namespace, name);
            Ok(None)
        }
        Err(error) => Err(format!(
            "cannot read back {} {namespace}/{name}: {error}",
            K::TYPE
        )),
    }
}
