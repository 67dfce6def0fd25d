//! The dashboard of `up`: what it is told of the cluster, and how people get to it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use api::{Clock, Rng};
use client::Client;
use controllers::discovery::Discovery;
use dashboard::{Access, Action, Dashboard, Feed, LinkKey, Named, Setup, Source};
use explain::Facts as Explained;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use runtime::pace::Speed;
use runtime::{Decisions, Stop, Task, spawn};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::OnceCell;

use super::predictor::Predictor;
use crate::apiserver::Served;
use crate::connect::{Connection, PAGE, PAGE_IN_PROCESS};
use crate::why::{self, Answer, Gatherer};
use crate::{chaos, files};

/// Where the dashboard is, for `steersman dashboard` and whoever started the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Place {
    pub(crate) url: String,
    /// What links are signed with: as private as the kubeconfig beside it.
    pub(crate) key_file: PathBuf,
}

impl Place {
    /// A new link, which opens the page once.
    pub(crate) fn link(&self) -> Result<String> {
        let file = self.key_file.display();
        let key = std::fs::read_to_string(&self.key_file)
            .with_context(|| format!("cannot read the dashboard's key {file}"))?;
        Ok(LinkKey::parse(&key).link(&self.url))
    }
}

const DEFAULT_PORT: u16 = 6444;
const KEY_FILE: &str = "dashboard.key";

/// The port that was asked for, or else the default one, or else any.
pub(crate) async fn listen(asked: Option<u16>) -> Result<TcpListener> {
    let port = asked.unwrap_or(DEFAULT_PORT);
    match (TcpListener::bind(("127.0.0.1", port)).await, asked) {
        (Ok(listener), _) => Ok(listener),
        (Err(error), Some(port)) => Err(error).with_context(|| {
            format!("cannot listen on port {port} for the dashboard: is it in use? Leave --dashboard-port out and a free one is picked")
        }),
        (Err(_), None) => TcpListener::bind(("127.0.0.1", 0))
            .await
            .context("cannot listen on any port for the dashboard"),
    }
}

/// What the dashboard of a box is made of.
pub(crate) struct Parts<'a> {
    pub(crate) served: &'a Served,
    pub(crate) feed: Arc<Feed>,
    pub(crate) decisions: Decisions,
    pub(crate) clock: &'a Clock,
    pub(crate) speed: Option<Speed>,
    pub(crate) rng: Rng,
    pub(crate) nodes: usize,
}

/// Serves the dashboard, whose key is kept in this folder.
pub(crate) fn start(
    parts: Parts<'_>,
    listener: TcpListener,
    dir: &Path,
    stop: &Stop,
) -> Result<(Task<()>, Place)> {
    let address = listener.local_addr()?;
    let (key, key_file) = (LinkKey::generate(), dir.join(KEY_FILE));
    files::write_private(&key_file, key.text())?;
    let client =
        Client::new(parts.served.server.transport()).with_user_agent("steersman-dashboard");
    let source = InTheBox {
        client: client.clone(),
        server: parts.served.url.clone(),
        clock: parts.clock.clone(),
        decisions: parts.decisions.clone(),
        speed: parts.speed,
        predictor: Some(Predictor::on(Some(parts.nodes))),
        page: PAGE_IN_PROCESS,
        discovery: OnceCell::new(),
    };
    let dashboard = Dashboard::new(Setup {
        feed: parts.feed,
        client,
        decisions: parts.decisions,
        clock: parts.clock.clone(),
        rng: parts.rng,
        source: Arc::new(source),
        cluster: parts.served.url.trim_start_matches("https://").to_owned(),
        acts: true,
        has_owner: true,
    });
    let access = Arc::new(Access::new(&key, address.port()));
    let task = spawn(dashboard::serve(dashboard, access, listener, stop.clone()));
    let place = Place {
        url: format!("http://{address}"),
        key_file: std::path::absolute(key_file)?,
    };
    Ok((task, place))
}

/// What the process that runs everything can say and do.
pub(crate) struct InTheBox {
    client: Client,
    server: String,
    clock: Clock,
    decisions: Decisions,
    speed: Option<Speed>,
    /// None where nothing is predicted.
    predictor: Option<Predictor>,
    /// How many objects are listed at a time.
    page: u32,
    discovery: OnceCell<Discovery>,
}

/// As long as `steersman node drain` tries when nobody says.
const DRAIN_PATIENCE: Duration = Duration::from_secs(60);

impl Source for InTheBox {
    fn why<'a>(
        &'a self,
        object: &'a Named,
        client: Option<&'a Client>,
    ) -> BoxFuture<'a, Result<Value, String>> {
        async move {
            let explained = self.explain(object, client).await;
            explained.map_err(|error| client::sentence(error.as_ref()))
        }
        .boxed()
    }

    fn predict<'a>(
        &'a self,
        object: &'a Named,
        client: Option<&'a Client>,
    ) -> BoxFuture<'a, Option<Value>> {
        async move {
            let predictor = self.predictor.as_ref()?;
            let discovery = self.discovery().await.ok()?;
            let connection = self.connection(client);
            predictor.predict(&connection, discovery, object).await
        }
        .boxed()
    }

    fn act<'a>(
        &'a self,
        action: &'a Action,
        client: &'a Client,
    ) -> Option<BoxFuture<'a, Result<String, String>>> {
        let done = async move {
            let done = self.carry_out(action, client).await;
            done.map_err(|error| client::sentence(error.as_ref()))
        };
        Some(done.boxed())
    }

    fn speed(&self) -> Option<f64> {
        self.speed.as_ref().map(Speed::get)
    }
}

