//! What is in a certificate, and for how long it holds.

use std::fmt::Write;
use std::time::Duration;

use api::{Istr, Time};
use expect_test::{Expect, expect};
use rcgen::{CertificateParams, DnValue, KeyPair, SanType};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::super::{Authority, Terms, duration, validity};
use super::{CA_CERTIFICATE, CA_KEY, JANE, NODE_SERVING, encoded};
use crate::certificates::Request;

/// New Year 2024.
fn now() -> Time {
    Time::from_unix(1_704_067_200)
}

const HOUR: Duration = Duration::from_secs(3600);

fn sign(authority: &Authority, request: &Request, usages: &[&str], ttl: Duration) -> Vec<u8> {
    let usages: Vec<Istr> = usages.iter().map(|usage| Istr::new(usage)).collect();
    let terms = Terms {
        usages: &usages,
        ttl,
        now: now(),
        serial: 0x80 << 120,
    };
    authority.sign(request, &terms).unwrap().der
}

fn check(pem: &str, usages: &[&str], expected: Expect) {
    let authority = Authority::from_pem(CA_CERTIFICATE.as_bytes(), CA_KEY.as_bytes()).unwrap();
    let der = sign(
        &authority,
        &Request::parse(&encoded(pem)).unwrap(),
        usages,
        HOUR,
    );
    let (_, certificate) = X509Certificate::from_der(&der).unwrap();
    let (_, block) = x509_parser::pem::parse_x509_pem(CA_CERTIFICATE.as_bytes()).unwrap();
    let (_, ca) = X509Certificate::from_der(&block.contents).unwrap();
    certificate.verify_signature(Some(ca.public_key())).unwrap();
    let mut text = format!(
        "{} signed by {}, {} to {}, serial {}\n",
        certificate.subject(),
        certificate.issuer(),
        Time::from_unix(certificate.validity().not_before.timestamp()),
        Time::from_unix(certificate.validity().not_after.timestamp()),
        certificate.raw_serial_as_string(),
    );
    for extension in certificate.extensions() {
        let critical = if extension.critical {
            " (critical)"
        } else {
            ""
        };
        let value: Vec<String> = extension
            .value
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        writeln!(text, "{}{critical}: {}", extension.oid, value.concat()).unwrap();
    }
    expected.assert_eq(&text);
}

