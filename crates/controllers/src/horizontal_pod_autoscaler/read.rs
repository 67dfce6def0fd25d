//! Reads metrics from the three APIs that serve them. Decides nothing; what fails is told in upstream's words.

use std::sync::Arc;
use std::time::Duration;

use api::kinds::{MetricIdentifier, MetricSpec, ObjectName};
use api::quantity::Quantity;
use api::selector::LabelSelector;
use api::{ResourceType, Time};
use bytes::Bytes;
use client::{Client, ListOptions, escape};
use http::Request;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::time::Instant;

use super::calculator::{PodMetric, PodMetrics};
use crate::scale::Scales;

/// What was read for one metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    Pods(PodMetrics),
    /// The values of something that is no pod.
    Values(Vec<i64>),
}

/// An API that hangs must not keep a worker from all other autoscalers.
const PATIENCE: Duration = Duration::from_secs(30);

/// UPSTREAM: the window of custom metrics that do not say theirs.
const DEFAULT_WINDOW: Duration = Duration::from_secs(60);

const POD_METRICS: ResourceType =
    ResourceType::namespaced("metrics.k8s.io", "v1beta1", "pods", "PodMetrics");

pub(super) struct Metrics {
    client: Client,
    scales: Arc<Scales>,
    /// The version of the custom metrics API, and until when it is taken for granted.
    custom_version: Mutex<Option<(String, Instant)>>,
    /// How long it is: UPSTREAM: as long as a period.
    period: Duration,
}

impl Metrics {
    pub(super) fn new(client: &Client, scales: &Arc<Scales>, period: Duration) -> Metrics {
        Metrics {
            client: client.clone(),
            scales: scales.clone(),
            custom_version: Mutex::default(),
            period,
        }
    }

    /// What the metric's API says; `selector` is that of the target's pods.
    pub(super) async fn read(
        &self,
        namespace: &str,
        spec: &MetricSpec,
        selector: &str,
    ) -> Result<Reading, String> {
        let reading = self.read_slowly(namespace, spec, selector);
        match tokio::time::timeout(PATIENCE, reading).await {
            Ok(reading) => reading,
            Err(_) => Err(format!(
                "the API was asked and did not answer within {} s",
                PATIENCE.as_secs()
            )),
        }
    }

