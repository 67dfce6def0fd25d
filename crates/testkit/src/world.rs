//! The world itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use api::kinds::Namespace;
use api::{Clock, Gates, MicroTime, Resource, ResourceType, Rng, Time};
use apiserver::{ApiServer, Options};
use client::{Client, DeleteOptions, ListOptions, Patch};
use runtime::events::Recorder;
use runtime::informer::StreamOptions;
use runtime::stop::Stopper;
use runtime::{Context, Decisions, Informers, Metrics, Stop, Task};
use serde_json::{Value, json};

use crate::recording::{Recording, Refusal, Write};

/// Call [`World::new`] in a test with `start_paused = true`.
pub struct World {
    pub server: ApiServer,
    /// The user's client: its writes are not recorded.
    pub user: Client,
    /// The controllers' client: its writes are.
    pub client: Client,
    pub clock: Clock,
    /// How many microseconds it was set forward.
    jumped: Arc<AtomicI64>,
    pub rng: Rng,
    pub informers: Arc<Informers>,
    pub recorder: Recorder,
    stopper: Stopper,
    stop: Stop,
    recording: Recording,
    tasks: Vec<Task<()>>,
}

/// Worlds begin on New Year 2024, so that times in expectations are easy to read.
const BEGIN: i64 = 1_704_067_200;

impl World {
    pub async fn new() -> World {
        World::with_seed(1).await
    }

    pub async fn with_seed(seed: u64) -> World {
        let rng = Rng::from_seed(seed);
        let jumped = Arc::new(AtomicI64::new(0));
        let clock = clock_that_jumps(jumped.clone());
        let mut options = Options::in_memory(clock.clone(), rng.fork());
        options.serves.previews = true;
        let server = ApiServer::open(options)
            .unwrap_or_else(|error| panic!("the embedded API server starts in memory: {error}"));
        let recording = Recording::default();
        let user = Client::new(server.transport());
        let client = Client::new(recording.around(server.transport()));
        let options = StreamOptions {
            rng: rng.fork(),
            resync: None,
        };
        let informers = Arc::new(Informers::new(client.clone(), options));
        let (stopper, stop) = Stop::new();
        let (recorder, writer) = Recorder::new(
            "test-controller",
            "",
            client.clone(),
            clock.clone(),
            rng.fork(),
        );
        let mut world = World {
            server,
            user,
            client,
            clock,
            jumped,
            rng,
            informers,
            recorder,
            stopper,
            stop: stop.clone(),
            recording,
            tasks: Vec::new(),
        };
        world.tasks.push(runtime::spawn(writer.run(stop)));
        world.ensure_default_namespace().await;
        world
    }

    /// What the namespace and service account controllers would have made.
    async fn ensure_default_namespace(&self) {
        let accounts = ResourceType::namespaced("", "v1", "serviceaccounts", "ServiceAccount");
        for (resource, namespace) in [(&Namespace::TYPE, ""), (&accounts, "default")] {
            let (version, kind) = (resource.api_version(), &resource.kind);
            let object =
                json!({"apiVersion": version, "kind": kind, "metadata": {"name": "default"}});
            if let Err(error) = self
                .user
                .create(resource, namespace, object.to_string())
                .await
            {
                assert!(error.is_already_exists(), "cannot create {object}: {error}");
            }
        }
    }

    /// Sets everybody's clock forward, or back. Time itself passes as ever.
    pub fn jump(&self, seconds: i64) {
        self.jumped
            .fetch_add(seconds * 1_000_000, Ordering::Relaxed);
    }

    /// What a controller in this world works with.
    pub fn context(&self) -> Context {
        Context {
            controller: "test-controller",
            client: self.client.clone(),
            informers: self.informers.clone(),
            recorder: self.recorder.clone(),
            clock: self.clock.clone(),
            gates: Gates::default(),
            decisions: Decisions::new(),
            metrics: Metrics::new(),
        }
    }

    /// Runs a task for as long as the world lasts.
    pub fn run(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.push(runtime::spawn(task));
    }

    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Starts the informers that controllers have asked for and waits until they are complete.
    pub async fn start(&self) {
        self.informers.start(&self.stop);
        self.informers.synced().await;
    }

    pub async fn create(&self, resource: &ResourceType, object: Value) -> Value {
        let namespace = if resource.namespaced { "default" } else { "" };
        let made = self
            .user
            .create(resource, namespace, object.to_string())
            .await;
        read(made.unwrap_or_else(|error| panic!("cannot create {object}: {error}")))
    }

    pub async fn try_create(
        &self,
        resource: &ResourceType,
        object: Value,
    ) -> Result<Value, client::Error> {
        let namespace = if resource.namespaced { "default" } else { "" };
        self.user
            .create(resource, namespace, object.to_string())
            .await
            .map(read)
    }

    pub async fn get(&self, resource: &ResourceType, name: &str) -> Option<Value> {
        let namespace = if resource.namespaced { "default" } else { "" };
        match self.user.get(resource, namespace, name).await {
            Ok(found) => Some(read(found)),
            Err(error) if error.is_not_found() => None,
            Err(error) => panic!("cannot get {resource} {name}: {error}"),
        }
    }

