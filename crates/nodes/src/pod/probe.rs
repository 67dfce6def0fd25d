//! How a container is asked whether it is well.

use api::Istr;
use api::meta::or_default;
use serde::Deserialize;

/// When a probe asks, what it asks, and how often it believes the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Probe {
    pub initial_delay_seconds: i32,
    pub period_seconds: i32,
    pub timeout_seconds: i32,
    pub success_threshold: i32,
    pub failure_threshold: i32,
    /// How long a container that failed may take to end; the pod's own if not given.
    pub termination_grace_period_seconds: Option<i64>,
    #[serde(flatten)]
    pub check: Check,
}

/// What is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "WireCheck")]
pub enum Check {
    Exec(Box<[Istr]>),
    Http,
    Tcp {
        /// Empty for the pod's own address.
        host: Istr,
        /// A number, or the name of a port of the container.
        port: Istr,
    },
    Grpc,
    /// From a test that left it out.
    #[default]
    Unsaid,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireCheck {
    exec: Option<WireExec>,
    http_get: Option<serde::de::IgnoredAny>,
    tcp_socket: Option<WireSocket>,
    grpc: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireExec {
    #[serde(deserialize_with = "or_default")]
    command: Vec<Istr>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireSocket {
    host: Istr,
    port: serde_json::Value,
}

impl From<WireCheck> for Check {
    fn from(wire: WireCheck) -> Check {
        match wire {
            WireCheck {
                exec: Some(exec), ..
            } => Check::Exec(exec.command.into()),
            WireCheck {
                tcp_socket: Some(socket),
                ..
            } => Check::Tcp {
                host: socket.host,
                port: match &socket.port {
                    serde_json::Value::String(name) => Istr::from(name.as_str()),
                    port => Istr::from(port.to_string()),
                },
            },
            WireCheck { grpc: Some(_), .. } => Check::Grpc,
            WireCheck {
                http_get: Some(_), ..
            } => Check::Http,
            _ => Check::Unsaid,
        }
    }
}
