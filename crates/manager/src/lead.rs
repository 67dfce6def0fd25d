//! From a process that is ready to the last released lease.
//!
//! Caches fill and the lease is contended for; the leader runs the controllers. On a stop the
//! controllers finish first, then the lease goes to another, then the last events go out.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use api::decision::Started;
use api::kinds::Namespace;
use api::{Gate, Resource, ResourceType, Rng, Uid};
use client::Client;
use client::https::ConnectError;
use controllers::garbage_collector::Memory;
use controllers::{Descriptor, Environment};
use runtime::events::Recorder;
use runtime::informer::{MetadataStreams, StreamOptions};
use runtime::leader::{Candidacy, Fence, LeaderElector, Leadership, LeaseConfig};
use runtime::stop::Stopper;
use runtime::{Informers, Stop, Task, spawn};
use tokio::sync::watch;
use tracing::{error, info, warn};

use crate::config::Generic;
use crate::error::{Error, Errors};
use crate::gates::Version;
use crate::identity::Identities;
use crate::leader_migration::Lock;
use crate::process::Process;
use crate::run::{Manager, select, until};
use crate::serving::{Endpoint, Health, register_graph};
use crate::version;

/// How long a leader may fail to renew before `/healthz` says so; upstream's number.
const LEASE_GRACE: Duration = Duration::from_secs(20);

/// How often an API server that does not answer yet is asked.
const API_SERVER_RETRY: Duration = Duration::from_secs(1);

/// Serves, and runs the selected controllers while it leads, until `stop`.
pub async fn run(mut process: Process, stop: Stop) -> Result<(), Errors> {
    let serving = process.take_server().map(|server| spawn(server.run()));
    let log = Arc::clone(&process.logging.writer);
    let flushing = spawn(async move { log.flush_forever().await });
    let client = Client::new(process.transport.clone());
    let ready = async {
        wait_for_api_server(&client).await?;
        check_rights(&client, &process.options.config.generic).await;
        Ok::<_, Error>(())
    };
    stop.or(ready).await.transpose()?;

    let generic = &process.options.config.generic;
    let selected = select(&generic.controllers, &process.options.gates);
    let (selected, migrated) = split(selected, generic);
    let lease = &generic.leader_election.resource_name;
    let coordinated = process.options.gates.enabled("CoordinatedLeaderElection");
    let election = elect(&process, lease, "leaderElection", coordinated)?;
    let leadership = election.leadership.clone();
    let leading = lead(&process, election, selected, "informer-sync", stop.clone());
    let migrating = async {
        let Some(migrated) = migrated else {
            return Ok(());
        };
        // UPSTREAM: the second lock only after the first, so that two managers cannot each hold one
        // and wait for the other.
        if stop.or(until(&leadership, true)).await.is_none() {
            return Ok(());
        }
        let lease = &generic.leader_migration.leader_name;
        // UPSTREAM: asks the API server for this lock as well, for which nobody is a candidate, and so never
        // gets it.
        let election = elect(&process, lease, "leaderElection-migration", false)?;
        lead(
            &process,
            election,
            migrated,
            "informer-sync-migration",
            stop.clone(),
        )
        .await;
        Ok::<(), Error>(())
    };
    let showing = show_running(&process.health, process.decisions.started());
    let ((), migrating) = tokio::select! {
        ended = async { tokio::join!(leading, migrating) } => ended,
        never = showing => match never {},
    };
    info!("Stopped");
    drop((serving, flushing));
    Ok(migrating?)
}

/// The controllers under the main lock and, during a migration, those under the second one. Those
/// that another manager owns are in neither.
fn split(selected: Selected, generic: &Generic) -> (Selected, Option<Selected>) {
    // UPSTREAM: without leader election there are no locks to split between.
    if !generic.leader_migration_enabled || !generic.leader_election.leader_elect {
        return (selected, None);
    }
    let (mut main, mut migrated) = (Vec::new(), Vec::new());
    for descriptor in selected {
        let controller = descriptor.name;
        match generic.leader_migration.lock_for(controller) {
            Lock::Main => main.push(descriptor),
            Lock::Migration => migrated.push(descriptor),
            Lock::None => info!(
                controller,
                "Controller is left to another manager by leader migration"
            ),
        }
    }
    (main, Some(migrated))
}

