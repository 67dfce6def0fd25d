//! A HorizontalPodAutoscaler: what it read, what that asks for, what holds it back, and until when.

use api::Resource;
use api::decision::counted;
use api::kinds::HorizontalPodAutoscaler;
use serde_json::Value;

use crate::facts::Facts;
use crate::help;
use crate::json::{condition, list, number, text, time};
use crate::kinds::{Kind, Need};
use crate::words::Reason;
use crate::{Draft, Obstacle, State};

pub(crate) const KIND: Kind = Kind {
    resource: HorizontalPodAutoscaler::TYPE,
    inputs: &[],
    needs: &[Need::ScaleTarget],
    explain,
    tells_deletion: false,
};

pub(crate) fn explain(facts: &Facts, draft: &mut Draft<'_>) {
    let hpa = &facts.object;
    let least = least(hpa);
    let most = number(hpa, "/spec/maxReplicas");
    draft.wants(format!(
        "{least} to {} of {}",
        counted(most, "replica"),
        target(hpa)
    ));
    let read = list(hpa, "/status/currentMetrics");
    for (at, spec) in list(hpa, "/spec/metrics").iter().enumerate() {
        draft.wants(wanted(spec));
        draft.explanation.sees.extend(seen(spec, read.get(at)));
    }
    let current = number(hpa, "/status/currentReplicas");
    let desired = number(hpa, "/status/desiredReplicas");
    if condition(hpa, "ScalingActive").is_some() {
        draft.sees(format!("{} now", counted(current, "replica")));
    }
    for kind in ["AbleToScale", "ScalingActive"] {
        note(facts, kind, draft);
    }
    conclude(facts, current, desired, draft);
}

fn least(hpa: &Value) -> i64 {
    match hpa.pointer("/spec/minReplicas") {
        Some(_) => number(hpa, "/spec/minReplicas"),
        None => 1,
    }
}

/// `deployment/web`
fn target(hpa: &Value) -> String {
    let kind = text(hpa, "/spec/scaleTargetRef/kind").to_lowercase();
    format!("{kind}/{}", text(hpa, "/spec/scaleTargetRef/name"))
}

/// The part of a metric that its type names.
fn source(metric: &Value) -> &Value {
    let kind = text(metric, "/type");
    let (first, rest) = kind.split_at(kind.len().min(1));
    &metric[first.to_lowercase() + rest]
}

fn name(spec: &Value) -> String {
    let source = source(spec);
    let metric = text(source, "/metric/name");
    match text(spec, "/type") {
        "Resource" => text(source, "/name").to_owned(),
        "ContainerResource" => {
            let container = text(source, "/container");
            format!("{} of container {container}", text(source, "/name"))
        }
        "Object" => {
            let kind = text(source, "/describedObject/kind").to_lowercase();
            format!(
                "{metric} of {kind}/{}",
                text(source, "/describedObject/name")
            )
        }
        "Pods" => format!("{metric} of its pods"),
        _ => metric.to_owned(),
    }
}

/// `60% of what is requested`, or a value.
fn amount(values: &Value) -> Option<String> {
    if let Some(percent) = values
        .pointer("/averageUtilization")
        .and_then(Value::as_i64)
    {
        return Some(format!("{percent}% of what is requested"));
    }
    let each = text(values, "/averageValue");
    let whole = text(values, "/value");
    match (each, whole) {
        ("", "") => None,
        ("", whole) => Some(whole.to_owned()),
        (each, _) => Some(format!("{each} for each pod")),
    }
}

fn wanted(spec: &Value) -> String {
    let target = amount(&source(spec)["target"]).unwrap_or_else(|| "nothing".to_owned());
    format!("{} at {target}", name(spec))
}

/// None where nobody asked for it.
fn seen(spec: &Value, read: Option<&Value>) -> Option<String> {
    let (name, read) = (name(spec), read?);
    let current = Some(read).filter(|read| !text(read, "/type").is_empty());
    Some(
        match current.and_then(|read| amount(&source(read)["current"])) {
            Some(current) => format!("{name} is at {current}"),
            None => format!("{name} could not be read"),
        },
    )
}

/// Does its behavior turn off what is asked for?
fn turned_off(hpa: &Value, able: &str, limited: &str) -> Option<&'static str> {
    let (rules, sentence) = if able == "ScaleDownStabilized" || limited == "ScaleDownLimit" {
        (
            "scaleDown",
            "; fewer would do, and scaling down is disabled",
        )
    } else if able == "ScaleUpStabilized" || limited == "ScaleUpLimit" {
        (
            "scaleUp",
            "; more are asked for, and scaling up is disabled",
        )
    } else {
        return None;
    };
    let policy = text(hpa, &format!("/spec/behavior/{rules}/selectPolicy"));
    (policy == "Disabled").then_some(sentence)
}

