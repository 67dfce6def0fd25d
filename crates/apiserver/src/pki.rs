//! The cluster's certificates: an authority, the server's certificate, the administrator's, and the key that
//! signs service account tokens. Kept in the data directory, or recreated when there is none.

use crate::tls::{Authorities, Tls};
use api::Clock;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use connections::AnyClientCertificate;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::time_provider::TimeProvider;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// PEM texts.
#[derive(Clone)]
pub struct Pki {
    pub ca_certificate: String,
    pub ca_key: String,
    pub server_certificate: String,
    pub server_key: String,
    pub admin_certificate: String,
    pub admin_key: String,
    /// PKCS #8, ECDSA P-256.
    pub service_account_key: String,
}

#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    #[error("cannot make or read a certificate")]
    Certificate(#[from] rcgen::Error),
    #[error("cannot set up TLS: {0}")]
    Tls(String),
    #[error("cannot access {path}")]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
}

/// (file name, which text)
const FILES: [(&str, fn(&mut Pki) -> &mut String); 7] = [
    ("ca.crt", |pki| &mut pki.ca_certificate),
    ("ca.key", |pki| &mut pki.ca_key),
    ("apiserver.crt", |pki| &mut pki.server_certificate),
    ("apiserver.key", |pki| &mut pki.server_key),
    ("admin.crt", |pki| &mut pki.admin_certificate),
    ("admin.key", |pki| &mut pki.admin_key),
    ("sa.key", |pki| &mut pki.service_account_key),
];

impl Pki {
    /// Makes everything anew. `names` are further host names and addresses of the server.
    pub fn generate(names: &[String]) -> Result<Pki, PkiError> {
        let ca_key = KeyPair::generate()?;
        let mut ca = params("kubernetes", &[], &[])?;
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::CrlSign,
        ];
        let ca_certificate = ca.self_signed(&ca_key)?.pem();
        let issuer = Issuer::new(ca, &ca_key);
        let mut hosts: Vec<String> = SERVER_NAMES.map(str::to_owned).to_vec();
        hosts.extend(
            names
                .iter()
                .filter(|name| !SERVER_NAMES.contains(&name.as_str()))
                .cloned(),
        );
        let server_key = KeyPair::generate()?;
        let mut server = params("kube-apiserver", &[], &hosts)?;
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let admin_key = KeyPair::generate()?;
        let mut admin = params("kubernetes-admin", &["system:masters"], &[])?;
        admin.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        Ok(Pki {
            server_certificate: server.signed_by(&server_key, &issuer)?.pem(),
            admin_certificate: admin.signed_by(&admin_key, &issuer)?.pem(),
            ca_certificate,
            ca_key: ca_key.serialize_pem(),
            server_key: server_key.serialize_pem(),
            admin_key: admin_key.serialize_pem(),
            service_account_key: KeyPair::generate()?.serialize_pem(),
        })
    }

    /// Reads the certificates of a directory, or makes them there if it has none.
    pub fn load_or_generate(dir: &Path, names: &[String]) -> Result<Pki, PkiError> {
        let file = |path: PathBuf| move |source| PkiError::File { path, source };
        // The last one that is written: a process that was killed on the way starts over.
        let last = FILES[FILES.len() - 1].0;
        if !dir.join(last).exists() {
            let mut pki = Pki::generate(names)?;
            std::fs::create_dir_all(dir).map_err(file(dir.to_owned()))?;
            for (name, text) in FILES {
                let path = dir.join(name);
                crate::private_file::write(&path, text(&mut pki).as_bytes()).map_err(file(path))?;
            }
            return Ok(pki);
        }
        let empty = String::new;
        let mut pki = Pki {
            ca_certificate: empty(),
            ca_key: empty(),
            server_certificate: empty(),
            server_key: empty(),
            admin_certificate: empty(),
            admin_key: empty(),
            service_account_key: empty(),
        };
        for (name, text) in FILES {
            let path = dir.join(name);
            *text(&mut pki) = std::fs::read_to_string(&path).map_err(file(path))?;
        }
        Ok(pki)
    }

    /// A client certificate for a user in groups, as (certificate, key).
    pub fn issue_client(&self, user: &str, groups: &[&str]) -> Result<(String, String), PkiError> {
        let issuer =
            Issuer::from_ca_cert_pem(&self.ca_certificate, KeyPair::from_pem(&self.ca_key)?)?;
        let key = KeyPair::generate()?;
        let mut client = params(user, groups, &[])?;
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        Ok((client.signed_by(&key, &issuer)?.pem(), key.serialize_pem()))
    }

    /// TLS that shows the server's certificate, and believes clients of the authority. What they show must be valid by
    /// `clock`: the cluster's time may be ahead of the machine's.
    pub fn tls(&self, clock: &Clock) -> Result<Tls, PkiError> {
        let failed = |error: &dyn std::fmt::Display| PkiError::Tls(error.to_string());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let roots = connections::certificate::roots(certificates(&self.ca_certificate)?)
            .map_err(|error| failed(&error))?;
        let key = PrivateKeyDer::from_pem_slice(self.server_key.as_bytes())
            .map_err(|error| failed(&error))?;
        let time = Arc::new(ClusterTime(clock.clone()));
        let verifier = Arc::new(AnyClientCertificate::new(&provider));
        let mut config = rustls::ServerConfig::builder_with_details(provider, time)
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(&error))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(certificates(&self.server_certificate)?, key)
            .map_err(|error| failed(&error))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Tls {
            config: Arc::new(config),
            authorities: Authorities {
                clients: Some((roots, self.ca_certificate.clone())),
                proxies: None,
            },
        })
    }

    /// The administrator's kubeconfig for a server at this URL.
    pub fn kubeconfig(&self, url: &str) -> String {
        self.kubeconfig_for(
            url,
            "kubernetes-admin",
            &self.admin_certificate,
            &self.admin_key,
        )
    }

    pub fn kubeconfig_for(&self, url: &str, user: &str, certificate: &str, key: &str) -> String {
        let encode = |text: &str| STANDARD.encode(text);
        format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: steersman\n  cluster:\n    server: {url}\n    \
             certificate-authority-data: {}\nusers:\n- name: {user}\n  user:\n    client-certificate-data: {}\n    \
             client-key-data: {}\ncontexts:\n- name: steersman\n  context:\n    cluster: steersman\n    user: {user}\n\
             current-context: steersman\n",
            encode(&self.ca_certificate),
            encode(certificate),
            encode(key),
        )
    }
}

