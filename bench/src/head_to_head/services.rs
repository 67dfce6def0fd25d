//! Pods behind services: endpoints, slices, and what holds them in memory.

use anyhow::{Context, Result};
use real_tests::installation::Installation;
use real_tests::kubelet::AutomaticKubelet;
use real_tests::{Api, Flavor, Manager};
use serde_json::{Value, json};

use super::Options;
use super::fixtures::{
    PODS, create_nodes, node_name, patient_controllers, pod, set_readiness, wait_for,
};
use super::scenarios::{
    DEPLOYMENTS, SHORT_SETTLE, both, delete_and_wait, size, until_caches_are_full, wait_status,
};
use super::stage::{Phase, Stage, deployment, in_parallel, template, until_seen_in_lists};

const SERVICES: usize = 100;
const READY_PODS: usize = 5000;
const ROLLED_PODS: usize = 1000;
/// Pods that become unready and ready again, one at a time.
const FLIPPED_PODS: usize = 5;
const NODES: usize = 50;
/// Endpoints of others that are only kept: in Endpoints and in slices, full ones of both.
const KEPT_ENDPOINTS: usize = 50_000;
const PER_SLICE: usize = 100;
const PER_ENDPOINTS: usize = 1000;

const SERVICE_PATH: &str = "/api/v1/namespaces/default/services";
const ENDPOINTS_PATH: &str = "/api/v1/namespaces/default/endpoints";
const SLICES_PATH: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

pub(super) fn services(
    installation: &Installation,
    options: &Options,
    reverse: bool,
) -> Result<Vec<Phase>> {
    both(installation, options, reverse, |stage, flavor| {
        let api = stage.cluster.api.clone();
        create_nodes(&api, NODES)?;
        let mut manager = stage.start_manager(flavor, &patient_controllers())?;
        let mut phases = vec![
            become_ready(stage, options, &mut manager)?,
            flip(stage, options, &mut manager)?,
            roll(stage, options, &mut manager)?,
        ];
        manager.kill();
        phases.extend(keep(stage, options, flavor)?);
        Ok(phases)
    })
}

/// Many services, whose pods all become ready.
fn become_ready(stage: &mut Stage, options: &Options, manager: &mut Manager) -> Result<Phase> {
    let (services, pods) = (size(options, SERVICES), size(options, READY_PODS));
    let api = stage.cluster.api.clone();
    in_parallel(pods, |number| {
        let labels = json!({"app": format!("service-{}", number % services), "all": "yes"});
        let pod = pod(&format!("pod-{number}"), labels, &node_name(number % NODES));
        api.create(PODS, &pod).map(drop)
    })?;
    let name = |number: usize| format!("service-{number}");
    in_parallel(services, |number| {
        create_service(&api, &name(number), json!({"app": name(number)}))
    })?;
    wait_for(&api, SLICES_PATH, services, |_| true)?;
    let ready = stage.measure("ready", pods, manager, |cluster| {
        let api = &cluster.api;
        in_parallel(pods, |number| {
            set_readiness(api, &format!("{PODS}/pod-{number}"), number, true)
        })?;
        until_seen_in_lists("all endpoints", || {
            Ok(ready_in_slices(api)? == pods && ready_in_endpoints(api)? == pods)
        })
    })?;
    in_parallel(services, |number| {
        api.delete(&format!("{SERVICE_PATH}/{}", name(number)), &json!({}))
    })?;
    wait_for(&api, SLICES_PATH, 0, |_| true)?;
    Ok(counted(ready))
}

