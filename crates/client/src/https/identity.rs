//! Who we are at the moment: the token and the certificates, read again when they change.

use parking_lot::{Mutex, MutexGuard};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use rustls::ClientConfig;
use tokio::time::Instant;

use super::files::Watched;
use super::tls;
use crate::config::exec::ExecCredential;
use crate::config::{Auth, Config, ConfigError, ExecConfig, Material, TlsSettings};
use crate::metrics::{AuthorityReload, Expiry, TransportMetrics};

/// How stale a rotated file may be. Rotation leaves minutes or hours of overlap; a stat every so often costs nothing.
const FILE_CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// A plugin's credential is renewed so long before it expires, so that no request carries one that dies on the way.
const EXPIRY_MARGIN: Duration = Duration::from_secs(10);

/// A server that refuses everything must not make us run the plugin for every request.
const PLUGIN_RERUN_INTERVAL: Duration = Duration::from_secs(10);

/// What to connect and to authenticate with.
#[derive(Clone)]
pub(super) struct Credential {
    pub(super) authorization: Option<HeaderValue>,
    pub(super) tls: Arc<ClientConfig>,
    pub(super) server_name: Option<Arc<str>>,
    /// Grows with each change of certificates: connections of an older one take no new requests.
    pub(super) generation: u64,
}

pub(super) struct Identity {
    auth: Auth,
    tls_settings: TlsSettings,
    clock: api::Clock,
    metrics: TransportMetrics,
    /// When the plugin's certificate expires.
    expiry: Expiry,
    state: Mutex<State>,
    /// Held while a plugin runs, so that one run serves everyone who waits.
    plugin_turn: tokio::sync::Mutex<()>,
}

struct State {
    credential: Credential,
    files: Watched,
    checked_at: Instant,
    plugin: Option<Plugin>,
    plugin_runs: u64,
    /// Why the last run brought nothing, if so.
    plugin_failure: Option<String>,
}

/// The last run of the plugin that brought something.
struct Plugin {
    credential: ExecCredential,
    ran_at: Instant,
}

impl Identity {
    pub(super) fn new(
        config: Config,
        clock: api::Clock,
        metrics: TransportMetrics,
    ) -> Result<Identity, ConfigError> {
        let Config {
            server,
            tls: tls_settings,
            auth,
            ..
        } = config;
        // Without TLS nothing is verified, and files that nobody needs need not be there.
        let tls_settings = if server.is_https() {
            tls_settings
        } else {
            TlsSettings {
                insecure: true,
                ..TlsSettings::default()
            }
        };
        // The stamps are taken before the files are read: a change in between is then seen later, not missed.
        let files = Watched::new(watched_paths(&tls_settings, &auth));
        let credential = Credential {
            authorization: authorization(&auth)?,
            tls: Arc::new(tls::configure(&tls_settings, None)?),
            server_name: tls_settings.server_name.as_deref().map(Arc::from),
            generation: 0,
        };
        let state = State {
            credential,
            files,
            checked_at: Instant::now(),
            plugin: None,
            plugin_runs: 0,
            plugin_failure: None,
        };
        let plugin_turn = tokio::sync::Mutex::new(());
        Ok(Identity {
            auth,
            tls_settings,
            expiry: metrics.expiry(&clock),
            clock,
            metrics,
            state: Mutex::new(state),
            plugin_turn,
        })
    }

    /// The credential to use now. Runs the plugin if it has not run yet or its credential is about to expire.
    pub(super) async fn current(&self) -> Result<Credential, ConfigError> {
        if self.lock().checked_at.elapsed() >= FILE_CHECK_INTERVAL {
            self.reload_if_changed();
        }
        if let Auth::Exec(exec) = &self.auth {
            // Boxed, as is all that is rare: every request would else carry room for it.
            Box::pin(self.run_plugin_if_needed(exec, None)).await?;
        }
        Ok(self.lock().credential.clone())
    }

    /// What to connect with now. A connection is rare, and whoever rotated a certificate expects the next one to show
    /// it, so the files are looked at however recently they were.
    pub(super) fn for_new_connection(&self) -> Credential {
        self.reload_if_changed();
        self.lock().credential.clone()
    }

    /// The server refused this credential: is there another by now?
    pub(super) async fn renew(&self, refused: &Credential) -> Option<Credential> {
        self.reload_if_changed();
        if let Auth::Exec(exec) = &self.auth
            && let Err(error) = Box::pin(self.run_plugin_if_needed(exec, Some(refused))).await
        {
            tracing::warn!(%error, "cannot renew the credential that the API server refused");
            return None;
        }
        let now = self.lock().credential.clone();
        now.differs_from(refused).then_some(now)
    }

    /// One run serves everyone who waited for it, also when it fails.
    async fn run_plugin_if_needed(
        &self,
        exec: &ExecConfig,
        refused: Option<&Credential>,
    ) -> Result<(), ConfigError> {
        let runs_before = self.lock().plugin_runs;
        let _turn = self.plugin_turn.lock().await;
        if self.plugin_is_good(refused) {
            return Ok(());
        }
        if let Some(problem) = self.plugin_failure_since(runs_before) {
            return Err(exec.failed(problem));
        }
        let finished = exec
            .run(&self.metrics)
            .await
            .and_then(|credential| self.adopt(credential));
        let mut state = self.lock();
        state.plugin_runs += 1;
        state.plugin_failure = finished.as_ref().err().map(|error| match error {
            ConfigError::Exec { problem, .. } => problem.clone(),
            other => other.to_string(),
        });
        finished
    }

