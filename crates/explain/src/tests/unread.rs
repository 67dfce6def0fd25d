//! What may not be read is not taken for empty.

use super::facts;
use crate::facts::Source;
use expect_test::{Expect, expect};

fn check(yaml: &str, unread: &[&str], expected: Expect) {
    let mut facts = facts(yaml);
    for kind in unread {
        let plural = format!("{}s", kind.to_lowercase());
        facts.could_not_read(kind, format!("{plural}: you may not list them"));
    }
    let why = "you may not read /debug/controllers/".to_owned();
    facts.source = match facts.has_inputs_of_a_plan() {
        true => Source::Objects(why),
        false => Source::Part(why),
    };
    expected.assert_eq(&crate::explain(&facts).text(facts.now));
}

const DEPLOYMENT: &str = "
kind: Deployment
metadata: {name: pull, namespace: shop, uid: d, generation: 1, annotations: {deployment.kubernetes.io/revision: '1'}}
spec: {replicas: 2, template: {spec: {containers: [{name: main, image: 'web:missing'}]}}}
status: {observedGeneration: 1, replicas: 2, updatedReplicas: 2}";

#[test]
fn a_deployment_without_its_sets_and_pods() {
    check(
        DEPLOYMENT,
        &["ReplicaSet", "Pod", "Event"],
        expect![[r#"
            deployment/pull in shop: is not done: 2 of 2 pods updated, 0 available; why is unknown without its ReplicaSets and Pods

            wants       2 pods of web:missing
                        at most 25% unavailable and 25% extra while it rolls out

            sees        2 pods, 2 of 2 updated, 0 ready, 0 available

            not read    replicasets: you may not list them
                        pods: you may not list them
                        events: you may not list them

            Source: the objects alone (you may not read /debug/controllers/), of which too few could be read to say what our controllers would decide.
        "#]],
    );
}

/// What the status says needs no pods.
#[test]
fn a_deployment_that_is_complete_all_the_same() {
    let done = "updatedReplicas: 2, readyReplicas: 2, availableReplicas: 2";
    check(
        &DEPLOYMENT.replace("updatedReplicas: 2", done),
        &["Pod"],
        expect![[r#"
            deployment/pull in shop: is complete: all 2 pods are updated and available

            wants       2 pods of web:missing
                        at most 25% unavailable and 25% extra while it rolls out

            sees        2 pods, 2 of 2 updated, 2 ready, 2 available

            not read    pods: you may not list them

            Source: the objects alone (you may not read /debug/controllers/), of which too few could be read to say what our controllers would decide.
        "#]],
    );
}

#[test]
fn sets_and_jobs_without_their_pods() {
    let verdict = |kind: &str, spec: &str| {
        let yaml =
            format!("{{kind: {kind}, metadata: {{name: a, namespace: shop}}, spec: {spec}}}");
        let mut facts = facts(&yaml);
        facts.could_not_read("Pod", "pods: you may not list them".to_owned());
        let explanation = crate::explain(&facts);
        format!("{:?}: {}", explanation.state, explanation.verdict)
    };
    let all = [
        verdict("ReplicaSet", "{replicas: 2}"),
        verdict("StatefulSet", "{replicas: 2}"),
        verdict("Job", "{completions: 2}"),
    ];
    expect![[r#"
        Unknown: is not done: 0 of 2 pods available; why is unknown without its Pods
        Unknown: is not done: 0 of 2 pods available; why is unknown without its Pods
        Unknown: is not done: 0 of 2 succeeded; why is unknown without its Pods"#]]
    .assert_eq(&all.join("\n"));
}
