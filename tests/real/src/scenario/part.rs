//! Scenarios that are played together, with the controllers that they are about.

use std::time::Duration;

use serde::Deserialize;

use super::Scenario;

/// Which scenarios a scenario is played along with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    Workloads,
    Housekeeping,
    Nodes,
    /// Scenarios in which the manager starts anew, so that each has it for itself.
    Restarts,
    /// Claims and volumes: whoever binds them has an opinion of every claim.
    Storage,
    /// What keeps claims and volumes that nobody binds.
    Protection,
}

/// What scenarios of workloads are about; others would only add noise of their own.
const WORKLOADS: [&str; 7] = [
    "deployment-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "statefulset-controller",
    "daemonset-controller",
    "job-controller",
    "garbage-collector-controller",
];

/// What scenarios of housekeeping are about.
const HOUSEKEEPING: [&str; 9] = [
    "clusterrole-aggregation-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "pod-garbage-collector-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "ttl-after-finished-controller",
    "ttl-controller",
];

/// What scenarios of nodes are about.
const NODES: [&str; 2] = ["node-lifecycle-controller", "taint-eviction-controller"];

/// What scenarios are about that restart their manager: this one looks once a day, and when it starts.
const RESTARTS: [&str; 1] = ["legacy-serviceaccount-token-cleaner-controller"];

/// What scenarios of claims and volumes are about, each beside what it names.
const PROTECTION: [&str; 3] = [
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "volumeattributesclass-protection-controller",
];

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

    /// What runs while these scenarios are played: what the part is about, and what they name.
    pub(crate) fn controllers(self, scenarios: &[Scenario]) -> Vec<String> {
        let own: &[&str] = match self {
            Part::Workloads => &WORKLOADS,
            Part::Housekeeping => &HOUSEKEEPING,
            Part::Nodes => &NODES,
            Part::Restarts => &RESTARTS,
            Part::Storage | Part::Protection => &PROTECTION,
        };
        let named = scenarios.iter().flat_map(Scenario::controllers);
        let mut all: Vec<String> = own.iter().map(ToString::to_string).chain(named).collect();
        all.sort();
        all.dedup();
        all
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
