//! Rules between flags, and rules on single values that a type cannot express.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use controllers::config::SignerFiles;
use controllers::node_ipam::{Ranges, RangesError};

use crate::config::Config;
use crate::error::Error;
use crate::files;
use crate::flags::{Parsed, parse_quantity};
use crate::gates::{FeatureGates, Version};
use crate::options::MetricsOptions;
use crate::tls_names;

/// Everything that is wrong with the settings; empty if nothing is.
pub(crate) fn settings(flags: &Parsed, config: &Config, gates: &FeatureGates) -> Vec<Error> {
    let mut problems = Problems(Vec::new());
    leader_election(&mut problems, config);
    rate(&mut problems, config);
    cloud(&mut problems, config);
    addresses(&mut problems, flags);
    node_ranges(&mut problems, config);
    serving(&mut problems, flags);
    request_headers(&mut problems, flags, gates);
    always_allowed(&mut problems, flags);
    signing(&mut problems, config);
    logging(&mut problems, flags, gates);
    problems.files(flags);
    problems.0
}

/// What is wrong with the flags that all components have: serving, front proxies, logging.
pub fn component(flags: &Parsed, gates: &FeatureGates) -> Vec<Error> {
    let mut problems = Problems(Vec::new());
    serving(&mut problems, flags);
    request_headers(&mut problems, flags, gates);
    logging(&mut problems, flags, gates);
    problems.0
}

struct Problems(Vec<Error>);

impl Problems {
    fn add(&mut self, flag: &'static str, problem: impl Into<String>) {
        self.0.push(Error::Setting {
            flag,
            problem: problem.into(),
        });
    }

    fn check(&mut self, flag: &'static str, result: Result<(), String>) {
        if let Err(problem) = result {
            self.add(flag, problem);
        }
    }

    /// Files that controllers read later are read once now: a wrong path must fail the start, before
    /// anything is written to the cluster. But for those of signers: each waits for its own.
    fn files(&mut self, flags: &Parsed) {
        const CERTIFICATES: &[&str] = &[
            "root-ca-file",
            "client-ca-file",
            "requestheader-client-ca-file",
            "tls-cert-file",
        ];
        const KEYS: &[&str] = &["service-account-private-key-file", "tls-private-key-file"];
        const PLAIN: &[&str] = &[
            "kubeconfig",
            "authentication-kubeconfig",
            "authorization-kubeconfig",
            "pv-recycler-pod-template-filepath-hostpath",
            "pv-recycler-pod-template-filepath-nfs",
        ];
        let given = |flag: &&'static str| !flags.text(flag).is_empty();
        for flag in CERTIFICATES.iter().copied().filter(given) {
            self.0
                .extend(files::read_certificates(flag, Path::new(flags.text(flag))).err());
        }
        for flag in KEYS.iter().copied().filter(given) {
            self.0
                .extend(files::read_private_key(flag, Path::new(flags.text(flag))).err());
        }
        for flag in PLAIN.iter().copied().filter(given) {
            self.0
                .extend(files::read(flag, Path::new(flags.text(flag))).err());
        }
    }
}

/// client-go's jitter: a retry takes up to this much longer than --leader-elect-retry-period.
const JITTER: f64 = 1.2;

fn leader_election(problems: &mut Problems, config: &Config) {
    let election = &config.generic.leader_election;
    if !election.leader_elect {
        return;
    }
    if election.resource_lock != "leases" {
        problems.add(
            "leader-elect-resource-lock",
            "resourceLock value must be \"leases\"",
        );
    }
    for (flag, duration) in [
        ("leader-elect-lease-duration", election.lease_duration),
        ("leader-elect-renew-deadline", election.renew_deadline),
        ("leader-elect-retry-period", election.retry_period),
    ] {
        if duration.as_nanos() < 1 {
            problems.add(flag, "must be greater than zero");
        }
    }
    if election.lease_duration <= election.renew_deadline {
        problems.add(
            "leader-elect-lease-duration",
            "must be greater than --leader-elect-renew-deadline",
        );
    }
    if election.renew_deadline.as_nanos() as f64 <= election.retry_period.as_nanos() as f64 * JITTER
    {
        problems.add(
            "leader-elect-renew-deadline",
            "must be greater than 1.2 times --leader-elect-retry-period",
        );
    }
    if election.resource_name.is_empty() {
        problems.add("leader-elect-resource-name", "must not be empty");
    }
    if election.resource_namespace.is_empty() {
        problems.add("leader-elect-resource-namespace", "must not be empty");
    }
}

fn rate(problems: &mut Problems, config: &Config) {
    let connection = &config.generic.client_connection;
    if connection.qps > 0.0 && connection.burst <= 0 {
        problems.add(
            "kube-api-burst",
            "must be greater than 0 while --kube-api-qps is greater than 0",
        );
    }
}

