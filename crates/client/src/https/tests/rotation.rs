//! Credentials that change while we run: on disk, by expiry, by a plugin.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;

use super::server::{Authority, Reply, TestServer};
use super::{client, config, get, watch};
use crate::config::tests::Directory;
use crate::config::{Auth, ClientCertificate, Config, ExecConfig, ExecVersion, Material};

/// Passes the interval after which files are looked at again, without waiting for it.
async fn let_ten_seconds_pass() {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(11)).await;
    tokio::time::resume();
}

/// Puts a certificate for a client of this name into the directory, in place of the last one.
fn rotate(server: &TestServer, directory: &Directory, name: &str) -> ClientCertificate {
    let (certificate, key) = server.authority.issue_client(name);
    ClientCertificate {
        certificate: Material::File(directory.write("client.crt", certificate)),
        key: Material::File(directory.write("client.key", key)),
    }
}

fn client_with_files(server: &TestServer, directory: &Directory) -> crate::Client {
    let mut config = config(server);
    config.tls.client = Some(rotate(server, directory, "first"));
    client(config)
}

async fn server_that_names_its_clients() -> TestServer {
    TestServer::builder()
        .ask_for_certificates()
        .start(|request| Reply::text(request.client_name.clone().unwrap_or_default()))
        .await
}

#[tokio::test]
async fn a_new_connection_shows_the_newest_certificate() {
    let server = server_that_names_its_clients().await;
    let directory = Directory::new();
    let client = client_with_files(&server, &directory);
    assert_eq!(get(&client).await.as_deref(), Ok("first"));
    rotate(&server, &directory, "the-second");
    server.close_connections().await;
    assert_eq!(get(&client).await.as_deref(), Ok("the-second"));
}

#[tokio::test]
async fn a_client_certificate_is_rotated_on_disk() {
    let server = server_that_names_its_clients().await;
    let directory = Directory::new();
    let client = client_with_files(&server, &directory);
    assert_eq!(get(&client).await.as_deref(), Ok("first"));
    rotate(&server, &directory, "the-second");
    assert_eq!(
        get(&client).await.as_deref(),
        Ok("first"),
        "not looked at yet"
    );
    let_ten_seconds_pass().await;
    assert_eq!(get(&client).await.as_deref(), Ok("the-second"));
    directory.write("client.crt", "half writ");
    let_ten_seconds_pass().await;
    assert_eq!(
        get(&client).await.as_deref(),
        Ok("the-second"),
        "what cannot be read changes nothing"
    );
}

#[tokio::test]
async fn a_token_file_is_read_again_when_the_token_is_refused() {
    let directory = Directory::new();
    let path = directory.write("token", "old\n");
    let server = TestServer::start(|request| match request.header("authorization") {
        "Bearer old" if request.number == 1 => Reply::text("hello old"),
        "Bearer new" => Reply::text("hello new"),
        _ => Reply::status(401, "no"),
    })
    .await;
    let client = client(Config {
        auth: Auth::TokenFile(path),
        ..config(&server)
    });
    assert_eq!(get(&client).await.as_deref(), Ok("hello old"));
    let message = get(&client).await.unwrap_err();
    assert!(
        message.contains("check that the kubeconfig's token"),
        "{message}"
    );
    directory.write("token", "new");
    assert_eq!(
        get(&client).await.as_deref(),
        Ok("hello new"),
        "at once, without waiting for the next look"
    );
}

#[tokio::test]
async fn an_expired_token_in_mid_stream_is_replaced_when_the_watch_resumes() {
    let directory = Directory::new();
    let path = directory.write("token", "old");
    let server =
        TestServer::start(
            |request| match (request.number, request.header("authorization")) {
                (1, _) | (_, "Bearer new") => Reply::text("{\"type\":\"ADDED\",\"object\":{}}\n"),
                _ => Reply::status(401, "expired"),
            },
        )
        .await;
    let client = client(Config {
        auth: Auth::TokenFile(path),
        ..config(&server)
    });
    let mut events = watch(&client).await;
    assert!(events.next().await.unwrap().is_ok());
    assert!(events.next().await.is_none(), "the server ends the stream");
    directory.write("token", "new");
    assert!(watch(&client).await.next().await.unwrap().is_ok());
}

