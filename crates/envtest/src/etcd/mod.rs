//! A stand-in for etcd beside the stand-in for kube-apiserver, which keeps its objects itself.
//!
//! Whoever starts a control plane starts etcd first and waits until it is well. This answers just that: `/health`, `/livez`,
//! `/readyz` and `/version` on the client URLs. It keeps no keys, and says so to whoever asks for them.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::LazyLock;

use bytes::Bytes;
use connections::{Connections, Limits};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use manager::flags::{self, Help, ParseError, Parsed, Table};
use runtime::Stop;
use tokio::net::{TcpListener, TcpStream};

/// The release whose answers these are.
const VERSION: &str = "3.6.8";

/// Nobody but a health check connects.
const MOST_CONNECTIONS: usize = 64;

/// What a command line asks for.
#[derive(Debug)]
pub enum Command {
    Run(Options),
    /// Print this to standard output and exit with 0.
    Print(String),
}

#[derive(Debug, PartialEq, Eq)]
pub struct Options {
    /// `host:port` of each client URL.
    pub listen: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Flags(#[from] ParseError),
    #[error(
        "--{flag}: {url:?} must be http://HOST:PORT; TLS is not built, for nothing is kept here"
    )]
    Url { flag: &'static str, url: String },
    #[error("cannot listen on {address}; is another process using the port?")]
    Listen {
        address: String,
        #[source]
        source: std::io::Error,
    },
}

fn table() -> &'static Table {
    static TABLE: LazyLock<Table> = LazyLock::new(|| Table::read(include_str!("table.txt")));
    &TABLE
}

impl Options {
    /// Reads a command line without the program's name.
    pub fn parse(
        arguments: impl IntoIterator<Item = String>,
        program: &str,
    ) -> Result<Command, Error> {
        // UPSTREAM: etcd takes long flags with one hyphen, too.
        let long = arguments.into_iter().map(|argument| {
            let is_short = argument.starts_with('-') && !argument.starts_with("--");
            match is_short && argument.len() > 2 {
                true => format!("-{argument}"),
                false => argument,
            }
        });
        let flags = table().parse(long)?;
        if flags.bool("help") {
            let about = Help {
                program,
                introduction: INTRODUCTION,
                ..Help::default()
            };
            return Ok(Command::Print(flags::help(table(), &about, 100)));
        }
        if flags.bool("version") {
            return Ok(Command::Print(format!(
                "etcd Version: {VERSION}\nKeeps nothing: a stand-in by steersman {}",
                env!("CARGO_PKG_VERSION")
            )));
        }
        Options::read(&flags).map(Command::Run)
    }

    fn read(flags: &Parsed) -> Result<Options, Error> {
        let mut listen = Vec::new();
        for flag in [
            "listen-client-urls",
            "listen-client-http-urls",
            "listen-metrics-urls",
        ] {
            for url in flags.list(flag) {
                let address = url
                    .strip_prefix("http://")
                    .map(|rest| rest.trim_end_matches('/'));
                match address.filter(|address| address.contains(':')) {
                    Some(address) => listen.push(address.to_owned()),
                    None => {
                        return Err(Error::Url {
                            flag,
                            url: url.clone(),
                        });
                    }
                }
            }
        }
        Ok(Options { listen })
    }
}

const INTRODUCTION: &str = "Steersman's stand-in for etcd: it answers health checks and keeps nothing. Steersman's \
    kube-apiserver keeps its objects itself.";

/// Answers until it is told to stop.
pub async fn run(options: Options, stop: Stop) -> Result<(), Error> {
    let connections = Connections::new(Limits::of_process(MOST_CONNECTIONS));
    let mut listening = Vec::new();
    for address in options.listen {
        let bound = TcpListener::bind(&address).await;
        let listener = bound.map_err(|source| Error::Listen { address, source })?;
        let accepting = accept(listener, connections.clone(), stop.clone());
        listening.push(runtime::spawn(accepting));
    }
    for task in listening {
        let _ = task.await;
    }
    Ok(())
}

async fn accept(listener: TcpListener, connections: Connections, stop: Stop) {
    while let Some(accepted) = stop.or(listener.accept()).await {
        match accepted {
            Ok((stream, peer)) => {
                let served = serve(stream, peer, connections.clone(), stop.clone());
                runtime::spawn(served).detach();
            }
            Err(_) => connections.make_room(),
        }
    }
}

async fn serve(stream: TcpStream, peer: SocketAddr, connections: Connections, stop: Stop) {
    let seat = connections.seat(peer.ip());
    let answer = service_fn(|request: Request<Incoming>| {
        let in_flight = seat.begin();
        async move {
            let response = answer(request.method(), request.uri().path());
            drop(in_flight);
            Ok::<_, Infallible>(response)
        }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(connections::IDLE_TIMEOUT)
        .serve_connection(TokioIo::new(stream), answer);
    tokio::select! {
        // How a connection ends concerns its client only.
        _ = connection => {}
        () = seat.closing() => {}
        () = stop.stopped() => {}
    }
}

fn answer(method: &Method, path: &str) -> Response<Full<Bytes>> {
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    let (status, kind, body) = match path {
        _ if !is_read => (StatusCode::NOT_IMPLEMENTED, "text/plain", NO_KEYS),
        "/health" => (
            StatusCode::OK,
            "text/plain",
            r#"{"health":"true","reason":""}"#,
        ),
        "/livez" | "/readyz" => (StatusCode::OK, "text/plain", "ok\n"),
        "/version" => (
            StatusCode::OK,
            "application/json",
            r#"{"etcdserver":"3.6.8","etcdcluster":"3.6.0","storage":"3.6.0"}"#,
        ),
        _ => (StatusCode::NOT_FOUND, "text/plain", "404 page not found\n"),
    };
    let mut response = Response::new(Full::new(Bytes::from_static(body.as_bytes())));
    *response.status_mut() = status;
    let kind = http::HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

const NO_KEYS: &str = "this is a stand-in for etcd that keeps no keys: steersman's kube-apiserver keeps its objects itself\n";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Command, Error> {
        Options::parse(arguments.iter().map(|one| (*one).to_owned()), "etcd")
    }

    #[test]
    fn takes_the_flags_that_envtest_gives() {
        let command = parse(&[
            "--advertise-client-urls=http://127.0.0.1:1234",
            "--data-dir=/tmp/x",
            "--listen-client-urls=http://127.0.0.1:1234",
            "--listen-peer-urls=http://127.0.0.1:1235",
            "--unsafe-no-fsync=true",
            "-log-level",
            "error",
        ]);
        let Ok(Command::Run(options)) = command else {
            panic!("{command:?}");
        };
        assert_eq!(options.listen, ["127.0.0.1:1234"]);
    }

    #[test]
    fn help_names_the_flags_that_envtest_looks_for() {
        let Ok(Command::Print(text)) = parse(&["--help"]) else {
            panic!("help");
        };
        assert!(
            text.lines()
                .any(|line| line.trim_start().starts_with("--unsafe-no-fsync"))
        );
    }

    #[test]
    fn what_it_cannot_do_is_refused() {
        let secure = parse(&["--listen-client-urls=https://127.0.0.1:1"]).unwrap_err();
        assert!(secure.to_string().contains("must be http://HOST:PORT"));
        assert!(
            parse(&["--unsafe-no-fsnyc"])
                .unwrap_err()
                .to_string()
                .contains("did you mean")
        );
        let put = answer(&Method::POST, "/v3/kv/put");
        assert_eq!(put.status(), StatusCode::NOT_IMPLEMENTED);
        assert_eq!(answer(&Method::GET, "/health").status(), StatusCode::OK);
    }
}
