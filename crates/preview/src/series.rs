//! From the lives of pods to counts over time. Pure.

use api::MicroTime;
use serde::Serialize;

use crate::log::PodLife;

/// How many pods there are of what, from this moment on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    /// Seconds from the moment of applying.
    pub at: f64,
    /// Pods of another template than the current one.
    pub old: i32,
    pub old_ready: i32,
    /// Pods of the current template.
    pub new: i32,
    pub new_ready: i32,
    /// Pods of a Job that have ended, well or not.
    #[serde(skip_serializing_if = "is_zero")]
    pub succeeded: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub failed: i32,
    pub available: i32,
    /// How many are missing to what is wanted.
    pub unavailable: i32,
}

impl Sample {
    pub fn total(&self) -> i32 {
        self.old + self.new
    }

    /// With those that have ended.
    pub fn height(&self) -> i32 {
        self.total() + self.succeeded + self.failed
    }

    /// What is stacked in a chart, from the bottom: see [`BANDS`].
    pub(crate) fn bands(&self) -> [i32; 6] {
        [
            self.succeeded,
            self.new_ready,
            self.new - self.new_ready,
            self.old_ready,
            self.old - self.old_ready,
            self.failed,
        ]
    }

    pub fn ready(&self) -> i32 {
        self.old_ready + self.new_ready
    }
}

/// The bands of a chart: a class for pictures, and words.
pub(crate) const BANDS: [(&str, &str); 6] = [
    ("succeeded", "succeeded"),
    ("new-ready", "new, ready"),
    ("new", "new, not ready"),
    ("old-ready", "old, ready"),
    ("old", "old, not ready"),
    ("failed", "failed"),
];

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &i32) -> bool {
    *count == 0
}

/// What to count.
pub(crate) struct Count<'a> {
    pub(crate) pods: Vec<&'a PodLife>,
    /// The hash of the current template.
    pub(crate) current: String,
    pub(crate) wanted: i32,
    pub(crate) min_ready_seconds: i64,
    /// Whether pods that have ended still count for something, as those of a Job do.
    pub(crate) with_finished: bool,
    pub(crate) start: MicroTime,
    pub(crate) end: MicroTime,
}

#[derive(Clone, Copy)]
enum What {
    There,
    Ready,
    Available,
    Succeeded,
    Failed,
}

impl Count<'_> {
    /// How it is at the moment of applying, before anything happens.
    pub(crate) fn before(&self) -> Sample {
        let mut before = Sample::default();
        let edges = self.edges();
        for edge in edges.iter().take_while(|(at, ..)| *at < self.start) {
            before.add(edge);
        }
        before.finished(self.wanted)
    }

    /// One sample for each moment at which a count changes, the first at 0.
    pub(crate) fn samples(&self) -> Vec<Sample> {
        self.sweep(&self.edges())
    }

    fn edges(&self) -> Vec<(MicroTime, What, bool, i32)> {
        let mut edges: Vec<(MicroTime, What, bool, i32)> = Vec::new();
        for pod in &self.pods {
            let new = pod.hash == self.current;
            let mut end = pod.left.unwrap_or(self.end.plus(FOREVER));
            if self.with_finished {
                // A pod that fails at once was there nevertheless.
                end = end.max(pod.created.plus(BLINK));
            }
            edges.push((pod.created, What::There, new, 1));
            edges.push((end, What::There, new, -1));
            if let Some(well) = pod.finished_well.filter(|_| self.with_finished) {
                let what = if well { What::Succeeded } else { What::Failed };
                edges.push((end, what, new, 1));
            }
            for span in pod.ready.chunks(2) {
                let (from, to) = (span[0], span.get(1).copied().unwrap_or(end).min(end));
                edges.push((from, What::Ready, new, 1));
                edges.push((to, What::Ready, new, -1));
                let wait = std::time::Duration::from_secs(self.min_ready_seconds.unsigned_abs());
                if from.plus(wait) < to {
                    edges.push((from.plus(wait), What::Available, new, 1));
                    edges.push((to, What::Available, new, -1));
                }
            }
        }
        edges.sort_by_key(|(at, ..)| *at);
        edges
    }

    fn sweep(&self, edges: &[(MicroTime, What, bool, i32)]) -> Vec<Sample> {
        let mut samples: Vec<Sample> = Vec::new();
        let mut now = Sample::default();
        let begun = edges
            .iter()
            .take_while(|(at, ..)| *at <= self.start)
            .count();
        for edge in &edges[..begun] {
            now.add(edge);
        }
        samples.push(now.finished(self.wanted));
        for edge in &edges[begun..] {
            if edge.0 > self.end {
                break;
            }
            let at = edge.0.since(self.start).as_secs_f64();
            now.add(edge);
            now.at = at;
            let sample = now.finished(self.wanted);
            match samples.last_mut() {
                // What follows at once is one step: nobody can look in between.
                Some(last) if at - last.at < MOMENT => {
                    *last = Sample {
                        at: last.at,
                        ..sample
                    }
                }
                _ => samples.push(sample),
            }
        }
        samples.dedup_by(|later, earlier| {
            Sample { at: 0.0, ..*later }
                == Sample {
                    at: 0.0,
                    ..*earlier
                }
        });
        samples
    }
}

