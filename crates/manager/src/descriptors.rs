//! The controllers by name: aliases, gates, defaults, service accounts, and what `--controllers` makes of them.
//!
//! All names of kube-controller-manager are here, also those of controllers that are not built yet or that
//! only a cloud controller manager runs, because operators' manifests name them.

use crate::gates::FeatureGates;

/// One controller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Descriptor {
    pub name: &'static str,
    /// The name it had before names were unified; empty if it never had another.
    pub alias: &'static str,
    /// The service account in kube-system that it acts as with --use-service-account-credentials.
    pub service_account: &'static str,
    /// Features that must all be on for it to run.
    pub gates: &'static [&'static str],
    pub on_by_default: bool,
    /// Cloud providers run it in their own manager; here it is a name only.
    pub cloud: bool,
    /// Started before all others with the manager's own identity, whatever --controllers says, because the
    /// others' credentials may depend on it.
    pub first: bool,
    /// How many times the rate and the burst of --kube-api-qps and --kube-api-burst its client may have.
    pub rate: (f64, u32),
}

/// All 52, in upstream's order of registration.
pub const DESCRIPTORS: &[Descriptor] = &[
    controller(
        "serviceaccount-token-controller",
        "serviceaccount-token",
        "tokens-controller",
    )
    .first(),
    controller("endpoints-controller", "endpoint", "endpoint-controller"),
    controller(
        "endpointslice-controller",
        "endpointslice",
        "endpointslice-controller",
    ),
    controller(
        "endpointslice-mirroring-controller",
        "endpointslicemirroring",
        "endpointslicemirroring-controller",
    ),
    controller(
        "replicationcontroller-controller",
        "replicationcontroller",
        "replication-controller",
    ),
    controller(
        "pod-garbage-collector-controller",
        "podgc",
        "pod-garbage-collector",
    ),
    controller(
        "resourcequota-controller",
        "resourcequota",
        "resourcequota-controller",
    ),
    // UPSTREAM: a namespace takes many requests to empty, and everybody waits for it.
    controller("namespace-controller", "namespace", "namespace-controller").faster(20.0, 100),
    controller(
        "serviceaccount-controller",
        "serviceaccount",
        "service-account-controller",
    ),
    controller(
        "garbage-collector-controller",
        "garbagecollector",
        "generic-garbage-collector",
    )
    // UPSTREAM: it reads before it deletes, and is to delete as fast as others create.
    .faster(2.0, 1),
    controller("daemonset-controller", "daemonset", "daemon-set-controller"),
    controller("job-controller", "job", "job-controller"),
    controller(
        "podgroup-protection-controller",
        "",
        "podgroup-protection-controller",
    )
    .gated(&["GenericWorkload"]),
    controller(
        "deployment-controller",
        "deployment",
        "deployment-controller",
    ),
    controller(
        "replicaset-controller",
        "replicaset",
        "replicaset-controller",
    ),
    controller(
        "horizontal-pod-autoscaler-controller",
        "horizontalpodautoscaling",
        "horizontal-pod-autoscaler",
    ),
    controller(
        "disruption-controller",
        "disruption",
        "disruption-controller",
    ),
    controller(
        "statefulset-controller",
        "statefulset",
        "statefulset-controller",
    ),
    controller("cronjob-controller", "cronjob", "cronjob-controller"),
    controller(
        "certificatesigningrequest-signing-controller",
        "csrsigning",
        "certificate-controller",
    ),
    controller(
        "certificatesigningrequest-approving-controller",
        "csrapproving",
        "certificate-controller",
    ),
    controller(
        "certificatesigningrequest-cleaner-controller",
        "csrcleaner",
        "certificate-controller",
    ),
    controller(
        "podcertificaterequest-cleaner-controller",
        "",
        "podcertificaterequestcleaner",
    )
    .gated(&["PodCertificateRequest"]),
    controller("ttl-controller", "ttl", "ttl-controller"),
    controller(
        "bootstrap-signer-controller",
        "bootstrapsigner",
        "bootstrap-signer",
    )
    .off(),
    controller("token-cleaner-controller", "tokencleaner", "token-cleaner").off(),
    controller("node-ipam-controller", "nodeipam", "node-controller"),
    controller(
        "node-lifecycle-controller",
        "nodelifecycle",
        "node-controller",
    ),
    controller("service-lb-controller", "service", "").cloud(),
    controller("node-route-controller", "route", "").cloud(),
    controller(
        "cloud-node-lifecycle-controller",
        "cloud-node-lifecycle",
        "",
    )
    .cloud(),
    controller(
        "persistentvolume-binder-controller",
        "persistentvolume-binder",
        "persistent-volume-binder",
    ),
    controller(
        "persistentvolume-attach-detach-controller",
        "attachdetach",
        "attachdetach-controller",
    ),
    controller(
        "persistentvolume-expander-controller",
        "persistentvolume-expander",
        "expand-controller",
    ),
    controller(
        "clusterrole-aggregation-controller",
        "clusterrole-aggregation",
        "clusterrole-aggregation-controller",
    ),
    controller(
        "persistentvolumeclaim-protection-controller",
        "pvc-protection",
        "pvc-protection-controller",
    ),
    controller(
        "persistentvolume-protection-controller",
        "pv-protection",
        "pv-protection-controller",
    ),
    controller(
        "volumeattributesclass-protection-controller",
        "",
        "volumeattributesclass-protection-controller",
    )
    .gated(&["VolumeAttributesClass"]),
    controller(
        "ttl-after-finished-controller",
        "ttl-after-finished",
        "ttl-after-finished-controller",
    ),
    controller(
        "root-ca-certificate-publisher-controller",
        "root-ca-cert-publisher",
        "root-ca-cert-publisher",
    ),
    controller(
        "kube-apiserver-serving-clustertrustbundle-publisher-controller",
        "",
        "kube-apiserver-serving-clustertrustbundle-publisher",
    )
    .gated(&["ClusterTrustBundle"]),
    controller(
        "ephemeral-volume-controller",
        "ephemeral-volume",
        "ephemeral-volume-controller",
    ),
    controller(
        "storageversion-garbage-collector-controller",
        "storage-version-gc",
        "storage-version-garbage-collector",
    )
    .gated(&["APIServerIdentity", "StorageVersionAPI"]),
    controller(
        "resourceclaim-controller",
        "resource-claim-controller",
        "resource-claim-controller",
    )
    .gated(&["DynamicResourceAllocation"]),
    controller(
        "resourcepoolstatusrequest-controller",
        "",
        "resourcepoolstatusrequest-controller",
    )
    .gated(&["DRAResourcePoolStatus"]),
    controller(
        "device-taint-eviction-controller",
        "",
        "device-taint-eviction-controller",
    )
    .gated(&["DynamicResourceAllocation", "DRADeviceTaints"]),
    controller(
        "legacy-serviceaccount-token-cleaner-controller",
        "legacy-service-account-token-cleaner",
        "legacy-service-account-token-cleaner",
    ),
    controller(
        "validatingadmissionpolicy-status-controller",
        "",
        "validatingadmissionpolicy-status-controller",
    ),
    controller("taint-eviction-controller", "", "node-controller")
        .gated(&["SeparateTaintEvictionController"]),
    controller("service-cidr-controller", "", "service-cidrs-controller")
        .gated(&["MultiCIDRServiceAllocator"]),
    controller(
        "storage-version-migrator-controller",
        "svm",
        "storage-version-migrator-controller",
    )
    .gated(&["StorageVersionMigrator"])
    .faster(20.0, 100),
    controller(
        "selinux-warning-controller",
        "",
        "selinux-warning-controller",
    )
    .gated(&["SELinuxChangePolicy"])
    .off(),
];

