//! Serving certificates: given (and read again when they change) or self-signed, by the name a client asks for.

use parking_lot::RwLock;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use connections::AnyClientCertificate;
use connections::certificate::Roots;
use rcgen::{CertificateParams, KeyPair, SanType};
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert, ServerConfig};
use rustls::sign::CertifiedKey;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tracing::{error, info, warn};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::error::Error;
use crate::options::ServingOptions;
use crate::{files, tls_names};

/// All serving certificates.
#[derive(Debug)]
pub struct Certificates {
    default: Slot,
    /// --tls-sni-cert-key, in order.
    named: Vec<Slot>,
}

/// One certificate and where it came from.
#[derive(Debug)]
struct Slot {
    flag: &'static str,
    files: Option<(PathBuf, PathBuf)>,
    /// Names given on the command line; empty means those in the certificate.
    names: Vec<String>,
    current: RwLock<Loaded>,
}

#[derive(Clone, Debug)]
struct Loaded {
    key: Arc<CertifiedKey>,
    names: Vec<String>,
    fingerprint: Fingerprint,
}

/// Changes with the files' contents, as far as sizes and times tell.
type Fingerprint = Vec<Option<(u64, SystemTime)>>;

/// Certificate files are looked at this often.
const RELOAD_PERIOD: Duration = Duration::from_secs(10);

/// The TLS settings for the secure port, and the certificates behind them to keep up to date. Clients are told of the
/// authorities that are announced.
pub fn configure(
    options: &ServingOptions,
    clock: &api::Clock,
    announced: &[&Roots],
) -> Result<(Arc<ServerConfig>, Arc<Certificates>), Error> {
    let provider = Arc::new(CryptoProvider {
        cipher_suites: tls_names::suites(&options.cipher_suites),
        kx_groups: tls_names::curves(&options.curves),
        ..rustls::crypto::ring::default_provider()
    });
    let certificates = Arc::new(Certificates::load(options, clock)?);
    let versions: &[_] = match options.tls13_only {
        true => &[&rustls::version::TLS13],
        false => &[&rustls::version::TLS13, &rustls::version::TLS12],
    };
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .map_err(|error| Error::Setting {
            flag: "tls-cipher-suites",
            problem: error.to_string(),
        })?;
    let resolver: Arc<dyn ResolvesServerCert> = Arc::<Certificates>::clone(&certificates);
    let verifier = AnyClientCertificate::new(&provider).announcing(announced.iter().copied());
    let mut config = builder
        .with_client_cert_verifier(Arc::new(verifier))
        .with_cert_resolver(resolver);
    config.alpn_protocols = match options.http2 {
        true => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        false => vec![b"http/1.1".to_vec()],
    };
    Ok((Arc::new(config), certificates))
}

impl Certificates {
    fn load(options: &ServingOptions, clock: &api::Clock) -> Result<Certificates, Error> {
        let default = match (&options.certificate, &options.cert_dir) {
            (Some(pair), _) => Slot::from_files("tls-cert-file", pair.clone(), Vec::new(), clock)?,
            (None, Some(directory)) => {
                let pair = (
                    directory.join(format!("{}.crt", options.pair_name)),
                    directory.join(format!("{}.key", options.pair_name)),
                );
                if !(pair.0.exists() && pair.1.exists()) {
                    write_self_signed(options, clock, &pair)?;
                }
                Slot::from_files("cert-dir", pair, Vec::new(), clock)?
            }
            (None, None) => {
                let (certificate, key) = self_signed(options, clock)?;
                info!("Generated self-signed cert in-memory");
                let der = PrivateKeyDer::Pkcs8(key.serialize_der().into());
                Slot::from_pair(vec![certificate.der().clone()], der)?
            }
        };
        let named = options.sni.iter().map(|pair| {
            let files = (PathBuf::from(&pair.certificate), PathBuf::from(&pair.key));
            Slot::from_files("tls-sni-cert-key", files, pair.names.clone(), clock)
        });
        Ok(Certificates {
            default,
            named: named.collect::<Result<_, _>>()?,
        })
    }

    /// Reads changed files again, for ever. A pair that does not work leaves the old one in place.
    pub async fn follow(&self, clock: &api::Clock) {
        loop {
            tokio::time::sleep(RELOAD_PERIOD).await;
            for slot in self.named.iter().chain([&self.default]) {
                slot.reload(clock);
            }
        }
    }

