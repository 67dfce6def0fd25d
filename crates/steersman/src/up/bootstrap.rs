//! `--bootstrap-nodes`: what kubeadm sets up, so that kubelets get their certificates by a token.

use std::sync::Arc;

use api::{ResourceType, Rng};
use client::config::{Auth, ClientCertificate, Config, Material, Server, TlsSettings};
use client::{Client, Patch};
use nodes::identity::{Bootstrap, Connect, Credentials};
use serde_json::{Value, json};

use crate::apiserver::Served;

const BINDINGS: ResourceType = ResourceType::cluster(
    "rbac.authorization.k8s.io",
    "v1",
    "clusterrolebindings",
    "ClusterRoleBinding",
);
const SECRETS: ResourceType = ResourceType::namespaced("", "v1", "secrets", "Secret");

/// The token is another one each time; the Secret that holds it keeps its name, so that old ones do not pile up.
const TOKEN_ID: &str = "upnode";

/// As kubeadm's.
const TOKEN_GROUP: &str = "system:bootstrappers:kubeadm:default-node-token";

/// Writes the roles and the token, and says how kubelets connect.
pub(super) async fn prepare(
    served: &Served,
    clock: &api::Clock,
    rng: &Rng,
) -> anyhow::Result<Bootstrap> {
    let client = Client::new(served.server.transport()).with_user_agent("steersman-up");
    let roles = "system:certificates.k8s.io:certificatesigningrequests";
    for (name, role, group) in [
        (
            "kubeadm:kubelet-bootstrap",
            "system:node-bootstrapper".to_owned(),
            TOKEN_GROUP,
        ),
        (
            "kubeadm:node-autoapprove-bootstrap",
            format!("{roles}:nodeclient"),
            TOKEN_GROUP,
        ),
        (
            "kubeadm:node-autoapprove-certificate-rotation",
            format!("{roles}:selfnodeclient"),
            "system:nodes",
        ),
    ] {
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}],
        });
        apply(&client, &BINDINGS, "", name, &binding).await?;
    }
    let secret = token_secret(rng);
    let name = format!("bootstrap-token-{TOKEN_ID}");
    // UPSTREAM: a token of kubeadm is good for a day.
    let until = clock.now().plus(std::time::Duration::from_secs(86_400));
    let object = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
        "metadata": {"name": name, "namespace": "kube-system"},
        "stringData": {
            "token-id": TOKEN_ID, "token-secret": secret, "expiration": until.time(),
            "usage-bootstrap-authentication": "true", "auth-extra-groups": TOKEN_GROUP,
            "description": "For the simulated nodes of `steersman up --bootstrap-nodes`.",
        },
    });
    apply(&client, &SECRETS, "kube-system", &name, &object).await?;
    Ok(Bootstrap {
        token: format!("{TOKEN_ID}.{secret}"),
        connect: connect(served, clock)?,
    })
}

/// UPSTREAM: sixteen lower-case letters and digits.
fn token_secret(rng: &Rng) -> String {
    const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let letter = |_| char::from(LETTERS[rng.below(LETTERS.len())]);
    (0..16).map(letter).collect()
}

async fn apply(
    client: &Client,
    resource: &ResourceType,
    namespace: &str,
    name: &str,
    object: &Value,
) -> anyhow::Result<()> {
    let patch = Patch::Apply {
        body: object.to_string().into(),
        field_manager: "steersman-up".to_owned(),
        force: true,
    };
    client
        .patch(resource, namespace, name, None, &patch)
        .await?;
    Ok(())
}

/// By the network, as any kubelet: the server takes nobody's word for who calls.
fn connect(served: &Served, clock: &api::Clock) -> anyhow::Result<Connect> {
    let server = Server::parse(&served.url, http::uri::Scheme::HTTPS)?;
    let authorities = Material::Inline(served.pki.ca_certificate.clone().into_bytes());
    let clock = clock.clone();
    Ok(Arc::new(move |credentials| {
        let (auth, client) = match credentials {
            Credentials::Token(token) => (Auth::Token(token.clone()), None),
            Credentials::Certificate { certificate, key } => {
                let certificate = ClientCertificate {
                    certificate: Material::Inline(certificate.clone().into_bytes()),
                    key: Material::Inline(key.clone().into_bytes()),
                };
                (Auth::None, Some(certificate))
            }
        };
        let config = Config {
            server: server.clone(),
            tls: TlsSettings {
                authorities: Some(authorities.clone()),
                client,
                ..TlsSettings::default()
            },
            auth,
            impersonate: None,
            proxy: None,
            namespace: None,
        };
        Ok(client::https::transport(config, clock.clone())?)
    }))
}
