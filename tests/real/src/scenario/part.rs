//! Scenarios that are played together, with the controllers that they are about.

use std::time::Duration;

/// Which stories a story is played along with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Workloads,
    Housekeeping,
    Nodes,
    /// Stories in which the manager starts anew, so that each has it for itself.
    Restarts,
}

/// What scenarios of workloads are about; others would only add noise of their own.
const WORKLOADS: [&str; 8] = [
    "deployment-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "statefulset-controller",
    "daemonset-controller",
    "cronjob-controller",
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

/// So few finished pods may stay, in the whole cluster: one scenario makes more.
const FINISHED_PODS: &str = "--terminated-pod-gc-threshold=2";

/// More than the time between two looks at all nodes, of which each may write something.
const LOOKS_AT_NODES: Duration = Duration::from_secs(3);

/// Silence is noticed while a story lasts, and heartbeats of a loaded machine are in time. A story can do something
/// between two looks. Nodes that wait for their turn to be tainted wait for seconds.
const SHORT_PATIENCE: [&str; 4] = [
    "--node-monitor-period=2s",
    "--node-monitor-grace-period=8s",
    "--node-startup-grace-period=8s",
    "--node-eviction-rate=0.5",
];

/// Tokens that nobody has used since yesterday are old.
const SHORT_MEMORY: &str = "--legacy-service-account-token-clean-up-period=1s";

impl Part {
    pub const ALL: [Part; 4] = [
        Part::Workloads,
        Part::Housekeeping,
        Part::Nodes,
        Part::Restarts,
    ];

    pub(crate) fn controllers(self) -> &'static [&'static str] {
        match self {
            Part::Workloads => &WORKLOADS,
            Part::Housekeeping => &HOUSEKEEPING,
            Part::Nodes => &NODES,
            Part::Restarts => &RESTARTS,
        }
    }

    pub(crate) fn flags(self) -> Vec<String> {
        let flags: &[&str] = match self {
            Part::Workloads => &[],
            Part::Housekeeping => &[FINISHED_PODS],
            Part::Nodes => &SHORT_PATIENCE,
            Part::Restarts => &[SHORT_MEMORY],
        };
        flags.iter().map(ToString::to_string).collect()
    }

    /// How long nothing is written once a story is over, where managers also act when nothing has happened.
    pub(crate) fn quiet_at_the_end(self) -> Option<Duration> {
        match self {
            Part::Nodes => Some(LOOKS_AT_NODES),
            Part::Workloads | Part::Housekeeping | Part::Restarts => None,
        }
    }

    /// How many of its stories are played at a time, of those that a machine can carry.
    pub(crate) fn at_a_time(self, most: usize) -> usize {
        match self {
            Part::Workloads | Part::Housekeeping | Part::Nodes => most,
            Part::Restarts => 1,
        }
    }
}