    /// UPSTREAM: an exact name beats a wildcard, and earlier pairs beat later ones.
    fn find(&self, name: Option<&str>) -> Arc<CertifiedKey> {
        let name = name.unwrap_or_default().to_ascii_lowercase();
        let wildcard = name.split_once('.').map(|(_, rest)| format!("*.{rest}"));
        let slot_for = |wanted: &str| self.named.iter().find(|slot| slot.has_name(wanted));
        let slot = slot_for(&name).or_else(|| wildcard.as_deref().and_then(slot_for));
        slot.unwrap_or(&self.default).current().key
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.find(hello.server_name()))
    }
}

impl Slot {
    fn from_files(
        flag: &'static str,
        files: (PathBuf, PathBuf),
        names: Vec<String>,
        clock: &api::Clock,
    ) -> Result<Slot, Error> {
        let loaded = Loaded::read(flag, &files, clock)?;
        Ok(Slot {
            flag,
            files: Some(files),
            names,
            current: RwLock::new(loaded),
        })
    }

    fn from_pair(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Slot, Error> {
        let flag = "tls-cert-file";
        let loaded = Loaded::new(chain, key, Vec::new())
            .map_err(|problem| Error::Setting { flag, problem })?;
        Ok(Slot {
            flag,
            files: None,
            names: Vec::new(),
            current: RwLock::new(loaded),
        })
    }

    fn current(&self) -> Loaded {
        self.current.read().clone()
    }

    fn has_name(&self, wanted: &str) -> bool {
        let matches = |names: &[String]| names.iter().any(|name| name.eq_ignore_ascii_case(wanted));
        match self.names.is_empty() {
            true => matches(&self.current().names),
            false => matches(&self.names),
        }
    }

    fn reload(&self, clock: &api::Clock) {
        let Some(files) = &self.files else { return };
        if fingerprint(files) == self.current().fingerprint {
            return;
        }
        match Loaded::read(self.flag, files, clock) {
            Ok(loaded) => {
                info!(certificate = %files.0.display(), "Serving certificate changed and was read again");
                *self.current.write() = loaded;
            }
            // Half-written files are common; the next look finds them whole.
            Err(error) => warn!(
                error = client::describe(&error),
                "Changed serving certificate is not usable"
            ),
        }
    }
}

impl Loaded {
    fn read(
        flag: &'static str,
        files: &(PathBuf, PathBuf),
        clock: &api::Clock,
    ) -> Result<Loaded, Error> {
        let fingerprint = fingerprint(files);
        let chain = files::read_certificates(flag, &files.0)?;
        let bad = |flag, path: &Path, problem| Error::BadFile {
            flag,
            path: path.to_owned(),
            problem,
        };
        let expired = expiry(&chain[0], clock).map_err(|problem| bad(flag, &files.0, problem))?;
        if let Some(problem) = expired {
            // UPSTREAM: served all the same: a control plane that does not start cannot renew anything.
            error!(certificate = %files.0.display(), problem, "Serving an expired certificate");
        }
        // Certificate and key have flags of their own, except where one flag names both.
        let key_flag = match flag {
            "tls-cert-file" => "tls-private-key-file",
            flag => flag,
        };
        let key = files::read_private_key(key_flag, &files.1)?;
        Loaded::new(chain, key, fingerprint).map_err(|problem| bad(key_flag, &files.1, problem))
    }

    fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        fingerprint: Fingerprint,
    ) -> Result<Loaded, String> {
        let names = certificate_names(&chain[0]);
        let provider = rustls::crypto::ring::default_provider();
        let key = CertifiedKey::from_der(chain, key, &provider)
            .map_err(|_| "is not the private key of the certificate".to_owned())?;
        Ok(Loaded {
            key: Arc::new(key),
            names,
            fingerprint,
        })
    }
}

fn fingerprint(files: &(PathBuf, PathBuf)) -> Fingerprint {
    let of = |path: &PathBuf| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.len(), metadata.modified().ok()?))
    };
    vec![of(&files.0), of(&files.1)]
}

/// Whether a certificate has expired, in words; an error if it is none.
fn expiry(certificate: &CertificateDer<'_>, clock: &api::Clock) -> Result<Option<String>, String> {
    let (_, parsed) = X509Certificate::from_der(certificate)
        .map_err(|_| "holds a certificate that cannot be parsed".to_owned())?;
    let expires = parsed.validity().not_after;
    let is_past = expires.timestamp() < clock.now().time().unix();
    Ok(is_past.then(|| format!("it expired on {expires}; renew it")))
}

