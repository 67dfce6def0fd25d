//! One preview: the state as it is, the manifests on top, and time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::MicroTime;
use apiserver::ApiServer;
use client::{Client, Patch};
use controllers::discovery::{Discovery, discover};
use runtime::decisions::Listener;
use runtime::{Decisions, Task, spawn};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::drain::Drains;
use crate::kinds::Kind;
use crate::load::Load;
use crate::log::Log;
use crate::manifest::Manifest;
use crate::observe::Observer;
use crate::retain::{left_out, retain_keys};
use crate::rollout;
use crate::state;
use crate::text::duration;
use crate::usage;
use crate::world::World;
use crate::{PreviewError, Setup};

/// A preview that has run: everything that its report is made from.
pub(crate) struct Run {
    pub(crate) world: World,
    pub(crate) log: Log,
    pub(crate) discovery: Discovery,
    pub(crate) start: MicroTime,
    /// When all was complete and stayed so.
    pub(crate) completed: Option<MicroTime>,
    pub(crate) end: MicroTime,
    /// What was applied, as the server took it.
    pub(crate) applied: Vec<Applied>,
    /// Where objects go that name no namespace.
    namespace: String,
    pub(crate) notes: Vec<String>,
    pub(crate) drains: Drains,
    /// Loads are assumed: autoscalers of the present state matter.
    pub(crate) is_loaded: bool,
    config: nodes::Config,
    _recounting: Task<()>,
}

#[derive(Clone)]
pub(crate) struct Applied {
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) uid: String,
    pub(crate) existed: bool,
    /// It was just so before.
    pub(crate) unchanged: bool,
    /// How it is followed, if it is.
    pub(crate) followed: Option<&'static Kind>,
}

/// How long the present state may take to become quiet before the manifests are applied anyway.
const QUIET_WITHIN: Duration = Duration::from_secs(600);

/// A state in which nothing has changed for this long counts as quiet, complete or not.
const QUIET: Duration = Duration::from_secs(60);

/// How long manifests may take to complete before a drain starts anyway: the progress deadline of a Deployment, after
/// which `kubectl rollout status` no longer waits.
const COMPLETE_WITHIN: Duration = Duration::from_secs(600);

/// How often is checked whether all is complete. What is reported is when it happened, not when it was seen.
const STEP: Duration = Duration::from_secs(1);

/// How often a run is looked at that goes on for as long as it is given.
const STEPS_OF_AN_ENDLESS_RUN: u32 = 1000;

/// Later than any state becomes quiet: a load that begins then is still at its first value.
const NOT_YET: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Claim templates are the field of a StatefulSet that people want to change and cannot.
const KEEPS_ITS_CLAIMS: &str = "; claims that exist keep what they have: delete the StatefulSet with --cascade=orphan, change the claims, and apply it again";

/// What is complete has to stay complete for this long: pods that crash do so soon.
const STAYS: Duration = Duration::from_secs(15);

impl Run {
    pub(crate) async fn new(
        setup: &Setup,
        listener: Option<Listener>,
    ) -> Result<Run, PreviewError> {
        let begin = setup.begin;
        let log_clock = runtime::clock::following_tokio(begin);
        let log = Log::new(log_clock);
        let recording = log.clone();
        let decisions =
            Decisions::new().heard_by(Arc::new(move |controller, object, at, lines| {
                recording.record_decision(controller, object, at, lines);
                if let Some(listener) = &listener {
                    listener(controller, object, at, lines);
                }
            }));
        let mut world = World::new(begin, SEED, decisions);
        let mut notes = state::restore(&world, setup);
        let config = state::nodes(setup)?;
        let transport = world.transport();
        let informers = world.start_manager("*", transport);
        log.listen(&informers);
        usage::connect(&world.server, &world.clock, &config);
        world.start_nodes(config.clone());
        let client = world.client("kubectl");
        let recounting = spawn(recount(world.server.clone(), log.freed.clone()));
        let mut run = Run {
            _recounting: recounting,
            discovery: known(&client).await,
            start: world.clock.now(),
            completed: None,
            end: world.clock.now(),
            applied: Vec::new(),
            namespace: setup.namespace.clone(),
            notes: Vec::new(),
            drains: Drains::default(),
            is_loaded: setup.drives_autoscalers(&config),
            config,
            world,
            log,
        };
        run.wait_for_account_in(&client, "default").await;
        // Plain manifests of the present state have to be brought to life first.
        let present = state::manifests_without_life(setup);
        let make_namespaces = !setup.knows_namespaces();
        if make_namespaces {
            run.make_namespaces(&client, &setup.state).await;
        }
        run.apply_all(&client, &present, make_namespaces).await?;
        run.applied.clear();
        // Loads hold still at their first value until the manifests are applied.
        run.declare_loads(&client, setup, run.start.plus(NOT_YET))
            .await?;
        if !run.wait_for_present_state(&client, setup).await {
            notes.push("the present state keeps changing: the preview starts all the same".into());
        }
        run.notes.append(&mut notes);
        Ok(run)
    }

