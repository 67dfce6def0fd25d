//! One metric: from what was read to what it asks for, with its name and its status. Pure.

use std::sync::Arc;

use api::kinds::{
    HorizontalPodAutoscaler, MetricSpec, MetricStatus, MetricTarget, MetricValue,
    NamedMetricSource, NamedMetricStatus, Pod, ResourceMetricSource, ResourceMetricStatus,
};
use api::quantity::{Format, Quantity};
use api::selector::LabelSelector;
use api::syntax::go_quote;

use super::calculator::{
    Measured, Proposal, Settings, Tolerances, by_share, by_total, by_utilization, by_value, sum,
};
use super::read::{Reading, compile};

/// What one metric asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposed {
    pub replicas: i32,
    /// As upstream calls it in conditions and events.
    pub name: String,
    pub status: MetricStatus,
}

/// Why a metric asks for nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Of the condition and of the event.
    pub reason: &'static str,
    pub why: String,
    /// The same, in the words of the whole.
    pub error: String,
    /// Is the autoscaler itself to blame?
    pub is_spec: bool,
}

/// What all metrics of one autoscaler are measured against.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    pub hpa: &'a HorizontalPodAutoscaler,
    pub pods: &'a [Arc<Pod>],
    /// What the target is scaled to, and how many replicas it has.
    pub wanted: i32,
    pub present: i32,
    pub tolerances: Tolerances,
    pub settings: Settings,
}

/// How many replicas a metric asks for.
pub fn propose(
    spec: &MetricSpec,
    reading: Result<Reading, String>,
    target: Target<'_>,
) -> Result<Proposed, Failure> {
    match (&*spec.r#type, spec) {
        (
            "Resource",
            MetricSpec {
                resource: Some(source),
                ..
            },
        ) => resource(source, false, reading, target),
        (
            "ContainerResource",
            MetricSpec {
                container_resource: Some(source),
                ..
            },
        ) => resource(source, true, reading, target),
        (
            "Pods",
            MetricSpec {
                pods: Some(source), ..
            },
        ) => pods(source, reading, target),
        (
            "Object",
            MetricSpec {
                object: Some(source),
                ..
            },
        ) => object(source, reading, target),
        (
            "External",
            MetricSpec {
                external: Some(source),
                ..
            },
        ) => external(source, reading, target),
        (other, _) => {
            let why = format!("unknown metric source type {}", go_quote(other));
            Err(Failure {
                reason: "InvalidMetricSourceType",
                error: why.clone(),
                why,
                is_spec: true,
            })
        }
    }
}

fn resource(
    source: &ResourceMetricSource,
    is_container: bool,
    reading: Result<Reading, String>,
    target: Target<'_>,
) -> Result<Proposed, Failure> {
    let name = &source.name;
    let MetricTarget {
        average_value,
        average_utilization,
        ..
    } = &source.target;
    let measured = Measured {
        resource: name,
        container: match is_container {
            true => &source.container,
            false => "",
        },
        ..target.measured()
    };
    let proposal = match (average_value, average_utilization) {
        (Some(value), _) => metrics_of(reading)
            .and_then(|metrics| by_value(metrics, value.milli_value(), &measured))
            .map_err(|error| format!("failed to get {name} usage: {error}")),
        (None, Some(percent)) => metrics_of(reading)
            .and_then(|metrics| by_utilization(metrics, *percent, &measured))
            .map_err(|error| format!("failed to get {name} utilization: {error}")),
        (None, None) => Err("invalid resource metric source: neither an average utilization target nor an average value (usage) target was set".to_owned()),
    };
    let proposal = proposal.map_err(|why| match is_container {
        true => failure(
            "FailedGetContainerResourceMetric",
            format!(
                "failed to get {} container metric value: {why}",
                source.container
            ),
            why,
        ),
        false => failure(
            "FailedGetResourceMetric",
            format!("failed to get {name} resource metric value: {why}"),
            why,
        ),
    })?;
    // As the metrics server writes them.
    let format = match name == "memory" {
        true => Format::BinarySi,
        false => Format::DecimalSi,
    };
    let status = ResourceMetricStatus {
        name: name.clone(),
        container: match is_container {
            true => source.container.clone(),
            false => "".into(),
        },
        current: MetricValue {
            value: None,
            average_value: Some(Quantity::from_milli(proposal.usage, format)),
            average_utilization: proposal.utilization,
        },
    };
    let called = match (proposal.utilization, is_container) {
        (None, _) => format!("{name} resource"),
        (Some(_), false) => format!("{name} resource utilization (percentage of request)"),
        (Some(_), true) => {
            format!("{name} container resource utilization (percentage of request)")
        }
    };
    let status = match is_container {
        true => MetricStatus {
            r#type: "ContainerResource".into(),
            container_resource: Some(status),
            ..MetricStatus::default()
        },
        false => MetricStatus {
            r#type: "Resource".into(),
            resource: Some(status),
            ..MetricStatus::default()
        },
    };
    Ok(Proposed {
        replicas: proposal.replicas,
        name: called,
        status,
    })
}

fn pods(
    source: &NamedMetricSource,
    reading: Result<Reading, String>,
    target: Target<'_>,
) -> Result<Proposed, Failure> {
    let value = source.target.average_value.as_ref();
    let proposal = compile(&source.metric).and_then(|_| match value {
        Some(value) => metrics_of(reading)
            .and_then(|metrics| by_value(metrics, value.milli_value(), &target.measured())),
        None => Err("invalid pods metric source: no average value target was set".to_owned()),
    });
    let proposal = proposal.map_err(|why| {
        let error = format!("failed to get pods metric value: {why}");
        failure("FailedGetPodsMetric", error, why)
    })?;
    Ok(Proposed {
        replicas: proposal.replicas,
        name: format!("pods metric {}", source.metric.name),
        status: MetricStatus {
            r#type: "Pods".into(),
            pods: Some(named(source, average(proposal))),
            ..MetricStatus::default()
        },
    })
}