/// DNS names and addresses, or the common name of a certificate that has neither.
fn certificate_names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else {
        return Vec::new();
    };
    let alternatives = parsed.subject_alternative_name().ok().flatten();
    let mut names: Vec<String> = alternatives
        .iter()
        .flat_map(|extension| &extension.value.general_names)
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        })
        .collect();
    if names.is_empty() {
        let common = parsed
            .subject()
            .iter_common_name()
            .filter_map(|name| name.as_str().ok());
        names.extend(common.map(str::to_owned));
    }
    names
}

fn self_signed(
    options: &ServingOptions,
    clock: &api::Clock,
) -> Result<(rcgen::Certificate, KeyPair), Error> {
    let failed = |error: rcgen::Error| Error::Setting {
        flag: "tls-cert-file",
        problem: format!("cannot generate a self-signed certificate: {error}"),
    };
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).map_err(failed)?;
    let loopback = IpAddr::from([127, 0, 0, 1]);
    let bound = options
        .address
        .map(|address| address.ip())
        .filter(|ip| !ip.is_unspecified());
    for address in [Some(loopback), bound.filter(|ip| *ip != loopback)]
        .into_iter()
        .flatten()
    {
        params.subject_alt_names.push(SanType::IpAddress(address));
    }
    // From yesterday, for clients whose clock is behind, and for longer than any process runs.
    let (year, month, day) =
        crate::logging::civil_date(clock.now().time().unix().div_euclid(86_400) - 1);
    let date = |years: i64| {
        let number = |n: i64| u8::try_from(n).unwrap_or(1);
        // The 28th exists in every month of every year.
        rcgen::date_time_ymd(
            i32::try_from(year + years).unwrap_or(2000),
            number(month),
            number(day.min(28)),
        )
    };
    (params.not_before, params.not_after) = (date(0), date(10));
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = params.self_signed(&key).map_err(failed)?;
    Ok((certificate, key))
}