    async fn read_slowly(
        &self,
        namespace: &str,
        spec: &MetricSpec,
        selector: &str,
    ) -> Result<Reading, String> {
        match (&*spec.r#type, spec) {
            (
                "Resource",
                MetricSpec {
                    resource: Some(source),
                    ..
                },
            )
            | (
                "ContainerResource",
                MetricSpec {
                    container_resource: Some(source),
                    ..
                },
            ) => {
                let container = match &*spec.r#type {
                    "Resource" => "",
                    _ => &source.container,
                };
                let read = self.resource(namespace, selector, &source.name, container);
                let read = read.await;
                read.map(Reading::Pods).map_err(|error| {
                    format!(
                        "unable to get metrics for resource {}: {error}",
                        source.name
                    )
                })
            }
            (
                "Pods",
                MetricSpec {
                    pods: Some(source), ..
                },
            ) => {
                let (name, metric_selector) = (&source.metric.name, compile(&source.metric)?);
                let read = self.pods(namespace, selector, name, &metric_selector).await;
                read.map(Reading::Pods)
                    .map_err(|error| format!("unable to get metric {name}: {error}"))
            }
            (
                "Object",
                MetricSpec {
                    object: Some(source),
                    ..
                },
            ) => {
                let (name, object) = (&source.metric.name, &source.described_object);
                let metric_selector = compile(&source.metric)?;
                let read = self.object(namespace, object, name, &metric_selector).await;
                // UPSTREAM: the words are in this order.
                read.map(|value| Reading::Values(vec![value]))
                    .map_err(|error| {
                        format!(
                            "unable to get metric {name}: {} on {namespace} {}/{error}",
                            object.kind, object.name
                        )
                    })
            }
            (
                "External",
                MetricSpec {
                    external: Some(source),
                    ..
                },
            ) => {
                let MetricIdentifier { name, selector } = &source.metric;
                let metric_selector = compile(&source.metric)?;
                let read = self.external(namespace, name, &metric_selector).await;
                read.map(Reading::Values).map_err(|error| {
                    let selector = LabelSelector::in_go(selector.as_ref());
                    format!("unable to get external metric {namespace}/{name}/{selector}: {error}")
                })
            }
            _ => Ok(Reading::Values(Vec::new())),
        }
    }

    async fn resource(
        &self,
        namespace: &str,
        selector: &str,
        resource: &str,
        container: &str,
    ) -> Result<PodMetrics, String> {
        let fail = |error: client::Error| {
            let error = in_words(&error, "pods.metrics.k8s.io");
            format!("unable to fetch metrics from resource metrics API: {error}")
        };
        let items: Vec<WirePod> = self.list(&POD_METRICS, namespace, selector, fail).await?;
        if items.is_empty() {
            return Err("no metrics returned from resource metrics API".to_owned());
        }
        let metrics = items.iter().filter_map(|pod| {
            let value = pod.usage(resource, container)?;
            let window = pod
                .window
                .as_deref()
                .and_then(|text| api::GoDuration::parse(text).ok());
            let metric = PodMetric {
                value,
                at: pod.timestamp.unwrap_or_default(),
                window: window.map_or(Duration::ZERO, api::GoDuration::to_std),
            };
            Some((pod.metadata.name.clone(), metric))
        });
        Ok(metrics.collect())
    }

    async fn pods(
        &self,
        namespace: &str,
        selector: &str,
        metric: &str,
        metric_selector: &str,
    ) -> Result<PodMetrics, String> {
        let items = self
            .custom(
                namespace,
                "pods",
                "*",
                metric,
                Some(selector),
                metric_selector,
            )
            .await?;
        if items.is_empty() {
            return Err("no metrics returned from custom metrics API".to_owned());
        }
        let metrics = items.into_iter().map(|item| {
            let window = item.window_seconds.or(item.window);
            let window = window.map(|seconds| u64::try_from(seconds).unwrap_or(0));
            let metric = PodMetric {
                value: item.value.milli_value(),
                at: item.timestamp.unwrap_or_default(),
                window: window.map_or(DEFAULT_WINDOW, Duration::from_secs),
            };
            (item.described_object.name, metric)
        });
        Ok(metrics.collect())
    }

    async fn object(
        &self,
        namespace: &str,
        object: &ObjectName,
        metric: &str,
        metric_selector: &str,
    ) -> Result<i64, String> {
        let is_namespace = object.kind == "Namespace" && !object.api_version.contains('/');
        let (resource, name) = match is_namespace {
            // Whatever its name, it is the one that the autoscaler is in.
            true => (String::new(), "metrics"),
            false => {
                let found = self
                    .scales
                    .resources(&object.api_version, &object.kind)
                    .await;
                let found = found.map_err(|error| {
                    let kind = &object.kind;
                    format!("unable to fetch metrics from custom metrics API: unable to map kind {kind} to resource: {error}")
                })?;
                (found[0].to_string(), &*object.name)
            }
        };
        let items = self
            .custom(namespace, &resource, name, metric, None, metric_selector)
            .await?;
        match &*items {
            [only] => Ok(only.value.milli_value()),
            items => Err(format!(
                "unable to fetch metrics from custom metrics API: the custom metrics API server returned {} results when we asked for exactly one",
                items.len()
            )),
        }
    }

    async fn external(
        &self,
        namespace: &str,
        metric: &str,
        metric_selector: &str,
    ) -> Result<Vec<i64>, String> {
        let resource = ResourceType {
            group: "external.metrics.k8s.io".into(),
            version: "v1beta1".into(),
            plural: metric.to_owned().into(),
            kind: "ExternalMetricValue".into(),
            namespaced: true,
        };
        let fail = |error: client::Error| {
            let error = in_words(&error, &resource.to_string());
            format!("unable to fetch metrics from external metrics API: {error}")
        };
        let items: Vec<WireMetric> = self
            .list(&resource, namespace, metric_selector, fail)
            .await?;
        if items.is_empty() {
            return Err("no metrics returned from external metrics API".to_owned());
        }
        Ok(items.iter().map(|item| item.value.milli_value()).collect())
    }

    async fn list<T: for<'de> Deserialize<'de>>(
        &self,
        resource: &ResourceType,
        namespace: &str,
        selector: &str,
        fail: impl Fn(client::Error) -> String,
    ) -> Result<Vec<T>, String> {
        let options = ListOptions {
            label_selector: Some(selector.to_owned()).filter(|text| !text.is_empty()),
            ..ListOptions::default()
        };
        let page = self.client.list(resource, namespace, &options).await;
        let page = page.map_err(&fail)?;
        let read = |item: &Bytes| {
            serde_json::from_slice(item)
                .map_err(|source| fail(client::Error::decode("GET", item, source)))
        };
        page.items.iter().map(read).collect()
    }

    /// Values of the custom metrics API, in the version that the server prefers.
    async fn custom(
        &self,
        namespace: &str,
        resource: &str,
        name: &str,
        metric: &str,
        selector: Option<&str>,
        metric_selector: &str,
    ) -> Result<Vec<WireMetric>, String> {
        let fail = |why: &str| format!("unable to fetch metrics from custom metrics API: {why}");
        let version = self.custom_version().await.map_err(|why| fail(&why))?;
        let mut path = format!("/apis/{CUSTOM}/{version}/namespaces/{}", escape(namespace));
        for part in [resource, name, metric] {
            if !part.is_empty() {
                path.push('/');
                path.push_str(&if part == "*" {
                    "*".to_owned()
                } else {
                    escape(part)
                });
            }
        }
        let mut mark = '?';
        let queries = [
            ("labelSelector", selector.unwrap_or_default()),
            ("metricLabelSelector", metric_selector),
        ];
        for (key, value) in queries.iter().filter(|(_, value)| !value.is_empty()) {
            path.push_str(&format!("{mark}{key}={}", escape(value)));
            mark = '&';
        }
        let answer = self
            .get(&path)
            .await
            .map_err(|error| fail(&in_words(&error, &format!("{resource}.{CUSTOM} {name}"))))?;
        let list: WireList = serde_json::from_slice(&answer)
            .map_err(|source| fail(&client::Error::decode("GET", &answer, source).to_string()))?;
        Ok(list.items)
    }

    /// Asked once a period, however many metrics are read.
    async fn custom_version(&self) -> Result<String, String> {
        if let Some((version, until)) = &*self.custom_version.lock()
            && Instant::now() < *until
        {
            return Ok(version.clone());
        }
        let version = self.ask_custom_version().await?;
        let until = Instant::now() + self.period;
        *self.custom_version.lock() = Some((version.clone(), until));
        Ok(version)
    }

    async fn ask_custom_version(&self) -> Result<String, String> {
        let none = || format!("no custom metrics API ({CUSTOM}) registered");
        let answer = self.get(&format!("/apis/{CUSTOM}")).await;
        let answer = answer.map_err(|error| match error.is_not_found() {
            true => none(),
            false => error.to_string(),
        })?;
        let group: WireGroup = serde_json::from_slice(&answer).unwrap_or_default();
        let preferred = std::iter::once(&group.preferred_version).chain(&group.versions);
        let known = preferred.map(|version| &version.version);
        let mut known = known.filter(|version| matches!(version.as_str(), "v1beta1" | "v1beta2"));
        let unknown = || "no known available metric versions found".to_owned();
        known.next().cloned().ok_or_else(unknown)
    }

    async fn get(&self, path: &str) -> Result<Bytes, client::Error> {
        let request = Request::get(path).body(Bytes::new());
        let request = request.map_err(|error| client::Error::InvalidRequest(error.to_string()))?;
        self.client.request(request).await
    }
}

