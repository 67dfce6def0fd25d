//! ServiceAccount: every pod runs as one, with its token mounted unless someone said no.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::{Context, Request, built_in};
use crate::fields::{at, entry, list, list_mut, object_mut, set, text};
use crate::status::Status;

/// Where client libraries look for the token.
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// UPSTREAM: an hour and seven seconds, so that the token's origin can be told from a user's own request.
const TOKEN_SECONDS: i64 = 3607;

pub(super) fn admit(
    context: &Context<'_>,
    request: &Request<'_>,
    pod: &mut Value,
) -> Result<(), Status> {
    if entry(pod, "metadata.annotations", "kubernetes.io/config.mirror").is_some() {
        return check_mirror(request, pod);
    }
    if text(pod, "spec.serviceAccountName").is_empty() {
        let spec = object_mut(pod, "spec");
        for name in ["serviceAccountName", "serviceAccount"] {
            spec.insert(name.to_owned(), "default".into());
        }
    }
    let name = text(pod, "spec.serviceAccountName");
    let Some(account) =
        context
            .cluster
            .get(built_in("", "ServiceAccount"), request.namespace, name)
    else {
        let namespace = request.namespace;
        let why = format!(
            "error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found"
        );
        return Err(request.forbidden(&why));
    };
    let wishes = [
        at(pod, "spec.automountServiceAccountToken"),
        at(&account, "automountServiceAccountToken"),
    ];
    if wishes.into_iter().find_map(Value::as_bool).unwrap_or(true) {
        mount_token(context, pod);
    }
    if list(pod, "spec.imagePullSecrets").is_empty()
        && !list(&account, "imagePullSecrets").is_empty()
    {
        set(
            pod,
            "spec.imagePullSecrets",
            at(&account, "imagePullSecrets").clone(),
        );
    }
    Ok(())
}

/// A mirror pod shows what a kubelet runs from a file: it cannot use what the API server keeps.
fn check_mirror(request: &Request<'_>, pod: &Value) -> Result<(), Status> {
    if !text(pod, "spec.serviceAccountName").is_empty() {
        return Err(request.forbidden("a mirror pod may not reference service accounts"));
    }
    for volume in list(pod, "spec.volumes") {
        if at(volume, "secret").is_object() {
            return Err(request.forbidden("a mirror pod may not reference secrets"));
        }
        if list(volume, "projected.sources")
            .iter()
            .any(|source| at(source, "serviceAccountToken").is_object())
        {
            return Err(request
                .forbidden("a mirror pod may not use ServiceAccountToken volume projections"));
        }
    }
    Ok(())
}

fn mount_token(context: &Context<'_>, pod: &mut Value) {
    let mut existing = list(pod, "spec.volumes")
        .iter()
        .map(|volume| text(volume, "name"));
    let existing = existing
        .rfind(|name| name.starts_with("kube-api-access-"))
        .map(str::to_owned);
    let name = existing
        .clone()
        .unwrap_or_else(|| format!("kube-api-access-{}", random_suffix(context.random)));
    let mut needed = false;
    for path in ["spec.initContainers", "spec.containers"] {
        for container in list_mut(pod, path).into_iter().flatten() {
            if list(container, "volumeMounts")
                .iter()
                .any(|mount| text(mount, "mountPath") == MOUNT_PATH)
            {
                continue;
            }
            let mount = named(&MOUNT, &name);
            match list_mut(container, "volumeMounts") {
                Some(mounts) => mounts.push(mount),
                None => set(container, "volumeMounts", vec![mount]),
            }
            needed = true;
        }
    }
    if needed && existing.is_none() {
        let volume = named(&VOLUME, &name);
        match list_mut(pod, "spec.volumes") {
            Some(volumes) => volumes.push(volume),
            None => set(pod, "spec.volumes", vec![volume]),
        }
    }
}

/// A copy takes less than making one from its parts, and nearly every pod gets them.
fn named(pattern: &Value, name: &str) -> Value {
    let mut value = pattern.clone();
    value["name"] = name.into();
    value
}

static MOUNT: LazyLock<Value> =
    LazyLock::new(|| json!({"name": "", "readOnly": true, "mountPath": MOUNT_PATH}));

static VOLUME: LazyLock<Value> = LazyLock::new(|| {
    json!({"name": "", "projected": {"defaultMode": 0o644, "sources": [
        {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
    ]}})
});

/// Five letters without vowels, as for generated names: no word comes out by accident.
fn random_suffix(random: &api::Rng) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    (0..5)
        .map(|_| char::from(LETTERS[random.below(LETTERS.len())]))
        .collect()
}
