//! Controllers beside an API server, in the same process: called directly, without identities of their own.

use std::sync::Arc;

use api::{Clock, Rng};
use apiserver::{ApiServer, Handler};
use controllers::csr_signing::CaSource;
use manager::run::Manager;
use manager::serving::{DECISIONS, Request, Router, register_decisions};
use manager::{Command, Options};
use runtime::Decisions;

/// What controllers need to know of the server that they run beside; each may be missing.
#[derive(Clone, Debug, Default)]
pub struct ServerKeys {
    /// PEM: who signed the server's certificate, for pods that call it.
    pub root_ca: Option<String>,
    /// PEM of the private key that signs service account tokens.
    pub service_account_key: Option<String>,
    /// PEM of the certificate and the key of whom the server believes about its clients.
    pub client_ca: Option<(String, String)>,
}

/// The controller manager's options with these controllers, and its defaults otherwise. `program` is named in help texts.
pub fn options(
    controllers: &[String],
    more: &[String],
    program: &str,
) -> Result<Box<Options>, manager::Errors> {
    let mut flags = vec![format!("--controllers={}", controllers.join(","))];
    flags.extend_from_slice(more);
    match Options::parse(flags, program)? {
        Command::Run(options) => Ok(options),
        Command::Print(_) => Err(manager::Error::Setting {
            flag: "controllers",
            problem: "takes names of controllers".to_owned(),
        }
        .into()),
    }
}

/// The chosen controllers. What they decide can be asked for on the API server's own port, so that one kubeconfig is
/// enough for `steersman why`.
pub fn manager(
    options: &Options,
    server: &ApiServer,
    keys: ServerKeys,
    clock: &Clock,
    rng: &Rng,
    decisions: Decisions,
) -> Manager {
    let router = Arc::new(Router::default());
    register_decisions(&router, decisions.clone());
    let answer: Handler = Arc::new(move |request| {
        let router = router.clone();
        let target = request.uri().path_and_query().map(ToString::to_string);
        Box::pin(async move {
            let request = Request::get(&target.unwrap_or_default());
            router.answer(request).await
        })
    });
    server.mount(DECISIONS, answer);
    let transport = server.transport();
    let mut manager = Manager::in_process(transport, options, clock.clone(), rng.fork(), decisions);
    manager.environment.root_ca = keys.root_ca;
    manager.environment.service_account_key = keys.service_account_key.map(String::into_bytes);
    // The server trusts clients of the same authority: what is signed here is good there.
    manager.environment.cluster_ca = keys.client_ca.map(|(certificate, key)| CaSource::Fixed {
        certificate: certificate.as_str().into(),
        key: key.as_str().into(),
    });
    manager
}
