//! When CronJobs run, and what comes of their Jobs. Pure.

use api::Time;
use api::decision::{Class, counted};
use serde::Serialize;

use crate::facts::{Gathered, text};
use crate::log::Noted;
use crate::report::seconds;
use crate::run::Run;
use crate::text::duration;
use crate::timeline::Entry;

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
    pub runs: Vec<JobRun>,
    /// When it would run next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Time>,
    /// Why it starts nothing, in the words of its controller.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobRun {
    /// Seconds from the moment of applying.
    pub at: f64,
    pub time: Time,
    pub job: String,
    /// How long it takes; none if it is still at work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<bool>,
}

/// The CronJobs that were applied.
pub(crate) fn schedules(run: &Run, gathered: &Gathered, noted: &Noted) -> Vec<Schedule> {
    let applied = run.applied.iter();
    let objects = applied.filter_map(|one| gathered.find(&one.uid).map(|object| (one, object)));
    let cron_jobs = objects.filter(|(_, object)| explain::kind_of(object) == "CronJob");
    cron_jobs
        .map(|(one, object)| {
            let zone = match text(object, "/spec/timeZone") {
                "" => String::new(),
                zone => format!(" {zone}"),
            };
            let waits = waits(run, noted, &one.uid, &one.object());
            Schedule {
                object: one.object(),
                namespace: one.namespace.clone(),
                schedule: format!("{}{zone}", text(object, "/spec/schedule")),
                suspended: object["spec"]["suspend"] == true,
                runs: runs(run, noted, &one.uid),
                next: next(run, noted, &one.uid),
                waits,
            }
        })
        .collect()
}

fn runs(run: &Run, noted: &Noted, uid: &str) -> Vec<JobRun> {
    let jobs = noted.jobs.values().filter(|job| {
        let owner = job.owner.as_ref().map(ToString::to_string);
        owner.as_deref() == Some(uid) && job.created >= run.start
    });
    let mut found: Vec<JobRun> = jobs
        .map(|job| JobRun {
            at: seconds(run.start, job.created),
            time: job.created.time(),
            job: format!("job/{}", job.key.name),
            seconds: job.finished.map(|(at, _)| seconds(job.created, at)),
            succeeded: job.finished.map(|(_, well)| well),
        })
        .collect();
    found.sort_by(|one, other| one.at.total_cmp(&other.at));
    found
}

/// What its controller waits for at the end: the time of the next run.
fn next(run: &Run, noted: &Noted, uid: &str) -> Option<Time> {
    let own = noted
        .decisions
        .iter()
        .filter(|one| one.object.uid.to_string() == uid);
    let last = own.last()?;
    let times = last.lines.iter().filter_map(|line| line.until);
    times.filter(|at| at.micro() > run.end).min()
}

/// The reasons for which a controller starts no job at a time at which one was due.
const SKIPS: [&str; 6] = [
    "StillActive",
    "JobAlreadyActive",
    "PastDeadline",
    "MissSchedule",
    "TooManyMissed",
    "TooManyMissedTimes",
];

fn waits(run: &Run, noted: &Noted, uid: &str, object: &str) -> Vec<Entry> {
    let own = noted.decisions.iter().filter(|one| one.at >= run.start);
    let own = own.filter(|one| one.object.uid.to_string() == uid);
    let mut found: Vec<Entry> = Vec::new();
    for decision in own {
        let lines = decision.lines.iter();
        let skipped =
            lines.filter(|line| line.class != Class::Acts && SKIPS.contains(&&*line.reason));
        for line in skipped {
            let entry = Entry {
                at: seconds(run.start, decision.at),
                object: object.to_owned(),
                what: line.what.to_string(),
                why: line.why.to_string(),
            };
            let is_told = found
                .last()
                .is_some_and(|last| (&last.what, &last.why) == (&entry.what, &entry.why));
            if !is_told {
                found.push(entry);
            }
        }
    }
    found
}

impl Schedule {
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let of = |at: f64, what: String, why: String| Entry {
            at,
            object: self.object.clone(),
            what,
            why,
        };
        let mut entries = self.waits.clone();
        for run in &self.runs {
            entries.push(of(
                run.at,
                format!("starts {}", run.job),
                format!("scheduled for {}", run.time),
            ));
            if let (Some(seconds), Some(succeeded)) = (run.seconds, run.succeeded) {
                let how = if succeeded { "succeeds" } else { "fails" };
                let what = format!("{} {how} after {}", run.job, duration(seconds));
                entries.push(of(run.at + seconds, what, String::new()));
            }
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
        let Some(first) = self.runs.first() else {
            return format!("{head}: no run in {given}{next}");
        };
        let runs = counted(self.runs.len(), "run");
        let failed = self.runs.iter().filter(|run| run.succeeded == Some(false));
        let failed = match failed.count() {
            0 => String::new(),
            count => format!(
                ", {count} of them {}",
                api::decision::agree(count, "fails", "fail")
            ),
        };
        let longest = self.runs.iter().filter_map(|run| run.seconds);
        let longest = longest.fold(0.0, f64::max);
        format!(
            "{head}: {runs} in {given}{failed}, the first after {} ({}), the longest takes {}{next}",
            duration(first.at),
            first.time,
            duration(longest)
        )
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
                None => open,
            };
            for cell in cells.iter_mut().take(to + 1).skip(from) {
                *cell = symbol;
            }
        }
        cells.into_iter().collect()
    }
}
