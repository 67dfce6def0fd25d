//! What simulated things are said to use, over time. The files of a simulated cluster declare it and the API server
//! serves it; neither knows the other, so their common words are here.

mod curve;

use std::sync::Arc;
use std::time::Duration;

use crate::{Istr, LabelSet, Time};

pub use curve::{Curve, share_of};

/// What can be declared of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// `cpu` or `memory`, of each container.
    Resource(&'static str),
    /// Anything else, of the pod.
    Custom(Istr),
}

/// One thing that was declared of a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Declared {
    /// Whose declaration it is: pods that share a load share it within one.
    pub by: Istr,
    pub metric: Metric,
    /// Only of this container; of each if not given.
    pub container: Option<Istr>,
    pub curve: Arc<Curve>,
    /// The curve begins this long after the pod did, or its owner for what is shared.
    pub after: Duration,
    /// It is the sum of all pods of one owner.
    pub is_shared: bool,
}

/// A metric from outside the cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct External {
    pub name: Istr,
    /// Only there; everywhere if not given.
    pub namespace: Option<Istr>,
    pub labels: LabelSet,
    pub curve: Arc<Curve>,
    /// When the curve begins.
    pub since: Time,
}
