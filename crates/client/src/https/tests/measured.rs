//! What the transport counts while it works.

use std::time::Duration;

use super::server::{Reply, TestServer};
use super::{clock, config, get};
use crate::config::tests::Directory;
use crate::config::{Auth, Config, ExecConfig, ExecVersion, Material};
use crate::https::Transports;
use crate::{Client, Metrics};

/// All samples of counters and histograms whose names hold `part`, as `name labels = value`.
fn samples(registry: &prometheus::Registry, part: &str) -> Vec<String> {
    let mut found = Vec::new();
    for family in registry.gather() {
        for sample in family.get_metric() {
            let labels: Vec<&str> = sample
                .get_label()
                .iter()
                .map(|label| label.value())
                .collect();
            let value = match sample.get_histogram().get_sample_count() {
                0 => sample.get_counter().get_value() + sample.get_gauge().get_value(),
                count => count as f64,
            };
            found.push(format!("{} {} = {value}", family.name(), labels.join(" ")));
        }
    }
    found.retain(|line| line.contains(part));
    found
}

fn plugin(script: &str) -> Auth {
    Auth::Exec(Box::new(ExecConfig {
        command: "/bin/sh".into(),
        args: vec!["-c".into(), script.into()],
        env: Vec::new(),
        version: ExecVersion::V1,
        install_hint: String::new(),
        cluster: None,
    }))
}

#[tokio::test]
async fn names_that_are_looked_up_and_authorities_that_change() {
    let server = TestServer::builder()
        .names(&["localhost"])
        .start(|_| Reply::text("hi"))
        .await;
    let directory = Directory::new();
    let path = directory.write("ca.crt", server.authority.pem());
    let mut config = config(&server);
    let named = format!("localhost:{}", server.address.port());
    config.server.authority = named.parse().unwrap();
    config.tls.authorities = Some(Material::File(path));
    let registry = prometheus::Registry::new();
    let metrics = Metrics::register(&registry).unwrap();
    let transport = Transports::new(clock(), &metrics).to(config).unwrap();
    let client = Client::new(transport).with_metrics(&metrics, &named);
    assert_eq!(get(&client).await.as_deref(), Ok("hi"));
    for (content, expected) in [("nonsense", "failure"), (server.authority.pem(), "success")] {
        directory.write("ca.crt", content);
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(11)).await;
        tokio::time::resume();
        assert_eq!(get(&client).await.as_deref(), Ok("hi"), "{expected}");
    }
    assert_eq!(
        samples(&registry, "ca_reload"),
        [
            "rest_client_transport_ca_reload_total ca_parse_error failure = 1",
            "rest_client_transport_ca_reload_total updated success = 1",
        ]
    );
    // The certificates were read again, so there were two connections.
    assert_eq!(
        samples(&registry, "dns"),
        ["rest_client_dns_resolution_duration_seconds localhost = 2"]
    );
    assert_eq!(
        samples(&registry, "create_calls"),
        [
            "rest_client_transport_create_calls_total hit = 1",
            "rest_client_transport_create_calls_total miss = 1",
        ]
    );
}

#[tokio::test]
async fn a_plugins_certificate_its_end_and_its_successor() {
    let server = TestServer::builder()
        .ask_for_certificates()
        .start(|request| match request.client_name.as_deref() {
            Some("first") if request.number > 1 => Reply::status(401, "no"),
            name => Reply::text(name.unwrap_or_default()),
        })
        .await;
    let directory = Directory::new();
    let write = |name: &str| {
        let (certificate, key) = server.authority.issue_client(name);
        let credential = serde_json::json!({
            "kind": "ExecCredential",
            "apiVersion": "client.authentication.k8s.io/v1",
            "status": {"clientCertificateData": certificate, "clientKeyData": key},
        });
        directory.write("credential", credential.to_string())
    };
    let path = write("first");
    let config = Config {
        auth: plugin(&format!("cat {}", path.display())),
        ..config(&server)
    };
    let registry = prometheus::Registry::new();
    let metrics = Metrics::register(&registry).unwrap();
    let transport = Transports::new(clock(), &metrics).to(config).unwrap();
    let client = Client::new(transport);
    assert_eq!(
        samples(&registry, "ttl"),
        ["rest_client_exec_plugin_ttl_seconds  = inf"]
    );
    assert_eq!(get(&client).await.as_deref(), Ok("first"));
    let left = samples(&registry, "ttl").concat();
    assert!(!left.contains("inf"), "{left}");
    write("the-second");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(11)).await;
    tokio::time::resume();
    assert_eq!(get(&client).await.as_deref(), Ok("the-second"));
    assert_eq!(
        samples(&registry, "rotation_age"),
        ["rest_client_exec_plugin_certificate_rotation_age  = 1"]
    );
    assert_eq!(
        samples(&registry, "plugin_call"),
        ["rest_client_exec_plugin_call_total no_error 0 = 2"]
    );
}

#[tokio::test]
async fn who_asks_for_the_same_server_as_the_same_user_shares_connections() {
    let server = TestServer::start(|_| Reply::text("hi")).await;
    let registry = prometheus::Registry::new();
    let metrics = Metrics::register(&registry).unwrap();
    let mut transports = Transports::new(clock(), &metrics);
    let mut other = config(&server);
    other.auth = Auth::Token("another".into());
    for config in [config(&server), config(&server), other] {
        let client = Client::new(transports.to(config).unwrap());
        assert_eq!(get(&client).await.as_deref(), Ok("hi"));
    }
    assert_eq!(server.connections(), 2);
    assert_eq!(
        samples(&registry, "transport_c"),
        [
            "rest_client_transport_cache_entries  = 2",
            "rest_client_transport_cert_rotation_gc_calls_total  = 0",
            "rest_client_transport_create_calls_total hit = 1",
            "rest_client_transport_create_calls_total miss = 2",
        ]
    );
}
