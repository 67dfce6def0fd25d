//! What holds for the pods of a namespace: its labels, or else what the file of `--admission-control-config-file` says of
//! the whole cluster, and for whom none of it does.
//!
//! UPSTREAM: `admission/api` and `api/helpers.go` of k8s.io/pod-security-admission.

use serde::Deserialize;
use serde_json::Value;

use super::checks;
use crate::admission::configuration::{decode, expect_type};
use crate::fields::entry;
use crate::status::{Cause, summary};
use crate::validation;

pub(super) const PREFIX: &str = "pod-security.kubernetes.io/";

const VERSIONS: [&str; 3] = [
    "pod-security.admission.config.k8s.io/v1",
    "pod-security.admission.config.k8s.io/v1beta1",
    "pod-security.admission.config.k8s.io/v1alpha1",
];

/// How much pods may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    #[default]
    Privileged,
    Baseline,
    Restricted,
}

/// A minor version of Kubernetes, or the one that runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Version {
    #[default]
    Latest,
    Minor(i64),
}

/// A level as one version of Kubernetes defined it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Standard {
    pub(super) level: Level,
    version: Version,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) enforce: Standard,
    pub(super) audit: Standard,
    pub(super) warn: Standard,
}

/// What the plugin was told.
#[derive(Default)]
pub(crate) struct PodSecurity {
    pub(super) defaults: Policy,
    pub(super) exemptions: Exemptions,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Exemptions {
    #[serde(deserialize_with = "api::meta::or_default")]
    usernames: Vec<String>,
    #[serde(deserialize_with = "api::meta::or_default")]
    namespaces: Vec<String>,
    #[serde(deserialize_with = "api::meta::or_default")]
    runtime_classes: Vec<String>,
}

#[derive(Deserialize)]
struct Configuration {
    #[serde(default, deserialize_with = "api::meta::or_default")]
    defaults: Defaults,
    #[serde(default, deserialize_with = "api::meta::or_default")]
    exemptions: Exemptions,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Defaults {
    enforce: String,
    enforce_version: String,
    audit: String,
    audit_version: String,
    warn: String,
    warn_version: String,
}

impl Level {
    /// The error is what upstream says of what is no level.
    pub(crate) fn parse(text: &str) -> Result<Level, &'static str> {
        match text {
            "privileged" => Ok(Level::Privileged),
            "baseline" => Ok(Level::Baseline),
            "restricted" => Ok(Level::Restricted),
            _ => Err("must be one of privileged, baseline, restricted"),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        }
    }
}

impl Version {
    /// The error is what upstream says of what is no version.
    pub(crate) fn parse(text: &str) -> Result<Version, &'static str> {
        let minor = |digits: &str| {
            let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
            let is_padded = digits.len() > 1 && digits.starts_with('0');
            digits.parse().ok().filter(|_| is_number && !is_padded)
        };
        let number = text.strip_prefix("v1.").and_then(minor);
        match text {
            "latest" => Ok(Version::Latest),
            _ => number
                .map(Version::Minor)
                .ok_or("must be \"latest\" or \"v1.x\""),
        }
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Version::Latest => f.write_str("latest"),
            Version::Minor(minor) => write!(f, "v1.{minor}"),
        }
    }
}

impl Standard {
    pub(super) fn has_version_of(&self, other: &Standard) -> bool {
        self.version == other.version
    }

    /// What of it a pod violates.
    pub(super) fn violations(&self, metadata: &Value, spec: &Value) -> Vec<String> {
        let minor = match self.version {
            Version::Latest => i64::MAX,
            Version::Minor(minor) => minor,
        };
        checks::violations(self.level, minor, metadata, spec)
    }
}

impl std::fmt::Display for Standard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.level.name(), self.version)
    }
}

impl Policy {
    pub(super) fn is_privileged(&self) -> bool {
        let all = [&self.enforce, &self.audit, &self.warn];
        all.iter().all(|one| one.level == Level::Privileged)
    }

    /// What a namespace's labels make of the defaults, and which of them say nothing.
    pub(super) fn of(namespace: &Value, defaults: &Policy) -> (Policy, Vec<Cause>) {
        let label = |name: &str| entry(namespace, "metadata.labels", &format!("{PREFIX}{name}"));
        let mut policy = defaults.clone();
        let mut causes = Vec::new();
        let mut has_enforce = false;
        let modes = [
            ("enforce", &mut policy.enforce),
            ("audit", &mut policy.audit),
            ("warn", &mut policy.warn),
        ];
        for (mode, standard) in modes {
            if let Some(text) = label(mode) {
                let level = Level::parse(text);
                has_enforce |= mode == "enforce" && level.is_ok();
                // UPSTREAM: nothing passes what cannot be read, and nobody is warned about it.
                let otherwise = match mode {
                    "enforce" => Level::Restricted,
                    _ => Level::Privileged,
                };
                standard.level = level.unwrap_or(otherwise);
                causes.extend(level.err().map(|why| cause(mode, text, why)));
            }
            let key = format!("{mode}-version");
            if let Some(text) = label(&key) {
                let version = Version::parse(text);
                standard.version = version.unwrap_or_default();
                causes.extend(version.err().map(|why| cause(&key, text, why)));
            }
        }
        // UPSTREAM: what will be refused is warned about in templates, unless labels say otherwise.
        let is_stricter = policy.enforce.level > policy.warn.level;
        if label("warn").is_none() && has_enforce && is_stricter {
            policy.warn.level = policy.enforce.level;
            if label("warn-version").is_none() {
                policy.warn.version = policy.enforce.version;
            }
        }
        (policy, causes)
    }
}

fn cause(name: &str, text: &str, why: &str) -> Cause {
    let message = format!("Invalid value: {}: {why}", api::syntax::go_quote(text));
    let field = format!("metadata.labels[{PREFIX}{name}]");
    Cause::new(field, "FieldValueInvalid", message)
}

