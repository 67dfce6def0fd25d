//! What the process was given: handed in, so that a test decides what it is.

use std::ffi::OsString;
use std::path::PathBuf;

use http::Uri;

use super::{ConfigError, Server};

/// The environment variables and well-known places that decide which API server we talk to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// `KUBECONFIG`: a list of files like `PATH`.
    pub kubeconfig: Option<OsString>,
    pub home: Option<PathBuf>,
    /// `KUBERNETES_SERVICE_HOST` and `KUBERNETES_SERVICE_PORT`, which every pod has.
    pub service_host: Option<String>,
    pub service_port: Option<String>,
    /// Where a pod's token and certificate authority are mounted.
    pub service_account: PathBuf,
    /// `HTTPS_PROXY` and `NO_PROXY`, in either case.
    pub https_proxy: Option<String>,
    pub no_proxy: Option<String>,
}

impl Environment {
    pub fn of_process() -> Environment {
        let text = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Environment {
            kubeconfig: std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty()),
            home: std::env::var_os("HOME").map(PathBuf::from),
            service_host: text("KUBERNETES_SERVICE_HOST"),
            service_port: text("KUBERNETES_SERVICE_PORT"),
            service_account: PathBuf::from("/var/run/secrets/kubernetes.io/serviceaccount"),
            https_proxy: text("HTTPS_PROXY").or_else(|| text("https_proxy")),
            no_proxy: text("NO_PROXY").or_else(|| text("no_proxy")),
        }
    }

    pub(super) fn is_in_cluster(&self) -> bool {
        self.service_host.is_some() && self.service_port.is_some()
    }

    /// The files to merge, first one wins.
    pub(super) fn kubeconfig_paths(&self) -> Vec<PathBuf> {
        match (&self.kubeconfig, &self.home) {
            (Some(list), _) => std::env::split_paths(list)
                .filter(|path| !path.as_os_str().is_empty())
                .collect(),
            (None, Some(home)) => vec![home.join(".kube").join("config")],
            (None, None) => Vec::new(),
        }
    }

    /// The proxy that the environment asks for, where the kubeconfig asks for none.
    pub(super) fn proxy_for(&self, server: &Server) -> Result<Option<Uri>, ConfigError> {
        let Some(proxy) = self.https_proxy.as_deref().filter(|_| server.is_https()) else {
            return Ok(None);
        };
        if self.is_exempt(server.host()) {
            return Ok(None);
        }
        parse_proxy(proxy, "the environment", "HTTPS_PROXY").map(Some)
    }

    fn is_exempt(&self, host: &str) -> bool {
        // As in Go: loopback is never proxied, because no proxy could reach it.
        let loopback = host == "localhost"
            || host
                .parse::<std::net::IpAddr>()
                .is_ok_and(|address| address.is_loopback());
        let listed = self
            .no_proxy
            .as_deref()
            .unwrap_or_default()
            .split(',')
            .map(str::trim);
        loopback
            || listed
                .filter(|entry| !entry.is_empty())
                .any(|entry| exempts(entry, host))
    }
}

/// `*`, a host, a domain with all below it, or a network in CIDR form.
fn exempts(entry: &str, host: &str) -> bool {
    if entry == "*" || entry.eq_ignore_ascii_case(host) {
        return true;
    }
    if let (Some((network, length)), Ok(address)) = (entry.split_once('/'), host.parse()) {
        return in_network(network, length, address).unwrap_or(false);
    }
    let domain = entry.trim_start_matches('.').to_ascii_lowercase();
    host.to_ascii_lowercase()
        .strip_suffix(&domain)
        .is_some_and(|rest| rest.ends_with('.'))
}

fn in_network(network: &str, length: &str, address: std::net::IpAddr) -> Option<bool> {
    use std::net::IpAddr;
    let length: u32 = length.parse().ok()?;
    let (network, address, width) = match (network.parse().ok()?, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => (
            u128::from(u32::from(network)),
            u128::from(u32::from(address)),
            32,
        ),
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            (u128::from(network), u128::from(address), 128)
        }
        _ => return None,
    };
    let shift = width - length.min(width);
    let beyond = shift == 128;
    Some(beyond || network >> shift == address >> shift)
}

/// We tunnel through plain HTTP proxies alone, which is what `proxy-url` almost always is.
pub(super) fn parse_proxy(
    text: &str,
    entry: &str,
    field: &'static str,
) -> Result<Uri, ConfigError> {
    let bad = |problem: &str| ConfigError::BadField {
        entry: entry.to_owned(),
        field,
        problem: format!("{text:?} {problem}"),
    };
    let with_scheme = if text.contains("://") {
        text.to_owned()
    } else {
        format!("http://{text}")
    };
    let uri: Uri = with_scheme.parse().map_err(|_| bad("is not a URL"))?;
    match uri.scheme_str() {
        Some("http") if uri.host().is_some_and(|host| !host.is_empty()) => Ok(uri),
        Some("http") => Err(bad("names no host")),
        _ => Err(bad(
            "is no plain HTTP proxy; only http:// proxies are supported",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_and_their_exceptions() {
        let check = |no_proxy: &str, host: &str, proxied: bool| {
            let environment = Environment {
                https_proxy: Some("proxy:3128".into()),
                no_proxy: Some(no_proxy.into()),
                ..Environment::default()
            };
            let server = Server::parse(host, http::uri::Scheme::HTTPS).unwrap();
            let proxy = environment.proxy_for(&server).unwrap();
            assert_eq!(proxy.is_some(), proxied, "NO_PROXY={no_proxy} and {host}");
        };
        check("", "api.example.com:6443", true);
        check("", "127.0.0.1:6443", false);
        check("", "[::1]:6443", false);
        check("", "localhost", false);
        check("*", "api.example.com", false);
        check("example.com", "api.example.com", false);
        check(".example.com", "api.example.com", false);
        check("ample.com", "api.example.com", true);
        check("a, API.example.com ,b", "api.example.com", false);
        check("10.0.0.0/8", "10.96.0.1", false);
        check("10.0.0.0/8", "11.96.0.1", true);
        check("fd00::/8,0.0.0.0/0", "[fd12::1]:6443", false);
        check("0.0.0.0/0", "192.168.1.1", false);
        check("10.0.0.0/x", "10.0.0.1", true);
        check("", "http://api.example.com", false);
    }
}
