//! The command line, typed and checked.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use api::{Cidr, Gates};
use apiserver::FrontProxy;
use apiserver::admission::Networks;
use apiserver::audit::{Auditor, Format, LogOptions, Policy};
use apiserver::auth::{Authorizer, StaticToken};
use apiserver::kinds::ServedVersions;
use apiserver::settings::{Anonymous, ServiceAccountTokens, Settings, TolerationSeconds};
use connections::certificate::{self, Roots};
use connections::request_header::{HeaderNames, RequestHeader};
use keys::{PrivateKey, PublicKey};
use manager::flags::{Parsed, parse_port_range};
use manager::options::{LoggingOptions, ServingOptions, path, read_gates};
use manager::{Error, Errors, files, validate, version};

use super::{help, table, token_file};

/// What a command line asks for.
pub enum Command {
    Run(Box<Options>),
    /// Print this to standard output and exit with 0.
    Print(String),
}

/// Everything that the server needs to know to run.
pub struct Options {
    pub settings: Settings,
    pub serving: ServingOptions,
    pub address: SocketAddr,
    pub advertise: IpAddr,
    pub networks: Networks,
    pub static_tokens: Vec<StaticToken>,
    /// PEM
    pub signing_key: Option<String>,
    /// None: the usual one of a cluster.
    pub issuer: Option<String>,
    pub client_ca: Option<(Roots, String)>,
    pub proxies: Option<(RequestHeader, String)>,
    /// By what extension servers know this one.
    pub front_proxy: Option<FrontProxy>,
    pub data_dir: Option<PathBuf>,
    /// None: no controllers run.
    pub manager: Option<Box<manager::Options>>,
    pub logging: LoggingOptions,
    /// What to log once at the start.
    pub warnings: Vec<String>,
}

/// UPSTREAM: tokens may not be limited to less.
const LEAST_TOKEN_SECONDS: i64 = 3600;

impl Options {
    /// Reads a command line without the program's name. `controllers` is what the environment asks for, which a flag
    /// takes the place of.
    pub fn parse<I, S>(
        arguments: I,
        program: &str,
        controllers: Option<String>,
    ) -> Result<Command, Errors>
    where
        I: IntoIterator<Item = S>,
        S: Into<String>,
    {
        let flags = table().parse(arguments)?;
        // UPSTREAM: help and version win over whatever else is on the command line.
        if flags.bool("help") {
            return Ok(Command::Print(help(program)));
        }
        match flags.text("version") {
            "raw" => return Ok(Command::Print(version::raw())),
            "true" => return Ok(Command::Print(version::line())),
            _ => {}
        }
        Reader::new(&flags).read(program, controllers)
    }
}

/// Collects what is wrong, so that it can be fixed in one go.
pub(super) struct Reader<'a> {
    pub(super) flags: &'a Parsed,
    errors: Vec<Error>,
    warnings: Vec<String>,
}

