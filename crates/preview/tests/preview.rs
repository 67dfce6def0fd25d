//! What previews say, from manifests to warnings.

#[path = "preview/course.rs"]
mod course;
#[path = "preview/jobs.rs"]
mod jobs;

use std::time::Duration;

use api::Time;
use expect_test::{Expect, expect};
use steersman_preview::{BEGIN, Manifest, Preview, PreviewError, Setup, Style, preview, svg, text};

/// A Deployment `web` of `replicas` pods; `more` goes into its spec.
fn deployment(image: &str, replicas: u32, more: &str) -> String {
    format!(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web, namespace: shop}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec: {{containers: [{{name: main, image: '{image}'}}]}}
{more}"
    )
}

fn setup(state: &str, manifests: &str) -> Setup {
    Setup {
        manifests: Manifest::parse("new.yaml", manifests).expect("the test's manifests are good"),
        state: Manifest::parse("old.yaml", state).expect("the test's state is good"),
        namespace: "default".to_owned(),
        begin: Time::from_unix(BEGIN),
        ready_after: Duration::from_secs(10),
        fail_images: vec!["web:bad".to_owned()],
        nodes: None,
        node_config: None,
        stages: nodes::stages::Stages::default(),
        assumed: Vec::new(),
        length: Duration::from_secs(900),
        missing: Vec::new(),
        from: if state.is_empty() {
            String::new()
        } else {
            "old.yaml".to_owned()
        },
        drain: Vec::new(),
        loads: Vec::new(),
    }
}

fn run(state: &str, manifests: &str) -> Preview {
    preview(&setup(state, manifests)).expect("the manifests can be applied")
}

/// The text but for charts and timeline: the verdict, a line for each workload, the warnings.
fn check(state: &str, manifests: &str, expected: Expect) {
    let preview = run(state, manifests);
    let style = Style {
        width: 100,
        colour: false,
        unicode: true,
    };
    let printed = text(&preview, style);
    let kept: Vec<&str> = printed
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with(' '))
        .filter(|line| !line.starts_with("Assumed") && !line.starts_with("From "))
        .collect();
    expected.assert_eq(&without_random_parts(&kept.join("\n")));
}

