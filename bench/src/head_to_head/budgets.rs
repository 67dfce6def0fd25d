//! Disruption budgets over pods that become ready.

use anyhow::Result;
use real_tests::installation::Installation;
use serde_json::json;

use super::Options;
use super::fixtures::{PODS, make_all_ready, wait_for};
use super::scenarios::{both, size};
use super::stage::{Phase, in_parallel, same_controllers, template};

const BUDGETS: usize = 1000;
const PODS_EACH: usize = 5;
const BUDGET_PATH: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const SET_PATH: &str = "/apis/apps/v1/namespaces/default/replicasets";

pub(super) fn budgets(
    installation: &Installation,
    options: &Options,
    reverse: bool,
) -> Result<Vec<Phase>> {
    let budgets = size(options, BUDGETS);
    let pods = budgets * PODS_EACH;
    both(installation, options, reverse, |stage, flavor| {
        let mut manager = stage.start_manager(flavor, &same_controllers())?;
        let api = stage.cluster.api.clone();
        let name = |number: usize| format!("web-{number}");
        let selector = |number: usize| json!({"matchLabels": {"app": name(number)}});
        in_parallel(budgets, |number| {
            let set = json!({
                "metadata": {"name": name(number)},
                "spec": {"replicas": PODS_EACH, "selector": selector(number), "template": template(&name(number), "1")},
            });
            api.create(SET_PATH, &set)?;
            let budget = json!({"metadata": {"name": name(number)}, "spec": {"maxUnavailable": 1, "selector": selector(number)}});
            api.create(BUDGET_PATH, &budget).map(drop)
        })?;
        wait_for(&api, BUDGET_PATH, budgets, |budget| {
            budget["status"]["expectedPods"] == PODS_EACH && budget["status"]["currentHealthy"] == 0
        })?;
        let ready = stage.measure("ready", pods, &mut manager, |cluster| {
            make_all_ready(&cluster.api, PODS)?;
            wait_for(&cluster.api, BUDGET_PATH, budgets, |budget| {
                budget["status"]["currentHealthy"] == PODS_EACH
            })
        })?;
        let written = ready.writes_of("poddisruptionbudgets/status");
        Ok(vec![ready.with("budget-writes", written)])
    })
}
