//! The transport against a TLS server on loopback: protocols, rotation, faults, and what is said about bad input.

mod server;

use std::path::PathBuf;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;

use self::server::{Authority, Reply, TestServer};
use crate::config::tests::Directory;
use crate::config::{
    Auth, ClientCertificate, Config, Environment, ExecConfig, ExecVersion, Material,
};
use crate::{Client, ListOptions, WatchEvent, WatchOptions, describe};

fn nodes() -> api::ResourceType {
    api::ResourceType::cluster("", "v1", "nodes", "Node")
}

fn config(server: &TestServer) -> Config {
    let address = format!("https://{}", server.address);
    let mut config = Config::for_server(&address, &Environment::default()).unwrap();
    config.tls.authorities = Some(Material::Inline(server.authority.pem().into()));
    config
}

fn clock() -> api::Clock {
    api::Clock::fixed(api::Time::parse("2030-01-01T00:00:00Z").unwrap())
}

fn client(config: Config) -> Client {
    Client::new(super::transport(config, clock()).unwrap())
}

async fn get(client: &Client) -> Result<String, String> {
    match client.get(&nodes(), "", "n").await {
        Ok(body) => Ok(String::from_utf8(body.to_vec()).unwrap()),
        Err(error) => Err(describe(&error)),
    }
}

async fn watch(client: &Client) -> crate::WatchStream {
    client
        .watch(&nodes(), "", &WatchOptions::default())
        .await
        .unwrap()
}

/// Passes the interval after which files are looked at again, without waiting for it.
async fn let_ten_seconds_pass() {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(11)).await;
    tokio::time::resume();
}

#[tokio::test]
async fn http2_shares_one_connection_and_keeps_watches_apart() {
    let server =
        TestServer::start(|request| Reply::text(format!("{:?} {}", request.version, request.uri)))
            .await;
    let client = client(config(&server));
    let address = server.address;
    for answer in join_all((0..50).map(|_| get(&client))).await {
        assert_eq!(
            answer.unwrap(),
            format!("HTTP/2.0 https://{address}/api/v1/nodes/n")
        );
    }
    assert_eq!(server.connections(), 1);
    let _watch = watch(&client).await;
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn http1_is_spoken_where_there_is_no_http2() {
    let server = TestServer::builder()
        .http1()
        .start(|request| {
            Reply::text(format!(
                "{:?} {} {}",
                request.version,
                request.uri,
                request.header("host")
            ))
        })
        .await;
    let mut config = config(&server);
    config.server.prefix = "/prefix".to_owned();
    let client = client(config);
    let expected = format!("HTTP/1.1 /prefix/api/v1/nodes/n {}", server.address);
    for _ in 0..5 {
        assert_eq!(get(&client).await.unwrap(), expected);
    }
    assert_eq!(server.connections(), 1, "an idle connection is used again");
    for answer in join_all((0..3).map(|_| get(&client))).await {
        answer.unwrap();
    }
    assert!(
        (2..=3).contains(&server.connections()),
        "{} connections",
        server.connections()
    );
}

#[tokio::test]
async fn more_streams_than_a_connection_takes_open_another() {
    let server = TestServer::builder()
        .max_streams(2)
        .start(|_| Reply::Never)
        .await;
    let client = client(config(&server));
    // The server's limit is known once the first answer is there.
    let mut watches = vec![watch(&client).await];
    for _ in 0..4 {
        watches.push(watch(&client).await);
    }
    assert_eq!(server.connections(), 3, "5 watches, 2 per connection");
}

#[tokio::test]
async fn a_closed_connection_is_replaced_unnoticed() {
    let server = TestServer::start(|_| Reply::text("fine")).await;
    let client = client(config(&server));
    for round in 1..=3 {
        assert_eq!(get(&client).await.as_deref(), Ok("fine"));
        assert_eq!(server.connections(), round);
        server.close_connections().await;
    }
}

#[tokio::test]
async fn a_dead_connection_is_noticed_and_replaced_within_30_seconds() {
    let server = TestServer::start(|_| Reply::text("fine")).await;
    let client = client(config(&server));
    assert_eq!(get(&client).await.as_deref(), Ok("fine"));
    let mut stalled = watch(&client).await;
    stalled.next().await;
    server.freeze_connections();
    // Virtual time from here on: nothing moves on the network, so it runs ahead to the next ping.
    tokio::time::pause();
    let started = tokio::time::Instant::now();
    assert_eq!(
        get(&client).await.as_deref(),
        Ok("fine"),
        "a read is sent again over a new connection"
    );
    assert!(
        started.elapsed() <= Duration::from_secs(30),
        "took {:?}",
        started.elapsed()
    );
    assert_eq!(server.connections(), 3);
}

#[tokio::test]
async fn a_watch_cut_in_the_middle_of_an_event_is_a_transport_error() {
    let text = "{\"type\":\"ADDED\",\"object\":{}}\n{\"type\":\"ADD";
    let server = TestServer::start(move |_| Reply::part(text)).await;
    let client = client(config(&server));
    for round in 1..=2 {
        let mut events = watch(&client).await;
        assert!(matches!(
            events.next().await,
            Some(Ok(WatchEvent::Added(_)))
        ));
        server.close_connections().await;
        let error = events.next().await.unwrap().unwrap_err();
        assert!(error.is_transport() && error.should_retry(), "{error}");
        assert!(events.next().await.is_none());
        assert_eq!(server.connections(), round);
    }
}

#[tokio::test]
async fn a_list_cut_in_the_middle_is_a_transport_error() {
    let (asked, mut was_asked) = tokio::sync::watch::channel(false);
    let server = TestServer::start(move |_| {
        asked.send_replace(true);
        Reply::part("{\"metadata\":{},\"items\":[")
    })
    .await;
    let client = client(config(&server));
    let options = ListOptions::default();
    let cut = async {
        was_asked.changed().await.unwrap();
        server.close_connections().await;
    };
    let nodes = nodes();
    let (answer, ()) = tokio::join!(client.list(&nodes, "", &options), cut);
    assert!(answer.unwrap_err().is_transport());
}

#[tokio::test]
async fn garbage_instead_of_http_is_a_transport_error() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let babble = async move {
        let (mut tcp, _) = listener.accept().await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut tcp, &[0x80; 512])
            .await
            .unwrap();
    };
    let client = client(Config::for_server(&address, &Environment::default()).unwrap());
    let (answer, ()) = tokio::join!(get(&client), babble);
    let message = answer.unwrap_err();
    assert!(
        message.contains("got no complete answer from the API server"),
        "{message}"
    );
}