fn object(
    source: &NamedMetricSource,
    reading: Result<Reading, String>,
    target: Target<'_>,
) -> Result<Proposed, Failure> {
    let metric = &source.metric.name;
    let fail = |why: String, shown: String| {
        let error = format!("failed to get object metric value: {shown}");
        failure("FailedGetObjectMetric", error, why)
    };
    compile(&source.metric).map_err(|why| fail(why.clone(), why))?;
    let given = &source.target;
    let (proposal, current, name) = match (&*given.r#type, &given.value, &given.average_value) {
        ("Value", Some(value), _) => {
            let proposal =
                whole_of(reading, value, target).map_err(|why| fail(why.clone(), why))?;
            let name = format!("{} metric {metric}", source.described_object.kind);
            (proposal, whole(proposal), name)
        }
        ("AverageValue", _, Some(value)) => {
            let proposal = share_of(reading, value, target).map_err(|why| {
                let shown = format!("failed to get {metric} object metric: {why}");
                fail(why, shown)
            })?;
            (proposal, average(proposal), external_name(source))
        }
        _ => {
            let why = "invalid object metric source: neither a value target nor an average value target was set".to_owned();
            return Err(fail(why.clone(), why));
        }
    };
    let mut status = named(source, current);
    status.described_object = Some(source.described_object.clone());
    Ok(Proposed {
        replicas: proposal.replicas,
        name,
        status: MetricStatus {
            r#type: "Object".into(),
            object: Some(status),
            ..MetricStatus::default()
        },
    })
}

fn external(
    source: &NamedMetricSource,
    reading: Result<Reading, String>,
    target: Target<'_>,
) -> Result<Proposed, Failure> {
    let metric = &source.metric.name;
    let fail = |why: String, shown: String| {
        let error = format!("failed to get {metric} external metric value: {shown}");
        failure("FailedGetExternalMetric", error, why)
    };
    let given = &source.target;
    let (proposal, current) = match (&given.average_value, &given.value) {
        (Some(value), _) => {
            let proposal = share_of(reading, value, target).map_err(|why| {
                let shown = format!("failed to get {metric} external metric: {why}");
                fail(why, shown)
            })?;
            (proposal, average(proposal))
        }
        (None, Some(value)) => {
            let proposal = whole_of(reading, value, target).map_err(|why| {
                let shown = format!("failed to get external metric {metric}: {why}");
                fail(why, shown)
            })?;
            (proposal, whole(proposal))
        }
        (None, None) => {
            let why = "invalid external metric source: neither a value target nor an average value target was set".to_owned();
            return Err(fail(why.clone(), why));
        }
    };
    Ok(Proposed {
        replicas: proposal.replicas,
        name: external_name(source),
        status: MetricStatus {
            r#type: "External".into(),
            external: Some(named(source, current)),
            ..MetricStatus::default()
        },
    })
}

impl<'a> Target<'a> {
    fn measured(&self) -> Measured<'a> {
        Measured {
            pods: self.pods,
            resource: "",
            container: "",
            tolerances: self.tolerances,
            current: self.wanted,
            settings: self.settings,
        }
    }
}

fn failure(reason: &'static str, error: String, why: String) -> Failure {
    Failure {
        reason,
        why,
        error,
        is_spec: false,
    }
}

fn metrics_of(reading: Result<Reading, String>) -> Result<super::calculator::PodMetrics, String> {
    match reading? {
        Reading::Pods(metrics) => Ok(metrics),
        Reading::Values(_) => Ok(super::calculator::PodMetrics::new()),
    }
}

fn value_of(reading: Result<Reading, String>) -> Result<i64, String> {
    match reading? {
        Reading::Values(values) => Ok(sum(&values)),
        Reading::Pods(_) => Ok(0),
    }
}

/// Measured against a target for the whole.
fn whole_of(
    reading: Result<Reading, String>,
    wanted: &Quantity,
    target: Target<'_>,
) -> Result<Proposal, String> {
    by_total(value_of(reading)?, wanted.milli_value(), &target.measured())
}

/// Measured against a target for each pod.
fn share_of(
    reading: Result<Reading, String>,
    wanted: &Quantity,
    target: Target<'_>,
) -> Result<Proposal, String> {
    let (usage, wanted) = (value_of(reading)?, wanted.milli_value());
    Ok(by_share(usage, wanted, target.present, target.tolerances))
}

/// `external metric qps(nil)`
fn external_name(source: &NamedMetricSource) -> String {
    let selector = LabelSelector::in_go(source.metric.selector.as_ref());
    format!("external metric {}({selector})", source.metric.name)
}

fn named(source: &NamedMetricSource, current: MetricValue) -> NamedMetricStatus {
    NamedMetricStatus {
        metric: source.metric.clone(),
        current,
        described_object: None,
    }
}

fn average(proposal: Proposal) -> MetricValue {
    MetricValue {
        average_value: Some(Quantity::from_milli(proposal.usage, Format::DecimalSi)),
        ..MetricValue::default()
    }
}

fn whole(proposal: Proposal) -> MetricValue {
    MetricValue {
        value: Some(Quantity::from_milli(proposal.usage, Format::DecimalSi)),
        ..MetricValue::default()
    }
}
