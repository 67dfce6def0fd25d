//! The whole server, called as clients call it, on virtual time.

mod access;
mod addresses;
mod aggregation;
mod apply;
mod at_rest;
mod autoscalers;
mod bounds;
mod certificates;
mod conformance;
mod connections;
mod containers;
mod conversion;
mod custom;
mod delete;
mod durable;
mod embed;
mod events;
mod eviction;
mod foreign;
mod full_disk;
mod gates;
mod hostile;
mod long_answers;
mod mutations;
mod nodes;
mod openid;
mod paths;
mod policies;
mod privileges;
mod reopened;
mod rules;
mod trust_bundles;
mod usage;
mod verbs;
mod watch;
mod webhooks;

use crate::{ApiServer, Body, Options};
use api::{Clock, MicroTime, Rng};
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

/// A server in memory whose clock follows tokio's paused time.
struct Server {
    server: ApiServer,
}

impl Server {
    fn new() -> Server {
        Server::with_log(1000)
    }

    fn with_log(event_log_capacity: usize) -> Server {
        Server::with(|options| options.event_log_capacity = event_log_capacity)
    }

    fn with(change: impl FnOnce(&mut Options)) -> Server {
        let start = tokio::time::Instant::now();
        let clock = Clock::new(move || {
            let elapsed = tokio::time::Instant::now().duration_since(start);
            MicroTime::from_unix_micros(
                1_700_000_000_000_000 + i64::try_from(elapsed.as_micros()).unwrap(),
            )
        });
        let mut options = Options::in_memory(clock, Rng::from_seed(1));
        change(&mut options);
        Server {
            server: ApiServer::open(options).unwrap(),
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        accept: &str,
        body: Bytes,
    ) -> Response<Body> {
        let request = Request::builder().method(method).uri(path);
        let request = request
            .header("content-type", content_type)
            .header("accept", accept);
        self.server
            .transport()
            .oneshot(request.body(body).unwrap())
            .await
            .unwrap()
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> (u16, Value) {
        let response = self
            .send(method, path, content_type, "application/json", body)
            .await;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (
            code,
            serde_json::from_slice(&bytes)
                .unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes))),
        )
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.call(Method::GET, path, "", Bytes::new()).await
    }

    async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.call(
            Method::POST,
            path,
            "application/json",
            body.to_string().into(),
        )
        .await
    }

    async fn put(&self, path: &str, body: Value) -> (u16, Value) {
        self.call(
            Method::PUT,
            path,
            "application/json",
            body.to_string().into(),
        )
        .await
    }

    async fn patch(&self, path: &str, kind: &str, body: Value) -> (u16, Value) {
        self.call(
            Method::PATCH,
            path,
            &format!("application/{kind}+json"),
            body.to_string().into(),
        )
        .await
    }

    async fn delete(&self, path: &str) -> (u16, Value) {
        self.call(Method::DELETE, path, "", Bytes::new()).await
    }

    async fn config_map(&self, name: &str, data: Value) -> Value {
        let (code, value) = self
            .post(
                CONFIG_MAPS,
                json!({"metadata": {"name": name, "labels": {"app": name}}, "data": data}),
            )
            .await;
        assert_eq!(code, 201, "{value}");
        value
    }

    /// What the service account controller would do: pods need it.
    async fn service_account(&self) {
        let accounts = "/api/v1/namespaces/default/serviceaccounts";
        self.post(accounts, json!({"metadata": {"name": "default"}}))
            .await;
    }

    async fn pod(&self, name: &str, node: &str) -> Value {
        self.service_account().await;
        let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
        if !node.is_empty() {
            spec["nodeName"] = json!(node);
        }
        let (code, value) = self
            .post(PODS, json!({"metadata": {"name": name}, "spec": spec}))
            .await;
        assert_eq!(code, 201, "{value}");
        value
    }
}

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn revision(value: &Value) -> u64 {
    value["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap()
}

fn names(list: &Value) -> Vec<&str> {
    list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect()
}

fn deployment(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    })
}
