//! What a run came to.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use controllers::oracle::Tally;

use crate::oracle::Counts;
use crate::scenario::Scenario;

/// One run of one scenario.
#[derive(Clone, Debug)]
pub struct Report {
    pub name: String,
    pub seed: u64,
    /// Over every write: the same seed always gives the same.
    pub hash: u64,
    pub virtual_time: Duration,
    /// How long managers went on writing once all faults were over and users had put everything right. None where a key
    /// failed by then that may fail for as long as users like.
    pub converging: Duration,
    pub manager_writes: u64,
    pub writes: u64,
    /// FaultRates injected, by class.
    pub faults: BTreeMap<&'static str, u64>,
    pub crashes: u64,
    pub checks: u64,
    /// How often each check that has a name was asked.
    pub tallies: BTreeMap<&'static str, Tally>,
    pub counts: Counts,
    pub end_state: Vec<String>,
    /// Which of the user's actions were granted.
    pub granted: Vec<bool>,
    pub failure: Option<Failure>,
}

/// What was broken, and how it came to that.
#[derive(Clone, Debug)]
pub struct Failure {
    pub problem: String,
    pub timeline: Vec<String>,
    /// The smallest scenario that still breaks, if somebody looked for it, and how to replay it.
    pub shrunk: Option<Scenario>,
    pub replay: String,
}

impl Report {
    pub fn is_broken(&self) -> bool {
        self.failure.is_some()
    }

    pub fn fault_count(&self) -> u64 {
        self.faults.values().sum()
    }
}

impl Failure {
    /// The problem without what differs from run to run: names, numbers and lists.
    pub(crate) fn sort(&self) -> Vec<String> {
        let first = self.problem.lines().next().unwrap_or_default();
        let is_word = |word: &&str| {
            word.chars()
                .all(|c| c.is_alphabetic() || ",.:'".contains(c))
        };
        let words = first.split_whitespace().filter(is_word);
        words.map(str::to_owned).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {} writes ({} by the manager), {} faults, {} crashes, {:.0} virtual seconds",
            self.name,
            self.writes,
            self.manager_writes,
            self.fault_count(),
            self.crashes,
            self.virtual_time.as_secs_f64(),
        )?;
        match self.is_broken() {
            true => writeln!(f, "  a check is broken, of {} evaluations", self.checks)?,
            false => writeln!(f, "  every check held, in {} evaluations", self.checks)?,
        }
        for line in &self.end_state {
            writeln!(f, "  {line}")?;
        }
        writeln!(f, "  hash {:016x}", self.hash)?;
        match &self.failure {
            Some(failure) => write!(f, "\n{failure}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "BROKEN: {}", self.problem)?;
        if let Some(shrunk) = &self.shrunk {
            writeln!(f, "\nthe smallest scenario found that breaks it:\n{shrunk}")?;
        }
        writeln!(f, "timeline:")?;
        for line in &self.timeline {
            writeln!(f, "  {line}")?;
        }
        writeln!(f, "\nreplay: {}", self.replay)
    }
}