impl<'a> Reader<'a> {
    fn new(flags: &'a Parsed) -> Reader<'a> {
        let refused = flags.refusals().into_iter();
        Reader {
            flags,
            errors: refused.map(Error::from).collect(),
            warnings: flags.warnings(),
        }
    }

    fn read(mut self, program: &str, controllers: Option<String>) -> Result<Command, Errors> {
        let flags = self.flags;
        let mut gates = Gates::default();
        match read_gates(flags) {
            Ok(read) => {
                self.warnings.extend(read.warnings());
                self.errors.extend(validate::component(flags, &read));
                gates = read.for_controllers();
            }
            Err(found) => self.errors.extend(found),
        }
        self.warnings.extend(manager::tls_names::warnings(flags));
        let settings = Settings {
            gates,
            ..self.settings()
        };
        let networks = self.networks();
        let static_tokens = self.static_tokens();
        let client_ca = self.authority("client-ca-file");
        let proxies = self.proxies();
        let front_proxy = self.front_proxy();
        let signing_key = self.signing_key();
        let manager = self.manager(program, controllers);
        let address = self.address();
        let advertise = self.advertise(address.ip());
        if !self.errors.is_empty() {
            return Err(Errors(self.errors));
        }
        Ok(Command::Run(Box::new(Options {
            settings,
            serving: ServingOptions::read(flags, "apiserver"),
            address,
            advertise,
            networks,
            static_tokens,
            signing_key,
            issuer: flags.list("service-account-issuer").first().cloned(),
            client_ca,
            proxies,
            front_proxy,
            data_dir: path(flags, "data-dir"),
            manager,
            logging: LoggingOptions::read(flags),
            warnings: self.warnings,
        })))
    }

    pub(super) fn add(&mut self, flag: &'static str, problem: impl Into<String>) {
        self.errors.push(Error::Setting {
            flag,
            problem: problem.into(),
        });
    }

    /// What the flag's reading came to; a mistake is noted, and what is there instead is never used.
    fn or_default<T: Default>(&mut self, flag: &'static str, read: Result<T, String>) -> T {
        read.unwrap_or_else(|problem| {
            self.add(flag, problem);
            T::default()
        })
    }

    pub(super) fn keep<T>(&mut self, read: Result<T, Error>) -> Option<T> {
        match read {
            Ok(value) => Some(value),
            Err(error) => {
                self.errors.push(error);
                None
            }
        }
    }

    fn settings(&mut self) -> Settings {
        let flags = self.flags;
        let authorizers = self.authorizers();
        let anonymous = match flags.bool("anonymous-auth") {
            // UPSTREAM: everything allowed to everybody would be allowed to nobody in particular.
            true if authorizers.contains(&Authorizer::AlwaysAllow) => {
                if flags.is_given("anonymous-auth") {
                    self.warnings.push("AnonymousAuth is not allowed with the AlwaysAllow authorizer. Resetting AnonymousAuth to false. You should use a different authorizer".to_owned());
                }
                Anonymous::Refused
            }
            true => Anonymous::Allowed,
            false => Anonymous::Refused,
        };
        let served = ServedVersions::parse(flags.list("runtime-config"));
        let (served, unserved) = self.or_default("runtime-config", served);
        let unserved = unserved.iter();
        self.warnings
            .extend(unserved.map(|warning| format!("--runtime-config: {warning}")));
        let seconds = |flag: &str| flags.int(flag);
        let plugins = self.plugins();
        Settings {
            anonymous,
            bootstrap_tokens: flags.bool("enable-bootstrap-token-auth"),
            authorizers,
            plugins,
            plugin_settings: self.plugin_settings(plugins),
            tolerations: TolerationSeconds {
                not_ready: seconds("default-not-ready-toleration-seconds"),
                unreachable: seconds("default-unreachable-toleration-seconds"),
            },
            allow_privileged: flags.bool("allow-privileged"),
            event_lifetime_seconds: i64::try_from(flags.duration("event-ttl").to_std().as_secs())
                .unwrap_or(i64::MAX),
            service_account_tokens: self.service_account_tokens(),
            served,
            audit: self.audit(),
            ..Settings::default()
        }
    }

    fn audit(&mut self) -> Option<Arc<Auditor>> {
        const POLICY: &str = "audit-policy-file";
        let flags = self.flags;
        let log = self.audit_log()?;
        let Some(path) = path(flags, POLICY) else {
            // UPSTREAM: without a policy nothing is logged.
            self.warnings
                .push("--audit-log-path: nothing is logged without --audit-policy-file".to_owned());
            return None;
        };
        let policy = files::read_text(POLICY, &path).and_then(|text| {
            Policy::parse(&text).map_err(|problem| Error::BadFile {
                flag: POLICY,
                path: path.clone(),
                problem,
            })
        });
        let policy = self.keep(policy)?;
        // Nothing is created before all is known to be right.
        if !self.errors.is_empty() {
            return None;
        }
        let opened = Auditor::open(policy, log).map_err(|source| Error::Unreadable {
            flag: "audit-log-path",
            path: PathBuf::from(flags.text("audit-log-path")),
            source,
        });
        self.keep(opened).map(Arc::new)
    }

    fn audit_log(&mut self) -> Option<LogOptions> {
        let flags = self.flags;
        let format = match flags.text("audit-log-format") {
            "json" => Format::Json,
            "legacy" => Format::Legacy,
            other => {
                self.add(
                    "audit-log-format",
                    format!(
                        "invalid audit log format {other}, allowed formats are \"legacy,json\""
                    ),
                );
                Format::Json
            }
        };
        if flags.text("audit-log-version") != "audit.k8s.io/v1" {
            self.add("audit-log-version", "audit.k8s.io/v1 is the only one");
        }
        let mode = flags.text("audit-log-mode");
        if !["batch", "blocking", "blocking-strict"].contains(&mode) {
            self.add("audit-log-mode", format!("invalid audit log mode {mode}, allowed modes are \"batch,blocking,blocking-strict\""));
        }
        let mut number = |flag: &'static str| {
            u64::try_from(flags.int(flag)).unwrap_or_else(|_| {
                self.add(flag, "can't be a negative number");
                0
            })
        };
        let [megabytes, backups, days] = [
            number("audit-log-maxsize"),
            number("audit-log-maxbackup"),
            number("audit-log-maxage"),
        ];
        let most = number("audit-log-truncate-max-event-size");
        let path = flags.text("audit-log-path");
        (!path.is_empty()).then(|| LogOptions {
            path: (path != "-").then(|| PathBuf::from(path)),
            // UPSTREAM: 0 means 100.
            max_bytes: if megabytes == 0 { 100 } else { megabytes } << 20,
            max_backups: usize::try_from(backups).unwrap_or(0),
            max_age_seconds: i64::try_from(days).unwrap_or(0).saturating_mul(86_400),
            format,
            max_event_bytes: flags
                .bool("audit-log-truncate-enabled")
                .then(|| usize::try_from(most).unwrap_or(usize::MAX)),
        })
    }

