//! Pods as they come, in JSON or in protobuf, and what is kept of them.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::affinity::{ReadAffinity, read_affinity, read_affinity_in_message};
use super::se_linux::{Mount, SeLinux, SecurityContext};
use super::volumes::WireVolume;
use super::{
    ContainerPort, Ended, Exit, InlineVolume, POD_DELETION_COST, Phase, Pod, PodBody, PodCondition,
    PodIps, PodOwn, PodRequests, PodStatus, Volume,
};
use crate::amounts::{self, Amounts};
use crate::intern::{Istr, Pool};
use crate::ip;
use crate::kinds::pod_claim::{PodClaim, WireClaim, WireClaimStatus};
use crate::kinds::{
    JOB_COMPLETION_INDEX, JOB_INDEX_FAILURE_COUNT, JOB_INDEX_IGNORED_FAILURE_COUNT,
};
use crate::meta::{Meta, WireMeta, WireTime, or_default};
use crate::pod_resources::{ContainerResources, PodResources, Resources, is_infeasible};
use crate::protobuf::{Malformed, Message, Value, descend};
use crate::quota::PodCharge;
use crate::taints::Toleration;
use crate::time::Time;

/// Conditions besides Ready that controllers read.
const NOTED: [&str; 1] = ["DisruptionTarget"];

/// Annotations that controllers read.
const ANNOTATIONS: [&str; 4] = [
    POD_DELETION_COST,
    JOB_COMPLETION_INDEX,
    JOB_INDEX_FAILURE_COUNT,
    JOB_INDEX_IGNORED_FAILURE_COUNT,
];

static BODIES: Pool<PodBody> = Pool::new();

