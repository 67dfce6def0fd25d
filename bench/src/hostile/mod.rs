//! Attacks that were found once, as figures: how long the worst request takes, what it leaves in memory, which connections
//! are held, and whether health checks are answered meanwhile. Each has a server of its own, on loopback, and a bound.

mod connections;
mod health;
mod requests;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use real_tests::Api;
use real_tests::cluster::free_port;
use real_tests::embedded::Embedded;
use real_tests::manager::ours;
use real_tests::process::{Process, Usage};
use serde_json::json;

use crate::report::{Goal, Report};
use health::Health;

/// What a fuzzed input may take, too: longer is a hang.
const LONGEST_SECONDS: f64 = 1.0;
/// And so much may it leave.
const MOST_MEGABYTES: f64 = 200.0;
/// A kubelet waits that long for a probe unless it is told otherwise.
const PROBE_SECONDS: f64 = 1.0;
/// As long as the server's own deadlines allow, and some more on a busy machine. The longest is that of a body: ten
/// seconds, and as long as what has come takes at the slowest rate that is borne, which is 54 s for 2.9 MB.
const HELD: Duration = Duration::from_secs(65);

pub(crate) fn run(arguments: &[String], report: &mut Report) -> Result<()> {
    let names = || {
        let requests = requests::ATTACKS.iter().map(|attack| attack.name);
        requests.chain(connections::ATTACKS.iter().map(|attack| attack.name))
    };
    if let Some(unknown) = arguments
        .iter()
        .find(|argument| !names().any(|name| name == argument.as_str()))
    {
        let known: Vec<&str> = names().collect();
        bail!(
            "there is no attack {unknown:?}; usage: cargo xtask bench hostile [attack...], of {}",
            known.join(", ")
        );
    }
    let folder = std::env::temp_dir().join(format!("steersman-hostile-{}", std::process::id()));
    let outcome = attack_all(&folder, arguments, report);
    let _ = std::fs::remove_dir_all(&folder);
    outcome
}

fn attack_all(folder: &Path, wanted: &[String], report: &mut Report) -> Result<()> {
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|one| one == name);
    for attack in requests::ATTACKS.iter().filter(|one| is_wanted(one.name)) {
        eprintln!("{}", attack.name);
        let target = Target::api_server(&folder.join(attack.name), None)?;
        by_requests(attack, target, report).with_context(|| attack.name.to_owned())?;
    }
    for attack in connections::ATTACKS
        .iter()
        .filter(|one| is_wanted(one.name))
    {
        eprintln!("{}", attack.name);
        let folder = folder.join(attack.name);
        let target = match attack.on {
            connections::On::ApiServer => Target::api_server(&folder, None)?,
            connections::On::FewFiles(files) => Target::api_server(&folder, Some(files))?,
            connections::On::Manager => Target::manager(&folder)?,
        };
        by_connections(attack, target, report).with_context(|| attack.name.to_owned())?;
    }
    Ok(())
}

/// The server under attack.
struct Target {
    /// As the administrator; of a manager, the administrator of its API server.
    api: Api,
    /// The authority by which the server is known.
    authority: String,
    server: Embedded,
    manager: Option<Process>,
}

impl Target {
    fn api_server(folder: &Path, open_files: Option<u32>) -> Result<Target> {
        let server = match open_files {
            None => Embedded::start(folder)?,
            Some(files) => Embedded::start_with_open_files(folder, files)?,
        };
        Ok(Target {
            api: server.api.clone(),
            authority: std::fs::read_to_string(pki(folder, "ca.crt"))?,
            server,
            manager: None,
        })
    }

    /// Our manager with all controllers, on an API server of ours.
    fn manager(folder: &Path) -> Result<Target> {
        let mut target = Target::api_server(folder, None)?;
        let port = free_port()?;
        let flags = [
            format!("--secure-port={port}"),
            format!("--tls-cert-file={}", pki(folder, "apiserver.crt").display()),
            format!(
                "--tls-private-key-file={}",
                pki(folder, "apiserver.key").display()
            ),
        ];
        let controllers: Vec<String> = ours().iter().map(|one| one.name.clone()).collect();
        let manager = target.server.start_our_manager(&controllers, &flags)?;
        target.api = Api::new(([127, 0, 0, 1], port).into(), &target.authority, None)?;
        target.manager = Some(manager);
        real_tests::wait::until("the manager", HELD, || {
            let answer = target
                .api
                .send("GET", "/healthz", "application/json", &[])?;
            Ok(if answer.status == 200 {
                real_tests::wait::Seen::Ready(())
            } else {
                real_tests::wait::Seen::NotYet(format!("/healthz answers {}", answer.status))
            })
        })?;
        Ok(target)
    }

