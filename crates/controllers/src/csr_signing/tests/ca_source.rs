//! Which files count for whom, and that a new CA is used.

use std::path::Path;
use std::process::{Command, Stdio};

use api::GoDuration;
use rcgen::{CertificateParams, KeyPair};

use super::super::{CaProvider, CaSource, sources};
use super::{CA_CERTIFICATE, CA_KEY};
use crate::config::{CsrSigning, SignerFiles};

fn config(common: (&str, &str), serving: (&str, &str)) -> CsrSigning {
    let none = SignerFiles::default;
    CsrSigning {
        cluster_signing_cert_file: common.0.into(),
        cluster_signing_key_file: common.1.into(),
        kubelet_serving: SignerFiles {
            cert_file: serving.0.into(),
            key_file: serving.1.into(),
        },
        kubelet_client: none(),
        kube_apiserver_client: none(),
        legacy_unknown: none(),
        cluster_signing_duration: GoDuration::from_secs(3600),
    }
}

fn check(common: (&str, &str), serving: (&str, &str), built_in: bool, expected: &str) {
    let built_in = built_in.then(|| CaSource::Fixed {
        certificate: CA_CERTIFICATE.into(),
        key: CA_KEY.into(),
    });
    let found = sources(&config(common, serving), built_in.as_ref());
    let found: Vec<String> = found
        .iter()
        .map(|(signer, source)| format!("{signer:?}: {source}"))
        .collect();
    assert_eq!(found.join("; "), expected);
}

#[test]
fn files_of_one_signer_take_the_common_ones_from_all() {
    let none = ("", "");
    check(none, none, false, "");
    check(("a", ""), none, false, "");
    check(
        ("a", "b"),
        none,
        true,
        "KubeletServing: a with b; KubeletClient: a with b; ApiServerClient: a with b; LegacyUnknown: a with b",
    );
    check(none, ("c", "d"), true, "KubeletServing: c with d");
    check(none, ("c", ""), false, "KubeletServing: c with ");
    check(
        none,
        none,
        true,
        "KubeletServing: of the cluster; KubeletClient: of the cluster; ApiServerClient: of the cluster; LegacyUnknown: of the cluster",
    );
}

fn write(dir: &Path, certificate: &str, key: &str) {
    std::fs::write(dir.join("ca.crt"), certificate).unwrap();
    std::fs::write(dir.join("ca.key"), key).unwrap();
}

#[test]
fn a_ca_is_read_again_and_the_last_good_one_stays() {
    let dir = tempfile::tempdir().unwrap();
    let provider = CaProvider::new(CaSource::Files {
        certificate: dir.path().join("ca.crt"),
        key: dir.path().join("ca.key"),
    });
    let refused = provider.current().err().unwrap().to_string();
    assert!(refused.starts_with("error reading CA file"), "{refused}");
    write(dir.path(), CA_CERTIFICATE, CA_KEY);
    let first = provider.current().unwrap();
    assert!(std::sync::Arc::ptr_eq(&first, &provider.current().unwrap()));

    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new([]).unwrap();
    params.not_after = rcgen::date_time_ymd(2030, 1, 1);
    let other = params.self_signed(&key).unwrap();
    // The certificate is new, the key is still the old one.
    write(dir.path(), &other.pem(), CA_KEY);
    assert!(std::sync::Arc::ptr_eq(&first, &provider.current().unwrap()));
    write(dir.path(), &other.pem(), &key.serialize_pem());
    let second = provider.current().unwrap();
    assert_eq!(second.not_after.to_string(), "2030-01-01T00:00:00Z");
    std::fs::remove_file(dir.path().join("ca.key")).unwrap();
    assert!(std::sync::Arc::ptr_eq(
        &second,
        &provider.current().unwrap()
    ));
}

/// To be read, a pipe would have to be written to by somebody first, and everybody would wait for them.
#[test]
fn what_is_no_file_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), CA_CERTIFICATE, CA_KEY);
    let pipe = dir.path().join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    // If it was read after all, this ends the reading.
    let mut writer = Command::new("tee")
        .arg(&pipe)
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    for certificate in [pipe.as_path(), dir.path()] {
        let provider = CaProvider::new(CaSource::Files {
            certificate: certificate.to_owned(),
            key: dir.path().join("ca.key"),
        });
        let refused = provider.current().err().unwrap().to_string();
        assert!(refused.contains("it is no regular file"), "{refused}");
    }
    writer.kill().unwrap();
    writer.wait().unwrap();
}

/// Nobody is there to be asked for its passphrase.
#[test]
fn an_encrypted_key_says_how_to_decrypt_it() {
    let encrypted = CA_KEY.replace("BEGIN PRIVATE", "BEGIN ENCRYPTED PRIVATE");
    let provider = CaProvider::new(CaSource::Fixed {
        certificate: CA_CERTIFICATE.into(),
        key: encrypted
            .replace("END PRIVATE", "END ENCRYPTED PRIVATE")
            .into(),
    });
    let refused = provider.current().err().unwrap().to_string();
    assert_eq!(
        refused,
        "error reading CA of the cluster: the CA key: it is encrypted, and nobody is there to give the passphrase: decrypt it by `openssl pkey -in FILE -out DECRYPTED`"
    );
}

#[test]
fn a_file_that_is_far_too_large_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let file = std::fs::File::create(dir.path().join("ca.crt")).unwrap();
    file.set_len(1 << 40).unwrap();
    write(dir.path(), CA_CERTIFICATE, CA_KEY);
    let large = std::fs::File::create(dir.path().join("ca.crt")).unwrap();
    large.set_len(1 << 40).unwrap();
    let provider = CaProvider::new(CaSource::Files {
        certificate: dir.path().join("ca.crt"),
        key: dir.path().join("ca.key"),
    });
    let refused = provider.current().err().unwrap().to_string();
    assert!(
        refused.contains("more than the 1048576 allowed"),
        "{refused}"
    );
}
