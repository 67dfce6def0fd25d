//! Logs and commands: what is checked before they are passed on, and how they are answered.

use super::connections::port;
use super::*;
use crate::containers::{ExecRequest, Kubelets, LogRequest, Output};
use crate::serve::default_limits;
use api::usage::{Declared, External};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Says what it was asked.
struct Parrot;

impl Kubelets for Parrot {
    fn log(
        &self,
        request: LogRequest,
    ) -> BoxFuture<'static, Result<BoxStream<'static, Bytes>, String>> {
        let LogRequest {
            container,
            follow,
            tail_lines,
            ..
        } = request;
        let text = format!("{container} follow={follow} tail={tail_lines:?}\n");
        Box::pin(async move { Ok(stream::iter([Bytes::from(text)]).boxed()) })
    }

    fn exec(
        &self,
        request: ExecRequest,
    ) -> BoxFuture<'static, Result<BoxStream<'static, Output>, String>> {
        let text = format!("{:?} in {}\n", request.command, request.container);
        let outputs = [Output::Stdout(Bytes::from(text)), Output::Exit(7)];
        Box::pin(async move { Ok(stream::iter(outputs).boxed()) })
    }

    fn usage(&self, _: &Value) -> Vec<Declared> {
        Vec::new()
    }

    fn external_metrics(&self) -> Vec<External> {
        Vec::new()
    }
}

async fn server() -> Server {
    let server = Server::new();
    server.server.connect_kubelets(Arc::new(Parrot));
    server.pod("p", "node-0").await;
    server
}

#[tokio::test(start_paused = true)]
async fn logs_are_passed_on_with_their_options() {
    let server = server().await;
    let log = async |query: &str| {
        let (code, body) = server.get(&format!("{PODS}/p/log{query}")).await;
        let text = body["message"]
            .as_str()
            .or(body.as_str())
            .map(str::to_owned);
        (code, text.unwrap_or_default())
    };
    let answered = |text: &str| (200, text.to_owned());
    assert_eq!(log("").await, answered("c follow=false tail=None\n"));
    assert_eq!(
        log("?container=c&follow=true&tailLines=3").await,
        answered("c follow=true tail=Some(3)\n")
    );
    assert_eq!(
        log("?container=x").await,
        (400, "container x is not valid for pod p".to_owned())
    );
    assert_eq!(
        log("?tailLines=-1").await,
        (
            422,
            "PodLogOptions \"p\" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0"
                .to_owned()
        )
    );
    assert_eq!(
        log("?sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z")
            .await
            .0,
        422
    );
    assert_eq!(log("?sinceTime=yesterday").await.0, 400);
    server.pod("unbound", "").await;
    assert_eq!(
        server.get(&format!("{PODS}/unbound/log")).await,
        (200, json!(""))
    );
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_streamed_says_so_once() {
    let server = server().await;
    for (request, code, expected) in [
        ("p/exec?command=ls", 400, "Upgrade request required"),
        (
            "p/exec",
            400,
            "you must specify at least 1 command for the container",
        ),
        (
            "p/exec?command=ls&container=x",
            400,
            "container x is not valid for pod p",
        ),
        ("p/portforward", 501, "port-forward: this pod is simulated"),
        ("p/attach", 400, "attach: this container is simulated"),
    ] {
        let (answered, body) = server.post(&format!("{PODS}/{request}"), json!({})).await;
        let message = body["message"].as_str().unwrap_or_default();
        assert_eq!(answered, code, "{request}: {message}");
        assert!(message.starts_with(expected), "{request}: {message}");
    }
}

/// All that comes back when a WebSocket of this protocol is opened.
async fn websocket(path: &str, protocol: &str) -> String {
    let port = port(default_limits()).await;
    let server = Server {
        server: port.server.clone(),
    };
    server.server.connect_kubelets(Arc::new(Parrot));
    server.pod("p", "node-0").await;
    let protocol = match protocol {
        "" => String::new(),
        named => format!("sec-websocket-protocol: {named}\r\n"),
    };
    let head = format!(
        "GET {PODS}/p/{path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer let-me-in\r\n\
        connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
        sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n{protocol}\r\n"
    );
    let mut stream = port.connect("http/1.1").await;
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut rest = Vec::new();
    // Whoever closes without a word of TLS still has said all there is to say.
    let _ = stream.read_to_end(&mut rest).await;
    String::from_utf8_lossy(&rest).into_owned()
}

fn check_contains(text: &str, expected: &[&str]) {
    for part in expected {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
}

#[tokio::test]
async fn exec_speaks_websocket_and_ends_with_the_exit_code() {
    let command = "exec?command=echo&command=hi&stdout=true";
    check_contains(
        &websocket(command, "v5.channel.k8s.io").await,
        &[
            "HTTP/1.1 101",
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
            "v5.channel.k8s.io",
            "\u{1}[\"echo\", \"hi\"] in c\n",
            "\"NonZeroExitCode\"",
            "\"message\":\"7\"",
        ],
    );
    for (protocol, expected) in [
        ("channel.k8s.io", "\u{1}[\"echo\", \"hi\"] in c\n"),
        ("", "\u{1}[\"echo\", \"hi\"] in c\n"),
        ("base64.channel.k8s.io", "1WyJlY2hvIiwgImhpIl0gaW4gYwo="),
    ] {
        let text = websocket(command, protocol).await;
        check_contains(&text, &["HTTP/1.1 101", expected]);
        assert!(!text.contains("NonZeroExitCode"), "{text:?}");
    }
    let text = websocket(command, "channel.k8s.io").await;
    check_contains(&text, &["\u{3}command terminated with non-zero exit code"]);
    check_contains(&websocket(command, "x").await, &["HTTP/1.1 400"]);
}

#[tokio::test]
async fn logs_come_by_websocket() {
    for (protocol, expected) in [
        ("binary.k8s.io", "c follow=true tail=None\n"),
        ("", "c follow=true tail=None\n"),
        ("base64.binary.k8s.io", "YyBmb2xsb3c9dHJ1ZSB0YWlsPU5vbmUK"),
    ] {
        let text = websocket("log?follow=true", protocol).await;
        check_contains(&text, &["HTTP/1.1 101", expected]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_nobody_acts_upon_is_told_when_it_is_created() {
    let server = server().await;
    let path = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
    let policy = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"name": "deny"}, "spec": {"podSelector": {}}});
    let json = "application/json";
    let create = |policy: &Value| {
        let body = Bytes::from(policy.to_string());
        server.send(Method::POST, path, json, json, body)
    };
    let answer = create(&policy).await;
    assert_eq!(answer.status(), 201);
    let warning = answer.headers()["warning"].to_str().unwrap();
    assert!(
        warning.contains("no traffic flows between pods"),
        "{warning}"
    );
}
