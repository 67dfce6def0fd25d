//! Go's names for TLS versions, cipher suites and curves, as the --tls-* flags use them.

use rustls::crypto::{SupportedKxGroup, ring};
use rustls::{CipherSuite, SupportedCipherSuite};

use crate::flags::Parsed;

/// Suites that this build has: name on the command line, and what it stands for.
const SUPPORTED: &[(&str, CipherSuite)] = &[
    (
        "TLS_AES_128_GCM_SHA256",
        CipherSuite::TLS13_AES_128_GCM_SHA256,
    ),
    (
        "TLS_AES_256_GCM_SHA384",
        CipherSuite::TLS13_AES_256_GCM_SHA384,
    ),
    (
        "TLS_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
];

/// Suites that Go knows and that manifests may name, but that are too weak to be built in: accepted, never used.
const WEAK: &[&str] = &[
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];

pub fn supported_suites() -> Vec<&'static str> {
    SUPPORTED.iter().map(|(name, _)| *name).collect()
}

/// The suites to offer. TLS 1.3 ones are always in, as in Go, where the flag does not govern them.
pub(crate) fn suites(names: &[String]) -> Vec<SupportedCipherSuite> {
    let wanted = |suite: CipherSuite| {
        SUPPORTED
            .iter()
            .any(|(name, known)| *known == suite && names.iter().any(|wanted| wanted == name))
    };
    ring::ALL_CIPHER_SUITES
        .iter()
        .copied()
        .filter(|suite| names.is_empty() || suite.tls13().is_some() || wanted(suite.suite()))
        .collect()
}

/// Key exchange groups by Go's CurveID, which is the number TLS itself uses.
pub(crate) fn curves(ids: &[i32]) -> Vec<&'static dyn SupportedKxGroup> {
    let wanted = |group: &&'static dyn SupportedKxGroup| {
        ids.is_empty() || ids.contains(&i32::from(u16::from(group.name())))
    };
    ring::ALL_KX_GROUPS.iter().copied().filter(wanted).collect()
}

pub(crate) fn check_suites(names: &[String]) -> Result<(), String> {
    let known = |name: &String| {
        SUPPORTED.iter().any(|(known, _)| known == name) || WEAK.iter().any(|known| known == name)
    };
    match names.iter().find(|name| !known(name)) {
        Some(name) => Err(format!(
            "Cipher suite {name} not supported or doesn't exist; supported are {}",
            supported_suites().join(", ")
        )),
        None => Ok(()),
    }
}

/// X25519MLKEM768 (4588) and P-521 (25) are Go's too: accepted, and passed over when others are listed.
pub(crate) fn check_curves(ids: &[String]) -> Result<(), String> {
    let ids: Vec<i32> = ids.iter().filter_map(|id| id.parse().ok()).collect();
    match ids
        .iter()
        .find(|id| !matches!(id, 23 | 24 | 25 | 29 | 4588))
    {
        Some(id) => Err(format!(
            "curve {id} is not known; use 23 (P-256), 24 (P-384) or 29 (X25519)"
        )),
        None if !ids.is_empty() && curves(&ids).is_empty() => Err(
            "none of the listed curves is supported; use 23 (P-256), 24 (P-384) or 29 (X25519)"
                .into(),
        ),
        None => Ok(()),
    }
}

pub(crate) fn check_min_version(name: &str) -> Result<(), String> {
    match name {
        "" | "VersionTLS10" | "VersionTLS11" | "VersionTLS12" | "VersionTLS13" => Ok(()),
        _ => Err(format!(
            "unknown tls version {name:?}; use VersionTLS12 or VersionTLS13"
        )),
    }
}

/// What of the --tls-* flags is accepted but weaker than what is served.
pub fn warnings(flags: &Parsed) -> Vec<String> {
    let mut warnings = Vec::new();
    if matches!(
        flags.text("tls-min-version"),
        "VersionTLS10" | "VersionTLS11"
    ) {
        warnings.push(
            "Flag --tls-min-version: TLS versions before 1.2 are not served; using VersionTLS12"
                .into(),
        );
    }
    let listed = flags.list("tls-cipher-suites");
    let weak: Vec<_> = WEAK
        .iter()
        .copied()
        .filter(|weak| listed.iter().any(|name| name == weak))
        .collect();
    if !weak.is_empty() {
        warnings.push(format!(
            "Flag --tls-cipher-suites: weak suites are not served: {}",
            weak.join(", ")
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_suites_are_served_beside_tls13() {
        let names = [
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256".to_owned(),
            "TLS_RSA_WITH_AES_128_CBC_SHA".to_owned(),
        ];
        assert_eq!(check_suites(&names), Ok(()));
        let served = suites(&names);
        assert_eq!(
            served
                .iter()
                .filter(|suite| suite.tls13().is_none())
                .count(),
            1
        );
        assert_eq!(
            served
                .iter()
                .filter(|suite| suite.tls13().is_some())
                .count(),
            3
        );
        assert_eq!(suites(&[]).len(), ring::ALL_CIPHER_SUITES.len());
    }

    #[test]
    fn every_supported_name_stands_for_a_suite_of_the_library() {
        for (name, suite) in SUPPORTED {
            assert!(
                ring::ALL_CIPHER_SUITES
                    .iter()
                    .any(|known| known.suite() == *suite),
                "{name}"
            );
        }
    }

    #[test]
    fn unknown_names_are_refused() {
        assert!(
            check_suites(&["NULL".into()])
                .unwrap_err()
                .starts_with("Cipher suite NULL not supported")
        );
        assert!(check_curves(&["7".into()]).is_err());
        assert!(check_curves(&["25".into()]).is_err());
        assert_eq!(check_curves(&["25".into(), "29".into()]), Ok(()));
        assert_eq!(curves(&[29]).len(), 1);
        assert!(check_min_version("TLS1.2").is_err());
    }
}
