//! The pod as the scheduler and the kubelets read it.
//!
//! They need more of a pod than controllers do (requests, ports, probes, affinity, container states), and
//! there may be 50,000 of them: so everything that comes from the template is one shared [`PodSpec`], and
//! what admission or the owner makes unique (the node, the claims) is kept beside it.

mod probe;
mod requests;
mod resources;
mod restarts;
mod sources;
mod spec;
mod status;

use std::sync::Arc;

use api::intern::Pool;
use api::kinds::PodClaim;
use api::meta::or_default;
use api::{DecodeError, Istr, Meta, Resource, ResourceType};
use serde::Deserialize;

pub use probe::{Check, Probe};
pub use requests::{Amounts, Requests};
pub use resources::{Listed, Resources};
pub use restarts::{AfterExit, RestartRule};
pub use sources::{Source, SourceKind, SourceVolume};
pub use spec::{
    Container, HostPort, PodSpec, PullPolicy, RestartPolicy, SpreadConstraint, Termination,
    Unsatisfiable,
};
pub use status::{ContainerState, ContainerStatus, Phase, PodStatus, Terminated};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct Pod {
    pub metadata: Meta,
    /// Where it runs; empty while it is not scheduled.
    pub node_name: Istr,
    /// Claims by name, including those that the ephemeral-volume controller makes.
    pub claims: Arc<[Claim]>,
    /// Claims for devices, with what the status says of those from templates.
    pub device_claims: Box<[PodClaim]>,
    pub spec: Arc<PodSpec>,
    pub status: PodStatus,
}

/// A persistent volume claim that a pod mounts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    pub name: Istr,
    /// Made for this pod by the ephemeral-volume controller.
    pub ephemeral: bool,
}

impl Pod {
    pub fn is_finished(&self) -> bool {
        matches!(self.status.phase, Phase::Succeeded | Phase::Failed)
    }

    pub fn is_assigned(&self) -> bool {
        !self.node_name.is_empty()
    }

    /// `name_namespace(uid)`: how the kubelet writes a pod in its messages.
    pub fn formatted(&self) -> String {
        let meta = &self.metadata;
        format!("{}_{}({})", meta.name, meta.namespace, meta.uid)
    }
}

