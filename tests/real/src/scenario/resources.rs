//! The kinds that scenarios speak of, and their paths.

use anyhow::{Result, bail};

/// Kind as in a target like `deployment/web`, kind as in a manifest, path of the group, plural.
const KINDS: [(&str, &str, &str, &str); 15] = [
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
    ("service", "Service", "/api/v1", "services"),
    ("quota", "ResourceQuota", "/api/v1", "resourcequotas"),
    ("limitrange", "LimitRange", "/api/v1", "limitranges"),
    (
        "serviceaccount",
        "ServiceAccount",
        "/api/v1",
        "serviceaccounts",
    ),
    (
        "pdb",
        "PodDisruptionBudget",
        "/apis/policy/v1",
        "poddisruptionbudgets",
    ),
];

/// What the final state of a namespace consists of.
pub(crate) const RECORDED: [&str; 9] = [
    "deployment",
    "replicaset",
    "statefulset",
    "daemonset",
    "controllerrevision",
    "rc",
    "pod",
    "pvc",
    "configmap",
];

/// The path of all objects of a kind in a namespace.
pub(crate) fn collection(kind: &str, namespace: &str) -> Result<String> {
    let Some((_, _, group, plural)) = KINDS
        .iter()
        .find(|known| known.0 == kind || known.1 == kind)
    else {
        bail!(
            "scenarios know no kind {kind:?}; there are: {}",
            KINDS.map(|known| known.0).join(", ")
        );
    };
    Ok(format!("{group}/namespaces/{namespace}/{plural}"))
}

/// The path of a target like `deployment/web`; nodes are cluster-wide and carry the namespace in
/// their name, because scenarios share a cluster.
pub(crate) fn object(target: &str, namespace: &str) -> Result<String> {
    match target.split_once('/') {
        Some(("node", name)) => Ok(format!("/api/v1/nodes/{namespace}-{name}")),
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
        ];
        for (target, path) in cases {
            assert_eq!(object(target, "n").unwrap(), path);
        }
        assert!(object("web", "n").is_err());
        assert!(object("gadget/web", "n").is_err());
    }
}
