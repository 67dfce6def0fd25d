//! What the file of kube-apiserver's `--admission-control-config-file` tells plugins.
//!
//! UPSTREAM: `pkg/admission/config.go` of k8s.io/apiserver.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::event_limits::EventLimits;
use super::placement::{NodeSelectors, Tolerations};
use super::pod_security::PodSecurity;
use super::quota::LimitedResources;
use super::{Plugin, Plugins};
use crate::outbound::Backend;
use crate::rest::strict;
use crate::webhooks::ImagePolicy;

/// What plugins were told, as far as they are on.
#[derive(Clone, Default)]
pub struct PluginSettings {
    pub(crate) event_limits: Option<Arc<EventLimits>>,
    pub(super) limited_resources: Arc<LimitedResources>,
    pub(super) pod_security: Arc<PodSecurity>,
    pub(super) node_selectors: Arc<NodeSelectors>,
    pub(super) tolerations: Arc<Tolerations>,
    pub(crate) image_policy: Option<Arc<ImagePolicy>>,
}

/// What each plugin is told, by its name.
pub type PluginConfigurations = BTreeMap<String, Value>;

/// Where a plugin's configuration is.
#[derive(Debug, PartialEq)]
pub enum Source {
    Inline(Value),
    File(PathBuf),
}

/// What upstream's plugins can be told and ours cannot.
const NOT_CONFIGURABLE: [(&str, Plugin); 4] = [
    ("MutatingAdmissionPolicy", Plugin::MutatingAdmissionPolicy),
    ("MutatingAdmissionWebhook", Plugin::MutatingAdmissionWebhook),
    (
        "ValidatingAdmissionPolicy",
        Plugin::ValidatingAdmissionPolicy,
    ),
    (
        "ValidatingAdmissionWebhook",
        Plugin::ValidatingAdmissionWebhook,
    ),
];

const VERSIONS: [&str; 3] = [
    "apiserver.config.k8s.io/v1",
    "apiserver.config.k8s.io/v1alpha1",
    "apiserver.k8s.io/v1alpha1",
];

/// UPSTREAM: plugins whose configuration the file itself may be, by what is in it then.
const LEGACY: [(&str, &str); 2] = [
    ("ImagePolicyWebhook", "imagePolicy"),
    ("PodNodeSelector", "podNodeSelectorPluginConfig"),
];

