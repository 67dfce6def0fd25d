//! What files say that pods use, from the simulated nodes to the API server.

use std::sync::Arc;

use api::usage::{Declared, External};
use apiserver::{ApiServer, ExecRequest, Kubelets, LogRequest, Output};
use bytes::Bytes;
use client::Client;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use nodes::Containers;
use serde_json::Value;

/// Has the server ask the files from now on. Curves that count from a start count from here.
pub(crate) fn connect(server: &ApiServer, clock: &api::Clock, config: &nodes::Config) {
    let client = Client::new(server.transport()).with_user_agent("nodes");
    let containers = Containers::new(client, clock.clone(), config);
    server.connect_kubelets(Arc::new(FromFiles(containers)));
}

/// Nobody looks into a container of a preview: what its pods use is all that is asked for.
struct FromFiles(Containers);

const NOT_IN_A_PREVIEW: &str = "a preview has no logs and runs no commands";

impl Kubelets for FromFiles {
    fn log(&self, _: LogRequest) -> BoxFuture<'static, Result<BoxStream<'static, Bytes>, String>> {
        Box::pin(async { Err(NOT_IN_A_PREVIEW.to_owned()) })
    }

    fn exec(
        &self,
        _: ExecRequest,
    ) -> BoxFuture<'static, Result<BoxStream<'static, Output>, String>> {
        Box::pin(async { Err(NOT_IN_A_PREVIEW.to_owned()) })
    }

    fn usage(&self, pod: &Value) -> Vec<Declared> {
        self.0.usage(pod)
    }

    fn external_metrics(&self) -> Vec<External> {
        self.0.external_metrics()
    }
}
