//! Autoscalers whose metrics say that nothing is to be changed: what a period costs.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use real_tests::installation::Installation;
use serde_json::json;

use super::Options;
use super::fixtures::{PODS, make_all_ready, wait_for};
use super::metrics_api::MetricsApi;
use super::scenarios::{both, size};
use super::stage::{Phase, in_parallel, same_controllers, template};

const AUTOSCALERS: usize = 500;
const AUTOSCALER_PATH: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
const SET_PATH: &str = "/apis/apps/v1/namespaces/default/replicasets";
/// Upstream's default of `--horizontal-pod-autoscaler-sync-period`.
const PERIOD: Duration = Duration::from_secs(15);
const PERIODS: u32 = 2;

pub(super) fn autoscalers(
    installation: &Installation,
    options: &Options,
    reverse: bool,
) -> Result<Vec<Phase>> {
    let autoscalers = size(options, AUTOSCALERS);
    both(installation, options, reverse, |stage, flavor| {
        let api = stage.cluster.api.clone();
        let metrics = MetricsApi::register(&stage.cluster)?;
        let mut manager = stage.start_manager(flavor, &same_controllers())?;
        let name = |number: usize| format!("web-{number}");
        in_parallel(autoscalers, |number| {
            let set = json!({
                "metadata": {"name": name(number)},
                "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name(number)}}, "template": template(&name(number), "1")},
            });
            api.create(SET_PATH, &set).map(drop)
        })?;
        wait_for(&api, PODS, autoscalers, |_| true)?;
        make_all_ready(&api, PODS)?;
        let mut pods = BTreeMap::new();
        for pod in api.list(PODS)? {
            let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
            pods.insert(
                text(&pod["metadata"]["labels"]["app"]),
                text(&pod["metadata"]["name"]),
            );
        }
        metrics.serve(pods);
        in_parallel(autoscalers, |number| {
            let target =
                json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name(number)});
            let metric = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}});
            let autoscaler = json!({
                "metadata": {"name": name(number)},
                "spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 3, "metrics": [metric]},
            });
            api.create(AUTOSCALER_PATH, &autoscaler).map(drop)
        })?;
        wait_for(&api, AUTOSCALER_PATH, autoscalers, |one| {
            one["status"]["currentMetrics"][0]["resource"]["current"]["averageUtilization"] == 50
        })?;
        let syncs = autoscalers * PERIODS as usize;
        let period = stage.measure("period", syncs, &mut manager, |_| {
            std::thread::sleep(PERIOD * PERIODS);
            Ok(())
        })?;
        Ok(vec![period])
    })
}