fn cloud(problems: &mut Problems, config: &Config) {
    let shared = &config.kube_cloud_shared;
    match shared.cloud_provider.name.as_str() {
        "" | "external" => {}
        name => problems.add(
            "cloud-provider",
            format!("the in-tree cloud provider {name:?} no longer exists; use \"external\" with its own cloud controller manager"),
        ),
    }
    match shared.cidr_allocator_type.as_str() {
        "" | "RangeAllocator" => {}
        name => problems.add(
            "cidr-allocator-type",
            format!("built-in cloud providers are disabled. The ipam {name} is not available; use RangeAllocator"),
        ),
    }
}

fn addresses(problems: &mut Problems, flags: &Parsed) {
    for flag in ["cluster-cidr", "service-cluster-ip-range"] {
        let text = flags.text(flag);
        if text.split(',').count() > 2 {
            problems.add(flag, "can not contain more than two entries");
        }
        // Without --allocate-node-cidrs nobody reads the ranges, and upstream does not look at them either.
        if flags.bool("allocate-node-cidrs") && !text.is_empty() {
            for range in text.split(',') {
                problems.check(flag, check_range(range.trim()));
            }
        }
    }
}

/// What would keep the node IPAM controller from starting.
fn node_ranges(problems: &mut Problems, config: &Config) {
    let read = Ranges::read(&config.kube_cloud_shared, &config.node_ipam_controller);
    match read {
        // What is no range was told of where it stands.
        Ok(_) | Err(RangesError::NotCidr(_)) => {}
        Err(error) => problems.add("allocate-node-cidrs", error.to_string()),
    }
}

fn check_range(text: &str) -> Result<(), String> {
    let wrong = || format!("{text:?} is not an address range such as 10.244.0.0/16");
    let (address, length) = text.split_once('/').ok_or_else(wrong)?;
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    match length.parse::<u8>() {
        Ok(length) if length <= longest => Ok(()),
        _ => Err(wrong()),
    }
}

fn serving(problems: &mut Problems, flags: &Parsed) {
    let port = flags.int("secure-port");
    if !(0..=65535).contains(&port) {
        problems.add(
            "secure-port",
            format!("{port} must be between 0 and 65535, inclusive. 0 for turning off secure port"),
        );
    }
    if !(0..=i64::from(u32::MAX)).contains(&flags.int("http2-max-streams-per-connection")) {
        problems.add("http2-max-streams-per-connection", "must be 0 or more");
    }
    match (
        flags.text("tls-cert-file"),
        flags.text("tls-private-key-file"),
    ) {
        ("", "") => {}
        ("", _) => problems.add("tls-private-key-file", "needs --tls-cert-file too"),
        (_, "") => problems.add("tls-cert-file", "needs --tls-private-key-file too"),
        _ => {}
    }
    problems.check(
        "tls-min-version",
        tls_names::check_min_version(flags.text("tls-min-version")),
    );
    problems.check(
        "tls-cipher-suites",
        tls_names::check_suites(flags.list("tls-cipher-suites")),
    );
    problems.check(
        "tls-curve-preferences",
        tls_names::check_curves(flags.list("tls-curve-preferences")),
    );
}

fn request_headers(problems: &mut Problems, flags: &Parsed, gates: &FeatureGates) {
    for flag in [
        "requestheader-username-headers",
        "requestheader-group-headers",
        "requestheader-extra-headers-prefix",
        "requestheader-allowed-names",
        "requestheader-uid-headers",
    ] {
        if flags.list(flag).iter().any(|item| item.trim().is_empty()) {
            problems.add(flag, "has an empty value");
        }
    }
    let uid_headers = flags.list("requestheader-uid-headers");
    if !uid_headers.is_empty() {
        if !gates.enabled("RemoteRequestHeaderUID") {
            problems.add(
                "requestheader-uid-headers",
                "requires the \"RemoteRequestHeaderUID\" feature to be enabled",
            );
        } else if !uid_headers
            .iter()
            .any(|header| header.eq_ignore_ascii_case("X-Remote-Uid"))
        {
            problems.add(
                "requestheader-uid-headers",
                "is set without specifying the standard X-Remote-Uid header - API aggregation will not work",
            );
        }
    }
}

fn always_allowed(problems: &mut Problems, flags: &Parsed) {
    const FLAG: &str = "authorization-always-allow-paths";
    for path in flags.list(FLAG) {
        if path.trim_end_matches('*').contains('*') || path.ends_with("**") {
            problems.add(FLAG, format!("only trailing * allowed in {path:?}"));
        }
    }
}

