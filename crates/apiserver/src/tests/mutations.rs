//! Mutating admission policies, from the policy to the objects that they change.

use super::policies::{GROUP, PODS, rule};
use super::*;

impl Server {
    /// Binds a mutating policy of that name by `<name>-b`.
    async fn bind_mutating(&self, name: &str, spec: Value) {
        let path = format!("{GROUP}/mutatingadmissionpolicies");
        let (code, created) = self
            .post(&path, json!({"metadata": {"name": name}, "spec": spec}))
            .await;
        assert_eq!(code, 201, "{created}");
        let path = format!("{GROUP}/mutatingadmissionpolicybindings");
        let binding =
            json!({"metadata": {"name": format!("{name}-b")}, "spec": {"policyName": name}});
        let (code, created) = self.post(&path, binding).await;
        assert_eq!(code, 201, "{created}");
    }
}

fn mutating(resource: &str, mutation: Value) -> Value {
    json!({"matchConstraints": rule(resource, &["CREATE", "UPDATE"]), "reinvocationPolicy": "Never", "mutations": [mutation]})
}

fn apply(expression: &str) -> Value {
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
}

fn json_patch(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

fn pod() -> Value {
    json!({"metadata": {"generateName": "x-"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

#[tokio::test(start_paused = true)]
async fn apply_configurations_are_merged_into_objects() {
    let server = Server::new();
    server.make_account().await;
    let expression = "Object{
        metadata: Object.metadata{labels: {'by': request.userInfo.username, 'named': string(has(object.metadata.name))}},
        spec: Object.spec{
            initContainers: [Object.spec.initContainers{name: 'mesh', image: 'mesh:1', restartPolicy: 'Always'}],
            containers: object.spec.containers.map(c, Object.spec.containers{name: c.name, imagePullPolicy: 'Never'})
        }
    }";
    server
        .bind_mutating("p", mutating("pods", apply(expression)))
        .await;
    let (code, created) = server.post(PODS, pod()).await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(
        created["metadata"]["labels"],
        json!({"by": "kubernetes-admin", "named": "false"})
    );
    assert!(
        created["metadata"]["name"]
            .as_str()
            .unwrap()
            .starts_with("x-")
    );
    let container = &created["spec"]["containers"][0];
    assert_eq!(container["image"], "i");
    assert_eq!(container["imagePullPolicy"], "Never");
    let init = &created["spec"]["initContainers"][0];
    assert_eq!(init["restartPolicy"], "Always");
    // What a policy has put in has defaults, too, and the plugins before policies have seen it.
    assert_eq!(init["terminationMessagePath"], "/dev/termination-log");
    assert!(
        init["volumeMounts"][0]["name"]
            .as_str()
            .unwrap()
            .starts_with("kube-api-access-")
    );
}

#[tokio::test(start_paused = true)]
async fn json_patches_change_objects() {
    let server = Server::new();
    let expression = "[
        JSONPatch{op: 'test', path: '/data/patch', value: 'yes'},
        JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('a/b~c'), value: 'escaped'},
        JSONPatch{op: 'add', path: '/metadata/annotations', value: {'size': string(object.data.size())}},
        JSONPatch{op: 'copy', from: '/data/patch', path: '/data/copy'}
    ]";
    let mut spec = mutating("configmaps", json_patch(expression));
    // A key with a slash would be refused by validation.
    let expression = expression.replace("a/b~c", "a.b");
    spec["mutations"][0]["jsonPatch"]["expression"] = json!(expression);
    server.bind_mutating("p", spec).await;
    let (code, created) = server.map("a", json!({"patch": "yes"})).await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(
        created["data"],
        json!({"patch": "yes", "a.b": "escaped", "copy": "yes"})
    );
    assert_eq!(created["metadata"]["annotations"], json!({"size": "1"}));
    // A test that fails leaves the object alone.
    let (code, created) = server.map("b", json!({"patch": "no"})).await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(created["data"], json!({"patch": "no"}));
}

#[tokio::test(start_paused = true)]
async fn mutations_that_do_not_apply_refuse_the_request() {
    for (resource, mutation, why) in [
        (
            "configmaps",
            json_patch("[JSONPatch{op: 'remove', path: '/data/missing'}]"),
            "JSON Patch: error in remove for path: '/data/missing': Unable to remove nonexistent key: missing: missing value",
        ),
        (
            "configmaps",
            json_patch("[JSONPatch{op: 'add', path: '/a/b', value: 1}]"),
            "JSON Patch: add operation does not apply: doc is missing path: \"/a/b\": missing value",
        ),
        (
            "configmaps",
            apply("Object{metadata: Object.metadatas{}}"),
            "type mismatch: unexpected type name \"Object.metadatas\", expected \"Object.metadata\", which matches field name path from root Object type",
        ),
        (
            "configmaps",
            apply("Object{specs: Object.specs{}}"),
            "error applying patch: failed to convert patch object to typed object: .specs: field not declared in schema",
        ),
        (
            "configmaps",
            apply("Object{data: {'a': object.data.missing}}"),
            "expression 'Object{data: {'a': object.data.missing}}' resulted in error: no such key: missing",
        ),
        (
            "pods",
            apply(
                "Object{spec: Object.spec{nodeSelector: {'a': 'b'}, containers: [Object.spec.containers{name: 'c', args: ['x']}]}}",
            ),
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.containers[0].args, .spec.nodeSelector",
        ),
    ] {
        let server = Server::new();
        server.make_account().await;
        server
            .bind_mutating("p", mutating(resource, mutation))
            .await;
        let (code, status) = match resource {
            "pods" => server.post(PODS, pod()).await,
            _ => server.map("a", json!({"k": "v"})).await,
        };
        let message = format!("policy 'p' with binding 'p-b' denied request: {why}");
        assert_eq!(
            (code, &status["reason"]),
            (403, &json!("Invalid")),
            "{status}"
        );
        assert_eq!(status["message"], message);
        assert_eq!(status["details"]["causes"], json!([{"message": message}]));
    }
}

#[tokio::test(start_paused = true)]
async fn policies_are_invoked_again_when_others_have_changed_the_object() {
    let server = Server::new();
    let count = "Object{data: {'count': string(int(object.?data.count.orValue('0')) + 1)}}";
    for (name, again) in [("once", "Never"), ("twice", "IfNeeded")] {
        let mut spec = mutating("configmaps", apply(&count.replace("count", name)));
        spec["reinvocationPolicy"] = json!(again);
        server.bind_mutating(name, spec).await;
    }
    let (code, created) = server.map("a", json!({})).await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(created["data"], json!({"once": "1", "twice": "2"}));
}