impl Exemptions {
    pub(super) fn has_namespace(&self, name: &str) -> bool {
        self.namespaces.iter().any(|exempt| exempt == name)
    }

    pub(super) fn has_user(&self, name: &str) -> bool {
        !name.is_empty() && self.usernames.iter().any(|exempt| exempt == name)
    }

    pub(super) fn has_runtime_class(&self, name: &str) -> bool {
        !name.is_empty() && self.runtime_classes.iter().any(|exempt| exempt == name)
    }
}

impl PodSecurity {
    /// From the plugin's configuration, if there is one.
    pub(in crate::admission) fn read(configuration: Option<&Value>) -> Result<PodSecurity, String> {
        let Some(configuration) = configuration.filter(|given| !given.is_null()) else {
            return Ok(PodSecurity::default());
        };
        expect_type(configuration, "PodSecurityConfiguration", &VERSIONS)?;
        let causes = validation::pod_security(configuration);
        if !causes.is_empty() {
            return Err(summary(&causes));
        }
        let Configuration {
            defaults,
            exemptions,
        } = decode(configuration.clone())?;
        let standard = |level: &str, version: &str| Standard {
            level: Level::parse(level).unwrap_or_default(),
            version: Version::parse(version).unwrap_or_default(),
        };
        Ok(PodSecurity {
            defaults: Policy {
                enforce: standard(&defaults.enforce, &defaults.enforce_version),
                audit: standard(&defaults.audit, &defaults.audit_version),
                warn: standard(&defaults.warn, &defaults.warn_version),
            },
            exemptions,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// UPSTREAM: TestPolicyToEvaluate.
    #[test]
    fn labels_take_the_place_of_defaults() {
        let check = |labels: &str, expected: &str, wrong: usize| {
            let labels = labels.split_whitespace().map(|label| {
                let (key, value) = label.split_once('=').unwrap();
                (format!("{PREFIX}{key}"), Value::from(value))
            });
            let labels: serde_json::Map<String, Value> = labels.collect();
            let namespace = json!({"metadata": {"labels": labels}});
            let (policy, causes) = Policy::of(&namespace, &Policy::default());
            let Policy {
                enforce,
                audit,
                warn,
            } = policy;
            assert_eq!(format!("{enforce} {audit} {warn}"), expected);
            assert_eq!(causes.len(), wrong, "{causes:?}");
        };
        let all = "privileged:latest";
        check("", &format!("{all} {all} {all}"), 0);
        let baseline = format!("baseline:latest {all} baseline:latest");
        check("enforce=baseline", &baseline, 0);
        check(
            "warn=restricted",
            &format!("{all} {all} restricted:latest"),
            0,
        );
        check("audit=baseline", &format!("{all} baseline:latest {all}"), 0);
        let both = format!("baseline:latest {all} restricted:latest");
        check("enforce=baseline warn=restricted", &both, 0);
        let pinned = format!("baseline:v1.22 {all} baseline:v1.22");
        check("enforce=baseline enforce-version=v1.22", &pinned, 0);
        check(
            "enforce=baseline enforce-version=v1.22 warn-version=latest",
            &format!("baseline:v1.22 {all} baseline:latest"),
            0,
        );
        check(
            "enforce=baseline warn-version=v1.23",
            &format!("baseline:latest {all} baseline:v1.23"),
            0,
        );
        check(
            "enforce=baseline enforce-version=v1.20 warn=restricted warn-version=v1.21 audit=restricted audit-version=v1.22",
            "baseline:v1.20 restricted:v1.22 restricted:v1.21",
            0,
        );
        let quiet = format!("baseline:latest {all} {all}");
        check("enforce=baseline warn=privileged", &quiet, 0);
        check("enforce=baseline warn=foo", &quiet, 1);
        check("enforce=foo", &format!("restricted:latest {all} {all}"), 1);
        for version in ["v1", "1.22", "v1.022", "v2.1", "v1.x"] {
            let labels = format!("enforce=privileged enforce-version={version}");
            check(&labels, &format!("{all} {all} {all}"), 1);
        }
    }

    /// UPSTREAM: TestLoadFromData.
    #[test]
    fn defaults_and_exemptions_come_from_a_file() {
        let configuration = |version: &str| {
            json!({"apiVersion": version, "kind": "PodSecurityConfiguration",
                "defaults": {"enforce": "baseline", "enforce-version": "v1.7"},
                "exemptions": {"usernames": ["alice", "bob"], "namespaces": ["kube-system", "dev"],
                    "runtimeClasses": ["my-runtime-1"]}})
        };
        for version in VERSIONS {
            let read = PodSecurity::read(Some(&configuration(version))).unwrap();
            let defaults = &read.defaults;
            assert_eq!(defaults.enforce.to_string(), "baseline:v1.7");
            assert_eq!(defaults.audit, Standard::default());
            assert_eq!(defaults.warn, Standard::default());
            let exempt = &read.exemptions;
            assert!(exempt.has_user("bob") && !exempt.has_user("") && !exempt.has_user("dev"));
            assert!(exempt.has_namespace("dev") && !exempt.has_namespace("bob"));
            assert!(exempt.has_runtime_class("my-runtime-1") && !exempt.has_runtime_class(""));
        }
        let other = configuration("pod-security.admission.config.k8s.io/v99");
        let why = PodSecurity::read(Some(&other)).err().unwrap();
        assert_eq!(
            why,
            "no kind \"PodSecurityConfiguration\" is registered for version \"pod-security.admission.config.k8s.io/v99\"; \
             it must be PodSecurityConfiguration of pod-security.admission.config.k8s.io/v1"
        );
    }
}
