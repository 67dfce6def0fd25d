//! Servers that are not there or not who they should be, and credentials that cannot be used: one sentence each.

use std::time::Duration;

use futures_util::future::join_all;

use super::server::{Authority, Reply, TestServer};
use super::{client, clock, config, get};
use crate::config::{Auth, ClientCertificate, Config, Environment, Material};
use crate::describe;
use crate::https::transport;

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
            "cannot reach the API server at https://{address}: Connection refused; check that it runs and that the \
             kubeconfig's server is right"
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
        let message = match transport(config, clock()) {
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