impl Resource for Pod {
    const TYPE: ResourceType = ResourceType::namespaced("", "v1", "pods", "Pod");

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn decode(json: &[u8]) -> Result<Pod, DecodeError> {
        let wire: WirePod = api::resource::decode_json(&Pod::TYPE, json)?;
        Ok(wire.into_pod())
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WirePod {
    metadata: Meta,
    #[serde(deserialize_with = "or_default")]
    spec: spec::WireSpec,
    #[serde(deserialize_with = "or_default")]
    status: PodStatus,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireVolume {
    name: Box<str>,
    persistent_volume_claim: Option<WireClaim>,
    ephemeral: Option<serde::de::IgnoredAny>,
    config_map: Option<sources::WireReference>,
    secret: Option<sources::WireReference>,
    projected: Option<sources::WireProjected>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireClaim {
    claim_name: Istr,
}

static SPECS: Pool<PodSpec> = Pool::new();

impl WirePod {
    fn into_pod(mut self) -> Pod {
        let pod_name = self.metadata.name.clone();
        let volumes = std::mem::take(&mut self.spec.volumes);
        let filled = volumes.iter().filter_map(|volume| {
            let (map, secret) = (volume.config_map.as_ref(), volume.secret.as_ref());
            sources::of_volume(&volume.name, map, secret, volume.projected.as_ref())
        });
        let source_volumes = filled.collect();
        let claims = volumes.into_iter().filter_map(|volume| {
            if let Some(claim) = volume.persistent_volume_claim {
                Some(Claim {
                    name: claim.claim_name,
                    ephemeral: false,
                })
            } else {
                volume.ephemeral.map(|_| Claim {
                    name: Istr::from(format!("{pod_name}-{}", volume.name)),
                    ephemeral: true,
                })
            }
        });
        let device_claims = std::mem::take(&mut self.spec.resource_claims);
        let generated = std::mem::take(&mut self.status.resource_claims);
        Pod {
            claims: claims.collect(),
            device_claims: PodClaim::all(&device_claims, &generated),
            node_name: std::mem::take(&mut self.spec.node_name),
            spec: SPECS.intern(self.spec.into_spec(source_volumes)),
            status: self.status,
            metadata: self.metadata,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = r#"{
        "metadata":{"name":"db-0","namespace":"shop","uid":"6f0e7d3a-9f0b-4d53-8f3e-0123456789ab"},
        "spec":{
            "nodeName":"node-1","priority":7,"schedulerName":"default-scheduler","restartPolicy":"Always",
            "overhead":{"cpu":"10m"},
            "volumes":[
                {"name":"data","persistentVolumeClaim":{"claimName":"data-db-0"}},
                {"name":"scratch","ephemeral":{"volumeClaimTemplate":{"spec":{}}}},
                {"name":"kube-api-access-x1","projected":{}}],
            "initContainers":[
                {"name":"init","image":"busybox","resources":{"requests":{"cpu":"500m"}}},
                {"name":"side","image":"proxy","restartPolicy":"Always","resources":{"requests":{"cpu":"20m"}}}],
            "containers":[{"name":"db","image":"postgres:16","ports":[{"containerPort":5432,"hostPort":5432}],
                "resources":{"requests":{"cpu":"250m","memory":"1Gi","example.com/gpu":"2"}},
                "readinessProbe":{"initialDelaySeconds":3,"periodSeconds":5}}]},
        "status":{"phase":"Running","podIP":"10.0.0.3","podIPs":[{"ip":"10.0.0.3"},{"ip":"fd00::3"}],"startTime":"2024-01-01T00:00:00Z",
            "conditions":[{"type":"Ready","status":"True"}],
            "containerStatuses":[{"name":"db","restartCount":2,"ready":true,"started":true,
                "state":{"running":{"startedAt":"2024-01-01T00:00:05Z"}},
                "lastState":{"terminated":{"exitCode":1,"reason":"Error","startedAt":"2024-01-01T00:00:01Z","finishedAt":"2024-01-01T00:00:02Z"}}}]}}"#;

    #[test]
    fn decodes_what_scheduler_and_kubelet_read() {
        let pod = Pod::decode(POD.as_bytes()).unwrap();
        assert_eq!((pod.node_name.as_str(), pod.spec.priority), ("node-1", 7));
        let claims: Vec<&str> = pod.claims.iter().map(|claim| claim.name.as_str()).collect();
        assert_eq!(claims, ["data-db-0", "db-0-scratch"]);
        assert!(pod.claims[1].ephemeral);
        // The init container needs more cpu than all that run for good, and the sidecar runs beside it.
        assert_eq!(pod.spec.requests.total.milli_cpu, 510);
        assert_eq!(pod.spec.requests.total.memory, 1 << 30);
        assert_eq!(pod.spec.requests.total.other("example.com/gpu"), 2);
        assert_eq!(pod.spec.host_ports[0].port, 5432);
        let ips: Vec<String> = pod.status.ips.iter().map(|ip| ip.to_string()).collect();
        assert_eq!(ips, ["10.0.0.3", "fd00::3"]);
        let status = &pod.status.containers[0];
        assert_eq!((status.restart_count, status.ready), (2, true));
        assert!(matches!(status.state, ContainerState::Running { .. }));
        assert_eq!(status.last.as_ref().map(|last| last.exit_code), Some(1));
    }

    #[test]
    fn pods_of_one_template_share_their_spec() {
        let other = POD
            .replace("db-0", "db-1")
            .replace("access-x1", "access-y2");
        let (one, two) = (
            Pod::decode(POD.as_bytes()).unwrap(),
            Pod::decode(other.as_bytes()).unwrap(),
        );
        assert!(Arc::ptr_eq(&one.spec, &two.spec));
    }

    #[test]
    fn nothing_at_all_is_a_pod() {
        for text in [
            "{}",
            r#"{"spec":null,"status":null}"#,
            r#"{"spec":{"containers":null}}"#,
        ] {
            assert!(Pod::decode(text.as_bytes()).is_ok(), "{text}");
        }
    }
}