    /// Lets somebody watch, and gives them a moment to see what is there.
    pub(crate) async fn let_watch(&self, observer: &mut dyn Observer) {
        let (client, clock) = (self.world.client("observer"), self.world.clock.clone());
        observer.begin(client, clock, self.world.decisions.clone());
        tokio::time::sleep(STEP).await;
        observer.applying();
    }

    /// Applies the manifests and lets time pass until all is complete, or time is up.
    pub(crate) async fn play(&mut self, setup: &Setup) -> Result<(), PreviewError> {
        let client = self.world.client("kubectl");
        self.start = self.world.clock.now();
        let make_namespaces = !setup.knows_namespaces();
        let mut followed = self.complete_workloads(&client, setup).await;
        self.apply_all(&client, &setup.manifests, make_namespaces)
            .await?;
        usage::connect(&self.world.server, &self.world.clock, &self.config);
        let missing = self.declare_loads(&client, setup, self.start).await?;
        if let Some(load) = missing.first() {
            return Err(PreviewError::Assumption(format!(
                "--load {load}: there is no such workload in namespace {}",
                self.namespace
            )));
        }
        followed.extend(self.followed());
        let deadline = self.start.plus(setup.length);
        self.drain(&client, setup, &followed, deadline).await?;
        let is_endless = self.is_endless();
        let step = match is_endless {
            // Nobody waits for it to be done.
            true => STEP.max(setup.length / STEPS_OF_AN_ENDLESS_RUN),
            false => STEP,
        };
        let (mut seen, mut final_since) = (None, None);
        loop {
            tokio::time::sleep(step).await;
            let now = self.world.clock.now();
            let (changes, changed_at) = self.last_change();
            let progress = (changes, self.drains.are_done());
            if seen != Some(progress) {
                seen = Some(progress);
                let is_final =
                    progress.1 && self.are_all(&client, &followed, rollout::is_final).await;
                match is_final {
                    true => final_since = final_since.or(Some(changed_at)),
                    false => final_since = None,
                }
            }
            let stays = final_since.is_some_and(|since| now.since(since) >= STAYS) && !is_endless;
            if stays || now >= deadline {
                let complete = self.drains.are_done()
                    && self.are_all(&client, &followed, rollout::is_complete).await;
                self.completed = final_since
                    .filter(|_| complete)
                    .map(|since| since.max(self.start));
                self.end = now;
                return Ok(());
            }
        }
    }

    /// Whether it goes on for as long as it is given: schedules and autoscalers are never done.
    pub(crate) fn is_endless(&self) -> bool {
        self.is_loaded || self.applied.iter().any(Applied::is_endless)
    }

    /// Puts the loads on their workloads; gives those whose workload is not there.
    async fn declare_loads(
        &self,
        client: &Client,
        setup: &Setup,
        begin: MicroTime,
    ) -> Result<Vec<Load>, PreviewError> {
        let mut missing = Vec::new();
        for load in &setup.loads {
            let namespace = &self.namespace;
            if !load
                .declare(client, &self.discovery, namespace, begin)
                .await?
            {
                missing.push(load.clone());
            }
        }
        Ok(missing)
    }

    /// A drain is over when those that were complete before it are so again.
    async fn complete_workloads(&self, client: &Client, setup: &Setup) -> Vec<Applied> {
        let mut found = Vec::new();
        if setup.drain.is_empty() {
            return found;
        }
        for one in state::workloads(client, &self.discovery).await {
            let completion = one.followed.and_then(Kind::completion);
            if completion.is_some_and(|completion| completion.recovers)
                && self
                    .are_all(client, std::slice::from_ref(&one), rollout::is_complete)
                    .await
            {
                found.push(one);
            }
        }
        found
    }

    /// Workloads that were applied, each once: what comes of several manifests is one object.
    pub(crate) fn followed(&self) -> Vec<Applied> {
        let mut seen = BTreeSet::new();
        let followed = self.applied.iter().filter(|one| one.completes());
        followed
            .filter(|one| seen.insert(one.uid.as_str()))
            .cloned()
            .collect()
    }

    /// How much has changed, and when last.
    fn last_change(&self) -> (u64, MicroTime) {
        let noted = self.log.lock();
        (noted.changes, noted.changed_at)
    }

