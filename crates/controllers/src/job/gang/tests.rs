//! Gangs: first what is decided, then what is written.

use api::kinds::{Job, Pod, PodGroup, Workload};
use api::{Gate, Gates, Resource};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::super::tests::pure::pod;
use super::super::tests::scenario::{Scenario, job as manifest};
use super::*;

fn decode<K: Resource>(object: &Value) -> K {
    K::decode(object.to_string().as_bytes()).unwrap()
}

/// A job of four indexes that run at once, and what else is said of it.
fn gang_job(change: impl FnOnce(&mut Value)) -> Job {
    let mut job = json!({
        "metadata": {"name": "j", "namespace": "default", "uid": "u1"},
        "spec": {"parallelism": 4, "completions": 4, "completionMode": "Indexed"},
    });
    change(&mut job);
    decode(&job)
}

// Upstream: TestShouldManageWorkloadForJob, util.TestIsGangSchedulingCandidate.
#[test]
fn a_gang_is_indexed_and_runs_all_of_its_indexes_at_once() {
    let check = |field: &str, value: Value, expected: bool| {
        let job = gang_job(|job| job["spec"][field] = value.clone());
        assert_eq!(is_candidate(&job), expected, "{field} {value}");
    };
    check("parallelism", json!(4), true);
    check("parallelism", Value::Null, false);
    check("completions", Value::Null, false);
    check("completions", json!(8), false);
    check("completionMode", json!("NonIndexed"), false);
    check("completionMode", Value::Null, false);
    let group = |group: Value| json!({"spec": {"schedulingGroup": group}});
    check("template", group(json!({"podGroupName": "theirs"})), false);
    check("template", group(json!({})), false);
    check("template", group(Value::Null), true);
    for (pods, expected) in [(1, false), (2, true)] {
        let of = |job: &mut Value| {
            job["spec"]["parallelism"] = json!(pods);
            job["spec"]["completions"] = json!(pods);
        };
        assert_eq!(is_candidate(&gang_job(of)), expected, "{pods} pods");
    }
}

/// `w` is controlled by the job and has one template; `w!` is controlled by nobody; `w2` has two templates. A group after
/// a slash is the Workload's; with `!` it is controlled by nobody.
fn found(text: &str) -> Found {
    let mut found = Found::default();
    let owned = |name: &str| match name.ends_with('!') {
        true => json!([]),
        false => {
            json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u1", "controller": true}])
        }
    };
    for word in text.split_whitespace() {
        let mut parts = word.split('/');
        let name = parts.next().unwrap();
        let templates = if name.ends_with('2') { 2 } else { 1 };
        let templates: Vec<Value> = (0..templates)
            .map(|at| json!({"name": format!("t{at}"), "schedulingPolicy": {"gang": {"minCount": 4}}}))
            .collect();
        found.workloads.push(Arc::new(decode(&json!({
            "metadata": {"name": name, "namespace": "default", "uid": "w", "ownerReferences": owned(name)},
            "spec": {
                "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "j"},
                "podGroupTemplates": templates,
            },
        }))));
        for group in parts {
            found.groups.push(Arc::new(decode(&json!({
                "metadata": {"name": group, "namespace": "default", "ownerReferences": owned(group)},
                "spec": {"podGroupTemplateRef": {"workload": {"workloadName": name, "podGroupTemplateName": "t0"}}},
            }))));
        }
    }
    found
}

fn check(job: &Job, pods: &str, there: &str, expected: Expect) {
    expected.assert_eq(&told_of(job, pods, there));
}

fn told_of(job: &Job, pods: &str, there: &str) -> String {
    let pods: Vec<_> = pods.split_whitespace().map(pod).collect();
    let gang = plan(job, &pods, Some(&found(there)));
    match (&gang, gang.line()) {
        (Gang::Has(group), _) => format!("has {}", group.metadata.name),
        (_, Some(line)) => line.to_string(),
        (_, None) => "nothing".to_owned(),
    }
}

// Upstream: TestEnsureWorkloadAndPodGroup.
#[test]
fn both_objects_are_created_before_a_job_begins() {
    let new = gang_job(|_| {});
    check(
        &new,
        "",
        "",
        expect![
            "creates Workload j-5b9647b897 and PodGroup j-5b9647b897-j-pgt-0-648d665856: its pods are to be scheduled together"
        ],
    );
    let begun = |job: &Job, pods: &str| {
        let told = "has its pods scheduled one by one: it began before it had a Workload";
        assert_eq!(told_of(job, pods, ""), told);
    };
    begun(&new, "a");
    let status = |field: &str, value: Value| gang_job(|job| job["status"][field] = value);
    let started = status("startTime", json!("2024-01-01T00:00:00Z"));
    begun(&started, "");
    begun(&status("succeeded", json!(1)), "");
    begun(&status("failed", json!(1)), "");
    for held in ["True", "False"] {
        let suspended = json!([{"type": "Suspended", "status": held}]);
        begun(&status("conditions", suspended), "");
    }
    let leaves =
        gang_job(|job| job["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z"));
    check(
        &leaves,
        "",
        "",
        expect!["has its pods scheduled one by one: it is being deleted"],
    );
}

