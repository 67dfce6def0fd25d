//! What keeps a pod from being harmless to its node.

use std::collections::BTreeSet;

use api::syntax::go_quote;
use serde_json::Value;

use super::{Pod, containers, plural, quoted, uses};
use crate::fields::{at, entries, entry, flag, integer, list, text};

/// Capabilities that containers have without asking.
const DEFAULT_CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// Kernel parameters that have a namespace of their own, and since when they may be set.
const SAFE_SYSCTLS: [(&str, i64); 12] = [
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
];

/// SELinux types that containers may have, and since when.
const SELINUX_TYPES: [(&str, i64); 5] = [
    ("", 0),
    ("container_t", 0),
    ("container_init_t", 0),
    ("container_kvm_t", 0),
    ("container_engine_t", 31),
];

impl<'a> Pod<'a> {
    pub(super) fn app_armor(&self) -> Option<String> {
        let mut values = BTreeSet::new();
        let bad = |value: &Value| matches!(text(value, "securityContext.appArmorProfile.type"), kind if !matches!(kind, "" | "RuntimeDefault" | "Localhost"));
        let shown = |value: &Value| {
            format!(
                "\"{}\"",
                text(value, "securityContext.appArmorProfile.type")
            )
        };
        let mut setters = Vec::new();
        if bad(self.spec) {
            setters.push("pod".to_owned());
            values.insert(shown(self.spec));
        }
        let names = self.named(bad);
        values.extend(
            self.containers()
                .filter(|container| bad(container))
                .map(shown),
        );
        if !names.is_empty() {
            setters.push(containers(&names));
        }
        let annotations: Vec<_> = entries(self.metadata, "annotations")
            .filter(|(key, _)| key.starts_with("container.apparmor.security.beta.kubernetes.io/"))
            .filter_map(|(key, value)| Some((key, value.as_str()?)))
            .filter(|(_, value)| {
                !value.is_empty() && *value != "runtime/default" && !value.starts_with("localhost/")
            })
            .map(|(key, value)| format!("\"{key}={}\"", go_quote(value)))
            .collect();
        if !annotations.is_empty() {
            setters.push(plural("annotation", annotations.len()));
        }
        let mut shown: Vec<_> = values.into_iter().collect();
        shown.extend(annotations);
        if shown.is_empty() {
            return None;
        }
        let reason = plural("forbidden AppArmor profile", shown.len());
        Some(format!(
            "{reason} ({} must not set AppArmor profile type to {})",
            setters.join(" and "),
            shown.join(", ")
        ))
    }

    pub(super) fn added(container: &Value) -> impl Iterator<Item = &str> {
        list(container, "securityContext.capabilities.add")
            .iter()
            .filter_map(Value::as_str)
    }

    pub(super) fn baseline_capabilities(&self) -> Option<String> {
        let names = self.named(|container| {
            Self::added(container).any(|name| !DEFAULT_CAPABILITIES.contains(&name))
        });
        let bad: BTreeSet<_> = self
            .containers()
            .flat_map(Self::added)
            .filter(|name| !DEFAULT_CAPABILITIES.contains(name))
            .collect();
        let detail = format!(
            "{} must not include {} in securityContext.capabilities.add",
            containers(&names),
            quoted(bad)
        );
        (!names.is_empty()).then(|| format!("non-default capabilities ({detail})"))
    }

    pub(super) fn host_namespaces(&self) -> Option<String> {
        let names = ["hostNetwork", "hostPID", "hostIPC"]
            .into_iter()
            .filter(|name| flag(self.spec, name));
        let set: Vec<_> = names.map(|name| format!("{name}=true")).collect();
        (!set.is_empty()).then(|| format!("host namespaces ({})", set.join(", ")))
    }

    pub(super) fn host_paths(&self) -> Option<String> {
        let volumes = list(self.spec, "volumes")
            .iter()
            .filter(|volume| at(volume, "hostPath").is_object());
        let names: Vec<_> = volumes.map(|volume| text(volume, "name")).collect();
        (!names.is_empty()).then(|| {
            format!(
                "hostPath volumes ({} {})",
                plural("volume", names.len()),
                quoted(names)
            )
        })
    }