#[tokio::test]
async fn a_client_certificate_is_rotated_on_disk() {
    let server = TestServer::builder()
        .ask_for_certificates()
        .start(|request| Reply::text(request.client_name.clone().unwrap_or_default()))
        .await;
    let directory = Directory::new();
    let write = |name: &str| -> (PathBuf, PathBuf) {
        let (certificate, key) = server.authority.issue_client(name);
        (
            directory.write("client.crt", certificate),
            directory.write("client.key", key),
        )
    };
    let (certificate, key) = write("first");
    let mut config = config(&server);
    config.tls.client = Some(ClientCertificate {
        certificate: Material::File(certificate),
        key: Material::File(key),
    });
    let client = client(config);
    assert_eq!(get(&client).await.as_deref(), Ok("first"));
    write("the-second");
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
async fn a_proxy_is_tunnelled_through() {
    let server = TestServer::start(|_| Reply::text("through")).await;
    let proxy = server::proxy("Basic dTpw").await;
    let uri = |user: &str| Some(format!("http://{user}@{proxy}").parse().unwrap());
    let through = client(Config {
        proxy: uri("u:p"),
        ..config(&server)
    });
    assert_eq!(get(&through).await.as_deref(), Ok("through"));
    let refused = client(Config {
        proxy: uri("u:wrong"),
        ..config(&server)
    });
    let message = get(&refused).await.unwrap_err();
    assert!(
        message.contains("the proxy 127.0.0.1 does not let us through"),
        "{message}"
    );
    assert!(
        message.contains("407") && !message.contains("wrong"),
        "{message}"
    );
}

#[tokio::test]
async fn acting_as_somebody_else_and_by_password() {
    let headers = [
        "authorization",
        "impersonate-user",
        "impersonate-group",
        "impersonate-extra-reason",
    ];
    let server = TestServer::start(move |request| {
        Reply::text(
            headers
                .map(|name| request.header(name).to_owned())
                .join(","),
        )
    })
    .await;
    let mut config = config(&server);
    config.auth = Auth::Basic {
        username: "u".into(),
        password: "p".into(),
    };
    config.impersonate = Some(crate::config::Impersonate {
        user: "alice".into(),
        groups: vec!["dev".into()],
        extra: [("Reason".to_owned(), vec!["test".to_owned()])].into(),
        ..Default::default()
    });
    assert_eq!(
        get(&client(config)).await.as_deref(),
        Ok("Basic dTpw,alice,dev,test")
    );
}

#[tokio::test]
async fn who_answers_must_be_who_we_expect() {
    let server = TestServer::builder()
        .names(&["kubernetes.default"])
        .start(|_| Reply::text("hi"))
        .await;
    let address = format!("https://{}", server.address);
    let by_name = |name: Option<&str>| {
        let mut config = config(&server);
        config.tls.server_name = name.map(str::to_owned);
        client(config)
    };
    assert_eq!(
        get(&by_name(Some("kubernetes.default"))).await.as_deref(),
        Ok("hi")
    );
    assert_eq!(
        get(&by_name(None)).await.unwrap_err(),
        format!(
            "the certificate of {address} is for another name; use a name or address that it is for, or set \
             tls-server-name in the kubeconfig"
        )
    );
    let mut wrong = config(&server);
    wrong.tls.authorities = Some(Material::Inline(Authority::new().pem().into()));
    assert_eq!(
        get(&client(wrong)).await.unwrap_err(),
        format!(
            "the certificate of {address} is not signed by the certificate authority we trust; check the kubeconfig's \
             certificate-authority-data or certificate-authority"
        )
    );
    let mut insecure = config(&server);
    insecure.tls = crate::config::TlsSettings {
        insecure: true,
        ..Default::default()
    };
    assert_eq!(get(&client(insecure)).await.as_deref(), Ok("hi"));
}

#[tokio::test]
async fn an_expired_certificate_is_called_expired() {
    let server = TestServer::builder()
        .expired()
        .start(|_| Reply::text("hi"))
        .await;
    assert_eq!(
        get(&client(config(&server))).await.unwrap_err(),
        format!(
            "the certificate of https://{} has expired; renew it, or check this machine's clock",
            server.address
        )
    );
}

#[tokio::test]
async fn a_refused_client_certificate_is_called_so() {
    let server = TestServer::builder()
        .ask_for_certificates()
        .start(|_| Reply::text("hi"))
        .await;
    let (certificate, key) = Authority::new().issue_client("stranger");
    let mut config = config(&server);
    config.tls.client = Some(ClientCertificate {
        certificate: Material::Inline(certificate.into()),
        key: Material::Inline(key.into()),
    });
    let message = get(&client(config)).await.unwrap_err();
    assert!(
        message.contains("refused our client certificate"),
        "{message}"
    );
}

#[tokio::test]
async fn nobody_there_and_something_else_there() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let server = TestServer::builder()
        .plain()
        .start(|_| Reply::text("plain"))
        .await;
    let mut absent = config(&server);
    absent.server.authority = address.to_string().parse().unwrap();
    assert_eq!(
        get(&client(absent)).await.unwrap_err(),
        format!(
            "cannot reach the API server at https://{address}; check that it runs and that the kubeconfig's server is \
             right: Connection refused (os error 111)"
        )
    );
    assert_eq!(
        get(&client(config(&server))).await.unwrap_err(),
        format!(
            "https://{} does not speak TLS; check the port and the scheme of the kubeconfig's server",
            server.address
        )
    );
    let plain = Config::for_server(&server.address.to_string(), &Environment::default()).unwrap();
    assert_eq!(get(&client(plain)).await.as_deref(), Ok("plain"));
}

