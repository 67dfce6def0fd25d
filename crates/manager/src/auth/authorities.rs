//! The CAs and proxy settings in force: from files that are read again when they change, or from the ConfigMap
//! in which the API server publishes them.

use parking_lot::RwLock;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::ResourceType;
use futures_util::StreamExt;
use serde::Deserialize;
use tracing::{info, warn};

use crate::error::Error;
use crate::files;
use crate::options::AuthenticationOptions;
use connections::certificate::{self, Roots};
use connections::request_header::{HeaderNames, RequestHeader};

/// The settings in force, kept up to date by [`Authorities::follow`].
pub struct Authorities {
    source: AuthoritySource,
    current: RwLock<Arc<Settings>>,
}

/// Where the settings come from.
pub struct AuthoritySource {
    client_ca_file: Option<PathBuf>,
    request_header_ca_file: Option<PathBuf>,
    names: HeaderNames,
    /// For what no file gives.
    lookup: Option<client::Client>,
}

#[derive(Clone, Default)]
pub(super) struct Settings {
    pub client_ca: Option<Roots>,
    pub request_header: Option<RequestHeader>,
}

const CONFIG_MAPS: ResourceType = ResourceType::namespaced("", "v1", "configmaps", "ConfigMap");
const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";

/// Files are looked at this often; UPSTREAM looks every minute, and at once when told by the file system.
const FILE_PERIOD: Duration = Duration::from_secs(10);

/// Time between attempts to watch, should the API server be away.
const RETRY_PERIOD: Duration = Duration::from_secs(2);

impl AuthoritySource {
    /// `lookup` is the client for --authentication-kubeconfig, if there is one.
    pub fn new(options: &AuthenticationOptions, lookup: Option<client::Client>) -> AuthoritySource {
        let complete = options.client_ca_file.is_some() && options.request_header_ca_file.is_some();
        AuthoritySource {
            client_ca_file: options.client_ca_file.clone(),
            request_header_ca_file: options.request_header_ca_file.clone(),
            names: HeaderNames {
                allowed: options.request_header_allowed_names.clone(),
                username: options.request_header_username_headers.clone(),
                uid: options.request_header_uid_headers.clone(),
                group: options.request_header_group_headers.clone(),
                extra_prefixes: options.request_header_extra_prefixes.clone(),
            },
            lookup: lookup.filter(|_| !complete && !options.skip_lookup),
        }
    }
}

impl Authorities {
    /// Reads the settings once. Fails if files are wrong, or if the cluster cannot be asked and that is not
    /// tolerated.
    pub async fn load(
        source: AuthoritySource,
        tolerate_lookup_failure: bool,
    ) -> Result<Authorities, Error> {
        if source.lookup.is_none() && source.client_ca_file.is_none() {
            warn!(
                "No --client-ca-file and no --authentication-kubeconfig: client certificates are not accepted"
            );
        }
        let mut settings = source.read_files()?;
        if let Some(client) = &source.lookup {
            match client.get(&CONFIG_MAPS, NAMESPACE, NAME).await {
                Ok(body) => source.apply(&body, &mut settings),
                // An API server that is not up yet is no mistake: the watch finds it when it is, and until then
                // fewer callers are known, never more.
                Err(error) if tolerate_lookup_failure || error.is_transport() => warn!(
                    error = client::describe(&error),
                    "Cannot look up the authentication configuration; all callers may be anonymous until it can be read"
                ),
                Err(error) => {
                    return Err(Error::Lookup {
                        flag: "authentication-kubeconfig",
                        problem: format!(
                            "cannot read ConfigMap {NAMESPACE}/{NAME}; grant it, or set --authentication-tolerate-lookup-failure"
                        ),
                        source: Box::new(error),
                    });
                }
            }
        }
        Ok(Authorities {
            source,
            current: RwLock::new(Arc::new(settings)),
        })
    }

    pub(super) fn current(&self) -> Arc<Settings> {
        Arc::clone(&self.current.read())
    }

    /// Keeps the settings up to date; never ends.
    pub async fn follow(&self) {
        tokio::join!(self.follow_files(), self.follow_cluster());
    }

    async fn follow_files(&self) {
        if self.source.client_ca_file.is_none() && self.source.request_header_ca_file.is_none() {
            return;
        }
        let mut seen = self.source.fingerprint();
        loop {
            tokio::time::sleep(FILE_PERIOD).await;
            let found = self.source.fingerprint();
            if found == seen {
                continue;
            }
            match self.source.read_files() {
                Ok(read) => {
                    info!("Client CA files changed and were read again");
                    seen = found;
                    self.update(|settings| {
                        settings.client_ca = read.client_ca.or(settings.client_ca.take());
                        settings.request_header =
                            read.request_header.or(settings.request_header.take());
                    });
                }
                // Half-written files are common; the next look finds them whole.
                Err(error) => warn!(
                    error = client::describe(&error),
                    "Changed client CA files are not usable"
                ),
            }
        }
    }

