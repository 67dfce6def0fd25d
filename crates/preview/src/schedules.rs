//! When CronJobs run, and what comes of their Jobs. Pure.

use std::collections::BTreeMap;

use api::cron::{self, Zone};
use api::decision::{Class, Line, agree, counted, reasons};
use api::{MicroTime, Time};
use serde::Serialize;
use serde_json::Value;

use crate::facts::{Gathered, text};
use crate::log::{Noted, Noticed};
use crate::report::seconds;
use crate::run::{Applied, Run};
use crate::text::duration;
use crate::timeline::Entry;
use crate::warnings::{Warning, WarningKind};

/// The runs of one CronJob.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Schedule {
    /// `cronjob/backup`
    pub object: String,
    pub namespace: String,
    /// As it is written, with its time zone.
    pub schedule: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub suspended: bool,
    /// It can be read and does not come: 30 February.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub never_comes: bool,
    pub runs: Vec<JobRun>,
    /// Times that came and for which no job was started.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<Skipped>,
    /// When it would run next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Time>,
    /// Times whose job is started later, or has to wait still.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobRun {
    /// Seconds from the moment of applying.
    pub at: f64,
    pub time: Time,
    /// The time of the schedule that it is started for; it may start later.
    pub scheduled: Time,
    pub job: String,
    /// How long it takes; none if it is still at work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<bool>,
    /// It was deleted at work because the next one was due.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub replaced: bool,
}

/// A time of the schedule for which no job was started.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Skipped {
    /// Seconds from the moment of applying.
    pub at: f64,
    pub time: Time,
    /// In the words of its controller.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// The CronJobs that were applied.
pub(crate) fn schedules(run: &Run, gathered: &Gathered, noted: &Noted) -> Vec<Schedule> {
    let applied = run.applied.iter();
    let objects = applied.filter_map(|one| gathered.find(&one.uid).map(|object| (one, object)));
    let cron_jobs = objects.filter(|(_, object)| explain::kind_of(object) == "CronJob");
    cron_jobs
        .map(|(one, object)| schedule(run, noted, one, object))
        .collect()
}

fn schedule(run: &Run, noted: &Noted, one: &Applied, object: &Value) -> Schedule {
    let zone = match text(object, "/spec/timeZone") {
        "" => String::new(),
        zone => format!(" {zone}"),
    };
    let mut schedule = Schedule {
        object: one.object(),
        namespace: one.namespace.clone(),
        schedule: format!("{}{zone}", text(object, "/spec/schedule")),
        suspended: object["spec"]["suspend"] == true,
        never_comes: false,
        runs: runs(run, noted, &one.uid),
        skipped: Vec::new(),
        next: next(run, noted, &one.uid),
        waits: Vec::new(),
    };
    // What cannot be read is refused when it is applied, and what is suspended skips nothing.
    if let Some(cron) = read(object).filter(|_| !schedule.suspended) {
        schedule.never_comes = cron.next(run.start).is_none();
        let decided = decided(noted, &one.uid, run.start);
        schedule.waits.extend(too_many_missed(run, &decided, one));
        let due = due(&cron, object, run.start, run.end);
        schedule.note_due(run, &decided, &due, object);
    }
    schedule
}

fn read(object: &Value) -> Option<cron::Schedule> {
    let zone = Zone::load(text(object, "/spec/timeZone")).ok()?;
    cron::Schedule::parse(text(object, "/spec/schedule"), &zone).ok()
}

/// More times than anybody counts: `@every 1s` has that many in a day.
const DUE_MAX: usize = 100_000;

/// The times of a schedule between two moments. What comes every so often counts from the last time, or from when its
/// CronJob was created.
fn due(schedule: &cron::Schedule, object: &Value, start: MicroTime, end: MicroTime) -> Vec<Time> {
    let at = |pointer: &str| Time::parse(text(object, pointer));
    let created = at("/metadata/creationTimestamp");
    let last = at("/status/lastScheduleTime").or(created);
    let first = match last {
        Some(last) => schedule.next_since(last, start),
        None => schedule.next(start),
    };
    let times = std::iter::successors(first, |last| schedule.next(last.micro()));
    let times = times.take_while(|time| time.micro() <= end);
    let times = times.filter(|time| Some(*time) > created);
    times.take(DUE_MAX).collect()
}

/// What the controller decided about a CronJob from a moment on.
fn decided<'a>(noted: &'a Noted, uid: &str, from: MicroTime) -> Vec<&'a Noticed> {
    let own = noted.decisions.iter().filter(|one| one.at >= from);
    own.filter(|one| one.object.uid.to_string() == uid)
        .collect()
}

