//! Watchers and reflectors of kube-rs on kube-apiserver and on ours: they see the same, through cut
//! connections and through history that is gone.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api as KubeApi, Client, Config};
use real_tests::embedded::Embedded;
use real_tests::proxy::Proxy;
use real_tests::{Api, Cluster, ClusterOptions, cluster, installation};
use serde_json::json;

/// Longer than any watcher waits before it tries again, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// An API server that can lose its history.
trait Server {
    fn api(&self) -> &Api;
    fn kubeconfig(&self) -> PathBuf;
    fn address(&self) -> SocketAddr;
    /// It starts anew and knows nothing of what came before the present state.
    fn forget(&mut self);
}

struct Theirs(Cluster);

impl Server for Theirs {
    fn api(&self) -> &Api {
        &self.0.api
    }

    fn kubeconfig(&self) -> PathBuf {
        self.0.admin_kubeconfig()
    }

    fn address(&self) -> SocketAddr {
        self.0.address()
    }

    fn forget(&mut self) {
        self.0.take_apiserver().unwrap().kill();
        self.0.compact().unwrap();
        self.0.start_apiserver().unwrap();
    }
}

struct Ours {
    folder: PathBuf,
    port: u16,
    running: Option<Embedded>,
}

impl Ours {
    fn start(folder: PathBuf) -> Ours {
        let mut ours = Ours {
            folder,
            port: cluster::free_port().unwrap(),
            running: None,
        };
        ours.run();
        ours
    }

    fn run(&mut self) {
        let port = [format!("--port={}", self.port)];
        self.running = Some(Embedded::start_with(&self.folder, &port).unwrap());
    }
}

impl Server for Ours {
    fn api(&self) -> &Api {
        &self.running.as_ref().unwrap().api
    }

    fn kubeconfig(&self) -> PathBuf {
        self.running.as_ref().unwrap().kubeconfig()
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    fn forget(&mut self) {
        self.running.take().unwrap().process.stop().unwrap();
        self.run();
    }
}

/// A client that reaches the server through the wire that a test can cut.
async fn client(kubeconfig: &Path, proxy: &Proxy) -> Client {
    let mut found = Kubeconfig::read_from(kubeconfig).unwrap();
    for named in &mut found.clusters {
        let cluster = named.cluster.as_mut().unwrap();
        cluster.server = Some(format!("https://{}", proxy.address()));
    }
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(found, &options).await;
    Client::try_from(config.unwrap()).unwrap()
}

type Events = Pin<Box<dyn Stream<Item = Result<Event<ConfigMap>, watcher::Error>>>>;

/// A reflector and what it has seen so far.
struct Seen {
    events: Events,
    store: Store<ConfigMap>,
    lines: Vec<String>,
}

impl Seen {
    fn new(client: Client, namespace: &str, config: watcher::Config) -> Seen {
        let api: KubeApi<ConfigMap> = KubeApi::namespaced(client, namespace);
        let (store, writer) = reflector::store();
        let events = watch(api, config).default_backoff().reflect(writer);
        Seen {
            events: Box::pin(events),
            store,
            lines: Vec::new(),
        }
    }

    /// Reads on until `line` has been seen. Failed attempts are not what two servers are compared by.
    async fn until(&mut self, line: &str) {
        // What a list holds comes in no order that anyone promises.
        let mut listed = BTreeSet::new();
        loop {
            let next = tokio::time::timeout(PATIENCE, self.events.next()).await;
            let next = next.unwrap_or_else(|_| panic!("no {line:?} after {:#?}", self.lines));
            let text = match next.expect("a watcher never ends") {
                Err(_) => continue,
                Ok(Event::InitApply(object)) => {
                    listed.insert(format!("found {}", described(&object)));
                    continue;
                }
                Ok(Event::Init) => "listing".to_owned(),
                Ok(Event::InitDone) => "listed".to_owned(),
                Ok(Event::Apply(object)) => format!("applied {}", described(&object)),
                Ok(Event::Delete(object)) => format!("deleted {}", described(&object)),
            };
            self.lines.extend(std::mem::take(&mut listed));
            self.lines.push(text);
            if self.lines.last().is_some_and(|last| last == line) {
                let mut held: Vec<String> =
                    self.store.state().iter().map(|o| described(o)).collect();
                held.sort();
                self.lines.push(format!("held: {}", held.join(" ")));
                return;
            }
        }
    }
}

fn described(object: &ConfigMap) -> String {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let value = object.data.as_ref().and_then(|data| data.get("value"));
    format!("{name}={}", value.map_or("", String::as_str))
}

/// What a reflector sees of a small scenario.
async fn look(server: &mut dyn Server, namespace: &str, config: watcher::Config) -> Vec<String> {
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let create = |server: &dyn Server, name: &str| {
        let object = json!({"metadata": {"name": name}, "data": {"value": "1"}});
        server.api().create(&path, &object).unwrap();
    };
    let change = |server: &dyn Server, name: &str, value: &str| {
        let patch = json!({"data": {"value": value}});
        let path = format!("{path}/{name}");
        server.api().merge_patch(&path, &patch).unwrap();
    };
    let delete = |server: &dyn Server, name: &str| {
        let path = format!("{path}/{name}");
        server.api().delete(&path, &json!({})).unwrap();
    };
    let space = json!({"metadata": {"name": namespace}});
    server.api().create("/api/v1/namespaces", &space).unwrap();
    create(server, "early");
    let proxy = Proxy::start(server.address()).unwrap();
    let client = client(&server.kubeconfig(), &proxy).await;
    let mut seen = Seen::new(client, namespace, config);
    seen.until("listed").await;
    create(server, "a");
    seen.until("applied a=1").await;
    change(server, "a", "2");
    seen.until("applied a=2").await;
    delete(server, "a");
    seen.until("deleted a=2").await;

    seen.lines.push("cut off".to_owned());
    proxy.cut();
    create(server, "b");
    proxy.fix();
    seen.until("applied b=1").await;

    seen.lines
        .push("cut off, and the history is gone".to_owned());
    proxy.cut();
    create(server, "c");
    delete(server, "early");
    server.forget();
    proxy.fix();
    seen.until("listed").await;
    change(server, "c", "2");
    seen.until("applied c=2").await;
    seen.lines
}

fn both_ways(server: &mut dyn Server) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let listing = watcher::Config::default();
        let listed = look(server, "listing", listing.clone()).await;
        let streamed = look(server, "streaming", listing.streaming_lists()).await;
        assert_eq!(streamed, listed, "a list that is streamed is a list");
        listed
    })
}

#[test]
fn reflectors_of_kube_rs_see_the_same_on_both_servers() {
    let Some(installation) = installation::for_test() else {
        return;
    };
    let cluster = Cluster::start(&installation, ClusterOptions::default()).unwrap();
    let mut ours = Ours::start(cluster.path("embedded"));
    let mut upstream = Theirs(cluster);
    let theirs = both_ways(&mut upstream);
    expect_test::expect![[r#"
        listing
        found early=1
        listed
        held: early=1
        applied a=1
        held: a=1 early=1
        applied a=2
        held: a=2 early=1
        deleted a=2
        held: early=1
        cut off
        applied b=1
        held: b=1 early=1
        cut off, and the history is gone
        listing
        found b=1
        found c=1
        listed
        held: b=1 c=1
        applied c=2
        held: b=1 c=2"#]]
    .assert_eq(&theirs.join("\n"));
    assert_eq!(both_ways(&mut ours), theirs);
}
