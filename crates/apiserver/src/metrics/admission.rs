//! What admission webhooks and policies were asked and said, under upstream's names. Their labels are the names of
//! webhooks, policies and bindings, so their number is bounded by what is configured.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use parking_lot::Mutex;

/// UPSTREAM: bounds of the buckets, in seconds.
const BUCKETS: [f64; 8] = [0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];

/// UPSTREAM: a webhook that makes up codes does not make up series.
const LARGEST_CODE: u16 = 600;

#[derive(Default)]
pub(crate) struct AdmissionMetrics {
    durations: Mutex<BTreeMap<String, Histogram>>,
    counts: Mutex<BTreeMap<(Family, String), u64>>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Family {
    Requests,
    Rejections,
    FailOpen,
    PolicyChecks,
}

/// One call of a webhook.
pub(crate) struct Call<'a> {
    pub(crate) webhook: &'a str,
    /// `admit` or `validating`.
    pub(crate) step: &'static str,
    pub(crate) operation: &'static str,
    pub(crate) took: Duration,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Allowed,
    /// It said no, with this code.
    Denied(u16),
    /// It could not be asked; whether that was let pass.
    Failed {
        code: u16,
        is_open: bool,
    },
    /// What it wants cannot be done.
    Internal,
}

/// What a validating policy did about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PolicyCheck {
    pub(crate) policy: String,
    pub(crate) binding: String,
    pub(crate) has_failed: bool,
    /// `deny`, `warn` or `audit`.
    pub(crate) action: &'static str,
}

#[derive(Default)]
struct Histogram {
    /// Of each bucket alone.
    counts: [u64; BUCKETS.len()],
    total: u64,
    sum: f64,
}

impl AdmissionMetrics {
    pub(crate) fn called(&self, call: &Call<'_>, outcome: Outcome) {
        let Call {
            webhook,
            step,
            operation,
            took,
        } = call;
        let (code, error, rejected) = match outcome {
            Outcome::Allowed => (200, None, false),
            Outcome::Denied(code) => (code, Some("no_error"), true),
            Outcome::Failed { code, is_open } => {
                let error = (!is_open).then_some("calling_webhook_error");
                (code, error, !is_open)
            }
            Outcome::Internal => (0, Some("apiserver_internal_error"), true),
        };
        let code = code.min(LARGEST_CODE);
        let of = format!("name=\"{webhook}\",operation=\"{operation}\"");
        let series = format!("{of},rejected=\"{rejected}\",type=\"{step}\"");
        self.durations.lock().entry(series).or_default().add(*took);
        self.count(
            Family::Requests,
            format!("code=\"{code}\",{of},rejected=\"{rejected}\",type=\"{step}\""),
        );
        if let Some(error) = error {
            self.count(
                Family::Rejections,
                format!("error_type=\"{error}\",{of},rejection_code=\"{code}\",type=\"{step}\""),
            );
        }
        if let Outcome::Failed { is_open: true, .. } = outcome {
            self.count(
                Family::FailOpen,
                format!("name=\"{webhook}\",type=\"{step}\""),
            );
        }
    }

    pub(crate) fn checked(&self, check: &PolicyCheck) {
        let PolicyCheck {
            policy,
            binding,
            has_failed,
            action,
        } = check;
        let error = match has_failed {
            true => "invalid_error",
            false => "no_error",
        };
        self.count(
            Family::PolicyChecks,
            format!(
                "enforcement_action=\"{action}\",error_type=\"{error}\",policy=\"{policy}\",policy_binding=\"{binding}\""
            ),
        );
    }

    fn count(&self, family: Family, labels: String) {
        *self.counts.lock().entry((family, labels)).or_default() += 1;
    }

    pub(crate) fn print(&self, out: &mut String) {
        let name = "apiserver_admission_webhook_admission_duration_seconds";
        let help = "[STABLE] How long calls of admission webhooks took, by name, operation, type and whether they refused.";
        // Writing to a string does not fail.
        let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} histogram\n");
        for (labels, histogram) in self.durations.lock().iter() {
            histogram.print(name, labels, out);
        }
        let counts = self.counts.lock();
        for family in Family::ALL {
            let (name, help) = family.describe();
            let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} counter\n");
            for ((_, labels), count) in counts.iter().filter(|((of, _), _)| *of == family) {
                let _ = writeln!(out, "{name}{{{labels}}} {count}");
            }
        }
    }
}