    fn plugin_failure_since(&self, runs_before: u64) -> Option<String> {
        let state = self.lock();
        state
            .plugin_failure
            .clone()
            .filter(|_| state.plugin_runs > runs_before)
    }

    fn plugin_is_good(&self, refused: Option<&Credential>) -> bool {
        let state = self.lock();
        let Some(plugin) = &state.plugin else {
            return false;
        };
        match refused {
            None => {
                let soon = self.clock.now().plus(EXPIRY_MARGIN);
                plugin
                    .credential
                    .expires_at
                    .is_none_or(|expires_at| expires_at > soon)
            }
            Some(refused) => {
                state.credential.differs_from(refused)
                    || plugin.ran_at.elapsed() < PLUGIN_RERUN_INTERVAL
            }
        }
    }

    fn adopt(&self, credential: ExecCredential) -> Result<(), ConfigError> {
        let mut state = self.lock();
        let old_certificate = state
            .plugin
            .as_ref()
            .and_then(|plugin| plugin.credential.certificate.as_ref());
        if credential.certificate.as_ref() != old_certificate {
            let tls = tls::configure(&self.tls_settings, credential.certificate.as_ref())?;
            self.measure_rotation(old_certificate, credential.certificate.as_ref());
            state.credential.tls = Arc::new(tls);
            state.credential.generation += 1;
        }
        state.credential.authorization = match &credential.token {
            Some(token) => Some(bearer(token)?),
            None => None,
        };
        state.plugin = Some(Plugin {
            credential,
            ran_at: Instant::now(),
        });
        Ok(())
    }

    fn measure_rotation(&self, old: Option<&tls::KeyPair>, new: Option<&tls::KeyPair>) {
        if let Some(old) = old.and_then(tls::validity) {
            let age = self.clock.now().since(old.start);
            self.metrics.certificate_rotated(age);
        }
        self.expiry
            .set(new.and_then(tls::validity).map(|new| new.end));
    }

    /// A file that is half written or gone for a moment is no reason to stop: the old credential stays.
    fn reload_if_changed(&self) {
        let mut state = self.lock();
        state.checked_at = Instant::now();
        if !state.files.changed() {
            return;
        }
        let read = self.read_again(&mut state);
        if let Some(Material::File(_)) = &self.tls_settings.authorities {
            self.metrics.authorities_reloaded(match &read {
                Ok(()) => AuthorityReload::Updated,
                Err(ConfigError::MissingFile { .. }) => AuthorityReload::Unreadable,
                Err(_) => AuthorityReload::Unusable,
            });
        }
        match read {
            Ok(()) => tracing::info!("credentials changed on disk and were read again"),
            Err(error) => {
                tracing::warn!(%error, "credentials changed on disk but cannot be used; keeping the old ones");
            }
        }
    }

    fn read_again(&self, state: &mut State) -> Result<(), ConfigError> {
        if self.tls_settings.has_files() {
            let plugin = state.plugin.as_ref();
            let certificate = plugin.and_then(|plugin| plugin.credential.certificate.as_ref());
            state.credential.tls = Arc::new(tls::configure(&self.tls_settings, certificate)?);
            state.credential.generation += 1;
        }
        if let Auth::TokenFile(_) = &self.auth {
            state.credential.authorization = authorization(&self.auth)?;
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl Credential {
    fn differs_from(&self, other: &Credential) -> bool {
        self.authorization != other.authorization || self.generation != other.generation
    }
}

impl TlsSettings {
    fn files(&self) -> impl Iterator<Item = &Path> {
        let client = self
            .client
            .iter()
            .flat_map(|client| [&client.certificate, &client.key]);
        self.authorities
            .iter()
            .chain(client)
            .filter_map(|material| material.path())
    }

    fn has_files(&self) -> bool {
        self.files().next().is_some()
    }
}

fn watched_paths<'a>(tls: &'a TlsSettings, auth: &'a Auth) -> impl Iterator<Item = &'a Path> {
    let token = match auth {
        Auth::TokenFile(path) => Some(path.as_path()),
        _ => None,
    };
    tls.files().chain(token)
}

fn authorization(auth: &Auth) -> Result<Option<HeaderValue>, ConfigError> {
    match auth {
        // A plugin's token comes when it is first needed.
        Auth::None | Auth::Exec(_) => Ok(None),
        Auth::Token(token) => bearer(token).map(Some),
        Auth::TokenFile(path) => {
            let token =
                std::fs::read_to_string(path).map_err(|source| ConfigError::MissingFile {
                    what: "the token file",
                    path: path.clone(),
                    source,
                })?;
            let token = token.trim();
            if token.is_empty() {
                let what = format!("the token file {}", path.display());
                return Err(ConfigError::BadMaterial {
                    what,
                    problem: "it is empty".to_owned(),
                });
            }
            bearer(token).map(Some)
        }
        Auth::Basic { username, password } => {
            let pair = STANDARD.encode(format!("{username}:{password}"));
            header(&format!("Basic {pair}")).map(Some)
        }
    }
}

fn bearer(token: &str) -> Result<HeaderValue, ConfigError> {
    header(&format!("Bearer {}", token.trim()))
}

fn header(text: &str) -> Result<HeaderValue, ConfigError> {
    let mut value = HeaderValue::from_str(text).map_err(|_| ConfigError::BadMaterial {
        what: "the token".to_owned(),
        problem: "it contains characters that no header can carry".to_owned(),
    })?;
    value.set_sensitive(true);
    Ok(value)
}
