//! Scenarios that are played together, with the controllers that they are about.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use serde::Deserialize;

use super::Scenario;

/// Which scenarios a scenario is played along with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    Workloads,
    Housekeeping,
    Nodes,
    /// Scenarios in which the manager restarts, so that each has it for itself.
    Restarts,
    /// Claims and volumes: whoever binds them has an opinion of every claim.
    Storage,
    /// What keeps claims and volumes that nobody binds.
    Protection,
}

/// So few finished pods may stay, in the whole cluster: one scenario makes more.
const FINISHED_PODS: &str = "--terminated-pod-gc-threshold=2";

/// More than the time between two looks at all nodes, of which each may write something.
const LOOKS_AT_NODES: Duration = Duration::from_secs(3);

/// Silence is noticed while a scenario lasts, and heartbeats of a loaded machine are in time. A scenario can do something
/// between two looks. Nodes that wait for their turn to be tainted wait for seconds.
const SHORT_PATIENCE: [&str; 4] = [
    "--node-monitor-period=2s",
    "--node-monitor-grace-period=8s",
    "--node-startup-grace-period=8s",
    "--node-eviction-rate=0.5",
];

/// Tokens that nobody has used since yesterday are old.
const SHORT_MEMORY: &str = "--legacy-service-account-token-clean-up-period=1s";

/// Nodes get parts of a small network, where a scenario is about that: one at a time, so that each begins at its begin.
const ALLOCATE: &str = "--allocate-node-cidrs";
const NETWORK: &str = "--cluster-cidr=10.244.0.0/22";

impl Part {
    pub const ALL: [Part; 6] = [
        Part::Workloads,
        Part::Housekeeping,
        Part::Nodes,
        Part::Restarts,
        Part::Storage,
        Part::Protection,
    ];

    /// What runs while scenarios of this part are played: what any of them is about, so that one that is played alone
    /// finds the same company.
    pub(crate) fn controllers(self) -> Result<Vec<String>> {
        let all = Scenario::load(&[])?;
        let own = all.iter().filter(|scenario| scenario.part == self);
        let names: BTreeSet<&String> = own.flat_map(|scenario| &scenario.controllers).collect();
        Ok(names.into_iter().cloned().collect())
    }

    pub(crate) fn flags(self) -> Vec<String> {
        let flags: &[&str] = match self {
            Part::Workloads => &[],
            Part::Housekeeping => &[FINISHED_PODS],
            Part::Nodes => &SHORT_PATIENCE,
            Part::Restarts => &[SHORT_MEMORY, ALLOCATE, NETWORK],
            Part::Storage | Part::Protection => &[],
        };
        flags.iter().map(ToString::to_string).collect()
    }

    /// How long nothing is written once a scenario is over, where managers also act when nothing has happened.
    pub(crate) fn quiet_at_the_end(self) -> Option<Duration> {
        match self {
            Part::Nodes => Some(LOOKS_AT_NODES),
            Part::Workloads
            | Part::Housekeeping
            | Part::Restarts
            | Part::Storage
            | Part::Protection => None,
        }
    }

    /// How many of its scenarios are played at a time, of those that a machine can carry.
    pub(crate) fn at_a_time(self, most: usize) -> usize {
        match self {
            Part::Workloads
            | Part::Housekeeping
            | Part::Nodes
            | Part::Storage
            | Part::Protection => most,
            Part::Restarts => 1,
        }
    }
}
