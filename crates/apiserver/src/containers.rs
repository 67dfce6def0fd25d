//! What the server passes on to whoever runs the containers, as kube-apiserver does to kubelets: logs, commands
//! and usage. The process that the server is embedded in says who that is.

use crate::server::ApiServer;
use api::MicroTime;
use api::usage::{Declared, External};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use serde_json::Value;
use std::sync::Arc;

/// Which part of which log is asked for.
#[derive(Clone, Debug)]
pub struct LogRequest {
    pub pod: Arc<Value>,
    pub container: String,
    pub follow: bool,
    pub previous: bool,
    pub timestamps: bool,
    pub since: Option<MicroTime>,
    pub tail_lines: Option<usize>,
    pub limit_bytes: Option<usize>,
    /// `Stdout` or `Stderr`, if only one of them is asked for.
    pub stream: Option<String>,
}

/// A command to run in a container.
#[derive(Clone, Debug)]
pub struct ExecRequest {
    pub pod: Arc<Value>,
    pub container: String,
    pub command: Vec<String>,
}

/// What comes of a command; the exit code is the last.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    Stdout(Bytes),
    Stderr(Bytes),
    Exit(i32),
}

/// Whoever runs the containers. Errors are sentences for users.
pub trait Kubelets: Send + Sync {
    fn log(
        &self,
        request: LogRequest,
    ) -> BoxFuture<'static, Result<BoxStream<'static, Bytes>, String>>;

    fn exec(
        &self,
        request: ExecRequest,
    ) -> BoxFuture<'static, Result<BoxStream<'static, Output>, String>>;

    /// What a pod is said to use, where neither it nor its owner says so.
    fn usage(&self, pod: &Value) -> Vec<Declared>;

    /// Metrics from outside the cluster.
    fn external_metrics(&self) -> Vec<External>;
}

impl ApiServer {
    /// Has logs and commands answered from now on; before, they are not implemented.
    pub fn connect_kubelets(&self, kubelets: Arc<dyn Kubelets>) {
        *self.shared().mounts.kubelets.write() = Some(kubelets);
    }

    /// Lets go of them: they know this server, and what it stores is closed when nobody knows it any more.
    pub fn disconnect_kubelets(&self) {
        *self.shared().mounts.kubelets.write() = None;
    }
}
