//! What pods are said to use, where files say so: stages, and nodes for whatever runs on them. The API server serves it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::usage::{Curve, Declared, External, Metric};
use api::{Istr, LabelSet, Time};
use serde::Deserialize;

use crate::pod::Pod;
use crate::pod_selector::{PodSelector, WireSelector};

/// What one declaration in a file says: each thing over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Usage(Vec<(Metric, Arc<Curve>)>);

/// Where a declaration stands and how it is meant.
pub(crate) struct Declaration<'a> {
    pub by: &'a str,
    pub container: Option<&'a str>,
    pub after: Duration,
    pub is_shared: bool,
}

impl Usage {
    pub(crate) fn new(
        cpu: Option<Curve>,
        memory: Option<Curve>,
        metrics: BTreeMap<Istr, Curve>,
    ) -> Usage {
        let resources = [("cpu", cpu), ("memory", memory)];
        let resources = resources
            .into_iter()
            .filter_map(|(name, curve)| Some((Metric::Resource(name), curve?)));
        let metrics = metrics
            .into_iter()
            .map(|(name, curve)| (Metric::Custom(name), curve));
        let all = resources.chain(metrics);
        Usage(
            all.map(|(metric, curve)| (metric, Arc::new(curve)))
                .collect(),
        )
    }

    /// Adds what it says of a pod to what is said of it already.
    pub(crate) fn declare(&self, declaration: &Declaration<'_>, said: &mut Vec<Declared>) {
        said.extend(self.0.iter().map(|(metric, curve)| Declared {
            by: Istr::from(declaration.by),
            metric: metric.clone(),
            container: declaration.container.map(Istr::from),
            curve: curve.clone(),
            after: declaration.after,
            is_shared: declaration.is_shared,
        }));
    }
}

/// What pods on some nodes are said to use.
#[derive(Clone, Debug)]
pub struct NodeUsage {
    selector: PodSelector,
    container: Option<String>,
    usage: Usage,
}

impl NodeUsage {
    pub(crate) fn declare(&self, pod: &Pod, said: &mut Vec<Declared>) {
        if self.selector.selects(pod) {
            let declaration = Declaration {
                by: "",
                container: self.container.as_deref(),
                after: Duration::ZERO,
                is_shared: false,
            };
            self.usage.declare(&declaration, said);
        }
    }
}

/// As people write it in a nodes file.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct WireUsage {
    selector: WireSelector,
    container: Option<String>,
    cpu: Option<Curve>,
    memory: Option<Curve>,
    metrics: BTreeMap<Istr, Curve>,
}

impl WireUsage {
    /// The field that is wrong, and what is wrong with it.
    pub(crate) fn compile(self) -> Result<NodeUsage, (&'static str, String)> {
        if self.container.is_some() && !self.metrics.is_empty() {
            let problem = "are of the pod, so container does not go with them";
            return Err(("metrics", problem.to_owned()));
        }
        let usage = Usage::new(self.cpu, self.memory, self.metrics);
        if usage.0.is_empty() {
            return Err(("", "declares neither cpu nor memory nor metrics".to_owned()));
        }
        Ok(NodeUsage {
            selector: self
                .selector
                .compile()
                .map_err(|problem| ("selector", problem))?,
            container: self.container,
            usage,
        })
    }
}

/// A metric from outside the cluster, as people write it in a stages file.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ExternalMetric {
    name: Istr,
    #[serde(default)]
    namespace: Option<Istr>,
    #[serde(default)]
    labels: LabelSet,
    value: Curve,
    #[serde(default)]
    since: Option<Time>,
}

impl ExternalMetric {
    pub(crate) fn begun(&self, started_at: Time) -> External {
        External {
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            labels: self.labels.clone(),
            curve: Arc::new(self.value.clone()),
            since: self.since.unwrap_or(started_at),
        }
    }
}
