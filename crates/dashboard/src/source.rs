//! What the dashboard needs of the process that it is in, and does not know itself: explanations, predictions, actions.

use client::Client;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An object, by its kind and name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    pub kind: String,
    #[serde(default)]
    pub namespace: String,
    pub name: String,
}

/// Something that a person does to the cluster in the box.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "camelCase")]
pub enum Action {
    StopNode { name: String },
    StartNode { name: String },
    DrainNode { name: String },
    FailPod { namespace: String, name: String },
    Speed { factor: f64 },
}

/// Answers what the page asks beyond objects.
pub trait Source: Send + Sync {
    /// What `steersman why` says of an object, as JSON; with this client where it is not for whoever sees everything.
    /// An error is a sentence.
    fn why<'a>(
        &'a self,
        object: &'a Named,
        client: Option<&'a Client>,
    ) -> BoxFuture<'a, Result<Value, String>>;

    /// What `steersman preview` expects of a rollout that has begun, from what this client may read where it is not for
    /// whoever sees everything; none where it cannot tell.
    fn predict<'a>(
        &'a self,
        object: &'a Named,
        client: Option<&'a Client>,
    ) -> BoxFuture<'a, Option<Value>>;

    /// Does it, with this client's rights; says what was done, or why it was not. None where nothing can be done.
    fn act<'a>(
        &'a self,
        action: &'a Action,
        client: &'a Client,
    ) -> Option<BoxFuture<'a, Result<String, String>>>;

    /// How many times as fast as on the wall the cluster's time passes; none where that cannot be changed.
    fn speed(&self) -> Option<f64> {
        None
    }
}