#[derive(Deserialize)]
struct AdmissionConfiguration {
    #[serde(default, deserialize_with = "api::meta::or_default")]
    plugins: Vec<PluginConfiguration>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PluginConfiguration {
    name: String,
    path: String,
    configuration: Option<Value>,
}

/// Where the configurations of the plugins are that are on, by their names. `path` is that of the file whose text this
/// is: what it names is sought beside it. The error completes a sentence about the file.
pub fn sources(
    plugins: Plugins,
    path: &Path,
    text: &str,
) -> Result<BTreeMap<String, Source>, String> {
    let failed = |why: String| format!("is no admission configuration: {why}");
    let value = document(text).map_err(failed)?;
    if let Err(why) = expect_type(&value, "AdmissionConfiguration", &VERSIONS) {
        let of_plugins = LEGACY
            .iter()
            .filter(|(_, member)| value.get(member).is_some());
        let sources: BTreeMap<String, Source> = of_plugins
            .filter(|(name, _)| plugins.has_named(name))
            .map(|(name, _)| ((*name).to_owned(), Source::File(path.to_owned())))
            .collect();
        return match sources.is_empty() {
            true => Err(failed(why)),
            false => Ok(sources),
        };
    }
    // What is in it for plugins is their business.
    let of_plugins = ["configuration", "name", "path"];
    let known = ["apiVersion", "kind", "plugins"];
    check_unknown(&value, &known, ("plugins", &of_plugins)).map_err(failed)?;
    let read: AdmissionConfiguration = decode(value).map_err(failed)?;
    let mut sources = BTreeMap::new();
    for plugin in read.plugins {
        let source = match plugin.configuration {
            Some(inline) => Source::Inline(inline),
            None if plugin.path.is_empty() => continue,
            None => Source::File(path.with_file_name("").join(plugin.path)),
        };
        if plugins.has_named(&plugin.name) {
            // UPSTREAM: the first of a name counts.
            sources.entry(plugin.name).or_insert(source);
        }
    }
    Ok(sources)
}

/// A configuration as it is in a file. The error completes a sentence about the file.
pub fn document(text: &str) -> Result<Value, String> {
    let read = strict::yaml(text.as_bytes())?;
    match read.duplicates.is_empty() {
        true => Ok(read.value),
        false => Err(format!(
            "strict decoding error: {}",
            read.duplicates.join(", ")
        )),
    }
}

impl PluginSettings {
    /// From what each plugin was told, and what `load` makes of a path to a kubeconfig. The errors say what is wrong with that, or with having been told nothing.
    pub fn new(
        plugins: Plugins,
        told: &PluginConfigurations,
        load: impl Fn(&str) -> Result<Backend, String>,
    ) -> Result<PluginSettings, Vec<String>> {
        let mut errors = Vec::new();
        let mut failed = |name: &str, why: String| {
            errors.push(format!("couldn't init admission plugin {name:?}: {why}"));
        };
        for (name, plugin) in NOT_CONFIGURABLE {
            if plugins.has(plugin) && told.contains_key(name) {
                let why = "its configuration is not read here; leave it out, and it runs with upstream's defaults";
                failed(name, why.to_owned());
            }
        }
        let mut settings = PluginSettings::default();
        if plugins.has(Plugin::EventRateLimit) {
            match EventLimits::read(told.get("EventRateLimit")) {
                Ok(limits) => settings.event_limits = Some(Arc::new(limits)),
                Err(why) => failed("EventRateLimit", why),
            }
        }
        if plugins.has(Plugin::PodNodeSelector) {
            match NodeSelectors::read(told.get("PodNodeSelector")) {
                Ok(selectors) => settings.node_selectors = Arc::new(selectors),
                Err(why) => failed("PodNodeSelector", why),
            }
        }
        if plugins.has(Plugin::PodTolerationRestriction) {
            match Tolerations::read(told.get("PodTolerationRestriction")) {
                Ok(tolerations) => settings.tolerations = Arc::new(tolerations),
                Err(why) => failed("PodTolerationRestriction", why),
            }
        }
        if plugins.has(Plugin::ResourceQuota) {
            match LimitedResources::read(told.get("ResourceQuota")) {
                Ok(limited) => settings.limited_resources = Arc::new(limited),
                Err(why) => failed("ResourceQuota", why),
            }
        }
        if plugins.has(Plugin::PodSecurity) {
            match PodSecurity::read(told.get("PodSecurity")) {
                Ok(pod_security) => settings.pod_security = Arc::new(pod_security),
                Err(why) => failed("PodSecurity", why),
            }
        }
        if plugins.has(Plugin::ImagePolicyWebhook) {
            match ImagePolicy::read(told.get("ImagePolicyWebhook"), load) {
                Ok(policy) => settings.image_policy = Some(Arc::new(policy)),
                Err(why) => failed("ImagePolicyWebhook", why),
            }
        }
        match errors.is_empty() {
            true => Ok(settings),
            false => Err(errors),
        }
    }
}

/// Whether a configuration is of the kind that is expected, at one of its versions.
pub(super) fn expect_type(value: &Value, kind: &str, versions: &[&str]) -> Result<(), String> {
    for (shown, member) in [("Kind", "kind"), ("apiVersion", "apiVersion")] {
        if value[member].as_str().unwrap_or_default().is_empty() {
            return Err(format!(
                "Object '{shown}' is missing in '{value}'; it must be {kind} of {}",
                versions[0]
            ));
        }
    }
    let (given_kind, version) = (&value["kind"], &value["apiVersion"]);
    match given_kind == kind && versions.iter().any(|known| version == known) {
        true => Ok(()),
        false => Err(format!(
            "no kind {given_kind} is registered for version {version}; it must be {kind} of {}",
            versions[0]
        )),
    }
}

pub(super) fn decode<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|why| why.to_string())
}