impl Descriptor {
    const fn gated(self, gates: &'static [&'static str]) -> Descriptor {
        Descriptor { gates, ..self }
    }

    const fn off(self) -> Descriptor {
        Descriptor {
            on_by_default: false,
            ..self
        }
    }

    const fn cloud(self) -> Descriptor {
        Descriptor {
            cloud: true,
            ..self
        }
    }

    const fn faster(self, rate: f64, burst: u32) -> Descriptor {
        Descriptor {
            rate: (rate, burst),
            ..self
        }
    }

    const fn first(self) -> Descriptor {
        Descriptor {
            first: true,
            ..self
        }
    }
}

const fn controller(
    name: &'static str,
    alias: &'static str,
    service_account: &'static str,
) -> Descriptor {
    Descriptor {
        name,
        alias,
        service_account,
        gates: &[],
        on_by_default: true,
        cloud: false,
        first: false,
        rate: (1.0, 1),
    }
}

/// The descriptor with this name or alias.
pub fn find(name: &str) -> Option<&'static Descriptor> {
    DESCRIPTORS.iter().find(|descriptor| {
        descriptor.name == name || (descriptor.alias == name && !name.is_empty())
    })
}

/// What becomes of a controller in this process.
#[derive(Clone, Debug, PartialEq)]
pub enum Fate {
    Runs,
    /// --controllers leaves it out.
    Deselected,
    /// A feature it needs is off.
    Gated(&'static [&'static str]),
    /// It is a cloud provider's controller.
    Cloud,
    /// It was selected, but this build does not have it.
    NotBuilt,
}

/// A name in --controllers that no controller has.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error(
    "--controllers: {name:?} is not in the list of known controllers: {}",
    known_names().join(", ")
)]
pub struct UnknownController {
    pub name: String,
}

/// Checks --controllers and replaces aliases by names.
pub fn canonical(list: &[String]) -> Result<Vec<String>, Vec<UnknownController>> {
    let mut names = Vec::new();
    let mut unknown = Vec::new();
    for item in list {
        let (minus, name) = match item.strip_prefix('-') {
            Some(name) => ("-", name),
            None => ("", item.as_str()),
        };
        match find(name) {
            _ if item == "*" => names.push(item.clone()),
            Some(descriptor) => names.push(format!("{minus}{}", descriptor.name)),
            None => unknown.push(UnknownController {
                name: name.to_owned(),
            }),
        }
    }
    if unknown.is_empty() {
        Ok(names)
    } else {
        Err(unknown)
    }
}

