//! What users do to the things that controllers keep in order for them: accounts, tokens, certificates, roles,
//! jobs, annotations of nodes, and what belongs to what.

use std::time::Duration;

use api::kinds::{
    ClusterRole, ConfigMap, Job, Node, ROOT_CA_CONFIG_MAP, SERVICE_ACCOUNT_TOKEN, Secret,
    ServiceAccount,
};
use api::{Resource, Rng};
use client::Propagation;
use serde_json::{Value, json};

use super::{Target, UserAction};

/// A chore: actions, each with the time after the one before. `number` makes its names its own.
pub(super) fn draw_chore(
    rng: &Rng,
    namespace: &'static str,
    number: usize,
    nodes: usize,
) -> Vec<(Duration, UserAction)> {
    let soon = || Duration::from_millis(200 + rng.below(5000) as u64);
    let actions = match rng.below(8) {
        0 => vec![delete::<ServiceAccount>(namespace, "default")],
        1 => robot(rng, namespace, number),
        2 => {
            let name = format!("token-{number}");
            let empty = json!({"data": {"token": null}});
            vec![
                token(namespace, &name, "default"),
                change::<Secret>(namespace, &name, empty, "empties"),
            ]
        }
        3 => roles(rng, number),
        4 if rng.chance(2) => vec![delete::<ConfigMap>(namespace, ROOT_CA_CONFIG_MAP)],
        4 => {
            let patch = json!({"data": {"ca.crt": "mine"}});
            vec![change::<ConfigMap>(
                namespace,
                ROOT_CA_CONFIG_MAP,
                patch,
                "forges",
            )]
        }
        5 => job(rng, namespace, number),
        6 => keeper(rng, namespace, number),
        _ => {
            let node = format!("node-{}", rng.below(nodes));
            let patch = json!({"metadata": {"annotations": {"node.alpha.kubernetes.io/ttl": "7"}}});
            vec![change::<Node>("", &node, patch, "annotates")]
        }
    };
    actions.into_iter().map(|action| (soon(), action)).collect()
}

/// A token as every account had one once.
pub(super) fn forgotten_token() -> Vec<UserAction> {
    let since = json!({"data": {"since": "2020-01-01"}});
    let name = "kube-apiserver-legacy-service-account-token-tracking";
    vec![
        change::<ConfigMap>("kube-system", name, since, "dates back"),
        create::<ServiceAccount>(
            "default",
            "old",
            json!({"secrets": [{"name": "old-token"}]}),
        ),
        token("default", "old-token", "old"),
    ]
}

/// An account with a token; half the time it is dismissed.
fn robot(rng: &Rng, namespace: &'static str, number: usize) -> Vec<UserAction> {
    let name = format!("robot-{number}");
    let mut actions = vec![
        create::<ServiceAccount>(namespace, &name, json!({})),
        token(namespace, &format!("{name}-token"), &name),
    ];
    if rng.chance(2) {
        actions.push(delete::<ServiceAccount>(namespace, &name));
    }
    actions
}

fn token(namespace: &'static str, name: &str, account: &str) -> UserAction {
    let more = json!({
        "type": SERVICE_ACCOUNT_TOKEN,
        "metadata": {"annotations": {"kubernetes.io/service-account.name": account}},
    });
    create::<Secret>(namespace, name, more)
}

/// A role that is the sum of another, which then changes or goes.
fn roles(rng: &Rng, number: usize) -> Vec<UserAction> {
    let (sum, part) = (format!("sum-{number}"), format!("part-{number}"));
    let labels = json!({"sum": sum});
    let rule = |verb: &str| json!([{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}]);
    let mut actions = vec![
        create::<ClusterRole>(
            "",
            &sum,
            json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": labels}]}, "rules": []}),
        ),
        create::<ClusterRole>(
            "",
            &part,
            json!({"metadata": {"labels": labels}, "rules": rule("get")}),
        ),
    ];
    actions.push(match rng.below(3) {
        0 => delete::<ClusterRole>("", &part),
        1 => change::<ClusterRole>("", &part, json!({"rules": rule("list")}), "changes"),
        _ => change::<ClusterRole>(
            "",
            &part,
            json!({"metadata": {"labels": {"sum": null}}}),
            "takes out",
        ),
    });
    actions
}

/// A job that was over before it began, and has some seconds to live.
fn job(rng: &Rng, namespace: &'static str, number: usize) -> Vec<UserAction> {
    let name = format!("job-{number}");
    let container = json!({"name": "c", "image": "app:0"});
    let more = json!({"spec": {
        "suspend": true, "ttlSecondsAfterFinished": rng.below(40),
        "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
    }});
    vec![
        create::<Job>(namespace, &name, more),
        UserAction::FinishJob(target::<Job>(namespace, &name)),
    ]
}

/// A secret that goes with a configuration, and names another owner that never was. What became of the one that never
/// was makes the collector look at the secret, perhaps before it has seen the configuration.
fn keeper(rng: &Rng, namespace: &'static str, number: usize) -> Vec<UserAction> {
    let name = format!("keeper-{number}");
    let owner = target::<ConfigMap>(namespace, &name);
    let kept = object::<Secret>(namespace, &format!("kept-{number}"), json!({}));
    let mut actions = vec![
        create::<ConfigMap>(namespace, &name, json!({})),
        UserAction::CreateSecretOf(owner, kept),
    ];
    if rng.chance(2) {
        actions.push(delete::<ConfigMap>(namespace, &name));
    }
    actions
}

fn target<K: Resource>(namespace: &'static str, name: &str) -> Target {
    Target {
        resource: K::TYPE,
        namespace,
        name: name.to_owned(),
    }
}

fn create<K: Resource>(namespace: &'static str, name: &str, more: Value) -> UserAction {
    let object = object::<K>(namespace, name, more);
    UserAction::Create(target::<K>(namespace, name), object)
}

fn object<K: Resource>(namespace: &'static str, name: &str, more: Value) -> Value {
    let resource = K::TYPE;
    let mut object = more;
    object["apiVersion"] = json!(resource.api_version());
    object["kind"] = json!(resource.kind);
    object["metadata"]["name"] = json!(name);
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = json!(namespace);
    }
    object
}

fn change<K: Resource>(
    namespace: &'static str,
    name: &str,
    patch: Value,
    what: &str,
) -> UserAction {
    UserAction::Change(target::<K>(namespace, name), patch, what.to_owned())
}

fn delete<K: Resource>(namespace: &'static str, name: &str) -> UserAction {
    UserAction::Delete(target::<K>(namespace, name), Propagation::Background)
}
