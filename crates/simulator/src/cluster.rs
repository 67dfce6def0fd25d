//! The cluster: API server, nodes, and a manager that can be crashed and started again.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::{Clock, Rng, Time};
use apiserver::{ApiServer, Options as ServerOptions};
use bytes::Bytes;
use client::{Body, BoxError, Client, Transport};
use http::{Method, Request, Response};
use manager::built::{Memory, Parts};
use manager::run::{Manager, select};
use manager::{Command, Options};
use runtime::decisions::Decisions;
use runtime::informer::StreamOptions;
use runtime::metrics::Metrics;
use runtime::stop::Stopper;
use runtime::{Informers, Stop, Task, spawn};
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt};

use crate::faults::Gremlin;
use crate::mirror::Mirror;
use crate::trace::{Actor, Trace};

/// Runs begin on New Year 2024.
const BEGIN: i64 = 1_704_067_200;

/// A simulated cluster. Make it inside a current-thread runtime with paused time.
pub struct Cluster {
    pub clock: Clock,
    pub rng: Rng,
    pub decisions: Decisions,
    server: ApiServer,
    trace: Trace,
    mirror: Arc<tokio::sync::Mutex<Mirror>>,
    broken: Arc<Mutex<Option<String>>>,
    crash: Arc<CrashPoint>,
    gremlin: Gremlin,
    running: Option<(Stopper, Task<()>)>,
    nodes: Option<(Stopper, Task<()>)>,
}

/// The manager dies right after its nth write, if that is set.
#[derive(Default)]
pub(crate) struct CrashPoint {
    after_write: Mutex<Option<u64>>,
    reached: tokio::sync::Notify,
}

impl Cluster {
    pub fn new(seed: u64, gremlin: impl FnOnce(&Rng) -> Gremlin) -> Cluster {
        let rng = Rng::from_seed(seed);
        let clock = runtime::clock::following_tokio(Time::from_unix(BEGIN));
        let server = ApiServer::open(ServerOptions::in_memory(clock.clone(), rng.fork()))
            .unwrap_or_else(|error| panic!("the embedded API server starts in memory: {error}"));
        let mirror = Mirror::new(Client::new(server.transport()));
        Cluster {
            decisions: Decisions::new(),
            trace: Trace::new(clock.clone()),
            mirror: Arc::new(tokio::sync::Mutex::new(mirror)),
            broken: Arc::default(),
            crash: Arc::default(),
            gremlin: gremlin(&rng),
            running: None,
            nodes: None,
            clock,
            rng,
            server,
        }
    }

    /// A client for a user, watched like everyone.
    pub fn user(&self) -> Client {
        Client::new(self.watched(Actor::User)).with_user_agent("simulated-user")
    }

    pub(crate) fn trace(&self) -> &Trace {
        &self.trace
    }

    pub(crate) fn gremlin(&self) -> &Gremlin {
        &self.gremlin
    }

