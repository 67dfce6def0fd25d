//! The kubeconfig format: reading, merging, and resolving a context into a [`Config`].

mod wire;

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::uri::Scheme;

use self::wire::{Cluster, Context, Document, Exec, Named, User};
use super::environment::parse_proxy;
use super::{
    Auth, ClientCertificate, Config, ConfigError, Environment, ExecConfig, ExecVersion,
    Impersonate, Material, Server, TlsSettings,
};

/// One or more kubeconfig files, merged. Where two files name the same thing, the first one's is taken whole.
#[derive(Default)]
pub struct Kubeconfig {
    current_context: Option<String>,
    contexts: Vec<Named<Context>>,
    clusters: Vec<Located<Cluster>>,
    users: Vec<Located<User>>,
    tried: Vec<PathBuf>,
}

/// An entry, and the directory that its relative file names are relative to.
struct Located<T> {
    entry: Named<T>,
    directory: PathBuf,
}

impl Kubeconfig {
    /// One file, which must be there.
    pub fn read(path: &Path) -> Result<Kubeconfig, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        let mut config = Kubeconfig::default();
        config.merge(path, &text)?;
        Ok(config)
    }

    /// Several files, of which some may not be there.
    pub fn read_all(paths: &[PathBuf]) -> Result<Kubeconfig, ConfigError> {
        let mut config = Kubeconfig {
            tried: paths.to_vec(),
            ..Kubeconfig::default()
        };
        for path in paths {
            match std::fs::read_to_string(path) {
                Ok(text) => config.merge(path, &text)?,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(source) => {
                    return Err(ConfigError::Unreadable {
                        path: path.clone(),
                        source,
                    });
                }
            }
        }
        Ok(config)
    }

    pub fn is_empty(&self) -> bool {
        self.contexts.is_empty() && self.clusters.is_empty() && self.users.is_empty()
    }

    /// What a context (the current one when none is named) says, with another server where one is given.
    pub fn resolve(
        &self,
        context: Option<&str>,
        server: Option<&str>,
        environment: &Environment,
    ) -> Result<Config, ConfigError> {
        let (name, context) = self.context(context)?;
        let dangling = |what, entry: &str| ConfigError::Dangling {
            context: name.to_owned(),
            what,
            name: entry.to_owned(),
        };
        let cluster = find(&self.clusters, &context.cluster)
            .ok_or_else(|| dangling("cluster", &context.cluster))?;
        let user = match context.user.as_str() {
            "" => None,
            user => Some(find(&self.users, user).ok_or_else(|| dangling("user", user))?),
        };
        let mut tls = cluster.tls()?;
        let address = server.unwrap_or(&cluster.entry.value.server);
        if address.is_empty() {
            return Err(cluster.bad("server", "it is empty".to_owned()));
        }
        // UPSTREAM: an address without a scheme is HTTPS when there is something to do HTTPS with.
        let secure = tls != TlsSettings::default()
            || user.is_some_and(|user| user.entry.value.has_certificate());
        let server = Server::parse(address, if secure { Scheme::HTTPS } else { Scheme::HTTP })?;
        let proxy = match cluster.entry.value.proxy_url.as_str() {
            "" => environment.proxy_for(&server)?,
            proxy => Some(parse_proxy(proxy, &cluster.entry.name, "proxy-url")?),
        };
        let mut auth = Auth::None;
        // Who we are is told over TLS alone.
        if let Some(user) = user.filter(|_| server.is_https()) {
            tls.client = user.certificate()?;
            auth = user.auth(cluster)?;
        }
        let namespace = Some(context.namespace.clone()).filter(|namespace| !namespace.is_empty());
        let impersonate = user.and_then(|user| user.entry.value.impersonate());
        Ok(Config {
            server,
            tls,
            auth,
            impersonate,
            proxy,
            namespace,
        })
    }

    fn context(&self, name: Option<&str>) -> Result<(&str, &Context), ConfigError> {
        // A context that was asked for does not make up for a kubeconfig that is not there.
        if self.is_empty() && self.current_context.is_none() && !self.tried.is_empty() {
            let tried: Vec<_> = self
                .tried
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            return Err(ConfigError::NoKubeconfig {
                tried: tried.join(", "),
            });
        }
        let name = name
            .or(self.current_context.as_deref())
            .filter(|name| !name.is_empty())
            .ok_or(ConfigError::NoContext)?;
        match self.contexts.iter().find(|context| context.name == name) {
            Some(context) => Ok((&context.name, &context.value)),
            None => {
                let known: Vec<_> = self
                    .contexts
                    .iter()
                    .map(|context| format!("{:?}", context.name))
                    .collect();
                let known = if known.is_empty() {
                    "none".to_owned()
                } else {
                    known.join(", ")
                };
                Err(ConfigError::UnknownContext {
                    name: name.to_owned(),
                    known,
                })
            }
        }
    }

    fn merge(&mut self, path: &Path, text: &str) -> Result<(), ConfigError> {
        let malformed = |source| ConfigError::Malformed {
            path: path.to_owned(),
            source,
        };
        let documents = api::yaml::documents(text).map_err(|error| malformed(Box::new(error)))?;
        // An empty file is an empty kubeconfig, as kubectl leaves it behind.
        let json = documents.first().map_or("null", |first| &*first.json);
        // By way of a tree: places in this JSON would tell nobody anything.
        let document =
            serde_json::from_str(json).and_then(serde_json::from_value::<Option<Document>>);
        let document = document.map_err(|error| malformed(Box::new(error)))?;
        let document = document.unwrap_or_default();
        let directory = path.parent().unwrap_or(Path::new("")).to_owned();
        if self.current_context.is_none() {
            self.current_context = document.current_context.filter(|name| !name.is_empty());
        }
        for context in document.contexts.unwrap_or_default() {
            if !self.contexts.iter().any(|known| known.name == context.name) {
                self.contexts.push(context);
            }
        }
        add_new(&mut self.clusters, document.clusters, &directory);
        add_new(&mut self.users, document.users, &directory);
        Ok(())
    }
}