/// Single pods of one large service become unready and ready again.
fn flip(stage: &mut Stage, options: &Options, manager: &mut Manager) -> Result<Phase> {
    let pods = size(options, READY_PODS);
    let api = stage.cluster.api.clone();
    create_service(&api, "large", json!({"all": "yes"}))?;
    until_seen_in_lists("all endpoints", || Ok(ready_in_slices(&api)? == pods))?;
    // Whatever else the service brought with it is over.
    std::thread::sleep(SHORT_SETTLE);
    let before = bytes_written(&api)?;
    let flips = 2 * FLIPPED_PODS;
    let flipped = stage.measure("flipped", flips, manager, |cluster| {
        let api = &cluster.api;
        for number in 0..FLIPPED_PODS {
            // Some of them are beyond what fits into the Endpoints of a service.
            let number = number * pods / FLIPPED_PODS;
            for (ready, left) in [(false, pods - 1), (true, pods)] {
                set_readiness(api, &format!("{PODS}/pod-{number}"), number, ready)?;
                until_seen_in_lists("the endpoint", || Ok(ready_in_slices(api)? == left))?;
            }
        }
        Ok(())
    })?;
    let bytes = bytes_written(&api)? - before;
    api.delete(&format!("{SERVICE_PATH}/large"), &json!({}))?;
    wait_for(&api, SLICES_PATH, 0, |_| true)?;
    Ok(counted(flipped).with("bytes-written", bytes / flips as f64))
}

/// A Deployment behind a service gets a new version.
fn roll(stage: &mut Stage, options: &Options, manager: &mut Manager) -> Result<Phase> {
    let pods = size(options, ROLLED_PODS);
    let api = stage.cluster.api.clone();
    let path = format!("{DEPLOYMENTS}/web");
    let _kubelet = AutomaticKubelet::start_with_addresses(&api, "default", 4);
    let on_a_node = |version: &str| {
        let mut template = template("web", version);
        template["spec"]["nodeName"] = json!(node_name(0));
        template
    };
    let mut web = deployment("web", pods, "1");
    web["spec"]["template"] = on_a_node("1");
    api.create(DEPLOYMENTS, &web)?;
    create_service(&api, "web", json!({"app": "web"}))?;
    wait_status(&stage.cluster, &path, &[("readyReplicas", pods)])?;
    until_seen_in_lists("all endpoints", || Ok(ready_in_slices(&api)? == pods))?;
    let rolled = stage.measure("rolled", pods, manager, |cluster| {
        let patch = json!({"spec": {"template": on_a_node("2")}});
        cluster.api.merge_patch(&path, &patch)?;
        let fields = [
            ("updatedReplicas", pods),
            ("replicas", pods),
            ("availableReplicas", pods),
            ("observedGeneration", 2),
        ];
        wait_status(cluster, &path, &fields)?;
        until_seen_in_lists("the endpoints of new pods", || {
            Ok(ready_in_slices(&cluster.api)? == pods && endpoints(&cluster.api)? == pods)
        })
    })?;
    api.delete(&format!("{SERVICE_PATH}/web"), &json!({}))?;
    delete_and_wait(&stage.cluster, &path, "web")?;
    Ok(counted(rolled))
}

