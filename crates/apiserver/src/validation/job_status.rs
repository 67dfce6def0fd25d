//! What a Job's status may become: counters do not shrink, ends are final, and an end comes with all that
//! belongs to it.
//!
//! A rule is applied when what it is about changes, so that a status which was bad before does not stand in
//! the way of other changes.

use serde_json::Value;

use super::batch::count_indexes;
use super::place::{Errors, Place};

pub(super) fn update(errors: &mut Errors, root: &Place<'_>, old: &Value) {
    let job = Change {
        spec: root.value.get("spec").unwrap_or(&Value::Null),
        new: Status(root.value.get("status").unwrap_or(&Value::Null)),
        old: Status(old.get("status").unwrap_or(&Value::Null)),
    };
    let status = root.field("status");
    counters(errors, &status);
    uncounted(errors, &status);
    ends(errors, &status, &job);
    finished(errors, &status, &job);
    indexes(errors, &status, &job);
    transitions(errors, &status, &job);
}

struct Change<'a> {
    spec: &'a Value,
    new: Status<'a>,
    old: Status<'a>,
}

#[derive(Clone, Copy)]
struct Status<'a>(&'a Value);

impl<'a> Status<'a> {
    fn is(self, condition: &str) -> bool {
        let conditions = self.0["conditions"].as_array();
        conditions
            .into_iter()
            .flatten()
            .any(|candidate| candidate["type"] == condition && candidate["status"] == "True")
    }

    fn is_finished(self) -> bool {
        self.is("Complete") || self.is("Failed")
    }

    fn get(self, name: &str) -> &'a Value {
        self.0.get(name).unwrap_or(&Value::Null)
    }

    fn number(self, name: &str) -> i64 {
        self.get(name).as_i64().unwrap_or_default()
    }
}

impl Change<'_> {
    fn of(&self, name: &str) -> bool {
        self.new.get(name) != self.old.get(name)
    }

    fn of_count(&self, name: &str) -> bool {
        self.new.number(name) != self.old.number(name)
    }

    fn of_condition(&self, name: &str) -> bool {
        self.new.is(name) != self.old.is(name)
    }

    fn of_end(&self) -> bool {
        self.new.is_finished() != self.old.is_finished()
    }

    fn is_indexed(&self) -> bool {
        self.spec["completionMode"] == "Indexed"
    }
}

fn counters(errors: &mut Errors, status: &Place<'_>) {
    for name in ["active", "succeeded", "failed", "ready", "terminating"] {
        errors.not_negative(&status.field(name));
    }
}

fn uncounted(errors: &mut Errors, status: &Place<'_>) {
    let pods = status.field("uncountedTerminatedPods");
    let mut seen = std::collections::BTreeSet::new();
    for name in ["succeeded", "failed"] {
        for pod in pods.field(name).items() {
            if pod.text().is_empty() {
                errors.invalid(&pod, "must not be empty");
            } else if !seen.insert(pod.text().to_owned()) {
                errors.duplicate(&pod);
            }
        }
    }
}

/// Which conditions go together.
fn ends(errors: &mut Errors, status: &Place<'_>, job: &Change<'_>) {
    let conditions = status.field("conditions");
    let (complete, failed) = (job.new.is("Complete"), job.new.is("Failed"));
    let (met, target) = (
        job.new.is("SuccessCriteriaMet"),
        job.new.is("FailureTarget"),
    );
    let changed = |name| job.of_condition(name);
    let mut refuse = |is_wrong: bool, why: &str| {
        if is_wrong {
            errors.invalid_without_value(&conditions, why);
        }
    };
    refuse(
        (changed("Complete") || changed("Failed")) && complete && failed,
        "cannot set Complete=True and Failed=true conditions",
    );
    refuse(
        (changed("Complete") || changed("FailureTarget")) && complete && target,
        "cannot set Complete=True and FailureTarget=true conditions",
    );
    refuse(
        (changed("Failed") || job.of("failedIndexes")) && failed && !target,
        "cannot set Failed=True condition without the FailureTarget=true condition",
    );
    refuse(
        (changed("Complete") || changed("SuccessCriteriaMet")) && complete && !met,
        "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
    );
    refuse(
        met && failed,
        "cannot set SuccessCriteriaMet=True and Failed=true conditions",
    );
    refuse(
        met && target,
        "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
    );
    refuse(
        !job.spec["successPolicy"].is_null() && !met && complete,
        "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True",
    );
}

