//! The kinds that the page knows: what is watched, shown and can be asked for. Secrets and ConfigMaps are not among
//! them, so no payload can hold what is in one.

use api::ResourceType;

/// How many kinds there are; [`kind`] knows each by its number.
pub(crate) const COUNT: usize = 16;

/// The kind of a number. A function, because views of kinds are told apart by a constant.
pub(crate) const fn kind(number: usize) -> ResourceType {
    match number {
        0 => ResourceType::cluster("", "v1", "namespaces", "Namespace"),
        1 => ResourceType::cluster("", "v1", "nodes", "Node"),
        2 => ResourceType::namespaced("", "v1", "pods", "Pod"),
        3 => ResourceType::namespaced("apps", "v1", "deployments", "Deployment"),
        4 => ResourceType::namespaced("apps", "v1", "replicasets", "ReplicaSet"),
        5 => ResourceType::namespaced("apps", "v1", "statefulsets", "StatefulSet"),
        6 => ResourceType::namespaced("apps", "v1", "daemonsets", "DaemonSet"),
        7 => ResourceType::namespaced("batch", "v1", "jobs", "Job"),
        8 => ResourceType::namespaced("batch", "v1", "cronjobs", "CronJob"),
        9 => ResourceType::namespaced("", "v1", "replicationcontrollers", "ReplicationController"),
        10 => ResourceType::namespaced(
            "policy",
            "v1",
            "poddisruptionbudgets",
            "PodDisruptionBudget",
        ),
        11 => ResourceType::namespaced("", "v1", "services", "Service"),
        12 => ResourceType::namespaced("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"),
        13 => ResourceType::namespaced("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
        14 => ResourceType::namespaced(
            "autoscaling",
            "v2",
            "horizontalpodautoscalers",
            "HorizontalPodAutoscaler",
        ),
        _ => ResourceType::namespaced("apps", "v1", "controllerrevisions", "ControllerRevision"),
    }
}

/// The kind of a name, if the page knows it.
pub(crate) fn named(name: &str) -> Option<ResourceType> {
    (0..COUNT).map(kind).find(|kind| kind.kind == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_there_once_and_none_holds_secrets() {
        let mut names: Vec<String> = (0..COUNT)
            .map(|number| kind(number).kind.to_string())
            .collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), COUNT);
        for hidden in ["Secret", "ConfigMap", "ServiceAccount"] {
            assert!(named(hidden).is_none(), "{hidden}");
        }
    }
}
