//! The kinds that scenarios speak of, and their paths.

use anyhow::{Result, bail};

/// Kind as in a target like `deployment/web`, kind as in a manifest, path of the group, plural.
const KINDS: &[(&str, &str, &str, &str)] = &[
    ("deployment", "Deployment", "/apis/apps/v1", "deployments"),
    ("replicaset", "ReplicaSet", "/apis/apps/v1", "replicasets"),
    (
        "statefulset",
        "StatefulSet",
        "/apis/apps/v1",
        "statefulsets",
    ),
    ("daemonset", "DaemonSet", "/apis/apps/v1", "daemonsets"),
    (
        "controllerrevision",
        "ControllerRevision",
        "/apis/apps/v1",
        "controllerrevisions",
    ),
    ("job", "Job", "/apis/batch/v1", "jobs"),
    ("cronjob", "CronJob", "/apis/batch/v1", "cronjobs"),
    (
        "rc",
        "ReplicationController",
        "/api/v1",
        "replicationcontrollers",
    ),
    ("pod", "Pod", "/api/v1", "pods"),
    (
        "pvc",
        "PersistentVolumeClaim",
        "/api/v1",
        "persistentvolumeclaims",
    ),
    ("configmap", "ConfigMap", "/api/v1", "configmaps"),
    ("secret", "Secret", "/api/v1", "secrets"),
    ("service", "Service", "/api/v1", "services"),
    ("endpoints", "Endpoints", "/api/v1", "endpoints"),
    (
        "endpointslice",
        "EndpointSlice",
        "/apis/discovery.k8s.io/v1",
        "endpointslices",
    ),
    ("quota", "ResourceQuota", "/api/v1", "resourcequotas"),
    ("limitrange", "LimitRange", "/api/v1", "limitranges"),
    (
        "serviceaccount",
        "ServiceAccount",
        "/api/v1",
        "serviceaccounts",
    ),
    (
        "hpa",
        "HorizontalPodAutoscaler",
        "/apis/autoscaling/v2",
        "horizontalpodautoscalers",
    ),
    (
        "resourceclaim",
        "ResourceClaim",
        "/apis/resource.k8s.io/v1",
        "resourceclaims",
    ),
    (
        "resourceclaimtemplate",
        "ResourceClaimTemplate",
        "/apis/resource.k8s.io/v1",
        "resourceclaimtemplates",
    ),
    (
        "pdb",
        "PodDisruptionBudget",
        "/apis/policy/v1",
        "poddisruptionbudgets",
    ),
];

/// Kinds without a namespace. Scenarios share a cluster, so their objects carry the scenario's namespace
/// in front of their names.
const CLUSTER_KINDS: &[(&str, &str, &str, &str)] = &[
    ("node", "Node", "/api/v1", "nodes"),
    ("namespace", "Namespace", "/api/v1", "namespaces"),
    (
        "clusterrole",
        "ClusterRole",
        "/apis/rbac.authorization.k8s.io/v1",
        "clusterroles",
    ),
    ("pv", "PersistentVolume", "/api/v1", "persistentvolumes"),
    (
        "storageclass",
        "StorageClass",
        "/apis/storage.k8s.io/v1",
        "storageclasses",
    ),
    (
        "vac",
        "VolumeAttributesClass",
        "/apis/storage.k8s.io/v1",
        "volumeattributesclasses",
    ),
    (
        "volumeattachment",
        "VolumeAttachment",
        "/apis/storage.k8s.io/v1",
        "volumeattachments",
    ),
    (
        "csidriver",
        "CSIDriver",
        "/apis/storage.k8s.io/v1",
        "csidrivers",
    ),
    (
        "csr",
        "CertificateSigningRequest",
        "/apis/certificates.k8s.io/v1",
        "certificatesigningrequests",
    ),
    (
        "resourceslice",
        "ResourceSlice",
        "/apis/resource.k8s.io/v1",
        "resourceslices",
    ),
    (
        "validatingadmissionpolicy",
        "ValidatingAdmissionPolicy",
        "/apis/admissionregistration.k8s.io/v1",
        "validatingadmissionpolicies",
    ),
    (
        "servicecidr",
        "ServiceCIDR",
        "/apis/networking.k8s.io/v1",
        "servicecidrs",
    ),
];

/// What the final state of a namespace consists of.
pub(crate) const RECORDED: &[&str] = &[
    "deployment",
    "replicaset",
    "statefulset",
    "daemonset",
    "controllerrevision",
    "rc",
    "pod",
    "pvc",
    "configmap",
    "secret",
    "serviceaccount",
    "job",
    "cronjob",
    "endpoints",
    "endpointslice",
    "quota",
    "resourceclaim",
];

/// What of the cluster belongs to a scenario.
pub(crate) const RECORDED_OF_CLUSTER: &[&str] = &[
    "node",
    "namespace",
    "clusterrole",
    "pv",
    "vac",
    "csr",
    "servicecidr",
    "validatingadmissionpolicy",
];

/// The path of all objects of a kind in a namespace, or of a kind that has none.
pub(crate) fn collection(kind: &str, namespace: &str) -> Result<String> {
    if let Some((_, _, group, plural)) = of_cluster(kind) {
        return Ok(format!("{group}/{plural}"));
    }
    let Some((_, _, group, plural)) = KINDS
        .iter()
        .find(|known| known.0 == kind || known.1 == kind)
    else {
        bail!(
            "scenarios know no kind {kind:?}; there are: {}",
            KINDS
                .iter()
                .map(|known| known.0)
                .collect::<Vec<_>>()
                .join(", ")
        );
    };
    Ok(format!("{group}/namespaces/{namespace}/{plural}"))
}

/// The path of all objects of a kind in all namespaces.
pub(crate) fn everywhere(kind: &str) -> Result<String> {
    let path = collection(kind, "")?;
    Ok(path.replace("/namespaces//", "/"))
}

/// The name of a kind in paths; its own where scenarios do not know it.
pub(crate) fn plural(kind: &str) -> &str {
    let known = KINDS.iter().chain(CLUSTER_KINDS);
    let mut known = known.filter(|known| known.0 == kind);
    known.next().map_or(kind, |known| known.3)
}

fn of_cluster(kind: &str) -> Option<&(&'static str, &'static str, &'static str, &'static str)> {
    CLUSTER_KINDS
        .iter()
        .find(|known| known.0 == kind || known.1 == kind)
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
        Some((kind, name)) if of_cluster(kind).is_some() => {
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