impl From<Wire<'_>> for Pod {
    fn from(wire: Wire<'_>) -> Pod {
        let Wire {
            mut metadata,
            spec,
            status,
        } = wire;
        metadata.generate_name = None;
        metadata.annotations = metadata
            .annotations
            .filtered(|key| ANNOTATIONS.contains(&key));
        // A job's policy may ask for any condition of a pod that failed, or counts as failed.
        let judged = spec.may_end() && (status.phase == "Failed" || metadata.is_terminating());
        let mut spec = spec;
        let mut requests = spec.requests();
        let resources = spec.take_resources(&status);
        let charge = spec.charge(&resources);
        requests.pod = resources
            .pod_level_requests()
            .as_ref()
            .map(milli)
            .unwrap_or_default();
        let own = spec.own((&metadata.namespace, &metadata.name), &status, judged);
        let mut view = status.view(&spec);
        view.is_running_still = metadata.is_terminating() && status.has_running();
        Pod {
            metadata,
            status: view,
            own,
            body: BODIES.intern(PodBody {
                ports: spec.named_ports(),
                requests,
                restart_policy: spec.restart_policy,
                subdomain: spec.subdomain,
                host_network: spec.host_network,
                tolerations: spec.tolerations.into(),
                charge,
            }),
            node_name: spec.node_name,
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Wire<'a> {
    metadata: Meta,
    spec: Spec<'a>,
    status: Status<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
struct Spec<'a> {
    node_name: Istr,
    restart_policy: Istr,
    hostname: Istr,
    subdomain: Istr,
    host_network: bool,
    #[serde(deserialize_with = "or_default")]
    containers: Vec<Container<'a>>,
    #[serde(deserialize_with = "or_default")]
    init_containers: Vec<Container<'a>>,
    #[serde(deserialize_with = "or_default")]
    ephemeral_containers: Vec<Container<'a>>,
    #[serde(deserialize_with = "or_default")]
    security_context: SecurityContext<'a>,
    #[serde(deserialize_with = "or_default")]
    volumes: Vec<WireVolume<'a>>,
    #[serde(deserialize_with = "or_default")]
    tolerations: Vec<Toleration>,
    #[serde(rename = "affinity", deserialize_with = "read_affinity")]
    affinity: ReadAffinity,
    active_deadline_seconds: Option<i64>,
    priority_class_name: Istr,
    #[serde(deserialize_with = "amounts::lenient")]
    overhead: Amounts,
    resources: Option<Resources>,
    #[serde(deserialize_with = "or_default")]
    resource_claims: Vec<WireClaim>,
    #[serde(deserialize_with = "or_default")]
    scheduling_group: SchedulingGroup,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct SchedulingGroup {
    #[serde(deserialize_with = "or_default")]
    pod_group_name: Istr,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
struct Container<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    restart_policy: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "or_default")]
    ports: Vec<WirePort<'a>>,
    #[serde(deserialize_with = "or_default")]
    resources: Resources,
    #[serde(deserialize_with = "or_default")]
    security_context: SecurityContext<'a>,
    #[serde(deserialize_with = "or_default")]
    volume_mounts: Vec<Mount<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WirePort<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    protocol: Cow<'a, str>,
    container_port: i32,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
struct Status<'a> {
    #[serde(borrow)]
    phase: Cow<'a, str>,
    reason: Istr,
    start_time: Option<Time>,
    #[serde(borrow, rename = "podIP")]
    pod_ip: Cow<'a, str>,
    #[serde(borrow, rename = "podIPs", deserialize_with = "or_default")]
    pod_ips: Vec<WireIp<'a>>,
    #[serde(deserialize_with = "or_default")]
    conditions: Vec<Condition<'a>>,
    #[serde(deserialize_with = "or_default")]
    container_statuses: Vec<ContainerStatus<'a>>,
    #[serde(deserialize_with = "or_default")]
    init_container_statuses: Vec<ContainerStatus<'a>>,
    #[serde(deserialize_with = "or_default")]
    ephemeral_container_statuses: Vec<ContainerStatus<'a>>,
    #[serde(deserialize_with = "or_default")]
    extended_resource_claim_status: ExtendedClaim<'a>,
    #[serde(deserialize_with = "or_default")]
    resource_claim_statuses: Vec<WireClaimStatus>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ExtendedClaim<'a> {
    #[serde(borrow)]
    resource_claim_name: Cow<'a, str>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireIp<'a> {
    #[serde(borrow)]
    ip: Cow<'a, str>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Condition<'a> {
    #[serde(borrow, rename = "type")]
    type_: Cow<'a, str>,
    #[serde(borrow)]
    status: Cow<'a, str>,
    #[serde(borrow)]
    reason: Cow<'a, str>,
    last_transition_time: Option<Time>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ContainerStatus<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    restart_count: i32,
    #[serde(deserialize_with = "or_default")]
    state: ContainerState,
    resources: Option<Resources>,
    #[serde(rename = "allocatedResources", deserialize_with = "amounts::lenient")]
    allocated: Amounts,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ContainerState {
    waiting: Option<IgnoredAny>,
    terminated: Option<Terminated>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Terminated {
    exit_code: i32,
    finished_at: Option<Time>,
}

impl Spec<'_> {
    /// Is the pod meant to end some day? Those of jobs are.
    fn may_end(&self) -> bool {
        matches!(&*self.restart_policy, "Never" | "OnFailure")
    }

    fn own(
        &self,
        (namespace, pod): (&Istr, &str),
        status: &Status<'_>,
        judged: bool,
    ) -> Option<Box<PodOwn>> {
        let held = || self.volumes.iter();
        let volumes: Box<[_]> = held().filter_map(|volume| volume.view(pod)).collect();
        let inline: Box<[_]> = held()
            .filter_map(|volume| volume.inline(namespace))
            .collect();
        let extended = &status.extended_resource_claim_status;
        let own = PodOwn {
            hostname: self.hostname.clone(),
            se_linux: self.se_linux(&volumes, &inline),
            volumes,
            inline,
            meant_for: self.affinity.node.clone(),
            ended: status.ended(self),
            conditions: status.conditions(judged),
            claims: PodClaim::all(&self.resource_claims, &status.resource_claim_statuses),
            pod_group: self.scheduling_group.pod_group_name.clone(),
            extended_resource_claim: Istr::new(&extended.resource_claim_name),
        };
        (own != PodOwn::default()).then(|| Box::new(own))
    }

    /// What is asked for, and what has been granted of it. Takes it: nobody else reads it.
    fn take_resources(&mut self, status: &Status<'_>) -> PodResources {
        let take = |containers: &mut Vec<Container<'_>>| {
            let containers = containers.iter_mut();
            containers
                .map(|container| ContainerResources {
                    name: Istr::new(&container.name),
                    is_sidecar: container.restart_policy == "Always",
                    wanted: std::mem::take(&mut container.resources),
                    ..ContainerResources::default()
                })
                .collect()
        };
        let conditions = status.conditions.iter();
        let mut resources = PodResources {
            containers: take(&mut self.containers),
            init_containers: take(&mut self.init_containers),
            overhead: std::mem::take(&mut self.overhead),
            whole: self.resources.take(),
            resize_infeasible: is_infeasible(
                conditions.map(|condition| (&*condition.type_, &*condition.reason)),
            ),
        };
        let reported = status
            .all_containers()
            .filter(|status| status.resources.is_some());
        resources.report(reported.map(|status| {
            let name = Istr::new(&status.name);
            (name, status.resources.clone(), status.allocated.clone())
        }));
        resources
    }

    fn se_linux(&self, volumes: &[Volume], inline: &[InlineVolume]) -> Option<Box<SeLinux>> {
        let kept = volumes.iter().map(|volume| &volume.name);
        let kept = kept.chain(inline.iter().map(|volume| &volume.name));
        let containers = self.init_containers.iter().chain(&self.containers);
        let containers = containers.chain(&self.ephemeral_containers);
        let mounts =
            containers.map(|container| (&container.security_context, &*container.volume_mounts));
        SeLinux::read(&self.security_context, mounts, kept)
    }

    /// What quotas count.
    fn charge(&self, resources: &PodResources) -> PodCharge {
        let mut charge = PodCharge::new(resources);
        let deadline = self.active_deadline_seconds;
        charge.has_deadline = deadline.is_some_and(|seconds| seconds >= 0);
        charge.crosses_namespaces = self.affinity.crosses_namespaces;
        charge.priority_class = self.priority_class_name.clone();
        charge
    }

    fn sidecars(&self) -> impl Iterator<Item = &Container<'_>> {
        self.init_containers
            .iter()
            .filter(|container| container.restart_policy == "Always")
    }

    /// What autoscalers measure by, as far as containers say it.
    fn requests(&self) -> PodRequests {
        let containers = self.containers.iter().chain(self.sidecars());
        PodRequests {
            pod: Box::default(),
            containers: containers
                .map(|container| {
                    let requests = milli(&container.resources.requests);
                    (Istr::new(&container.name), requests)
                })
                .collect(),
        }
    }

    /// Those of containers first: of two with one name the first counts.
    fn named_ports(&self) -> Box<[ContainerPort]> {
        let ports = self
            .containers
            .iter()
            .chain(self.sidecars())
            .flat_map(|container| &container.ports);
        ports
            .filter(|port| !port.name.is_empty())
            .map(|port| ContainerPort {
                name: Istr::new(&port.name),
                protocol: Istr::new(&port.protocol),
                port: port.container_port,
            })
            .collect()
    }

    fn is_sidecar(&self, name: &str) -> bool {
        self.init_containers
            .iter()
            .any(|container| container.name == name && container.restart_policy == "Always")
    }
}

fn milli(requests: &Amounts) -> Box<[(Istr, i64)]> {
    requests
        .iter()
        .map(|(name, amount)| (name.clone(), amount.milli_value()))
        .collect()
}

impl Status<'_> {
    /// UPSTREAM: a container of which nobody has said anything counts as one that runs.
    fn has_running(&self) -> bool {
        let ephemeral = self.ephemeral_container_statuses.iter();
        let mut all = self.all_containers().chain(ephemeral);
        all.any(|held| held.state.terminated.is_none() && held.state.waiting.is_none())
    }

    fn view(&self, spec: &Spec<'_>) -> PodStatus {
        let ready = self
            .conditions
            .iter()
            .find(|condition| condition.type_ == "Ready");
        PodStatus {
            phase: match &*self.phase {
                "" | "Pending" => Phase::Pending,
                "Running" => Phase::Running,
                "Succeeded" => Phase::Succeeded,
                "Failed" => Phase::Failed,
                _ => Phase::Unknown,
            },
            ready: ready.is_some_and(|condition| condition.status == "True"),
            started_at: self.start_time,
            ready_changed_at: ready.and_then(|condition| condition.last_transition_time),
            reason: self.reason.clone(),
            ips: self.ips(),
            restarts: highest(&self.container_statuses, |_| true),
            sidecar_restarts: highest(&self.init_container_statuses, |name| spec.is_sidecar(name)),
            is_running_still: false,
            restarts_in_all: self
                .all_containers()
                .fold(0, |sum, status| sum.saturating_add(status.restart_count)),
        }
    }

    fn ips(&self) -> PodIps {
        let listed = self.pod_ips.iter().map(|listed| ip::parse(&listed.ip));
        // UPSTREAM: an address that is not in the list makes the pod a candidate and gives it no endpoint.
        let unlisted = (self.pod_ips.is_empty() && !self.pod_ip.is_empty()).then_some(None);
        PodIps::new(listed.chain(unlisted))
    }

    /// Those that are kept.
    fn conditions(&self, judged: bool) -> Box<[PodCondition]> {
        self.conditions
            .iter()
            .filter(|condition| judged || NOTED.contains(&&*condition.type_))
            .map(Condition::view)
            .collect()
    }

    fn all_containers(&self) -> impl Iterator<Item = &ContainerStatus<'_>> {
        self.container_statuses
            .iter()
            .chain(&self.init_container_statuses)
    }

    fn ended(&self, spec: &Spec<'_>) -> Option<Box<Ended>> {
        if !spec.may_end() {
            return None;
        }
        let ended = Ended {
            at: self.ended_at(spec),
            failures: self.all_containers().filter_map(failure).collect(),
        };
        (ended != Ended::default()).then(|| Box::new(ended))
    }

    /// When the last container ended. Sidecars outlive the others, so they count too.
    fn ended_at(&self, spec: &Spec<'_>) -> Option<Time> {
        let at = |status: &ContainerStatus<'_>| status.state.terminated.as_ref()?.finished_at;
        let containers = latest(None, self.container_statuses.iter().map(at));
        // UPSTREAM: sidecars alone give a time, even while a container runs.
        let sidecars = self
            .init_container_statuses
            .iter()
            .filter(|status| spec.is_sidecar(&status.name));
        latest(containers, sidecars.map(at))
    }
}