    pub(super) fn host_ports(&self) -> Option<String> {
        let ports = |container: &Value| -> Vec<i64> {
            list(container, "ports")
                .iter()
                .filter_map(|port| integer(port, "hostPort"))
                .filter(|port| *port != 0)
                .collect()
        };
        let names = self.named(|container| !ports(container).is_empty());
        // UPSTREAM: sorted as text.
        let numbers: BTreeSet<_> = self
            .containers()
            .flat_map(ports)
            .map(|port| port.to_string())
            .collect();
        let count = numbers.len();
        let numbers = numbers.into_iter().collect::<Vec<_>>().join(", ");
        let detail = format!(
            "{} {} {} {numbers}",
            containers(&names),
            uses(names.len()),
            plural("hostPort", count)
        );
        (!names.is_empty()).then(|| format!("hostPort ({detail})"))
    }

    pub(super) fn hosts_of_probes(&self) -> Option<String> {
        let hosts = |container: &'a Value| -> Vec<&'a str> {
            let probes = [
                "livenessProbe",
                "readinessProbe",
                "startupProbe",
                "lifecycle.postStart",
                "lifecycle.preStop",
            ];
            let paths = probes.into_iter().flat_map(|probe| {
                [
                    format!("{probe}.httpGet.host"),
                    format!("{probe}.tcpSocket.host"),
                ]
            });
            let hosts = paths.map(|path| text(container, &path));
            hosts.filter(|host| !host.is_empty()).collect()
        };
        let bad: Vec<_> = self
            .containers()
            .filter(|container| !hosts(container).is_empty())
            .collect();
        // UPSTREAM: sorted, unlike elsewhere.
        let names: BTreeSet<_> = bad
            .iter()
            .map(|container| text(container, "name"))
            .collect();
        let names: Vec<_> = names.into_iter().collect();
        let found: BTreeSet<_> = bad.iter().flat_map(|container| hosts(container)).collect();
        let noun = plural("probe or lifecycle host", found.len());
        let detail = format!(
            "{} {} {noun} {}",
            containers(&names),
            uses(names.len()),
            quoted(found)
        );
        (!names.is_empty()).then(|| format!("probe or lifecycle host ({detail})"))
    }

    pub(super) fn privileged(&self) -> Option<String> {
        let names = self.named(|container| flag(container, "securityContext.privileged"));
        let detail = format!(
            "{} must not set securityContext.privileged=true",
            containers(&names)
        );
        (!names.is_empty()).then(|| format!("privileged ({detail})"))
    }

    pub(super) fn baseline_proc_mount(&self) -> Option<String> {
        match self.is_relaxed() {
            true => None,
            false => self.restricted_proc_mount(),
        }
    }