impl Family {
    const ALL: [Family; 4] = [
        Family::Requests,
        Family::Rejections,
        Family::FailOpen,
        Family::PolicyChecks,
    ];

    fn describe(self) -> (&'static str, &'static str) {
        match self {
            Family::Requests => (
                "apiserver_admission_webhook_request_total",
                "[ALPHA] Calls of admission webhooks, by code and whether they refused.",
            ),
            Family::Rejections => (
                "apiserver_admission_webhook_rejection_count",
                "[ALPHA] Requests that admission webhooks refused, or whose webhooks failed.",
            ),
            Family::FailOpen => (
                "apiserver_admission_webhook_fail_open_count",
                "[ALPHA] Failed calls of admission webhooks that were let pass.",
            ),
            Family::PolicyChecks => (
                "apiserver_validating_admission_policy_check_total",
                "[BETA] What validating admission policies did about requests, by binding and action.",
            ),
        }
    }
}

impl Histogram {
    fn add(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        if let Some(bucket) = BUCKETS.iter().position(|bound| seconds <= *bound) {
            self.counts[bucket] += 1;
        }
        self.total += 1;
        self.sum += seconds;
    }

    fn print(&self, name: &str, labels: &str, out: &mut String) {
        let mut below = 0;
        for (bound, count) in BUCKETS.iter().zip(self.counts) {
            below += count;
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{bound}\"}} {below}");
        }
        let (total, sum) = (self.total, self.sum);
        let _ = writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {total}");
        let _ = writeln!(out, "{name}_sum{{{labels}}} {sum}");
        let _ = writeln!(out, "{name}_count{{{labels}}} {total}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(outcome: Outcome) -> String {
        let metrics = AdmissionMetrics::default();
        let call = Call {
            webhook: "a.example",
            step: "admit",
            operation: "CREATE",
            took: Duration::from_millis(30),
        };
        metrics.called(&call, outcome);
        let mut out = String::new();
        metrics.print(&mut out);
        let lines = out.lines().filter(|line| !line.starts_with('#'));
        let lines = lines.filter(|line| !line.contains("_duration_"));
        let lines = lines.map(|line| line.replace("apiserver_admission_webhook_", ""));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// UPSTREAM: TestObserveWebhook, TestObserveWebhookRejection, TestObserveWebhookFailOpen.
    #[test]
    fn each_outcome_has_its_series() {
        let of = "name=\"a.example\",operation=\"CREATE\"";
        assert_eq!(
            said(Outcome::Allowed),
            format!("request_total{{code=\"200\",{of},rejected=\"false\",type=\"admit\"}} 1")
        );
        assert_eq!(
            said(Outcome::Denied(700)),
            format!(
                "request_total{{code=\"600\",{of},rejected=\"true\",type=\"admit\"}} 1\n\
                 rejection_count{{error_type=\"no_error\",{of},rejection_code=\"600\",type=\"admit\"}} 1"
            )
        );
        let failed = |is_open| Outcome::Failed { code: 503, is_open };
        assert_eq!(
            said(failed(true)),
            format!(
                "request_total{{code=\"503\",{of},rejected=\"false\",type=\"admit\"}} 1\n\
                 fail_open_count{{name=\"a.example\",type=\"admit\"}} 1"
            )
        );
        assert!(said(failed(false)).contains("error_type=\"calling_webhook_error\""));
        assert!(said(Outcome::Internal).contains("error_type=\"apiserver_internal_error\""));
    }

    #[test]
    fn buckets_hold_what_is_below_their_bounds() {
        let mut histogram = Histogram::default();
        [3, 25, 30, 60_000]
            .into_iter()
            .for_each(|millis| histogram.add(Duration::from_millis(millis)));
        let mut out = String::new();
        histogram.print("d", "n=\"x\"", &mut out);
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines[0], "d_bucket{n=\"x\",le=\"0.005\"} 1");
        assert_eq!(lines[1], "d_bucket{n=\"x\",le=\"0.025\"} 2");
        assert_eq!(lines[2], "d_bucket{n=\"x\",le=\"0.1\"} 3");
        assert_eq!(lines[8], "d_bucket{n=\"x\",le=\"+Inf\"} 4");
        assert_eq!(lines[10], "d_count{n=\"x\"} 4");
    }
}