/// Pods' names end in five characters that change whenever anybody draws one random number more.
fn without_random_parts(text: &str) -> String {
    let word = |word: &str| match word
        .split_once('/')
        .filter(|(before, _)| matches!(*before, "pod" | "default"))
        .and_then(|(before, pod)| Some((before, pod.rsplit_once('-')?)))
    {
        Some((before, (base, end))) if end.len() == 5 => format!("{before}/{base}-xxxxx"),
        _ => word.to_owned(),
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

fn check_error(state: &str, manifests: &str, expected: &str) {
    let error: PreviewError = preview(&setup(state, manifests)).expect_err("the input is bad");
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_good_rollout() {
    check(
        &deployment("web:1", 4, ""),
        &deployment("web:2", 4, ""),
        expect![[r#"
            Completes in 20s.
            deployment/web in shop: done after 20s, never fewer than 3 of 4 available, at most 5 pods (1 more than wanted)"#]],
    );
}

#[test]
fn the_timeline_of_a_good_rollout() {
    let preview = run(&deployment("web:1", 4, ""), &deployment("web:2", 4, ""));
    let lines: Vec<String> = preview
        .timeline
        .iter()
        .map(|entry| format!("{} {}: {}", entry.at.round(), entry.object, entry.what))
        .collect();
    expect![[r#"
        0 deployment/web: you apply a change
        0 deployment/web: creates web-9b48b5bf9 with 1 of 4 pods
        0 deployment/web: scales web-58b88c8b56 from 4 to 3
        0 deployment/web: scales web-9b48b5bf9 from 1 to 2
        10 deployment/web: 2 more pods are ready
        10 deployment/web: scales web-58b88c8b56 from 3 to 1
        10 deployment/web: scales web-9b48b5bf9 from 2 to 4
        20 deployment/web: 2 more pods are ready
        20 deployment/web: scales web-58b88c8b56 from 1 to 0
        20 : complete"#]]
    .assert_eq(&lines.join("\n"));
}

#[test]
fn a_bad_image_stops_at_the_deadline() {
    check(
        &deployment("web:1", 4, ""),
        &deployment(
            "registry.example.com/web:bad",
            4,
            "  progressDeadlineSeconds: 120\n",
        ),
        expect![[r#"
            Does not complete within 15m.
            deployment/web in shop: not done, never fewer than 3 of 4 available, at most 5 pods (1 more than wanted)
            warning: deployment/web does not finish within 15m: has exceeded its progress deadline: 2 of 4 pods updated, 3 available; pod/web-78dfc57df9-xxxxx container main cannot pull image "registry.example.com/web:bad": ImagePullBackOff
            warning: deployment/web exceeds its progress deadline after 2m1s: `kubectl rollout status` fails then"#]],
    );
}

#[test]
fn a_paused_deployment_does_not_finish() {
    check(
        &deployment("web:1", 2, ""),
        &deployment("web:2", 2, "  paused: true\n"),
        expect![[r#"
            Does not complete within 15m.
            deployment/web in shop: not done, never fewer than 2 of 2 available, at most 2 pods
            warning: deployment/web does not finish within 15m: is paused: 0 of 2 pods updated, 2 available"#]],
    );
}

const QUOTA: &str = "
apiVersion: v1
kind: ResourceQuota
metadata: {name: few, namespace: shop}
spec: {hard: {pods: '5'}}
---";

#[test]
fn a_quota_that_is_too_small() {
    check(
        "",
        &format!("{QUOTA}{}", deployment("web:1", 7, "")),
        expect![[r#"
            Does not complete within 15m.
            deployment/web in shop: not done, at most 5 pods
            warning: deployment/web does not finish within 15m: has exceeded its progress deadline: 5 of 7 pods updated, 5 available; replicaset/web-58b88c8b56 cannot create pods: exceeded quota: few, requested: pods=1, used: pods=5, limited: pods=5
            warning: deployment/web exceeds its progress deadline after 10m11s: `kubectl rollout status` fails then
            warning: replicaset/web-58b88c8b56 the quota does not let it create its pods: few, requested: pods=1, used: pods=5, limited: pods=5"#]],
    );
}

/// What is deleted is given back: with room for one pod more, a rollout gets through.
#[test]
fn a_quota_with_room_for_the_surge() {
    let state = format!("{QUOTA}{}", deployment("web:1", 4, ""));
    check(
        &state,
        &deployment("web:2", 4, ""),
        expect![[r#"
            Completes in 20s.
            deployment/web in shop: done after 20s, never fewer than 3 of 4 available, at most 5 pods (1 more than wanted)
            warning: replicaset/web-9b48b5bf9 has to wait for room in a quota: few, limited: pods=5"#]],
    );
}

#[test]
fn budgets_that_drains_wait_for() {
    let budget = "
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: shop}
spec: {minAvailable: 100%, selector: {matchLabels: {app: web}}}";
    check(
        &deployment("web:1", 8, ""),
        &format!("{}{budget}", deployment("web:2", 8, "")),
        expect![[r#"
            Completes in 20s.
            deployment/web in shop: done after 20s, never fewer than 6 of 8 available, at most 10 pods (2 more than wanted)
            warning: poddisruptionbudget/web never lets a pod of deployment/web be evicted: draining a node that has one waits for ever
            warning: poddisruptionbudget/web asks for 8 pods of deployment/web, and the rollout leaves 6 for a while: rollouts do not obey budgets, and drains wait meanwhile"#]],
    );
}

fn stateful(image: &str, replicas: u32) -> String {
    format!(
        "
apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: db, namespace: shop}}
spec:
  replicas: {replicas}
  serviceName: db
  persistentVolumeClaimRetentionPolicy: {{whenScaled: Delete}}
  selector: {{matchLabels: {{app: db}}}}
  template:
    metadata: {{labels: {{app: db}}}}
    spec: {{containers: [{{name: main, image: '{image}'}}]}}
  volumeClaimTemplates:
  - metadata: {{name: data}}
    spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Gi}}}}}}
"
    )
}

#[test]
fn claims_that_go_with_a_smaller_set() {
    check(
        &stateful("db:1", 3),
        &stateful("db:1", 2),
        expect![[r#"
            Completes in 0s.
            statefulset/db in shop: done after 0s, never fewer than 2 of 2 available, at most 3 pods
            warning: persistentvolumeclaim/data-db-2 is deleted with all data, by the retention policy of the StatefulSet: data-db-2"#]],
    );
}

#[test]
fn a_stateful_set_goes_one_by_one() {
    check(
        &stateful("db:1", 3),
        &stateful("db:2", 3),
        expect![[r#"
        Completes in 30s.
        statefulset/db in shop: done after 30s, never fewer than 2 of 3 available, at most 3 pods"#]],
    );
}

#[test]
fn two_sets_that_select_the_same_pods() {
    let other = deployment("web:1", 2, "").replace("name: web,", "name: other,");
    check(
        &deployment("web:1", 2, ""),
        &other,
        expect![[r#"
        Completes in 10s.
        deployment/other in shop: done after 10s, at most 2 pods
        warning: deployment/other also selects the pods of deployment/web: two controllers would fight over them; give each its own labels
        warning: deployment/web also selects the pods of deployment/other: two controllers would fight over them; give each its own labels"#]],
    );
}

const AGENT: &str = "
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: main, image: 'agent:1'}]}
";

#[test]
fn a_daemon_set_and_a_bare_pod() {
    let alone = "
---
apiVersion: v1
kind: Pod
metadata: {name: alone}
spec: {containers: [{name: main, image: 'web:bad'}]}
";
    check(
        "",
        &format!("{AGENT}{alone}"),
        expect![[r#"
            Does not complete within 15m.
            daemonset/agent in default: done after 10s, at most 3 pods
            pod/alone in default: neither ready nor done; not managed by a controller, nothing recreates it
            warning: pod/alone does not finish within 15m: container main cannot pull image "web:bad": ImagePullBackOff (Failed to pull image "web:bad": rpc error: code = NotFound desc = failed to pull and unpack image "web:bad": not found) (for 15m)"#]],
    );
}

/// `--nodes`: a daemon on each.
#[test]
fn as_many_nodes_as_were_asked_for() {
    for (nodes, pods, places) in [(1, "1 pod\n", "1 node."), (7, "7 pods\n", "7 nodes.")] {
        let mut setup = setup("", AGENT);
        setup.nodes = Some(nodes);
        let preview = preview(&setup).expect("the manifests can be applied");
        let style = Style {
            width: 100,
            colour: false,
            unicode: true,
        };
        let out = text(&preview, style);
        assert!(out.contains(&format!("at most {pods}")), "{out}");
        assert!(out.contains(&format!("cluster of {places}")), "{out}");
    }
}

/// A Job is not called done when nobody has run it.
#[test]
fn what_no_controller_acts_on_is_named() {
    let preview = run(
        "",
        "
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: 'job:1'}]}}}
",
    );
    let warned = preview.warnings.iter().any(|one| one.object == "job/once");
    assert_eq!(
        warned,
        !controllers::find("job-controller").is_some_and(controllers::Descriptor::is_built)
    );
}

#[test]
fn a_custom_kind_can_be_passed_along() {
    let widget = "
apiVersion: example.com/v1
kind: Widget
metadata: {name: w, namespace: shop}
spec: {size: 3}
";
    check_error(
        "",
        widget,
        r#"new.yaml: line 2: no kind "Widget" is known in "example.com/v1"; pass its CustomResourceDefinition along with -f if it is a custom one"#,
    );
    check_error(
        "",
        "apiVersion: apps/v1beta1\nkind: Deployment\nmetadata: {name: web}\n",
        r#"new.yaml: line 1: kind "Deployment" is not in "apps/v1beta1", but in "apps/v1""#,
    );
    let definition = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}
";
    check(
        "",
        &format!("{widget}---{definition}"),
        expect!["Completes in 0s."],
    );
}

/// An object as `kubectl get -o yaml` prints it after `kubectl apply`.
#[test]
fn what_a_manifest_no_longer_has_goes_away() {
    let live = "
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
  uid: 7d7f9d0c-8a38-4a52-9d2c-2a3b1d1c0a11
  generation: 1
  creationTimestamp: '2023-12-31T00:00:00Z'
  managedFields:
  - apiVersion: apps/v1
    manager: kubectl-client-side-apply
    operation: Update
    fieldsType: FieldsV1
    fieldsV1:
      'f:spec':
        'f:template':
          'f:spec':
            'f:containers':
              'k:{\"name\":\"main\"}': {'.': {}, 'f:name': {}, 'f:image': {}}
              'k:{\"name\":\"proxy\"}': {'.': {}, 'f:name': {}, 'f:image': {}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: main, image: 'web:1', imagePullPolicy: IfNotPresent, resources: {}, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File}
      - {name: proxy, image: 'proxy:1', imagePullPolicy: IfNotPresent, resources: {}, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File}
      dnsPolicy: ClusterFirst
      restartPolicy: Always
      schedulerName: default-scheduler
      securityContext: {}
      terminationGracePeriodSeconds: 30
";
    let unchanged = run(live, live);
    let acts = |preview: &Preview| {
        let whats = preview.timeline.iter().map(|entry| entry.what.clone());
        whats.filter(|what| what.starts_with("creates")).count()
    };
    assert_eq!(acts(&unchanged), 0, "{:?}", unchanged.timeline);
    let smaller = run(live, &deployment("web:1", 2, ""));
    assert_eq!(acts(&smaller), 1, "{:?}", smaller.timeline);
}

#[test]
fn what_the_server_would_reject() {
    check_error(
        "",
        &deployment("web:1", 3, "  minReadySeconds: -1\n"),
        r#"new.yaml: line 2: the API server rejects deployment/web: Deployment.apps "web" is invalid: spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0"#,
    );
    let known = "{apiVersion: v1, kind: Namespace, metadata: {name: other}}";
    check_error(
        known,
        &deployment("web:1", 3, ""),
        r#"new.yaml: line 2: the API server rejects deployment/web: namespaces "shop" not found"#,
    );
}

#[test]
fn claim_templates_cannot_change_and_the_way_out_is_named() {
    let larger = stateful("db:1", 3).replace("1Gi", "2Gi");
    check_error(
        &stateful("db:1", 3),
        &larger,
        r#"new.yaml: line 2: the API server rejects statefulset/db: StatefulSet.apps "db" is invalid: spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden; claims that exist keep what they have: delete the StatefulSet with --cascade=orphan, change the claims, and apply it again"#,
    );
}

#[test]
fn the_same_input_gives_the_same_preview() {
    let (old, new) = (deployment("web:1", 6, ""), deployment("web:2", 6, ""));
    let (one, two) = (run(&old, &new), run(&old, &new));
    assert_eq!(one, two);
    assert_eq!(svg(&one), svg(&two));
    assert!(svg(&one).contains("deployment/web in shop"));
    let first = one.workloads[0].samples[0];
    assert_eq!((first.total(), first.ready()), (8, 5));
}

#[test]
fn objects_without_a_namespace_go_where_they_are_told() {
    let mut setup = setup("", AGENT);
    setup.namespace = "team".to_owned();
    let preview = preview(&setup).expect("the manifests can be applied");
    assert_eq!(preview.workloads[0].namespace, "team");
    assert!(preview.completes);
}

/// The server has filled in the parameters of the old strategy; they go with it, as with `kubectl apply`.
#[test]
fn a_choice_takes_the_defaults_of_the_other_one_along() {
    check(
        &deployment("web:1", 4, ""),
        &deployment("web:2", 4, "  strategy: {type: Recreate}\n"),
        expect![[r#"
            Completes in 10s.
            deployment/web in shop: done after 10s, never fewer than 0 of 4 available, at most 4 pods"#]],
    );
    let volume = |source: &str| {
        deployment("web:1", 1, "").replace(
            "containers:",
            &format!("volumes: [{{name: v, {source}}}], containers:"),
        )
    };
    check(
        &volume("configMap: {name: a}"),
        &volume("secret: {secretName: a}"),
        expect![[r#"
            Completes in 10s.
            deployment/web in shop: done after 10s, never fewer than 1 of 1 available, at most 2 pods (1 more than wanted)"#]],
    );
}

/// What `kubectl get` prints has no managed fields, but the annotation of `kubectl apply`.
#[test]
fn what_was_applied_before_and_is_left_out_now_goes() {
    let printed = |annotations: &str| {
        let identity = format!(
            "{{name: web, namespace: shop, uid: d0000000-0000-4000-8000-000000000000, resourceVersion: '7', \
             creationTimestamp: '2024-01-01T00:00:00Z', generation: 1, annotations: {{{annotations}}}}}"
        );
        deployment("web:1", 2, "  minReadySeconds: 60\n")
            .replace("{name: web, namespace: shop}", &identity)
    };
    let applied =
        r#"kubectl.kubernetes.io/last-applied-configuration: '{"spec":{"minReadySeconds":60}}'"#;
    let new = deployment("web:2", 2, "");
    let after = |state: &str| run(state, &new).workloads[0].seconds;
    assert!(after(&printed("")) > Some(60.0), "nobody knows whose it is");
    assert!(after(&printed(applied)) < Some(60.0), "it is gone");
}

/// Of lists, too: what `kubectl apply` was not given stays, as with kubectl, and the report says so.
#[test]
fn elements_that_were_applied_before_and_are_left_out_now_go() {
    let container = |name: &str| {
        format!(
            "{{name: {name}, image: '{name}:1', imagePullPolicy: IfNotPresent, resources: {{}}, \
             terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File}}"
        )
    };
    let printed = |annotations: &str| {
        let containers = format!("[{}, {}]", container("main"), container("proxy"));
        format!(
            "
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
  uid: 7d7f9d0c-8a38-4a52-9d2c-2a3b1d1c0a11
  resourceVersion: '7'
  generation: 1
  creationTimestamp: '2023-12-31T00:00:00Z'
  annotations: {{{annotations}}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec: {{containers: {containers}, dnsPolicy: ClusterFirst, restartPolicy: Always, schedulerName: default-scheduler, securityContext: {{}}, terminationGracePeriodSeconds: 30}}
"
        )
    };
    let applied = r#"kubectl.kubernetes.io/last-applied-configuration: '{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"annotations":{},"name":"web","namespace":"shop"},"spec":{"replicas":2,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"image":"main:1","name":"main"},{"image":"proxy:1","name":"proxy"}]}}}}'"#;
    let smaller = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: 'main:1'}]}
";
    let outcome = |state: &str| {
        let preview = run(state, smaller);
        let whats = preview.timeline.iter().map(|entry| entry.what.clone());
        let sets = whats.filter(|what| what.starts_with("creates")).count();
        let notes = preview.warnings.iter().map(|one| one.text.clone());
        (sets, notes.collect::<Vec<_>>().join("\n"))
    };
    assert_eq!(outcome(&printed(applied)), (1, String::new()));
    let note = "deployment/web keeps proxy of containers, which the manifest leaves out: the present state does not say who \
                added it. A snapshot printed with --show-managed-fields does";
    assert_eq!(outcome(&printed("")), (0, note.to_owned()));
}

/// What others are in trouble with is not ours; what we do to them is.
#[test]
fn strangers_stay_out() {
    let stranger = deployment("web:bad", 2, "  progressDeadlineSeconds: 120\n")
        .replace("web", "old")
        .replace("old:bad", "web:bad");
    let state = format!("{}---{stranger}", deployment("web:1", 4, ""));
    check(
        &state,
        &deployment(
            "web:2",
            4,
            "  minReadySeconds: 60\n  progressDeadlineSeconds: 900\n",
        ),
        expect![[r#"
            Completes in 2m20s.
            deployment/web in shop: done after 2m20s, never fewer than 3 of 4 available, at most 5 pods (1 more than wanted)"#]],
    );
    let preview = run(&state, &deployment("web:2", 4, "  minReadySeconds: 60\n"));
    let strangers = preview
        .timeline
        .iter()
        .filter(|entry| entry.object.contains("old"));
    assert_eq!(strangers.count(), 0, "{:?}", preview.timeline);
}

#[test]
fn pods_that_are_preempted_are_reported() {
    let asking = |name: &str, class: &str| {
        deployment("web:1", 1, "").replace("web", name).replace(
            "containers: [{",
            &format!(
                "priorityClassName: {class}, containers: [{{resources: {{requests: {{cpu: 20}}}}, "
            ),
        )
    };
    let class = |name: &str, value: i32| {
        format!(
            "\n---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {{name: {name}}}\nvalue: {value}\n---\n"
        )
    };
    let state = format!(
        "{}{}{}",
        class("low", 1),
        class("high", 9),
        asking("old", "low")
    );
    let mut setup = setup(&state, &asking("web", "high"));
    setup.nodes = Some(1);
    let preview = preview(&setup).expect("the manifests can be applied");
    let printed: Vec<String> = preview
        .timeline
        .iter()
        .map(|entry| without_random_parts(&format!("{} {}", entry.object, entry.what)))
        .collect();
    expect![[r#"
        deployment/web you apply it; it is new
        deployment/web creates web-699d98bfdb with 1 of 1 pod
        pod/web-699d98bfdb-xxxxx FailedScheduling
        pod/old-84d47c9f86-xxxxx is preempted
        deployment/web 1 more pod is ready
         complete"#]]
    .assert_eq(&printed.join("\n"));
}

/// A budget is not broken by a rollout that does not take place.
#[test]
fn nothing_is_rolled_out_where_nothing_changed() {
    let budget = "
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: shop}
spec: {minAvailable: 3, selector: {matchLabels: {app: web}}}";
    let stuck = format!("{}{budget}", deployment("web:bad", 4, ""));
    check(
        &stuck,
        &stuck,
        expect![[r#"
            Does not complete within 15m.
            deployment/web in shop: not done, never fewer than 0 of 4 available, at most 4 pods
            warning: deployment/web does not finish within 15m: has exceeded its progress deadline: 4 of 4 pods updated, 0 available; pod/web-5948455b88-xxxxx container main cannot pull image "web:bad": ImagePullBackOff
            warning: deployment/web exceeds its progress deadline after 9m1s: `kubectl rollout status` fails then"#]],
    );
    let preview = run(&stuck, &stuck);
    let what: Vec<&str> = preview
        .timeline
        .iter()
        .map(|entry| entry.what.as_str())
        .collect();
    assert_eq!(what[..2], ["you apply it; it is unchanged"; 2]);
    let printed = serde_json::to_value(&preview).expect("it can be written");
    assert!(printed["workloads"][0]["seconds"].is_null(), "{printed}");
}
