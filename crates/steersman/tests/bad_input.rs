//! Every flag with a value that it cannot have, and every file that cannot be used: one sentence that names it.
//!
//! Nobody listens at port 1, so whatever gets past the checks waits for the API server, and is ended when patience
//! is.

use std::path::{Path, PathBuf};
use std::process::Command;

use manager::flags::{Flag, Kind, table};

const NOWHERE: &str = "--master=http://127.0.0.1:1";

/// Seconds after which it has not refused what it was given.
const PATIENCE: &str = "30";

/// Exit code 1, nothing on standard output, and one sentence on standard error that holds all of `expected`.
fn check(arguments: &[&str], expected: &[&str]) {
    let output = Command::new("timeout")
        .args([
            PATIENCE,
            env!("CARGO_BIN_EXE_steersman"),
            "controller-manager",
        ])
        .args([NOWHERE, "--secure-port=0"])
        .args(arguments)
        // A test must not find a cluster that the developer happens to use.
        .env_remove("KUBECONFIG")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .env("HOME", "/nonexistent")
        .output()
        .expect("the binary runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    let told: Vec<&str> = errors
        .lines()
        .filter(|line| line.starts_with("Error: "))
        .collect();
    let [told] = told[..] else {
        panic!("{arguments:?} has {} sentences: {errors}", told.len());
    };
    for part in expected {
        assert!(told.contains(part), "{arguments:?} lacks {part:?}: {told}");
    }
}

/// Text that a flag of this kind cannot be, if there is any.
fn wrong_type(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Text | Kind::List | Kind::Array | Kind::Settings => None,
        Kind::NamedCertKey => Some(":"),
        Kind::FeatureGates => Some("AllAlpha=perhaps"),
        _ => Some("n/a"),
    }
}

/// A value just past what a flag of this kind may be, if it has bounds.
fn out_of_range(kind: Kind) -> Option<String> {
    match kind {
        Kind::Int { name: "int", .. } => Some("9223372036854775808".to_owned()),
        Kind::Int { min, .. } if min > i64::from(i32::MIN) => Some((min - 1).to_string()),
        Kind::Int { max, .. } => Some((max + 1).to_string()),
        Kind::Duration { .. } => Some("300000000h".to_owned()),
        Kind::Ip => Some("256.0.0.1".to_owned()),
        _ => None,
    }
}

fn check_each(value: impl Fn(&Flag) -> Option<String>, at_least: usize) {
    let mut checked = 0;
    for flag in table() {
        if let Some(value) = value(flag) {
            let argument = format!("--{}={value}", flag.name);
            check(&[&argument], &[flag.name]);
            checked += 1;
        }
    }
    assert!(checked >= at_least, "just {checked} flags were tried");
}

#[test]
fn every_flag_with_a_value_of_another_type() {
    check_each(|flag| wrong_type(flag.kind).map(str::to_owned), 95);
}

#[test]
fn every_flag_with_a_value_out_of_range() {
    check_each(|flag| out_of_range(flag.kind), 60);
}

#[test]
fn upper_bounds_count_too() {
    for flag in table() {
        if let Kind::Int { max, min, .. } = flag.kind
            && min > i64::from(i32::MIN)
        {
            let argument = format!("--{}={}", flag.name, max + 1);
            check(&[&argument], &[flag.name]);
        }
    }
}

#[test]
fn names_that_nobody_knows() {
    check(
        &["--controllers=*,jobb"],
        &["\"jobb\"", "known controllers"],
    );
    check(&["--feature-gates=Jobb=true"], &["Jobb"]);
    check(
        &["--tls-cipher-suites=ROT13"],
        &["--tls-cipher-suites", "ROT13"],
    );
    check(&["--tls-min-version=VersionSSL3"], &["--tls-min-version"]);
    check(&["--logging-format=xml"], &["--logging-format"]);
    check(
        &["--leader-elect-resource-lock=configmaps"],
        &["--leader-elect-resource-lock"],
    );
    check(&["--cidr-allocator-type=Cloud"], &["--cidr-allocator-type"]);
    check(
        &["--nobody-knows-this"],
        &["unknown flag: --nobody-knows-this"],
    );
}

/// Flags that name a file, with what else has to be given for the file to be read.
const FILES: &[(&str, &[&str])] = &[
    ("allow-metric-labels-manifest", &[]),
    ("authentication-kubeconfig", &["--secure-port=10999"]),
    ("authorization-kubeconfig", &["--secure-port=10999"]),
    ("client-ca-file", &["--secure-port=10999"]),
    ("kubeconfig", &[]),
    ("leader-migration-config", &["--enable-leader-migration"]),
    ("requestheader-client-ca-file", &["--secure-port=10999"]),
    ("root-ca-file", &[]),
    ("service-account-private-key-file", &[]),
    (
        "tls-cert-file",
        &["--secure-port=10999", "--tls-private-key-file={key}"],
    ),
    (
        "tls-private-key-file",
        &["--secure-port=10999", "--tls-cert-file={certificate}"],
    ),
];

/// A directory of its own for each test, with a certificate and its key.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("steersman-bad-input-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a temporary directory can be made");
        let folder = Folder(path);
        folder.certificate("good", 2100);
        folder
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("a temporary file can be written");
        path.display().to_string()
    }

    /// A self-signed certificate that ends with this year, and its key.
    fn certificate(&self, name: &str, last_year: i32) -> (String, String) {
        let key = rcgen::KeyPair::generate().expect("a key can be made");
        let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).expect("a name");
        params.not_before = rcgen::date_time_ymd(2000, 1, 1);
        params.not_after = rcgen::date_time_ymd(last_year, 12, 31);
        let certificate = params.self_signed(&key).expect("it signs itself");
        (
            self.write(&format!("{name}.crt"), &certificate.pem()),
            self.write(&format!("{name}.key"), &key.serialize_pem()),
        )
    }

    fn check(&self, flag: &str, value: &str, others: &[&str], expected: &[&str]) {
        let place = |name: &str| self.0.join(name).display().to_string();
        let fill = |argument: &&str| {
            argument
                .replace("{key}", &place("good.key"))
                .replace("{certificate}", &place("good.crt"))
        };
        let mut arguments = vec![format!("--{flag}={value}")];
        arguments.extend(others.iter().map(fill));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        check(&arguments, &[&[flag], expected].concat());
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn files_that_are_missing_unreadable_or_nonsense() {
    let folder = Folder::new("files");
    let junk = folder.write("junk", "{{{");
    let directory = folder.0.display().to_string();
    for (flag, others) in FILES {
        folder.check(flag, "/nonexistent/file", others, &["/nonexistent/file"]);
        // A directory cannot be read by anyone, not even by root.
        folder.check(flag, &directory, others, &[&directory]);
        folder.check(flag, &junk, others, &[]);
    }
}

#[test]
fn a_serving_certificate_that_belongs_to_another_key() {
    let folder = Folder::new("serving");
    let (_, key) = folder.certificate("other", 2090);
    let others = ["--secure-port=10999", "--tls-cert-file={certificate}"];
    folder.check("tls-private-key-file", &key, &others, &[]);
    assert!(Path::new(&key).exists(), "what it was given is untouched");
}