type Selected = Vec<&'static Descriptor>;

/// Runs these controllers while it leads, until `stop`; then gives the lease back.
async fn lead(process: &Process, election: Election, selected: Selected, health: &str, stop: Stop) {
    let leadership = election.leadership;
    let identities = process.identities(|transport| match &leadership {
        Some(leadership) => Fence::around(transport, leadership.clone()),
        None => transport,
    });
    let manager = manager(process, &identities, selected);
    if manager.has(controllers::garbage_collector::DESCRIPTOR.name) {
        register_graph(&process.router, manager.environment.collector.graph());
    }
    let caches = Arc::clone(&manager.environment.informers);
    process.health.add(health, &[Endpoint::Readyz], move || {
        match caches.unsynced() {
            kinds if kinds.is_empty() => Ok(()),
            kinds => Err(format!("caches not complete: {}", kinds.join(", "))),
        }
    });
    manager.run(leadership, stop).await;
    // All controllers have ended: now the lease may go to another.
    drop(election.lease);
    if let Some(contending) = election.contending {
        let _ = contending.await;
    }
}

/// Shows the controllers that run among the checks of `/healthz`, while they do.
///
/// UPSTREAM: these checks never fail; operators read from them what runs here.
async fn show_running(health: &Health, mut started: watch::Receiver<Started>) -> Infallible {
    let mut shown = Vec::new();
    loop {
        let names = started.borrow_and_update().running.clone();
        for name in std::mem::replace(&mut shown, names) {
            health.remove(&name);
        }
        for name in &shown {
            health.add(name, &[Endpoint::Healthz], || Ok(()));
        }
        if started.changed().await.is_err() {
            // The sender is dropped, and all that ran with it.
            std::future::pending::<Infallible>().await;
        }
    }
}

/// Waits for as long as it takes: a control plane may start in any order. Somebody else in the API server's place, or a
/// certificate that cannot be trusted, is told instead of waited for, unless it changes soon.
async fn wait_for_api_server(client: &Client) -> Result<(), Error> {
    let (mut asked, mut distrusted) = (0_u32, 0_u32);
    loop {
        let request = http::Request::get("/healthz").body(bytes::Bytes::new());
        let request = request.expect("a constant request is valid");
        let error = match client.request(request).await {
            Ok(_) => return Ok(()),
            // An answer is an answer, even a refusal.
            Err(error) if error.is_forbidden() || error.is_unauthorized() => return Ok(()),
            Err(error) => error,
        };
        let problem = client::describe(&error);
        distrusted = match ConnectError::behind(&error) {
            Some(why) if why.is_lasting() => distrusted + 1,
            _ => 0,
        };
        if distrusted == TRUST_PATIENCE {
            let flag = "kubeconfig";
            return Err(Error::Setting { flag, problem });
        }
        // Every ten seconds is often enough to read.
        if asked.is_multiple_of(10) {
            warn!(error = %problem, "Waiting for the API server");
        }
        asked += 1;
        tokio::time::sleep(API_SERVER_RETRY).await;
    }
}

/// How often in a row, one a second, an API server that cannot be trusted is asked: its certificate may be about to be
/// replaced.
const TRUST_PATIENCE: u32 = 5;

