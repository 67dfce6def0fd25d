//! The bootstrap roles and bindings, read from their table.

use serde_json::{Map, Value, json};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Which kinds are served that are not stable yet and that roles are about.
#[derive(Clone, Copy, Debug, Default)]
pub struct Previews {
    pub trust_bundles: bool,
    pub pod_certificates: bool,
}

impl Previews {
    pub const ALL: Previews = Previews {
        trust_bundles: true,
        pod_certificates: true,
    };
}

/// All roles, then all bindings; those about kinds that are not stable yet where such are served.
pub fn objects(previews: Previews) -> Vec<Value> {
    let mut objects: Vec<Value> = Vec::new();
    let tables = [
        (true, include_str!("rbac.txt")),
        (previews.trust_bundles, include_str!("trust_bundles.txt")),
        (
            previews.pod_certificates,
            include_str!("pod_certificates.txt"),
        ),
    ];
    let tables = tables.into_iter().filter(|(is_there, _)| *is_there);
    let lines = tables.flat_map(|(_, table)| table.lines());
    let mut latest = 0;
    for line in lines.filter(|line| !line.starts_with('#')) {
        if line.starts_with(' ') {
            if let Some(role) = objects.get_mut(latest)
                && let Some(rules) = role["rules"].as_array_mut()
            {
                rules.extend(rule(line));
            }
            continue;
        }
        latest = objects.len();
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["role", namespace, name, options @ ..] => objects.push(role(namespace, name, options)),
            ["bind", namespace, name, role, subjects @ ..] => {
                objects.extend(binding(namespace, name, role, subjects))
            }
            ["extend", name] => {
                let mut roles = objects.iter();
                let is_it = |role: &Value| role["metadata"]["name"] == **name;
                latest = roles.position(is_it).unwrap_or(latest);
            }
            _ => {}
        }
    }
    objects
}

fn role(namespace: &str, name: &str, options: &[&str]) -> Value {
    let label = |role: &str| format!("{GROUP}/aggregate-to-{role}");
    let (mut labels, mut selectors) = (Map::new(), Vec::new());
    for option in options {
        match option.split_once('=') {
            Some(("aggregate-to", role)) => drop(labels.insert(label(role), "true".into())),
            Some(("aggregates", role)) => {
                selectors.push(json!({"matchLabels": {label(role): "true"}}))
            }
            _ => {}
        }
    }
    let kind = if namespace == "-" {
        "ClusterRole"
    } else {
        "Role"
    };
    let mut role = json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": metadata(namespace, name, labels), "rules": []});
    if !selectors.is_empty() {
        role["aggregationRule"] = json!({"clusterRoleSelectors": selectors});
    }
    role
}

fn rule(line: &str) -> Option<Value> {
    let words: Vec<&str> = line.trim().split(' ').collect();
    let list = |word: &str| -> Value {
        word.split(',')
            .map(|item| if item == "core" { "" } else { item })
            .collect()
    };
    Some(match words.as_slice() {
        [verbs, urls] => json!({"verbs": list(verbs), "nonResourceURLs": list(urls)}),
        [verbs, groups, resources] => {
            json!({"verbs": list(verbs), "apiGroups": list(groups), "resources": list(resources)})
        }
        [verbs, groups, resources, names] => {
            json!({"verbs": list(verbs), "apiGroups": list(groups), "resources": list(resources), "resourceNames": list(names)})
        }
        _ => return None,
    })
}

fn binding(namespace: &str, name: &str, role: &str, subjects: &[&str]) -> Option<Value> {
    let (role_kind, role_name) = role.split_once('/')?;
    let subject = |word: &&str| -> Option<Value> {
        let (kind, name) = word.split_at_checked(2)?;
        Some(match kind {
            "U:" => json!({"kind": "User", "apiGroup": GROUP, "name": name}),
            "G:" => json!({"kind": "Group", "apiGroup": GROUP, "name": name}),
            _ => {
                let (namespace, name) = name.split_once('/')?;
                json!({"kind": "ServiceAccount", "namespace": namespace, "name": name})
            }
        })
    };
    let kind = if namespace == "-" {
        "ClusterRoleBinding"
    } else {
        "RoleBinding"
    };
    Some(
        json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": metadata(namespace, name, Map::new()),
        "roleRef": {"apiGroup": GROUP, "kind": role_kind, "name": role_name},
        "subjects": subjects.iter().filter_map(subject).collect::<Vec<_>>()}),
    )
}

fn metadata(namespace: &str, name: &str, mut labels: Map<String, Value>) -> Value {
    labels.insert(
        "kubernetes.io/bootstrapping".to_owned(),
        "rbac-defaults".into(),
    );
    let mut metadata = json!({"name": name, "labels": labels, "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"}});
    if namespace != "-" {
        metadata["namespace"] = namespace.into();
    }
    metadata
}
