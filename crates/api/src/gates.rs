//! Feature gates that change what a built controller does.
//!
//! The full table of upstream's gates (stages, locks, emulated versions) is the manager's; here are
//! the ones that code asks for, with their defaults in 1.36.

macro_rules! gates {
    ($($name:ident = $default:literal,)*) => {
        /// A gate that some controller reads.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Gate { $($name),* }

        impl Gate {
            pub const ALL: &[Gate] = &[$(Gate::$name),*];

            /// The name on the command line.
            pub fn name(self) -> &'static str {
                match self { $(Gate::$name => stringify!($name)),* }
            }

            pub fn default_on(self) -> bool {
                match self { $(Gate::$name => $default),* }
            }
        }
    };
}

gates! {
    ControllerManagerReleaseLeaderElectionLockOnExit = true, // UPSTREAM: alpha and off; releasing is what operators want, see docs/differences.md
    DRAAdminAccess = true,
    DRADeviceTaintRules = false,
    DRAExtendedResource = true,
    DRAPrioritizedList = true,
    DRAWorkloadResourceClaims = false,
    DeploymentReplicaSetTerminatingReplicas = true,
    HPAConfigurableTolerance = true,
    HPAScaleToZero = false,
    JobManagedBy = true,
    JobPodReplacementPolicy = true,
    LogarithmicScaleDown = true,
    MaxUnavailableStatefulSet = false,
    MutableSchedulingDirectivesForSuspendedJobs = true,
    OrderedNamespaceDeletion = true,
    PersistentVolumeClaimUnusedSinceTime = false,
    PodDeletionCost = true,
    PodLevelResources = true,
    PodObservedGenerationTracking = true,
    PreferSameTrafficDistribution = true,
    RecoverVolumeExpansionFailure = true,
    SeparateTaintEvictionController = true,
    StaleControllerConsistencyDaemonSet = true,
    StaleControllerConsistencyJob = true,
    StaleControllerConsistencyReplicaSet = true,
    StaleControllerConsistencyStatefulSet = true,
    StatefulSetSemanticRevisionComparison = true,
    TaintTolerationComparisonOperators = false,
    VolumeAttributesClass = true,
    WorkloadWithJob = false,
}

/// Which gates are on. Copied into each controller when it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates(u64);

impl Gates {
    pub fn enabled(self, gate: Gate) -> bool {
        self.0 & 1 << gate as u64 != 0
    }

    #[must_use]
    pub fn with(self, gate: Gate, on: bool) -> Gates {
        let bit = 1 << gate as u64;
        Gates(if on { self.0 | bit } else { self.0 & !bit })
    }
}

impl Default for Gates {
    fn default() -> Gates {
        Gate::ALL
            .iter()
            .fold(Gates(0), |gates, gate| gates.with(*gate, gate.default_on()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_and_overrides() {
        let gates = Gates::default();
        assert!(!gates.enabled(Gate::MaxUnavailableStatefulSet));
        assert!(gates.enabled(Gate::StaleControllerConsistencyReplicaSet));
        assert!(
            gates
                .with(Gate::MaxUnavailableStatefulSet, true)
                .enabled(Gate::MaxUnavailableStatefulSet)
        );
        assert_eq!(
            Gate::MaxUnavailableStatefulSet.name(),
            "MaxUnavailableStatefulSet"
        );
    }
}
