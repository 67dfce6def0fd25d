//! A cluster with one manager on it, and the means to measure a phase of its life.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use real_tests::audit::{Entry, Level, Reader};
use real_tests::installation::Installation;
use real_tests::manager::ours;
use real_tests::wait::{self, Seen};
use real_tests::{Cluster, ClusterOptions, Flavor, Manager, ManagerOptions};
use serde_json::{Value, json};

/// The longest phase that is still worth waiting for.
const PHASE_DEADLINE: Duration = Duration::from_secs(300);
/// Threads that play kubelets and users: enough to keep the API server busy, few enough to leave it a core.
const THREADS: usize = 8;

/// How long a look at a whole list waits before the next one.
const BETWEEN_LISTS: Duration = Duration::from_millis(200);

/// What one phase cost the manager.
#[derive(Clone, Debug)]
pub(crate) struct Phase {
    pub(crate) name: &'static str,
    pub(crate) flavor: Flavor,
    /// How many pods (or whatever the scenario counts) the costs are shared out over.
    pub(crate) items: usize,
    pub(crate) wall_seconds: f64,
    pub(crate) cpu_seconds: f64,
    pub(crate) etcd_cpu_seconds: f64,
    pub(crate) resident_bytes: f64,
    pub(crate) peak_resident_bytes: f64,
    /// By verb and resource, as `update pods/status`.
    pub(crate) requests: BTreeMap<String, u64>,
    /// How many of them wrote a status.
    pub(crate) status_writes: u64,
    /// What only this scenario looks at, by name.
    pub(crate) own: Vec<(&'static str, f64)>,
}

impl Phase {
    /// How often the manager wrote a resource, `endpointslices` or `pods/status`.
    pub(crate) fn writes_of(&self, resource: &str) -> f64 {
        let written = self.requests.iter().filter(|(request, _)| {
            let (verb, of) = request.split_once(' ').unwrap_or_default();
            of == resource
                && matches!(
                    verb,
                    "create" | "update" | "patch" | "delete" | "deletecollection"
                )
        });
        written.map(|(_, count)| count).sum::<u64>() as f64
    }

    /// Adds a figure that only this scenario has.
    pub(crate) fn with(mut self, name: &'static str, value: f64) -> Phase {
        self.own.push((name, value));
        self
    }

    /// A figure of its own; none counts as nothing.
    pub(crate) fn own(&self, name: &str) -> f64 {
        let found = self.own.iter().find(|(own, _)| *own == name);
        found.map_or(0.0, |(_, value)| *value)
    }

    /// How many requests had this verb.
    pub(crate) fn requests_with(&self, verb: &str) -> u64 {
        let with_verb = self.requests.iter();
        let with_verb = with_verb.filter(|(request, _)| request.split(' ').next() == Some(verb));
        with_verb.map(|(_, count)| count).sum()
    }
}

pub(crate) struct Stage {
    pub(crate) cluster: Cluster,
    reader: Reader,
}

impl Stage {
    pub(crate) fn new(installation: &Installation) -> Result<Stage> {
        Stage::with_flags(installation, &[])
    }

    /// With more flags for kube-apiserver.
    pub(crate) fn with_flags(installation: &Installation, flags: &[&str]) -> Result<Stage> {
        let options = ClusterOptions {
            audit: Level::Manager,
            at_ease: true,
            apiserver_flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
            ..ClusterOptions::default()
        };
        let cluster = Cluster::start(installation, options)?;
        Ok(Stage {
            cluster,
            reader: Reader::default(),
        })
    }

    /// Starts a manager and waits until it has brought a first Deployment to its pod, so that a
    /// manager that does less cannot look cheaper.
    pub(crate) fn start_manager(
        &self,
        flavor: Flavor,
        options: &ManagerOptions,
    ) -> Result<Manager> {
        let manager = Manager::start(&self.cluster, flavor, options)?;
        self.probe("probe")?;
        Ok(manager)
    }

    /// Waits until a Deployment of one gets its pod, and removes it again.
    pub(crate) fn probe(&self, name: &str) -> Result<()> {
        let api = &self.cluster.api;
        let path = "/apis/apps/v1/namespaces/default/deployments";
        api.create(path, &deployment(name, 1, "1"))?;
        self.until("the probe's pod", || {
            let seen = api.get(&format!("{path}/{name}"))?;
            Ok(seen["status"]["replicas"] == 1)
        })?;
        api.delete(
            &format!("{path}/{name}"),
            &json!({"propagationPolicy": "Background"}),
        )?;
        self.until("the probe's end", || {
            let pods =
                format!("/api/v1/namespaces/default/pods?labelSelector=app%3D{name}&limit=1");
            Ok(api.list(&pods)?.is_empty())
        })
    }

