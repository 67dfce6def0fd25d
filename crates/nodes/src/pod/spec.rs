//! The part of a pod that comes from its template.

use std::borrow::Cow;
use std::sync::Arc;

use api::intern::Istr;
use api::kinds::WireClaim;
use api::meta::or_default;
use api::{Affinity, LabelSelector, LabelSet, Toleration};
use serde::Deserialize;

use super::requests::{Amounts, ContainerRequest, Requests, WireAmounts};
use super::resources::{Listed, Resources};
use super::sources::{self, Source, SourceVolume, WireEnv, WireEnvFrom};
use super::{Probe, RestartRule};

/// Shared by all pods of one template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodSpec {
    pub init_containers: Box<[Container]>,
    pub containers: Box<[Container]>,
    /// Added to a pod that runs, to look at it.
    pub ephemeral_containers: Box<[Container]>,
    pub restart_policy: RestartPolicy,
    pub scheduler_name: Istr,
    pub priority: i32,
    /// Pods of lower priority are safe from this one.
    pub never_preempts: bool,
    pub gates: Box<[Istr]>,
    pub readiness_gates: Box<[Istr]>,
    pub host_network: bool,
    pub node_selector: LabelSet,
    pub affinity: Option<Affinity>,
    pub tolerations: Box<[Toleration]>,
    pub spread: Box<[SpreadConstraint]>,
    pub active_deadline_seconds: Option<i64>,
    pub host_ports: Box<[HostPort]>,
    pub requests: Requests,
    /// How long its containers may take to end when a probe has failed.
    pub termination_grace_period_seconds: Option<i64>,
    /// Volumes that are filled from ConfigMaps and Secrets.
    pub source_volumes: Box<[SourceVolume]>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Container {
    pub name: Istr,
    pub image: Istr,
    pub pull_policy: PullPolicy,
    pub command: Box<[Istr]>,
    /// An init container that keeps running.
    pub is_sidecar: bool,
    /// What it says of restarts itself: the pod's policy counts where it says nothing.
    pub restart_policy: Option<RestartPolicy>,
    pub restart_rules: Box<[RestartRule]>,
    pub startup: Option<Probe>,
    pub readiness: Option<Probe>,
    pub liveness: Option<Probe>,
    /// What its environment is taken from, in the order in which a kubelet looks for it.
    pub sources: Box<[Source]>,
    /// The container's own word or else the pod's.
    pub run_as_non_root: bool,
    pub run_as_user: Option<i64>,
    pub termination: Termination,
    /// Does it mount parts of volumes whose names have variables in them?
    pub has_path_expressions: bool,
    /// What it asks for, as it is written.
    pub resources: Arc<Resources>,
    /// Resources that it has to be restarted for when they change.
    pub restarts_on_resize: Box<[Istr]>,
    /// Ports that have names, for probes that use them.
    pub named_ports: Box<[(Istr, i32)]>,
}

impl Container {
    /// The number of a port that a probe names, or what it says if it is one already.
    pub fn port<'a>(&'a self, said: &'a str) -> Cow<'a, str> {
        let named = self.named_ports.iter().find(|(name, _)| *name == *said);
        named.map_or(Cow::Borrowed(said), |(_, port)| port.to_string().into())
    }
}

/// Where a container leaves word of its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Termination {
    /// The file whose contents are its message; empty for none.
    pub path: Istr,
    /// If the file is empty and the container failed, the end of its log is.
    pub falls_back: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