/// The latest of these times and of `before`; none if one of them is missing.
fn latest(before: Option<Time>, mut times: impl Iterator<Item = Option<Time>>) -> Option<Time> {
    times.try_fold(before, |latest, at| at.map(|at| latest.max(Some(at))))?
}

fn failure(status: &ContainerStatus<'_>) -> Option<Exit> {
    let code = status.state.terminated.as_ref()?.exit_code;
    (code != 0).then(|| Exit {
        container: Istr::new(&status.name),
        code,
    })
}

impl Condition<'_> {
    fn view(&self) -> PodCondition {
        PodCondition {
            type_: Istr::new(&self.type_),
            status: Istr::new(&self.status),
            reason: Istr::new(&self.reason),
            last_transition_time: self.last_transition_time,
        }
    }
}

fn highest(statuses: &[ContainerStatus<'_>], counts: impl Fn(&str) -> bool) -> i32 {
    statuses
        .iter()
        .filter(|status| counts(&status.name))
        .map(|status| status.restart_count)
        .max()
        .unwrap_or(0)
}

impl<'a> Message<'a> for Wire<'a> {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        match field {
            1 => self.metadata = value.message::<WireMeta>()?.into(),
            2 => self.spec = value.message()?,
            3 => self.status = value.message()?,
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for Spec<'a> {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        match field {
            1 => self.volumes.push(value.message()?),
            2 => self.containers.push(value.message()?),
            3 => self.restart_policy = value.text()?.into(),
            5 => self.active_deadline_seconds = Some(value.number()?),
            10 => self.node_name = value.text()?.into(),
            11 => self.host_network = value.flag()?,
            14 => self.security_context = value.message()?,
            16 => self.hostname = value.text()?.into(),
            17 => self.subdomain = value.text()?.into(),
            18 => self.affinity = read_affinity_in_message(value)?,
            20 => self.init_containers.push(value.message()?),
            22 => self.tolerations.push(value.message()?),
            24 => self.priority_class_name = value.text()?.into(),
            34 => {
                /// What all containers have in common, within an ephemeral one.
                const COMMON: [u32; 1] = [1];
                descend(value, &COMMON, &mut |common| {
                    self.ephemeral_containers.push(common.message()?);
                    Ok(())
                })?;
            }
            32 => value
                .message::<amounts::Entry<'_>>()?
                .put_into(&mut self.overhead),
            39 => self.resource_claims.push(value.message()?),
            40 => self.resources = Some(value.message()?),
            43 => self.scheduling_group = value.message()?,
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for Toleration {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        match field {
            1 => self.key = value.text()?.into(),
            2 => self.operator = value.text()?.into(),
            3 => self.value = value.text()?.into(),
            4 => self.effect = value.text()?.into(),
            5 => self.toleration_seconds = Some(value.number()?),
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for Container<'a> {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        match field {
            1 => self.name = value.text()?.into(),
            6 => self.ports.push(value.message()?),
            8 => self.resources = value.message()?,
            9 => self.volume_mounts.push(value.message()?),
            15 => self.security_context.take_of_container(value)?,
            24 => self.restart_policy = value.text()?.into(),
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for WirePort<'a> {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        match field {
            1 => self.name = value.text()?.into(),
            3 => self.container_port = i32::try_from(value.number()?).unwrap_or(0),
            4 => self.protocol = value.text()?.into(),
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for WireIp<'a> {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        if field == 1 {
            self.ip = value.text()?.into();
        }
        Ok(())
    }
}

