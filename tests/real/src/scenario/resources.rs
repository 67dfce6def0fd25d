//! The kinds that scenarios speak of, and their paths.

use anyhow::{Result, bail};

/// A kind that scenarios speak of.
pub(crate) struct Kind {
    /// As in a target like `deployment/web`.
    pub(crate) target: &'static str,
    /// As in a manifest.
    kind: &'static str,
    /// The path of its group.
    group: &'static str,
    pub(crate) plural: &'static str,
    /// Scenarios share a cluster, so objects without a namespace carry the scenario's in front of their names.
    pub(crate) namespaced: bool,
    /// What is left of it belongs to what a scenario has come to.
    recorded: bool,
}

static KINDS: [Kind; 34] = [
    Kind::namespaced("deployment", "Deployment", "/apis/apps/v1", "deployments").recorded(),
    Kind::namespaced("replicaset", "ReplicaSet", "/apis/apps/v1", "replicasets").recorded(),
    Kind::namespaced(
        "statefulset",
        "StatefulSet",
        "/apis/apps/v1",
        "statefulsets",
    )
    .recorded(),
    Kind::namespaced("daemonset", "DaemonSet", "/apis/apps/v1", "daemonsets").recorded(),
    Kind::namespaced(
        "controllerrevision",
        "ControllerRevision",
        "/apis/apps/v1",
        "controllerrevisions",
    )
    .recorded(),
    Kind::namespaced("job", "Job", "/apis/batch/v1", "jobs").recorded(),
    Kind::namespaced("cronjob", "CronJob", "/apis/batch/v1", "cronjobs").recorded(),
    Kind::namespaced(
        "rc",
        "ReplicationController",
        "/api/v1",
        "replicationcontrollers",
    )
    .recorded(),
    Kind::namespaced("pod", "Pod", "/api/v1", "pods").recorded(),
    Kind::namespaced(
        "pvc",
        "PersistentVolumeClaim",
        "/api/v1",
        "persistentvolumeclaims",
    )
    .recorded(),
    Kind::namespaced("configmap", "ConfigMap", "/api/v1", "configmaps").recorded(),
    Kind::namespaced("secret", "Secret", "/api/v1", "secrets").recorded(),
    Kind::namespaced("service", "Service", "/api/v1", "services"),
    Kind::namespaced("endpoints", "Endpoints", "/api/v1", "endpoints").recorded(),
    Kind::namespaced(
        "endpointslice",
        "EndpointSlice",
        "/apis/discovery.k8s.io/v1",
        "endpointslices",
    )
    .recorded(),
    Kind::namespaced("quota", "ResourceQuota", "/api/v1", "resourcequotas").recorded(),
    Kind::namespaced("limitrange", "LimitRange", "/api/v1", "limitranges"),
    Kind::namespaced(
        "serviceaccount",
        "ServiceAccount",
        "/api/v1",
        "serviceaccounts",
    )
    .recorded(),
    Kind::namespaced(
        "hpa",
        "HorizontalPodAutoscaler",
        "/apis/autoscaling/v2",
        "horizontalpodautoscalers",
    ),
    Kind::namespaced(
        "resourceclaim",
        "ResourceClaim",
        "/apis/resource.k8s.io/v1",
        "resourceclaims",
    )
    .recorded(),
    Kind::namespaced(
        "resourceclaimtemplate",
        "ResourceClaimTemplate",
        "/apis/resource.k8s.io/v1",
        "resourceclaimtemplates",
    ),
    Kind::namespaced(
        "pdb",
        "PodDisruptionBudget",
        "/apis/policy/v1",
        "poddisruptionbudgets",
    ),
    Kind::of_cluster("node", "Node", "/api/v1", "nodes").recorded(),
    Kind::of_cluster("namespace", "Namespace", "/api/v1", "namespaces").recorded(),
    Kind::of_cluster(
        "clusterrole",
        "ClusterRole",
        "/apis/rbac.authorization.k8s.io/v1",
        "clusterroles",
    )
    .recorded(),
    Kind::of_cluster("pv", "PersistentVolume", "/api/v1", "persistentvolumes").recorded(),
    Kind::of_cluster(
        "storageclass",
        "StorageClass",
        "/apis/storage.k8s.io/v1",
        "storageclasses",
    ),
    Kind::of_cluster(
        "vac",
        "VolumeAttributesClass",
        "/apis/storage.k8s.io/v1",
        "volumeattributesclasses",
    )
    .recorded(),
    Kind::of_cluster(
        "volumeattachment",
        "VolumeAttachment",
        "/apis/storage.k8s.io/v1",
        "volumeattachments",
    ),
    Kind::of_cluster(
        "csidriver",
        "CSIDriver",
        "/apis/storage.k8s.io/v1",
        "csidrivers",
    ),
    Kind::of_cluster(
        "csr",
        "CertificateSigningRequest",
        "/apis/certificates.k8s.io/v1",
        "certificatesigningrequests",
    )
    .recorded(),
    Kind::of_cluster(
        "resourceslice",
        "ResourceSlice",
        "/apis/resource.k8s.io/v1",
        "resourceslices",
    ),
    Kind::of_cluster(
        "validatingadmissionpolicy",
        "ValidatingAdmissionPolicy",
        "/apis/admissionregistration.k8s.io/v1",
        "validatingadmissionpolicies",
    )
    .recorded(),
    Kind::of_cluster(
        "servicecidr",
        "ServiceCIDR",
        "/apis/networking.k8s.io/v1",
        "servicecidrs",
    )
    .recorded(),
];

