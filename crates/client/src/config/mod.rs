//! Which API server to talk to, and as whom: from a kubeconfig, from a pod's service account, or from flags.
//!
//! What comes out is resolved but not yet read: certificates and tokens in files stay file names, because they
//! are rotated while we run and are read again when they change.

mod environment;
mod error;
pub(crate) mod exec;
mod in_cluster;
mod kubeconfig;

use std::path::{Path, PathBuf};

use http::Uri;
use http::uri::{Authority, Scheme};

pub use environment::Environment;
pub use error::ConfigError;
pub use exec::{ExecConfig, ExecVersion};
pub use kubeconfig::Kubeconfig;

/// Everything that is needed to reach one API server under one identity.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    pub server: Server,
    pub tls: TlsSettings,
    pub auth: Auth,
    pub impersonate: Option<Impersonate>,
    /// An HTTP proxy to tunnel through.
    pub proxy: Option<Uri>,
    /// The namespace of the context, where one is set.
    pub namespace: Option<String>,
}

/// Where the API server is. The prefix is what its paths begin with, such as `/k8s/clusters/c-1`; mostly empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    pub scheme: Scheme,
    pub authority: Authority,
    pub prefix: String,
}

/// How the server proves who it is, and how we do by certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// The certificate authorities to trust; the system's when not given.
    pub authorities: Option<Material>,
    pub client: Option<ClientCertificate>,
    /// The name to expect in the server's certificate instead of the host in its address.
    pub server_name: Option<String>,
    /// Trust whoever answers.
    pub insecure: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    pub certificate: Material,
    pub key: Material,
}

/// Something in PEM, given in place or by file.
#[derive(Clone, PartialEq, Eq)]
pub enum Material {
    Inline(Vec<u8>),
    File(PathBuf),
}

/// How we prove who we are, beside a client certificate.
#[derive(Clone, PartialEq)]
pub enum Auth {
    None,
    Token(String),
    /// Read again when it changes.
    TokenFile(PathBuf),
    Basic {
        username: String,
        password: String,
    },
    Exec(Box<ExecConfig>),
}

/// Whom to act as.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Impersonate {
    pub user: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: std::collections::BTreeMap<String, Vec<String>>,
}

impl Config {
    /// By `--kubeconfig` and `--master`, as the controller manager takes them: without either, from the pod
    /// we run in.
    pub fn from_flags(
        kubeconfig: Option<&Path>,
        master: Option<&str>,
        environment: &Environment,
    ) -> Result<Config, ConfigError> {
        let master = master.filter(|master| !master.is_empty());
        match (kubeconfig, master) {
            (None, None) => in_cluster::config(environment),
            (None, Some(master)) => Config::for_server(master, environment),
            (Some(path), master) => Kubeconfig::read(path)?.resolve(None, master, environment),
        }
    }

    /// As kubectl finds it: the file given, else the files in `KUBECONFIG` merged, else `~/.kube/config`, else
    /// the pod we run in.
    pub fn from_environment(
        explicit: Option<&Path>,
        context: Option<&str>,
        environment: &Environment,
    ) -> Result<Config, ConfigError> {
        if let Some(path) = explicit {
            return Kubeconfig::read(path)?.resolve(context, None, environment);
        }
        let merged = Kubeconfig::read_all(&environment.kubeconfig_paths())?;
        if merged.is_empty() && environment.is_in_cluster() {
            return in_cluster::config(environment);
        }
        merged.resolve(context, None, environment)
    }

    /// The same server without an identity: what clients with tokens of their own connect through.
    pub fn anonymous(&self) -> Config {
        let tls = TlsSettings {
            client: None,
            ..self.tls.clone()
        };
        Config {
            tls,
            auth: Auth::None,
            impersonate: None,
            ..self.clone()
        }
    }

    /// A server and nothing else: no identity, the system's certificate authorities.
    pub fn for_server(address: &str, environment: &Environment) -> Result<Config, ConfigError> {
        let server = Server::parse(address, Scheme::HTTP)?;
        let proxy = environment.proxy_for(&server)?;
        Ok(Config {
            server,
            tls: TlsSettings::default(),
            auth: Auth::None,
            impersonate: None,
            proxy,
            namespace: None,
        })
    }
}

impl Server {
    /// Reads an address. Without a scheme it has the default one, as in client-go.
    pub fn parse(address: &str, default_scheme: Scheme) -> Result<Server, ConfigError> {
        let bad = |problem: &str| ConfigError::BadServer {
            server: address.to_owned(),
            problem: problem.to_owned(),
        };
        let with_scheme = if address.contains("://") {
            address.to_owned()
        } else {
            format!("{default_scheme}://{address}")
        };
        let uri: Uri = with_scheme.parse().map_err(|_| bad("it is not a URL"))?;
        let scheme = uri.scheme().cloned().unwrap_or(default_scheme);
        if scheme != Scheme::HTTPS && scheme != Scheme::HTTP {
            return Err(bad("its scheme is neither https nor http"));
        }
        let authority = uri
            .authority()
            .cloned()
            .ok_or_else(|| bad("it names no host"))?;
        if authority.host().is_empty() {
            return Err(bad("it names no host"));
        }
        Ok(Server {
            scheme,
            authority,
            prefix: uri.path().trim_end_matches('/').to_owned(),
        })
    }

    pub fn is_https(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }

    /// The host without the brackets of an IPv6 address.
    pub fn host(&self) -> &str {
        self.authority
            .host()
            .trim_start_matches('[')
            .trim_end_matches(']')
    }

    pub fn port(&self) -> u16 {
        self.authority
            .port_u16()
            .unwrap_or(if self.is_https() { 443 } else { 80 })
    }
}

impl std::fmt::Display for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority, self.prefix)
    }
}

impl Material {
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Material::Inline(_) => None,
            Material::File(path) => Some(path),
        }
    }
}

/// Secrets stay out of logs: inline material shows its size alone.
impl std::fmt::Debug for Material {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Material::Inline(bytes) => write!(f, "({} bytes inline)", bytes.len()),
            Material::File(path) => write!(f, "{}", path.display()),
        }
    }
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Auth::None => f.write_str("none"),
            Auth::Token(_) => f.write_str("a token"),
            Auth::TokenFile(path) => write!(f, "token file {}", path.display()),
            Auth::Basic { username, .. } => write!(f, "password of {username:?}"),
            Auth::Exec(exec) => write!(f, "exec {}", exec.command.display()),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
