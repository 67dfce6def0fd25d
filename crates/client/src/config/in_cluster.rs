//! The identity that Kubernetes gives every pod.

use super::{Auth, Config, ConfigError, Environment, Material, Server, TlsSettings};

pub(super) fn config(environment: &Environment) -> Result<Config, ConfigError> {
    let (Some(host), Some(port)) = (&environment.service_host, &environment.service_port) else {
        return Err(ConfigError::NotInCluster);
    };
    let host = if host.contains(':') {
        format!("[{host}]")
    } else {
        host.clone()
    };
    let server = Server::parse(&format!("https://{host}:{port}"), http::uri::Scheme::HTTPS)?;
    let token = environment.service_account.join("token");
    let authorities = environment.service_account.join("ca.crt");
    // The token must be there; said now, it is clearer than a 401 later.
    std::fs::metadata(&token).map_err(|source| ConfigError::MissingFile {
        what: "the service account token",
        path: token.clone(),
        source,
    })?;
    let namespace = std::fs::read_to_string(environment.service_account.join("namespace"));
    Ok(Config {
        proxy: environment.proxy_for(&server)?,
        server,
        tls: TlsSettings {
            authorities: Some(Material::File(authorities)),
            ..TlsSettings::default()
        },
        auth: Auth::TokenFile(token),
        impersonate: None,
        namespace: namespace
            .ok()
            .map(|text| text.trim().to_owned())
            .filter(|text| !text.is_empty()),
    })
}
