//! TLS bootstrap from end to end: a kubelet with a token gets its certificate, renews it, and asks for one to serve with.

use std::path::Path;

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};
use serde_json::{Value, json};

use crate::home::{Api, Home, Up, until};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const NODE: &str = "system:node:worker";

#[test]
fn a_kubelet_gets_its_certificates_by_a_token() {
    let home = Home::new("bootstrap");
    let up = home.up(&["--in-memory", "--nodes=0"]);
    let admin = up.api();
    prepare(&admin);

    // By the token: the first certificate, approved and signed without anybody.
    let user = json!({"token": "abcdef.0123456789abcdef"});
    let token = Api::new(&kubeconfig(&home, &up, "token", &user));
    let key = KeyPair::generate().unwrap();
    ask(
        &token,
        "first",
        &key,
        "kube-apiserver-client-kubelet",
        "client auth",
        &[],
    );
    let first = issued(&token, "first");
    let user =
        json!({"client-certificate-data": first, "client-key-data": encode(&key.serialize_pem())});
    let kubelet = Api::new(&kubeconfig(&home, &up, "kubelet", &user));
    assert_eq!(whoami(&kubelet), (NODE.to_owned(), true));

    // By that certificate: the next one, because it is the node's own.
    let key = KeyPair::generate().unwrap();
    ask(
        &kubelet,
        "next",
        &key,
        "kube-apiserver-client-kubelet",
        "client auth",
        &[],
    );
    let next = issued(&kubelet, "next");
    let user =
        json!({"client-certificate-data": next, "client-key-data": encode(&key.serialize_pem())});
    let renewed = Api::new(&kubeconfig(&home, &up, "renewed", &user));
    assert_eq!(whoami(&renewed), (NODE.to_owned(), true));

    // To serve it needs a person.
    let names = [SanType::DnsName("worker".try_into().unwrap())];
    ask(
        &renewed,
        "serving",
        &key,
        "kubelet-serving",
        "server auth",
        &names,
    );
    let why = home.succeed(&[
        "why",
        "csr/serving",
        "--kubeconfig",
        up.kubeconfig().to_str().unwrap(),
    ]);
    assert!(why.contains("waits to be approved"), "{why}");
    let refused = approve(&renewed, "serving").unwrap_err();
    assert!(refused.contains("cannot"), "{refused}");
    approve(&admin, "serving").unwrap();
    issued(&renewed, "serving");
    let pending = renewed.get(REQUESTS);
    let text = pending.to_string();
    assert!(!text.contains("PRIVATE KEY"), "no key is anywhere");
    up.stop();
}

/// The box's own nodes go the same way, by the real controllers, with the root certificates published beside it.
#[test]
fn nodes_of_the_box_bootstrap_themselves() {
    let home = Home::new("bootstrap-nodes");
    let up = home.up(&[
        "--in-memory",
        "--nodes=2",
        "--bootstrap-nodes",
        "--feature-gates=ClusterTrustBundle=true",
    ]);
    let admin = up.api();
    assert_eq!(up.facts["nodes"], 2);
    let of_signer = |signer: &str| {
        let requests = admin.get(REQUESTS);
        let items = requests["items"].as_array().unwrap().clone();
        let is_of =
            |request: &Value| request["spec"]["signerName"] == format!("kubernetes.io/{signer}");
        items.into_iter().filter(is_of).collect::<Vec<_>>()
    };
    let clients = of_signer("kube-apiserver-client-kubelet");
    assert_eq!(clients.len(), 2);
    for request in &clients {
        assert_eq!(request["spec"]["username"], "system:bootstrap:upnode");
        assert_eq!(request["status"]["conditions"][0]["reason"], "AutoApproved");
        assert!(request["status"]["certificate"].is_string());
    }
    // What they ask for next they ask for as nodes, and it waits for a person.
    until("requests for certificates to serve with", || {
        of_signer("kubelet-serving").len() == 2
    });
    let mut names: Vec<String> = Vec::new();
    for request in of_signer("kubelet-serving") {
        names.push(request["spec"]["username"].as_str().unwrap().to_owned());
        assert!(request["status"]["certificate"].is_null());
        let name = request["metadata"]["name"].as_str().unwrap();
        approve(&admin, name).unwrap();
        issued(&admin, name);
    }
    names.sort();
    assert_eq!(names, ["system:node:node-0", "system:node:node-1"]);
    // Pods run, though only nodes write about them, and NodeRestriction looks at what they write.
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    let pod = json!({"metadata": {"name": "web"}, "spec": spec});
    admin.create("/api/v1/namespaces/default/pods", &pod);
    until("the pod to run", || {
        admin.get("/api/v1/namespaces/default/pods/web")["status"]["phase"] == "Running"
    });
    until("the trust bundle of the API server", || {
        let bundles = admin.get("/apis/certificates.k8s.io/v1beta1/clustertrustbundles");
        let bundles = bundles["items"].as_array().unwrap();
        bundles.len() == 1
            && bundles[0]["spec"]["signerName"] == "kubernetes.io/kube-apiserver-serving"
    });
    up.stop();
}

