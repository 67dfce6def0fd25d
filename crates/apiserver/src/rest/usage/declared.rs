//! `custom.metrics.k8s.io` and `external.metrics.k8s.io`: what objects declare of themselves, and what is declared of
//! the world outside, as an adapter for a monitoring system would serve it.
//!
//! A metric of an object is its annotation `metrics.steersman.dev/NAME`. Pods share what their owner declares by
//! `load.metrics.steersman.dev/NAME`. Metrics from outside are the data of ConfigMaps with the label
//! `steersman.dev/external-metrics=true`, whose other labels are those of the metrics. The files of the simulated cluster
//! may declare both, too.

use std::sync::Arc;

use api::quantity::Quantity;
use api::selector::Selector;
use api::{LabelSet, Time};
use http::Response;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::files::{self, FromFiles};
use super::load::{declared, key_of, shares, value};
use crate::Body;
use crate::fields::{at, entries, text};
use crate::kinds::{Kind, Registry};
use crate::rest::request::RequestInfo;
use crate::rest::{not_allowed, response};
use crate::server::Shared;
use crate::status::Status;

pub(crate) const CUSTOM: &str = "custom.metrics.k8s.io";
pub(crate) const EXTERNAL: &str = "external.metrics.k8s.io";

/// Before the name of a metric, on the object that has it.
pub(crate) const METRIC: &str = "metrics.steersman.dev/";
/// Before the name of a metric, on the owner of the pods that share it.
pub(crate) const LOAD: &str = "load.metrics.steersman.dev/";
/// The label of ConfigMaps that hold metrics from outside.
pub(crate) const IS_EXTERNAL: &str = "steersman.dev/external-metrics";

/// How long a value was measured, for those who ask; those of simulated objects are exact.
const WINDOW_SECONDS: i64 = 15;

pub(crate) fn is_served(group: &str) -> bool {
    matches!(group, CUSTOM | EXTERNAL)
}

/// Answers a request for values.
pub(crate) fn answer(
    shared: &Shared,
    registry: &Arc<Registry>,
    info: &RequestInfo,
) -> Result<Response<Body>, Status> {
    if !registry.has_group_version(&info.group, &info.version) {
        return Err(Status::no_such_path());
    }
    if !matches!(info.verb, "get" | "list") {
        return Err(not_allowed());
    }
    let items = match info.group.as_str() {
        EXTERNAL => external(shared, info)?,
        _ => custom(shared, registry, info)?,
    };
    let kind = match info.group.as_str() {
        EXTERNAL => "ExternalMetricValueList",
        _ => "MetricValueList",
    };
    let version = format!("{}/{}", info.group, info.version);
    let list = json!({"kind": kind, "apiVersion": version, "metadata": {}, "items": items});
    Ok(response::value(200, &list))
}

fn selector(info: &RequestInfo, parameter: &str) -> Result<Selector, Status> {
    Selector::parse(info.query.get(parameter)).map_err(|why| Status::bad_request(why.to_string()))
}

fn labels(object: &Value) -> LabelSet {
    LabelSet::deserialize(at(object, "metadata.labels")).unwrap_or_default()
}

fn external(shared: &Shared, info: &RequestInfo) -> Result<Vec<Value>, Status> {
    if info.namespace.is_empty() || !info.name.is_empty() {
        return Err(Status::no_such_path());
    }
    let selector = selector(info, "labelSelector")?;
    let Some(kind) = crate::kinds::find("", "ConfigMap") else {
        return Ok(Vec::new());
    };
    let found = shared
        .store
        .list_newest(kind, &format!("{}/", info.namespace));
    let found = found.iter().map(|stored| stored.value(kind));
    let found = found.filter(|map| at(map, "metadata.labels")[IS_EXTERNAL] == "true");
    let found = found.filter(|map| selector.matches(&labels(map)));
    let values = found.filter_map(|map| {
        let curve = map["data"][&info.resource].as_str()?;
        let since = Time::parse(text(&map, "metadata.creationTimestamp"));
        let amount = value(shared, curve, since)?;
        let own = entries(&map, "metadata.labels").filter(|(key, _)| *key != IS_EXTERNAL);
        let own: Map<String, Value> = own
            .map(|(key, value)| (key.to_owned(), value.clone()))
            .collect();
        Some(json!({
            "metricName": info.resource, "metricLabels": own, "timestamp": shared.now(),
            "windowSeconds": WINDOW_SECONDS, "value": amount,
        }))
    });
    let in_files = files::external(shared, &info.namespace, &info.resource);
    let in_files = in_files
        .iter()
        .filter(|(one, _)| selector.matches(&one.labels));
    let in_files = in_files.map(|(one, amount)| {
        json!({
            "metricName": info.resource, "metricLabels": one.labels, "timestamp": shared.now(),
            "windowSeconds": WINDOW_SECONDS, "value": amount,
        })
    });
    Ok(values.chain(in_files).collect())
}