// Upstream: TestSigner, TestCertificateAuthority (ca info, key usage, ext key usage).
#[test]
fn a_certificate_says_what_go_would_say() {
    check(
        NODE_SERVING,
        &["server auth", "key encipherment", "digital signature"],
        expect![[r#"
            O=system:nodes, CN=system:node:node-0 signed by CN=kubernetes, 2023-12-31T23:55:00Z to 2024-01-01T01:00:00Z, serial 00:80:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00
            2.5.29.15 (critical): 030205a0
            2.5.29.37: 300a06082b06010505070301
            2.5.29.19 (critical): 3000
            2.5.29.35: 301680142a66a3cefea6fb615d2625fe806a7f6bf1ea4d72
            2.5.29.17: 300e82066e6f64652d3087040a00000a
        "#]],
    );
    check(
        JANE,
        &["client auth"],
        expect![[r#"
        O=dev + O=ops, CN=jane signed by CN=kubernetes, 2023-12-31T23:55:00Z to 2024-01-01T01:00:00Z, serial 00:80:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00
        2.5.29.37: 300a06082b06010505070302
        2.5.29.19 (critical): 3000
        2.5.29.35: 301680142a66a3cefea6fb615d2625fe806a7f6bf1ea4d72
    "#]],
    );
}

// Upstream: TestCertificateAuthority (uri sans).
#[test]
fn all_kinds_of_alternative_names_are_kept_and_other_extensions_dropped() {
    let mut params = CertificateParams::new([]).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.subject_alt_names = vec![
        SanType::URI("help://me@what:8080/where".try_into().unwrap()),
        SanType::IpAddress("fd00::1".parse().unwrap()),
        SanType::Rfc822Name("a@example.com".try_into().unwrap()),
        SanType::DnsName("a.example".try_into().unwrap()),
    ];
    let made = params.serialize_request(&KeyPair::generate().unwrap());
    let request = Request::from_der(made.unwrap().der().to_vec()).unwrap();
    let authority = Authority::from_pem(CA_CERTIFICATE.as_bytes(), CA_KEY.as_bytes()).unwrap();
    let der = sign(&authority, &request, &[], HOUR);
    let (_, certificate) = X509Certificate::from_der(&der).unwrap();
    assert!(!certificate.is_ca());
    let names = certificate.subject_alternative_name().unwrap().unwrap();
    assert!(names.critical, "there is no subject");
    let names: Vec<String> = names
        .value
        .general_names
        .iter()
        .map(|name| name.to_string())
        .collect();
    expect![[r#"
        DNSName(a.example)
        RFC822Name(a@example.com)
        IPAddress(fd:00:00:00:00:00:00:00:00:00:00:00:00:00:00:01)
        URI(help://me@what:8080/where)"#]]
    .assert_eq(&names.join("\n"));
}

// What Go's x509.CreateCertificate makes of such requests.
#[test]
fn an_own_name_needs_no_authority_key_and_a_mapped_address_is_short() {
    let mut params = CertificateParams::new([]).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    let name = DnValue::PrintableString("kubernetes".try_into().unwrap());
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, name);
    let mut ca = params.clone();
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let ca = ca.self_signed(&key).unwrap();
    let authority = Authority::from_pem(ca.pem().as_bytes(), key.serialize_pem().as_bytes());
    let authority = authority.unwrap();
    let has_authority_key = |request: &Request| {
        let der = sign(&authority, request, &[], HOUR);
        let (_, certificate) = X509Certificate::from_der(&der).unwrap();
        let mut extensions = certificate.extensions().iter();
        extensions.any(|held| held.oid.to_id_string() == "2.5.29.35")
    };
    assert!(has_authority_key(&Request::parse(&encoded(JANE)).unwrap()));

    params.subject_alt_names = vec![SanType::IpAddress("::ffff:10.0.0.1".parse().unwrap())];
    let made = params.serialize_request(&KeyPair::generate().unwrap());
    let request = Request::from_der(made.unwrap().der().to_vec()).unwrap();
    assert!(!has_authority_key(&request));
    let der = sign(&authority, &request, &[], HOUR);
    let (_, certificate) = X509Certificate::from_der(&der).unwrap();
    let names = certificate.subject_alternative_name().unwrap().unwrap();
    assert_eq!(
        names.value.general_names,
        [GeneralName::IPAddress(&[10, 0, 0, 1])]
    );
}

#[test]
fn every_kind_of_key_signs() {
    let (_, block) = x509_parser::pem::parse_x509_pem(CA_CERTIFICATE.as_bytes()).unwrap();
    assert!(X509Certificate::from_der(&block.contents).is_ok());
    for algorithm in [
        &rcgen::PKCS_ECDSA_P256_SHA256,
        &rcgen::PKCS_ECDSA_P384_SHA384,
    ] {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let ca = CertificateParams::new([])
            .unwrap()
            .self_signed(&key)
            .unwrap();
        let authority = Authority::from_pem(ca.pem().as_bytes(), key.serialize_pem().as_bytes());
        let request = Request::parse(&encoded(JANE)).unwrap();
        let der = sign(&authority.unwrap(), &request, &["client auth"], HOUR);
        let (_, certificate) = X509Certificate::from_der(&der).unwrap();
        let (_, ca) = X509Certificate::from_der(ca.der()).unwrap();
        certificate.verify_signature(Some(ca.public_key())).unwrap();
    }
}

#[test]
fn years_from_2050_on_are_written_in_four_digits() {
    let authority = Authority::from_pem(CA_CERTIFICATE.as_bytes(), CA_KEY.as_bytes()).unwrap();
    let request = Request::parse(&encoded(JANE)).unwrap();
    let der = sign(&authority, &request, &["client auth"], HOUR * 24 * 365 * 30);
    let (_, certificate) = X509Certificate::from_der(&der).unwrap();
    let end = certificate.validity().not_after;
    assert_eq!(
        Time::from_unix(end.timestamp()).to_string(),
        "2053-12-23T23:55:00Z"
    );
    assert!(end.is_generalizedtime() && certificate.validity().not_before.is_utctime());
    // Beyond what any clock can say.
    let der = sign(&authority, &request, &["client auth"], Duration::MAX / 2);
    let (_, certificate) = X509Certificate::from_der(&der).unwrap();
    assert_eq!(
        certificate.validity().not_after.timestamp(),
        authority.not_after.unix()
    );
}

/// Minutes from now to the end of the authority, and how many minutes are asked for.
fn holds(authority: i64, ttl: u64) -> String {
    let at = |minutes: i64| Time::from_unix(now().unix() + minutes * 60);
    match validity(now(), Duration::from_secs(ttl * 60), at(authority)) {
        Ok((from, to)) => {
            let minutes = |time: Time| (time.unix() - now().unix()) / 60;
            format!("{} to {}", minutes(from), minutes(to))
        }
        Err(refusal) => refusal.to_string(),
    }
}

// Upstream: TestCertificateAuthority (backdate…, truncate expiration, expired ca…).
#[test]
fn short_lives_are_not_cut_and_none_is_longer_than_the_authoritys() {
    assert_eq!(holds(100_000, 60), "-5 to 60");
    assert_eq!(holds(100_000, 1), "-5 to 1");
    assert_eq!(holds(100_000, 479), "-5 to 479");
    assert_eq!(holds(100_000, 480), "-5 to 475");
    assert_eq!(holds(100_000, 1440), "-5 to 1435");
    assert_eq!(holds(1440, 2880), "-5 to 1440");
    assert_eq!(holds(1, 60), "-5 to 1");
    assert_eq!(
        holds(0, 60),
        "refusing to sign a certificate that expired in the past: NotAfter=2024-01-01T00:00:00Z"
    );
    assert_eq!(
        holds(-5, 60),
        "the signer has expired: NotAfter=2023-12-31T23:55:00Z"
    );
}

// Upstream: Test_signer_duration.
#[test]
fn what_is_asked_for_counts_if_it_is_less_and_not_too_little() {
    let seconds = |requested: Option<i32>| duration(requested, HOUR).as_secs();
    assert_eq!(seconds(Some(1800)), 1800);
    assert_eq!(seconds(Some(10_800)), 3600);
    assert_eq!(seconds(Some(-60)), 600);
    assert_eq!(seconds(Some(i32::MIN)), 600);
    assert_eq!(seconds(Some(599)), 600);
    assert_eq!(seconds(Some(600)), 600);
    assert_eq!(seconds(Some(3600)), 3600);
    assert_eq!(seconds(Some(i32::MAX)), 3600);
    assert_eq!(seconds(None), 3600);
    // UPSTREAM: the least is given also where the cluster gives less.
    assert_eq!(duration(Some(60), Duration::from_secs(120)).as_secs(), 600);
}

#[test]
fn unknown_usages_are_refused() {
    let authority = Authority::from_pem(CA_CERTIFICATE.as_bytes(), CA_KEY.as_bytes()).unwrap();
    let terms = Terms {
        usages: &[Istr::new("flying")],
        ttl: HOUR,
        now: now(),
        serial: 1,
    };
    let refused = authority.sign(&Request::parse(&encoded(JANE)).unwrap(), &terms);
    let refused = refused.err().unwrap().to_string();
    assert_eq!(refused, r#"unrecognized usage values: ["flying"]"#);
}

#[test]
fn what_is_no_authority_is_refused_without_a_word_of_the_key() {
    let refused = |certificate: &str, key: &str| {
        let refused = Authority::from_pem(certificate.as_bytes(), key.as_bytes());
        let refused = refused.err().unwrap().to_string();
        let secret = key.lines().nth(1).unwrap_or("nothing").to_owned();
        assert!(secret.is_empty() || !refused.contains(&secret), "{refused}");
        refused
    };
    let other = KeyPair::generate().unwrap().serialize_pem();
    assert_eq!(
        refused(CA_CERTIFICATE, &other),
        "private key does not match public key"
    );
    let two = format!("{CA_CERTIFICATE}{CA_CERTIFICATE}");
    assert_eq!(refused(&two, CA_KEY), "expected 1 certificate, found 2");
    assert_eq!(refused("", CA_KEY), "expected 1 certificate, found 0");
    assert_eq!(refused(CA_KEY, CA_KEY), "expected 1 certificate, found 0");
    assert!(refused(CA_CERTIFICATE, "").starts_with("the CA key: it is no PEM"));
    assert!(refused(CA_CERTIFICATE, CA_CERTIFICATE).starts_with("the CA key: it is no PEM"));
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert!(refused(broken, CA_KEY).starts_with("the CA certificate cannot be parsed"));
    let broken = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    assert!(refused(CA_CERTIFICATE, broken).contains("give an RSA key"));
}
