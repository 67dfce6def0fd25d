//! A small world on a virtual clock: a copy of a cluster, or an empty one.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use api::{Clock, Key, Rng, Time};
use apiserver::{ApiServer, Options as ServerOptions};
use bytes::Bytes;
use client::{Client, Transport};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use manager::run::Manager;
use manager::{Command, Options};
use parking_lot::Mutex;
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
    /// Pods whose controller was not copied, and what that is: `rollout/web`.
    managed_elsewhere: Mutex<BTreeMap<Key, String>>,
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
            managed_elsewhere: Mutex::default(),
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
            if let Some((pod, controller)) = unknown_controller(&object, &known) {
                self.managed_elsewhere.lock().insert(pod, controller);
            }
            drop_unknown_owners(&mut object, &known);
            if let Err(problem) = self.server.restore(object) {
                problems.push(problem.to_string());
            }
        }
        problems
    }

    /// What manages a pod, if it is something that was not copied.
    pub(crate) fn managed_elsewhere(&self, pod: &Key) -> Option<String> {
        self.managed_elsewhere.lock().get(pod).cloned()
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

/// A pod, and the controller that it names and that is not known.
fn unknown_controller(
    object: &Value,
    known: &std::collections::BTreeSet<String>,
) -> Option<(Key, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    let controller = owners.iter().find(|owner| owner["controller"] == true)?;
    let is_pod = object["kind"] == "Pod";
    if !is_pod || known.contains(&text(&controller["uid"])) {
        return None;
    }
    let meta = &object["metadata"];
    let pod = Key::new(&text(&meta["namespace"]), &text(&meta["name"]));
    let (kind, name) = (text(&controller["kind"]), text(&controller["name"]));
    Some((pod, format!("{}/{name}", kind.to_lowercase())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_whose_controller_was_not_copied_is_managed_elsewhere() {
        let owner = |uid: &str| serde_json::json!({"kind": "Rollout", "name": "web", "uid": uid, "controller": true});
        let pod = |uid: &str| serde_json::json!({"kind": "Pod", "metadata": {"namespace": "shop", "name": "a", "ownerReferences": [owner(uid)]}});
        let known = std::collections::BTreeSet::from(["here".to_owned()]);
        let elsewhere = Some((Key::new("shop", "a"), "rollout/web".to_owned()));
        assert_eq!(unknown_controller(&pod("gone"), &known), elsewhere);
        assert_eq!(unknown_controller(&pod("here"), &known), None);
        let bare = serde_json::json!({"kind": "Pod", "metadata": {"name": "a"}});
        assert_eq!(unknown_controller(&bare, &known), None);
    }

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