fn runs(run: &Run, noted: &Noted, uid: &str) -> Vec<JobRun> {
    let jobs = noted.jobs.values().filter(|job| {
        let owner = job.owner.as_ref().map(ToString::to_string);
        owner.as_deref() == Some(uid) && job.created >= run.start
    });
    let mut found: Vec<JobRun> = jobs
        .map(|job| {
            let ended = job.finished.map(|(at, _)| at).or(job.deleted);
            JobRun {
                at: seconds(run.start, job.created),
                time: job.created.time(),
                scheduled: job.scheduled.unwrap_or_else(|| job.created.time()),
                job: format!("job/{}", job.key.name),
                seconds: ended.map(|at| seconds(job.created, at)),
                succeeded: job.finished.map(|(_, well)| well),
                replaced: job.deleted.is_some(),
            }
        })
        .collect();
    found.sort_by(|one, other| one.at.total_cmp(&other.at));
    found
}

/// What its controller waits for at the end: the time of the next run.
fn next(run: &Run, noted: &Noted, uid: &str) -> Option<Time> {
    let latest_first = noted.decisions.iter().rev();
    let mut own = latest_first.filter(|one| one.object.uid.to_string() == uid);
    let last = own.next()?;
    let times = last.lines.iter().filter_map(|line| line.until);
    times.filter(|at| at.micro() > run.end).min()
}

/// The reasons for which a controller starts no job at a time at which one was due.
const SKIPS: [&str; 3] = [
    reasons::STILL_ACTIVE,
    reasons::PAST_DEADLINE,
    reasons::NAME_TAKEN,
];

/// Why no job was started between two moments, in the words of the controller.
fn why_not(decided: &[&Noticed], from: MicroTime, until: MicroTime) -> String {
    let first = decided.partition_point(|one| one.at < from);
    let within = decided[first..].iter().take_while(|one| one.at < until);
    let mut lines = within.flat_map(|one| one.lines.iter());
    let is_reason = |line: &&Line| line.class != Class::Acts && SKIPS.contains(&&*line.reason);
    let line = lines.find(is_reason);
    line.map_or(String::new(), |line| line.why.to_string())
}

/// The controller says so at each time from then on; once is enough.
fn too_many_missed(run: &Run, decided: &[&Noticed], one: &Applied) -> Option<Entry> {
    decided.iter().find_map(|decision| {
        let mut lines = decision.lines.iter();
        let line = lines.find(|line| line.reason == reasons::TOO_MANY_MISSED_TIMES)?;
        Some(Entry {
            at: seconds(run.start, decision.at),
            object: one.object(),
            what: line.what.to_string(),
            why: line.why.to_string(),
        })
    })
}

/// A job that starts so much after its time has waited for something.
const LATE_SECONDS: f64 = 2.0;

impl Schedule {
    /// Goes through the times that came: which had no job, and whose job had to wait.
    fn note_due(&mut self, run: &Run, decided: &[&Noticed], due: &[Time], object: &Value) {
        let deadline = object["spec"]["startingDeadlineSeconds"].as_i64();
        // A job is named after its minute: there is one at most.
        let minute = |time: Time| time.unix().div_euclid(60);
        let begun = self.runs.iter().map(|run| (minute(run.scheduled), run.at));
        let mut begun_at = BTreeMap::new();
        for (minute, at) in begun {
            begun_at.entry(minute).or_insert(at);
        }
        for (place, time) in due.iter().enumerate() {
            let at = seconds(run.start, time.micro());
            let own = begun_at.get(&minute(*time));
            if own.is_some_and(|begun| begun - at < LATE_SECONDS) {
                continue;
            }
            let after = due.get(place + 1).map(|time| time.micro());
            let why = why_not(decided, time.micro(), after.unwrap_or(run.end));
            // Only the last of those that were missed is made up for, and that not after its deadline.
            let late = run.end.time().unix() - time.unix();
            let is_past = after.is_some() || deadline.is_some_and(|deadline| late > deadline);
            match own.is_none() && is_past {
                true => self.skipped.push(Skipped {
                    at,
                    time: *time,
                    why,
                }),
                false if why.is_empty() => {}
                false => self.waits.push(Entry {
                    at,
                    object: self.object.clone(),
                    what: format!("its run of {time} has to wait"),
                    why,
                }),
            }
        }
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        let of = |at: f64, what: String, why: String| Entry {
            at,
            object: self.object.clone(),
            what,
            why,
        };
        let mut entries = self.waits.clone();
        for skipped in &self.skipped {
            let what = format!("skips its run of {}", skipped.time);
            entries.push(of(skipped.at, what, skipped.why.clone()));
        }
        for (place, run) in self.runs.iter().enumerate() {
            entries.push(of(
                run.at,
                format!("starts {}", run.job),
                format!("scheduled for {}", run.scheduled),
            ));
            let Some(seconds) = run.seconds else {
                continue;
            };
            let (job, after) = (&run.job, duration(seconds));
            let ended = run.at + seconds;
            let (at, what, why) = match (run.succeeded, self.runs.get(place + 1)) {
                (Some(true), _) => (ended, format!("{job} succeeds after {after}"), ""),
                (Some(false), _) => (ended, format!("{job} fails after {after}"), ""),
                (None, Some(next)) if run.replaced => {
                    let what = format!("replaces {job} by {} after {after}", next.job);
                    let why = "it was still active, and concurrencyPolicy is Replace";
                    (ended.min(next.at), what, why)
                }
                (None, _) => (ended, format!("{job} is deleted after {after}"), ""),
            };
            entries.push(of(at, what, why.to_owned()));
        }
        entries
    }