    pub(crate) async fn mirror(&self) -> tokio::sync::MutexGuard<'_, Mirror> {
        self.mirror.lock().await
    }

    /// The first thing that must not have happened.
    pub fn broken(&self) -> Option<String> {
        self.broken
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub fn start_nodes(&mut self, count: usize) {
        let client = Client::new(self.watched(Actor::Nodes)).with_user_agent("nodes");
        let config = nodes::Config::with_nodes(count);
        let cluster = nodes::Cluster::new(client, config, self.clock.clone(), self.rng.fork());
        let (stopper, stop) = Stop::new();
        self.nodes = Some((stopper, spawn(cluster.run(stop))));
    }

    pub fn start_manager(&mut self) {
        let transport = self.gremlin.between(self.watched(Actor::Manager));
        let (stopper, stop) = Stop::new();
        let manager = self.manager(&transport);
        self.running = Some((stopper, spawn(manager.run(None, stop))));
    }

    /// As `kill -9`: every task of the manager is gone at this very moment.
    pub fn crash_manager(&mut self) {
        self.running = None;
    }

    /// Crashes the manager right after its `nth` write from the start of the run.
    pub fn crash_after_write(&self, nth: Option<u64>) {
        *self
            .crash
            .after_write
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = nth;
    }

    pub async fn crash_point_reached(&self) {
        self.crash.reached.notified().await;
    }

    fn manager(&self, transport: &Transport) -> Manager {
        let options = match Options::parse(["--controllers=*"], "simulator", manager::built::has) {
            Ok(Command::Run(options)) => options,
            _ => unreachable!("the default flags are valid"),
        };
        let stream = StreamOptions {
            rng: self.rng.fork(),
            resync: None,
        };
        let transport = transport.clone();
        let informers = Informers::new(Client::new(transport.clone()), stream.clone());
        Manager {
            parts: Parts {
                informers: Arc::new(informers),
                metadata: Client::new(transport.clone()),
                collector: Memory::new(Client::new(transport.clone()), stream),
                root_ca: None,
                service_account_key: None,
                config: options.config.clone(),
                gates: options.gates.for_controllers(),
                clock: self.clock.clone(),
                rng: self.rng.fork(),
                metrics: Metrics::new(),
                decisions: self.decisions.clone(),
            },
            selected: select(&options.config.generic.controllers, &options.gates),
            clients: Arc::new(move |_| {
                Box::pin(std::future::ready(Ok(Client::new(transport.clone()))))
            }),
            patience: Duration::from_secs(1),
        }
    }

    /// The server as one actor sees it: every write is traced, mirrored and checked.
    fn watched(&self, actor: Actor) -> Transport {
        let observer = Observer {
            actor,
            trace: self.trace.clone(),
            mirror: self.mirror.clone(),
            broken: self.broken.clone(),
            crash: self.crash.clone(),
        };
        let inner = self.server.transport();
        BoxCloneSyncService::new(tower::service_fn(move |request: Request<Bytes>| {
            let (observer, inner) = (observer.clone(), inner.clone());
            async move { observer.pass(inner, request).await }
        }))
    }
}

#[derive(Clone)]
struct Observer {
    actor: Actor,
    trace: Trace,
    mirror: Arc<tokio::sync::Mutex<Mirror>>,
    broken: Arc<Mutex<Option<String>>>,
    crash: Arc<CrashPoint>,
}

impl Observer {
    async fn pass(
        &self,
        mut inner: Transport,
        request: Request<Bytes>,
    ) -> Result<Response<Body>, BoxError> {
        if request.method() == Method::GET {
            return inner.ready().await?.call(request).await;
        }
        let (method, path) = (request.method().clone(), request.uri().path().to_string());
        let body = request.body().clone();
        let response = inner.ready().await?.call(request).await?;
        let (head, answer) = response.into_parts();
        let answer = http_body_util::BodyExt::collect(answer).await?.to_bytes();
        let count = self
            .trace
            .note(self.actor, &method, &path, &body, head.status.as_u16());
        if head.status.is_success() {
            self.look(&path, &answer).await;
        }
        if self.actor == Actor::Manager {
            self.maybe_crash(count).await;
        }
        let body = http_body_util::Full::new(answer);
        let body = http_body_util::BodyExt::map_err(body, |never| match never {});
        Ok(Response::from_parts(
            head,
            http_body_util::BodyExt::boxed_unsync(body),
        ))
    }

    async fn look(&self, path: &str, answer: &Bytes) {
        let Some((plural, namespace, name)) = place(path, answer) else {
            return;
        };
        let seen = self
            .mirror
            .lock()
            .await
            .refresh(&plural, &namespace, &name)
            .await;
        if let Err(problem) = seen {
            let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
            broken.get_or_insert(problem);
        }
    }

    /// The write took effect, but its answer never arrives: the process is gone.
    async fn maybe_crash(&self, count: u64) {
        let due = *self
            .crash
            .after_write
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if due == Some(count) {
            self.trace
                .remark(Actor::Manager, format!("crashes after write {count}"));
            self.crash.reached.notify_one();
            std::future::pending::<()>().await;
        }
    }
}

/// Plural, namespace and name of the object that a write was about.
fn place(path: &str, answer: &Bytes) -> Option<(String, String, String)> {
    let mut parts = path.split("/namespaces/").nth(1)?.split('/');
    let (namespace, plural) = (parts.next()?, parts.next()?);
    let name = match parts.next() {
        Some(name) => name.to_string(),
        None => {
            let made: serde_json::Value = serde_json::from_slice(answer).ok()?;
            made["metadata"]["name"].as_str()?.to_string()
        }
    };
    Some((plural.to_string(), namespace.to_string(), name))
}
