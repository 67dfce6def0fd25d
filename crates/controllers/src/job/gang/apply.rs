//! Creates Workloads and PodGroups. Nothing is decided here.

use api::kinds::{Job, PodGroup, Workload};
use api::{Istr, Key, Resource};
use runtime::Error;
use runtime::events::{EventType, ObjectRef};
use serde_json::Value;

use super::super::Jobs;
use super::{Gang, bodies};

impl Jobs {
    /// Creates what the plan says is missing; gives the group that new pods are to name.
    pub(in super::super) async fn ensure_gang(
        &self,
        key: &Key,
        job: &Job,
        gang: &Gang,
    ) -> Result<Option<Istr>, Error> {
        let group = match gang {
            Gang::NotACandidate | Gang::FallsBack(_) => return Ok(None),
            Gang::Has(group) => Istr::new(&group.metadata.name),
            Gang::CreateGroup { workload, .. } => self.create_group(key, job, workload).await?,
            Gang::CreateBoth { .. } => {
                let workload: Workload = self.create_for(key, &bodies::workload(job)).await?;
                let (made, name) = (&workload.metadata.name, &job.metadata.name);
                let message = format!("Created Workload {made} for Job {name}");
                let (object, recorder) = (ObjectRef::of(job), &self.context.recorder);
                recorder.event(&object, EventType::Normal, "WorkloadCreated", message);
                self.create_group(key, job, &workload).await?
            }
        };
        Ok(Some(group))
    }

    async fn create_group(&self, key: &Key, job: &Job, workload: &Workload) -> Result<Istr, Error> {
        let Some(body) = bodies::pod_group(job, workload) else {
            let name = &workload.metadata.name;
            let what = format!("workload {}/{name} has no PodGroupTemplates", key.namespace);
            return Err(Error::Retry(what));
        };
        let group: PodGroup = self.create_for(key, &body).await?;
        Ok(Istr::new(&group.metadata.name))
    }

    /// One that is there already, though no cache has shown it, is an error like any other: the sync is tried again.
    async fn create_for<K: Resource>(&self, key: &Key, body: &Value) -> Result<K, Error> {
        let (client, body) = (&self.context.client, body.to_string());
        let answer = client.create(&K::TYPE, &key.namespace, body).await?;
        let created = K::decode(&answer).map_err(|error| Error::Retry(error.to_string()))?;
        let revision = created.meta().resource_version;
        self.states.consistency.note::<K>(key, revision);
        Ok(created)
    }
}