    /// Measures what the manager uses while `act` runs.
    pub(crate) fn measure(
        &mut self,
        name: &'static str,
        items: usize,
        manager: &mut Manager,
        act: impl FnOnce(&Cluster) -> Result<()>,
    ) -> Result<Phase> {
        let log = self.cluster.audit_log();
        self.reader.read_new(&log)?;
        let etcd = || {
            self.cluster
                .processes()
                .next()
                .context("etcd is gone")?
                .usage()
        };
        // In nanoseconds, because a short phase takes few of the kernel's ticks.
        let before = manager.process().cpu_times()?;
        let (etcd_before, started) = (etcd()?, Instant::now());
        let outcome = act(&self.cluster);
        manager.check_alive()?;
        outcome?;
        let spent = manager.process().cpu_times()?;
        let (after, etcd_after) = (manager.usage()?, etcd()?);
        let wall_seconds = started.elapsed().as_secs_f64();
        let entries = self.reader.read_new(&log)?;
        Ok(Phase {
            name,
            flavor: manager.flavor,
            items,
            wall_seconds,
            cpu_seconds: spent.seconds_since(&before),
            etcd_cpu_seconds: etcd_after.cpu_seconds - etcd_before.cpu_seconds,
            resident_bytes: after.resident_bytes as f64,
            peak_resident_bytes: after.peak_resident_bytes as f64,
            requests: by_request(&entries),
            status_writes: status_writes(&entries),
            own: Vec::new(),
        })
    }

    /// Counts what the manager still sends within `wait` after a phase: one that has to keep to a limit says later
    /// what another one has said already.
    pub(crate) fn count_on(&mut self, phase: &mut Phase, wait: Duration) -> Result<()> {
        std::thread::sleep(wait);
        let entries = self.reader.read_new(&self.cluster.audit_log())?;
        for (request, count) in by_request(&entries) {
            *phase.requests.entry(request).or_default() += count;
        }
        phase.status_writes += status_writes(&entries);
        Ok(())
    }

    pub(crate) fn until(&self, what: &str, look: impl FnMut() -> Result<bool>) -> Result<()> {
        until(what, look)
    }
}

/// The same controllers for both: those that ours has, so that nobody looks small by doing less.
pub(crate) fn same_controllers() -> ManagerOptions {
    ManagerOptions {
        controllers: ours().iter().map(|one| one.name.clone()).collect(),
        ..ManagerOptions::default()
    }
}

/// Waits until `look` is true.
pub(crate) fn until(what: &str, mut look: impl FnMut() -> Result<bool>) -> Result<()> {
    wait::until(what, PHASE_DEADLINE, || {
        Ok(if look()? {
            Seen::Ready(())
        } else {
            Seen::NotYet("not yet".to_owned())
        })
    })
}

/// As `until`, for a look that costs the API server as much as a hundred requests.
pub(crate) fn until_seen_in_lists(
    what: &str,
    mut look: impl FnMut() -> Result<bool>,
) -> Result<()> {
    until(what, || {
        std::thread::sleep(BETWEEN_LISTS);
        look()
    })
}

/// Makes all pods with a label ready, in parallel.
pub(crate) fn make_ready(cluster: &Cluster, app: &str) -> Result<()> {
    let api = &cluster.api;
    let kubelet = real_tests::kubelet::Kubelet::new(api, "default");
    let pods = kubelet.pods(&format!("app={app}"))?;
    let names: Vec<(&str, &str)> = pods
        .iter()
        .filter_map(|pod| {
            Some((
                pod["metadata"]["name"].as_str()?,
                pod["metadata"]["creationTimestamp"].as_str()?,
            ))
        })
        .collect();
    in_parallel(names.len(), |number| {
        let (name, since) = names[number];
        kubelet.set_ready(name, true, since)
    })
}

/// Does something for each number below `count`, on several threads; the first failure of one ends its share.
pub(crate) fn in_parallel(count: usize, work: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
    let work = &work;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|share| scope.spawn(move || (share..count).step_by(THREADS).try_for_each(work)))
            .collect();
        threads.into_iter().try_for_each(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| anyhow::bail!("a thread panicked"))
        })
    })
}

/// A Deployment of the size and template that all scenarios share.
pub(crate) fn deployment(name: &str, replicas: usize, version: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template(name, version),
        },
    })
}

pub(crate) fn template(app: &str, version: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{
            "name": "main", "image": format!("example.invalid/{app}:{version}"),
            "ports": [{"containerPort": 8080}],
            "env": [{"name": "MODE", "value": "bench"}],
            "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
        }]},
    })
}

fn by_request(entries: &[Entry]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.is_manager()) {
        let resource = entry.resource();
        // Leases are renewed with time, whatever else happens.
        if resource == "leases" {
            continue;
        }
        // Discovery and the like: what counts is how often, not which group.
        let resource = if resource.starts_with('/') {
            "paths"
        } else {
            &resource
        };
        *counts
            .entry(format!("{} {resource}", entry.verb))
            .or_default() += 1;
    }
    counts
}

fn status_writes(entries: &[Entry]) -> u64 {
    let is_one = |entry: &&Entry| {
        entry.is_manager() && entry.is_write() && entry.resource().ends_with("/status")
    };
    entries.iter().filter(is_one).count() as u64
}