/// A manager that starts without the endpoints of others, and one that starts with them.
fn keep(stage: &mut Stage, options: &Options, flavor: Flavor) -> Result<Vec<Phase>> {
    let kept = size(options, KEPT_ENDPOINTS);
    let look = |stage: &mut Stage, name| {
        until_caches_are_full(stage, flavor, &patient_controllers(), (name, kept))
    };
    let empty = look(stage, "empty")?;
    let api = stage.cluster.api.clone();
    in_parallel(kept.div_ceil(PER_ENDPOINTS), |number| {
        let name = format!("kept-{number}");
        create_service(&api, &name, Value::Null)?;
        let (first, last) = (
            number * PER_ENDPOINTS,
            ((number + 1) * PER_ENDPOINTS).min(kept),
        );
        let addresses: Vec<Value> = (first..last)
            .map(|number| json!({"ip": address(number), "nodeName": node_name(number % NODES), "targetRef": target(number)}))
            .collect();
        let endpoints = json!({
            "metadata": {"name": name, "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
            "subsets": [{"addresses": addresses, "ports": [{"name": "main", "port": 8080}]}],
        });
        api.create(ENDPOINTS_PATH, &endpoints).map(drop)
    })?;
    in_parallel(kept.div_ceil(PER_SLICE), |number| {
        let (first, last) = (number * PER_SLICE, ((number + 1) * PER_SLICE).min(kept));
        let endpoints: Vec<Value> = (first..last)
            .map(|number| json!({
                "addresses": [address(number)], "nodeName": node_name(number % NODES), "zone": "zone-1", "targetRef": target(number),
                "conditions": {"ready": true, "serving": true, "terminating": false},
            }))
            .collect();
        let slice = json!({
            "metadata": {"name": format!("kept-{number}"), "labels": {
                "kubernetes.io/service-name": format!("kept-{}", first / PER_ENDPOINTS),
                "endpointslice.kubernetes.io/managed-by": "bench.example.com",
            }},
            "addressType": "IPv4", "ports": [{"name": "main", "port": 8080}], "endpoints": endpoints,
        });
        api.create(SLICES_PATH, &slice).map(drop)
    })?;
    let filled = look(stage, "filled")?;
    Ok(vec![empty, filled])
}

fn address(number: usize) -> String {
    format!(
        "10.{}.{}.{}",
        100 + number / 60_000,
        number / 250 % 240,
        1 + number % 250
    )
}

fn target(number: usize) -> Value {
    json!({"kind": "Pod", "namespace": "default", "name": format!("kept-6b9c7d5f48-{number:05}"), "uid": format!("00000000-0000-4000-8000-{number:012}")})
}

fn create_service(api: &Api, name: &str, selector: Value) -> Result<()> {
    let service = json!({
        "metadata": {"name": name},
        "spec": {"clusterIP": "None", "selector": selector, "ports": [{"name": "main", "port": 80, "targetPort": 8080}]},
    });
    api.create(SERVICE_PATH, &service).map(drop)
}

fn counted(phase: Phase) -> Phase {
    let items = phase.items as f64;
    let (slices, endpoints) = (
        phase.writes_of("endpointslices") / items,
        phase.writes_of("endpoints") / items,
    );
    phase
        .with("slice-writes", slices)
        .with("endpoints-writes", endpoints)
}

fn count_endpoints(api: &Api, counts: impl Fn(&Value) -> bool) -> Result<usize> {
    let slices = api.list(SLICES_PATH)?;
    let endpoints = slices
        .iter()
        .filter_map(|slice| slice["endpoints"].as_array())
        .flatten();
    Ok(endpoints.filter(|endpoint| counts(endpoint)).count())
}

fn ready_in_slices(api: &Api) -> Result<usize> {
    count_endpoints(api, |endpoint| endpoint["conditions"]["ready"] == true)
}

fn endpoints(api: &Api) -> Result<usize> {
    count_endpoints(api, |_| true)
}

fn ready_in_endpoints(api: &Api) -> Result<usize> {
    let all = api.list(ENDPOINTS_PATH)?;
    let subsets = all
        .iter()
        .filter_map(|one| one["subsets"].as_array())
        .flatten();
    Ok(subsets
        .filter_map(|subset| subset["addresses"].as_array())
        .map(Vec::len)
        .sum())
}

/// The bodies of all writes of Endpoints and slices so far, as kube-apiserver counts them.
fn bytes_written(api: &Api) -> Result<f64> {
    let answer = api.send("GET", "/metrics", "text/plain", &[])?;
    let text = String::from_utf8(answer.body).context("metrics are text")?;
    Ok(bodies_of_endpoints(&text))
}

fn bodies_of_endpoints(metrics: &str) -> f64 {
    let lines = metrics.lines().filter(|line| {
        line.starts_with("apiserver_request_body_size_bytes_sum")
            && line.contains("resource=\"endpoint")
    });
    lines
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_of_endpoints_and_slices_are_added_up() {
        let metrics = "apiserver_request_body_size_bytes_sum{resource=\"endpointslices.discovery.k8s.io\",verb=\"update\"} 1.5e3\n\
                       apiserver_request_body_size_bytes_sum{resource=\"endpoints\",verb=\"create\"} 20\n\
                       apiserver_request_body_size_bytes_count{resource=\"endpoints\",verb=\"create\"} 1\n\
                       apiserver_request_body_size_bytes_sum{resource=\"pods\",verb=\"create\"} 7\n";
        assert_eq!(bodies_of_endpoints(metrics), 1520.0);
    }

    #[test]
    fn kept_endpoints_have_addresses_of_their_own() {
        let all: std::collections::BTreeSet<String> = (0..KEPT_ENDPOINTS).map(address).collect();
        assert_eq!(all.len(), KEPT_ENDPOINTS);
    }
}
