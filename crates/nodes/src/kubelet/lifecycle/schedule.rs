//! When a probe asks, and what comes of the answers: computed, not counted, because the status has no place for counts.

use std::time::Duration;

use api::{MicroTime, Time};

use crate::behaviour::Answer;
use crate::pod::Probe;

/// The probes of one run of a container: one each period, all good but for one stretch.
pub(super) struct Schedule {
    first: MicroTime,
    period: Duration,
    successes: u64,
    failures: u64,
    /// The probes that fail, from the first up to but without the last.
    failing: Option<(u64, Option<u64>)>,
}

impl Schedule {
    /// The first probe comes after its delay, and not before `earliest`.
    pub(super) fn new(
        probe: &Probe,
        answer: Answer,
        started_at: Time,
        earliest: MicroTime,
    ) -> Schedule {
        let seconds = |number: i32| Duration::from_secs(u64::try_from(number).unwrap_or(0));
        let count = |number: i32| u64::try_from(number).unwrap_or(0).max(1);
        let delayed = started_at
            .micro()
            .plus(seconds(probe.initial_delay_seconds));
        let mut schedule = Schedule {
            first: delayed.max(earliest),
            period: seconds(probe.period_seconds.max(1)),
            successes: count(probe.success_threshold),
            // UPSTREAM: the default is 3; a pod from a test may have left it out.
            failures: match probe.failure_threshold {
                0 => 3,
                threshold => count(threshold),
            },
            failing: None,
        };
        if let Answer::Fails { after, lasts } = answer {
            let from = started_at.micro().plus(after);
            let until = lasts.map(|lasts| schedule.first_from(from.plus(lasts)));
            schedule.failing = Some((schedule.first_from(from), until));
        }
        schedule
    }

    /// The number of the first probe at or after this moment.
    fn first_from(&self, at: MicroTime) -> u64 {
        let wait = at.since(self.first).as_micros();
        let period = self.period.as_micros();
        u64::try_from(wait.div_ceil(period)).unwrap_or(u64::MAX)
    }

    fn at(&self, number: u64) -> MicroTime {
        let periods = u32::try_from(number).unwrap_or(u32::MAX);
        self.first.plus(self.period.saturating_mul(periods))
    }

    /// When the failing threshold is reached, if it is.
    pub(super) fn fails_at(&self) -> Option<MicroTime> {
        let (from, until) = self.failing?;
        let last = from + self.failures - 1;
        until
            .is_none_or(|until| last < until)
            .then(|| self.at(last))
    }

    /// When the first probe succeeds, if that is before too many failed.
    pub(super) fn succeeds_at(&self) -> Option<MicroTime> {
        match self.failing {
            Some((0, None)) => None,
            Some((0, Some(until))) if until >= self.failures => None,
            Some((0, Some(until))) => Some(self.at(until)),
            _ => Some(self.first),
        }
    }

    /// Is it ready at this moment, and when does that change next?
    pub(super) fn is_ready(&self, now: MicroTime) -> (bool, Option<MicroTime>) {
        let mut ready = false;
        for (at, becomes) in self.changes() {
            if now < at {
                return (ready, Some(at));
            }
            ready = becomes;
        }
        (ready, None)
    }

    fn changes(&self) -> Vec<(MicroTime, bool)> {
        let enough = self.successes - 1;
        let Some((from, until)) = self.failing else {
            return vec![(self.at(enough), true)];
        };
        let mut changes = Vec::new();
        let starts_well = from > enough;
        if starts_well {
            changes.push((self.at(enough), true));
        }
        if starts_well && let Some(at) = self.fails_at() {
            changes.push((at, false));
        }
        if let Some(until) = until.filter(|_| !starts_well || changes.len() == 2) {
            changes.push((self.at(until + enough), true));
        }
        changes
    }

    /// The last probe up to this moment, if it failed, and when the next one fails.
    pub(super) fn failures_around(&self, now: MicroTime) -> (Option<MicroTime>, Option<MicroTime>) {
        let Some((from, until)) = self.failing else {
            return (None, None);
        };
        let fails = |number: u64| number >= from && until.is_none_or(|until| number < until);
        let next = |number: u64| Some(number.max(from)).filter(|number| fails(*number));
        if now < self.first {
            return (None, next(0).map(|number| self.at(number)));
        }
        let last = now.since(self.first).as_micros() / self.period.as_micros();
        let last = u64::try_from(last).unwrap_or(u64::MAX - 1);
        (
            fails(last).then(|| self.at(last)),
            next(last + 1).map(|number| self.at(number)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    /// Probes each 10 s from 5 s on; two successes make it ready, three failures unready.
    fn schedule(answer: Answer) -> Schedule {
        let probe = Probe {
            initial_delay_seconds: 5,
            period_seconds: 10,
            success_threshold: 2,
            failure_threshold: 3,
            ..Probe::default()
        };
        let start = Time::from_unix(0);
        Schedule::new(&probe, answer, start, start.micro())
    }

    fn check(after: u64, lasts: Option<u64>, expected: Expect) {
        let schedule = schedule(Answer::Fails {
            after: Duration::from_secs(after),
            lasts: lasts.map(Duration::from_secs),
        });
        let shown = |at: Option<MicroTime>| at.map(|at| at.time().unix());
        let (mut now, mut changes) = (Time::from_unix(0).micro(), Vec::new());
        while let Some(at) = schedule.is_ready(now).1 {
            now = at;
            changes.push(format!("{}s {}", at.time().unix(), schedule.is_ready(at).0));
        }
        expected.assert_eq(&format!(
            "fails {:?}, succeeds {:?}, ready {changes:?}",
            shown(schedule.fails_at()),
            shown(schedule.succeeds_at()),
        ));
    }

    #[test]
    fn thresholds_are_reached_by_probes_in_a_row() {
        check(
            0,
            None,
            expect![[r#"fails Some(25), succeeds None, ready []"#]],
        );
        check(
            60,
            None,
            expect![[r#"fails Some(85), succeeds Some(5), ready ["15s true", "85s false"]"#]],
        );
        check(
            0,
            Some(20),
            expect![[r#"fails None, succeeds Some(25), ready ["35s true"]"#]],
        );
        check(
            60,
            Some(20),
            expect![[r#"fails None, succeeds Some(5), ready ["15s true"]"#]],
        );
        check(
            60,
            Some(30),
            expect![[
                r#"fails Some(85), succeeds Some(5), ready ["15s true", "85s false", "105s true"]"#
            ]],
        );
    }

    #[test]
    fn every_failing_probe_is_known() {
        let schedule = schedule(Answer::Fails {
            after: Duration::from_secs(20),
            lasts: Some(Duration::from_secs(20)),
        });
        let mut now = Time::from_unix(0).micro();
        let mut failed = Vec::new();
        while let (_, Some(next)) = schedule.failures_around(now) {
            assert_eq!(schedule.failures_around(next).0, Some(next));
            failed.push(next.time().unix());
            now = next;
        }
        assert_eq!(failed, [25, 35]);
        assert_eq!(
            schedule.failures_around(Time::from_unix(50).micro()),
            (None, None)
        );
    }
}