fn custom(
    shared: &Shared,
    registry: &Arc<Registry>,
    info: &RequestInfo,
) -> Result<Vec<Value>, Status> {
    // The namespace itself is asked for by a path of its own.
    let is_namespace = info.resource == "metrics" && info.subresource.is_empty();
    let (resource, name, metric) = match is_namespace {
        true => ("namespaces", info.namespace.as_str(), info.name.as_str()),
        false => (
            info.resource.as_str(),
            info.name.as_str(),
            info.subresource.as_str(),
        ),
    };
    if metric.is_empty() || name.is_empty() || !info.rest.is_empty() {
        return Err(Status::no_such_path());
    }
    let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
    let mut kinds = registry.iter().filter(|kind| !is_served(&kind.group));
    let kind = kinds.find(|kind| kind.plural == plural && kind.group == group);
    let kind = kind.ok_or_else(Status::no_such_path)?;
    let objects = objects(shared, registry, kind, info, name)?;
    let of_series = selector(info, "metricLabelSelector")?;
    let objects: Vec<Value> = objects
        .into_iter()
        .filter(|one| of_series.matches(&labels(one)))
        .collect();
    let (shares, in_files) = match kind.is("", "Pod") {
        true => {
            let pods = all_pods(shared, &info.namespace);
            let shares = shares(shared, &pods, &format!("{LOAD}{metric}"));
            (shares, FromFiles::of(shared, &pods))
        }
        false => Default::default(),
    };
    let items: Vec<Value> = objects
        .iter()
        .filter_map(|object| {
            let own = declared(shared, object, &format!("{METRIC}{metric}"));
            let key = key_of(object);
            let amount = own
                .or_else(|| shares.get(&key).cloned())
                .or_else(|| in_files.of_pod(&key, metric))?;
            Some(item(shared, &info.version, kind, object, metric, &amount))
        })
        .collect();
    if items.is_empty() && name != "*" {
        let message =
            format!("the server could not find the metric {metric} for {resource} {name}");
        return Err(Status::new(404, "NotFound", message));
    }
    Ok(items)
}

/// One object, or all of those that the selector matches. Pods have metrics while they run.
fn objects(
    shared: &Shared,
    registry: &Arc<Registry>,
    kind: &Arc<Kind>,
    info: &RequestInfo,
    name: &str,
) -> Result<Vec<Value>, Status> {
    let stored_kind = crate::convert::storage_kind(registry, kind);
    let prefix = match kind.namespaced {
        true => format!("{}/", info.namespace),
        false => String::new(),
    };
    let found: Vec<Value> = match name {
        "*" => {
            let selector = selector(info, "labelSelector")?;
            let all = shared.store.list_newest(&stored_kind, &prefix);
            let all = all.iter().map(|stored| stored.value(&stored_kind));
            all.filter(|object| selector.matches(&labels(object)))
                .collect()
        }
        name => {
            let stored = shared.store.get(&stored_kind, &format!("{prefix}{name}"));
            stored
                .iter()
                .map(|stored| stored.value(&stored_kind))
                .collect()
        }
    };
    let is_pod = kind.is("", "Pod");
    let is_measured = |object: &Value| !is_pod || text(object, "status.phase") == "Running";
    Ok(found.into_iter().filter(is_measured).collect())
}

/// Those who share a load are not only those who were asked for.
fn all_pods(shared: &Shared, namespace: &str) -> Vec<Value> {
    super::running(shared, &format!("{namespace}/"))
}

fn item(
    shared: &Shared,
    version: &str,
    kind: &Kind,
    object: &Value,
    metric: &str,
    amount: &Quantity,
) -> Value {
    let api_version = match &*kind.group {
        "" => kind.version.to_string(),
        group => format!("{group}/{}", kind.version),
    };
    let mut item = json!({
        "describedObject": {
            "kind": kind.kind, "apiVersion": api_version,
            "namespace": text(object, "metadata.namespace"), "name": text(object, "metadata.name"),
        },
        "timestamp": shared.now(), "windowSeconds": WINDOW_SECONDS, "value": amount,
    });
    match version {
        "v1beta1" => item["metricName"] = json!(metric),
        _ => item["metric"] = json!({"name": metric}),
    }
    item
}
