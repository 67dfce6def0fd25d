//! Where an authority comes from, and that it is the newest one.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use api::Time;
use parking_lot::Mutex;
use ring::digest::{self, Digest};

use super::authority::{Authority, BadAuthority, validity};
use crate::certificates::Signer;
use crate::config::{CsrSigning, SignerFiles};

/// A certificate and a key in PEM: in files, which may be replaced at any time, or given once and for all. No `Debug`:
/// keys must not be printed.
#[derive(Clone)]
pub enum CaSource {
    Files {
        certificate: PathBuf,
        key: PathBuf,
    },
    Fixed {
        certificate: Arc<str>,
        key: Arc<str>,
    },
}

/// Why there is no authority.
#[derive(Debug, thiserror::Error)]
pub enum CaError {
    #[error("error reading CA file {path:?}: {source}")]
    Unreadable {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(
        "error reading CA file {path:?}: it has {size} bytes, more than the {LARGEST_BYTES} allowed"
    )]
    TooLarge { path: PathBuf, size: u64 },
    #[error("error reading CA {origin}: {source}")]
    Bad {
        origin: String,
        source: BadAuthority,
    },
}

/// No certificate and no key comes near this, and a wrong path must not fill the memory.
const LARGEST_BYTES: u64 = 1 << 20;

/// The authority of one signer, read again whenever what it comes from has changed.
pub struct CaProvider {
    source: CaSource,
    held: Mutex<Option<Held>>,
}

struct Held {
    /// Of certificate and key: the texts themselves are not kept.
    digests: [Digest; 2],
    authority: Arc<Authority>,
}

/// Which signers have an authority, and where it comes from. If any signer has files of its own, those that have none do
/// not sign; else all share what is given for the cluster, or what came with the process.
pub fn sources(config: &CsrSigning, built_in: Option<&CaSource>) -> Vec<(Signer, CaSource)> {
    let own = |signer: Signer| match signer {
        Signer::KubeletServing => &config.kubelet_serving,
        Signer::KubeletClient => &config.kubelet_client,
        Signer::ApiServerClient => &config.kube_apiserver_client,
        Signer::LegacyUnknown => &config.legacy_unknown,
    };
    let is_given = |files: &SignerFiles| !files.cert_file.is_empty() || !files.key_file.is_empty();
    let specific: Vec<(Signer, CaSource)> = Signer::ALL
        .into_iter()
        .filter(|signer| is_given(own(*signer)))
        .map(|signer| {
            let files = own(signer);
            (signer, CaSource::files(&files.cert_file, &files.key_file))
        })
        .collect();
    if !specific.is_empty() {
        return specific;
    }
    let (certificate, key) = (
        &config.cluster_signing_cert_file,
        &config.cluster_signing_key_file,
    );
    let common = match certificate.is_empty() || key.is_empty() {
        true => built_in.cloned(),
        false => Some(CaSource::files(certificate, key)),
    };
    let Some(common) = common else {
        return Vec::new();
    };
    Signer::ALL.map(|signer| (signer, common.clone())).to_vec()
}

impl CaSource {
    fn files(certificate: &str, key: &str) -> CaSource {
        CaSource::Files {
            certificate: certificate.into(),
            key: key.into(),
        }
    }

    fn read(&self) -> Result<[Vec<u8>; 2], CaError> {
        match self {
            // Two small files, and nobody else waits for this worker.
            CaSource::Files { certificate, key } => Ok([read(certificate)?, read(key)?]),
            CaSource::Fixed { certificate, key } => {
                Ok([certificate.as_bytes().to_vec(), key.as_bytes().to_vec()])
            }
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, CaError> {
    let unreadable = |source| CaError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let found = std::fs::metadata(path).map_err(unreadable)?;
    // A pipe would be waited for, and everybody with it.
    if !found.is_file() {
        return Err(unreadable(std::io::Error::other("it is no regular file")));
    }
    let size = found.len();
    if size > LARGEST_BYTES {
        return Err(CaError::TooLarge {
            path: path.to_owned(),
            size,
        });
    }
    std::fs::read(path).map_err(unreadable)
}

impl fmt::Display for CaSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CaSource::Files { certificate, key } => {
                write!(f, "{} with {}", certificate.display(), key.display())
            }
            CaSource::Fixed { .. } => f.write_str("of the cluster"),
        }
    }
}

impl CaProvider {
    pub fn new(source: CaSource) -> CaProvider {
        CaProvider {
            source,
            held: Mutex::new(None),
        }
    }

    /// The authority as it is now. One that was good stays while what takes its place cannot be read: files are replaced
    /// one after the other.
    pub fn current(&self) -> Result<Arc<Authority>, CaError> {
        let mut held = self.held.lock();
        match (self.reload(held.as_ref()), &*held) {
            (Ok(Some(fresh)), _) => Ok(held.insert(fresh).authority.clone()),
            (Ok(None), Some(held)) => Ok(held.authority.clone()),
            (Err(error), Some(held)) => {
                tracing::warn!(%error, "cannot read the CA, the last one is used");
                Ok(held.authority.clone())
            }
            (Err(error), None) => Err(error),
            (Ok(None), None) => unreachable!("nothing is unchanged that was never read"),
        }
    }

    /// Why nothing could be signed now: no authority could be read yet, or it has ended. One that was good is not read again
    /// for this.
    pub fn fault(&self, now: Time) -> Option<String> {
        let held = self.held.lock().as_ref().map(|held| held.authority.clone());
        match held.map_or_else(|| self.current(), Ok) {
            Ok(authority) => {
                let refusal = validity(now, Duration::ZERO, authority.not_after).err();
                refusal.map(|refusal| refusal.to_string())
            }
            Err(error) => Some(error.to_string()),
        }
    }

    /// None if it has not changed.
    fn reload(&self, held: Option<&Held>) -> Result<Option<Held>, CaError> {
        let texts = self.source.read()?;
        let digests = [&texts[0], &texts[1]].map(|text| digest::digest(&digest::SHA256, text));
        let is_same = |held: &Held| {
            let pairs = held.digests.iter().zip(&digests);
            pairs
                .into_iter()
                .all(|(one, two)| one.as_ref() == two.as_ref())
        };
        if held.is_some_and(is_same) {
            return Ok(None);
        }
        let authority = Authority::from_pem(&texts[0], &texts[1]);
        let authority = authority.map_err(|source| CaError::Bad {
            origin: self.source.to_string(),
            source,
        })?;
        Ok(Some(Held {
            digests,
            authority: Arc::new(authority),
        }))
    }
}