#[tokio::test]
async fn a_server_that_keeps_silent_is_given_up_by_all_who_wait() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut config =
        Config::for_server(&format!("https://{address}"), &Environment::default()).unwrap();
    config.tls.insecure = true;
    let client = client(config);
    tokio::time::pause();
    let started = tokio::time::Instant::now();
    for answer in join_all((0..20).map(|_| get(&client))).await {
        assert_eq!(
            answer.unwrap_err(),
            format!(
                "the API server at https://{address} did not answer within 10 s; check the address and the firewalls between"
            )
        );
    }
    assert!(
        started.elapsed() < Duration::from_secs(15),
        "one after another: {:?}",
        started.elapsed()
    );
}

#[test]
fn bad_certificates_are_known_at_the_start() {
    let check = |change: &dyn Fn(&mut Config), expected: &str| {
        let mut config =
            Config::for_server("https://127.0.0.1:1", &Environment::default()).unwrap();
        config.tls.authorities = Some(Material::Inline(Authority::new().pem().into()));
        change(&mut config);
        let message = match super::transport(config, clock()) {
            Ok(_) => "accepted".to_owned(),
            Err(error) => describe(&error),
        };
        assert!(message.contains(expected), "{message}\n  lacks {expected}");
    };
    let inline = |text: &str| Some(Material::Inline(text.into()));
    check(
        &|config| config.tls.authorities = inline("junk"),
        "certificate-authority cannot be used: it contains no PEM",
    );
    check(
        &|config| config.tls.authorities = Some(Material::File("/nonexistent/ca.crt".into())),
        "cannot read certificate-authority /nonexistent/ca.crt",
    );
    let (certificate, _) = Authority::new().issue_client("a");
    let (_, key) = Authority::new().issue_client("b");
    let pair = |certificate: &str, key: &str| {
        Some(ClientCertificate {
            certificate: Material::Inline(certificate.into()),
            key: Material::Inline(key.into()),
        })
    };
    check(
        &|config| config.tls.client = pair(&certificate, &key),
        "client-certificate with its client-key cannot be used",
    );
    check(
        &|config| config.tls.client = pair(&certificate, "junk"),
        "client-key cannot be used",
    );
    check(
        &|config| config.auth = Auth::TokenFile("/nonexistent/token".into()),
        "cannot read the token file",
    );
    check(
        &|config| config.auth = Auth::Token("a\nb".into()),
        "no header can carry",
    );
}
