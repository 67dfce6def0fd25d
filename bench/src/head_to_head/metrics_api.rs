//! `metrics.k8s.io` for a real API server, served by this process and registered as an APIService.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use parking_lot::Mutex;
use real_tests::Cluster;
use serde_json::{Value, json};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned, crypto};

use super::stage::until;

const GROUP: &str = "/apis/metrics.k8s.io/v1beta1";
/// Half of what the pods of all scenarios ask for.
const USAGE: &str = "5m";
/// When the usage was taken: after the pods had become ready.
const TAKEN: &str = "2026-01-01T00:10:00Z";

/// A pod for each application, by its label `app`.
type Pods = Arc<Mutex<BTreeMap<String, String>>>;

/// Serves until it is dropped.
pub(super) struct MetricsApi {
    pods: Pods,
    stopping: Arc<AtomicBool>,
    port: u16,
}

impl MetricsApi {
    /// Listens on loopback and waits until the cluster's API server hands requests on to it.
    pub(super) fn register(cluster: &Cluster) -> Result<MetricsApi> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let tls = Arc::new(tls(cluster)?);
        let (pods, stopping) = (Pods::default(), Arc::new(AtomicBool::new(false)));
        let (served, told) = (Arc::clone(&pods), Arc::clone(&stopping));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if told.load(Ordering::Relaxed) {
                    return;
                }
                let (tls, pods) = (Arc::clone(&tls), Arc::clone(&served));
                // A connection that breaks is the API server's to open again.
                std::thread::spawn(move || answer_all(stream, tls, &pods));
            }
        });
        let metrics = MetricsApi {
            pods,
            stopping,
            port,
        };
        metrics.register_service(cluster)?;
        Ok(metrics)
    }

    /// From now on these pods have a usage.
    pub(super) fn serve(&self, pods: BTreeMap<String, String>) {
        *self.pods.lock() = pods;
    }

    fn register_service(&self, cluster: &Cluster) -> Result<()> {
        let api = &cluster.api;
        // The only kind of service that leads to loopback.
        let service = json!({
            "metadata": {"name": "metrics"},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        });
        api.create("/api/v1/namespaces/kube-system/services", &service)?;
        let registration = json!({
            "metadata": {"name": "v1beta1.metrics.k8s.io"},
            "spec": {
                "group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
                "insecureSkipTLSVerify": true,
                "service": {"namespace": "kube-system", "name": "metrics", "port": self.port},
            },
        });
        let path = "/apis/apiregistration.k8s.io/v1/apiservices";
        api.create(path, &registration)?;
        until("the metrics API", || {
            let answer = api.send(
                "GET",
                &format!("{GROUP}/namespaces/default/pods"),
                "application/json",
                &[],
            )?;
            Ok(answer.status == 200)
        })
    }
}

impl Drop for MetricsApi {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        // Whoever waits for the next connection gets one.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

fn tls(cluster: &Cluster) -> Result<ServerConfig> {
    let identity = cluster.authority.server("metrics")?;
    let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes())
        .ok()
        .context("a certificate of ours")?;
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes())
        .ok()
        .context("a key of ours")?;
    let config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth();
    Ok(config.with_single_cert(vec![certificate], key)?)
}

/// One request after the other until the connection ends.
fn answer_all(stream: TcpStream, tls: Arc<ServerConfig>, pods: &Pods) -> Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(120)))?;
    let mut connection = BufReader::new(StreamOwned::new(ServerConnection::new(tls)?, stream));
    loop {
        let mut request = String::new();
        let mut line = String::new();
        while connection.read_line(&mut line)? > 2 {
            if request.is_empty() {
                request = std::mem::take(&mut line);
            }
            line.clear();
        }
        let Some(path) = request.split(' ').nth(1) else {
            return Ok(());
        };
        let (status, body) = match answer(path, pods) {
            Some(body) => ("200 OK", body),
            None => (
                "404 Not Found",
                json!({"kind": "Status", "apiVersion": "v1", "code": 404}),
            ),
        };
        let body = body.to_string();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let stream = connection.get_mut();
        stream.write_all((head + &body).as_bytes())?;
        stream.flush()?;
    }
}

fn answer(target: &str, pods: &Pods) -> Option<Value> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let rest = path.strip_prefix(GROUP)?;
    if rest.is_empty() {
        let pods = json!({"name": "pods", "singularName": "", "namespaced": true, "kind": "PodMetrics", "verbs": ["get", "list"]});
        return Some(json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "metrics.k8s.io/v1beta1", "resources": [pods],
        }));
    }
    if rest != "/namespaces/default/pods" {
        return None;
    }
    let app = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("labelSelector=app%3D"));
    let pods = pods.lock();
    let items: Vec<Value> = app
        .and_then(|app| Some((app, pods.get(app)?)))
        .map(|(app, pod)| {
            json!({
                "metadata": {"name": pod, "namespace": "default", "labels": {"app": app}},
                "timestamp": TAKEN, "window": "30s",
                "containers": [{"name": "main", "usage": {"cpu": USAGE, "memory": "8Mi"}}],
            })
        })
        .into_iter()
        .collect();
    Some(
        json!({"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items}),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_finds_the_usage_of_its_pod_and_no_other() {
        let pods = Pods::default();
        pods.lock()
            .insert("web-1".to_owned(), "web-1-abc".to_owned());
        let ask = |target: &str| answer(&format!("{GROUP}{target}"), &pods);
        let found = ask("/namespaces/default/pods?labelSelector=app%3Dweb-1").unwrap();
        assert_eq!(found["items"][0]["metadata"]["name"], "web-1-abc");
        let other = ask("/namespaces/default/pods?labelSelector=app%3Dweb-11").unwrap();
        assert_eq!(other["items"], json!([]));
        assert_eq!(ask("").unwrap()["kind"], "APIResourceList");
        assert!(ask("/nodes").is_none());
    }
}