/// Longer than any preview.
const FOREVER: std::time::Duration = std::time::Duration::from_secs(10 * 365 * 24 * 3600);

/// The shortest life of a pod that a chart still shows: more than a moment.
const BLINK: std::time::Duration = std::time::Duration::from_millis(10);

/// Changes within this many seconds are one: a deletion and its replacement belong together.
const MOMENT: f64 = 0.005;

impl Sample {
    fn add(&mut self, (_, what, new, by): &(MicroTime, What, bool, i32)) {
        let count = match (what, new) {
            (What::There, true) => &mut self.new,
            (What::There, false) => &mut self.old,
            (What::Ready, true) => &mut self.new_ready,
            (What::Ready, false) => &mut self.old_ready,
            (What::Available, _) => &mut self.available,
            (What::Succeeded, _) => &mut self.succeeded,
            (What::Failed, _) => &mut self.failed,
        };
        *count += by;
    }

    fn finished(mut self, wanted: i32) -> Sample {
        self.unavailable = (wanted - self.available).max(0);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::{Key, Time};
    use expect_test::{Expect, expect};

    /// Pods as `hash created ready left`, in seconds, `-` for never.
    fn check(pods: &str, wanted: i32, min_ready_seconds: i64, expected: Expect) {
        let at = |text: &str| {
            text.parse()
                .ok()
                .map(|second| Time::from_unix(second).micro())
        };
        let lives: Vec<PodLife> = pods
            .split(',')
            .map(|pod| {
                let words: Vec<&str> = pod.split_whitespace().collect();
                PodLife {
                    key: Key::new("default", words[0]),
                    owner: None,
                    hash: words[0].to_owned(),
                    created: at(words[1]).unwrap(),
                    ready: at(words[2]).into_iter().collect(),
                    left: at(words[3]),
                    disrupted: None,
                    finished_well: None,
                }
            })
            .collect();
        let count = Count {
            pods: lives.iter().collect(),
            current: "new".to_owned(),
            wanted,
            min_ready_seconds,
            with_finished: false,
            start: at("100").unwrap(),
            end: at("200").unwrap(),
        };
        let lines: Vec<String> = count
            .samples()
            .iter()
            .map(|one| {
                format!(
                    "{}s old {}/{} new {}/{} available {} missing {}",
                    one.at,
                    one.old_ready,
                    one.old,
                    one.new_ready,
                    one.new,
                    one.available,
                    one.unavailable
                )
            })
            .collect();
        expected.assert_eq(&lines.join("\n"));
    }

    #[test]
    fn a_rollout_of_two_pods() {
        check(
            "old 10 11 130,old 10 11 160,new 100 130 -,new 130 160 -",
            2,
            0,
            expect![[r#"
                0s old 2/2 new 0/1 available 2 missing 0
                30s old 1/1 new 1/2 available 2 missing 0
                60s old 0/0 new 2/2 available 2 missing 0"#]],
        );
    }

    #[test]
    fn available_comes_after_ready() {
        check(
            "new 100 110 -,new 100 - -",
            2,
            30,
            expect![[r#"
                0s old 0/0 new 0/2 available 0 missing 2
                10s old 0/0 new 1/2 available 0 missing 2
                40s old 0/0 new 1/2 available 1 missing 1"#]],
        );
    }
}