impl Kind {
    const fn namespaced(
        target: &'static str,
        kind: &'static str,
        group: &'static str,
        plural: &'static str,
    ) -> Kind {
        Kind {
            target,
            kind,
            group,
            plural,
            namespaced: true,
            recorded: false,
        }
    }

    const fn of_cluster(
        target: &'static str,
        kind: &'static str,
        group: &'static str,
        plural: &'static str,
    ) -> Kind {
        let mut of_cluster = Kind::namespaced(target, kind, group, plural);
        of_cluster.namespaced = false;
        of_cluster
    }

    const fn recorded(mut self) -> Kind {
        self.recorded = true;
        self
    }
}

/// What the final state of a scenario consists of.
pub(crate) fn recorded() -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().filter(|kind| kind.recorded)
}

fn find(kind: &str) -> Option<&'static Kind> {
    let mut all = KINDS.iter();
    all.find(|known| known.target == kind || known.kind == kind)
}

/// The path of all objects of a kind in a namespace, or of a kind that has none.
pub(crate) fn collection(kind: &str, namespace: &str) -> Result<String> {
    let Some(known) = find(kind) else {
        let targets: Vec<&str> = KINDS.iter().map(|known| known.target).collect();
        let targets = targets.join(", ");
        bail!("scenarios know no kind {kind:?}; there are: {targets}");
    };
    let Kind { group, plural, .. } = known;
    Ok(match known.namespaced {
        true => format!("{group}/namespaces/{namespace}/{plural}"),
        false => format!("{group}/{plural}"),
    })
}

/// The path of all objects of a kind in all namespaces.
pub(crate) fn everywhere(kind: &str) -> Result<String> {
    let path = collection(kind, "")?;
    Ok(path.replace("/namespaces//", "/"))
}

/// The name of a kind in paths; its own where scenarios do not know it.
pub(crate) fn plural(kind: &str) -> &str {
    let mut known = KINDS.iter().filter(|known| known.target == kind);
    known.next().map_or(kind, |known| known.plural)
}

/// The path of a target like `deployment/web`, or `far:deployment/web` in the scenario's second namespace
/// `far`, or `/kube-system:configmap/x` in a namespace that belongs to no scenario.
pub(crate) fn object(target: &str, namespace: &str) -> Result<String> {
    if let Some((absolute, target)) = target.strip_prefix('/').and_then(|t| t.split_once(':')) {
        return object(target, absolute);
    }
    if let Some((second, target)) = target.split_once(':') {
        return object(target, &format!("{namespace}-{second}"));
    }
    match target.split_once('/') {
        Some((kind, name)) if find(kind).is_some_and(|known| !known.namespaced) => {
            Ok(format!("{}/{namespace}-{name}", collection(kind, "")?))
        }
        Some((kind, name)) => Ok(format!("{}/{name}", collection(kind, namespace)?)),
        None => bail!("a target is written kind/name, not {target:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_become_paths() {
        let cases = [
            (
                "deployment/web",
                "/apis/apps/v1/namespaces/n/deployments/web",
            ),
            ("pod/web-0", "/api/v1/namespaces/n/pods/web-0"),
            ("node/a", "/api/v1/nodes/n-a"),
            ("namespace/far", "/api/v1/namespaces/n-far"),
            ("far:pod/web-0", "/api/v1/namespaces/n-far/pods/web-0"),
            ("/far:pod/web-0", "/api/v1/namespaces/far/pods/web-0"),
        ];
        for (target, path) in cases {
            assert_eq!(object(target, "n").unwrap(), path);
        }
        assert_eq!(everywhere("pod").unwrap(), "/api/v1/pods");
        assert_eq!(everywhere("node").unwrap(), "/api/v1/nodes");
        assert!(object("web", "n").is_err());
        assert!(object("gadget/web", "n").is_err());
    }
}
