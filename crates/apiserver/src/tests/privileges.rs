//! What nobody gets by writing: rules they do not hold, the name of another, objects they may only change.

use super::*;
use crate::auth::Identity;
use http::HeaderValue;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const ALL_RBAC: [&str; 4] = [
    "clusterroles",
    "clusterrolebindings",
    "roles",
    "rolebindings",
];

struct Caller<'a> {
    server: &'a Server,
    identity: Identity,
    headers: Vec<(&'static str, Vec<u8>)>,
}

impl Server {
    fn caller(&self, user: &str) -> Caller<'_> {
        Caller {
            server: self,
            identity: Identity::new(user, &[]),
            headers: Vec::new(),
        }
    }

    /// Gives a user rules in the whole cluster.
    async fn allow_everywhere(&self, user: &str, rules: Value) {
        let role = json!({"metadata": {"name": user}, "rules": rules});
        let (code, answer) = self.post(&format!("{RBAC}/clusterroles"), role).await;
        assert_eq!(code, 201, "{answer}");
        let binding = binding(user, "ClusterRole", user, user);
        let (code, answer) = self
            .post(&format!("{RBAC}/clusterrolebindings"), binding)
            .await;
        assert_eq!(code, 201, "{answer}");
    }
}

impl Caller<'_> {
    async fn send(&self, method: Method, path: &str, kind: &str, body: Value) -> (u16, Value) {
        let mut request = Request::builder().method(method).uri(path);
        request = request.header("content-type", format!("application/{kind}"));
        for (name, value) in &self.headers {
            request = request.header(*name, HeaderValue::from_bytes(value).unwrap());
        }
        let body = match body {
            Value::Null => Bytes::new(),
            body => body.to_string().into(),
        };
        let request = request.body(body).unwrap();
        let response = self
            .server
            .server
            .handle(request, self.identity.clone())
            .await;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    /// Reads what is in the default namespace.
    async fn get(&self, path: &str) -> (u16, Value) {
        let path = format!("/api/v1/namespaces/default/{path}");
        self.send(Method::GET, &path, "json", Value::Null).await
    }

    async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.send(Method::POST, path, "json", body).await
    }

    async fn put(&self, path: &str, body: Value) -> (u16, Value) {
        self.send(Method::PUT, path, "json", body).await
    }

    async fn merge(&self, path: &str, body: Value) -> (u16, Value) {
        self.send(Method::PATCH, path, "merge-patch+json", body)
            .await
    }

    async fn apply(&self, path: &str, body: Value) -> (u16, Value) {
        let path = format!("{path}?fieldManager=m&force=true");
        self.send(Method::PATCH, &path, "apply-patch+yaml", body)
            .await
    }

    /// Who the server takes the caller for.
    async fn who(&self) -> (u16, Value) {
        let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let (code, answer) = self.post(path, json!({})).await;
        match code {
            201 => (code, answer["status"]["userInfo"].clone()),
            _ => (code, answer),
        }
    }
}

fn binding(name: &str, role_kind: &str, role: &str, user: &str) -> Value {
    let group = "rbac.authorization.k8s.io";
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": role_kind, "name": role},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    })
}

fn rule(verbs: &[&str], group: &str, resources: &[&str]) -> Value {
    json!({"verbs": verbs, "apiGroups": [group], "resources": resources})
}

/// All verbs that do not allow escalation.
fn writes_rbac() -> Value {
    rule(
        &["create", "get", "list", "update", "patch", "delete"],
        "rbac.authorization.k8s.io",
        &ALL_RBAC,
    )
}

fn forbidden((code, status): (u16, Value), why: &str) {
    assert_eq!(code, 403, "{status}");
    let message = status["message"].as_str().unwrap();
    assert!(message.contains(why), "{message}");
}

const AGGREGATION: &str = "must have cluster-admin privileges to use the aggregationRule";
const NOT_HELD: &str = "is attempting to grant RBAC permissions not currently held";

fn aggregated(name: &str, label: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]},
    })
}