/// An identity that may not even read the lease will not lead. It waits until it may, loudly: roles are there some
/// seconds after the API server answers, and somebody may just be repairing them.
async fn check_rights(client: &Client, generic: &Generic) {
    let election = &generic.leader_election;
    let (namespace, name) = (&election.resource_namespace, &election.resource_name);
    let mut refusals: u32 = 0;
    loop {
        // Without leader election there is nothing that every controller needs; this, all of them do.
        let answer = match election.leader_elect {
            true => client.get(&LEASES, namespace, name).await,
            false => client.get(&Namespace::TYPE, "", "kube-system").await,
        };
        let Err(error) = answer else {
            return;
        };
        if !error.is_forbidden() && !error.is_unauthorized() {
            return;
        }
        refusals += 1;
        // The first ones are daily business after a start.
        if refusals.is_multiple_of(RIGHTS_PATIENCE) {
            let hint =
                "bind it to the role system:kube-controller-manager, or give another --kubeconfig";
            error!(%error, refusals, hint, "The API server refuses this identity");
        }
        tokio::time::sleep(API_SERVER_RETRY).await;
    }
}

/// So many refusals in a row, one a second, are told.
const RIGHTS_PATIENCE: u32 = 15;

const LEASES: ResourceType =
    ResourceType::namespaced("coordination.k8s.io", "v1", "leases", "Lease");

/// Being a candidate for a lease, or the certainty to lead without one.
struct Election {
    /// The lease is given back when this is dropped.
    lease: Stopper,
    /// None with --leader-elect=false.
    leadership: Option<watch::Receiver<Leadership>>,
    contending: Option<Task<()>>,
}

/// Starts to contend for the lease of this name, unless --leader-elect=false. With `coordinated` the API
/// server picks the leader, and this is a candidate.
fn elect(
    process: &Process,
    name: &str,
    health: &str,
    coordinated: bool,
) -> Result<Election, Error> {
    let (lease, stop) = Stop::new();
    let election = &process.options.config.generic.leader_election;
    if !election.leader_elect {
        return Ok(Election {
            lease,
            leadership: None,
            contending: None,
        });
    }
    let (clock, rng) = (&process.clock, &process.rng);
    // A lane of its own: no other client can hold it up, and no fence stops it.
    let client = Client::new(process.transport.clone())
        .with_user_agent(&version::user_agent("leader-election"));
    let (recorder, writer) = Recorder::new(
        "kube-controller-manager",
        "",
        client.clone(),
        clock.clone(),
        rng.fork(),
    );
    let gates = process.options.gates.for_controllers();
    let config = LeaseConfig {
        namespace: election.resource_namespace.clone(),
        name: name.to_owned(),
        identity: format!("{}_{}", hostname(), Uid::from_random(rng.next_u128())),
        lease_duration: election.lease_duration.to_std(),
        renew_deadline: election.renew_deadline.to_std(),
        retry_period: election.retry_period.to_std(),
        release_on_exit: gates.enabled(Gate::ControllerManagerReleaseLeaderElectionLockOnExit),
        coordinated,
        watch: true,
    };
    let candidacy = coordinated.then(|| {
        let versions = process.options.gates.versions();
        Candidacy {
            client: client.clone(),
            clock: clock.clone(),
            namespace: config.namespace.clone(),
            identity: config.identity.clone(),
            lease: config.name.clone(),
            binary_version: format!("{}.0", Version::BINARY),
            emulation_version: format!("{}.0", versions.emulated),
        }
    });
    let elector = LeaderElector::new(client, config, clock.clone(), rng.fork(), Some(recorder))
        .map_err(|error| Error::Setting {
            flag: "leader-elect-lease-duration",
            problem: error.to_string(),
        })?
        .with_metrics(process.metrics.leader(name));
    let held = elector.health();
    process
        .health
        .add(health, &[Endpoint::Healthz, Endpoint::Livez], move || {
            held.check(LEASE_GRACE)
        });
    let leadership = elector.leadership();
    let contending = spawn(async move {
        let (writer_stopper, writer_stop) = Stop::new();
        let writing = spawn(writer.run(writer_stop));
        let _candidate = candidacy.map(|candidacy| spawn(candidacy.run(stop.clone())));
        elector.run(stop).await;
        drop(writer_stopper);
        let _ = writing.await;
    });
    Ok(Election {
        lease,
        leadership: Some(leadership),
        contending: Some(contending),
    })
}

