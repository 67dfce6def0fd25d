//! The cluster's certificates: an authority, the server's certificate, the administrator's, and the key that
//! signs service account tokens. Kept in the data directory, or recreated when there is none.
//!
//! As kubeadm has it, the authority is good for ten years and what it signs for one. Whatever has less than a third of
//! that left is signed again at a start, for the same keys, so that nobody has to replace anything.

mod live;
mod validity;

use live::Live;
use validity::Date;
pub use validity::Validity;

use crate::server::FRONT_PROXY;
use crate::tls::{FrontProxy, Tls};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::path::{Path, PathBuf};

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
    /// Where they were read from.
    dir: Option<PathBuf>,
    validity: Validity,
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
    pub fn generate(names: &[String], validity: Validity) -> Result<Pki, PkiError> {
        let new_key = || KeyPair::generate().map(|key| key.serialize_pem());
        let mut pki = Pki {
            ca_certificate: String::new(),
            ca_key: new_key()?,
            server_certificate: String::new(),
            server_key: new_key()?,
            admin_certificate: String::new(),
            admin_key: new_key()?,
            service_account_key: new_key()?,
            dir: None,
            validity,
        };
        pki.ca_certificate = pki.sign_authority()?;
        pki.server_certificate = pki.sign_server(names)?;
        pki.admin_certificate = pki.sign_admin()?;
        Ok(pki)
    }

    fn sign_authority(&self) -> Result<String, PkiError> {
        let mut ca = params("kubernetes", &[], &[], self.validity.of_authority())?;
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::CrlSign,
        ];
        let key = KeyPair::from_pem(&self.ca_key)?;
        Ok(ca.self_signed(&key)?.pem())
    }

    fn sign_server(&self, names: &[String]) -> Result<String, PkiError> {
        let mut hosts: Vec<String> = SERVER_NAMES.map(str::to_owned).to_vec();
        let others = names
            .iter()
            .filter(|name| !SERVER_NAMES.contains(&name.as_str()));
        hosts.extend(others.cloned());
        let mut server = params("kube-apiserver", &[], &hosts, self.validity.of_leaf())?;
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::from_pem(&self.server_key)?;
        Ok(server.signed_by(&key, &self.issuer()?)?.pem())
    }

    fn sign_admin(&self) -> Result<String, PkiError> {
        let key = KeyPair::from_pem(&self.admin_key)?;
        self.sign_client("kubernetes-admin", &["system:masters"], &key)
    }

    fn sign_client(&self, user: &str, groups: &[&str], key: &KeyPair) -> Result<String, PkiError> {
        let mut client = params(user, groups, &[], self.validity.of_leaf())?;
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        Ok(client.signed_by(key, &self.issuer()?)?.pem())
    }

    fn issuer(&self) -> Result<Issuer<'static, KeyPair>, PkiError> {
        let key = KeyPair::from_pem(&self.ca_key)?;
        Ok(Issuer::from_ca_cert_pem(&self.ca_certificate, key)?)
    }

    /// Reads the certificates of a directory, or makes them there if it has none. What ends soon is signed again.
    pub fn load_or_generate(
        dir: &Path,
        names: &[String],
        validity: Validity,
    ) -> Result<Pki, PkiError> {
        let file = |path: PathBuf| move |source| PkiError::File { path, source };
        // The last one that is written: a process that was killed on the way starts over.
        let last = FILES[FILES.len() - 1].0;
        if !dir.join(last).exists() {
            let mut pki = Pki::generate(names, validity)?;
            crate::private_file::create_dir(dir).map_err(file(dir.to_owned()))?;
            for (name, text) in FILES {
                let path = dir.join(name);
                crate::private_file::write(&path, text(&mut pki).as_bytes()).map_err(file(path))?;
            }
            pki.dir = Some(dir.to_owned());
            return Ok(pki);
        }
        let mut pki = Pki::read(dir, validity)?;
        for name in pki.renew(names)? {
            let Some((_, text)) = FILES.iter().find(|(known, _)| *known == name) else {
                continue;
            };
            let path = dir.join(name);
            tracing::info!(certificate = %path.display(), "Certificate ends soon and was renewed");
            crate::private_file::write(&path, text(&mut pki).as_bytes()).map_err(file(path))?;
        }
        Ok(pki)
    }

    fn read(dir: &Path, validity: Validity) -> Result<Pki, PkiError> {
        let empty = String::new;
        let mut pki = Pki {
            ca_certificate: empty(),
            ca_key: empty(),
            server_certificate: empty(),
            server_key: empty(),
            admin_certificate: empty(),
            admin_key: empty(),
            service_account_key: empty(),
            dir: Some(dir.to_owned()),
            validity,
        };
        for (name, text) in FILES {
            let path = dir.join(name);
            let read = std::fs::read_to_string(&path);
            *text(&mut pki) = read.map_err(|source| PkiError::File { path, source })?;
        }
        Ok(pki)
    }

    /// Signs again what ends soon; gives the names of the files. Keys stay, so that a kill between two files leaves
    /// nothing that does not fit.
    fn renew(&mut self, names: &[String]) -> Result<Vec<&'static str>, PkiError> {
        let validity = self.validity;
        let authority = validity.authority_ends_soon(&first(&self.ca_certificate)?);
        let server = validity.leaf_ends_soon(&first(&self.server_certificate)?);
        let admin = validity.leaf_ends_soon(&first(&self.admin_certificate)?);
        let mut renewed = Vec::new();
        if authority {
            self.ca_certificate = self.sign_authority()?;
            renewed.push("ca.crt");
        }
        if server {
            self.server_certificate = self.sign_server(names)?;
            renewed.push("apiserver.crt");
        }
        if admin {
            self.admin_certificate = self.sign_admin()?;
            renewed.push("admin.crt");
        }
        Ok(renewed)
    }

    /// A client certificate for a user in groups, as (certificate, key).
    pub fn issue_client(&self, user: &str, groups: &[&str]) -> Result<(String, String), PkiError> {
        let key = KeyPair::generate()?;
        Ok((self.sign_client(user, groups, &key)?, key.serialize_pem()))
    }

    /// TLS that shows the server's certificate, and believes clients of the authority.
    pub fn tls(&self) -> Result<Tls, PkiError> {
        Live::new(self)?.tls(self.front_proxy()?)
    }

    /// A certificate of an authority that signs nothing else and is forgotten with the process: whoever gets a client
    /// certificate of the cluster signed must not be able to speak for others by it.
    fn front_proxy(&self) -> Result<FrontProxy, PkiError> {
        let mut own = self.clone();
        own.ca_key = KeyPair::generate()?.serialize_pem();
        own.ca_certificate = own.sign_authority()?;
        let (certificate, key) = own.issue_client(FRONT_PROXY, &[])?;
        Ok(FrontProxy {
            certificate,
            key,
            authority: own.ca_certificate,
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
    (from, until): (Date, Date),
) -> Result<CertificateParams, PkiError> {
    let mut params = CertificateParams::new(names.to_vec())?;
    let mut subject = DistinguishedName::new();
    // A set of several organizations cannot be expressed; one holds all that we issue.
    for organization in organizations {
        subject.push(DnType::OrganizationName, *organization);
    }
    subject.push(DnType::CommonName, common_name);
    params.distinguished_name = subject;
    params.not_before = rcgen::date_time_ymd(from.0, from.1, from.2);
    params.not_after = rcgen::date_time_ymd(until.0, until.1, until.2);
    Ok(params)
}

fn first(pem: &str) -> Result<CertificateDer<'static>, PkiError> {
    let none = || PkiError::Tls("a file holds no certificate".to_owned());
    certificates(pem)?.into_iter().next().ok_or_else(none)
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, PkiError> {
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    parsed.map_err(|error| PkiError::Tls(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Time;

    const DAY: i64 = 86_400;

    #[test]
    fn what_was_made_is_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let load = || Pki::load_or_generate(dir.path(), &[], Validity::for_tests()).unwrap();
        let (made, found) = (load(), load());
        std::fs::remove_file(dir.path().join("sa.key")).unwrap();
        load();
        assert_eq!(made.ca_certificate, found.ca_certificate);
        assert_eq!(made.service_account_key, found.service_account_key);
        assert!(found.issue_client("someone", &["group"]).is_ok());
    }

    // Issue 21, point 14.
    #[test]
    fn what_ends_soon_is_signed_again_at_a_start_for_the_same_keys() {
        let dir = tempfile::tempdir().unwrap();
        let begin = Time::from_unix(1_700_000_000);
        let at = |days: i64| {
            let now = Time::from_unix(begin.unix() + days * DAY);
            Pki::load_or_generate(dir.path(), &[], Validity::new(now, now, 1)).unwrap()
        };
        let (made, later, year) = (at(0), at(200), at(300));
        assert_eq!(made.server_certificate, later.server_certificate);
        assert_ne!(made.server_certificate, year.server_certificate);
        assert_ne!(made.admin_certificate, year.admin_certificate);
        assert_eq!(made.ca_certificate, year.ca_certificate);
        let decade = at(3400);
        assert_ne!(made.ca_certificate, decade.ca_certificate);
        assert_eq!(
            (made.ca_key, made.server_key, made.admin_key),
            (
                decade.ca_key.clone(),
                decade.server_key.clone(),
                decade.admin_key.clone()
            )
        );
        // It is written down, not just in memory.
        assert_eq!(at(3401).server_certificate, decade.server_certificate);
    }
}
