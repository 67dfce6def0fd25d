//! What is wrong with a kubeconfig, in sentences that say what to do about it.

use std::path::PathBuf;

use crate::BoxError;

/// Why no connection can be configured. Each message stands alone on a user's terminal; print the chain with
/// [`crate::describe`].
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read kubeconfig {}; check --kubeconfig or KUBECONFIG", .path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("kubeconfig {} is malformed; `kubectl config view` should be able to read it", .path.display())]
    Malformed {
        path: PathBuf,
        #[source]
        source: BoxError,
    },
    #[error("the kubeconfig has no context {name:?}; it has {known}")]
    UnknownContext { name: String, known: String },
    #[error("the kubeconfig has no current-context; choose one with `kubectl config use-context`")]
    NoContext,
    #[error(
        "no kubeconfig found ({tried}) and not running in a pod; pass --kubeconfig or set KUBECONFIG"
    )]
    NoKubeconfig { tried: String },
    #[error(
        "context {context:?} of the kubeconfig names the {what} {name:?}, which the kubeconfig does not have"
    )]
    Dangling {
        context: String,
        what: &'static str,
        name: String,
    },
    #[error(
        "{server:?} cannot be the address of an API server: {problem}; it should look like https://10.0.0.1:6443"
    )]
    BadServer { server: String, problem: String },
    #[error("{field} of the kubeconfig's {entry:?} cannot be used: {problem}")]
    BadField {
        entry: String,
        field: &'static str,
        problem: String,
    },
    #[error("cannot read {what} {}; check that the file exists and is readable", .path.display())]
    MissingFile {
        what: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{what} cannot be used: {problem}")]
    BadMaterial { what: String, problem: String },
    #[error(
        "neither --kubeconfig nor --master is given, and this is no pod (KUBERNETES_SERVICE_HOST and \
         KUBERNETES_SERVICE_PORT are not set); pass --kubeconfig"
    )]
    NotInCluster,
    #[error("exec plugin {command:?} failed: {problem}")]
    Exec { command: String, problem: String },
}