    /// All objects of a kind in the default namespace, by name.
    pub async fn list(&self, resource: &ResourceType) -> Vec<Value> {
        let namespace = if resource.namespaced { "default" } else { "" };
        let page = self
            .user
            .list(resource, namespace, &ListOptions::default())
            .await
            .unwrap_or_else(|error| panic!("cannot list {resource}: {error}"));
        page.items.into_iter().map(read).collect()
    }

    /// A merge patch by the user.
    pub async fn patch(&self, resource: &ResourceType, name: &str, patch: Value) -> Value {
        self.patch_subresource(resource, name, None, patch).await
    }

    pub async fn patch_subresource(
        &self,
        resource: &ResourceType,
        name: &str,
        subresource: Option<&str>,
        patch: Value,
    ) -> Value {
        let namespace = if resource.namespaced { "default" } else { "" };
        let body = Patch::Merge(patch.to_string().into());
        let patched = self
            .user
            .patch(resource, namespace, name, subresource, &body)
            .await;
        read(patched.unwrap_or_else(|error| panic!("cannot patch {resource} {name}: {error}")))
    }

    pub async fn delete(&self, resource: &ResourceType, name: &str) {
        self.delete_with(resource, name, &DeleteOptions::default())
            .await;
    }

    pub async fn delete_with(&self, resource: &ResourceType, name: &str, options: &DeleteOptions) {
        let namespace = if resource.namespaced { "default" } else { "" };
        let deleted = self.user.delete(resource, namespace, name, options).await;
        deleted.unwrap_or_else(|error| panic!("cannot delete {resource} {name}: {error}"));
    }

    /// Lets virtual time pass until the controllers have written nothing for a while.
    pub async fn wait_until_idle(&self) {
        loop {
            let before = self.recording.len();
            tokio::time::sleep(QUIET).await;
            if self.recording.len() == before {
                return;
            }
        }
    }

    /// Answers the controllers' reads of this path, with its query, in place of the server: for APIs of others.
    pub fn answer(&self, path: &str, answer: Value) {
        self.recording.set_answer(path, answer);
    }

    /// Answers nothing to the controllers' requests of this path, with its query, until an answer is given.
    pub fn hang(&self, path: &str) {
        self.recording.hang(path);
    }

    /// Each write takes so long from now on.
    pub fn slow_down(&self, latency: Duration) {
        self.recording.slow_down(latency);
    }

    /// Refuses the controllers' next `times` requests with this method to a path that ends so.
    pub fn refuse(&self, method: &str, path: &str, code: u16, times: usize) {
        let method = method
            .parse()
            .unwrap_or_else(|error| panic!("{method} is no method: {error}"));
        self.recording.refuse(Refusal {
            method,
            path: path.into(),
            code,
            times,
        });
    }

    /// What the controllers have written since the last call, events left out.
    pub fn writes(&self) -> Vec<Write> {
        let mut writes = self.recording.take();
        writes.retain(|write| !write.path.contains("/events"));
        writes
    }

    /// How often the controllers have read something whose path ends so.
    pub fn reads_of(&self, path: &str) -> usize {
        self.recording.reads_of(path)
    }

    /// `POST pods ×3`-like lines: what was written, repeats counted.
    pub fn written(&self) -> String {
        let mut lines: Vec<(String, usize)> = Vec::new();
        for write in self.writes() {
            let text = write.to_string();
            match lines.last_mut() {
                Some((last, count)) if *last == text => *count += 1,
                _ => lines.push((text, 1)),
            }
        }
        let line = |(text, count)| {
            if count == 1 {
                text
            } else {
                format!("{text} ×{count}")
            }
        };
        lines
            .into_iter()
            .map(line)
            .collect::<Vec<String>>()
            .join("\n")
    }

    /// Events so far: `Normal SuccessfulCreate Created pod: web-x`.
    pub async fn events(&self) -> Vec<String> {
        let events = ResourceType::namespaced("", "v1", "events", "Event");
        let text =
            |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_string();
        self.list(&events)
            .await
            .iter()
            .map(|event| {
                format!(
                    "{} {} {}",
                    text(event, "type"),
                    text(event, "reason"),
                    text(event, "message")
                )
            })
            .collect()
    }

    /// Ends every task, as a crash would.
    pub fn shut_down(&mut self) {
        self.stopper.stop();
        self.tasks.clear();
    }
}

/// Longer than any coalescing window and retry back-off of a healthy controller.
const QUIET: Duration = Duration::from_secs(5);

fn read(bytes: bytes::Bytes) -> Value {
    serde_json::from_slice(&bytes)
        .unwrap_or_else(|error| panic!("the server answered no JSON: {error}"))
}

fn clock_that_jumps(jumped: Arc<AtomicI64>) -> Clock {
    let even = runtime::clock::following_tokio(Time::from_unix(BEGIN));
    Clock::new(move || {
        let micros = even.now().unix_micros() + jumped.load(Ordering::Relaxed);
        MicroTime::from_unix_micros(micros)
    })
}
