//! The rules of the two standards. Each answers a reason and, in parentheses, who must change what.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::fields::{at, entries, flag, integer, list, text};

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

/// Kernel parameters that have a namespace of their own.
const SAFE_SYSCTLS: [&str; 10] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
];

const SELINUX_TYPES: [&str; 5] = [
    "",
    "container_t",
    "container_init_t",
    "container_kvm_t",
    "container_engine_t",
];

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

/// What keeps a pod from being harmless to its node.
pub(super) fn baseline(metadata: &Value, spec: &Value) -> Vec<String> {
    let pod = Pod { metadata, spec };
    let checks = [
        pod.app_armor(),
        pod.baseline_capabilities(),
        pod.host_namespaces(),
        pod.host_paths(),
        pod.host_ports(),
        pod.hosts_of_probes(),
        pod.privileged(),
        pod.proc_mount(false),
        pod.selinux(),
        pod.baseline_seccomp(),
        pod.sysctls(),
        pod.windows_host_process(),
    ];
    checks.into_iter().flatten().collect()
}

/// What keeps a pod from following current hardening practice.
pub(super) fn restricted(metadata: &Value, spec: &Value) -> Vec<String> {
    let pod = Pod { metadata, spec };
    let checks = [
        pod.app_armor(),
        pod.host_namespaces(),
        pod.host_ports(),
        pod.hosts_of_probes(),
        pod.privileged(),
        pod.selinux(),
        pod.sysctls(),
        pod.windows_host_process(),
        pod.privilege_escalation(),
        pod.restricted_capabilities(),
        pod.proc_mount(true),
        pod.volumes(),
        pod.run_as_non_root(),
        pod.run_as_user(),
        pod.restricted_seccomp(),
    ];
    checks.into_iter().flatten().collect()
}

struct Pod<'a> {
    metadata: &'a Value,
    spec: &'a Value,
}

impl<'a> Pod<'a> {
    fn containers(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        let spec = self.spec;
        ["initContainers", "containers", "ephemeralContainers"]
            .into_iter()
            .flat_map(move |path| list(spec, path))
    }

    /// The names of the containers for which something is so.
    fn named(&self, bad: impl Fn(&Value) -> bool) -> Vec<&'a str> {
        self.containers()
            .filter(|container| bad(container))
            .map(|container| text(container, "name"))
            .collect()
    }

    /// In a user namespace, root is nobody outside.
    fn has_user_namespace(&self) -> bool {
        at(self.spec, "hostUsers") == &Value::Bool(false)
    }

    fn app_armor(&self) -> Option<String> {
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
            .map(|(key, value)| format!("{key}=\"{value}\""))
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

    fn added(container: &Value) -> impl Iterator<Item = &str> {
        list(container, "securityContext.capabilities.add")
            .iter()
            .filter_map(Value::as_str)
    }

    fn baseline_capabilities(&self) -> Option<String> {
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

    fn host_namespaces(&self) -> Option<String> {
        let names = ["hostNetwork", "hostPID", "hostIPC"]
            .into_iter()
            .filter(|name| flag(self.spec, name));
        let set: Vec<_> = names.map(|name| format!("{name}=true")).collect();
        (!set.is_empty()).then(|| format!("host namespaces ({})", set.join(", ")))
    }

    fn host_paths(&self) -> Option<String> {
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

    fn host_ports(&self) -> Option<String> {
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

    fn hosts_of_probes(&self) -> Option<String> {
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
            hosts
                .filter(|host| !matches!(*host, "" | "127.0.0.1" | "::1"))
                .collect()
        };
        let bad: Vec<_> = self
            .containers()
            .filter(|container| !hosts(container).is_empty())
            .collect();
        let names: Vec<_> = bad
            .iter()
            .map(|container| text(container, "name"))
            .collect();
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

    fn privileged(&self) -> Option<String> {
        let names = self.named(|container| flag(container, "securityContext.privileged"));
        let detail = format!(
            "{} must not set securityContext.privileged=true",
            containers(&names)
        );
        (!names.is_empty()).then(|| format!("privileged ({detail})"))
    }

    fn proc_mount(&self, restricted: bool) -> Option<String> {
        if !restricted && self.has_user_namespace() {
            return None;
        }
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

    fn selinux(&self) -> Option<String> {
        let options = |value: &'a Value| at(value, "securityContext.seLinuxOptions");
        let bad = |value: &'a Value| {
            let options = options(value);
            !SELINUX_TYPES.contains(&text(options, "type"))
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
            .filter(|kind| !SELINUX_TYPES.contains(kind))
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
    fn bad_seccomp(&self) -> Option<String> {
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

    fn baseline_seccomp(&self) -> Option<String> {
        self.bad_seccomp()
    }

    fn restricted_seccomp(&self) -> Option<String> {
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

    fn sysctls(&self) -> Option<String> {
        let names = list(self.spec, "securityContext.sysctls")
            .iter()
            .map(|sysctl| text(sysctl, "name"));
        let bad: Vec<_> = names.filter(|name| !SAFE_SYSCTLS.contains(name)).collect();
        (!bad.is_empty()).then(|| format!("forbidden sysctls ({})", bad.join(", ")))
    }

    fn windows_host_process(&self) -> Option<String> {
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

    fn privilege_escalation(&self) -> Option<String> {
        if text(self.spec, "os.name") == "windows" {
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

    fn restricted_capabilities(&self) -> Option<String> {
        if text(self.spec, "os.name") == "windows" {
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

    fn volumes(&self) -> Option<String> {
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

    fn run_as_non_root(&self) -> Option<String> {
        if self.has_user_namespace() {
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

    fn run_as_user(&self) -> Option<String> {
        if self.has_user_namespace() {
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

/// `container "a"` or `containers "a", "b"`.
fn containers(names: &[&str]) -> String {
    format!(
        "{} {}",
        plural("container", names.len()),
        quoted(names.iter().copied())
    )
}

fn plural(noun: &str, count: usize) -> String {
    if count == 1 {
        noun.to_owned()
    } else {
        format!("{noun}s")
    }
}

fn uses(count: usize) -> &'static str {
    if count == 1 { "uses" } else { "use" }
}

fn quoted<'a>(items: impl IntoIterator<Item = &'a str>) -> String {
    items
        .into_iter()
        .map(|item| format!("\"{item}\""))
        .collect::<Vec<_>>()
        .join(", ")
}