fn signing(problems: &mut Problems, config: &Config) {
    let signing = &config.csr_signing_controller;
    let signers = [
        (
            "cluster-signing-kubelet-serving-cert-file",
            &signing.kubelet_serving,
        ),
        (
            "cluster-signing-kubelet-client-cert-file",
            &signing.kubelet_client,
        ),
        (
            "cluster-signing-kube-apiserver-client-cert-file",
            &signing.kube_apiserver_client,
        ),
        (
            "cluster-signing-legacy-unknown-cert-file",
            &signing.legacy_unknown,
        ),
    ];
    for (flag, files) in signers {
        match (files.cert_file.is_empty(), files.key_file.is_empty()) {
            (false, true) => problems.add(flag, "cannot specify certificate without key"),
            (true, false) => problems.add(flag, "cannot specify key without certificate"),
            _ => {}
        }
    }
    let general = !signing.cluster_signing_cert_file.is_empty()
        || !signing.cluster_signing_key_file.is_empty();
    let any_specific = signers
        .iter()
        .any(|(_, files)| **files != SignerFiles::default());
    if general && any_specific {
        problems.add(
            "cluster-signing-cert-file",
            "cannot specify --cluster-signing-{cert,key}-file and other --cluster-signing-*-file flags at the same time",
        );
    }
}

fn logging(problems: &mut Problems, flags: &Parsed, gates: &FeatureGates) {
    if flags.duration("log-flush-frequency").as_nanos() <= 0 {
        problems.add("log-flush-frequency", "must be greater than zero");
    }
    match flags.text("logging-format") {
        "text" => {}
        "json" => {
            if !gates.enabled("LoggingBetaOptions") {
                problems.add(
                    "logging-format",
                    "Log format json is disabled, see LoggingBetaOptions feature",
                );
            }
            if !flags.text("vmodule").is_empty() {
                problems.add("vmodule", "Only supported for text log format");
            }
        }
        other => problems.add(
            "logging-format",
            format!("Unsupported log format {other:?}; use text or json"),
        ),
    }
    let alpha = gates.enabled("LoggingAlphaOptions");
    for flag in ["log-text-split-stream", "log-json-split-stream"] {
        if flags.bool(flag) && !alpha {
            problems.add(flag, "Feature LoggingAlphaOptions is disabled");
        }
    }
    for flag in ["log-text-info-buffer-size", "log-json-info-buffer-size"] {
        if parse_quantity(flags.text(flag)) != Ok(0) && !alpha {
            problems.add(flag, "Feature LoggingAlphaOptions is disabled");
        }
    }
}

/// The metrics flags, with the label manifest read.
pub(crate) fn metrics(flags: &Parsed) -> Result<MetricsOptions, Error> {
    const HIDDEN: &str = "show-hidden-metrics-for-version";
    let setting = |flag, problem: String| Error::Setting { flag, problem };
    let previous = Version::new(Version::BINARY.major, Version::BINARY.minor - 1).to_string();
    let shown = flags.text(HIDDEN);
    if !shown.is_empty() && shown != previous {
        return Err(setting(
            HIDDEN,
            format!(
                "must be omitted or have the value '{previous}'. Only the previous minor version is allowed"
            ),
        ));
    }
    let mut allowed_labels = BTreeMap::new();
    let manifest = flags.text("allow-metric-labels-manifest");
    if !manifest.is_empty() {
        for (key, values) in read_label_manifest(manifest)? {
            let entry = label_entry(&key, &values);
            let (key, values) =
                entry.map_err(|problem| setting("allow-metric-labels-manifest", problem))?;
            allowed_labels.insert(key, values);
        }
    }
    for pair in flags.list("allow-metric-labels") {
        let (key, values) = pair.split_once('=').unwrap_or((pair, ""));
        let entry = label_entry(key, values);
        let (key, values) = entry.map_err(|problem| setting("allow-metric-labels", problem))?;
        allowed_labels.insert(key, values);
    }
    Ok(MetricsOptions {
        disabled: flags.list("disabled-metrics").to_vec(),
        allowed_labels,
        show_hidden: !shown.is_empty(),
    })
}

fn label_entry(key: &str, values: &str) -> Result<((String, String), Vec<String>), String> {
    let (metric, label) = key
        .split_once(',')
        .filter(|(metric, label)| !metric.trim().is_empty() && !label.trim().is_empty())
        .ok_or_else(|| {
            format!("{key:?} must be a metric's name and a label's name, separated by a comma")
        })?;
    let values = values
        .trim_matches('\'')
        .split(',')
        .map(str::to_owned)
        .collect();
    Ok(((metric.trim().to_owned(), label.trim().to_owned()), values))
}

fn read_label_manifest(path: &str) -> Result<BTreeMap<String, String>, Error> {
    const FLAG: &str = "allow-metric-labels-manifest";
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    struct Manifest {
        #[serde(default)]
        allow_list_mapping: BTreeMap<String, String>,
    }
    let path = Path::new(path);
    let text = files::read_text(FLAG, path)?;
    let manifest: Manifest = api::yaml::from_str(&text).map_err(|error| Error::BadFile {
        flag: FLAG,
        path: path.to_owned(),
        problem: error.to_string(),
    })?;
    Ok(manifest.allow_list_mapping)
}