fn plugin(directory: &Directory, expires_at: &str) -> Auth {
    // Each run appends a line, and the token tells how many there are.
    let script = format!(
        "cd {}; echo x >>runs; n=$(wc -l <runs); echo \"{{\\\"kind\\\":\\\"ExecCredential\\\",\
         \\\"apiVersion\\\":\\\"client.authentication.k8s.io/v1\\\",\
         \\\"status\\\":{{\\\"token\\\":\\\"t$((n))\\\",\\\"expirationTimestamp\\\":\\\"{expires_at}\\\"}}}}\"",
        directory.0.display()
    );
    Auth::Exec(Box::new(ExecConfig {
        command: "/bin/sh".into(),
        args: vec!["-c".into(), script],
        env: Vec::new(),
        version: ExecVersion::V1,
        install_hint: String::new(),
        cluster: None,
    }))
}

#[tokio::test]
async fn a_plugin_runs_once_until_its_credential_is_refused() {
    let directory = Directory::new();
    let server =
        TestServer::start(
            |request| match (request.number, request.header("authorization")) {
                (..=20, "Bearer t1") | (_, "Bearer t2") => Reply::text("ok"),
                _ => Reply::status(401, "no"),
            },
        )
        .await;
    let client = client(Config {
        auth: plugin(&directory, "2030-01-01T01:00:00Z"),
        ..config(&server)
    });
    for answer in join_all((0..20).map(|_| get(&client))).await {
        assert_eq!(answer.as_deref(), Ok("ok"));
    }
    assert!(
        get(&client).await.is_err(),
        "not run again within seconds of the last time"
    );
    let_ten_seconds_pass().await;
    for answer in join_all((0..20).map(|_| get(&client))).await {
        assert_eq!(answer.as_deref(), Ok("ok"));
    }
    assert_eq!(
        std::fs::read_to_string(directory.0.join("runs"))
            .unwrap()
            .lines()
            .count(),
        2
    );
}

#[tokio::test]
async fn a_plugin_runs_again_when_its_credential_expires() {
    let directory = Directory::new();
    let server =
        TestServer::start(|request| Reply::text(request.header("authorization").to_owned())).await;
    let client = client(Config {
        auth: plugin(&directory, "2030-01-01T00:00:05Z"),
        ..config(&server)
    });
    assert_eq!(get(&client).await.as_deref(), Ok("Bearer t1"));
    assert_eq!(get(&client).await.as_deref(), Ok("Bearer t2"));
}

#[tokio::test]
async fn a_certificate_from_a_plugin_is_shown() {
    let server = TestServer::builder()
        .ask_for_certificates()
        .start(|request| Reply::text(request.client_name.clone().unwrap_or_default()))
        .await;
    let directory = Directory::new();
    let (certificate, key) = server.authority.issue_client("first");
    let credential = serde_json::json!({
        "kind": "ExecCredential",
        "apiVersion": "client.authentication.k8s.io/v1",
        "status": {"clientCertificateData": certificate, "clientKeyData": key},
    });
    let path = directory.write("credential", credential.to_string());
    let Auth::Exec(mut exec) = plugin(&directory, "") else {
        unreachable!("it is a plugin")
    };
    exec.args = vec!["-c".into(), format!("cat {}", path.display())];
    let client = client(Config {
        auth: Auth::Exec(exec),
        ..config(&server)
    });
    assert_eq!(get(&client).await.as_deref(), Ok("first"));
    assert_eq!(get(&client).await.as_deref(), Ok("first"));
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn an_authority_is_rotated_on_disk() {
    let server = TestServer::start(|_| Reply::text("hi")).await;
    let directory = Directory::new();
    let path = directory.write("ca.crt", Authority::new().pem());
    let mut config = config(&server);
    config.tls.authorities = Some(Material::File(path));
    let client = client(config);
    assert!(get(&client).await.unwrap_err().contains("not signed by"));
    directory.write(
        "ca.crt",
        [server.authority.pem(), Authority::new().pem()].concat(),
    );
    let_ten_seconds_pass().await;
    assert_eq!(get(&client).await.as_deref(), Ok("hi"));
}

#[tokio::test]
async fn a_plugin_that_fails_is_not_run_for_everyone_who_waits() {
    let directory = Directory::new();
    let server = TestServer::start(|_| Reply::text("hi")).await;
    let Auth::Exec(mut exec) = plugin(&directory, "") else {
        unreachable!("it is a plugin")
    };
    exec.args = vec![
        "-c".into(),
        format!("echo x >>{}; exit 9", directory.0.join("runs").display()),
    ];
    let client = client(Config {
        auth: Auth::Exec(exec),
        ..config(&server)
    });
    for answer in join_all((0..20).map(|_| get(&client))).await {
        assert_eq!(
            answer.unwrap_err(),
            "exec plugin \"/bin/sh\" failed: it ended with exit status: 9"
        );
    }
    assert_eq!(
        std::fs::read_to_string(directory.0.join("runs"))
            .unwrap()
            .lines()
            .count(),
        1
    );
}