fn add_new<T>(known: &mut Vec<Located<T>>, entries: Option<Vec<Named<T>>>, directory: &Path) {
    for entry in entries.unwrap_or_default() {
        if find(known, &entry.name).is_none() {
            known.push(Located {
                entry,
                directory: directory.to_owned(),
            });
        }
    }
}

fn find<'a, T>(entries: &'a [Located<T>], name: &str) -> Option<&'a Located<T>> {
    entries.iter().find(|located| located.entry.name == name)
}

impl<T> Located<T> {
    fn bad(&self, field: &'static str, problem: String) -> ConfigError {
        ConfigError::BadField {
            entry: self.entry.name.clone(),
            field,
            problem,
        }
    }

    /// Data in place wins over a file.
    fn material(
        &self,
        field: &'static str,
        data: &str,
        file: &str,
    ) -> Result<Option<Material>, ConfigError> {
        if !data.is_empty() {
            let packed: String = data.split_ascii_whitespace().collect();
            let bytes = STANDARD
                .decode(packed)
                .map_err(|error| self.bad(field, format!("not base64: {error}")))?;
            return Ok(Some(Material::Inline(bytes)));
        }
        Ok((!file.is_empty()).then(|| Material::File(self.directory.join(file))))
    }
}

impl Located<Cluster> {
    fn tls(&self) -> Result<TlsSettings, ConfigError> {
        let cluster = &self.entry.value;
        let authorities = self.material(
            "certificate-authority-data",
            &cluster.certificate_authority_data,
            &cluster.certificate_authority,
        )?;
        if cluster.insecure_skip_tls_verify && authorities.is_some() {
            let problem =
                "a certificate-authority makes no sense with it; remove one of the two".to_owned();
            return Err(self.bad("insecure-skip-tls-verify", problem));
        }
        Ok(TlsSettings {
            authorities,
            client: None,
            server_name: Some(cluster.tls_server_name.clone()).filter(|name| !name.is_empty()),
            insecure: cluster.insecure_skip_tls_verify,
        })
    }

