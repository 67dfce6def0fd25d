//! Logs, commands and usage of simulated containers, from the API server to the nodes.

use std::sync::Arc;

use api::Clock;
use api::usage::{Declared, External};
use client::Client;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use nodes::Containers;
use serde_json::Value;

use crate::apiserver::Served;

/// Has the server ask the simulated nodes.
pub(super) fn connect(served: &Served, clock: &Clock, config: &nodes::Config) {
    let client = Client::new(served.server.transport()).with_user_agent("steersman-nodes");
    let containers = Containers::new(client, clock.clone(), config);
    served.server.connect_kubelets(Arc::new(Bridge(containers)));
}

/// The server and the nodes do not know each other: here one's words become the other's.
struct Bridge(Containers);

impl ::apiserver::Kubelets for Bridge {
    fn log(
        &self,
        request: ::apiserver::LogRequest,
    ) -> BoxFuture<'static, Result<BoxStream<'static, bytes::Bytes>, String>> {
        let containers = self.0.clone();
        let stream = match request.stream.as_deref() {
            Some("Stdout") => Some(nodes::Stream::Stdout),
            Some("Stderr") => Some(nodes::Stream::Stderr),
            _ => None,
        };
        let request = nodes::LogRequest {
            pod: Arc::unwrap_or_clone(request.pod),
            container: request.container,
            follow: request.follow,
            previous: request.previous,
            timestamps: request.timestamps,
            since: request.since,
            tail_lines: request.tail_lines,
            limit_bytes: request.limit_bytes,
            stream,
        };
        Box::pin(async move { containers.log(request).await })
    }

    fn exec(
        &self,
        request: ::apiserver::ExecRequest,
    ) -> BoxFuture<'static, Result<BoxStream<'static, ::apiserver::Output>, String>> {
        let containers = self.0.clone();
        let request = nodes::ExecRequest {
            pod: Arc::unwrap_or_clone(request.pod),
            container: request.container,
            command: request.command,
        };
        Box::pin(async move {
            let outputs = containers.exec(request).await?;
            let translated = outputs.map(|output| match output {
                nodes::Output::Stdout(text) => ::apiserver::Output::Stdout(text),
                nodes::Output::Stderr(text) => ::apiserver::Output::Stderr(text),
                nodes::Output::Exit(code) => ::apiserver::Output::Exit(code),
            });
            Ok(translated.boxed())
        })
    }
    fn usage(&self, pod: &Value) -> Vec<Declared> {
        self.0.usage(pod)
    }

    fn external_metrics(&self) -> Vec<External> {
        self.0.external_metrics()
    }
}
