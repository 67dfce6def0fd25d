//! Quotas of many namespaces while pods come and go.

use anyhow::Result;
use real_tests::Api;
use real_tests::installation::Installation;
use serde_json::json;

use super::Options;
use super::fixtures::{create_namespaces, pod, wait_for};
use super::scenarios::{both, size};
use super::stage::{Phase, in_parallel, same_controllers};

const NAMESPACES: usize = 200;
const PODS_EACH: usize = 50;
const QUOTAS: &str = "/api/v1/resourcequotas";

pub(super) fn quotas(
    installation: &Installation,
    options: &Options,
    reverse: bool,
) -> Result<Vec<Phase>> {
    let namespaces: Vec<String> = (0..size(options, NAMESPACES))
        .map(|number| format!("team-{number}"))
        .collect();
    let pods = namespaces.len() * PODS_EACH;
    both(installation, options, reverse, |stage, flavor| {
        let mut manager = stage.start_manager(flavor, &same_controllers())?;
        let api = stage.cluster.api.clone();
        create_namespaces(&api, &namespaces)?;
        in_parallel(namespaces.len(), |number| {
            let quota = json!({
                "metadata": {"name": "all"},
                "spec": {"hard": {"pods": "100", "requests.cpu": "10", "requests.memory": "10Gi"}},
            });
            let path = format!("/api/v1/namespaces/{}/resourcequotas", namespaces[number]);
            api.create(&path, &quota).map(drop)
        })?;
        let all_use = |api: &Api, used: usize| {
            let used = used.to_string();
            wait_for(api, QUOTAS, namespaces.len(), |quota| {
                quota["status"]["used"]["pods"] == used.as_str()
            })
        };
        all_use(&api, 0)?;
        let created = stage.measure("created", pods, &mut manager, |cluster| {
            in_parallel(pods, |number| {
                let path = format!(
                    "/api/v1/namespaces/{}/pods",
                    namespaces[number % namespaces.len()]
                );
                let mut pod = pod(&format!("pod-{number}"), json!({}), "");
                pod["spec"]["nodeName"].take();
                cluster.api.create(&path, &pod).map(drop)
            })?;
            all_use(&cluster.api, PODS_EACH)
        })?;
        let deleted = stage.measure("deleted", pods, &mut manager, |cluster| {
            in_parallel(namespaces.len(), |number| {
                let path = format!("/api/v1/namespaces/{}/pods", namespaces[number]);
                cluster.api.delete(&path, &json!({"gracePeriodSeconds": 0}))
            })?;
            all_use(&cluster.api, 0)
        })?;
        let counted = |phase: Phase| {
            let written = phase.writes_of("resourcequotas/status");
            phase.with("quota-writes", written)
        };
        Ok(vec![counted(created), counted(deleted)])
    })
}