fn write_self_signed(
    options: &ServingOptions,
    clock: &api::Clock,
    pair: &(PathBuf, PathBuf),
) -> Result<(), Error> {
    use std::os::unix::fs::OpenOptionsExt;
    let (certificate, key) = self_signed(options, clock)?;
    let failed = |path: &Path, source| Error::Unreadable {
        flag: "cert-dir",
        path: path.to_owned(),
        source,
    };
    if let Some(directory) = pair.0.parent() {
        std::fs::create_dir_all(directory).map_err(|source| failed(directory, source))?;
    }
    for (path, text, mode) in [
        (&pair.0, certificate.pem(), 0o644),
        (&pair.1, key.serialize_pem(), 0o600),
    ] {
        let mut file = std::fs::OpenOptions::new();
        let file = file
            .write(true)
            .create(true)
            .truncate(true)
            .mode(mode)
            .open(path);
        file.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()))
            .map_err(|source| failed(path, source))?;
    }
    info!(certificate = %pair.0.display(), key = %pair.1.display(), "Generated self-signed cert");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::NamedCertKey;
    use crate::options::{Command, Options};

    fn options() -> ServingOptions {
        match Options::parse(["--bind-address=127.0.0.1"], "x") {
            Ok(Command::Run(options)) => options.serving,
            other => panic!("{other:?}"),
        }
    }

    fn clock() -> api::Clock {
        // 2026-11-15
        api::Clock::fixed(api::Time::from_unix(1_794_716_493))
    }

    /// Writes a pair for `names` that ends in `year`.
    fn write_pair(directory: &Path, name: &str, names: &[&str], year: i32) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let files = (
            directory.join(format!("{name}.crt")),
            directory.join(format!("{name}.key")),
        );
        std::fs::write(&files.0, params.self_signed(&key).unwrap().pem()).unwrap();
        std::fs::write(&files.1, key.serialize_pem()).unwrap();
        files
    }

    fn names_of(key: &CertifiedKey) -> Vec<String> {
        certificate_names(&key.cert[0])
    }

    #[test]
    fn without_files_it_signs_its_own() {
        let certificates = Certificates::load(&options(), &clock()).unwrap();
        assert_eq!(names_of(&certificates.find(None)), ["localhost"]);
        assert_eq!(expiry(&certificates.find(None).cert[0], &clock()), Ok(None));
    }

    #[test]
    fn a_directory_keeps_what_was_signed() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let options = ServingOptions {
            cert_dir: Some(directory.to_owned()),
            ..options()
        };
        let first = Certificates::load(&options, &clock()).unwrap().find(None);
        let second = Certificates::load(&options, &clock()).unwrap().find(None);
        assert_eq!(first.cert, second.cert);
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &directory
                .join("kube-controller-manager.key")
                .metadata()
                .unwrap()
                .permissions(),
        );
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn names_choose_the_certificate() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let pair = |name: &str, names: &[&str], given: &[&str]| {
            let (certificate, key) = write_pair(directory, name, names, 2999);
            let text = |path: PathBuf| path.to_str().unwrap().to_owned();
            NamedCertKey {
                certificate: text(certificate),
                key: text(key),
                names: given.iter().map(|name| (*name).to_owned()).collect(),
            }
        };
        let sni = vec![
            pair("wild", &["*.example.com"], &[]),
            pair("exact", &["a.example.com"], &[]),
            pair("given", &["ignored"], &["b.test"]),
        ];
        let certificates =
            Certificates::load(&ServingOptions { sni, ..options() }, &clock()).unwrap();
        for (asked, expected) in [
            (Some("a.example.com"), "a.example.com"),
            (Some("B.EXAMPLE.COM"), "*.example.com"),
            (Some("x.b.example.com"), "localhost"),
            (Some("b.test"), "ignored"),
            (Some("ignored"), "localhost"),
            (None, "localhost"),
        ] {
            assert_eq!(names_of(&certificates.find(asked)), [expected], "{asked:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn changed_files_are_read_again_and_broken_ones_passed_over() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let files = write_pair(directory, "x", &["one"], 2999);
        let options = ServingOptions {
            certificate: Some(files.clone()),
            ..options()
        };
        let certificates = Certificates::load(&options, &clock()).unwrap();
        std::fs::write(&files.1, "broken").unwrap();
        certificates.default.reload(&clock());
        assert_eq!(names_of(&certificates.find(None)), ["one"]);
        write_pair(directory, "x", &["second"], 2999);
        let clock = clock();
        let _ = tokio::time::timeout(Duration::from_secs(11), certificates.follow(&clock)).await;
        assert_eq!(names_of(&certificates.find(None)), ["second"]);
    }

    /// kubeadm's keys are RSA, others' are elliptic, and each comes in two envelopes.
    #[test]
    fn keys_of_either_kind_and_in_either_envelope_are_served() {
        macro_rules! pem {
            ($name:literal) => {
                include_str!(concat!(
                    "../../../controllers/src/service_account_token/testdata/",
                    $name
                ))
            };
        }
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        for (plain, own) in [
            (pem!("rsa_pkcs8.pem"), pem!("rsa_pkcs1.pem")),
            (pem!("ec_pkcs8.pem"), pem!("ec_sec1.pem")),
        ] {
            let key = KeyPair::from_pem(plain).unwrap();
            let params = CertificateParams::new(vec!["served".to_owned()]).unwrap();
            let certificate = directory.join("x.crt");
            std::fs::write(&certificate, params.self_signed(&key).unwrap().pem()).unwrap();
            for envelope in [plain, own] {
                let key = directory.join("x.key");
                std::fs::write(&key, envelope).unwrap();
                let options = ServingOptions {
                    certificate: Some((certificate.clone(), key)),
                    ..options()
                };
                let certificates = Certificates::load(&options, &clock()).unwrap();
                assert_eq!(names_of(&certificates.find(None)), ["served"]);
            }
        }
    }

    #[test]
    fn an_expired_certificate_is_served_and_logged() {
        let directory = tempfile::tempdir().unwrap();
        let old = write_pair(directory.path(), "old", &["a"], 2020);
        let options = ServingOptions {
            certificate: Some(old.clone()),
            ..options()
        };
        let served = Certificates::load(&options, &clock()).unwrap().find(None);
        let told = expiry(&served.cert[0], &clock()).unwrap();
        let expected = "it expired on Jan  1 00:00:00 2020 +00:00; renew it";
        assert_eq!(told.as_deref(), Some(expected));
    }

    #[test]
    fn bad_pairs_are_refused_by_name() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let good = write_pair(directory, "good", &["a"], 2999);
        let old = write_pair(directory, "old", &["a"], 2020);
        let load = |certificate: &Path, key: &Path| {
            let pair = Some((certificate.to_owned(), key.to_owned()));
            let options = ServingOptions {
                certificate: pair,
                ..options()
            };
            Certificates::load(&options, &clock())
                .unwrap_err()
                .to_string()
        };
        let mixed = load(&good.0, &old.1);
        assert!(
            mixed.ends_with("old.key is not the private key of the certificate"),
            "{mixed}"
        );
        let missing = load(Path::new("/nonexistent"), &good.1);
        assert!(
            missing.starts_with("--tls-cert-file: cannot read /nonexistent"),
            "{missing}"
        );
    }
}
