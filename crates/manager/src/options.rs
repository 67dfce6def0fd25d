//! The command line, typed and checked: what the process is asked to do.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::config::Config;
use crate::error::{Error, Errors};
use crate::flags::{self, Help, NamedCertKey, Parsed};
use crate::gates::{EffectiveVersions, FeatureGates};
use crate::leader_migration::LeaderMigrationConfiguration;
use crate::selection;
use crate::{tls_names, validate, version};

/// What a command line asks for.
#[derive(Debug)]
pub enum Command {
    Run(Box<Options>),
    /// Print this to standard output and exit with 0.
    Print(String),
}

/// Everything the manager needs to know to run.
#[derive(Clone, Debug)]
pub struct Options {
    pub config: Config,
    pub gates: FeatureGates,
    /// --master: wins over the kubeconfig's address; empty if not given.
    pub master: String,
    /// Whether a request rate was given; if not, the client adapts to the API server.
    pub rate_given: bool,
    pub controller_shutdown_timeout: Duration,
    pub serving: ServingOptions,
    pub authentication: AuthenticationOptions,
    pub authorization: AuthorizationOptions,
    pub metrics: MetricsOptions,
    pub logging: LoggingOptions,
    /// All flags with their values, for `/flagz`.
    pub flags: Parsed,
    /// What to log once at the start.
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct ServingOptions {
    /// None if --secure-port is 0.
    pub address: Option<SocketAddr>,
    /// The name of the pair in `cert_dir`.
    pub pair_name: &'static str,
    pub cert_dir: Option<PathBuf>,
    /// Certificate and key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    pub sni: Vec<NamedCertKey>,
    pub cipher_suites: Vec<String>,
    pub curves: Vec<i32>,
    pub tls13_only: bool,
    pub http2: bool,
    /// 0 for the library's default.
    pub http2_max_streams: u32,
    pub reuse_port: bool,
    pub reuse_address: bool,
    pub profiling: bool,
}

#[derive(Clone, Debug)]
pub struct AuthenticationOptions {
    pub kubeconfig: Option<PathBuf>,
    pub skip_lookup: bool,
    pub tolerate_lookup_failure: bool,
    pub token_cache_ttl: Duration,
    pub client_ca_file: Option<PathBuf>,
    pub request_header_ca_file: Option<PathBuf>,
    pub request_header_allowed_names: Vec<String>,
    pub request_header_username_headers: Vec<String>,
    pub request_header_uid_headers: Vec<String>,
    pub request_header_group_headers: Vec<String>,
    pub request_header_extra_prefixes: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct AuthorizationOptions {
    pub kubeconfig: Option<PathBuf>,
    pub always_allow_paths: Vec<String>,
    pub allow_ttl: Duration,
    pub deny_ttl: Duration,
}

#[derive(Clone, Debug, Default)]
pub struct MetricsOptions {
    pub disabled: Vec<String>,
    /// (metric, label) to the values it may have.
    pub allowed_labels: BTreeMap<(String, String), Vec<String>>,
    pub show_hidden: bool,
}

#[derive(Clone, Debug)]
pub struct LoggingOptions {
    pub json: bool,
    pub verbosity: u32,
    pub vmodule: Vec<(String, i64)>,
    pub flush_frequency: Duration,
    pub split_stream: bool,
    pub info_buffer_size: u64,
}

impl Options {
    /// Reads a command line without the program's name.
    pub fn parse<I, S>(arguments: I, program: &str) -> Result<Command, Errors>
    where
        I: IntoIterator<Item = S>,
        S: Into<String>,
    {
        let flags = flags::table().parse(arguments)?;
        // UPSTREAM: help and version win over whatever else is on the command line.
        if flags.bool("help") {
            return Ok(Command::Print(help(program)));
        }
        match flags.text("version") {
            "raw" => return Ok(Command::Print(version::raw())),
            "true" => return Ok(Command::Print(version::line())),
            _ => {}
        }
        Options::from_flags(flags).map(|options| Command::Run(Box::new(options)))
    }