    fn usage(&self) -> Result<Usage> {
        self.manager
            .as_ref()
            .unwrap_or(&self.server.process)
            .usage()
    }

    fn health(&self) -> Health {
        Health::start(self.api.endpoint().0, &self.authority)
    }
}

fn pki(folder: &Path, name: &str) -> PathBuf {
    folder.join("data/pki").join(name)
}

fn by_requests(attack: &requests::Attack, target: Target, report: &mut Report) -> Result<()> {
    let requests = (attack.requests)(&target.api)?;
    let before = target.usage()?;
    let health = target.health();
    let mut longest = 0.0_f64;
    for request in requests {
        for _ in 0..request.times {
            let started = Instant::now();
            let answer = target.api.send(
                request.method,
                &request.path,
                request.content_type,
                &request.body,
            )?;
            longest = longest.max(started.elapsed().as_secs_f64());
            ensure!(
                answer.status < 500,
                "{} {} was answered {}",
                request.method,
                request.path,
                answer.status
            );
        }
    }
    let p99 = health.p99()?;
    let after = target.usage()?;
    report.figure(
        &format!("{}.worst-request", attack.name),
        longest,
        "s",
        Some(Goal::AtMost(LONGEST_SECONDS)),
    );
    memory(report, attack.name, &before, &after);
    healthz(report, attack.name, p99);
    still_works(&target)
}

fn by_connections(attack: &connections::Attack, target: Target, report: &mut Report) -> Result<()> {
    let before = target.usage()?;
    let health = target.health();
    let started = Instant::now();
    let attacker = match attack.is_known {
        true => target.api.clone(),
        false => Api::new(target.api.endpoint().0, &target.authority, None)?,
    };
    let mut held = (attack.open)(&attacker, attack.count)?;
    let opened = held.len();
    while !held.is_empty() && started.elapsed() < HELD {
        std::thread::sleep(Duration::from_millis(200));
        held.retain_mut(connections::is_open);
    }
    let seconds = started.elapsed().as_secs_f64();
    let p99 = health.p99()?;
    let after = target.usage()?;
    let name = attack.name;
    report.figure(&format!("{name}.opened"), opened as f64, "", None);
    report.figure(
        &format!("{name}.held-at-the-end"),
        held.len() as f64,
        "",
        Some(Goal::AtMost(0.0)),
    );
    report.figure(&format!("{name}.last-closed"), seconds, "s", None);
    memory(report, name, &before, &after);
    healthz(report, name, p99);
    still_works(&target)
}

fn memory(report: &mut Report, name: &str, before: &Usage, after: &Usage) {
    let grown = |bytes: u64| bytes.saturating_sub(before.resident_bytes) as f64 / 1e6;
    report.figure(
        &format!("{name}.peak-growth"),
        grown(after.peak_resident_bytes),
        "MB",
        Some(Goal::AtMost(MOST_MEGABYTES)),
    );
    report.figure(
        &format!("{name}.kept"),
        grown(after.resident_bytes),
        "MB",
        None,
    );
}

fn healthz(report: &mut Report, name: &str, p99: f64) {
    report.figure(
        &format!("{name}.healthz-p99"),
        p99,
        "s",
        Some(Goal::AtMost(PROBE_SECONDS)),
    );
}

/// Whatever happened, the server takes writes afterwards.
fn still_works(target: &Target) -> Result<()> {
    let object = json!({"metadata": {"name": "afterwards"}});
    let path = "/api/v1/namespaces/default/configmaps";
    target.server.api.create(path, &object)?;
    if let Some(manager) = &target.manager {
        manager.usage().context("the manager is gone")?;
    }
    Ok(())
}