    async fn follow_cluster(&self) {
        let Some(client) = &self.source.lookup else {
            return;
        };
        loop {
            if let Err(error) = self.watch_once(client).await {
                warn!(
                    error = client::describe(&error),
                    "Cannot watch the authentication configuration"
                );
            }
            tokio::time::sleep(RETRY_PERIOD).await;
        }
    }

    async fn watch_once(&self, client: &client::Client) -> Result<(), client::Error> {
        // A watch without a version begins with what is there, so no list is needed.
        let options = client::WatchOptions {
            field_selector: Some(format!("metadata.name={NAME}")),
            ..client::WatchOptions::default()
        };
        let mut events = client.watch(&CONFIG_MAPS, NAMESPACE, &options).await?;
        while let Some(event) = events.next().await {
            match event? {
                client::WatchEvent::Added(body) | client::WatchEvent::Modified(body) => {
                    self.update(|settings| self.source.apply(&body, settings));
                }
                client::WatchEvent::Error(error) => return Err(error),
                // UPSTREAM: what was trusted stays trusted when the ConfigMap is deleted.
                client::WatchEvent::Deleted(_) | client::WatchEvent::Bookmark { .. } => {}
            }
        }
        Ok(())
    }

    fn update(&self, change: impl FnOnce(&mut Settings)) {
        let mut settings = Settings::clone(&self.current());
        change(&mut settings);
        *self.current.write() = Arc::new(settings);
    }
}

impl AuthoritySource {
    fn read_files(&self) -> Result<Settings, Error> {
        let read = |flag: &'static str, path: &Option<PathBuf>| match path {
            None => Ok(None),
            Some(path) => {
                let certificates = files::read_certificates(flag, path)?;
                let roots = certificate::roots(certificates);
                roots.map(Some).map_err(|problem| Error::BadFile {
                    flag,
                    path: path.clone(),
                    problem,
                })
            }
        };
        let request_header = read("requestheader-client-ca-file", &self.request_header_ca_file)?;
        Ok(Settings {
            client_ca: read("client-ca-file", &self.client_ca_file)?,
            request_header: request_header.map(|roots| RequestHeader {
                roots,
                names: self.names.clone(),
            }),
        })
    }

    /// Changes with the files' contents, as far as sizes and times tell.
    fn fingerprint(&self) -> Vec<Option<(u64, std::time::SystemTime)>> {
        let paths = [&self.client_ca_file, &self.request_header_ca_file]
            .into_iter()
            .flatten();
        paths
            .map(|path| {
                std::fs::metadata(path)
                    .ok()
                    .and_then(|data| Some((data.len(), data.modified().ok()?)))
            })
            .collect()
    }

    /// Takes from the ConfigMap what no file gives. What cannot be parsed leaves the settings as they are.
    fn apply(&self, body: &[u8], settings: &mut Settings) {
        let Ok(map) = serde_json::from_slice::<ConfigMap>(body) else {
            warn!("The authentication configuration is not a ConfigMap");
            return;
        };
        let roots =
            |pem: &str| files::parse_certificates(pem.as_bytes()).and_then(certificate::roots);
        if let (None, Some(pem)) = (&self.client_ca_file, &map.data.client_ca_file) {
            match roots(pem) {
                Ok(roots) => settings.client_ca = Some(roots),
                Err(problem) => warn!(
                    problem,
                    "client-ca-file in the authentication configuration is not usable"
                ),
            }
        }
        if let (None, Some(pem)) = (
            &self.request_header_ca_file,
            &map.data.requestheader_client_ca_file,
        ) {
            match roots(pem) {
                Ok(roots) => {
                    settings.request_header = Some(RequestHeader {
                        roots,
                        names: map.data.names(),
                    });
                }
                Err(problem) => {
                    warn!(
                        problem,
                        "requestheader-client-ca-file in the authentication configuration is not usable"
                    );
                }
            }
        }
    }
}

#[derive(Deserialize)]
struct ConfigMap {
    #[serde(default)]
    data: Data,
}

/// The keys of the ConfigMap; lists are JSON in text.
#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Data {
    client_ca_file: Option<String>,
    requestheader_client_ca_file: Option<String>,
    requestheader_allowed_names: String,
    requestheader_username_headers: String,
    requestheader_uid_headers: String,
    requestheader_group_headers: String,
    requestheader_extra_headers_prefix: String,
}

impl Data {
    fn names(&self) -> HeaderNames {
        let list = |text: &str| serde_json::from_str(text).unwrap_or_default();
        HeaderNames {
            allowed: list(&self.requestheader_allowed_names),
            username: list(&self.requestheader_username_headers),
            uid: list(&self.requestheader_uid_headers),
            group: list(&self.requestheader_group_headers),
            extra_prefixes: list(&self.requestheader_extra_headers_prefix),
        }
    }
}
