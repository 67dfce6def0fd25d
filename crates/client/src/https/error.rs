//! Why there is no connection, in sentences that say what to check.

use std::sync::Arc;

use rustls::{AlertDescription, CertificateError};

use crate::BoxError;
use crate::config::Server;

/// What stands between us and the API server. Cloned for everyone who waited for the same connection.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ConnectError {
    #[error(
        "cannot reach the API server at {server}; check that it runs and that the kubeconfig's server is right"
    )]
    Unreachable {
        server: String,
        #[source]
        source: Arc<std::io::Error>,
    },
    #[error(
        "the API server at {server} did not answer within {seconds} s; check the address and the firewalls between"
    )]
    TimedOut { server: String, seconds: u64 },
    #[error(
        "the certificate of {server} is not signed by the certificate authority we trust; check the kubeconfig's \
         certificate-authority-data or certificate-authority"
    )]
    UnknownAuthority { server: String },
    #[error("the certificate of {server} has expired; renew it, or check this machine's clock")]
    Expired { server: String },
    #[error("the certificate of {server} is not valid yet; check this machine's clock")]
    NotYetValid { server: String },
    #[error(
        "the certificate of {server} is for another name; use a name or address that it is for, or set tls-server-name \
         in the kubeconfig"
    )]
    WrongName { server: String },
    #[error(
        "{server} does not speak TLS; check the port and the scheme of the kubeconfig's server"
    )]
    NotTls { server: String },
    #[error(
        "the API server at {server} refused our client certificate ({alert}); check that the kubeconfig's \
         client-certificate is for this cluster and has not expired"
    )]
    ClientCertificateRefused { server: String, alert: String },
    #[error("no secure connection to {server}")]
    Tls {
        server: String,
        #[source]
        source: Arc<std::io::Error>,
    },
    #[error("the proxy {proxy} does not let us through to {server}: {problem}")]
    Proxy {
        proxy: String,
        server: String,
        problem: String,
    },
    #[error("cannot speak HTTP with {server}: {problem}")]
    Http { server: String, problem: String },
}

impl ConnectError {
    /// Why there was no connection, if that is what an error comes from.
    pub fn behind<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a ConnectError> {
        let mut cause = Some(error);
        while let Some(current) = cause {
            if let Some(found) = current.downcast_ref::<ConnectError>() {
                return Some(found);
            }
            cause = current.source();
        }
        None
    }

    /// Somebody is there, and it is not whom we were told to expect, or it does not want us: waiting does not help.
    pub fn is_lasting(&self) -> bool {
        match self {
            ConnectError::UnknownAuthority { .. }
            | ConnectError::Expired { .. }
            | ConnectError::NotYetValid { .. }
            | ConnectError::WrongName { .. }
            | ConnectError::NotTls { .. }
            | ConnectError::ClientCertificateRefused { .. } => true,
            ConnectError::Unreachable { .. }
            | ConnectError::TimedOut { .. }
            | ConnectError::Tls { .. }
            | ConnectError::Proxy { .. }
            | ConnectError::Http { .. } => false,
        }
    }

    pub(super) fn unreachable(server: &Server, source: std::io::Error) -> ConnectError {
        ConnectError::Unreachable {
            server: server.to_string(),
            source: Arc::new(source),
        }
    }

    /// What a failed handshake means to the person who wrote the kubeconfig.
    pub(super) fn handshake(server: &Server, source: std::io::Error) -> ConnectError {
        let tls = source
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<rustls::Error>());
        let classified = tls.and_then(|tls| classify(server, tls));
        classified.unwrap_or_else(|| ConnectError::Tls {
            server: server.to_string(),
            source: Arc::new(source),
        })
    }
}

/// An error from an established connection. With TLS 1.3 a server refuses our certificate only after the handshake, so
/// that refusal first shows here, and as text: HTTP/2 keeps no more of what ended its connection.
pub(super) fn explain(error: BoxError, server: &Server) -> BoxError {
    let text = crate::describe(error.as_ref());
    let alert = text
        .split("received fatal alert: ")
        .nth(1)
        .map(|rest| rest.split(':').next().unwrap_or(rest));
    match alert {
        Some(alert)
            if REFUSALS
                .iter()
                .any(|refusal| format!("{refusal:?}") == alert.trim()) =>
        {
            let (server, alert) = (server.to_string(), alert.trim().to_owned());
            Box::new(ConnectError::ClientCertificateRefused { server, alert })
        }
        _ => error,
    }
}

/// How a server says that it does not like our certificate.
const REFUSALS: &[AlertDescription] = &[
    AlertDescription::BadCertificate,
    AlertDescription::CertificateExpired,
    AlertDescription::CertificateRequired,
    AlertDescription::CertificateRevoked,
    AlertDescription::CertificateUnknown,
    AlertDescription::UnknownCA,
    AlertDescription::UnsupportedCertificate,
    AlertDescription::AccessDenied,
    // Signed by another authority of the same name: every cluster's is called "kubernetes".
    AlertDescription::DecryptError,
];

fn classify(server: &Server, error: &rustls::Error) -> Option<ConnectError> {
    use CertificateError as Certificate;
    let server = server.to_string();
    Some(match error {
        rustls::Error::InvalidCertificate(problem) => match problem {
            Certificate::Expired | Certificate::ExpiredContext { .. } => {
                ConnectError::Expired { server }
            }
            Certificate::NotValidYet | Certificate::NotValidYetContext { .. } => {
                ConnectError::NotYetValid { server }
            }
            Certificate::NotValidForName | Certificate::NotValidForNameContext { .. } => {
                ConnectError::WrongName { server }
            }
            Certificate::UnknownIssuer | Certificate::BadSignature => {
                ConnectError::UnknownAuthority { server }
            }
            _ => return None,
        },
        rustls::Error::InvalidMessage(_) => ConnectError::NotTls { server },
        rustls::Error::AlertReceived(alert) if REFUSALS.contains(alert) => {
            ConnectError::ClientCertificateRefused {
                server,
                alert: format!("{alert:?}"),
            }
        }
        _ => return None,
    })
}