// Upstream: TestEnsureWorkloadAndPodGroup.
#[test]
fn what_is_there_is_used() {
    let job = gang_job(|_| {});
    check(&job, "", "w/g", expect!["has g"]);
    check(&job, "a", "w/g", expect!["has g"]);
    check(
        &job,
        "a",
        "w",
        expect!["creates PodGroup w-t0-58c554b6c8: its pods are to be scheduled together"],
    );
}

// Upstream: TestEnsureWorkloadAndPodGroup.
#[test]
fn where_others_have_a_say_pods_come_one_by_one() {
    let job = gang_job(|_| {});
    check(
        &job,
        "",
        "w!",
        expect![
            "has its pods scheduled one by one: Workload w! names it and is not controlled by it"
        ],
    );
    check(
        &job,
        "",
        "w x",
        expect!["has its pods scheduled one by one: 2 Workloads name it"],
    );
    check(
        &job,
        "",
        "w2",
        expect![
            "has its pods scheduled one by one: Workload w2 has 2 templates of pod groups, not one"
        ],
    );
    check(
        &job,
        "",
        "w/g!",
        expect![
            "has its pods scheduled one by one: PodGroup g! of its Workload is not controlled by it"
        ],
    );
    check(
        &job,
        "",
        "w/g/h",
        expect!["has its pods scheduled one by one: its Workload has 2 PodGroups"],
    );
    let leaves =
        gang_job(|job| job["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z"));
    check(
        &leaves,
        "",
        "w",
        expect!["has its pods scheduled one by one: it is being deleted"],
    );
}

// Upstream: TestBuildPodGroupTemplates, TestCreateWorkloadForJob.
#[test]
fn a_workload_creates_all_pods_at_once() {
    let job = gang_job(|job| job["metadata"]["name"] = json!("my-job"));
    let owner = json!({
        "apiVersion": "batch/v1", "kind": "Job", "name": "my-job", "uid": "u1",
        "controller": true, "blockOwnerDeletion": true,
    });
    assert_eq!(
        bodies::workload(&job),
        json!({
            "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload",
            "metadata": {"name": workload_name(&job), "namespace": "default", "ownerReferences": [owner]},
            "spec": {
                "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "my-job"},
                "podGroupTemplates": [{"name": "my-job-pgt-0", "schedulingPolicy": {"gang": {"minCount": 4}}}],
            },
        })
    );
}

// Upstream: TestCreatePodGroupForWorkload.
#[test]
fn a_group_is_what_the_template_says() {
    let job = gang_job(|_| {});
    let mut workload = Workload::clone(&found("w").workloads[0]);
    assert_eq!(
        bodies::pod_group(&job, &workload),
        Some(json!({
            "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
            "metadata": {
                "name": pod_group_name("w", "t0"), "namespace": "default",
                "ownerReferences": [
                    {
                        "apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u1",
                        "controller": true, "blockOwnerDeletion": true,
                    },
                    {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload", "name": "w", "uid": "w"},
                ],
            },
            "spec": {
                "podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t0"}},
                "schedulingPolicy": {"gang": {"minCount": 4}},
            },
        }))
    );
    workload.spec.pod_group_templates.clear();
    assert_eq!(bodies::pod_group(&job, &workload), None);
}

async fn scenario() -> Scenario {
    Scenario::with(Gates::default().with(Gate::WorkloadWithJob, true)).await
}

fn gang_of_two() -> Value {
    json!({"completions": 2, "parallelism": 2, "completionMode": "Indexed"})
}

/// The groups that pods name, each once.
async fn groups_of_pods(scenario: &Scenario) -> Vec<String> {
    let pods = scenario.world.list(&Pod::TYPE).await;
    let name = |pod: &Value| pod["spec"]["schedulingGroup"]["podGroupName"].to_string();
    let mut names: Vec<String> = pods.iter().map(name).collect();
    names.dedup();
    names
}

async fn only<K: Resource>(scenario: &Scenario) -> Value {
    let mut objects = scenario.world.list(&K::TYPE).await;
    assert_eq!(objects.len(), 1, "{objects:?}");
    objects.remove(0)
}

