//! The API server goes away for an hour, or lacks a group of its API: the whole manager lives through it.

mod door;

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use api::kinds::{Deployment, Pod};
use api::{Resource, ResourceType, Rng, Time};
use apiserver::ApiServer;
use client::{Client, DeleteOptions, ListOptions, Patch};
use door::Door;
use manager::run::Manager;
use manager::{Command, Options};
use runtime::leader::{Fence, LeaderElector, Leadership, LeaseConfig};
use runtime::metrics::Metrics;
use runtime::stop::Stopper;
use runtime::{Decisions, Stop, Task, spawn};
use serde_json::json;

static DEPLOYMENTS: ResourceType = Deployment::TYPE;
const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);

/// An API server, a manager behind a door to it, and a user who needs no door.
struct World {
    door: Door,
    user: Client,
    metrics: Metrics,
    leadership: Option<tokio::sync::watch::Receiver<Leadership>>,
    _stopper: Stopper,
    tasks: Vec<Task<()>>,
}

impl World {
    fn new(elects: bool, lacks: Option<&'static str>) -> World {
        let clock = runtime::clock::following_tokio(Time::from_unix(1_704_067_200));
        let rng = Rng::from_seed(7);
        let options = apiserver::Options::in_memory(clock.clone(), rng.fork());
        let server = ApiServer::open(options).expect("a server in memory opens");
        let door = Door::to(server.transport());
        door.lacks(lacks);
        let (stopper, stop) = Stop::new();
        let mut tasks = Vec::new();
        let mut transport = door.transport();
        let leadership = elects.then(|| {
            let client = Client::new(door.transport());
            let config = LeaseConfig::new("kube-system", "kube-controller-manager", "me");
            let elector = LeaderElector::new(client, config, clock.clone(), rng.fork(), None)
                .expect("the default lease settings are valid");
            let leadership = elector.leadership();
            tasks.push(spawn(elector.run(stop.clone())));
            leadership
        });
        if let Some(leadership) = &leadership {
            transport = Fence::around(transport, leadership.clone());
        }
        let decisions = Decisions::new();
        let manager = Manager::in_process(transport, &flags(), clock, rng, decisions);
        let metrics = manager.environment.metrics.clone();
        tasks.push(spawn(manager.run(leadership.clone(), stop)));
        World {
            user: Client::new(server.transport()),
            door,
            metrics,
            leadership,
            _stopper: stopper,
            tasks,
        }
    }

    async fn deploy(&self, name: &str, replicas: i32) {
        let labels = json!({"app": name});
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "c", "image": "i"}]},
                },
            },
        });
        let made = self
            .user
            .create(&DEPLOYMENTS, "default", object.to_string());
        made.await.expect("a Deployment can be created");
    }

    async fn scale(&self, name: &str, replicas: i32) {
        let body = json!({"spec": {"replicas": replicas}});
        let patch = Patch::Merge(body.to_string().into());
        let scaled = self.user.patch(&DEPLOYMENTS, "default", name, None, &patch);
        scaled.await.expect("a Deployment can be scaled");
    }

    /// How many pods each application has.
    async fn pods(&self, app: &str) -> usize {
        let options = ListOptions {
            label_selector: Some(format!("app={app}")),
            ..ListOptions::default()
        };
        let page = self.user.list(&Pod::TYPE, "default", &options).await;
        page.expect("pods can be listed").items.len()
    }

    /// Waits until the application has so many pods and says how long that took.
    async fn until_pods(&self, app: &str, count: usize) -> Duration {
        let started = tokio::time::Instant::now();
        while self.pods(app).await != count {
            let waited = started.elapsed();
            assert!(waited < HOUR, "{app} has {} pods", self.pods(app).await);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        started.elapsed()
    }

    /// Keys in all queues.
    fn queued(&self) -> f64 {
        let families = self.metrics.registry().gather();
        let depths = families
            .iter()
            .filter(|family| family.name() == "workqueue_depth");
        let samples = depths.flat_map(|family| family.get_metric());
        samples.map(|sample| sample.get_gauge().get_value()).sum()
    }

    fn leads(&self) -> bool {
        let held = self.leadership.as_ref().map(|held| held.borrow().clone());
        held.is_none_or(|held| matches!(held, Leadership::Leading { .. }))
    }

    fn is_alive(&self) -> bool {
        self.tasks.iter().all(|task| !task.is_finished())
    }
}

fn flags() -> Options {
    match Options::parse(["--controllers=*"], "test") {
        Ok(Command::Run(options)) => *options,
        _ => unreachable!("the default flags are valid"),
    }
}