    async fn are_all(
        &self,
        client: &Client,
        followed: &[Applied],
        state: fn(&Value) -> bool,
    ) -> bool {
        for one in followed {
            let found = self.read(client, one).await;
            if !found.is_some_and(|object| state(&object)) {
                return false;
            }
        }
        true
    }

    pub(crate) async fn read(&self, client: &Client, one: &Applied) -> Option<Value> {
        let kind = &one.followed?.resource;
        let served = self.discovery.preferred_version(&kind.group, &kind.plural);
        let resource = &served?.resource;
        match client.get(resource, &one.namespace, &one.name).await {
            Ok(body) => serde_json::from_slice(&body).ok(),
            Err(_) => self.log.lock().finished_jobs.get(&one.uid).cloned(),
        }
    }

    async fn wait_for_present_state(&self, client: &Client, setup: &Setup) -> bool {
        if setup.is_empty() {
            return true;
        }
        let deadline = self.world.clock.now().plus(QUIET_WITHIN);
        let all = state::workloads(client, &self.discovery).await;
        self.wait_until_final(client, &all, QUIET, deadline).await
    }

    /// Drains what is to be drained, once the manifests are applied and what they ask for is there.
    async fn drain(
        &mut self,
        client: &Client,
        setup: &Setup,
        followed: &[Applied],
        deadline: MicroTime,
    ) -> Result<(), PreviewError> {
        if setup.drain.is_empty() {
            return Ok(());
        }
        let deadline = deadline.min(self.start.plus(COMPLETE_WITHIN));
        // What waits until pods have been ready for long enough changes nothing meanwhile.
        let quiet = Duration::MAX;
        if !setup.manifests.is_empty()
            && !self
                .wait_until_final(client, followed, quiet, deadline)
                .await
        {
            let waited = duration(self.world.clock.now().since(self.start).as_secs_f64());
            self.notes.push(format!(
                "what is applied is not complete after {waited}: the drain starts all the same"
            ));
        }
        self.drains = Drains::start(client, &self.world.clock, &setup.drain).await?;
        Ok(())
    }

    /// Waits until all are final, or nothing has changed for so long; says whether that came before the deadline.
    async fn wait_until_final(
        &self,
        client: &Client,
        all: &[Applied],
        quiet: Duration,
        deadline: MicroTime,
    ) -> bool {
        loop {
            tokio::time::sleep(STEP).await;
            let now = self.world.clock.now();
            let (_, changed_at) = self.last_change();
            if now.since(changed_at) >= quiet || self.are_all(client, all, rollout::is_final).await
            {
                return true;
            }
            if now >= deadline {
                return false;
            }
        }
    }