/// UPSTREAM: some configurations are read strictly. Refuses what nobody knows of a configuration and of the items of its
/// list.
pub(super) fn check_unknown(
    value: &Value,
    known: &[&str],
    (list, known_items): (&str, &[&str]),
) -> Result<(), String> {
    let unknown = |value: &Value, known: &[&str], at: &str| -> Vec<String> {
        let members = value.as_object().into_iter().flatten();
        let unknown = members.filter(|(name, _)| !known.contains(&name.as_str()));
        unknown
            .map(|(name, _)| format!("unknown field \"{at}{name}\""))
            .collect()
    };
    let mut found = unknown(value, known, "");
    let items = value[list].as_array().into_iter().flatten();
    for (index, item) in items.enumerate() {
        found.extend(unknown(item, known_items, &format!("{list}[{index}].")));
    }
    match found.is_empty() {
        true => Ok(()),
        false => Err(format!("strict decoding error: {}", found.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    fn plugins() -> Plugins {
        Plugins::chosen(&["EventRateLimit".to_owned()], &[]).unwrap()
    }

    fn read(text: &str) -> Result<BTreeMap<String, Source>, String> {
        sources(plugins(), Path::new("/etc/kubernetes/admission.yaml"), text)
    }

    /// UPSTREAM: TestReadAdmissionConfiguration, TestEmbeddedConfiguration.
    #[test]
    fn a_plugins_configuration_is_in_the_file_or_beside_it() {
        for version in VERSIONS {
            let text = format!(
                "apiVersion: {version}
kind: AdmissionConfiguration
plugins:
- {{name: EventRateLimit, path: limits.yaml}}
- {{name: EventRateLimit, path: /second}}
- {{name: PodSecurity, path: unused, configuration: {{a: 1}}}}
- {{name: Priority, path: /abs/priority.yaml}}
- {{name: ResourceQuota, configuration: null}}
- {{name: ImagePolicyWebhook, path: is-off}}
- {{name: Nothing, path: nobody}}
"
            );
            let file = |path: &str| Source::File(PathBuf::from(path));
            let expected = [
                ("EventRateLimit", file("/etc/kubernetes/limits.yaml")),
                ("PodSecurity", Source::Inline(json!({"a": 1}))),
                ("Priority", file("/abs/priority.yaml")),
            ];
            let expected = expected.map(|(name, source)| (name.to_owned(), source));
            assert_eq!(read(&text), Ok(BTreeMap::from(expected)), "{version}");
        }
        let none = "{apiVersion: apiserver.config.k8s.io/v1, kind: AdmissionConfiguration}";
        assert_eq!(read(none), Ok(BTreeMap::new()));
    }

    #[test]
    fn what_is_wrong_with_the_file_is_said() {
        let check = |text: &str, expected: Expect| {
            expected.assert_eq(&read(text).unwrap_err());
        };
        check(
            "{kind: AdmissionConfiguration}",
            expect![[
                r#"is no admission configuration: Object 'apiVersion' is missing in '{"kind":"AdmissionConfiguration"}'; it must be AdmissionConfiguration of apiserver.config.k8s.io/v1"#
            ]],
        );
        check(
            "",
            expect![[
                r#"is no admission configuration: Object 'Kind' is missing in 'null'; it must be AdmissionConfiguration of apiserver.config.k8s.io/v1"#
            ]],
        );
        check(
            "{apiVersion: v1, kind: Pod}",
            expect![[
                r#"is no admission configuration: no kind "Pod" is registered for version "v1"; it must be AdmissionConfiguration of apiserver.config.k8s.io/v1"#
            ]],
        );
        let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n";
        check(
            &format!("{head}plugin: []\nplugins: [{{name: a}}, {{nme: b}}]\n"),
            expect![[
                r#"is no admission configuration: strict decoding error: unknown field "plugin", unknown field "plugins[1].nme""#
            ]],
        );
        check(
            &format!("{head}plugins: []\nplugins: []\n"),
            expect![[r#"
                is no admission configuration: strict decoding error: yaml: unmarshal errors:
                  line 4: key "plugins" already set in map"#]],
        );
        check(
            &format!("{head}plugins: {{}}\n"),
            expect![[r#"is no admission configuration: invalid type: map, expected a sequence"#]],
        );
    }

    #[test]
    fn what_plugins_cannot_be_told_is_refused() {
        let refused = |name: &str, told: Value| {
            let told = BTreeMap::from([(name.to_owned(), told)]);
            PluginSettings::new(plugins(), &told, |_| Err(String::new())).err()
        };
        let limits = "couldn't init admission plugin \"EventRateLimit\": limits: Invalid value: null: must not be empty";
        let policies = "couldn't init admission plugin \"ValidatingAdmissionPolicy\": its configuration is not read here; leave it out, and it runs with upstream's defaults";
        assert_eq!(
            refused("ValidatingAdmissionPolicy", json!({})),
            Some(vec![policies.to_owned(), limits.to_owned()])
        );
        // Nobody asks one that is off.
        assert_eq!(
            refused("PodNodeSelector", json!({})),
            Some(vec![limits.to_owned()])
        );
    }
}
