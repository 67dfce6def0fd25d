//! What holds for the pods of all namespaces, from the file of `--admission-control-config-file`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::{Labels, parse_labels};
use crate::admission::configuration::{decode, expect_type};
use crate::validation;

const VERSION: &str = "podtolerationrestriction.admission.k8s.io/v1alpha1";

/// UPSTREAM: the name that no namespace has.
const DEFAULT: &str = "clusterDefaultNodeSelector";

/// What PodNodeSelector was told.
#[derive(Default)]
pub(in crate::admission) struct NodeSelectors {
    /// For namespaces whose annotations say nothing.
    pub(super) default: Labels,
    /// What pods may select, by namespaces; in those without an entry, or an empty one, anything.
    pub(super) allowed: BTreeMap<String, Labels>,
}

/// What PodTolerationRestriction was told, for namespaces whose annotations say nothing.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(in crate::admission) struct Tolerations {
    #[serde(deserialize_with = "api::meta::or_default")]
    pub(super) default: Vec<Value>,
    #[serde(rename = "whitelist", deserialize_with = "api::meta::or_default")]
    pub(super) allowed: Vec<Value>,
}

impl NodeSelectors {
    pub(in crate::admission) fn read(told: Option<&Value>) -> Result<NodeSelectors, String> {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Configuration {
            #[serde(deserialize_with = "api::meta::or_default")]
            pod_node_selector_plugin_config: BTreeMap<String, String>,
        }
        let Some(told) = told.filter(|told| !told.is_null()) else {
            return Ok(NodeSelectors::default());
        };
        let read: Configuration = decode(told.clone())?;
        let mut selectors = NodeSelectors::default();
        for (name, selector) in read.pod_node_selector_plugin_config {
            // UPSTREAM: found out with the first pod, which is refused.
            let labels = parse_labels(&selector)
                .map_err(|why| format!("podNodeSelectorPluginConfig.{name}: {why}"))?;
            match name.as_str() {
                DEFAULT => selectors.default = labels,
                _ => drop(selectors.allowed.insert(name, labels)),
            }
        }
        Ok(selectors)
    }
}

impl Tolerations {
    pub(in crate::admission) fn read(told: Option<&Value>) -> Result<Tolerations, String> {
        let Some(told) = told.filter(|told| !told.is_null()) else {
            return Ok(Tolerations::default());
        };
        expect_type(told, "Configuration", &[VERSION])?;
        let causes = validation::pod_tolerations(told);
        if !causes.is_empty() {
            let causes = causes.iter();
            let lines = causes.map(|cause| format!("{}: {}", cause.field, cause.message));
            return Err(format!(
                "invalid config: [{}]",
                lines.collect::<Vec<_>>().join(" ")
            ));
        }
        decode(told.clone())
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_are_read_at_the_start() {
        let read = |told: Value| NodeSelectors::read(Some(&told));
        let told = json!({"podNodeSelectorPluginConfig": {DEFAULT: "infra = false", "ns": ""}});
        let selectors = read(told).unwrap();
        assert_eq!(selectors.default["infra"], "false");
        assert!(selectors.allowed["ns"].is_empty());
        assert!(read(json!({})).unwrap().default.is_empty());
        let wrong = read(json!({"podNodeSelectorPluginConfig": {"ns": "a"}}));
        expect!["podNodeSelectorPluginConfig.ns: invalid selector: [a]"]
            .assert_eq(&wrong.err().unwrap());
    }

    /// UPSTREAM: TestValidateConfiguration.
    #[test]
    fn tolerations_are_checked_as_those_of_pods() {
        let check = |mut told: Value, expected: Expect| {
            told["kind"] = json!("Configuration");
            told["apiVersion"] = json!(VERSION);
            let wrong = Tolerations::read(Some(&told)).err().unwrap_or_default();
            expected.assert_eq(&wrong);
        };
        check(
            json!({"default": [
                {"key": "foo", "operator": "Exists", "value": "", "effect": "NoExecute", "tolerationSeconds": 60},
                {"key": "foo", "operator": "Equal", "value": "bar", "effect": "NoExecute", "tolerationSeconds": 60},
                {"key": "foo", "operator": "Equal", "value": "bar", "effect": "NoSchedule"},
                {"operator": "Exists", "effect": "NoSchedule"}],
                "whitelist": [{"key": "foo", "value": "bar", "effect": "NoSchedule"},
                    {"key": "foo", "operator": "Equal", "value": "bar"}]}),
            expect![""],
        );
        check(
            json!({"whitelist": [{"key": "foo", "operator": "Exists", "value": "bar", "effect": "NoSchedule"}]}),
            expect![[
                r#"invalid config: [podtolerationrestriction.whitelist[0].operator: Invalid value: "bar": value must be empty when `operator` is 'Exists']"#
            ]],
        );
        check(
            json!({"default": [{"operator": "Equal", "value": "bar", "effect": "NoSchedule"}]}),
            expect![[
                r#"invalid config: [podtolerationrestriction.default[0].operator: Invalid value: "Equal": operator must be Exists when `key` is empty, which means "match all values and all keys"]"#
            ]],
        );
    }
}
