//! What many runs came to.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use api::decision::counted;
use simulator::{Report, Tally};

use crate::terminal::{Terminal, Tone};

pub(super) struct Sum {
    started: Instant,
    told: Instant,
    elapsed_seconds: f64,
    runs: u64,
    virtual_seconds: f64,
    writes: u64,
    faults: BTreeMap<&'static str, u64>,
    crashes: u64,
    checks: u64,
    /// In how many runs each check that has a name was evaluated, and how often in all.
    named: BTreeMap<&'static str, Named>,
    pub(super) broken: Vec<(u64, Report)>,
}

/// How often a check was asked in many runs.
#[derive(Default)]
struct Named {
    tally: Tally,
    /// Runs that had something for it to look at.
    runs: u64,
    evaluated_in: u64,
}

/// So many runs have to concern a check before it is held to half of them: of three runs two may be unlucky.
const RUNS_MIN: u64 = 20;

impl Named {
    fn add(&mut self, tally: Tally) {
        self.tally.evaluated += tally.evaluated;
        self.tally.suspended += tally.suspended;
        self.runs += 1;
        self.evaluated_in += u64::from(tally.evaluated > 0);
    }

    /// A check that is suspended nearly always finds nothing.
    fn is_blind(&self) -> bool {
        self.runs >= RUNS_MIN && self.evaluated_in * 2 < self.runs
    }
}

/// More failures than a person reads at once; the others are named.
pub(super) const SHOWN: usize = 3;

/// Often enough to see that it goes on, and too seldom to fill a log.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// As wide as half a terminal.
const BAR: u64 = 40;

impl Sum {
    pub(super) fn new() -> Sum {
        Sum {
            started: now(),
            told: now(),
            elapsed_seconds: 0.0,
            runs: 0,
            virtual_seconds: 0.0,
            writes: 0,
            faults: BTreeMap::new(),
            crashes: 0,
            checks: 0,
            named: BTreeMap::new(),
            broken: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, number: u64, report: Report) {
        self.runs += 1;
        self.virtual_seconds += report.virtual_time.as_secs_f64();
        self.writes += report.writes;
        for (class, count) in &report.faults {
            *self.faults.entry(class).or_default() += count;
        }
        self.crashes += report.crashes;
        self.checks += report.checks;
        for (name, tally) in &report.tallies {
            self.named.entry(name).or_default().add(*tally);
        }
        if report.is_broken() {
            self.broken.push((number, report));
        }
    }

    pub(super) fn finish(&mut self) {
        self.elapsed_seconds = now().duration_since(self.started).as_secs_f64();
        self.broken.sort_by_key(|(number, _)| *number);
    }

    pub(super) fn is_broken(&self) -> bool {
        !self.broken.is_empty() || self.named.values().any(Named::is_blind)
    }

    /// What held, in one sentence.
    pub(super) fn verdict(&self, terminal: Terminal) -> String {
        let runs = counted(self.runs, "run");
        let (tone, text) = match (self.broken.len(), self.is_broken()) {
            (0, false) => (
                Tone::Good,
                format!("Every check held in {runs}: {} evaluations.", self.checks),
            ),
            (0, true) => (
                Tone::Bad,
                format!("Nothing broke in {runs}, but checks were blind: see above."),
            ),
            (broken, _) => (
                Tone::Bad,
                format!("A check is broken in {broken} of {runs}."),
            ),
        };
        let painted = terminal.paint(tone, &text);
        terminal.wrap(&painted).into_owned()
    }

    /// Is it so long ago that somebody said how far it is? For logs, where a bar cannot move.
    pub(super) fn is_time_to_tell(&mut self) -> bool {
        let is_time = now().duration_since(self.told) >= TELL_EVERY;
        if is_time {
            self.told = now();
        }
        is_time
    }

    pub(super) fn progress(&self, total: u64) -> String {
        let filled = usize::try_from(self.runs * BAR / total.max(1)).unwrap_or(0);
        let empty = usize::try_from(BAR).unwrap_or(0).saturating_sub(filled);
        let elapsed = now().duration_since(self.started).as_secs_f64();
        let left = elapsed / self.runs.max(1) as f64 * (total - self.runs) as f64;
        format!(
            "[{}{}] {} of {total}, {} broken, {left:.0} s left ",
            "#".repeat(filled),
            "-".repeat(empty),
            self.runs,
            self.broken.len(),
        )
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long people wait is real time"
)]
fn now() -> Instant {
    Instant::now()
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let elapsed = self.elapsed_seconds.max(1e-9);
        writeln!(f, "runs              {}", self.runs)?;
        writeln!(f, "virtual seconds   {:.0}", self.virtual_seconds)?;
        writeln!(f, "real seconds      {elapsed:.1}")?;
        writeln!(
            f,
            "speed             {:.0} times real time",
            self.virtual_seconds / elapsed
        )?;
        writeln!(
            f,
            "runs an hour      {:.0}",
            self.runs as f64 / elapsed * 3600.0
        )?;
        writeln!(f, "writes            {}", self.writes)?;
        writeln!(f, "crashes survived  {}", self.crashes)?;
        writeln!(f, "checks evaluated  {}", self.checks)?;
        writeln!(f, "faults injected   {}", self.faults.values().sum::<u64>())?;
        for (class, count) in &self.faults {
            writeln!(f, "  {class:<32} {count}")?;
        }
        if !self.named.is_empty() {
            writeln!(
                f,
                "checks that a lagging view suspends: evaluated, suspended; runs concerned, evaluated in"
            )?;
        }
        for (name, held) in &self.named {
            let Named {
                tally,
                runs,
                evaluated_in,
            } = held;
            let (evaluated, suspended) = (tally.evaluated, tally.suspended);
            let blind = if held.is_blind() {
                "  BLIND: evaluated in less than half of the runs that concern it"
            } else {
                ""
            };
            writeln!(
                f,
                "  {name:<60} {evaluated:>7} {suspended:>7} {runs:>6} {evaluated_in:>6}{blind}"
            )?;
        }
        writeln!(f, "broken            {}", self.broken.len())?;
        for (_, report) in self.broken.iter().take(SHOWN) {
            writeln!(f, "\n{report}")?;
        }
        for (_, report) in self.broken.iter().skip(SHOWN) {
            let failure = report.failure.as_ref();
            let (problem, replay) =
                failure.map_or(("", ""), |failure| (&failure.problem, &failure.replay));
            writeln!(f, "\n{}: BROKEN: {problem}\nreplay: {replay}", report.name)?;
        }
        Ok(())
    }
}
