//! Jobs and CronJobs.

use std::collections::BTreeSet;

use api::cron::{Schedule, Zone};
use api::syntax;
use serde_json::{Value, json};

use super::place::{Errors, Place};
use super::{pod, selectors};
use crate::fields::{by_name, list};

/// How many pods of an Indexed Job may run at once: its status lists the indexes.
const INDEXED_PARALLELISM_MAX: i64 = 100_000;

pub(super) fn job(errors: &mut Errors, root: &Place<'_>) {
    let spec = root.field("spec");
    if !spec.field("manualSelector").flag() {
        generated_labels(errors, root, &spec);
    }
    selecting_spec(errors, &spec);
}

/// The spec of a Job, as opposed to that of a CronJob's template, which has no selector yet.
fn selecting_spec(errors: &mut Errors, spec: &Place<'_>) {
    job_spec(errors, spec);
    let selector = spec.field("selector");
    if selector.is_set() {
        selectors::label_selector(errors, &selector);
    } else {
        errors.required(&selector, "");
    }
    let template = spec.field("template");
    let matches = selectors::compile(selector.value).is_some_and(|compiled| {
        !compiled.is_empty() && selectors::matches(&compiled, &template.value["metadata"]["labels"])
    });
    if !matches {
        let metadata = template.field("metadata");
        errors.invalid(
            &metadata.field("labels"),
            "`selector` does not match template `labels`",
        );
    }
}

/// What a Job without a selector of its own must look like.
fn generated_labels(errors: &mut Errors, root: &Place<'_>, spec: &Place<'_>) {
    let metadata = root.field("metadata");
    let (uid, name) = (metadata.field("uid").text(), metadata.field("name").text());
    let selector = spec.field("selector");
    if !selector.is_set() {
        return;
    }
    let template = spec.field("template");
    let template_metadata = template.field("metadata");
    let labels = template_metadata.field("labels");
    for (key, wanted) in [
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
        ("controller-uid", uid),
        ("job-name", name),
    ] {
        let place = labels.key(key);
        if place.text() != wanted {
            errors.invalid(&place, &format!("must be '{wanted}'"));
        }
    }
    let auto = selector.value["matchLabels"]
        .as_object()
        .is_some_and(|labels| {
            labels.len() == 1
                && ["batch.kubernetes.io/controller-uid", "controller-uid"]
                    .iter()
                    .any(|key| labels.get(*key) == Some(&json!(uid)))
        });
    if !auto {
        errors.invalid(&selector, "`selector` not auto-generated");
    }
}

pub(super) fn job_spec(errors: &mut Errors, spec: &Place<'_>) {
    for name in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
    ] {
        errors.not_negative(&spec.field(name));
    }
    let failed = spec.field("maxFailedIndexes");
    errors.not_negative(&failed);
    if failed.is_set() && !spec.field("backoffLimitPerIndex").is_set() {
        errors.required(
            &spec.field("backoffLimitPerIndex"),
            "when maxFailedIndexes is specified",
        );
    }
    let completions = spec.field("completions");
    if let (Some(failed_most), Some(completions)) = (failed.integer(), completions.integer())
        && failed_most > completions
    {
        errors.invalid(&failed, "must be less than or equal to completions");
    }
    let manager = spec.field("managedBy");
    if manager.is_set() && !is_domain_path(manager.text()) {
        errors.invalid(
            &manager,
            "must be a domain-prefixed path (such as \"acme.io/foo\")",
        );
    }
    completion_mode(errors, spec);
    let template = spec.field("template");
    pod::template(errors, &template);
    let template_spec = template.field("spec");
    let policy = template_spec.field("restartPolicy");
    match policy.text() {
        "OnFailure" if spec.field("podFailurePolicy").is_set() => {
            errors.invalid(
                &policy,
                "only \"Never\" is supported when podFailurePolicy is specified",
            );
        }
        "OnFailure" | "Never" => {}
        "Always" | "" => errors.required(&policy, "valid values: \"OnFailure\", \"Never\""),
        _ => errors.not_supported(&policy, &["OnFailure", "Never"]),
    }
    let failure = spec.field("podFailurePolicy");
    let rules = failure.field("rules");
    let template = &spec.value["template"]["spec"];
    let containers = ["containers", "initContainers"].map(|path| by_name(list(template, path)));
    let has_container = |name: &str| containers.iter().any(|list| list.contains_key(name));
    for rule in rules.items() {
        failure_rule(errors, &rule, spec, &has_container);
    }
    errors.one_of_if_set(
        &spec.field("podReplacementPolicy"),
        &["Failed", "TerminatingOrFailed"],
    );
    success_policy(errors, spec);
}

fn is_domain_path(text: &str) -> bool {
    text.split_once('/').is_some_and(|(domain, path)| {
        !path.is_empty() && syntax::validate_dns1123_subdomain(domain).is_empty()
    })
}

