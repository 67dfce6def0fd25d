//! `log`, `exec`, `attach` and `portforward` of a pod: passed on to whoever runs the containers.
//!
//! UPSTREAM: `pkg/registry/core/pod/rest`: the same checks, in the same words, before anything is passed on.

use crate::Body;
use crate::admission::Operation;
use crate::containers::{ExecRequest, Kubelets, LogRequest, Output};
use crate::fields::{list, text};
use crate::kinds::Subresource;
use crate::rest::{Context, response};
use crate::status::{Cause, Status};
use crate::websocket::{Handshake, Socket, upgrades_to};
use api::{MicroTime, Time};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use http::header::{CONNECTION, CONTENT_TYPE, HeaderValue, SEC_WEBSOCKET_ACCEPT};
use http::header::{SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// The protocols of commands, the newest first. The fifth differs in how a client ends its input, which is not read; the
/// oldest, which is meant where none is named, have no status at the end, but words about what went wrong.
const PROTOCOLS: [&str; 6] = [
    "v5.channel.k8s.io",
    "v4.channel.k8s.io",
    "v4.base64.channel.k8s.io",
    "channel.k8s.io",
    "base64.channel.k8s.io",
    "",
];

/// The protocols of logs.
const LOG_PROTOCOLS: [&str; 3] = ["binary.k8s.io", "base64.binary.k8s.io", ""];

const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;

/// Where there is nobody to ask.
const NO_CONTAINERS: &str = "the nodes of this cluster are simulated and run no containers";

impl Context {
    pub(super) async fn container_subresource(
        &mut self,
        subresource: Subresource,
    ) -> Result<Response<Body>, Status> {
        let stored = self.find()?;
        if let Some((kind, options)) = self.connect_options(subresource) {
            if subresource != Subresource::Proxy {
                // UPSTREAM: a WebSocket begins with a GET, and still may do all that a POST may.
                let (rbac, identity) = (&self.shared.rbac, &self.identity);
                rbac.check_verb(&self.shared, identity, &self.info, "create")?;
            }
            let shown = Some(("v1", kind));
            self.admit_unstored(Operation::Connect, shown, options, false)
                .await?;
        }
        let pod = self.shared.parsed.value(&self.stored_kind, &stored);
        let kubelets = self.shared.mounts.kubelets.read().clone();
        let what = subresource.name();
        let Some(kubelets) = kubelets else {
            let why = format!("{what} is not implemented: {NO_CONTAINERS}");
            return Err(Status::new(501, "NotImplemented", why));
        };
        match (subresource, self.info.verb) {
            (Subresource::Log, "get") => self.log(&*kubelets, pod).await,
            (
                Subresource::Exec | Subresource::Attach | Subresource::PortForward,
                "get" | "create",
            ) => match subresource {
                Subresource::Exec => self.exec(&*kubelets, pod).await,
                Subresource::Attach => {
                    self.container(&pod)?;
                    let why = "attach: this container is simulated and no process runs in it; kubectl logs shows what it printed, kubectl exec knows a few commands";
                    self.refuse_streams(why)
                }
                _ => {
                    let why =
                        "port-forward: this pod is simulated and nothing listens on its ports";
                    Err(Status::new(501, "NotImplemented", why))
                }
            },
            (Subresource::Proxy, _) => {
                let why = format!("{what} is not implemented: {NO_CONTAINERS}");
                Err(Status::new(501, "NotImplemented", why))
            }
            _ => Err(crate::rest::not_allowed()),
        }
    }

    /// The container that is meant: the one that is named, or the only one.
    fn container(&self, pod: &Value) -> Result<String, Status> {
        let name = &self.info.name;
        let lists = [
            "spec.initContainers",
            "spec.containers",
            "spec.ephemeralContainers",
        ];
        let names: Vec<&str> = lists
            .iter()
            .flat_map(|path| list(pod, path))
            .map(|container| text(container, "name"))
            .collect();
        let asked = self.info.query.get("container");
        let why = match (asked, list(pod, "spec.containers")) {
            ("", [only]) => return Ok(text(only, "name").to_owned()),
            ("", []) => format!("a container name must be specified for pod {name}"),
            ("", _) => format!(
                "a container name must be specified for pod {name}, choose one of: [{}]",
                names.join(" ")
            ),
            (asked, _) if names.contains(&asked) => return Ok(asked.to_owned()),
            (asked, _) => format!("container {asked} is not valid for pod {name}"),
        };
        Err(Status::bad_request(why))
    }

    async fn log(
        &mut self,
        kubelets: &dyn Kubelets,
        pod: Arc<Value>,
    ) -> Result<Response<Body>, Status> {
        let mut request = self.log_request(pod.clone())?;
        request.container = self.container(&pod)?;
        if text(&pod, "spec.nodeName").is_empty() {
            // UPSTREAM: nobody to ask, and nothing wrong with it.
            return Ok(response::typed(200, "text/plain", Bytes::new()));
        }
        let lines = kubelets.log(request).await.map_err(Status::bad_request)?;
        if upgrades_to(&self.headers, "websocket") {
            return self.open_websocket(&LOG_PROTOCOLS, |socket, _| pour(socket, lines));
        }
        let frames = lines.map(|lines| Ok(Frame::data(lines)));
        let body = BodyExt::boxed_unsync(StreamBody::new(frames));
        let mut response = Response::new(body);
        let plain = HeaderValue::from_static("text/plain");
        response.headers_mut().insert(CONTENT_TYPE, plain);
        Ok(response)
    }

    fn log_request(&self, pod: Arc<Value>) -> Result<LogRequest, Status> {
        let query = &self.info.query;
        let (tail, limit) = (
            query.number::<i64>("tailLines")?,
            query.number::<i64>("limitBytes")?,
        );
        let since_seconds = query.number::<i64>("sinceSeconds")?;
        let since_time = query.get("sinceTime");
        let stream = Some(query.get("stream")).filter(|stream| !stream.is_empty());
        let mut causes = Vec::new();
        let mut wrong = |field: &str, value: i64, why: &str| {
            let message = format!("Invalid value: {value}: {why}");
            causes.push(Cause::new(field, "FieldValueInvalid", message));
        };
        if let Some(lines) = tail.filter(|lines| *lines < 0) {
            wrong("tailLines", lines, "must be greater than or equal to 0");
        }
        if let Some(bytes) = limit.filter(|bytes| *bytes < 1) {
            wrong("limitBytes", bytes, "must be greater than 0");
        }
        if let Some(seconds) = since_seconds.filter(|seconds| *seconds < 1) {
            wrong("sinceSeconds", seconds, "must be greater than 0");
        }
        if since_seconds.is_some() && !since_time.is_empty() {
            let message =
                "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified";
            causes.push(Cause::new("", "FieldValueForbidden", message));
        }
        match stream {
            None | Some("All" | "Stdout" | "Stderr") => {}
            Some(other) => {
                let message = format!(
                    "Unsupported value: {other:?}: supported values: \"All\", \"Stderr\", \"Stdout\""
                );
                causes.push(Cause::new("stream", "FieldValueNotSupported", message));
            }
        }
        let one = stream.filter(|stream| *stream != "All");
        if one.is_some() && tail.is_some() {
            let message =
                "Forbidden: `tailLines` and specific `stream` are mutually exclusive for now";
            causes.push(Cause::new("", "FieldValueForbidden", message));
        }
        if !causes.is_empty() {
            return Err(Status::invalid(
                "",
                "PodLogOptions",
                &self.info.name,
                causes,
            ));
        }
        let count = |number: i64| usize::try_from(number).unwrap_or(usize::MAX);
        Ok(LogRequest {
            pod,
            container: String::new(),
            follow: query.flag("follow"),
            previous: query.flag("previous"),
            timestamps: query.flag("timestamps"),
            since: self.since(since_seconds, since_time)?,
            tail_lines: tail.map(count),
            limit_bytes: limit.map(count),
            stream: one.map(str::to_owned),
        })
    }

    fn since(&self, seconds: Option<i64>, time: &str) -> Result<Option<MicroTime>, Status> {
        if let Some(seconds) = seconds {
            let ago = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
            return Ok(Some(self.shared.clock.now().minus(ago)));
        }
        if time.is_empty() {
            return Ok(None);
        }
        let parsed = MicroTime::parse(time).or_else(|| Time::parse(time).map(Time::micro));
        let wrong =
            || Status::bad_request(format!("sinceTime: {time:?} is not a time of RFC 3339"));
        parsed.map(Some).ok_or_else(wrong)
    }

    async fn exec(
        &mut self,
        kubelets: &dyn Kubelets,
        pod: Arc<Value>,
    ) -> Result<Response<Body>, Status> {
        let container = self.container(&pod)?;
        let host = text(&pod, "spec.nodeName");
        if host.is_empty() {
            let why = format!("pod {} does not have a host assigned", self.info.name);
            return Err(Status::bad_request(why));
        }
        if matches!(text(&pod, "status.phase"), "Succeeded" | "Failed") {
            let phase = text(&pod, "status.phase");
            let why = format!(
                "cannot exec into a container in a completed pod; current phase is {phase}"
            );
            return Err(Status::bad_request(why));
        }
        let command: Vec<String> = self.info.query.all("command").map(str::to_owned).collect();
        if command.is_empty() {
            return Err(Status::bad_request(
                "you must specify at least 1 command for the container",
            ));
        }
        let request = ExecRequest {
            pod,
            container,
            command,
        };
        let outputs = kubelets.exec(request).await.map_err(Status::internal)?;
        self.open_streams(Ending::Command(outputs))
    }

    fn refuse_streams(&mut self, why: &str) -> Result<Response<Body>, Status> {
        self.open_streams(Ending::Refused(why.to_owned()))
    }

    /// Upgrades to a WebSocket, if the client asks for one.
    fn open_streams(&mut self, ending: Ending) -> Result<Response<Body>, Status> {
        if !upgrades_to(&self.headers, "websocket") {
            let why = match &ending {
                Ending::Refused(why) => why.clone(),
                Ending::Command(_) if upgrades_to(&self.headers, "spdy") => {
                    "this server speaks WebSocket and no SPDY: use a kubectl of 1.31 or later, and leave KUBECTL_REMOTE_COMMAND_WEBSOCKETS on".to_owned()
                }
                Ending::Command(_) => "Upgrade request required".to_owned(),
            };
            return Err(Status::bad_request(why));
        }
        let wants = Wants {
            stdout: self.info.query.flag("stdout"),
            stderr: self.info.query.flag("stderr"),
            tty: self.info.query.flag("tty"),
        };
        self.open_websocket(&PROTOCOLS, |socket, protocol| {
            converse(socket, ending, wants, protocol)
        })
    }

    /// Agrees on a protocol and hands the connection over.
    fn open_websocket<F>(
        &mut self,
        protocols: &[&'static str],
        talk: impl FnOnce(WebSocket, &'static str) -> F + Send + 'static,
    ) -> Result<Response<Body>, Status>
    where
        F: Future<Output = std::io::Result<()>> + Send,
    {
        let handshake = Handshake::new(&self.headers, protocols).map_err(Status::bad_request)?;
        let Some(upgrade) = self.upgrade.take() else {
            return Err(Status::bad_request(
                "this connection cannot be upgraded to a WebSocket",
            ));
        };
        let (protocol, encoding) = (handshake.protocol, handshake.encoding());
        upgrade.then(move |stream| async move {
            // How the connection ends concerns its client only.
            let _ = talk(Socket::new(TokioIo::new(stream), encoding), protocol).await;
        });
        let mut response = Response::new(response::whole(Bytes::new()));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        if !protocol.is_empty() {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
        }
        if let Ok(accept) = HeaderValue::try_from(handshake.accept) {
            headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
        }
        Ok(response)
    }
}

/// What is said on the streams.
enum Ending {
    Command(BoxStream<'static, Output>),
    Refused(String),
}

/// Which streams the client reads.
struct Wants {
    stdout: bool,
    stderr: bool,
    tty: bool,
}

type WebSocket = Socket<TokioIo<Upgraded>>;

/// Sends a log as it comes.
async fn pour(mut socket: WebSocket, mut lines: BoxStream<'static, Bytes>) -> std::io::Result<()> {
    loop {
        let piece = tokio::select! {
            piece = lines.next() => piece,
            () = socket.until_closed() => return Ok(()),
        };
        match piece {
            Some(piece) => socket.send(&piece).await?,
            None => return socket.close().await,
        }
    }
}

/// Sends all that comes, then how it ended.
async fn converse(
    mut socket: WebSocket,
    ending: Ending,
    wants: Wants,
    protocol: &'static str,
) -> std::io::Result<()> {
    let has_status = protocol.starts_with('v');
    let mut outputs = match ending {
        Ending::Command(outputs) => outputs,
        Ending::Refused(why) => {
            let status = json!({"metadata": {}, "status": "Failure", "message": why, "reason": "NotImplemented"});
            let text = if has_status { status.to_string() } else { why };
            socket.send_on(ERROR, text.as_bytes()).await?;
            return socket.close().await;
        }
    };
    loop {
        let output = tokio::select! {
            output = outputs.next() => output,
            () = socket.until_closed() => return Ok(()),
        };
        let (channel, text) = match output {
            Some(Output::Stdout(text)) if wants.stdout => (STDOUT, text),
            // A terminal has one stream for both.
            Some(Output::Stderr(text)) if wants.tty && wants.stdout => (STDOUT, text),
            Some(Output::Stderr(text)) if wants.stderr => (STDERR, text),
            Some(Output::Stdout(_) | Output::Stderr(_)) => continue,
            Some(Output::Exit(code)) => {
                let status = exit_status(code);
                if has_status {
                    socket.send_on(ERROR, status.to_string().as_bytes()).await?;
                } else if code != 0 {
                    socket
                        .send_on(ERROR, text(&status, "message").as_bytes())
                        .await?;
                }
                return socket.close().await;
            }
            None => return socket.close().await,
        };
        match wants.tty {
            true => {
                let text = String::from_utf8_lossy(&text).replace('\n', "\r\n");
                socket.send_on(channel, text.as_bytes()).await?;
            }
            false => socket.send_on(channel, &text).await?,
        }
    }
}

fn exit_status(code: i32) -> Value {
    match code {
        0 => json!({"metadata": {}, "status": "Success"}),
        code => json!({
            "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
            "message": format!("command terminated with non-zero exit code: exit status {code}"),
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
        }),
    }
}