/// What kubeadm sets up, and a token.
fn prepare(admin: &Api) {
    let roles = "system:certificates.k8s.io:certificatesigningrequests";
    for (name, role, group) in [
        (
            "bootstrap",
            "system:node-bootstrapper".to_owned(),
            "system:bootstrappers",
        ),
        (
            "first",
            format!("{roles}:nodeclient"),
            "system:bootstrappers",
        ),
        ("next", format!("{roles}:selfnodeclient"), "system:nodes"),
    ] {
        let binding = json!({
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}],
        });
        admin.create(BINDINGS, &binding);
    }
    let secret = json!({
        "metadata": {"name": "bootstrap-token-abcdef"}, "type": "bootstrap.kubernetes.io/token",
        "stringData": {
            "token-id": "abcdef", "token-secret": "0123456789abcdef",
            "usage-bootstrap-authentication": "true",
        },
    });
    admin.create("/api/v1/namespaces/kube-system/secrets", &secret);
}

fn ask(api: &Api, name: &str, key: &KeyPair, signer: &str, usage: &str, names: &[SanType]) {
    let mut params = CertificateParams::new([]).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::OrganizationName, "system:nodes");
    params.distinguished_name.push(DnType::CommonName, NODE);
    params.subject_alt_names = names.to_vec();
    let request = params.serialize_request(key).unwrap().pem().unwrap();
    let object = json!({
        "metadata": {"name": name},
        "spec": {
            "request": encode(&request), "signerName": format!("kubernetes.io/{signer}"),
            "usages": ["digital signature", usage],
        },
    });
    api.create(REQUESTS, &object);
}

/// The certificate, once it is there.
fn issued(api: &Api, name: &str) -> Value {
    let mut certificate = Value::Null;
    until(&format!("the certificate of {name}"), || {
        certificate = api.get(&format!("{REQUESTS}/{name}"))["status"]["certificate"].clone();
        certificate.is_string()
    });
    certificate
}

fn approve(api: &Api, name: &str) -> Result<Value, String> {
    let condition =
        json!({"type": "Approved", "status": "True", "reason": "Asked", "message": "m"});
    let patch = json!({"status": {"conditions": [condition]}});
    api.send("PATCH", &format!("{REQUESTS}/{name}/approval"), &patch)
}

/// The user, and whether it is a node.
fn whoami(api: &Api) -> (String, bool) {
    let review = api.create(
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        &json!({}),
    );
    let user = &review["status"]["userInfo"];
    let mut groups = user["groups"].as_array().into_iter().flatten();
    let is_node = groups.any(|group| group == "system:nodes");
    (
        user["username"].as_str().unwrap_or_default().to_owned(),
        is_node,
    )
}

/// The administrator's kubeconfig with another user in it.
fn kubeconfig(home: &Home, up: &Up, name: &str, user: &Value) -> std::path::PathBuf {
    let text = std::fs::read_to_string(up.kubeconfig()).unwrap();
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("client-") {
            continue;
        }
        if line.trim_end() == "  user:" {
            lines.push(format!("  user: {user}"));
            continue;
        }
        lines.push(line.to_owned());
    }
    let path = home.file(&format!("{name}.yaml"), &lines.join("\n"));
    Path::new(&path).to_owned()
}

fn encode(text: &str) -> String {
    use base64::Engine;
    base64::prelude::BASE64_STANDARD.encode(text)
}
