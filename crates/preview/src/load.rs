//! Loads that are assumed: what the pods of a workload share, over time.

use std::fmt;

use api::MicroTime;
use api::usage::Curve;
use client::{Client, Patch};
use controllers::discovery::Discovery;
use serde_json::{Value, json};

use crate::PreviewError;

/// A metric over time: of the pods of a workload, or from outside.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Kind and name of the workload whose pods share it; none for a metric from outside.
    pub(crate) of: Option<(String, String)>,
    /// `cpu`, `memory`, or the name of a metric.
    pub(crate) metric: String,
    pub(crate) curve: String,
}

impl Load {
    /// `deployment/web:cpu=0s=2,10m=12`, or `external:queue_depth=...`.
    pub fn parse(text: &str) -> Result<Load, String> {
        let form = "write KIND/NAME:METRIC=CURVE, such as deploy/web:cpu=0s=1,10m=8,30m=1, or external:METRIC=CURVE";
        let (of, rest) = text.split_once(':').ok_or(form)?;
        let (metric, curve) = rest.split_once('=').ok_or(form)?;
        let of = match of {
            "external" => None,
            of => {
                let (kind, name) = of.split_once('/').ok_or(form)?;
                Some((kind.to_owned(), name.to_owned()))
            }
        };
        if metric.is_empty() {
            return Err(form.to_owned());
        }
        Curve::parse(curve)
            .map_err(|why| format!("the curve {curve:?} cannot be read: {why}; {form}"))?;
        Ok(Load {
            of,
            metric: metric.to_owned(),
            curve: curve.to_owned(),
        })
    }

    fn annotation(&self) -> String {
        match self.metric.as_str() {
            "cpu" | "memory" => format!("steersman.dev/{}-load", self.metric),
            metric => format!("load.metrics.steersman.dev/{metric}"),
        }
    }

    /// Whether it is shared by the pods of the workload of this kind and name.
    pub(crate) fn is_of(&self, discovery: &Discovery, kind: &str, name: &str) -> bool {
        let own = self.of.as_ref().filter(|(_, own)| own == name);
        let resource = own.and_then(|(asked, _)| discovery.named(asked));
        resource.is_some_and(|resource| resource.kind == kind)
    }

    /// Puts it on the workload, beginning then; false where there is no such workload yet.
    pub(crate) async fn declare(
        &self,
        client: &Client,
        discovery: &Discovery,
        namespace: &str,
        begin: MicroTime,
    ) -> Result<bool, PreviewError> {
        let Some((kind, name)) = &self.of else {
            return Ok(self.declare_outside(client, discovery, namespace).await);
        };
        let Some(resource) = discovery.named(kind) else {
            return Err(PreviewError::Assumption(format!(
                "--load {self}: no kind {kind:?} is known"
            )));
        };
        let annotations = json!({
            self.annotation(): self.curve, "steersman.dev/load-since": begin.time().to_string(),
        });
        let change = json!({"metadata": {"annotations": annotations}}).to_string();
        let patch = Patch::Merge(change.into());
        let answer = client.patch(resource, namespace, name, None, &patch).await;
        match answer {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(PreviewError::Assumption(format!(
                "--load {self}: {}",
                client::describe(&error)
            ))),
        }
    }

    /// A curve from outside begins with the ConfigMap that holds it, so that it is recreated.
    async fn declare_outside(
        &self,
        client: &Client,
        discovery: &Discovery,
        namespace: &str,
    ) -> bool {
        let Some(resource) = discovery.named("configmaps") else {
            return false;
        };
        let name = format!("load-{}", self.metric.to_lowercase().replace('_', "-"));
        let options = client::DeleteOptions::default();
        let _ = client.delete(resource, namespace, &name, &options).await;
        let map: Value = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "labels": {"steersman.dev/external-metrics": "true"}},
            "data": {self.metric.as_str(): self.curve},
        });
        let made = client.create(resource, namespace, map.to_string()).await;
        made.is_ok()
    }
}

/// As it was given.
impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.of {
            Some((kind, name)) => write!(f, "{kind}/{name}:{}={}", self.metric, self.curve),
            None => write!(f, "external:{}={}", self.metric, self.curve),
        }
    }
}

#[cfg(test)]
mod tests {
    use api::kinds::{Deployment, StatefulSet};
    use api::{Resource, ResourceType};
    use controllers::discovery::Served;

    use super::*;

    fn served(resource: ResourceType) -> Served {
        let short = match &*resource.kind {
            "Deployment" => "deploy",
            _ => "sts",
        };
        Served {
            resource,
            other_names: vec![short.to_owned()],
            verbs: Vec::new(),
            has_scale: true,
            preferred: true,
        }
    }

    #[test]
    fn loads_name_a_workload_or_a_metric_from_outside() {
        let load = Load::parse("deploy/web:cpu=0s=1,10m=8").unwrap();
        assert_eq!(load.to_string(), "deploy/web:cpu=0s=1,10m=8");
        assert_eq!(load.annotation(), "steersman.dev/cpu-load");
        let discovery = Discovery {
            resources: [Deployment::TYPE, StatefulSet::TYPE].map(served).into(),
            ..Discovery::default()
        };
        assert!(load.is_of(&discovery, "Deployment", "web"));
        assert!(!load.is_of(&discovery, "StatefulSet", "web"));
        assert!(!load.is_of(&discovery, "Deployment", "db"));
        let load = Load::parse("external:queue=5").unwrap();
        assert_eq!((load.of, load.metric.as_str()), (None, "queue"));
        for bad in [
            "web",
            "deploy/web",
            "deploy/web:cpu",
            "web:cpu=1",
            "deploy/web:=1",
        ] {
            assert!(Load::parse(bad).unwrap_err().contains("KIND/NAME"), "{bad}");
        }
        let error = Load::parse("deploy/web:cpu=lots").unwrap_err();
        assert!(
            error.starts_with("the curve \"lots\" cannot be read: \"lots\" is not an amount"),
            "{error}"
        );
    }
}