    pub(super) fn selinux(&self) -> Option<String> {
        let options = |value: &'a Value| at(value, "securityContext.seLinuxOptions");
        let is_allowed = |kind: &str| is_listed(&SELINUX_TYPES, kind, self.minor);
        let bad = |value: &'a Value| {
            let options = options(value);
            !is_allowed(text(options, "type"))
                || !text(options, "user").is_empty()
                || !text(options, "role").is_empty()
        };
        let mut found: Vec<&'a Value> = Vec::new();
        let mut setters = Vec::new();
        if bad(self.spec) {
            setters.push("pod".to_owned());
            found.push(options(self.spec));
        }
        let bad_containers: Vec<_> = self
            .containers()
            .filter(|container| bad(container))
            .collect();
        if !bad_containers.is_empty() {
            let names: Vec<_> = bad_containers
                .iter()
                .map(|container| text(container, "name"))
                .collect();
            setters.push(containers(&names));
            found.extend(bad_containers.iter().map(|container| options(container)));
        }
        let types: BTreeSet<_> = found
            .iter()
            .map(|options| text(options, "type"))
            .filter(|kind| !is_allowed(kind))
            .collect();
        let mut data = Vec::new();
        if !types.is_empty() {
            data.push(format!("{} {}", plural("type", types.len()), quoted(types)));
        }
        for name in ["user", "role"] {
            if found.iter().any(|options| !text(options, name).is_empty()) {
                data.push(format!("{name} may not be set"));
            }
        }
        let detail = format!(
            "{} set forbidden securityContext.seLinuxOptions: {}",
            setters.join(" and "),
            data.join("; ")
        );
        (!setters.is_empty()).then(|| format!("seLinuxOptions ({detail})"))
    }

    /// Who sets a profile that is not one of the safe ones, and which.
    pub(super) fn bad_seccomp(&self) -> Option<String> {
        let kind = |value: &'a Value| text(value, "securityContext.seccompProfile.type");
        let is_bad = |kind: &str| !matches!(kind, "" | "RuntimeDefault" | "Localhost");
        let (mut setters, mut kinds) = (Vec::new(), BTreeSet::new());
        if is_bad(kind(self.spec)) {
            setters.push("pod".to_owned());
            kinds.insert(kind(self.spec));
        }
        let bad: Vec<_> = self
            .containers()
            .filter(|container| is_bad(kind(container)))
            .collect();
        if !bad.is_empty() {
            let names: Vec<_> = bad
                .iter()
                .map(|container| text(container, "name"))
                .collect();
            setters.push(containers(&names));
            kinds.extend(bad.iter().map(|container| kind(container)));
        }
        let detail = format!(
            "{} must not set securityContext.seccompProfile.type to {}",
            setters.join(" and "),
            quoted(kinds)
        );
        (!setters.is_empty()).then(|| format!("seccompProfile ({detail})"))
    }

    pub(super) fn baseline_seccomp(&self) -> Option<String> {
        match self.minor >= 19 {
            true => self.bad_seccomp(),
            false => self.bad_seccomp_annotations(),
        }
    }

    /// Profiles were annotations before there was a field.
    fn bad_seccomp_annotations(&self) -> Option<String> {
        let of_containers = self.containers().map(|container| {
            let name = text(container, "name");
            format!("container.seccomp.security.alpha.kubernetes.io/{name}")
        });
        let of_pod = "seccomp.security.alpha.kubernetes.io/pod".to_owned();
        let bad = std::iter::once(of_pod)
            .chain(of_containers)
            .filter_map(|key| {
                let value = entry(self.metadata, "annotations", &key)?;
                let is_safe = matches!(value, "runtime/default" | "docker/default");
                (!is_safe && !value.starts_with("localhost/"))
                    .then(|| format!("{key}={}", go_quote(value)))
            });
        let bad: Vec<_> = BTreeSet::from_iter(bad).into_iter().collect();
        (!bad.is_empty()).then(|| {
            let noun = plural("annotation", bad.len());
            format!("seccompProfile (forbidden {noun} {})", bad.join(", "))
        })
    }

    pub(super) fn sysctls(&self) -> Option<String> {
        let names = list(self.spec, "securityContext.sysctls")
            .iter()
            .map(|sysctl| text(sysctl, "name"));
        let bad: Vec<_> = names
            .filter(|name| !is_listed(&SAFE_SYSCTLS, name, self.minor))
            .collect();
        (!bad.is_empty()).then(|| format!("forbidden sysctls ({})", bad.join(", ")))
    }

    pub(super) fn windows_host_process(&self) -> Option<String> {
        let path = "securityContext.windowsOptions.hostProcess";
        let mut setters = Vec::new();
        let names = self.named(|container| flag(container, path));
        if flag(self.spec, path) {
            setters.push("pod".to_owned());
        }
        if !names.is_empty() {
            setters.push(containers(&names));
        }
        let detail = format!(
            "{} must not set securityContext.windowsOptions.hostProcess=true",
            setters.join(" and ")
        );
        (!setters.is_empty()).then(|| format!("hostProcess ({detail})"))
    }
}

/// Whether something is in a list at a minor version.
fn is_listed(list: &[(&str, i64)], name: &str, minor: i64) -> bool {
    list.iter()
        .any(|(listed, since)| *listed == name && *since <= minor)
}