pub enum RestartPolicy {
    #[default]
    Always,
    OnFailure,
    Never,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
pub enum PullPolicy {
    Always,
    Never,
    #[default]
    #[serde(other)]
    IfNotPresent,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SpreadConstraint {
    pub max_skew: i32,
    pub topology_key: Istr,
    pub when_unsatisfiable: Unsatisfiable,
    pub label_selector: Option<LabelSelector>,
    pub min_domains: Option<i32>,
    pub node_affinity_policy: Option<Istr>,
    pub node_taints_policy: Option<Istr>,
    #[serde(deserialize_with = "or_default")]
    pub match_label_keys: Vec<Istr>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
pub enum Unsatisfiable {
    #[default]
    DoNotSchedule,
    ScheduleAnyway,
}

/// A port of the node that a container wants for itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    pub protocol: Istr,
    /// Empty or `0.0.0.0`: every address.
    pub address: Istr,
    pub port: i32,
}

impl PodSpec {
    /// Sidecars too: everything with a container status.
    pub fn all_containers(&self) -> impl Iterator<Item = &Container> {
        self.init_containers.iter().chain(self.containers.iter())
    }
}

impl HostPort {
    pub fn conflicts_with(&self, other: &HostPort) -> bool {
        let any = |address: &str| address.is_empty() || address == "0.0.0.0";
        self.port == other.port
            && self.protocol == other.protocol
            && (any(&self.address) || any(&other.address) || self.address == other.address)
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct WireSpec {
    /// Not shared, like the volumes and the claims for devices: these differ between pods of one template.
    pub(super) node_name: Istr,
    #[serde(deserialize_with = "or_default")]
    pub(super) volumes: Vec<super::WireVolume>,
    #[serde(deserialize_with = "or_default")]
    pub(super) resource_claims: Vec<WireClaim>,
    #[serde(deserialize_with = "or_default")]
    init_containers: Vec<WireContainer>,
    #[serde(deserialize_with = "or_default")]
    containers: Vec<WireContainer>,
    #[serde(deserialize_with = "or_default")]
    ephemeral_containers: Vec<WireContainer>,
    restart_policy: RestartPolicy,
    scheduler_name: Istr,
    priority: Option<i32>,
    preemption_policy: Istr,
    #[serde(deserialize_with = "or_default")]
    scheduling_gates: Vec<Named>,
    #[serde(deserialize_with = "or_default")]
    readiness_gates: Vec<ReadinessGate>,
    host_network: bool,
    node_selector: LabelSet,
    affinity: Option<Affinity>,
    #[serde(deserialize_with = "or_default")]
    tolerations: Vec<Toleration>,
    #[serde(deserialize_with = "or_default")]
    topology_spread_constraints: Vec<SpreadConstraint>,
    active_deadline_seconds: Option<i64>,
    #[serde(deserialize_with = "or_default")]
    overhead: WireAmounts,
    termination_grace_period_seconds: Option<i64>,
    #[serde(deserialize_with = "or_default")]
    security_context: WireSecurity,
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "camelCase", default)]
struct WireSecurity {
    run_as_non_root: Option<bool>,
    run_as_user: Option<i64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Named {
    name: Istr,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ReadinessGate {
    condition_type: Istr,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireContainer {
    name: Istr,
    image: Istr,
    image_pull_policy: PullPolicy,
    #[serde(deserialize_with = "or_default")]
    command: Vec<Istr>,
    #[serde(deserialize_with = "or_default")]
    args: Vec<Istr>,
    restart_policy: Option<RestartPolicy>,
    #[serde(deserialize_with = "or_default")]
    restart_policy_rules: Vec<RestartRule>,
    #[serde(deserialize_with = "or_default")]
    ports: Vec<WirePort>,
    #[serde(deserialize_with = "or_default")]
    resources: WireResources,
    #[serde(deserialize_with = "or_default")]
    resize_policy: Vec<WireResizePolicy>,
    startup_probe: Option<Probe>,
    readiness_probe: Option<Probe>,
    liveness_probe: Option<Probe>,
    #[serde(deserialize_with = "or_default")]
    env: Vec<WireEnv>,
    #[serde(deserialize_with = "or_default")]
    env_from: Vec<WireEnvFrom>,
    #[serde(deserialize_with = "or_default")]
    security_context: WireSecurity,
    termination_message_path: Istr,
    termination_message_policy: Istr,
    #[serde(deserialize_with = "or_default")]
    volume_mounts: Vec<WireMount>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireMount {
    sub_path_expr: Istr,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireResources {
    #[serde(deserialize_with = "or_default")]
    requests: WireAmounts,
    #[serde(deserialize_with = "or_default")]
    limits: Listed,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireResizePolicy {
    resource_name: Istr,
    restart_policy: Istr,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WirePort {
    name: Istr,
    container_port: i32,
    host_port: i32,
    protocol: Istr,
    #[serde(rename = "hostIP")]
    host_ip: Istr,
}

impl WireSpec {
    pub(super) fn into_spec(self, source_volumes: Box<[SourceVolume]>) -> PodSpec {
        let security = self.security_context;
        let asks = |containers: &[WireContainer]| -> Vec<ContainerRequest> {
            containers.iter().map(WireContainer::asks).collect()
        };
        let (init, main) = (asks(&self.init_containers), asks(&self.containers));
        let overhead = Amounts::from_quantities(&self.overhead);
        let sidecars = self.init_containers.iter().filter(|one| one.is_sidecar());
        let host_ports = self
            .containers
            .iter()
            .chain(sidecars)
            .flat_map(|one| &one.ports);
        PodSpec {
            host_ports: host_ports.filter_map(WirePort::on_host).collect(),
            requests: Requests::new(&init, &main, &overhead),
            init_containers: self
                .init_containers
                .into_iter()
                .map(|one| one.slim_init(security))
                .collect(),
            containers: self
                .containers
                .into_iter()
                .map(|one| one.slim(security))
                .collect(),
            ephemeral_containers: self
                .ephemeral_containers
                .into_iter()
                .map(|one| one.slim(security))
                .collect(),
            restart_policy: self.restart_policy,
            scheduler_name: self.scheduler_name,
            priority: self.priority.unwrap_or(0),
            never_preempts: self.preemption_policy == "Never",
            gates: self
                .scheduling_gates
                .into_iter()
                .map(|gate| gate.name)
                .collect(),
            readiness_gates: self
                .readiness_gates
                .into_iter()
                .map(|gate| gate.condition_type)
                .collect(),
            host_network: self.host_network,
            node_selector: self.node_selector,
            affinity: self.affinity,
            tolerations: self.tolerations.into(),
            spread: self.topology_spread_constraints.into(),
            active_deadline_seconds: self.active_deadline_seconds,
            termination_grace_period_seconds: self.termination_grace_period_seconds,
            source_volumes,
        }
    }
}

impl WireContainer {
    fn is_sidecar(&self) -> bool {
        self.restart_policy == Some(RestartPolicy::Always)
    }

    fn asks(&self) -> ContainerRequest {
        ContainerRequest {
            amounts: Amounts::from_quantities(&self.resources.requests),
            is_sidecar: self.is_sidecar(),
        }
    }

    fn slim_init(self, pod: WireSecurity) -> Container {
        Container {
            is_sidecar: self.is_sidecar(),
            ..self.slim(pod)
        }
    }

    fn slim(self, pod: WireSecurity) -> Container {
        let own = self.security_context;
        let non_root = own.run_as_non_root.or(pod.run_as_non_root);
        let named = self.ports.iter().filter(|port| !port.name.is_empty());
        let restarting = self.resize_policy.iter();
        let restarting = restarting.filter(|one| one.restart_policy == "RestartContainer");
        Container {
            restarts_on_resize: restarting.map(|one| one.resource_name.clone()).collect(),
            resources: Resources {
                requests: Listed::new(&self.resources.requests),
                limits: self.resources.limits.clone(),
            }
            .shared(),
            named_ports: named
                .map(|port| (port.name.clone(), port.container_port))
                .collect(),
            sources: sources::of_environment(&self.env_from, &self.env),
            run_as_non_root: non_root.unwrap_or(false),
            run_as_user: own.run_as_user.or(pod.run_as_user),
            is_sidecar: false,
            has_path_expressions: self
                .volume_mounts
                .iter()
                .any(|mount| !mount.sub_path_expr.is_empty()),
            termination: Termination {
                path: self.termination_message_path,
                falls_back: self.termination_message_policy == "FallbackToLogsOnError",
            },
            restart_policy: self.restart_policy,
            restart_rules: self.restart_policy_rules.into(),
            name: self.name,
            image: self.image,
            pull_policy: self.image_pull_policy,
            command: self.command.into_iter().chain(self.args).collect(),
            startup: self.startup_probe,
            readiness: self.readiness_probe,
            liveness: self.liveness_probe,
        }
    }
}

impl WirePort {
    fn on_host(&self) -> Option<HostPort> {
        (self.host_port > 0).then(|| HostPort {
            // The API server has defaulted it; a pod from a test may have left it out.
            protocol: if self.protocol.is_empty() {
                Istr::from("TCP")
            } else {
                self.protocol.clone()
            },
            address: self.host_ip.clone(),
            port: self.host_port,
        })
    }
}