/// What becomes of each controller, given --controllers (with aliases replaced), the gates, and which are built.
pub fn select<'a>(
    list: &'a [String],
    gates: &'a FeatureGates,
    built: impl Fn(&str) -> bool + 'a,
) -> impl Iterator<Item = (&'static Descriptor, Fate)> + 'a {
    DESCRIPTORS.iter().map(move |descriptor| {
        let fate = match descriptor {
            _ if !descriptor.first && !is_selected(descriptor, list) => Fate::Deselected,
            _ if descriptor.cloud => Fate::Cloud,
            _ if descriptor.gates.iter().any(|gate| !gates.enabled(gate)) => {
                Fate::Gated(descriptor.gates)
            }
            _ if !built(descriptor.name) => Fate::NotBuilt,
            _ => Fate::Runs,
        };
        (descriptor, fate)
    })
}

/// The first explicit mention counts; "*" stands for the defaults of those never mentioned.
fn is_selected(descriptor: &Descriptor, list: &[String]) -> bool {
    let mention = list.iter().find_map(|item| match item.strip_prefix('-') {
        Some(name) if name == descriptor.name => Some(false),
        None if item == descriptor.name => Some(true),
        _ => None,
    });
    mention.unwrap_or_else(|| descriptor.on_by_default && list.iter().any(|item| item == "*"))
}

/// All names, sorted, as the help lists them.
pub fn known_names() -> Vec<&'static str> {
    let mut names: Vec<_> = DESCRIPTORS
        .iter()
        .map(|descriptor| descriptor.name)
        .collect();
    names.sort_unstable();
    names
}

/// Names of those that run only when --controllers asks for them.
pub fn disabled_by_default() -> Vec<&'static str> {
    let mut names: Vec<_> = DESCRIPTORS
        .iter()
        .filter(|descriptor| !descriptor.on_by_default)
        .map(|descriptor| descriptor.name)
        .collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(list: &str, name: &str, expected: Fate) {
        let list: Vec<String> = list.split(',').map(str::to_owned).collect();
        let list = canonical(&list).unwrap();
        let gates = FeatureGates::defaults();
        let fate = select(&list, &gates, |name| name != "disruption-controller")
            .find(|(descriptor, _)| descriptor.name == name)
            .map(|(_, fate)| fate);
        assert_eq!(fate, Some(expected), "{name} in {list:?}");
    }

    #[test]
    fn there_are_52_with_unique_names_and_aliases() {
        let mut names: Vec<_> = DESCRIPTORS
            .iter()
            .flat_map(|descriptor| [descriptor.name, descriptor.alias])
            .filter(|name| !name.is_empty())
            .collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!((DESCRIPTORS.len(), names.len()), (52, count));
        for descriptor in DESCRIPTORS {
            assert_eq!(
                descriptor.service_account.is_empty(),
                descriptor.cloud,
                "{}",
                descriptor.name
            );
        }
    }

    #[test]
    fn gates_of_descriptors_exist() {
        let known: Vec<_> = FeatureGates::defaults()
            .all()
            .map(|(name, ..)| name)
            .collect();
        for gate in DESCRIPTORS.iter().flat_map(|descriptor| descriptor.gates) {
            assert!(known.contains(gate), "{gate}");
        }
    }

    #[test]
    fn a_star_stands_for_the_defaults() {
        check("*", "job-controller", Fate::Runs);
        check("*", "token-cleaner-controller", Fate::Deselected);
        check("*,tokencleaner", "token-cleaner-controller", Fate::Runs);
        check("*,-job", "job-controller", Fate::Deselected);
    }

    #[test]
    fn without_a_star_only_what_is_named_runs() {
        check("deployment", "job-controller", Fate::Deselected);
        check("deployment", "deployment-controller", Fate::Runs);
    }

    #[test]
    fn the_first_mention_counts() {
        check("job,-job", "job-controller", Fate::Runs);
        check("-job-controller,job", "job-controller", Fate::Deselected);
    }

    #[test]
    fn the_token_controller_does_not_ask() {
        check(
            "-serviceaccount-token,job",
            "serviceaccount-token-controller",
            Fate::Runs,
        );
    }

    #[test]
    fn gates_cloud_and_missing_builds_are_told_apart() {
        check(
            "*",
            "podgroup-protection-controller",
            Fate::Gated(&["GenericWorkload"]),
        );
        check("*", "service-lb-controller", Fate::Cloud);
        check("*", "disruption-controller", Fate::NotBuilt);
    }

    #[test]
    fn unknown_names_are_refused_with_the_known_ones() {
        let errors = canonical(&["*".into(), "-foo".into(), "jobs".into()]).unwrap_err();
        assert_eq!(errors.len(), 2);
        let message = errors[0].to_string();
        assert!(
            message.starts_with(
                "--controllers: \"foo\" is not in the list of known controllers: bootstrap-"
            ),
            "{message}"
        );
        assert!(message.contains("job-controller"));
    }
}