    fn authorizers(&mut self) -> Vec<Authorizer> {
        const FLAG: &str = "authorization-mode";
        let modes = self.flags.list(FLAG);
        if modes.is_empty() {
            return vec![Authorizer::AlwaysAllow];
        }
        let mut authorizers = Vec::new();
        for mode in modes {
            let authorizer = match mode.as_str() {
                "AlwaysAllow" => Authorizer::AlwaysAllow,
                "AlwaysDeny" => Authorizer::AlwaysDeny,
                "Node" => Authorizer::Node,
                "RBAC" => Authorizer::Rbac,
                "ABAC" | "Webhook" => {
                    self.add(FLAG, format!("{mode} is not built yet; use RBAC"));
                    continue;
                }
                _ => {
                    self.add(FLAG, format!("{mode:?} is not a valid mode"));
                    continue;
                }
            };
            if authorizers.contains(&authorizer) {
                self.add(FLAG, format!("{modes:?} has mode specified more than once"));
            }
            authorizers.push(authorizer);
        }
        authorizers
    }

    fn service_account_tokens(&mut self) -> ServiceAccountTokens {
        const KEYS: &str = "service-account-key-file";
        let flags = self.flags;
        let mut keys = Vec::new();
        for file in flags.list(KEYS) {
            let path = PathBuf::from(file);
            let read = files::read(KEYS, &path).and_then(|pem| {
                PublicKey::all_from_pem(&pem).map_err(|error| Error::BadFile {
                    flag: KEYS,
                    path: path.clone(),
                    problem: format!("cannot be used: {error}"),
                })
            });
            keys.extend(self.keep(read).into_iter().flatten());
        }
        let longest = flags.duration("service-account-max-token-expiration");
        let longest = i64::try_from(longest.to_std().as_secs()).unwrap_or(i64::MAX);
        if longest != 0 && longest < LEAST_TOKEN_SECONDS {
            self.add(
                "service-account-max-token-expiration",
                "must be at least an hour",
            );
        }
        let issuers = flags.list("service-account-issuer");
        if issuers.iter().any(String::is_empty) {
            self.add("service-account-issuer", "must not be empty");
        }
        ServiceAccountTokens {
            keys_url: self.keys_url(),
            keys,
            accepted_issuers: issuers.iter().skip(1).cloned().collect(),
            audiences: flags.list("api-audiences").to_vec(),
            longest_seconds: (longest != 0).then_some(longest),
        }
    }

    /// Where the discovery document says that the keys are, if a flag says it.
    fn keys_url(&mut self) -> Option<String> {
        const FLAG: &str = "service-account-jwks-uri";
        let given = self.flags.text(FLAG).to_owned();
        if !given.is_empty() {
            if !given.starts_with("https://") {
                self.add(FLAG, format!("requires https scheme, parsed as: {given}"));
            }
            return Some(given);
        }
        let host = self.flags.text("external-hostname");
        if host.is_empty() {
            return None;
        }
        // An address of version 6 has colons, too: a port stands behind its brackets.
        let has_port = match host.rsplit_once(':') {
            Some((name, _)) => !name.contains(':') || name.ends_with(']'),
            None => false,
        };
        Some(match has_port {
            true => format!("https://{host}/openid/v1/jwks"),
            false => format!(
                "https://{host}:{}/openid/v1/jwks",
                self.flags.int("secure-port")
            ),
        })
    }

    fn signing_key(&mut self) -> Option<String> {
        const FLAG: &str = "service-account-signing-key-file";
        let path = path(self.flags, FLAG)?;
        let read = files::read_text(FLAG, &path).and_then(|pem| {
            match PrivateKey::from_pem(pem.as_bytes()) {
                Ok(_) => Ok(pem),
                Err(error) => Err(Error::BadFile {
                    flag: FLAG,
                    path: path.clone(),
                    problem: format!("cannot be used: {error}"),
                }),
            }
        });
        self.keep(read)
    }

    fn static_tokens(&mut self) -> Vec<StaticToken> {
        const FLAG: &str = "token-auth-file";
        let Some(path) = path(self.flags, FLAG) else {
            return Vec::new();
        };
        let read = files::read_text(FLAG, &path).and_then(|text| {
            token_file::parse(&text).map_err(|problem| Error::BadFile {
                flag: FLAG,
                path: path.clone(),
                problem: format!("is no file of tokens: {problem}"),
            })
        });
        self.keep(read).unwrap_or_default()
    }

