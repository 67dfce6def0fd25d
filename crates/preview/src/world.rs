//! A small world on a virtual clock: a copy of a cluster, or an empty one.

use std::borrow::Cow;
use std::sync::Arc;

use api::{Clock, Rng, Time};
use apiserver::{ApiServer, Options as ServerOptions};
use bytes::Bytes;
use client::{Client, Transport};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use manager::run::Manager;
use manager::{Command, Options};
use runtime::stop::Stopper;
use runtime::{Decisions, Informers, Stop, Task, spawn};
use serde::Deserialize;
use serde_json::Value;
use tower::ServiceExt;

/// Make it inside a current-thread runtime with paused time. What was started ends when it is dropped.
pub(crate) struct World {
    pub(crate) clock: Clock,
    pub(crate) decisions: Decisions,
    pub(crate) server: ApiServer,
    rng: Rng,
    running: Vec<(Stopper, Task<()>)>,
}

impl World {
    pub(crate) fn new(begin: Time, seed: u64, decisions: Decisions) -> World {
        let rng = Rng::from_seed(seed);
        let clock = runtime::clock::following_tokio(begin);
        let options = ServerOptions {
            // Nobody asks who wrote which field, and keeping account costs a third of a write.
            track_fields: false,
            // Autoscalers read what pods are assumed to use.
            serves: apiserver::Extra {
                usage: true,
                ..apiserver::Extra::default()
            },
            ..ServerOptions::in_memory(clock.clone(), rng.fork())
        };
        let server = ApiServer::open(options)
            .unwrap_or_else(|error| panic!("the embedded API server starts in memory: {error}"));
        World {
            clock,
            decisions,
            server,
            rng,
            running: Vec::new(),
        }
    }

    pub(crate) fn client(&self, agent: &str) -> Client {
        Client::new(self.server.transport()).with_user_agent(agent)
    }

    /// Puts objects in as they are elsewhere; gives what could not be put in, and why. Definitions of
    /// kinds come first, so that their objects are known.
    pub(crate) fn restore(&self, objects: Vec<Value>) -> Vec<String> {
        let known = uids(&objects);
        let (definitions, others): (Vec<Value>, Vec<Value>) = objects
            .into_iter()
            .partition(|object| object["kind"] == "CustomResourceDefinition");
        let mut problems = Vec::new();
        for mut object in definitions.into_iter().chain(others) {
            drop_unknown_owners(&mut object, &known);
            if let Err(problem) = self.server.restore(object) {
                problems.push(problem.to_string());
            }
        }
        problems
    }

    /// The server for those who take part; events that are no warnings are not stored.
    pub(crate) fn transport(&self) -> Transport {
        let inner = self.server.transport();
        Transport::new(tower::service_fn(move |request: Request<Bytes>| {
            let inner = inner.clone();
            async move {
                if is_normal_event(&request) {
                    let body = Full::new(request.into_body()).map_err(|never| match never {});
                    return Ok(Response::new(body.boxed_unsync()));
                }
                inner.oneshot(request).await
            }
        }))
    }

    /// Starts controllers, all or some of them, and gives the informers that they share.
    pub(crate) fn start_manager(
        &mut self,
        controllers: &str,
        transport: Transport,
    ) -> Arc<Informers> {
        let flag = format!("--controllers={controllers}");
        let options = match Options::parse([flag], "preview") {
            Ok(Command::Run(options)) => options,
            _ => unreachable!("the names of our own controllers are valid"),
        };
        let manager = Manager::in_process(
            transport,
            &options,
            self.clock.clone(),
            self.rng.fork(),
            self.decisions.clone(),
        );
        let informers = manager.environment.informers.clone();
        let (stopper, stop) = Stop::new();
        self.running.push((stopper, spawn(manager.run(None, stop))));
        informers
    }

    pub(crate) fn start_nodes(&mut self, config: nodes::Config) {
        let client = Client::new(self.transport()).with_user_agent("nodes");
        let cluster = nodes::Cluster::new(client, config, self.clock.clone(), self.rng.fork());
        let (stopper, stop) = Stop::new();
        self.running.push((stopper, spawn(cluster.run(stop))));
    }
}

/// Events that are no warnings: half of all writes, and nobody reads them here.
fn is_normal_event(request: &Request<Bytes>) -> bool {
    request.method() == Method::POST
        && request.uri().path().ends_with("/events")
        && is_normal(request.body())
}

fn is_normal(event: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Event<'a> {
        #[serde(rename = "type", borrow)]
        type_: Cow<'a, str>,
    }
    serde_json::from_slice::<Event<'_>>(event).is_ok_and(|event| event.type_ == "Normal")
}

/// The server for readers: writes fail, as this is a copy.
pub(crate) fn read_only(inner: Transport) -> Transport {
    Transport::new(tower::service_fn(move |request: Request<Bytes>| {
        let inner = inner.clone();
        async move {
            if request.method() == Method::GET {
                return inner.oneshot(request).await;
            }
            Err("this is a copy: nothing is written".into())
        }
    }))
}

fn uids(objects: &[Value]) -> std::collections::BTreeSet<String> {
    let uid = |object: &Value| object["metadata"]["uid"].as_str().map(str::to_owned);
    objects.iter().filter_map(uid).collect()
}

/// The garbage collector would think that an owner is gone that was not copied.
fn drop_unknown_owners(object: &mut Value, known: &std::collections::BTreeSet<String>) {
    if let Some(owners) = object["metadata"]["ownerReferences"].as_array_mut() {
        owners.retain(|owner| owner["uid"].as_str().is_some_and(|uid| known.contains(uid)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_normal_by_its_type_whatever_else_it_says() {
        assert!(is_normal(
            br#"{"type": "Normal", "message": "Created pod: a"}"#
        ));
        assert!(is_normal(br#"{"type":"Normal"}"#));
        assert!(!is_normal(
            br#"{"type":"Warning","note":{"type":"Normal"}}"#
        ));
        assert!(!is_normal(b"{}"));
        assert!(!is_normal(b"not JSON"));
    }
}
