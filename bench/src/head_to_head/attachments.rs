//! Volumes of a CSI driver that are attached for pods and detached after them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;
use real_tests::Api;
use real_tests::installation::Installation;
use serde_json::{Value, json};

use super::Options;
use super::claims::{DRIVER, create_bound};
use super::fixtures::{PODS, create_nodes, node_name, patient_controllers, pod, wait_for};
use super::scenarios::{both, size};
use super::stage::{Phase, in_parallel, until_seen_in_lists};

const ATTACHED_PODS: usize = 500;
const NODES: usize = 100;
const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";

pub(super) fn attachments(
    installation: &Installation,
    options: &Options,
    reverse: bool,
) -> Result<Vec<Phase>> {
    let (pods, nodes) = (size(options, ATTACHED_PODS), size(options, NODES));
    both(installation, options, reverse, |stage, flavor| {
        let api = stage.cluster.api.clone();
        create_nodes(&api, nodes)?;
        create_driver(&api, nodes)?;
        create_bound(&api, "data", pods)?;
        let mut manager = stage.start_manager(flavor, &patient_controllers())?;
        let _attacher = Attacher::start(&api);
        let attached = stage.measure("attached", pods, &mut manager, |cluster| {
            in_parallel(pods, |number| {
                let node = node_name(number % nodes);
                let mut pod = pod(&format!("pod-{number}"), json!({}), &node);
                pod["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": format!("data-{number}")}}]);
                cluster.api.create(PODS, &pod).map(drop)
            })?;
            until_attached(&cluster.api, pods)
        })?;
        let detached = stage.measure("detached", pods, &mut manager, |cluster| {
            in_parallel(pods, |number| {
                let path = format!("{PODS}/pod-{number}");
                cluster.api.delete(&path, &json!({"gracePeriodSeconds": 0}))
            })?;
            wait_for(&cluster.api, ATTACHMENTS, 0, |_| true)?;
            until_attached(&cluster.api, 0)
        })?;
        Ok(vec![attached, detached])
    })
}

/// Until nodes say of so many volumes that they are attached to them.
fn until_attached(api: &Api, volumes: usize) -> Result<()> {
    until_seen_in_lists("what nodes say of their volumes", || {
        let nodes = api.list("/api/v1/nodes")?;
        let attached = nodes
            .iter()
            .filter_map(|node| node["status"]["volumesAttached"].as_array());
        Ok(attached.map(Vec::len).sum::<usize>() == volumes)
    })
}

fn create_driver(api: &Api, nodes: usize) -> Result<()> {
    let driver = json!({"metadata": {"name": DRIVER}, "spec": {"attachRequired": true}});
    api.create("/apis/storage.k8s.io/v1/csidrivers", &driver)?;
    in_parallel(nodes, |number| {
        let name = node_name(number);
        let node = json!({
            "metadata": {"name": name},
            "spec": {"drivers": [{"name": DRIVER, "nodeID": name, "topologyKeys": []}]},
        });
        api.create("/apis/storage.k8s.io/v1/csinodes", &node)
            .map(drop)
    })
}

/// What the external attacher of a driver does, with nothing to attach: it says at once that it is done.
struct Attacher {
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Attacher {
    fn start(api: &Api) -> Attacher {
        let stopping = Arc::new(AtomicBool::new(false));
        let (api, told) = (api.clone(), Arc::clone(&stopping));
        let thread = std::thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                let path = format!("{ATTACHMENTS}?watch=true");
                let watched = api.watch(&path, Duration::from_secs(1), |event| {
                    attach(&api, event);
                    !told.load(Ordering::Relaxed)
                });
                if watched.is_err() {
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        });
        Attacher {
            stopping,
            thread: Some(thread),
        }
    }
}

/// A new attachment is attached. One that is refused, because it is gone, is none of ours any more.
fn attach(api: &Api, event: &Value) {
    let object = &event["object"];
    let is_new = event["type"] == "ADDED" && object["status"]["attached"] != true;
    if let (true, Some(name)) = (is_new, object["metadata"]["name"].as_str()) {
        let attached = json!({"status": {"attached": true}});
        let _ = api.merge_patch(&format!("{ATTACHMENTS}/{name}/status"), &attached);
    }
}

impl Drop for Attacher {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