// Upstream: TestSyncJobPodSchedulingGroup.
#[tokio::test(start_paused = true)]
async fn pods_of_a_gang_name_their_group() {
    let mut scenario = scenario().await;
    let told = scenario.create(gang_of_two()).await;
    expect![[r#"
        POST workloads
        POST podgroups
        POST pods
        POST pods
        PUT jobs/j/status active=2 ready=0 start=00:00 terminating=0"#]]
    .assert_eq(&told);
    let group = only::<PodGroup>(&scenario).await;
    let name = group["metadata"]["name"].to_string();
    assert_eq!(groups_of_pods(&scenario).await, [name]);
    let workload = only::<Workload>(&scenario).await;
    let message = format!(
        "Normal WorkloadCreated Created Workload {} for Job j",
        workload["metadata"]["name"].as_str().unwrap()
    );
    let events = scenario.events().await;
    assert!(events.contains(&message), "{events}");
    // The owners that pods have with upstream's manager.
    for pod in scenario.world.list(&Pod::TYPE).await {
        let owners = pod["metadata"]["ownerReferences"].as_array().unwrap();
        let kinds: Vec<&Value> = owners.iter().map(|owner| &owner["kind"]).collect();
        assert_eq!(kinds, ["Job"]);
    }
    assert_eq!(scenario.tell().await, "");
}

#[tokio::test(start_paused = true)]
async fn a_suspended_gang_has_its_objects_before_it_begins() {
    let mut scenario = scenario().await;
    let mut spec = gang_of_two();
    spec["suspend"] = json!(true);
    let told = scenario.create(spec).await;
    expect![[r#"
        POST workloads
        POST podgroups
        PUT jobs/j/status Suspended(JobSuspended) ready=0 terminating=0"#]]
    .assert_eq(&told);
    let told = scenario.change(json!({"suspend": false})).await;
    expect![[r#"
        POST pods
        POST pods
        PUT jobs/j/status active=2 not Suspended(JobResumed) ready=0 start=00:10 terminating=0"#]]
    .assert_eq(&told);
    let name = only::<PodGroup>(&scenario).await["metadata"]["name"].to_string();
    assert_eq!(groups_of_pods(&scenario).await, [name]);
}

// Upstream: TestSyncJobPodSchedulingGroup.
#[tokio::test(start_paused = true)]
async fn other_jobs_and_those_that_name_a_group_get_none() {
    let mut without_gate = Scenario::begin().await;
    without_gate.create(gang_of_two()).await;
    let mut of_another_shape = scenario().await;
    of_another_shape
        .create(json!({"completions": 5, "parallelism": 2}))
        .await;
    for scenario in [without_gate, of_another_shape] {
        assert_eq!(groups_of_pods(&scenario).await, ["null"]);
        assert!(scenario.world.list(&Workload::TYPE).await.is_empty());
    }
    let mut opted_out = scenario().await;
    let mut spec = gang_of_two();
    spec["template"] = manifest(json!({}))["spec"]["template"].clone();
    spec["template"]["spec"]["schedulingGroup"] = json!({"podGroupName": "theirs"});
    opted_out.create(spec).await;
    assert_eq!(groups_of_pods(&opted_out).await, ["\"theirs\""]);
    assert!(opted_out.world.list(&PodGroup::TYPE).await.is_empty());
}

// Upstream: TestEnsureWorkloadAndPodGroup (the errors).
#[tokio::test(start_paused = true)]
async fn no_pod_is_created_before_its_group() {
    let mut scenario = scenario().await;
    scenario.world.refuse("POST", "workloads", 500, 1);
    scenario.world.refuse("POST", "podgroups", 500, 1);
    let told = scenario.create(gang_of_two()).await;
    expect![[r#"
        POST workloads -> 500
        POST workloads
        POST podgroups -> 500
        POST podgroups
        POST pods
        POST pods
        PUT jobs/j/status active=2 ready=0 start=00:03 terminating=0"#]]
    .assert_eq(&told);
    let name = only::<PodGroup>(&scenario).await["metadata"]["name"].to_string();
    assert_eq!(groups_of_pods(&scenario).await, [name]);
}

#[tokio::test(start_paused = true)]
async fn a_group_that_was_deleted_is_created_again_for_the_pods_to_come() {
    let mut scenario = scenario().await;
    scenario.create(gang_of_two()).await;
    let group = only::<PodGroup>(&scenario).await;
    let name = group["metadata"]["name"].as_str().unwrap().to_owned();
    scenario.world.delete(&PodGroup::TYPE, &name).await;
    let free = json!({"metadata": {"finalizers": null}});
    scenario.world.patch(&PodGroup::TYPE, &name, free).await;
    assert!(scenario.world.list(&PodGroup::TYPE).await.is_empty());
    scenario.exit(1, 1).await;
    let told = scenario.tell().await;
    assert!(told.starts_with("POST podgroups"), "{told}");
    let recreated = only::<PodGroup>(&scenario).await;
    assert_eq!(recreated["metadata"]["name"], name);
    assert_ne!(recreated["metadata"]["uid"], group["metadata"]["uid"]);
}

#[tokio::test(start_paused = true)]
async fn a_gang_keeps_its_parallelism() {
    let mut scenario = scenario().await;
    scenario.create(gang_of_two()).await;
    let name = only::<PodGroup>(&scenario).await["metadata"]["name"].to_string();
    let patch = json!({"spec": {"parallelism": 1}}).to_string();
    let patch = client::Patch::Merge(patch.into());
    let user = &scenario.world.user;
    let refused = user.patch(&Job::TYPE, "default", "j", None, &patch).await;
    let refused = refused.unwrap_err().to_string();
    let why =
        format!("cannot change parallelism for a Job referencing gang-scheduled PodGroup {name}");
    assert!(refused.contains(&why), "{refused}");
}