impl InTheBox {
    /// One for a cluster that is not simulated: it explains and predicts, and does nothing.
    pub(crate) fn on_a_cluster(
        client: Client,
        server: &str,
        clock: &Clock,
        decisions: &Decisions,
    ) -> InTheBox {
        InTheBox {
            predictor: Some(Predictor::on(None)),
            ..InTheBox::without_hands(client, server, clock, decisions)
        }
    }

    /// One that explains and no more: for what is recorded.
    pub(crate) fn without_hands(
        client: Client,
        server: &str,
        clock: &Clock,
        decisions: &Decisions,
    ) -> InTheBox {
        InTheBox {
            client,
            server: server.to_owned(),
            clock: clock.clone(),
            decisions: decisions.clone(),
            speed: None,
            predictor: None,
            page: PAGE,
            discovery: OnceCell::new(),
        }
    }

    async fn explain(&self, object: &Named, client: Option<&Client>) -> Result<Value> {
        let connection = self.connection(client);
        let discovery = self.discovery().await?;
        let Some(resource) = discovery.named(&object.kind) else {
            bail!("the server has no resource {:?}", object.kind);
        };
        let gatherer = Gatherer {
            connection: &connection,
            discovery,
            namespace: &object.namespace,
            for_plans: false,
        };
        let mut facts = gatherer.facts(resource, &object.name).await?;
        let answer = match client {
            // Whoever sees everything is told what is known here; all others if they might read it from elsewhere.
            None => self.decisions_for(&facts),
            Some(viewer) if dashboard::may_read_decisions(viewer).await => {
                self.decisions_for(&facts)
            }
            Some(_) => Answer::Nobody(
                "you may not read /debug/controllers/, which a rule with nonResourceURLs would allow".to_owned(),
            ),
        };
        match answer {
            Answer::Decisions {
                address,
                decided,
                started,
            } => {
                facts.source = explain::Source::Manager(address);
                facts.decisions = decided;
                facts.started = started;
            }
            Answer::Nobody(why) => facts.source = explain::Source::Part(why),
        }
        Ok(serde_json::to_value(explain::explain(&facts))?)
    }

    /// With the rights of this client, or of whoever sees everything.
    fn connection(&self, client: Option<&Client>) -> Connection {
        let own = client.unwrap_or(&self.client).clone();
        Connection::within(own, &self.server, &self.clock, self.page)
    }

    /// All kinds that have explanations are built in, so they are asked for once.
    async fn discovery(&self) -> Result<&Discovery> {
        let connection = self.connection(None);
        self.discovery
            .get_or_try_init(|| async { why::read_discovery(&connection).await })
            .await
    }

    fn decisions_for(&self, facts: &Explained) -> Answer {
        let named: Vec<(&str, &str, &str)> = why::decided_about(facts)
            .map(|object| {
                let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
                let text = |pointer: &str| text(pointer).unwrap_or_default();
                (
                    text("/kind"),
                    text("/metadata/namespace"),
                    text("/metadata/name"),
                )
            })
            .collect();
        let decided = self
            .decisions
            .about(|_, about| named.contains(&(&*about.kind, &*about.namespace, &*about.name)));
        Answer::Decisions {
            address: self.server.clone(),
            decided,
            started: Some(self.decisions.started().borrow().clone()),
        }
    }

    async fn carry_out(&self, action: &Action, client: &Client) -> Result<String> {
        match action {
            Action::StopNode { name } => chaos::stop(client, name).await,
            Action::StartNode { name } => chaos::start(client, name).await,
            Action::DrainNode { name } => {
                let told = chaos::cordon(client, name).await?;
                let (client, name) = (client.clone(), name.clone());
                // It takes as long as budgets let it; the page shows how it goes.
                spawn(async move {
                    let _ = chaos::evict_all(&client, &name, DRAIN_PATIENCE, |_| {}).await;
                })
                .detach();
                Ok(format!("{told}; its pods are evicted as budgets allow"))
            }
            Action::FailPod { namespace, name } => chaos::fail(client, namespace, name).await,
            Action::Speed { factor } => {
                let Some(speed) = &self.speed else {
                    bail!(
                        "time passes as on the wall; `steersman up --speed 10` lets it be changed"
                    );
                };
                if !(super::SLOWEST..=super::FASTEST).contains(factor) {
                    bail!("not a number from {} to {}", super::SLOWEST, super::FASTEST);
                }
                speed.set(*factor);
                Ok(format!("time passes {factor} times as fast"))
            }
        }
    }
}
