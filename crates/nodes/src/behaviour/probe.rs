//! What probes of a container find, as far as somebody says so.

use std::net::IpAddr;
use std::time::Duration;

use super::{RunFor, command, parse_duration};
use crate::pod::{Check, Container, Probe};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProbeKind {
    Startup,
    Liveness,
    Readiness,
}

/// How a container answers a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Succeeds,
    /// It fails from this long after the container's start on, for good or for a while.
    Fails {
        after: Duration,
        lasts: Option<Duration>,
    },
}

impl Answer {
    pub(super) const EXPECTED: &str =
        "succeeds, or fails, or fails after 30s, or fails for 10s, or fails after 30s for 10s";

    pub(super) const FAILS: Answer = Answer::Fails {
        after: Duration::ZERO,
        lasts: None,
    };

    pub(super) fn parse(text: &str) -> Option<Answer> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (after, lasts) = match words.as_slice() {
            ["succeeds"] => return Some(Answer::Succeeds),
            ["fails"] => return Some(Answer::FAILS),
            ["fails", "after", after] => (parse_duration(after)?, None),
            ["fails", "for", lasts] => (Duration::ZERO, Some(parse_duration(lasts)?)),
            ["fails", "after", after, "for", lasts] => {
                (parse_duration(after)?, Some(parse_duration(lasts)?))
            }
            _ => return None,
        };
        Some(Answer::Fails { after, lasts })
    }

    /// What the probe's own command says; everything that we do not run succeeds.
    pub(super) fn of_probe(probe: &Probe) -> Answer {
        match runs_for(probe) {
            Some((run, _)) if is_too_long(run, probe) => Answer::FAILS,
            Some((_, code)) if code != 0 => Answer::FAILS,
            _ => Answer::Succeeds,
        }
    }
}

/// What a kubelet says about a probe that failed, after the colon.
pub fn failure(container: &Container, probe: &Probe, pod_ip: Option<IpAddr>) -> String {
    match &probe.check {
        Check::Exec(command) => match runs_for(probe) {
            Some((run, _)) if is_too_long(run, probe) => {
                let words: Vec<&str> = command.iter().map(|word| word.as_str()).collect();
                let limit = probe.timeout_seconds.max(1);
                let line = words.join(" ");
                format!("command timed out: {line:?} timed out after {limit}s")
            }
            _ => command_output(command),
        },
        Check::Http | Check::Unsaid => "HTTP probe failed with statuscode: 503".to_owned(),
        Check::Tcp { host, port } => {
            let host = match pod_ip {
                Some(ip) if host.is_empty() => ip.to_string(),
                _ => host.to_string(),
            };
            let host = match host.contains(':') {
                true => format!("[{host}]"),
                false => host,
            };
            let port = container.port(port);
            format!("dial tcp {host}:{port}: connect: connection refused")
        }
        Check::Grpc => "service unhealthy (responded with \"NOT_SERVING\")".to_owned(),
    }
}

/// The favourite of all examples fails because its file is not there.
fn command_output(command: &[api::Istr]) -> String {
    match command {
        [cat, file] if cat == "cat" => {
            format!("cat: can't open '{file}': No such file or directory\n")
        }
        _ => String::new(),
    }
}

fn runs_for(probe: &Probe) -> Option<(RunFor, i32)> {
    match &probe.check {
        Check::Exec(command) => command::understand(command),
        _ => None,
    }
}

fn is_too_long(run: RunFor, probe: &Probe) -> bool {
    let limit = u64::try_from(probe.timeout_seconds.max(1)).unwrap_or(1);
    match run {
        RunFor::Forever => true,
        RunFor::Time(time) => time > Duration::from_secs(limit),
    }
}