#[tokio::test(start_paused = true)]
async fn aggregation_rules_are_for_cluster_administrators() {
    let server = Server::new();
    server.allow_everywhere("joe", json!([writes_rbac()])).await;
    let joe = server.caller("joe");
    let roles = format!("{RBAC}/clusterroles");
    let path = format!("{roles}/mine");
    // In every way in which a role can come to be.
    let all = "kubernetes.io/bootstrapping";
    forbidden(joe.post(&roles, aggregated("mine", all)).await, AGGREGATION);
    forbidden(joe.put(&path, aggregated("mine", all)).await, AGGREGATION);
    forbidden(joe.apply(&path, aggregated("mine", all)).await, AGGREGATION);
    // In every way in which one can change.
    assert_eq!(server.post(&roles, aggregated("mine", "a")).await.0, 201);
    let (_, role) = server.get(&path).await;
    let mut widened = role.clone();
    widened["aggregationRule"] = aggregated("mine", all)["aggregationRule"].clone();
    forbidden(joe.put(&path, widened.clone()).await, AGGREGATION);
    let selector = json!({"aggregationRule": widened["aggregationRule"]});
    forbidden(joe.merge(&path, selector).await, AGGREGATION);
    forbidden(joe.apply(&path, aggregated("mine", all)).await, AGGREGATION);
    // Taken away, what it gathered would stay.
    let none = json!({"aggregationRule": null});
    forbidden(joe.merge(&path, none).await, AGGREGATION);
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    forbidden(joe.merge(&path, label).await, AGGREGATION);
    assert_eq!(server.get(&path).await.1, role);
    // With everything, but without `escalate` by name.
    let everything = json!([rule(&["*"], "*", &["*"]), {"verbs": ["*"], "nonResourceURLs": ["*"]}]);
    server.allow_everywhere("root", everything).await;
    let root = server.caller("root");
    assert_eq!(root.put(&path, widened).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_a_role_needs_all_that_the_role_has() {
    let server = Server::new();
    server.allow_everywhere("joe", json!([writes_rbac()])).await;
    let joe = server.caller("joe");
    let path = format!("{RBAC}/clusterroles/secrets");
    let role = |labels: Value, owners: Value| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "secrets", "labels": labels, "ownerReferences": owners},
            "rules": [rule(&["get"], "", &["secrets"])],
        })
    };
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u"}]);
    server
        .post(&format!("{RBAC}/clusterroles"), role(json!({}), owner))
        .await;
    // A label would put the rules of the role into another one.
    let label = json!({"metadata": {"labels": {"aggregate-to-mine": "true"}}});
    forbidden(joe.merge(&path, label.clone()).await, NOT_HELD);
    // What the garbage collector does is no grant.
    let collected = json!({"metadata": {"ownerReferences": null, "finalizers": ["example.com/a"]}});
    let (code, answer) = joe.merge(&path, collected).await;
    assert_eq!(code, 200, "{answer}");
    // Whoever has what the role has may label it.
    server
        .allow_everywhere(
            "reader",
            json!([writes_rbac(), rule(&["get"], "", &["secrets"])]),
        )
        .await;
    assert_eq!(server.caller("reader").merge(&path, label).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn bindings_are_checked_however_they_are_written() {
    let server = Server::new();
    server.allow_everywhere("joe", json!([writes_rbac()])).await;
    let joe = server.caller("joe");
    for (bindings, kind) in [
        (format!("{RBAC}/clusterrolebindings"), "ClusterRoleBinding"),
        (
            format!("{RBAC}/namespaces/default/rolebindings"),
            "RoleBinding",
        ),
    ] {
        let path = format!("{bindings}/b");
        let mut wanted = binding("b", "ClusterRole", "cluster-admin", "joe");
        wanted["kind"] = json!(kind);
        forbidden(joe.post(&bindings, wanted.clone()).await, NOT_HELD);
        forbidden(joe.put(&path, wanted.clone()).await, NOT_HELD);
        forbidden(joe.apply(&path, wanted.clone()).await, NOT_HELD);
        // A binding of another, to which he adds himself, or just a label.
        let of_jane = binding("b", "ClusterRole", "cluster-admin", "jane");
        assert_eq!(server.post(&bindings, of_jane).await.0, 201);
        let subjects = json!({"subjects": wanted["subjects"]});
        forbidden(joe.merge(&path, subjects).await, NOT_HELD);
        let label = json!({"metadata": {"labels": {"a": "b"}}});
        forbidden(joe.merge(&path, label).await, NOT_HELD);
        let finalizers = json!({"metadata": {"finalizers": ["example.com/a"]}});
        assert_eq!(joe.merge(&path, finalizers).await.0, 200);
        let missing = binding("c", "ClusterRole", "nothing", "joe");
        assert_eq!(joe.post(&bindings, missing).await.0, 404);
    }
}

#[tokio::test(start_paused = true)]
async fn escalate_on_one_name_does_not_help_to_create() {
    let server = Server::new();
    let escalate = json!({
        "verbs": ["escalate"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"],
        "resourceNames": ["mine"],
    });
    server
        .allow_everywhere("joe", json!([writes_rbac(), escalate]))
        .await;
    let joe = server.caller("joe");
    let roles = format!("{RBAC}/clusterroles");
    let role = json!({"metadata": {"name": "mine"}, "rules": [rule(&["get"], "", &["secrets"])]});
    forbidden(joe.post(&roles, role.clone()).await, NOT_HELD);
    server
        .post(&roles, json!({"metadata": {"name": "mine"}}))
        .await;
    assert_eq!(joe.put(&format!("{roles}/mine"), role).await.0, 200);
}

/// The verbs, groups, resources and names of a rule multiply: written out, these would be a hundred million.
#[tokio::test(start_paused = true)]
async fn a_rule_of_many_words_is_refused_without_being_written_out() {
    let server = Server::new();
    server.allow_everywhere("joe", json!([writes_rbac()])).await;
    let words = |prefix: &str| {
        (0..10_000)
            .map(|n| format!("{prefix}{n}"))
            .collect::<Value>()
    };
    let role = json!({"metadata": {"name": "many"}, "rules": [
        {"verbs": words("v"), "apiGroups": [""], "resources": words("r")},
    ]});
    let joe = server.caller("joe");
    let answer = joe.post(&format!("{RBAC}/clusterroles"), role).await;
    assert!(answer.1.to_string().len() < 100_000);
    forbidden(answer, NOT_HELD);
}

/// Each of a hundred million combinations is held, by one rule or the other; and ten thousand names are searched for among
/// as many, over and over.
#[tokio::test(start_paused = true)]
async fn rules_that_take_hours_to_compare_are_refused() {
    let server = Server::new();
    let words = |prefix: &str, count: usize| {
        (0..count)
            .map(|n| format!("{prefix}{n}"))
            .collect::<Value>()
    };
    let all_of = |group: &str| rule(&["*"], group, &["*"]);
    let mut named = rule(&["get"], "", &["configmaps"]);
    named["resourceNames"] = words("n", 12_000);
    let held = json!([
        writes_rbac(),
        all_of("a.example.com"),
        all_of("b.example.com"),
        named
    ]);
    server.allow_everywhere("joe", held).await;
    let joe = server.caller("joe");
    let roles = format!("{RBAC}/clusterroles");
    let combined = json!({
        "verbs": words("v", 10_000), "apiGroups": ["a.example.com", "b.example.com"], "resources": words("r", 10_000),
    });
    named["resourceNames"].as_array_mut().unwrap().reverse();
    for rules in [json!([combined]), json!(vec![named.clone(); 4])] {
        let role = json!({"metadata": {"name": "many"}, "rules": rules});
        forbidden(joe.post(&roles, role).await, "too many words");
    }
    let few = json!({"metadata": {"name": "few"}, "rules": [{
        "verbs": words("v", 100), "apiGroups": ["a.example.com", "b.example.com"], "resources": words("r", 100),
    }]});
    assert_eq!(joe.post(&roles, few).await.0, 201);
}

#[tokio::test(start_paused = true)]
async fn names_that_are_not_ascii_are_impersonated() {
    let server = Server::new();
    let mut admin = server.caller("kubernetes-admin");
    admin.identity = Identity::admin();
    admin.headers = vec![
        ("impersonate-user", "jürgen".into()),
        ("impersonate-group", "größe".into()),
        ("impersonate-uid", "ü".into()),
        ("impersonate-extra-a%2Fb", "é".into()),
    ];
    let (code, who) = admin.who().await;
    assert_eq!(code, 201, "{who}");
    assert_eq!(
        who,
        json!({"username": "jürgen", "uid": "ü", "groups": ["größe", "system:authenticated"], "extra": {"a/b": ["é"]}})
    );
    // Who may not act as jürgen is told so, and does nothing.
    let impersonate = rule(&["impersonate"], "", &["users"]);
    let mut only = impersonate.clone();
    only["resourceNames"] = json!(["jane"]);
    server.allow_everywhere("joe", json!([only])).await;
    let mut joe = server.caller("joe");
    joe.headers = vec![("impersonate-user", "jürgen".into())];
    forbidden(
        joe.who().await,
        "selfsubjectreviews.authentication.k8s.io is forbidden: User \"joe\" cannot impersonate-on:user-info:create \
         resource \"selfsubjectreviews\" in API group \"authentication.k8s.io\" at the cluster scope",
    );
}

/// Upstream: `TestConstrainedImpersonationFilter`.
#[tokio::test(start_paused = true)]
async fn whoever_acts_as_another_may_do_so_for_what_is_allowed_alone() {
    let server = Server::new();
    let group = "authentication.k8s.io";
    let mut only = rule(&["impersonate:user-info"], group, &["users"]);
    only["resourceNames"] = json!(["jane"]);
    server
        .allow_everywhere(
            "joe",
            json!([
                only,
                rule(&["impersonate-on:user-info:get"], "", &["configmaps"]),
                rule(&["impersonate:arbitrary-node"], group, &["nodes"]),
                rule(
                    &["impersonate-on:arbitrary-node:create"],
                    group,
                    &["selfsubjectreviews"]
                ),
            ]),
        )
        .await;
    server
        .allow("jane", &["get"], "", &["configmaps", "secrets"])
        .await;
    let mut joe = server.caller("joe");
    joe.headers = vec![("impersonate-user", "jane".into())];
    assert_eq!(joe.get("configmaps/a").await.0, 404);
    forbidden(
        joe.get("secrets/a").await,
        "User \"joe\" cannot impersonate-on:user-info:get resource \"secrets\"",
    );
    joe.headers
        .push(("impersonate-group", "system:masters".into()));
    forbidden(
        joe.get("configmaps/a").await,
        "impersonating the system:masters group is not allowed",
    );
    joe.headers[1] = ("impersonate-extra-scopes", "all".into());
    forbidden(
        joe.get("configmaps/a").await,
        "must be a domain-prefixed path",
    );
    joe.headers = vec![("impersonate-user", "jim".into())];
    forbidden(
        joe.get("configmaps/a").await,
        "users.authentication.k8s.io \"jim\" is forbidden: User \"joe\" cannot impersonate:user-info resource",
    );
    joe.headers = vec![("impersonate-user", "system:node:n".into())];
    let (code, who) = joe.who().await;
    assert_eq!(code, 201, "{who}");
    assert_eq!(
        who["groups"],
        json!(["system:nodes", "system:authenticated"])
    );
    joe.headers = vec![("impersonate-group", "g".into())];
    let (code, answer) = joe.who().await;
    assert_eq!(code, 400);
    assert_eq!(
        answer["message"],
        "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"g\"}, Extra:map[string][]string(nil)} \
         without impersonating a user name"
    );
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_nobody_to_act_as() {
    let server = Server::new();
    let mut admin = server.caller("kubernetes-admin");
    admin.identity = Identity::admin();
    for name in [
        "impersonate-user",
        "impersonate-group",
        "impersonate-uid",
        "impersonate-extra-scopes",
        "impersonate-something-new",
    ] {
        admin.headers = vec![
            ("impersonate-user", b"jane".to_vec()),
            (name, b"j\xfcrgen".to_vec()),
        ];
        if name == "impersonate-user" {
            admin.headers.remove(0);
        }
        let (code, answer) = admin.who().await;
        assert_eq!(code, 400, "{name}: {answer}");
    }
}

/// Upstream: `modeIndexCache`.
#[tokio::test(start_paused = true)]
async fn who_was_allowed_in_one_mode_is_told_of_that_mode_when_refused() {
    let server = Server::new();
    let mut only = rule(&["impersonate"], "", &["users"]);
    only["resourceNames"] = json!(["jane"]);
    server.allow_everywhere("joe", json!([only])).await;
    let mut joe = server.caller("joe");
    let mut as_user = async |name: &str| {
        joe.headers = vec![("impersonate-user", name.as_bytes().to_vec())];
        joe.who().await
    };
    forbidden(
        as_user("jim").await,
        "selfsubjectreviews.authentication.k8s.io is forbidden: User \"joe\" cannot impersonate-on:user-info:create \
         resource \"selfsubjectreviews\" in API group \"authentication.k8s.io\" at the cluster scope",
    );
    assert_eq!(as_user("jane").await.0, 201);
    forbidden(
        as_user("jim").await,
        "users \"jim\" is forbidden: User \"joe\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope",
    );
    // Of others nothing is remembered.
    let mut ann = server.caller("ann");
    ann.headers = vec![("impersonate-user", "jim".into())];
    let (code, refused) = ann.who().await;
    let said = refused["message"].as_str().unwrap_or_default();
    assert!(
        code == 403 && said.contains("impersonate-on:user-info:create"),
        "{refused}"
    );
}

#[tokio::test(start_paused = true)]
async fn only_well_formed_names_are_service_accounts() {
    let server = Server::new();
    // In one namespace, of service accounts only.
    server
        .allow("joe", &["impersonate"], "", &["serviceaccounts"])
        .await;
    let mut joe = server.caller("joe");
    joe.headers = vec![("impersonate-user", "system:serviceaccount:default:a".into())];
    let (code, who) = joe.who().await;
    assert_eq!(code, 201, "{who}");
    assert_eq!(
        who["groups"],
        json!([
            "system:serviceaccounts",
            "system:serviceaccounts:default",
            "system:authenticated"
        ])
    );
    for name in ["default:a:b", "default:A", "default:"] {
        joe.headers = vec![(
            "impersonate-user",
            format!("system:serviceaccount:{name}").into(),
        )];
        // They are users, whom other permissions are for, in the mode in which joe was allowed before.
        forbidden(joe.who().await, "cannot impersonate resource \"users\"");
    }
    let mut admin = server.caller("kubernetes-admin");
    admin.identity = Identity::admin();
    admin.headers = vec![
        ("impersonate-user", "jane".into()),
        ("impersonate-group", "system:unauthenticated".into()),
    ];
    // Not authenticated as well: the review is for those who are.
    let (code, who) = admin.who().await;
    assert_ne!(code, 201, "{who}");
}

#[tokio::test(start_paused = true)]
async fn a_token_that_cannot_be_read_is_no_token() {
    let server = Server::new();
    let request = Request::builder().uri(CONFIG_MAPS).header(
        "authorization",
        HeaderValue::from_bytes(b"Bearer \xfc").unwrap(),
    );
    let request = request.body(Bytes::new()).unwrap();
    let response = server.server.transport().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 401);
}

#[tokio::test(start_paused = true)]
async fn creating_by_another_verb_needs_create() {
    let server = Server::new();
    let resources = ["configmaps", "services", "limitranges"];
    server
        .allow("joe", &["get", "update", "patch"], "", &resources)
        .await;
    let joe = server.caller("joe");
    let path = format!("{CONFIG_MAPS}/new");
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}});
    let (code, status) = joe.apply(&path, object.clone()).await;
    let message = "configmaps \"new\" is forbidden: User \"joe\" cannot create resource \"configmaps\" in API group \"\" in the namespace \"default\"";
    assert_eq!((code, &status["message"]), (403, &json!(message)));
    assert_eq!(server.get(&path).await.0, 404);
    let ranges = "/api/v1/namespaces/default/limitranges";
    let range = json!({"metadata": {"name": "r"}, "spec": {"limits": []}});
    forbidden(
        joe.put(&format!("{ranges}/r"), range.clone()).await,
        "cannot create resource \"limitranges\"",
    );
    // What is there can be changed.
    server.config_map("new", json!({})).await;
    assert_eq!(joe.apply(&path, object.clone()).await.0, 200);
    server.delete(&path).await;
    let jane = server.caller("jane");
    server
        .allow("jane", &["create", "update", "patch"], "", &resources)
        .await;
    assert_eq!(jane.apply(&path, object).await.0, 201);
    assert_eq!(jane.put(&format!("{ranges}/r"), range).await.0, 201);
}