    /// `cronjob/backup in shop (0 * * * *): 24 runs in 24h, ...`
    pub(crate) fn summary(&self, given_seconds: f64) -> String {
        let Schedule {
            object,
            namespace,
            schedule,
            ..
        } = self;
        let given = duration(given_seconds);
        let head = format!("{object} in {namespace} ({schedule})");
        let next = self
            .next
            .map_or(String::new(), |at| format!("; next at {at}"));
        if self.suspended {
            return format!("{head}: suspended, starts nothing until somebody resumes it");
        }
        if self.never_comes {
            return format!("{head}: never runs: its schedule does not come within five years");
        }
        let Some(first) = self.runs.first() else {
            return format!("{head}: no run in {given}{}{next}", self.skips());
        };
        let runs = counted(self.runs.len(), "run");
        let failed = self.runs.iter().filter(|run| run.succeeded == Some(false));
        let replaced = self.runs.iter().filter(|run| run.replaced);
        let of_them = |count: usize, one: &'static str, many: &'static str| match count {
            0 => String::new(),
            count => format!(", {count} of them {}", agree(count, one, many)),
        };
        let failed = of_them(failed.count(), "fails", "fail");
        let replaced = of_them(
            replaced.count(),
            "is replaced by the next",
            "are replaced by the next",
        );
        let finished = self.runs.iter().filter(|run| !run.replaced);
        let longest = finished.filter_map(|run| run.seconds);
        let longest = longest.reduce(f64::max).map_or(String::new(), |longest| {
            format!(", the longest takes {}", duration(longest))
        });
        format!(
            "{head}: {runs} in {given}{failed}{replaced}{}, the first after {} ({}){longest}{next}",
            self.skips(),
            duration(first.at),
            first.time,
        )
    }

    /// `, 2 skipped`
    fn skips(&self) -> String {
        match self.skipped.len() {
            0 => String::new(),
            count => format!(", {count} skipped"),
        }
    }

    /// `cronjob/backup runs 4 times and skips 2`
    pub(crate) fn course(&self) -> String {
        let runs = counted(self.runs.len(), "time");
        let skips = match self.skipped.len() {
            0 => String::new(),
            count => format!(" and skips {count}"),
        };
        match self.never_comes {
            true => format!("{} never runs", self.object),
            false => format!("{} runs {runs}{skips}", self.object),
        }
    }

    pub(crate) fn warning(&self) -> Option<Warning> {
        self.never_comes.then(|| Warning {
            kind: WarningKind::NeverRuns,
            object: self.object.clone(),
            text: format!(
                "never runs: its schedule {} does not come within five years",
                self.schedule
            ),
            at: None,
        })
    }

    /// What happens in each of `width` columns: blank for nothing, and what runs otherwise.
    pub(crate) fn strip(&self, end: f64, width: usize, unicode: bool) -> String {
        let (good, bad, open) = match unicode {
            true => ('█', '×', '▒'),
            false => ('#', 'x', '+'),
        };
        let column = |at: f64| (at / end * width as f64) as usize;
        let mut cells = vec![' '; width];
        for run in &self.runs {
            let last = run.at + run.seconds.unwrap_or(end - run.at);
            let (from, to) = (column(run.at), column(last).min(width.saturating_sub(1)));
            let symbol = match run.succeeded {
                Some(true) => good,
                Some(false) => bad,
                None if run.replaced => bad,
                None => open,
            };
            for cell in cells.iter_mut().take(to + 1).skip(from) {
                *cell = symbol;
            }
        }
        cells.into_iter().collect()
    }
}