/// UPSTREAM: one draw between once and twice the period, so that managers do not resync together.
fn stream_options(generic: &Generic, rng: &Rng) -> StreamOptions {
    let resync = generic.min_resync_period.to_std();
    StreamOptions {
        resync: Some(resync.mul_f64(1.0 + rng.unit())),
        rng: rng.fork(),
    }
}

fn manager(process: &Process, identities: &Identities, selected: Selected) -> Manager {
    let options = &process.options;
    let generic = &options.config.generic;
    let stream = stream_options(generic, &process.rng);
    let informers = Arc::new(Informers::new(
        identities.own("shared-informers"),
        stream.clone(),
    ));
    let identities = identities.clone();
    let metadata = identities.own("metadata-informers");
    let streams = MetadataStreams::new(metadata.clone(), stream);
    Manager {
        start_interval: generic.controller_start_interval.to_std(),
        environment: Environment {
            informers,
            collector: Memory::new(streams.clone()),
            streams,
            metadata,
            root_ca: process.root_ca.clone(),
            service_account_key: process.service_account_key.clone(),
            // Flags name its files.
            cluster_ca: None,
            config: options.config.controllers.clone(),
            gates: options.gates.for_controllers(),
            clock: process.clock.clone(),
            rng: process.rng.fork(),
            metrics: process.metrics.clone(),
            decisions: process.decisions.clone(),
        },
        selected,
        clients: Arc::new(move |descriptor| {
            let identities = identities.clone();
            Box::pin(async move {
                match descriptor.first {
                    // Others' credentials may depend on it, so it cannot wait for its own.
                    true => Ok(identities.own(descriptor.service_account)),
                    false => {
                        let account = descriptor.service_account;
                        identities.controller(account, descriptor.rate).await
                    }
                }
            })
        }),
        patience: options.controller_shutdown_timeout,
    }
}

