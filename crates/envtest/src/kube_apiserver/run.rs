//! The server that the options ask for.

use std::path::Path;

use api::{Clock, Rng};
use apiserver::serve::{Spawner, default_limits, serve};
use apiserver::{ApiServer, Authorities, Storage, Tls};
use connections::certificate::Roots;
use manager::serving::{listener, tls};
use manager::{Error, Errors, files};
use runtime::{Decisions, Stop, Task, spawn};
use tracing::{info, warn};

use super::Options;
use crate::controllers::{self, ServerKeys};
use crate::outbound::Caller;

/// How long controllers and requests in progress may take when the process stops.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

/// Serves until it is told to stop.
pub async fn run(options: Options, clock: Clock, rng: Rng, stop: Stop) -> Result<(), Errors> {
    for warning in &options.warnings {
        warn!("{warning}");
    }
    let clients = options.client_ca.iter().map(|(roots, _)| roots);
    let proxies = options.proxies.iter().map(|(proxies, _)| &proxies.roots);
    let announced: Vec<&Roots> = clients.chain(proxies).collect();
    let (config, certificates) = tls::configure(&options.serving, &clock, &announced)?;
    let listener = listener::bind(&options.serving, options.address)?;
    let keys = ServerKeys {
        root_ca: root_ca(&options),
        service_account_key: options.signing_key.clone(),
        // The key of --client-ca-file is not ours to have: nothing here signs client certificates.
        client_ca: None,
    };
    let mut server = apiserver::Options::in_memory(clock.clone(), rng.fork());
    if let Some(folder) = &options.data_dir {
        server.storage = Storage::Dir(folder.clone());
    }
    server.service_account_key = options.signing_key;
    if let Some(issuer) = options.issuer {
        server.issuer = issuer;
    }
    server.static_tokens = options.static_tokens;
    server.advertise = Some((options.advertise, options.address.port()));
    server.networks = options.networks;
    server.settings = options.settings;
    server.outbound = Some(Caller::new(clock.clone()));
    let server = ApiServer::open(server).map_err(|error| Error::Setting {
        flag: "data-dir",
        problem: error.to_string(),
    })?;
    let mut tasks: Vec<Task<()>> = Vec::new();
    if let Some(manager) = &options.manager {
        let beside = controllers::manager(manager, &server, keys, &clock, &rng, Decisions::new());
        info!(
            controllers = beside.selected.len(),
            "Running controllers in this process"
        );
        tasks.push(spawn(beside.run(None, stop.clone())));
    }
    let authorities = Authorities {
        clients: options.client_ca,
        proxies: options.proxies,
    };
    let mut tls = Tls::new(config, authorities);
    tls.front_proxy = options.front_proxy;
    let following = spawn(async move { certificates.follow(&clock).await });
    let spawner = Spawner::new(|connection| spawn(connection).detach());
    serve(
        server,
        listener,
        tls,
        spawner,
        default_limits(),
        stop.stopped(),
    )
    .await;
    drop(following);
    let ended = async {
        for task in tasks {
            let _ = task.await;
        }
    };
    if tokio::time::timeout(PATIENCE, ended).await.is_err() {
        warn!("Controllers did not finish in time and were dropped");
    }
    Ok(())
}

/// What clients of the server may trust, for the ConfigMap that every namespace gets: the serving certificate itself, for
/// nobody says who signed it.
fn root_ca(options: &Options) -> Option<String> {
    let serving = &options.serving;
    let in_folder = || Some(serving.cert_dir.as_deref()?.join("apiserver.crt"));
    let file = match &serving.certificate {
        Some((certificate, _)) => certificate.clone(),
        None => in_folder()?,
    };
    files::read_text("tls-cert-file", Path::new(&file)).ok()
}