fn completion_mode(errors: &mut Errors, spec: &Place<'_>) {
    let mode = spec.field("completionMode");
    errors.one_of_if_set(&mode, &["NonIndexed", "Indexed"]);
    if mode.text() == "Indexed" {
        let completions = spec.field("completions");
        if !completions.is_set() {
            errors.required(&completions, "when completion mode is Indexed");
        }
        let parallelism = spec.field("parallelism");
        if parallelism
            .integer()
            .is_some_and(|number| number > INDEXED_PARALLELISM_MAX)
        {
            errors.invalid(&parallelism, &format!("must be less than or equal to {INDEXED_PARALLELISM_MAX} when completion mode is Indexed"));
        }
        return;
    }
    for name in ["backoffLimitPerIndex", "maxFailedIndexes"] {
        let place = spec.field(name);
        if place.is_set() {
            errors.invalid(&place, "requires indexed completion mode");
        }
    }
}

fn failure_rule(
    errors: &mut Errors,
    rule: &Place<'_>,
    spec: &Place<'_>,
    has_container: &dyn Fn(&str) -> bool,
) {
    let action = rule.field("action");
    match action.text() {
        "" => errors.required(
            &action,
            "valid values: \"Count\", \"FailIndex\", \"FailJob\", \"Ignore\"",
        ),
        "FailIndex" if !spec.field("backoffLimitPerIndex").is_set() => {
            errors.invalid(&action, "requires the backoffLimitPerIndex to be set")
        }
        "Count" | "FailIndex" | "FailJob" | "Ignore" => {}
        _ => errors.not_supported(&action, &["Count", "FailIndex", "FailJob", "Ignore"]),
    }
    let (codes, conditions) = (rule.field("onExitCodes"), rule.field("onPodConditions"));
    if codes.is_set() {
        exit_codes(errors, &codes, has_container);
    }
    for condition in conditions.items() {
        errors.syntax(&condition.field("type"), syntax::validate_qualified_name);
        errors.one_of(&condition.field("status"), &["False", "True", "Unknown"]);
    }
    let (has_codes, has_conditions) = (codes.is_set(), !conditions.is_empty());
    if has_codes == has_conditions {
        let detail = match has_codes {
            true => "specifying both OnExitCodes and OnPodConditions is not supported",
            false => "specifying one of OnExitCodes and OnPodConditions is required",
        };
        // UPSTREAM: the sentence takes the place of the value.
        errors.invalid_without_value(rule, detail);
    }
}

fn exit_codes(errors: &mut Errors, codes: &Place<'_>, has_container: &dyn Fn(&str) -> bool) {
    let operator = codes.field("operator");
    errors.one_of(&operator, &["In", "NotIn"]);
    let name = codes.field("containerName");
    if name.is_set() && !has_container(name.text()) {
        errors.invalid(
            &name,
            "must be one of the container or initContainer names in the pod template",
        );
    }
    let values = codes.field("values");
    if values.is_empty() {
        errors.invalid(&values, "at least one value is required");
    }
    let (mut seen, mut ordered, mut last) = (BTreeSet::new(), true, i64::MIN);
    for value in values.items() {
        let number = value.integer().unwrap_or_default();
        if number == 0 && operator.text() == "In" {
            errors.invalid(&value, "must not be 0 for the In operator");
        }
        if !seen.insert(number) {
            errors.duplicate(&value);
        }
        ordered &= number >= last;
        last = number;
    }
    if !ordered {
        errors.invalid(&values, "must be ordered");
    }
}

fn success_policy(errors: &mut Errors, spec: &Place<'_>) {
    let policy = spec.field("successPolicy");
    if !policy.is_set() {
        return;
    }
    if spec.field("completionMode").text() != "Indexed" {
        errors.invalid(&policy, "requires indexed completion mode");
        return;
    }
    let rules = policy.field("rules");
    if rules.is_empty() {
        errors.required(
            &rules,
            "at least one rules must be specified when the successPolicy is specified",
        );
    }
    let completions = spec.field("completions").integer().unwrap_or_default();
    for rule in rules.items() {
        let (count, indexes) = (rule.field("succeededCount"), rule.field("succeededIndexes"));
        if !count.is_set() && !indexes.is_set() {
            errors.required(
                &rule,
                "at least one of succeededCount or succeededIndexes must be specified",
            );
        }
        let mut listed = completions;
        if indexes.is_set() {
            match count_indexes(indexes.text(), completions) {
                Ok(number) => listed = number,
                Err(why) => {
                    errors.invalid(&indexes, &format!("error parsing succeededIndexes: {why}"))
                }
            }
        }
        if let Some(number) = count.integer() {
            errors.not_negative(&count);
            if number > listed {
                errors.invalid(&count, &format!("must be less than or equal to {listed} (the number of specified completions)"));
            }
        }
    }
}

/// How many indexes `1,3-5` names, all below `completions`.
pub(super) fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    let (mut total, mut last) = (0, -1);
    let parse = |part: &str| -> Result<i64, String> {
        let number: i64 = part
            .parse()
            .map_err(|_| format!("cannot convert string to integer for index: {part:?}"))?;
        if number >= completions {
            Err(format!("too large index: {part:?}"))
        } else {
            Ok(number)
        }
    };
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, end) = match part.split_once('-') {
            Some((first, end)) => (parse(first)?, parse(end)?),
            None => (parse(part)?, parse(part)?),
        };
        if first <= last || end < first {
            return Err(format!(
                "non-increasing order, previous: {last}, current: {first}"
            ));
        }
        total += end - first + 1;
        last = end;
    }
    Ok(total)
}