    fn authority(&mut self, flag: &'static str) -> Option<(Roots, String)> {
        let path = path(self.flags, flag)?;
        let read = files::read_text(flag, &path).and_then(|pem| {
            let certificates = files::read_certificates(flag, &path)?;
            let roots = certificate::roots(certificates).map_err(|problem| Error::BadFile {
                flag,
                path: path.clone(),
                problem,
            })?;
            Ok((roots, pem))
        });
        self.keep(read)
    }

    fn proxies(&mut self) -> Option<(RequestHeader, String)> {
        let (roots, pem) = self.authority("requestheader-client-ca-file")?;
        let list = |flag: &str| self.flags.list(flag).to_vec();
        let names = HeaderNames {
            allowed: list("requestheader-allowed-names"),
            username: list("requestheader-username-headers"),
            uid: list("requestheader-uid-headers"),
            group: list("requestheader-group-headers"),
            extra_prefixes: list("requestheader-extra-headers-prefix"),
        };
        Some((RequestHeader { roots, names }, pem))
    }

    /// By what extension servers know this one: both files, or neither.
    fn front_proxy(&mut self) -> Option<FrontProxy> {
        let flags = ["proxy-client-cert-file", "proxy-client-key-file"];
        let [certificate, key] = flags.map(|flag| {
            let path = path(self.flags, flag)?;
            let read = files::read_text(flag, &path);
            self.keep(read)
        });
        let authority = path(self.flags, "requestheader-client-ca-file");
        let authority =
            authority.and_then(|path| files::read_text("requestheader-client-ca-file", &path).ok());
        Some(FrontProxy {
            certificate: certificate?,
            key: key?,
            authority: authority.unwrap_or_default(),
        })
    }

    fn networks(&mut self) -> Networks {
        let mut networks = Networks::default();
        let flags = self.flags;
        match service_ranges(flags.text("service-cluster-ip-range")) {
            Ok(None) => {}
            Ok(Some(ranges)) => networks.service_cidrs = ranges,
            Err(problem) => self.add("service-cluster-ip-range", problem),
        }
        // Its type has refused what is no range.
        if let Ok((first, last)) = parse_port_range(flags.text("service-node-port-range")) {
            networks.node_ports = first..=last;
        }
        networks
    }

    fn manager(
        &mut self,
        program: &str,
        environment: Option<String>,
    ) -> Option<Box<manager::Options>> {
        let flags = self.flags;
        let from_environment = environment.filter(|_| !flags.is_given("controllers"));
        let names: Vec<String> = match &from_environment {
            Some(list) => list.split(',').map(|name| name.trim().to_owned()).collect(),
            None => flags.list("controllers").to_vec(),
        };
        let names: Vec<String> = names.into_iter().filter(|name| !name.is_empty()).collect();
        if names.is_empty() {
            return None;
        }
        let gates = flags.list("feature-gates").iter();
        let more: Vec<String> = gates
            .map(|gate| format!("--feature-gates={gate}"))
            .collect();
        match crate::controllers::options(&names, &more, program) {
            Ok(options) => Some(options),
            // Gates were told of already.
            Err(Errors(errors)) => {
                let unknown = errors
                    .into_iter()
                    .filter(|error| !matches!(error, Error::Gate(_)));
                self.errors.extend(unknown);
                None
            }
        }
    }

    fn address(&mut self) -> SocketAddr {
        let port = match self.flags.int("secure-port") {
            0 => {
                self.add(
                    "secure-port",
                    "0 must be between 1 and 65535, inclusive. It cannot be turned off with 0",
                );
                0
            }
            port => u16::try_from(port).unwrap_or(0),
        };
        SocketAddr::new(self.flags.ip("bind-address"), port)
    }

    fn advertise(&mut self, bound: IpAddr) -> IpAddr {
        let given = self.flags.optional_ip("advertise-address");
        match given.filter(|address| !address.is_unspecified()) {
            Some(address) => address,
            None if bound.is_unspecified() => IpAddr::from([127, 0, 0, 1]),
            None => bound,
        }
    }
}

/// One range, or one of each family.
fn service_ranges(text: &str) -> Result<Option<Vec<Cidr>>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let ranges: Option<Vec<Cidr>> = text
        .split(',')
        .map(|part| Cidr::parse(part.trim()))
        .collect();
    let Some(ranges) = ranges else {
        return Err(format!(
            "{text:?} is not an address range such as 10.0.0.0/24"
        ));
    };
    match &ranges[..] {
        [_] => Ok(Some(ranges)),
        [one, two] if one.family() != two.family() => Ok(Some(ranges)),
        [_, _] => Err("must have one range of each family, IPv4 and IPv6".to_owned()),
        _ => Err("must not contain more than two entries".to_owned()),
    }
}