/// What an hour without the API server costs and what happens after it.
async fn check_hour_away(elects: bool) {
    let world = World::new(elects, None);
    world.deploy("steady", 3).await;
    world.deploy("leaving", 2).await;
    world.until_pods("steady", 3).await;
    world.until_pods("leaving", 2).await;

    // In the middle of work: keys fail from the first moment on.
    world.scale("steady", 40).await;
    tokio::task::yield_now().await;
    world.door.shut();
    tokio::time::sleep(MINUTE).await;
    assert_eq!(
        world.leads(),
        !elects,
        "a lease ends that cannot be renewed"
    );
    let options = DeleteOptions::default();
    let deleted = world
        .user
        .delete(&DEPLOYMENTS, "default", "leaving", &options);
    deleted.await.expect("a Deployment can be deleted");
    world.scale("steady", 5).await;
    tokio::time::sleep(HOUR - MINUTE * 11).await;
    let asked_before = world.door.refused();
    tokio::time::sleep(MINUTE * 10).await;
    let asked = world.door.refused() - asked_before;
    // Some thirty streams and a few keys that wait for the server, each every four seconds or less often.
    assert!(
        (100..8_000).contains(&asked),
        "{asked} requests in the last ten minutes"
    );
    let queued = world.queued();
    assert!((0.0..20.0).contains(&queued), "{queued} keys are queued");
    assert!(world.is_alive());

    world.door.open();
    let took = world.until_pods("steady", 5).await + world.until_pods("leaving", 0).await;
    assert!(took < MINUTE, "{took:?} after the server was back");
    tokio::time::sleep(MINUTE).await;
    assert!(world.leads() && world.is_alive());
    assert_eq!(
        (world.pods("steady").await, world.pods("leaving").await),
        (5, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn an_hour_without_the_api_server_is_survived() {
    check_hour_away(false).await;
}

/// The lease is lost in the first seconds; unlike upstream's, the process waits for it with its caches kept.
#[tokio::test(start_paused = true)]
async fn an_hour_away_costs_the_lease_and_it_is_won_again() {
    check_hour_away(true).await;
}

/// What is logged on this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// How many lines hold all of these.
    fn count(&self, words: &[&str]) -> usize {
        let log = self.0.lock();
        let log = String::from_utf8_lossy(&log);
        log.lines()
            .filter(|line| words.iter().all(|word| line.contains(word)))
            .count()
    }
}

/// A Job that ended, and may go five seconds later.
async fn finished_job(user: &Client) {
    let jobs = ResourceType::namespaced("batch", "v1", "jobs", "Job");
    let template = json!({"spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "c", "image": "i"}],
    }});
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "done"},
        "spec": {"ttlSecondsAfterFinished": 5, "template": template},
    });
    let made = user.create(&jobs, "default", job.to_string()).await;
    made.expect("a Job can be created");
    let ended = "2024-01-01T00:00:00Z";
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "lastTransitionTime": ended,
               "lastProbeTime": ended, "reason": "CompletionsReached"})
    };
    let status = json!({"status": {
        "startTime": ended, "completionTime": ended, "succeeded": 1,
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
    }});
    let patch = Patch::Merge(status.to_string().into());
    let patched = user.patch(&jobs, "default", "done", Some("status"), &patch);
    patched.await.expect("its status can be written");
}

#[tokio::test(start_paused = true)]
async fn a_group_that_is_missing_turns_off_what_needs_it_until_it_comes() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let world = World::new(false, Some("batch"));
    finished_job(&world.user).await;
    world.deploy("steady", 3).await;
    let took = world.until_pods("steady", 3).await;
    assert!(took < MINUTE, "others wait for the group: {took:?}");
    tokio::time::sleep(MINUTE * 10).await;
    let off = ["=jobs.batch", "the API server does not serve this kind"];
    assert_eq!(log.count(&off), 1, "one line says what is off");
    let jobs = ResourceType::namespaced("batch", "v1", "jobs", "Job");
    let there = world.user.get(&jobs, "default", "done").await;
    assert!(there.is_ok(), "nobody can have deleted it: {there:?}");

    world.door.lacks(None);
    tokio::time::sleep(MINUTE * 2).await;
    let gone = world.user.get(&jobs, "default", "done").await;
    assert!(gone.is_err_and(|error| error.is_not_found()), "it is due");
    assert_eq!(
        log.count(&["=jobs.batch", "the API server serves this kind now"]),
        1
    );
}
