//! The certificates and keys of one test cluster, made fresh for each.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

/// A certificate authority whose files lie in one folder.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
}

/// A certificate with its key, as PEM text and as files.
#[derive(Clone, Debug)]
pub struct Identity {
    pub certificate: String,
    pub key: String,
    pub certificate_file: PathBuf,
    pub key_file: PathBuf,
}

impl Authority {
    /// Creates the folder and in it `ca.crt` and `ca.key`.
    pub fn create(folder: &Path) -> Result<Authority> {
        std::fs::create_dir_all(folder)?;
        let mut parameters = CertificateParams::default();
        parameters
            .distinguished_name
            .push(DnType::CommonName, "steersman-test-authority");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let issuer = CertifiedIssuer::self_signed(parameters, KeyPair::generate()?)?;
        write(&folder.join("ca.crt"), &issuer.pem())?;
        write(&folder.join("ca.key"), &issuer.key().serialize_pem())?;
        Ok(Authority {
            issuer,
            folder: folder.to_owned(),
        })
    }

    pub fn certificate(&self) -> String {
        self.issuer.pem()
    }

    pub fn certificate_file(&self) -> PathBuf {
        self.folder.join("ca.crt")
    }

    pub fn key_file(&self) -> PathBuf {
        self.folder.join("ca.key")
    }

    /// A serving certificate for loopback and the names that pods use for the API server.
    pub fn server(&self, name: &str) -> Result<Identity> {
        let names = [
            "localhost",
            "127.0.0.1",
            "10.0.0.1",
            "kubernetes",
            "kubernetes.default.svc",
        ];
        let mut parameters = CertificateParams::new(names.map(str::to_owned).to_vec())?;
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(name, parameters)
    }

    /// A client certificate: the user is its common name, the groups are its organizations.
    pub fn client(&self, file: &str, user: &str, group: Option<&str>) -> Result<Identity> {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            parameters
                .distinguished_name
                .push(DnType::OrganizationName, group);
        }
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(file, parameters)
    }

    /// A signing request for such a certificate, as a node sends it: PEM within base64.
    pub fn request(&self, user: &str, group: Option<&str>) -> Result<String> {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            parameters
                .distinguished_name
                .push(DnType::OrganizationName, group);
        }
        let request = parameters.serialize_request(&KeyPair::generate()?)?;
        Ok(STANDARD.encode(request.pem()?))
    }

    /// A bare key, such as the one that signs service account tokens: `<file>.key` and `<file>.pub`.
    pub fn signing_key(&self, file: &str) -> Result<PathBuf> {
        let path = self.folder.join(format!("{file}.key"));
        let key = KeyPair::generate()?;
        write(&path, &key.serialize_pem())?;
        write(&path.with_extension("pub"), &key.public_key_pem())?;
        Ok(path)
    }

    fn issue(&self, file: &str, mut parameters: CertificateParams) -> Result<Identity> {
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let certificate = parameters.signed_by(&key, &self.issuer)?;
        let identity = Identity {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            certificate_file: self.folder.join(format!("{file}.crt")),
            key_file: self.folder.join(format!("{file}.key")),
        };
        write(&identity.certificate_file, &identity.certificate)?;
        write(&identity.key_file, &identity.key)?;
        Ok(identity)
    }
}

/// A server that runs and reads its file again must not see half of it.
fn write(path: &Path, text: &str) -> Result<()> {
    let partial = path.with_extension("partial");
    std::fs::write(&partial, text)
        .and_then(|()| std::fs::rename(&partial, path))
        .with_context(|| format!("cannot write {}", path.display()))
}