/// A condition that says no is in the way.
fn note(facts: &Facts, kind: &str, draft: &mut Draft<'_>) {
    let Some(held) = condition(&facts.object, kind) else {
        return;
    };
    if text(held, "/status") == "False" {
        draft.in_the_way(
            Obstacle::of(&facts.object, Reason::quoting("", text(held, "/message")))
                .since(time(held, "/lastTransitionTime"))
                .passing(text(held, "/reason") == "ScalingDisabled"),
        );
    }
}

/// A percentage of what is requested needs a request, of each container.
fn missing_requests(facts: &Facts) -> Option<help::Help> {
    let hpa = &facts.object;
    let kind = text(hpa, "/spec/scaleTargetRef/kind");
    let name = text(hpa, "/spec/scaleTargetRef/name");
    let scaled = facts
        .of_kind(kind)
        .find(|object| text(object, "/metadata/name") == name)?;
    let mut containers = list(scaled, "/spec/template/spec/containers").iter();
    let (container, resource) = containers.find_map(|container| {
        let metrics = list(hpa, "/spec/metrics").iter();
        let mut relative = metrics.filter(|metric| {
            let source = source(metric);
            let of = text(source, "/container");
            source.pointer("/target/averageUtilization").is_some()
                && (of.is_empty() || of == text(container, "/name"))
        });
        relative.find_map(|metric| {
            let resource = text(source(metric), "/name");
            let requested = container.pointer(&format!("/resources/requests/{resource}"));
            requested.is_none().then_some((container, resource))
        })
    })?;
    let amount = match resource {
        "memory" => "64Mi",
        _ => "100m",
    };
    let command = format!(
        "set resources {} -c {} --requests={resource}={amount}",
        target(hpa),
        text(container, "/name")
    );
    let why = format!("lets it request {resource}: the target is a percentage of that");
    help::on(facts, &command, &why)
}

fn conclude(facts: &Facts, current: i64, desired: i64, draft: &mut Draft<'_>) {
    let hpa = &facts.object;
    let reason = |kind: &str| condition(hpa, kind).map_or("", |held| text(held, "/reason"));
    if let Some(first) = draft.explanation.in_the_way.first() {
        let why = first.why.headline().to_owned();
        let since_zero = reason("ScalingActive") == "ScalingDisabled";
        let state = match since_zero {
            true => State::Settled,
            false => State::Stuck,
        };
        // What the controller waits for is what its conditions say.
        draft.explanation.waits.clear();
        draft.conclude(state, format!("does not scale {}: {why}", target(hpa)));
        if since_zero {
            let command = format!("scale {} --replicas={}", target(hpa), least(hpa).max(1));
            let why = "turns autoscaling on again";
            return draft.offer(help::on(facts, &command, why));
        }
        draft.offer(missing_requests(facts));
        if reason("ScalingActive") == "FailedGetResourceMetric" {
            draft.offer(help::on(
                facts,
                "top pods",
                "shows whether a metrics server answers",
            ));
        }
        return;
    }
    if condition(hpa, "ScalingActive").is_none() {
        let verdict = "has not been looked at yet: that happens every 15 seconds";
        return draft.conclude(State::Progressing, verdict);
    }
    let turned_off = turned_off(hpa, reason("AbleToScale"), reason("ScalingLimited"));
    let held = match reason("AbleToScale") {
        "ScaleDownStabilized" | "ScaleUpStabilized" => "; the stabilization window holds it there",
        _ => match reason("ScalingLimited") {
            "TooManyReplicas" => "; more are asked for, and maxReplicas does not allow them",
            "TooFewReplicas" => "; fewer would do, and minReplicas does not allow them",
            "ScaleUpLimit" | "ScaleDownLimit" => "; it continues as fast as its policies allow",
            _ => "",
        },
    };
    let held = turned_off.unwrap_or(held);
    let at = counted(desired, "replica");
    match current == desired {
        true => draft.conclude(
            State::Settled,
            format!("keeps {} at {at}{held}", target(hpa)),
        ),
        false => draft.conclude(
            State::Progressing,
            format!("scales {} from {current} to {at}{held}", target(hpa)),
        ),
    }
}
