//! What a run came to.

use std::fmt;
use std::time::Duration;

/// One run of one seed.
#[derive(Clone, Debug)]
pub struct Report {
    pub seed: u64,
    /// Over every write: the same seed always gives the same.
    pub hash: u64,
    pub virtual_time: Duration,
    pub manager_writes: u64,
    pub writes: u64,
    pub faults: u64,
    pub crashes: u64,
    pub checks: u64,
    pub end_state: Vec<String>,
    pub failure: Option<Failure>,
}

/// What was broken, and how it came to that.
#[derive(Clone, Debug)]
pub struct Failure {
    pub problem: String,
    pub timeline: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "seed {}: {} writes ({} by the manager), {} faults, {} crashes, {} checks, {:.0} virtual seconds",
            self.seed,
            self.writes,
            self.manager_writes,
            self.faults,
            self.crashes,
            self.checks,
            self.virtual_time.as_secs_f64(),
        )?;
        for line in &self.end_state {
            writeln!(f, "  {line}")?;
        }
        writeln!(f, "  hash {:016x}", self.hash)?;
        if let Some(failure) = &self.failure {
            writeln!(f, "\nBROKEN: {}", failure.problem)?;
            for line in &failure.timeline {
                writeln!(f, "  {line}")?;
            }
            writeln!(f, "\nreplay: steersman simulate --seed {}", self.seed)?;
        }
        Ok(())
    }
}