    /// What an exec plugin is told about the cluster.
    fn for_plugin(&self) -> Result<serde_json::Value, ConfigError> {
        let cluster = &self.entry.value;
        let mut told = serde_json::Map::new();
        let mut tell = |key: &str, value: serde_json::Value| {
            told.insert(key.to_owned(), value);
        };
        tell("server", cluster.server.as_str().into());
        if !cluster.tls_server_name.is_empty() {
            tell("tls-server-name", cluster.tls_server_name.as_str().into());
        }
        if cluster.insecure_skip_tls_verify {
            tell("insecure-skip-tls-verify", true.into());
        }
        if let Some(authorities) = self.tls()?.authorities {
            let bytes = match authorities {
                Material::Inline(bytes) => bytes,
                Material::File(path) => {
                    std::fs::read(&path).map_err(|source| ConfigError::MissingFile {
                        what: "certificate-authority",
                        path,
                        source,
                    })?
                }
            };
            tell("certificate-authority-data", STANDARD.encode(bytes).into());
        }
        if !cluster.proxy_url.is_empty() {
            tell("proxy-url", cluster.proxy_url.as_str().into());
        }
        let extensions = cluster.extensions.iter().flatten();
        for extension in
            extensions.filter(|extension| extension.name == "client.authentication.k8s.io/exec")
        {
            tell("config", extension.extension.clone());
        }
        Ok(told.into())
    }
}

impl Located<User> {
    fn certificate(&self) -> Result<Option<ClientCertificate>, ConfigError> {
        let user = &self.entry.value;
        let certificate = self.material(
            "client-certificate-data",
            &user.client_certificate_data,
            &user.client_certificate,
        )?;
        let key = self.material("client-key-data", &user.client_key_data, &user.client_key)?;
        match (certificate, key) {
            (Some(certificate), Some(key)) => Ok(Some(ClientCertificate { certificate, key })),
            (None, None) => Ok(None),
            (Some(_), None) => {
                Err(self.bad("client-certificate", "its client-key is missing".to_owned()))
            }
            (None, Some(_)) => {
                Err(self.bad("client-key", "its client-certificate is missing".to_owned()))
            }
        }
    }

    fn auth(&self, cluster: &Located<Cluster>) -> Result<Auth, ConfigError> {
        let user = &self.entry.value;
        if let Some(provider) = &user.auth_provider {
            let problem = format!(
                "the provider {:?} is no longer supported; use an exec plugin",
                provider.name
            );
            return Err(self.bad("auth-provider", problem));
        }
        if !user.token_file.is_empty() {
            return Ok(Auth::TokenFile(self.directory.join(&user.token_file)));
        }
        if !user.token.is_empty() {
            return Ok(Auth::Token(user.token.clone()));
        }
        if !user.username.is_empty() {
            return Ok(Auth::Basic {
                username: user.username.clone(),
                password: user.password.clone(),
            });
        }
        match &user.exec {
            Some(exec) => Ok(Auth::Exec(Box::new(self.exec(exec, cluster)?))),
            None => Ok(Auth::None),
        }
    }

    fn exec(&self, exec: &Exec, cluster: &Located<Cluster>) -> Result<ExecConfig, ConfigError> {
        let version = match exec.api_version.as_str() {
            "client.authentication.k8s.io/v1" => ExecVersion::V1,
            "client.authentication.k8s.io/v1beta1" => ExecVersion::V1Beta1,
            other => {
                let problem = format!(
                    "apiVersion {other:?} is not client.authentication.k8s.io/v1 or v1beta1"
                );
                return Err(self.bad("exec", problem));
            }
        };
        if exec.command.is_empty() {
            return Err(self.bad("exec", "it names no command".to_owned()));
        }
        if exec.interactive_mode == "Always" {
            let problem =
                "the plugin insists on a terminal (interactiveMode: Always), and we have none"
                    .to_owned();
            return Err(self.bad("exec", problem));
        }
        Ok(ExecConfig {
            command: ExecConfig::locate(&exec.command, &self.directory),
            args: exec.args.clone().unwrap_or_default(),
            env: exec
                .env
                .iter()
                .flatten()
                .map(|entry| (entry.name.clone(), entry.value.clone()))
                .collect(),
            version,
            install_hint: exec.install_hint.clone(),
            cluster: if exec.provide_cluster_info {
                Some(cluster.for_plugin()?)
            } else {
                None
            },
        })
    }
}

impl User {
    fn has_certificate(&self) -> bool {
        !self.client_certificate.is_empty() || !self.client_certificate_data.is_empty()
    }

    fn impersonate(&self) -> Option<Impersonate> {
        (!self.impersonate.is_empty()).then(|| Impersonate {
            user: self.impersonate.clone(),
            uid: self.impersonate_uid.clone(),
            groups: self.impersonate_groups.clone().unwrap_or_default(),
            extra: self.impersonate_extra.clone().unwrap_or_default(),
        })
    }
}
