//! Who may do what: RBAC, tokens, reviews, impersonation, escalation.

use super::*;
use crate::auth::Identity;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

impl Server {
    pub(super) async fn call_as(
        &self,
        identity: &Identity,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Value,
    ) -> (u16, Value) {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = if body.is_null() {
            Bytes::new()
        } else {
            body.to_string().into()
        };
        let response = self
            .server
            .handle(request.body(body).unwrap(), identity.clone())
            .await;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    /// Gives a user a role in the default namespace.
    pub(super) async fn allow(&self, user: &str, verbs: &[&str], group: &str, resources: &[&str]) {
        let role = json!({"metadata": {"name": user}, "rules": [{"verbs": verbs, "apiGroups": [group], "resources": resources}]});
        assert_eq!(
            self.post(&format!("{RBAC}/namespaces/default/roles"), role)
                .await
                .0,
            201
        );
        let binding = json!({
            "metadata": {"name": user}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        });
        assert_eq!(
            self.post(&format!("{RBAC}/namespaces/default/rolebindings"), binding)
                .await
                .0,
            201
        );
    }
}

#[tokio::test(start_paused = true)]
async fn roles_decide() {
    let server = Server::new();
    let jane = Identity::new("jane", &[]);
    let get = |path: &str| {
        let path = path.to_owned();
        let (server, jane) = (&server, &jane);
        async move {
            server
                .call_as(jane, Method::GET, &path, &[], Value::Null)
                .await
        }
    };
    let (code, status) = get(CONFIG_MAPS).await;
    let message = "configmaps is forbidden: User \"jane\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"default\"";
    assert_eq!((code, &status["message"]), (403, &json!(message)));
    server.allow("jane", &["list"], "", &["configmaps"]).await;
    assert_eq!(get(CONFIG_MAPS).await.0, 200);
    assert_eq!(get("/api/v1/configmaps").await.0, 403);
    assert_eq!(get(&format!("{CONFIG_MAPS}/x")).await.0, 403);
    assert_eq!(
        get("/api").await.0,
        200,
        "discovery is for everyone who is authenticated"
    );
    let nobody = Identity::anonymous();
    assert_eq!(
        server
            .call_as(&nobody, Method::GET, "/readyz", &[], Value::Null)
            .await
            .0,
        200
    );
    assert_eq!(
        server
            .call_as(&nobody, Method::GET, "/api/v1/pods", &[], Value::Null)
            .await
            .0,
        401
    );
}

#[tokio::test(start_paused = true)]
async fn nobody_grants_what_they_do_not_hold() {
    let server = Server::new();
    let jane = Identity::new("jane", &[]);
    server
        .allow(
            "jane",
            &["*"],
            "rbac.authorization.k8s.io",
            &["roles", "rolebindings"],
        )
        .await;
    let path = format!("{RBAC}/namespaces/default/roles");
    let role = |resource: &str| json!({"metadata": {"name": "new"}, "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": [resource]}]});
    let (code, status) = server
        .call_as(&jane, Method::POST, &path, &[], role("secrets"))
        .await;
    // "*" on roles includes the verb escalate.
    assert_eq!(code, 201, "{status}");
    let joe = Identity::new("joe", &[]);
    server
        .allow(
            "joe",
            &["create", "get"],
            "rbac.authorization.k8s.io",
            &["roles", "rolebindings"],
        )
        .await;
    let (code, status) = server.call_as(&joe, Method::POST, &path, &[], json!({"metadata": {"name": "n2"}, "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}]})).await;
    assert_eq!(code, 403);
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .contains("not currently held"),
        "{status}"
    );
    let binding = json!({"metadata": {"name": "b"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}, "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "joe"}]});
    let (code, _) = server
        .call_as(
            &joe,
            Method::POST,
            &format!("{RBAC}/namespaces/default/rolebindings"),
            &[],
            binding,
        )
        .await;
    assert_eq!(code, 403);
}

#[tokio::test(start_paused = true)]
async fn service_account_tokens_work_until_their_time_or_account_ends() {
    let server = Server::new();
    server.service_account().await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let (code, answer) = server
        .post(
            &format!("{accounts}/default/token"),
            json!({"spec": {"expirationSeconds": 600}}),
        )
        .await;
    assert_eq!(code, 201, "{answer}");
    let token = answer["status"]["token"].as_str().unwrap().to_owned();
    let review = |audiences: Value| {
        let body = json!({"spec": {"token": token, "audiences": audiences}});
        server.post("/apis/authentication.k8s.io/v1/tokenreviews", body)
    };
    let (_, reviewed) = review(json!([])).await;
    assert_eq!(
        reviewed["status"]["user"]["username"], "system:serviceaccount:default:default",
        "{reviewed}"
    );
    assert_eq!(
        review(json!(["other"])).await.1["status"]["error"],
        "invalid bearer token"
    );
    let request = Request::builder()
        .uri("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .method(Method::POST);
    let request = request
        .header("authorization", format!("Bearer {token}"))
        .header("content-type", "application/json");
    let response = server
        .server
        .transport()
        .oneshot(request.body(Bytes::from_static(b"{}")).unwrap())
        .await
        .unwrap();
    let body: Value =
        serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap();
    assert_eq!(
        body["status"]["userInfo"]["groups"][0], "system:serviceaccounts",
        "{body}"
    );
    tokio::time::advance(std::time::Duration::from_secs(601)).await;
    assert_eq!(
        review(json!([])).await.1["status"]["error"],
        "invalid bearer token",
        "expired"
    );
    let (_, answer) = server
        .post(&format!("{accounts}/default/token"), json!({"spec": {}}))
        .await;
    let token = answer["status"]["token"].as_str().unwrap().to_owned();
    server.delete(&format!("{accounts}/default")).await;
    let request = Request::builder()
        .uri(CONFIG_MAPS)
        .header("authorization", format!("Bearer {token}"));
    let response = server
        .server
        .transport()
        .oneshot(request.body(Bytes::new()).unwrap())
        .await
        .unwrap();
    assert_eq!(response.status(), 401);
    assert_eq!(
        server
            .post(&format!("{accounts}/none/token"), json!({"spec": {}}))
            .await
            .0,
        404
    );
}

#[tokio::test(start_paused = true)]
async fn a_bootstrap_token_is_a_user_until_it_expires_or_is_deleted() {
    let server = Server::new();
    let expiration = api::Time::from_unix(server.server.now().unix() + 60).to_string();
    let secret = json!({
        "metadata": {"name": "bootstrap-token-abcdef"}, "type": "bootstrap.kubernetes.io/token",
        "stringData": {
            "token-id": "abcdef", "token-secret": "0123456789abcdef", "expiration": expiration,
            "usage-bootstrap-authentication": "true", "auth-extra-groups": "system:bootstrappers:nodes",
        },
    });
    let secrets = "/api/v1/namespaces/kube-system/secrets";
    let (code, answer) = server.post(secrets, secret.clone()).await;
    assert_eq!(code, 201, "{answer}");
    let review = |token: &'static str| {
        let body = json!({"spec": {"token": token}});
        let reviewed = server.post("/apis/authentication.k8s.io/v1/tokenreviews", body);
        async move { reviewed.await.1["status"].clone() }
    };
    let good = "abcdef.0123456789abcdef";
    let reviewed = review(good).await;
    assert_eq!(reviewed["user"]["username"], "system:bootstrap:abcdef");
    assert_eq!(
        reviewed["user"]["groups"],
        json!([
            "system:bootstrappers",
            "system:bootstrappers:nodes",
            "system:authenticated"
        ])
    );
    let own = reviewed["audiences"].clone();
    assert_eq!(own.as_array().map(Vec::len), Some(1), "{reviewed}");
    for (asked, good_for) in [
        (json!(["foo"]), serde_json::Value::Null),
        (json!(["foo", own[0]]), own.clone()),
    ] {
        let body = json!({"spec": {"token": good, "audiences": asked}});
        let reviewed = server.post("/apis/authentication.k8s.io/v1/tokenreviews", body);
        let status = reviewed.await.1["status"].clone();
        assert_eq!(status["audiences"], good_for, "{status}");
        assert_eq!(status["authenticated"] == true, !good_for.is_null());
    }
    for wrong in [
        "abcdef.0123456789abcdee",
        "abcdeg.0123456789abcdef",
        "abcdef.",
        "abcdef",
    ] {
        assert_eq!(
            review(wrong).await["error"],
            "invalid bearer token",
            "{wrong}"
        );
    }
    tokio::time::advance(std::time::Duration::from_secs(60)).await;
    assert_eq!(
        review(good).await["error"],
        "invalid bearer token",
        "expired"
    );
    server
        .delete(&format!("{secrets}/bootstrap-token-abcdef"))
        .await;
    assert_eq!(
        review(good).await["error"],
        "invalid bearer token",
        "deleted"
    );
}

#[tokio::test(start_paused = true)]
async fn tampered_tokens_are_refused() {
    let server = Server::new();
    for token in ["x", "a.b.c", "eyJhbGciOiJub25lIn0.e30.", "...."] {
        let request = Request::builder()
            .uri(CONFIG_MAPS)
            .header("authorization", format!("Bearer {token}"));
        let response = server
            .server
            .transport()
            .oneshot(request.body(Bytes::new()).unwrap())
            .await
            .unwrap();
        assert_eq!(response.status(), 401, "{token}");
    }
}

#[tokio::test(start_paused = true)]
async fn reviews_answer_what_requests_would_meet() {
    let server = Server::new();
    server
        .allow("jane", &["get"], "apps", &["deployments"])
        .await;
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let ask = |verb: &str| json!({"spec": {"user": "jane", "resourceAttributes": {"namespace": "default", "verb": verb, "group": "apps", "resource": "deployments"}}});
    assert_eq!(
        server.post(path, ask("get")).await.1["status"]["allowed"],
        true
    );
    assert_eq!(
        server.post(path, ask("delete")).await.1["status"]["allowed"],
        false
    );
    assert_eq!(
        server.post(path, json!({"spec": {"user": "jane"}})).await.0,
        422
    );
    let jane = Identity::new("jane", &[]);
    let rules = json!({"spec": {"namespace": "default"}});
    let (code, answer) = server
        .call_as(
            &jane,
            Method::POST,
            "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
            &[],
            rules,
        )
        .await;
    assert_eq!(code, 201, "{answer}");
    assert!(
        answer["status"]["resourceRules"]
            .as_array()
            .unwrap()
            .iter()
            .any(|rule| rule["resources"] == json!(["deployments"]))
    );
}

#[tokio::test(start_paused = true)]
async fn impersonation_needs_permission() {
    let server = Server::new();
    server.allow("jane", &["list"], "", &["configmaps"]).await;
    let headers = [("impersonate-user", "jane")];
    let admin = Identity::admin();
    assert_eq!(
        server
            .call_as(&admin, Method::GET, CONFIG_MAPS, &headers, Value::Null)
            .await
            .0,
        200
    );
    assert_eq!(
        server
            .call_as(&admin, Method::GET, PODS, &headers, Value::Null)
            .await
            .0,
        403
    );
    let joe = Identity::new("joe", &[]);
    let (code, status) = server
        .call_as(&joe, Method::GET, CONFIG_MAPS, &headers, Value::Null)
        .await;
    assert_eq!(
        (code, &status["details"]["kind"]),
        (403, &json!("configmaps"))
    );
    let headers = [("impersonate-group", "x")];
    assert_eq!(
        server
            .call_as(&admin, Method::GET, PODS, &headers, Value::Null)
            .await
            .0,
        400
    );
}

/// UPSTREAM: the binding, the role and the subject that allow it, or nothing where nobody asks for roles.
#[tokio::test(start_paused = true)]
async fn reviews_name_the_binding_that_allows() {
    use crate::auth::Authorizer::{AlwaysAllow, Rbac};
    let server = Server::with(|options| options.settings.authorizers = vec![Rbac, AlwaysAllow]);
    server.allow("anna", &["get"], "", &["pods"]).await;
    let everywhere = json!({
        "metadata": {"name": "viewers"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:aggregate-to-view"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "ns", "name": "bot"},
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "team"}],
    });
    let path = format!("{RBAC}/clusterrolebindings");
    assert_eq!(server.post(&path, everywhere).await.0, 201);
    for (user, groups, reason) in [
        (
            "anna",
            json!([]),
            json!(r#"RBAC: allowed by RoleBinding "anna/default" of Role "anna" to User "anna""#),
        ),
        (
            "system:serviceaccount:ns:bot",
            json!([]),
            json!(
                r#"RBAC: allowed by ClusterRoleBinding "viewers" of ClusterRole "system:aggregate-to-view" to ServiceAccount "bot/ns""#
            ),
        ),
        (
            "bob",
            json!(["team"]),
            json!(
                r#"RBAC: allowed by ClusterRoleBinding "viewers" of ClusterRole "system:aggregate-to-view" to Group "team""#
            ),
        ),
        ("bob", json!([]), Value::Null),
    ] {
        let asked = json!({"verb": "get", "resource": "pods", "namespace": "default"});
        let review = json!({"spec": {"user": user, "groups": groups, "resourceAttributes": asked}});
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let (_, answer) = server.post(path, review).await;
        let status = &answer["status"];
        assert_eq!(
            (&status["allowed"], &status["reason"]),
            (&json!(true), &reason)
        );
    }
}