    /// Checks everything, and reports all that is wrong at once.
    pub fn from_flags(flags: Parsed) -> Result<Options, Errors> {
        let mut errors = Vec::new();
        let gates = read_gates(&flags).unwrap_or_else(|found| {
            errors.extend(found);
            FeatureGates::defaults()
        });
        let mut config = Config::read(&flags);
        match selection::canonical(&config.generic.controllers) {
            Ok(names) => config.generic.controllers = names,
            Err(unknown) => errors.extend(unknown.into_iter().map(Error::from)),
        }
        match read_leader_migration(&flags) {
            Ok(migration) => config.generic.leader_migration = migration,
            Err(error) => errors.push(error),
        }
        let metrics = validate::metrics(&flags).unwrap_or_else(|error| {
            errors.push(error);
            MetricsOptions::default()
        });
        errors.extend(validate::settings(&flags, &config, &gates));
        if !errors.is_empty() {
            return Err(Errors(errors));
        }
        let mut warnings = flags.warnings();
        warnings.extend(gates.warnings());
        warnings.extend(tls_names::warnings(&flags));
        Ok(Options {
            config,
            gates,
            master: flags.text("master").to_owned(),
            rate_given: flags.is_given("kube-api-qps") || flags.is_given("kube-api-burst"),
            controller_shutdown_timeout: flags.duration("controller-shutdown-timeout").to_std(),
            serving: ServingOptions::read(&flags, "kube-controller-manager"),
            authentication: AuthenticationOptions::read(&flags),
            authorization: AuthorizationOptions::read(&flags),
            metrics,
            logging: LoggingOptions::read(&flags),
            flags,
            warnings,
        })
    }
}

/// The whole help text. 100 columns fit a terminal and a page of documentation.
fn help(program: &str) -> String {
    let missing = controllers::ALL
        .iter()
        .filter(|one| !one.is_built() && !one.cloud);
    let mut not_built: Vec<&str> = missing.map(|one| one.name).collect();
    not_built.sort_unstable();
    let (emulation, compatibility) = EffectiveVersions::help();
    let closing = match not_built.is_empty() {
        true => String::new(),
        false => format!(
            "Controllers that this build does not have yet: {}",
            not_built.join(", ")
        ),
    };
    let about = Help {
        program,
        introduction: INTRODUCTION,
        facts: vec![
            ("controllers", selection::known_names().join(", ")),
            ("disabled", selection::disabled_by_default().join(", ")),
            ("gates", FeatureGates::help()),
            ("emulation", emulation),
            ("compatibility", compatibility),
            ("ciphers", tls_names::supported_suites().join(", ")),
        ],
        closing,
    };
    flags::help(flags::table(), &about, 100)
}

const INTRODUCTION: &str = "Steersman's controller manager runs the control loops that turn the state of a Kubernetes \
    cluster into the state its objects ask for. It takes the place of kube-controller-manager: same controllers, \
    same flags, same lease.";

/// The gates of a component, from the flags that all have.
pub fn read_gates(flags: &Parsed) -> Result<FeatureGates, Vec<Error>> {
    let emulated = flags.list("emulated-version");
    let versions = EffectiveVersions::from_flags(emulated, flags.list("min-compatibility-version"))
        .map_err(|error| vec![error.into()])?;
    FeatureGates::new(versions, flags.list("feature-gates"))
        .map_err(|errors| errors.into_iter().map(Error::from).collect())
}

fn read_leader_migration(flags: &Parsed) -> Result<LeaderMigrationConfiguration, Error> {
    const FLAG: &str = "leader-migration-config";
    if !flags.bool("enable-leader-migration") {
        return Ok(LeaderMigrationConfiguration::default());
    }
    let Some(path) = path(flags, FLAG) else {
        return Ok(LeaderMigrationConfiguration::built_in());
    };
    let text = crate::files::read_text(FLAG, &path)?;
    LeaderMigrationConfiguration::parse(&text).map_err(|problem| Error::BadFile {
        flag: FLAG,
        path,
        problem,
    })
}

/// The file or folder that a flag names.
pub fn path(flags: &Parsed, name: &str) -> Option<PathBuf> {
    let text = flags.text(name);
    (!text.is_empty()).then(|| PathBuf::from(text))
}

impl ServingOptions {
    /// From the flags that all components with a secure port have. `pair_name` is what the certificate in --cert-dir is
    /// called.
    pub fn read(flags: &Parsed, pair_name: &'static str) -> ServingOptions {
        let port = u16::try_from(flags.int("secure-port")).unwrap_or(0);
        let address = flags.ip("bind-address");
        // UPSTREAM: an unspecified IPv4 address listens on both families where the system allows it, but
        // not every system has IPv6, so the address is taken as it is.
        let address: IpAddr = address;
        let sni = flags.list("tls-sni-cert-key").iter();
        ServingOptions {
            address: (port != 0).then(|| SocketAddr::new(address, port)),
            pair_name,
            cert_dir: path(flags, "cert-dir"),
            certificate: path(flags, "tls-cert-file").zip(path(flags, "tls-private-key-file")),
            sni: sni
                .filter_map(|text| flags::parse_named_cert_key(text).ok())
                .collect(),
            cipher_suites: flags.list("tls-cipher-suites").to_vec(),
            curves: flags
                .list("tls-curve-preferences")
                .iter()
                .filter_map(|id| id.parse().ok())
                .collect(),
            tls13_only: flags.text("tls-min-version") == "VersionTLS13",
            http2: !flags.bool("disable-http2-serving"),
            http2_max_streams: u32::try_from(flags.int("http2-max-streams-per-connection"))
                .unwrap_or(0),
            reuse_port: flags.bool("permit-port-sharing"),
            reuse_address: flags.bool("permit-address-sharing"),
            profiling: flags.bool("profiling"),
        }
    }
}

impl AuthenticationOptions {
    fn read(flags: &Parsed) -> AuthenticationOptions {
        AuthenticationOptions {
            kubeconfig: path(flags, "authentication-kubeconfig"),
            skip_lookup: flags.bool("authentication-skip-lookup"),
            tolerate_lookup_failure: flags.bool("authentication-tolerate-lookup-failure"),
            token_cache_ttl: flags
                .duration("authentication-token-webhook-cache-ttl")
                .to_std(),
            client_ca_file: path(flags, "client-ca-file"),
            request_header_ca_file: path(flags, "requestheader-client-ca-file"),
            request_header_allowed_names: flags.list("requestheader-allowed-names").to_vec(),
            request_header_username_headers: flags.list("requestheader-username-headers").to_vec(),
            request_header_uid_headers: flags.list("requestheader-uid-headers").to_vec(),
            request_header_group_headers: flags.list("requestheader-group-headers").to_vec(),
            request_header_extra_prefixes: flags
                .list("requestheader-extra-headers-prefix")
                .to_vec(),
        }
    }
}

impl AuthorizationOptions {
    fn read(flags: &Parsed) -> AuthorizationOptions {
        AuthorizationOptions {
            kubeconfig: path(flags, "authorization-kubeconfig"),
            always_allow_paths: flags.list("authorization-always-allow-paths").to_vec(),
            allow_ttl: flags
                .duration("authorization-webhook-cache-authorized-ttl")
                .to_std(),
            deny_ttl: flags
                .duration("authorization-webhook-cache-unauthorized-ttl")
                .to_std(),
        }
    }
}

impl LoggingOptions {
    /// From flags of the command line of another command: `--v=4` and the like, as the manager reads them.
    pub fn from_arguments(
        arguments: impl IntoIterator<Item = String>,
    ) -> Result<LoggingOptions, Errors> {
        let flags = flags::table().parse(arguments)?;
        Ok(LoggingOptions::read(&flags))
    }

    pub fn read(flags: &Parsed) -> LoggingOptions {
        let json = flags.text("logging-format") == "json";
        let format = if json { "json" } else { "text" };
        let buffer = flags.text(&format!("log-{format}-info-buffer-size"));
        LoggingOptions {
            json,
            verbosity: u32::try_from(flags.int("v")).unwrap_or(0),
            vmodule: flags::parse_vmodule(flags.text("vmodule")).unwrap_or_default(),
            flush_frequency: flags.duration("log-flush-frequency").to_std(),
            split_stream: flags.bool(&format!("log-{format}-split-stream")),
            info_buffer_size: flags::parse_quantity(buffer).unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests;