/// Once created, a Job changes in parallelism, deadlines and suspension only; its template while suspended.
pub(super) fn job_update(errors: &mut Errors, root: &Place<'_>, old: &Value) {
    let spec = root.field("spec");
    // UPSTREAM: everything is checked twice, and said twice among the causes.
    job(errors, root);
    selecting_spec(errors, &spec);
    let before = &old["spec"];
    let get = |name: &str| before.get(name).unwrap_or(&Value::Null);
    // An Indexed Job is elastic: completions follow parallelism.
    let completions = spec.field("completions");
    let elastic = spec.field("completionMode").text() == "Indexed"
        && completions.value == &spec.value["parallelism"];
    if !elastic {
        errors.immutable(&completions, get("completions"));
    }
    errors.immutable(&spec.field("selector"), get("selector"));
    let template = spec.field("template");
    let expected = expected_template(old, template.value);
    // UPSTREAM: of the template of a suspended Job only what its pods consist of is compared.
    if is_idle(old) {
        let template_spec = template.field("spec");
        errors.immutable(&template_spec, &expected["spec"]);
    } else {
        errors.immutable(&template, &expected);
    }
    for name in [
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        errors.immutable(&spec.field(name), get(name));
    }
}

/// Whether a Job is suspended and has no pods: it has never started, or has been stopped since.
fn is_idle(job: &Value) -> bool {
    let status = &job["status"];
    let conditions = status["conditions"].as_array();
    let is_stopped = conditions.is_some_and(|conditions| {
        let is_suspended = |one: &Value| one["type"] == "Suspended" && one["status"] == "True";
        conditions.iter().any(is_suspended)
    });
    job["spec"]["suspend"] == true
        && (status["startTime"].is_null() || is_stopped)
        && status["active"].as_i64().unwrap_or(0) == 0
}

/// The template of a Job as it was, with what may change while the Job is idle as it is now: where its pods go, and what
/// they ask for.
fn expected_template(old: &Value, template: &Value) -> Value {
    let mut expected = old["spec"]["template"].clone();
    if !is_idle(old) {
        return expected;
    }
    for path in [
        "metadata.labels",
        "metadata.annotations",
        "spec.nodeSelector",
        "spec.tolerations",
        "spec.affinity.nodeAffinity",
        "spec.schedulingGates",
    ] {
        crate::fields::copy(&mut expected, template, path);
    }
    let affinity = &expected["spec"]["affinity"];
    if template["spec"]["affinity"].is_null() && *affinity == json!({}) {
        crate::fields::remove(&mut expected, "spec.affinity");
    }
    for list in ["containers", "initContainers"] {
        let Some(now) = template["spec"][list].as_array() else {
            continue;
        };
        let before = expected["spec"][list].as_array_mut();
        let Some(before) = before.filter(|before| before.len() == now.len()) else {
            continue;
        };
        for (before, now) in before.iter_mut().zip(now) {
            if before["name"] == now["name"] {
                crate::fields::copy(before, now, "resources");
            }
        }
    }
    expected
}

pub(super) fn cron_job(errors: &mut Errors, root: &Place<'_>) {
    let spec = root.field("spec");
    let schedule = spec.field("schedule");
    let zone = spec.field("timeZone");
    if schedule.text().is_empty() {
        errors.required(&schedule, "");
    } else {
        if let Err(why) = Schedule::parse(schedule.text(), &Zone::UTC) {
            errors.invalid(&schedule, &why.to_string());
        } else if schedule.text().contains("TZ") {
            errors.invalid(
                &schedule,
                "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
            );
        }
    }
    time_zone(errors, &zone);
    let concurrency = spec.field("concurrencyPolicy");
    if concurrency.text().is_empty() {
        errors.required(&concurrency, "")
    } else {
        errors.one_of(&concurrency, &["Allow", "Forbid", "Replace"])
    }
    for name in [
        "startingDeadlineSeconds",
        "successfulJobsHistoryLimit",
        "failedJobsHistoryLimit",
    ] {
        errors.not_negative(&spec.field(name));
    }
    let template = spec.field("jobTemplate");
    let job = template.field("spec");
    let manual = job.field("manualSelector");
    if manual.flag() {
        errors.not_supported(&manual, &["nil", "false"]);
    }
    let selector = job.field("selector");
    if selector.is_set() {
        errors.invalid(&selector, "`selector` will be auto-generated");
    }
    job_spec(errors, &job);
}

fn time_zone(errors: &mut Errors, zone: &Place<'_>) {
    if !zone.is_set() {
        return;
    }
    let text = zone.text();
    if text.is_empty() {
        errors.invalid(zone, "timeZone must be nil or non-empty string");
    } else if text.eq_ignore_ascii_case("local") {
        errors.invalid(
            zone,
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
        );
    } else if let Err(why) = Zone::load(text) {
        errors.invalid(zone, &why.to_string());
    }
}