fn hostname() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map(|name| name.trim().to_lowercase())
        .ok()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| String::from("localhost"))
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::leader_migration::{ControllerLeader, LeaderMigrationConfiguration};
    use crate::options::{Command, Options};
    use controllers::ALL;

    fn check(flags: &[&str], leaders: &[(&str, &str)], expected: (usize, Option<usize>)) {
        let Ok(Command::Run(mut options)) = Options::parse(flags.iter().copied(), "x") else {
            panic!("{flags:?}")
        };
        let leader = |(name, component): &(&str, &str)| ControllerLeader {
            name: (*name).into(),
            component: (*component).into(),
        };
        let generic = &mut options.config.generic;
        generic.leader_migration = LeaderMigrationConfiguration {
            controller_leaders: Some(leaders.iter().map(leader).collect()),
            ..LeaderMigrationConfiguration::built_in()
        };
        let (main, migrated) = split(ALL.iter().collect(), generic);
        assert_eq!(
            (main.len(), migrated.map(|list| list.len())),
            expected,
            "{flags:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_identity_that_is_refused_waits_until_its_roles_are_repaired() {
        let asked = Arc::new(parking_lot::Mutex::new(0));
        let count = asked.clone();
        let answer = tower::service_fn(move |_: http::Request<bytes::Bytes>| {
            let mut count = count.lock();
            *count += 1;
            let code = if *count <= 100 { 403 } else { 200 };
            let body = http_body_util::Full::new(bytes::Bytes::from_static(b"{}"));
            let body = http_body_util::BodyExt::map_err(body, |never| match never {});
            let mut response = http::Response::new(http_body_util::BodyExt::boxed_unsync(body));
            *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
            std::future::ready(Ok::<_, client::BoxError>(response))
        });
        let client = Client::new(client::Transport::new(answer));
        let Ok(Command::Run(options)) = Options::parse([] as [&str; 0], "x") else {
            panic!("no flags are good flags")
        };
        check_rights(&client, &options.config.generic).await;
        assert_eq!(*asked.lock(), 101);
    }

    /// A client for whom connecting fails as often as the list says, and then works.
    fn refused(failures: Vec<ConnectError>) -> Client {
        let left = Arc::new(parking_lot::Mutex::new(failures.into_iter()));
        let answer = move |_| {
            let failure = left.lock().next();
            std::future::ready(match failure {
                Some(failure) => Err(client::BoxError::from(failure)),
                None => Ok(http::Response::new(client::Body::default())),
            })
        };
        Client::new(client::Transport::new(tower::service_fn(answer)))
    }

    #[tokio::test(start_paused = true)]
    async fn an_unavailable_api_server_is_waited_for_and_an_untrusted_one_reported() {
        let server = || "https://api:6443".to_owned();
        let away = || ConnectError::TimedOut {
            server: server(),
            seconds: 10,
        };
        let expired = || ConnectError::Expired { server: server() };
        let wait = async |failures: Vec<ConnectError>| {
            let waited = wait_for_api_server(&refused(failures)).await;
            waited.map_err(|error| error.to_string())
        };
        let hours = (0..10_000).map(|_| away()).collect();
        assert_eq!(wait(hours).await, Ok(()));
        let renewed = (0..4).map(|_| expired());
        let twice = renewed.clone().chain([away()]).chain(renewed).collect();
        assert_eq!(wait(twice).await, Ok(()), "it is renewed in time");
        let told = "--kubeconfig: the certificate of https://api:6443 has expired; renew it, or check this machine's clock";
        let for_ever = (0..100).map(|_| expired()).collect();
        assert_eq!(wait(for_ever).await, Err(told.to_owned()));
    }

    #[test]
    fn caches_tell_of_everything_again_once_or_twice_in_the_least_period() {
        let Ok(Command::Run(options)) = Options::parse(["--min-resync-period=1s"], "x") else {
            panic!()
        };
        let second = Duration::from_secs(1);
        let drawn = (0..20).map(|seed| {
            let drawn = stream_options(&options.config.generic, &Rng::from_seed(seed));
            drawn.resync.unwrap()
        });
        let drawn: std::collections::BTreeSet<Duration> = drawn.collect();
        assert!(drawn.len() > 1 && drawn.iter().all(|one| (second..second * 2).contains(one)));
    }

    #[tokio::test(start_paused = true)]
    async fn health_names_what_runs_while_it_does() {
        let health = Arc::new(Health::default());
        let (tells, started) = watch::channel(Started::default());
        let shown = Arc::clone(&health);
        let _shows = spawn(async move { show_running(&shown, started).await });
        for (running, expected) in [
            (vec![], "healthz check passed\n"),
            (
                vec!["serviceaccount-token-controller", "job-controller"],
                "[+]serviceaccount-token-controller ok\n[+]job-controller ok\nhealthz check passed\n",
            ),
            (vec![], "healthz check passed\n"),
        ] {
            tells.send_modify(|started| {
                started.running = running.into_iter().map(Cow::from).collect();
            });
            tokio::time::sleep(Duration::from_secs(1)).await;
            let request = crate::serving::Request::get("/healthz?verbose");
            let answer = health.answer(Endpoint::Healthz, &request);
            assert_eq!(answer.body(), expected);
        }
    }

    #[test]
    fn migration_splits_controllers_between_two_locks_and_another_manager() {
        let leaders = [
            ("job-controller", "*"),
            ("ttl-controller", "kube-controller-manager"),
            ("cronjob-controller", "cloud-controller-manager"),
        ];
        let all = controllers::ALL.len();
        check(&["--enable-leader-migration"], &leaders, (all - 3, Some(2)));
        check(&[], &leaders, (all, None));
        check(
            &["--enable-leader-migration", "--leader-elect=false"],
            &leaders,
            (all, None),
        );
    }
}