/// The cluster's clock, as TLS asks for it.
struct ClusterTime(Clock);

impl std::fmt::Debug for ClusterTime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClusterTime")
    }
}

impl TimeProvider for ClusterTime {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(self.0.now().time().unix()).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

const SERVER_NAMES: [&str; 9] = [
    "localhost",
    "127.0.0.1",
    "::1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "10.0.0.1",
    "10.96.0.1",
];

fn params(
    common_name: &str,
    organizations: &[&str],
    names: &[String],
) -> Result<CertificateParams, PkiError> {
    let mut params = CertificateParams::new(names.to_vec())?;
    let mut subject = DistinguishedName::new();
    // A set of several organizations cannot be expressed; one holds all that we issue.
    for organization in organizations {
        subject.push(DnType::OrganizationName, *organization);
    }
    subject.push(DnType::CommonName, common_name);
    params.distinguished_name = subject;
    // Fixed dates: the certificates must be valid under any clock that a test chooses.
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(2060, 1, 1);
    Ok(params)
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, PkiError> {
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    parsed.map_err(|error| PkiError::Tls(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_is_found_again() {
        let clock = Clock::fixed(api::Time::from_unix(1_704_067_200));
        let dir = std::env::temp_dir().join(format!("steersman-pki-{}", std::process::id()));
        let made = Pki::load_or_generate(&dir, &[]).unwrap();
        let found = Pki::load_or_generate(&dir, &[]).unwrap();
        std::fs::remove_file(dir.join("sa.key")).unwrap();
        let after_a_kill = Pki::load_or_generate(&dir, &[]).unwrap();
        assert!(after_a_kill.tls(&clock).is_ok());
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(made.ca_certificate, found.ca_certificate);
        assert_eq!(made.service_account_key, found.service_account_key);
        assert!(found.tls(&clock).is_ok());
        assert!(found.issue_client("someone", &["group"]).is_ok());
    }
}