/// What a Job that has ended must and must not have.
fn finished(errors: &mut Errors, status: &Place<'_>, job: &Change<'_>) {
    let completed_at = status.field("completionTime");
    if job.of_condition("Complete") || job.of("completionTime") {
        if completed_at.is_set() && !job.new.is("Complete") {
            let why = "cannot set completionTime when there is no Complete=True condition";
            errors.invalid(&completed_at, why);
        }
        if !completed_at.is_set() && job.new.is("Complete") {
            errors.required(
                &completed_at,
                "completionTime is required for Complete jobs",
            );
        }
    }
    let started_at = status.field("startTime");
    // Times of one form compare as texts.
    if (job.of("startTime") || job.of("completionTime"))
        && started_at.is_set()
        && completed_at.is_set()
        && completed_at.text() < started_at.text()
    {
        errors.invalid(&completed_at, "must be equal to or after `startTime`");
    }
    let ended = job.new.is_finished();
    if (job.of_end() || job.of_count("active")) && ended && job.new.number("active") > 0 {
        errors.invalid(
            &status.field("active"),
            "active>0 is invalid for finished job",
        );
    }
    let never_started = job.spec["suspend"] == true && job.spec["completions"] == 0;
    if (job.of_end() || job.of("startTime")) && ended && !started_at.is_set() && !never_started {
        errors.required(&started_at, "startTime is required for finished job");
    }
    let uncounted = status.field("uncountedTerminatedPods");
    let some = ["succeeded", "failed"]
        .iter()
        .any(|name| !uncounted.field(name).is_empty());
    if (job.of_end() || job.of("uncountedTerminatedPods")) && ended && some {
        errors.invalid(&uncounted, "must be empty for finished job");
    }
    if (job.of_end() || job.of("terminating")) && ended && job.new.number("terminating") > 0 {
        let why = "terminating>0 is invalid for finished job";
        errors.invalid(&status.field("terminating"), why);
    }
    let ready = status.field("ready");
    if (job.of("ready") || job.of_count("active"))
        && ready.integer().unwrap_or_default() > job.new.number("active")
    {
        errors.invalid(&ready, "cannot set more ready pods than active");
    }
}

fn indexes(errors: &mut Errors, status: &Place<'_>, job: &Change<'_>) {
    let (completed, failed) = (
        status.field("completedIndexes"),
        status.field("failedIndexes"),
    );
    let completions = job.spec["completions"].as_i64();
    let per_index = !job.spec["backoffLimitPerIndex"].is_null();
    if job.of("completedIndexes") {
        if let Some(Err(why)) = completions.map(|most| count_indexes(completed.text(), most)) {
            errors.invalid(
                &completed,
                &format!("error parsing completedIndexes: {why}"),
            );
        }
        if !completed.text().is_empty() && !job.is_indexed() {
            let why = "cannot set non-empty completedIndexes when non-indexed completion mode";
            errors.invalid(&completed, why);
        }
    }
    if job.of("failedIndexes") && failed.is_set() {
        if per_index
            && let Some(Err(why)) = completions.map(|most| count_indexes(failed.text(), most))
        {
            errors.invalid(&failed, &format!("error parsing failedIndexes: {why}"));
        }
        if !per_index {
            let why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
            errors.invalid(&failed, why);
        }
    }
}

/// What cannot be taken back.
fn transitions(errors: &mut Errors, status: &Place<'_>, job: &Change<'_>) {
    let conditions = status.field("conditions");
    for name in ["Failed", "Complete", "FailureTarget"] {
        if job.old.is(name) && !job.new.is(name) {
            let why = format!("cannot disable the terminal {name}=True condition");
            errors.invalid_without_value(&conditions, &why);
        }
    }
    let elastic = job.is_indexed() && job.spec["completions"] == job.spec["parallelism"];
    for (name, may_shrink) in [("failed", false), ("succeeded", elastic)] {
        if !may_shrink && job.new.number(name) < job.old.number(name) {
            let zero = Value::from(0);
            let count = status.field(name);
            let count = if count.is_set() {
                count
            } else {
                count.showing(&zero)
            };
            errors.invalid(&count, &format!("cannot decrease the {name} counter"));
        }
    }
    let completed_at = status.field("completionTime");
    if completed_at.is_set() && !job.old.get("completionTime").is_null() && job.of("completionTime")
    {
        errors.invalid(&completed_at, "field is immutable");
    }
    let resumes = job.old.is("Suspended") && !job.new.is("Suspended");
    if job.of("startTime")
        && !resumes
        && !job.old.get("startTime").is_null()
        && job.spec["suspend"] != true
    {
        let why = "field is immutable for unsuspended job once set";
        errors.invalid(&status.field("startTime"), why);
    }
    if job.old.is("SuccessCriteriaMet") && !job.new.is("SuccessCriteriaMet") {
        let why = "cannot disable the SuccessCriteriaMet=True condition";
        errors.invalid_without_value(&conditions, why);
    }
    if job.old.is("Complete")
        && !job.old.is("SuccessCriteriaMet")
        && job.new.is("SuccessCriteriaMet")
    {
        let why = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
        errors.invalid_without_value(&conditions, why);
    }
}