impl<'a> Message<'a> for Status<'a> {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        match field {
            1 => self.phase = value.text()?.into(),
            2 => self.conditions.push(value.message()?),
            4 => self.reason = value.text()?.into(),
            6 => self.pod_ip = value.text()?.into(),
            7 => {
                let time = value.message::<WireTime>()?.0;
                self.start_time = (time != Time::default()).then_some(time);
            }
            12 => self.pod_ips.push(value.message()?),
            8 => self.container_statuses.push(value.message()?),
            10 => self.init_container_statuses.push(value.message()?),
            13 => self.ephemeral_container_statuses.push(value.message()?),
            15 => self.resource_claim_statuses.push(value.message()?),
            18 => self.extended_resource_claim_status = value.message()?,
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for SchedulingGroup {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        if field == 1 {
            self.pod_group_name = value.text()?.into();
        }
        Ok(())
    }
}

impl<'a> Message<'a> for ExtendedClaim<'a> {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        if field == 2 {
            self.resource_claim_name = value.text()?.into();
        }
        Ok(())
    }
}

impl<'a> Message<'a> for Condition<'a> {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        match field {
            1 => self.type_ = value.text()?.into(),
            2 => self.status = value.text()?.into(),
            4 => {
                // An absent time is an empty message.
                let time = value.message::<WireTime>()?.0;
                self.last_transition_time = (time != Time::default()).then_some(time);
            }
            5 => self.reason = value.text()?.into(),
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for ContainerStatus<'a> {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        /// The states of a container that does not run, within its state.
        const WAITING: [u32; 1] = [1];
        const TERMINATED: [u32; 1] = [3];
        match field {
            1 => self.name = value.text()?.into(),
            2 => {
                descend(value, &WAITING, &mut |_| {
                    self.state.waiting = Some(IgnoredAny);
                    Ok(())
                })?;
                descend(value, &TERMINATED, &mut |terminated| {
                    self.state.terminated = Some(terminated.message()?);
                    Ok(())
                })?;
            }
            5 => self.restart_count = i32::try_from(value.number()?).unwrap_or(i32::MAX),
            10 => value
                .message::<amounts::Entry<'_>>()?
                .put_into(&mut self.allocated),
            11 => self.resources = Some(value.message()?),
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for Terminated {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        match field {
            1 => self.exit_code = i32::try_from(value.number()?).unwrap_or(i32::MAX),
            6 => {
                // An absent time is an empty message.
                let time = value.message::<WireTime>()?.0;
                self.finished_at = (time != Time::default()).then_some(time);
            }
            _ => {}
        }
        Ok(())
    }
}
