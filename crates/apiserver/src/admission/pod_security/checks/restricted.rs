//! What keeps a pod from following hardening practice.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Pod, containers, plural, quoted, uses};
use crate::fields::{at, integer, list, text};

/// Volumes that cannot reach the node.
const SAFE_VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

impl<'a> Pod<'a> {
    pub(super) fn restricted_proc_mount(&self) -> Option<String> {
        let kind = |container: &'a Value| text(container, "securityContext.procMount");
        let names = self.named(|container| {
            !matches!(text(container, "securityContext.procMount"), "" | "Default")
        });
        let kinds: BTreeSet<_> = self
            .containers()
            .map(kind)
            .filter(|kind| !matches!(*kind, "" | "Default"))
            .collect();
        let detail = format!(
            "{} must not set securityContext.procMount to {}",
            containers(&names),
            quoted(kinds)
        );
        (!names.is_empty()).then(|| format!("procMount ({detail})"))
    }

    pub(super) fn restricted_seccomp(&self) -> Option<String> {
        if self.is_on_windows() {
            return None;
        }
        if let Some(bad) = self.bad_seccomp() {
            return Some(bad);
        }
        let set = |value: &Value| !text(value, "securityContext.seccompProfile.type").is_empty();
        if set(self.spec) {
            return None;
        }
        let names = self.named(|container| !set(container));
        let detail = format!(
            "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
            containers(&names)
        );
        (!names.is_empty()).then(|| format!("seccompProfile ({detail})"))
    }

    pub(super) fn privilege_escalation(&self) -> Option<String> {
        if self.is_on_windows() {
            return None;
        }
        let names = self.named(|container| {
            at(container, "securityContext.allowPrivilegeEscalation") != &Value::Bool(false)
        });
        let detail = format!(
            "{} must set securityContext.allowPrivilegeEscalation=false",
            containers(&names)
        );
        (!names.is_empty()).then(|| format!("allowPrivilegeEscalation != false ({detail})"))
    }

    pub(super) fn restricted_capabilities(&self) -> Option<String> {
        if self.is_on_windows() {
            return None;
        }
        let keeping = self.named(|container| {
            !list(container, "securityContext.capabilities.drop")
                .iter()
                .any(|name| name == "ALL")
        });
        let is_bad = |name: &&str| *name != "NET_BIND_SERVICE";
        let adding = self.named(|container| Self::added(container).any(|name| is_bad(&name)));
        let mut details = Vec::new();
        if !keeping.is_empty() {
            details.push(format!(
                "{} must set securityContext.capabilities.drop=[\"ALL\"]",
                containers(&keeping)
            ));
        }
        if !adding.is_empty() {
            let bad: BTreeSet<_> = self
                .containers()
                .flat_map(Self::added)
                .filter(is_bad)
                .collect();
            details.push(format!(
                "{} must not include {} in securityContext.capabilities.add",
                containers(&adding),
                quoted(bad)
            ));
        }
        (!details.is_empty()).then(|| format!("unrestricted capabilities ({})", details.join("; ")))
    }

    pub(super) fn volumes(&self) -> Option<String> {
        let kind = |volume: &'a Value| {
            let kinds = volume
                .as_object()
                .into_iter()
                .flatten()
                .filter(|(name, value)| *name != "name" && value.is_object());
            kinds
                .map(|(name, _)| name.as_str())
                .find(|kind| !SAFE_VOLUMES.contains(kind))
        };
        let bad: Vec<_> = list(self.spec, "volumes")
            .iter()
            .filter_map(|volume| Some((text(volume, "name"), kind(volume)?)))
            .collect();
        let names: Vec<_> = bad.iter().map(|(name, _)| *name).collect();
        let kinds: BTreeSet<_> = bad.iter().map(|(_, kind)| *kind).collect();
        let noun = plural("restricted volume type", kinds.len());
        let detail = format!(
            "{} {} {} {noun} {}",
            plural("volume", names.len()),
            quoted(names.iter().copied()),
            uses(names.len()),
            quoted(kinds)
        );
        (!bad.is_empty()).then(|| format!("restricted volume types ({detail})"))
    }

    pub(super) fn run_as_non_root(&self) -> Option<String> {
        if self.is_relaxed() {
            return None;
        }
        let wish = |value: &Value| at(value, "securityContext.runAsNonRoot").as_bool();
        let mut setters = Vec::new();
        if wish(self.spec) == Some(false) {
            setters.push("pod".to_owned());
        }
        let explicit = self.named(|container| wish(container) == Some(false));
        if !explicit.is_empty() {
            setters.push(containers(&explicit));
        }
        if !setters.is_empty() {
            let detail = format!(
                "{} must not set securityContext.runAsNonRoot=false",
                setters.join(" and ")
            );
            return Some(format!("runAsNonRoot != true ({detail})"));
        }
        let implicit = self.named(|container| wish(container).is_none());
        if wish(self.spec) == Some(true) || implicit.is_empty() {
            return None;
        }
        Some(format!(
            "runAsNonRoot != true (pod or {} must set securityContext.runAsNonRoot=true)",
            containers(&implicit)
        ))
    }

    pub(super) fn run_as_user(&self) -> Option<String> {
        if self.is_relaxed() {
            return None;
        }
        let is_root = |value: &Value| integer(value, "securityContext.runAsUser") == Some(0);
        let mut setters = Vec::new();
        if is_root(self.spec) {
            setters.push("pod".to_owned());
        }
        let names = self.named(is_root);
        if !names.is_empty() {
            setters.push(containers(&names));
        }
        (!setters.is_empty()).then(|| {
            format!(
                "runAsUser=0 ({} must not set runAsUser=0)",
                setters.join(" and ")
            )
        })
    }
}