    async fn apply_all(
        &mut self,
        client: &Client,
        manifests: &[Manifest],
        make_namespaces: bool,
    ) -> Result<(), PreviewError> {
        if make_namespaces {
            self.make_namespaces(client, manifests).await;
        }
        let mut order: Vec<&Manifest> = manifests.iter().collect();
        // What others need to be there first; beyond that in the order given.
        order.sort_by_key(|manifest| match manifest.text("/kind") {
            "CustomResourceDefinition" => 0,
            "Namespace" => 1,
            "ResourceQuota" | "LimitRange" | "ServiceAccount" | "PriorityClass"
            | "StorageClass" => 2,
            _ => 3,
        });
        for manifest in order {
            self.apply(client, manifest).await?;
            match manifest.text("/kind") {
                "CustomResourceDefinition" => self.discovery = known(client).await,
                "ResourceQuota" => self.world.server.recount_quotas(),
                "Namespace" => {
                    self.wait_for_account_in(client, manifest.text("/metadata/name"))
                        .await
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Nobody knows which namespaces there are, so those that are named are taken to be.
    async fn make_namespaces(&mut self, client: &Client, manifests: &[Manifest]) {
        let Some(namespaces) = self.discovery.named("namespaces").cloned() else {
            return;
        };
        let given: BTreeSet<&str> = manifests
            .iter()
            .filter(|manifest| manifest.text("/kind") == "Namespace")
            .map(|manifest| manifest.text("/metadata/name"))
            .collect();
        let wanted: BTreeSet<&str> = manifests
            .iter()
            .map(|manifest| match manifest.text("/metadata/namespace") {
                "" => self.namespace.as_str(),
                namespace => namespace,
            })
            .filter(|name| !given.contains(name))
            .collect();
        for name in &wanted {
            let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            if client
                .create(&namespaces, "", body.to_string())
                .await
                .is_ok()
            {
                self.wait_for_account_in(client, name).await;
            }
        }
    }

    /// No pod is admitted before its namespace has a service account.
    async fn wait_for_account_in(&self, client: &Client, namespace: &str) {
        let Some(accounts) = self.discovery.named("serviceaccounts").cloned() else {
            return;
        };
        for _ in 0..ATTEMPTS {
            if client.get(&accounts, namespace, "default").await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// A kind that is not served, or not in this version.
    fn unknown(&self, manifest: &Manifest) -> PreviewError {
        let (file, line) = (manifest.file.clone(), manifest.line);
        let kind = manifest.text("/kind").to_owned();
        let api_version = manifest.text("/apiVersion").to_owned();
        let elsewhere = self.discovery.named(&kind);
        match elsewhere.filter(|resource| *resource.kind == *kind) {
            Some(resource) => PreviewError::OtherVersion {
                file,
                line,
                kind,
                api_version,
                served: resource.api_version().to_string(),
            },
            None => PreviewError::UnknownKind {
                file,
                line,
                kind,
                api_version,
            },
        }
    }

    async fn apply(&mut self, client: &Client, manifest: &Manifest) -> Result<(), PreviewError> {
        let (version, kind) = (manifest.text("/apiVersion"), manifest.text("/kind"));
        let served = self
            .discovery
            .find(version, kind)
            .filter(|found| found.api_version() == version);
        let Some(resource) = served.cloned() else {
            return Err(self.unknown(manifest));
        };
        let namespace = match (resource.namespaced, manifest.text("/metadata/namespace")) {
            (false, _) => "",
            (true, "") => self.namespace.as_str(),
            (true, namespace) => namespace,
        };
        let mut body = without_servers_part(&manifest.object);
        let name = manifest.text("/metadata/name");
        let before: Option<Value> = match name {
            "" => None,
            name => {
                let found = client.get(&resource, namespace, name).await.ok();
                found.and_then(|found| serde_json::from_slice(&found).ok())
            }
        };
        if let Some(before) = &before {
            retain_keys(before, &mut body);
            if !state::is_taken_over(before)
                && state::take_over_last_applied(client, &resource, before)
                    .await
                    .is_none()
            {
                self.notes.extend(note_left_out(manifest, before));
            }
        }
        let answer = match name {
            "" => client.create(&resource, namespace, body.to_string()).await,
            name => {
                let patch = Patch::Apply {
                    body: body.to_string().into(),
                    field_manager: FIELD_MANAGER.into(),
                    force: true,
                };
                client.patch(&resource, namespace, name, None, &patch).await
            }
        };
        let answer = answer.map_err(|error| {
            let mut message = client::describe(&error);
            if kind == "StatefulSet" && error.forbids_change_of("spec") {
                message.push_str(KEEPS_ITS_CLAIMS);
            }
            PreviewError::Rejected {
                file: manifest.file.clone(),
                line: manifest.line,
                object: manifest.name(),
                message,
            }
        })?;
        let taken: Value = serde_json::from_slice(&answer).unwrap_or_default();
        let unchanged = before
            .as_ref()
            .is_some_and(|before| without_servers_part(before) == without_servers_part(&taken));
        self.applied.push(Applied {
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            file: manifest.file.clone(),
            existed: before.is_some(),
            unchanged,
            ..Applied::of(&taken)
        });
        Ok(())
    }
}

/// Where neither managed fields nor the annotation of `kubectl apply` tell whose a field is, nothing is removed. What a
/// pod has and its manifest has not was added by admission.
fn note_left_out(manifest: &Manifest, before: &Value) -> Option<String> {
    let is_told = !before["metadata"]["managedFields"].is_null();
    let left_out = left_out(&before["spec"], &manifest.object["spec"]);
    if is_told || left_out.is_empty() || manifest.text("/kind") == "Pod" {
        return None;
    }
    Some(format!(
        "{} keeps {}, which the manifest leaves out: the present state does not say who added it. A snapshot printed with \
         --show-managed-fields does",
        manifest.name(),
        left_out.join(", "),
    ))
}

/// Plays the quota controller's part: what is gone no longer counts.
async fn recount(server: ApiServer, freed: Arc<Notify>) {
    loop {
        freed.notified().await;
        server.recount_quotas();
    }
}

/// Under which name manifests are applied.
pub(crate) const FIELD_MANAGER: &str = "steersman-preview";

/// The same input gives the same preview.
const SEED: u64 = 1;

/// Service accounts come within a second, or something is wrong that the server will name.
const ATTEMPTS: usize = 100;

async fn known(client: &Client) -> Discovery {
    discover(client).await.unwrap_or_default()
}

/// What `kubectl get -o yaml` shows and nobody can apply.
fn without_servers_part(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(map) = object.as_object_mut() {
        map.remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for member in [
            "managedFields",
            "resourceVersion",
            "uid",
            "creationTimestamp",
            "generation",
            "selfLink",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
        ] {
            metadata.remove(member);
        }
    }
    object
}
