//! Cells of Jobs, CronJobs, autoscalers and certificate requests.

use serde_json::Value;

use super::age;
use super::cells::{joined, selector};
use crate::fields::{at, integer, list, text};

pub(super) fn named(name: &str) -> Option<fn(&Value, i64) -> Value> {
    Some(match name {
        "cron_suspend" => |job, _| match at(job, "spec.suspend").as_bool() {
            Some(true) => "True".into(),
            Some(false) => "False".into(),
            None => "<unset>".into(),
        },
        "cron_last_schedule" => |job, now| match at(job, "status.lastScheduleTime") {
            Value::Null => "<none>".into(),
            time => age::since(time, now).into(),
        },
        "cron_containers" => |job, _| {
            joined(
                job,
                "spec.jobTemplate.spec.template.spec.containers",
                "name",
            )
            .into()
        },
        "cron_images" => |job, _| {
            joined(
                job,
                "spec.jobTemplate.spec.template.spec.containers",
                "image",
            )
            .into()
        },
        "cron_selector" => |job, _| selector(at(job, "spec.jobTemplate.spec.selector")).into(),
        "job_status" => |job, _| job_status(job).into(),
        "job_completions" => |job, _| {
            let succeeded = integer(job, "status.succeeded").unwrap_or_default();
            match (
                integer(job, "spec.completions"),
                integer(job, "spec.parallelism").unwrap_or_default(),
            ) {
                (Some(completions), _) => format!("{succeeded}/{completions}").into(),
                (None, parallelism) if parallelism > 1 => {
                    format!("{succeeded}/1 of {parallelism}").into()
                }
                (None, _) => format!("{succeeded}/1").into(),
            }
        },
        "job_duration" => |job, now| {
            let time = |path: &str| age::seconds(text(job, path));
            match (time("status.startTime"), time("status.completionTime")) {
                (None, _) => "".into(),
                (Some(started), ended) => age::human(ended.unwrap_or(now) - started).into(),
            }
        },
        "scale_target" => |scaler, _| {
            format!(
                "{}/{}",
                text(scaler, "spec.scaleTargetRef.kind"),
                text(scaler, "spec.scaleTargetRef.name")
            )
            .into()
        },
        "min_replicas" => |scaler, _| match integer(scaler, "spec.minReplicas") {
            Some(number) => number.to_string().into(),
            None => "<unset>".into(),
        },
        "metrics" => |scaler, _| metrics(scaler).into(),
        "csr_duration" => |request, _| match integer(request, "spec.expirationSeconds") {
            Some(seconds) => age::human(seconds).into(),
            None => "<none>".into(),
        },
        "csr_condition" => |request, _| {
            let has = |ty: &str| {
                list(request, "status.conditions")
                    .iter()
                    .any(|condition| text(condition, "type") == ty)
            };
            let mut status = if has("Denied") {
                "Denied"
            } else if has("Approved") {
                "Approved"
            } else {
                "Pending"
            }
            .to_owned();
            if has("Failed") {
                status.push_str(",Failed");
            }
            if !text(request, "status.certificate").is_empty() {
                status.push_str(",Issued");
            }
            status.into()
        },
        _ => return None,
    })
}

fn job_status(job: &Value) -> &'static str {
    let has = |ty: &str| {
        list(job, "status.conditions")
            .iter()
            .any(|condition| text(condition, "type") == ty && text(condition, "status") == "True")
    };
    match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if at(job, "metadata.deletionTimestamp").is_string() => "Terminating",
        () if has("Suspended") => "Suspended",
        () if has("FailureTarget") => "FailureTarget",
        () if has("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

/// Current and wanted values of the first two metrics.
fn metrics(scaler: &Value) -> String {
    let specs = list(scaler, "spec.metrics");
    // autoscaling/v1 knows one metric, in fields of its own.
    if let Some(target) = integer(scaler, "spec.targetCPUUtilizationPercentage") {
        let current = integer(scaler, "status.currentCPUUtilizationPercentage")
            .map(|percent| format!("{percent}%"));
        return format!(
            "cpu: {}/{target}%",
            current.as_deref().unwrap_or("<unknown>")
        );
    }
    if specs.is_empty() {
        return "<none>".to_owned();
    }
    let statuses = list(scaler, "status.currentMetrics");
    let shown: Vec<_> = specs
        .iter()
        .enumerate()
        .map(|(index, spec)| metric(spec, statuses.get(index)))
        .collect();
    match shown.len() {
        more if more > 2 => format!("{} + {} more...", shown[..2].join(", "), more - 2),
        _ => shown.join(", "),
    }
}

fn metric(spec: &Value, status: Option<&Value>) -> String {
    let source = match text(spec, "type") {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let target = at(spec, &format!("{source}.target"));
    let current = |name: &str| {
        let found = status.map(|status| at(status, &format!("{source}.current.{name}")));
        match found {
            Some(Value::Number(number)) => format!("{number}%"),
            Some(Value::String(text)) => text.clone(),
            _ => "<unknown>".to_owned(),
        }
    };
    let is_resource = source.to_lowercase().ends_with("resource");
    let prefix = if is_resource {
        format!("{}: ", text(spec, &format!("{source}.name")))
    } else {
        String::new()
    };
    if let Some(average) = at(target, "averageValue").as_str() {
        let suffix = if matches!(source, "external" | "object") {
            " (avg)"
        } else {
            ""
        };
        return format!("{prefix}{}/{average}{suffix}", current("averageValue"));
    }
    if is_resource {
        let wanted = integer(target, "averageUtilization")
            .map_or("<auto>".to_owned(), |percent| format!("{percent}%"));
        return format!("{prefix}{}/{wanted}", current("averageUtilization"));
    }
    format!("{}/{}", current("value"), text(target, "value"))
}
