//! Which other pods a pod wants to be near to, or away from.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::meta::or_default;
use crate::selector::{LabelSelector, Selector, SelectorError};
use crate::{Istr, LabelSet};

/// Affinity or anti-affinity: both have this shape.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(default)]
pub struct PodAffinity {
    #[serde(
        rename = "requiredDuringSchedulingIgnoredDuringExecution",
        skip_serializing_if = "<[_]>::is_empty",
        deserialize_with = "or_default"
    )]
    pub required: Arc<[PodAffinityTerm]>,
    #[serde(
        rename = "preferredDuringSchedulingIgnoredDuringExecution",
        skip_serializing_if = "<[_]>::is_empty",
        deserialize_with = "or_default"
    )]
    pub preferred: Arc<[WeightedPodAffinityTerm]>,
}

/// Pods that count, and the node label whose value says what "near" is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodAffinityTerm {
    /// No pods if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    #[serde(
        skip_serializing_if = "<[_]>::is_empty",
        deserialize_with = "or_default"
    )]
    pub namespaces: Arc<[Istr]>,
    pub topology_key: Istr,
    /// Adds to `namespaces`; if neither is given, the pod's own namespace counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// The API server has already merged these keys into the label selector of pods that it stored.
    #[serde(
        skip_serializing_if = "<[_]>::is_empty",
        deserialize_with = "or_default"
    )]
    pub match_label_keys: Arc<[Istr]>,
    #[serde(
        skip_serializing_if = "<[_]>::is_empty",
        deserialize_with = "or_default"
    )]
    pub mismatch_label_keys: Arc<[Istr]>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WeightedPodAffinityTerm {
    pub weight: i32,
    #[serde(deserialize_with = "or_default")]
    pub pod_affinity_term: PodAffinityTerm,
}

/// A pod affinity term that is ready to match.
#[derive(Clone, Debug)]
pub struct CompiledPodAffinityTerm {
    pods: Selector,
    namespaces: Box<[Istr]>,
    namespace_labels: Selector,
    topology_key: Istr,
}

impl PodAffinityTerm {
    /// The form that matches, for a pod in `own_namespace`.
    pub fn compile(&self, own_namespace: &str) -> Result<CompiledPodAffinityTerm, SelectorError> {
        let namespaces: Box<[Istr]> =
            if self.namespaces.is_empty() && self.namespace_selector.is_none() {
                Box::new([Istr::from(own_namespace)])
            } else {
                self.namespaces.iter().cloned().collect()
            };
        Ok(CompiledPodAffinityTerm {
            pods: LabelSelector::compile_optional(self.label_selector.as_ref())?,
            namespaces,
            namespace_labels: LabelSelector::compile_optional(self.namespace_selector.as_ref())?,
            topology_key: self.topology_key.clone(),
        })
    }
}

impl CompiledPodAffinityTerm {
    /// Whether another pod counts. The labels of its namespace are asked for only if they matter.
    pub fn matches(
        &self,
        namespace: &str,
        labels: &LabelSet,
        namespace_labels: impl FnOnce() -> LabelSet,
    ) -> bool {
        let listed = self.namespaces.iter().any(|one| &**one == namespace);
        let counts = listed
            || (!self.namespace_labels.is_nothing()
                && self.namespace_labels.matches(&namespace_labels()));
        counts && self.pods.matches(labels)
    }

    pub fn topology_key(&self) -> &str {
        &self.topology_key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> LabelSet {
        text.split(',')
            .filter_map(|pair| pair.split_once('='))
            .collect()
    }

    /// Does the term of a pod in namespace `own` count a pod `app=web` in `namespace`?
    fn check(json: &str, namespace: &str, namespace_labels: &str) -> bool {
        let term: PodAffinityTerm = serde_json::from_str(json).unwrap();
        let compiled = term.compile("own").unwrap();
        compiled.matches(namespace, &set("app=web"), || set(namespace_labels))
    }

    #[test]
    fn own_namespace_counts_when_none_is_named() {
        let json = r#"{"labelSelector":{"matchLabels":{"app":"web"}},"topologyKey":"zone"}"#;
        assert!(check(json, "own", ""));
        assert!(!check(json, "other", ""));
    }

    #[test]
    fn named_and_selected_namespaces_add_up() {
        let json = r#"{"labelSelector":{},"namespaces":["a"],"namespaceSelector":{"matchLabels":{"team":"x"}},"topologyKey":"zone"}"#;
        assert!(check(json, "a", ""));
        assert!(check(json, "b", "team=x"));
        assert!(!check(json, "b", "team=y"));
        assert!(!check(json, "own", ""));
        assert!(check(
            r#"{"labelSelector":{},"namespaceSelector":{}}"#,
            "any",
            ""
        ));
    }

    #[test]
    fn absent_label_selector_counts_no_pod() {
        assert!(!check(r#"{"topologyKey":"zone"}"#, "own", ""));
        assert!(!check(
            r#"{"labelSelector":{"matchLabels":{"app":"db"}}}"#,
            "own",
            ""
        ));
    }

    #[test]
    fn malformed_selectors_are_reported() {
        let term: PodAffinityTerm = serde_json::from_str(
            r#"{"labelSelector":{"matchExpressions":[{"key":"a","operator":"Odd"}]}}"#,
        )
        .unwrap();
        let error = term.compile("own").unwrap_err();
        assert_eq!(
            error.to_string(),
            "\"Odd\" is not a valid label selector operator"
        );
    }

    #[test]
    fn round_trips() {
        let json = r#"{"requiredDuringSchedulingIgnoredDuringExecution":[{"labelSelector":{"matchLabels":{"a":"b"}},"namespaces":["n"],"topologyKey":"zone","namespaceSelector":{},"matchLabelKeys":["k"]}],"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":3,"podAffinityTerm":{"topologyKey":"host"}}]}"#;
        let affinity: PodAffinity = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&affinity).unwrap(), json);
    }
}