const CUSTOM: &str = "custom.metrics.k8s.io";

/// The selector of the metric itself, as in a query; without one all of it is meant.
pub(super) fn compile(metric: &MetricIdentifier) -> Result<String, String> {
    // UPSTREAM: without a selector nothing is selected, which is an empty text in a query, and so means everything.
    match &metric.selector {
        None => Ok(String::new()),
        Some(selector) => match selector.compile() {
            Ok(selector) => Ok(selector.to_string()),
            Err(error) => Err(error.to_string()),
        },
    }
}

/// An API that is not served answers with a page, or in its own words; client-go says it like this.
fn in_words(error: &client::Error, resource: &str) -> String {
    let names_nothing = error.status().is_some_and(|status| status.name.is_empty());
    match error.is_not_found() && names_nothing {
        true => format!("the server could not find the requested resource (get {resource})"),
        false => error.to_string(),
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WirePod {
    metadata: WireName,
    timestamp: Option<Time>,
    window: Option<String>,
    containers: Vec<WireContainer>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireName {
    name: Arc<str>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireContainer {
    name: String,
    usage: std::collections::BTreeMap<String, Quantity>,
}

impl WirePod {
    /// Of one container, or of all; none if one of them does not say.
    fn usage(&self, resource: &str, container: &str) -> Option<i64> {
        let of = |held: &WireContainer| Some(held.usage.get(resource)?.milli_value());
        if !container.is_empty() {
            return of(self.containers.iter().find(|held| held.name == container)?);
        }
        let values: Option<Vec<i64>> = self.containers.iter().map(of).collect();
        let values = values.filter(|values| !values.is_empty())?;
        Some(
            values
                .iter()
                .fold(0, |sum, value| sum.saturating_add(*value)),
        )
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireList {
    items: Vec<WireMetric>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireMetric {
    #[serde(default)]
    described_object: WireName,
    #[serde(default)]
    timestamp: Option<Time>,
    /// In the newer version.
    #[serde(default)]
    window_seconds: Option<i64>,
    /// In the older one.
    #[serde(default)]
    window: Option<i64>,
    value: Quantity,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireGroup {
    preferred_version: WireVersion,
    versions: Vec<WireVersion>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireVersion {
    version: String,
}
