//! Previews of what goes on: drains, schedules, autoscalers.

use super::*;
use steersman_preview::Load;

/// The whole text, with names that do not depend on chance.
fn told(setup: &Setup) -> String {
    printed(&preview(setup).expect("the input is good"))
}

fn printed(preview: &Preview) -> String {
    let style = Style {
        width: 100,
        colour: false,
        unicode: true,
    };
    without_random_parts(&text(preview, style))
}

fn budget(minimum: u32) -> String {
    format!(
        "
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: web, namespace: shop}}
spec: {{minAvailable: {minimum}, selector: {{matchLabels: {{app: web}}}}}}
"
    )
}

/// Two pods for each of two nodes.
fn drained(minimum: u32) -> Setup {
    let state = deployment("web:1", 4, "") + &budget(minimum);
    let mut setup = setup(&state, "");
    setup.nodes = Some(2);
    setup.drain = vec!["node-0".to_owned()];
    setup
}

#[test]
fn a_drain_waits_for_the_budget() {
    expect![[r#"
        From old.yaml, on 2 nodes.
        node/node-0 is drained after 11s.

        node/node-0: 2 pods evicted, 1 of them after waiting for a budget

        deployment/web in shop: done after 20s, never fewer than 3 of 4 available, at most 4 pods
           4 │ ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒█████
           3 │ ███████████████████████████████████████████████████████████████████████████████████████████
           2 │ ███████████████████████████████████████████████████████████████████████████████████████████
           1 │ ███████████████████████████████████████████████████████████████████████████████████████████
           0 └──────────────────────┬─────────────────────┬─────────────────────┬────────────────────┬────
               0s                   5s                    10s                   15s                  20s
         miss  11111111111111111111111111111111111111111111111111111111111111111111111111111111111111
               █ new, ready   ▒ new, not ready   miss: not available

              0s  node/node-0               you drain it: it is cordoned, and its pods are evicted
              0s  pod/web-58b88c8b56-xxxxx  is evicted
              0s  pod/web-58b88c8b56-xxxxx  may not be evicted yet
                                              The disruption budget web does not allow evicting pods
                                              currently
             10s  deployment/web            1 more pod is ready
                                              4 of 4 have the current template and are ready
             10s  pod/web-58b88c8b56-xxxxx  is evicted after waiting 10s
             11s  node/node-0               is drained
             20s  deployment/web            1 more pod is ready
                                              4 of 4 have the current template and are ready
             20s                            complete

        Assumed: pods are ready 10s after their containers start; image web:bad cannot be pulled.
    "#]].assert_eq(&told(&drained(3)));
}

/// Without a budget everything goes in the moment in which the drain starts.
#[test]
fn a_drain_that_nothing_holds_shows_who_lacks_pods_meanwhile() {
    let preview = preview(&drained(0)).expect("the input is good");
    let told = preview.workloads.iter();
    let told: Vec<String> = told
        .map(|one| {
            format!(
                "{} {:?} of {}",
                one.object, one.minimum_available, one.wanted
            )
        })
        .collect();
    assert_eq!(told, ["deployment/web Some(2) of 4"]);
}

#[test]
fn a_budget_that_allows_nothing_holds_the_drain() {
    let setup = drained(4);
    let preview = preview(&setup).expect("the input is good");
    assert!(!preview.completes);
    let warnings: Vec<String> = preview
        .warnings
        .iter()
        .map(|one| without_random_parts(&format!("{} {}", one.object, one.text)))
        .collect();
    expect![[r#"
        node/node-0 is not drained within 15m
        pod/web-58b88c8b56-xxxxx is not evicted within 15m: The disruption budget web needs 4 healthy pods and has 4 currently
        pod/web-58b88c8b56-xxxxx is not evicted within 15m: The disruption budget web needs 4 healthy pods and has 4 currently"#]].assert_eq(&format!("{}\n{}", preview.verdict(), warnings.join("\n")));
}

/// The verdict, what is said of the node, and the warnings.
fn check_drain(setup: &Setup, expected: Expect) {
    let preview = preview(setup).expect("the input is good");
    let of_node = preview.timeline.iter();
    let of_node = of_node.filter(|entry| entry.object.starts_with("node/"));
    let of_node = of_node.map(|entry| format!("{} {}", entry.at.round(), entry.what));
    let warnings = preview.warnings.iter().map(|one| one.text.clone());
    let all: Vec<String> = [preview.verdict()]
        .into_iter()
        .chain(of_node)
        .chain(warnings)
        .collect();
    expected.assert_eq(&without_random_parts(&all.join("\n")));
}

#[test]
fn a_pod_that_nobody_recreates_is_told_of_and_nothing_else() {
    let bare = "
---
apiVersion: v1
kind: Pod
metadata: {name: bare, namespace: shop}
spec: {nodeName: node-0, containers: [{name: c, image: web}]}
";
    let manifests = deployment("web:1", 2, "") + bare;
    let mut setup = setup("", &manifests);
    setup.nodes = Some(2);
    setup.drain = vec!["node-0".to_owned()];
    check_drain(
        &setup,
        expect![[r#"
        node/node-0 is drained after 11s, 1s after the drain began, and what ran there does not all run again
        10 you drain it
        11 is drained
        is not managed by a controller: nothing recreates it, and kubectl drain asks for --force"#]],
    );
}

#[test]
fn manifests_are_complete_before_the_drain_begins() {
    let manifests = deployment("web:1", 4, "  minReadySeconds: 90\n") + &budget(3);
    let mut setup = setup("", &manifests);
    setup.nodes = Some(2);
    setup.drain = vec!["node-0".to_owned()];
    check_drain(
        &setup,
        expect![[r#"
        node/node-0 is drained after 1m51s, 11s after the drain began
        100 you drain it
        111 is drained"#]],
    );
    // What never completes does not keep the drain from being seen.
    setup.manifests =
        Manifest::parse("new.yaml", &deployment("web:bad", 4, "")).expect("it is good");
    check_drain(
        &setup,
        expect![[r#"
            node/node-0 is drained after 10m1s, 1s after the drain began, and what ran there does not all run again
            600 you drain it
            601 is drained
            does not finish within 15m: has exceeded its progress deadline: 4 of 4 pods updated, 0 available; pod/web-5948455b88-xxxxx container main cannot pull image "web:bad": ImagePullBackOff
            exceeds its progress deadline after 10m1s: `kubectl rollout status` fails then
            what is applied is not complete after 10m: the drain starts all the same"#]],
    );
    setup.length = Duration::from_secs(120);
    check_drain(
        &setup,
        expect![[r#"
        node/node-0 is not drained within 2m
        120 you drain it
        what is applied is not complete after 2m: the drain starts all the same"#]],
    );
}

#[test]
fn bare_pods_and_unknown_nodes_of_a_drain() {
    let bare = "
apiVersion: v1
kind: Pod
metadata: {name: alone, namespace: shop}
spec: {nodeName: node-0, containers: [{name: main, image: 'web:1'}], volumes: [{name: cache, emptyDir: {}}]}
";
    let mut setup = setup(bare, "");
    setup.drain = vec!["node-0".to_owned()];
    let preview = preview(&setup).expect("the input is good");
    let warnings: Vec<&str> = preview.warnings.iter().map(|one| &*one.text).collect();
    expect![[r#"
        node/node-0 is drained after 1s
        is not managed by a controller: nothing recreates it, and kubectl drain asks for --force
        loses what it has in emptyDir volumes, and kubectl drain asks for --delete-emptydir-data"#]]
    .assert_eq(&format!("{}\n{}", preview.verdict(), warnings.join("\n")));
    setup.drain = vec!["node-9".to_owned()];
    let error = steersman_preview::preview(&setup).expect_err("there is no such node");
    expect![[r#"there is no node "node-9" to drain: there are node-0, node-1, node-2"#]]
        .assert_eq(&error.to_string());
}

fn cron_job(schedule: &str, command: &str, more: &str) -> String {
    format!(
        "
apiVersion: batch/v1
kind: CronJob
metadata: {{name: backup}}
spec:
  schedule: '{schedule}'
  jobTemplate: {{spec: {{backoffLimit: 0, template: {{spec: {{restartPolicy: Never, containers: [{{name: main, image: 'job:1', command: {command}}}]}}}}}}}}
{more}"
    )
}

/// The verdict and the summary of the only CronJob, and the whole timeline but for its first entry.
fn check_schedule(manifest: &str, hours: u64, expected: Expect) {
    let mut setup = setup("", manifest);
    setup.length = Duration::from_secs(hours * 3600);
    setup.nodes = Some(1);
    let preview = preview(&setup).expect("the input is good");
    assert!(preview.completes);
    let printed = printed(&preview);
    let summary = printed
        .lines()
        .find(|line| line.starts_with("cronjob/"))
        .unwrap_or_default();
    let entries = preview.timeline.iter().take(8);
    let entries: Vec<String> = entries
        .map(|entry| {
            format!(
                "{} {}: {} ({})",
                entry.at.round(),
                entry.object,
                entry.what,
                entry.why
            )
        })
        .collect();
    let all = format!("{}\n{summary}\n{}", preview.verdict(), entries.join("\n"));
    expected.assert_eq(&all);
}

#[test]
fn a_schedule_is_followed_for_hours() {
    check_schedule(
        &cron_job("30 */3 * * *", "[sleep, '90']", ""),
        8,
        expect![[r#"
            Within 8h cronjob/backup runs 3 times
            cronjob/backup in default (30 */3 * * *): 3 runs in 8h, the first after 30m (2024-01-01T00:30:00Z), the longest takes 1m31s; next at 2024-01-01T09:30:00Z
            0 cronjob/backup: you apply it; it is new (new.yaml)
            1800 cronjob/backup: starts job/backup-28401150 (scheduled for 2024-01-01T00:30:00Z)
            1891 cronjob/backup: job/backup-28401150 succeeds after 1m31s ()
            12600 cronjob/backup: starts job/backup-28401330 (scheduled for 2024-01-01T03:30:00Z)
            12691 cronjob/backup: job/backup-28401330 succeeds after 1m31s ()
            23400 cronjob/backup: starts job/backup-28401510 (scheduled for 2024-01-01T06:30:00Z)
            23491 cronjob/backup: job/backup-28401510 succeeds after 1m31s ()"#]],
    );
}

#[test]
fn runs_that_are_skipped_or_fail_are_told() {
    let slow = cron_job(
        "*/10 * * * *",
        "[sleep, '900']",
        "  concurrencyPolicy: Forbid\n",
    );
    check_schedule(
        &slow,
        1,
        expect![[r#"
            Within 1h cronjob/backup runs 4 times and skips 1
            cronjob/backup in default (*/10 * * * *): 4 runs in 1h, 1 skipped, the first after 10m (2024-01-01T00:10:00Z), the longest takes 15m1s
            0 cronjob/backup: you apply it; it is new (new.yaml)
            600 cronjob/backup: starts job/backup-28401130 (scheduled for 2024-01-01T00:10:00Z)
            1200 cronjob/backup: its run of 2024-01-01T00:20:00Z has to wait (job backup-28401130 is still active and concurrencyPolicy is Forbid)
            1501 cronjob/backup: job/backup-28401130 succeeds after 15m1s ()
            1501 cronjob/backup: starts job/backup-28401140 (scheduled for 2024-01-01T00:20:00Z)
            1800 cronjob/backup: skips its run of 2024-01-01T00:30:00Z (job backup-28401140 is still active and concurrencyPolicy is Forbid)
            2400 cronjob/backup: its run of 2024-01-01T00:40:00Z has to wait (job backup-28401140 is still active and concurrencyPolicy is Forbid)
            2402 cronjob/backup: job/backup-28401140 succeeds after 15m1s ()"#]],
    );
    let in_time = "  concurrencyPolicy: Forbid\n  startingDeadlineSeconds: 60\n";
    check_schedule(
        &cron_job("*/10 * * * *", "[sleep, '900']", in_time),
        1,
        expect![[r#"
            Within 1h cronjob/backup runs 3 times and skips 2
            cronjob/backup in default (*/10 * * * *): 3 runs in 1h, 2 skipped, the first after 10m (2024-01-01T00:10:00Z), the longest takes 15m1s
            0 cronjob/backup: you apply it; it is new (new.yaml)
            600 cronjob/backup: starts job/backup-28401130 (scheduled for 2024-01-01T00:10:00Z)
            1200 cronjob/backup: skips its run of 2024-01-01T00:20:00Z (job backup-28401130 is still active and concurrencyPolicy is Forbid)
            1501 cronjob/backup: job/backup-28401130 succeeds after 15m1s ()
            1800 cronjob/backup: starts job/backup-28401150 (scheduled for 2024-01-01T00:30:00Z)
            2400 cronjob/backup: skips its run of 2024-01-01T00:40:00Z (job backup-28401150 is still active and concurrencyPolicy is Forbid)
            2701 cronjob/backup: job/backup-28401150 succeeds after 15m1s ()
            3000 cronjob/backup: starts job/backup-28401170 (scheduled for 2024-01-01T00:50:00Z)"#]],
    );
    check_schedule(
        &cron_job(
            "@every 10m",
            "[sleep, '5000']",
            "  concurrencyPolicy: Forbid\n",
        ),
        1,
        expect![[r#"
            Within 1h cronjob/backup runs 1 time and skips 4
            cronjob/backup in default (@every 10m): 1 run in 1h, 4 skipped, the first after 10m (2024-01-01T00:10:00Z)
            0 cronjob/backup: you apply it; it is new (new.yaml)
            600 cronjob/backup: starts job/backup-28401130 (scheduled for 2024-01-01T00:10:00Z)
            1200 cronjob/backup: skips its run of 2024-01-01T00:20:00Z (job backup-28401130 is still active and concurrencyPolicy is Forbid)
            1800 cronjob/backup: skips its run of 2024-01-01T00:30:00Z (job backup-28401130 is still active and concurrencyPolicy is Forbid)
            2400 cronjob/backup: skips its run of 2024-01-01T00:40:00Z (job backup-28401130 is still active and concurrencyPolicy is Forbid)
            3000 cronjob/backup: skips its run of 2024-01-01T00:50:00Z (job backup-28401130 is still active and concurrencyPolicy is Forbid)"#]],
    );
    // Jobs are named after their minute, so there is no second one to be skipped.
    check_schedule(
        &cron_job("@every 30s", "['true']", ""),
        1,
        expect![[r#"
        Within 1h cronjob/backup runs 60 times
        cronjob/backup in default (@every 30s): 60 runs in 1h, the first after 30s (2024-01-01T00:00:30Z), the longest takes 1s
        0 cronjob/backup: you apply it; it is new (new.yaml)
        30 cronjob/backup: starts job/backup-28401120 (scheduled for 2024-01-01T00:00:30Z)
        31 cronjob/backup: job/backup-28401120 succeeds after 1s ()
        60 cronjob/backup: starts job/backup-28401121 (scheduled for 2024-01-01T00:01:00Z)
        61 cronjob/backup: job/backup-28401121 succeeds after 1s ()
        120 cronjob/backup: starts job/backup-28401122 (scheduled for 2024-01-01T00:02:00Z)
        121 cronjob/backup: job/backup-28401122 succeeds after 1s ()
        180 cronjob/backup: starts job/backup-28401123 (scheduled for 2024-01-01T00:03:00Z)"#]],
    );
    check_schedule(
        &cron_job("0 * * * *", "['false']", ""),
        3,
        expect![[r#"
            Within 3h cronjob/backup runs 2 times
            cronjob/backup in default (0 * * * *): 2 runs in 3h, 2 of them fail, the first after 1h (2024-01-01T01:00:00Z), the longest takes 1s
            0 cronjob/backup: you apply it; it is new (new.yaml)
            3600 cronjob/backup: starts job/backup-28401180 (scheduled for 2024-01-01T01:00:00Z)
            3601 cronjob/backup: job/backup-28401180 fails after 1s ()
            7200 cronjob/backup: starts job/backup-28401240 (scheduled for 2024-01-01T02:00:00Z)
            7201 cronjob/backup: job/backup-28401240 fails after 1s ()"#]],
    );
    check_schedule(
        &cron_job("0 0 30 2 *", "['true']", ""),
        1,
        expect![[r#"
            Within 1h cronjob/backup never runs
            cronjob/backup in default (0 0 30 2 *): never runs: its schedule does not come within five years
            0 cronjob/backup: you apply it; it is new (new.yaml)"#]],
    );
    check_schedule(
        &cron_job("* * * * *", "['true']", "  suspend: true\n"),
        1,
        expect![[r#"
            Within 1h cronjob/backup runs 0 times
            cronjob/backup in default (* * * * *): suspended, starts nothing until somebody resumes it
            0 cronjob/backup: you apply it; it is new (new.yaml)"#]],
    );
}

#[test]
fn runs_that_are_replaced_are_told() {
    check_schedule(
        &cron_job(
            "*/10 * * * *",
            "[sleep, '900']",
            "  concurrencyPolicy: Replace\n",
        ),
        1,
        expect![[r#"
            Within 1h cronjob/backup runs 5 times
            cronjob/backup in default (*/10 * * * *): 5 runs in 1h, 4 of them are replaced by the next, the first after 10m (2024-01-01T00:10:00Z)
            0 cronjob/backup: you apply it; it is new (new.yaml)
            600 cronjob/backup: starts job/backup-28401130 (scheduled for 2024-01-01T00:10:00Z)
            1200 cronjob/backup: replaces job/backup-28401130 by job/backup-28401140 after 10m (it was still active, and concurrencyPolicy is Replace)
            1200 cronjob/backup: starts job/backup-28401140 (scheduled for 2024-01-01T00:20:00Z)
            1800 cronjob/backup: replaces job/backup-28401140 by job/backup-28401150 after 10m (it was still active, and concurrencyPolicy is Replace)
            1800 cronjob/backup: starts job/backup-28401150 (scheduled for 2024-01-01T00:30:00Z)
            2400 cronjob/backup: replaces job/backup-28401150 by job/backup-28401160 after 10m (it was still active, and concurrencyPolicy is Replace)
            2400 cronjob/backup: starts job/backup-28401160 (scheduled for 2024-01-01T00:40:00Z)"#]],
    );
}

#[test]
fn a_schedule_that_never_comes_is_warned_of() {
    let preview = run("", &cron_job("0 0 30 2 *", "['true']", ""));
    let warnings: Vec<String> = preview
        .warnings
        .iter()
        .map(|one| format!("{} {}", one.object, one.text))
        .collect();
    expect!["cronjob/backup never runs: its schedule 0 0 30 2 * does not come within five years"]
        .assert_eq(&warnings.join("\n"));
}

/// Two pods that request a CPU each.
const PODS: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: 'web:1', resources: {requests: {cpu: '1'}}}]}
";

/// Wants them to use half of that.
const AUTOSCALER: &str = "
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 2
  maxReplicas: 10
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
";

#[test]
fn an_autoscaler_follows_a_load() {
    let mut setup = setup(PODS, AUTOSCALER);
    setup.loads =
        vec![Load::parse("deploy/web:cpu=0s=1,10m=4,20m=4,21m=500m").expect("it is good")];
    setup.length = Duration::from_secs(2400);
    expect![[r#"
        From old.yaml, on 3 nodes.
        Within 40m deployment/web has 2 to 8 pods.

        deployment/web in default: 2 to 8 pods, as horizontalpodautoscaler/web scales it
           8 │                       ███████████████████████████████████
             │                   ████████████████████████████████████████
           6 │              ▒████████████████████████████████████████████
             │          ▒████████████████████████████████████████████████
           4 │      ▒████████████████████████████████████████████████████
             │  ██████████████████████████████████████████████████████████
           2 │ ███████████████████████████████████████████████████████████████████████████████████████████
             │ ███████████████████████████████████████████████████████████████████████████████████████████
           0 └───────────────────────┬──────────────────────┬──────────────────────┬─────────────────────┬
               0s                    10m                    20m                    30m                 40m
         load  ▃▃▃▃▄▄▄▄▅▅▅▅▆▆▆▆▆▇▇▇▇█████████████████████████▇▄▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂
               cpu: up to 4
               █ new, ready   ▒ new, not ready

              0s  horizontalpodautoscaler/web  you apply it; it is new: new.yaml
             30s  horizontalpodautoscaler/web  scales its target from 2 to 3
                                                 cpu resource utilization (percentage of request) asks for 3
                                                 replicas
             30s  deployment/web               scales web-d694fd46b from 2 to 3: spec.replicas has changed
             40s  deployment/web               1 more pod is ready
           2m30s  horizontalpodautoscaler/web  scales its target from 3 to 4
                                                 cpu resource utilization (percentage of request) asks for 4
                                                 replicas
           2m30s  deployment/web               scales web-d694fd46b from 3 to 4: spec.replicas has changed
           2m40s  deployment/web               1 more pod is ready
           4m15s  horizontalpodautoscaler/web  scales its target from 4 to 5
                                                 cpu resource utilization (percentage of request) asks for 5
                                                 replicas
           4m15s  deployment/web               scales web-d694fd46b from 4 to 5: spec.replicas has changed
           4m25s  deployment/web               1 more pod is ready
              6m  horizontalpodautoscaler/web  scales its target from 5 to 6
                                                 cpu resource utilization (percentage of request) asks for 6
                                                 replicas
              6m  deployment/web               scales web-d694fd46b from 5 to 6: spec.replicas has changed
           6m10s  deployment/web               1 more pod is ready
              8m  horizontalpodautoscaler/web  scales its target from 6 to 7
                                                 cpu resource utilization (percentage of request) asks for 7
                                                 replicas
              8m  deployment/web               scales web-d694fd46b from 6 to 7: spec.replicas has changed
           8m10s  deployment/web               1 more pod is ready
           9m45s  horizontalpodautoscaler/web  scales its target from 7 to 8
                                                 cpu resource utilization (percentage of request) asks for 8
                                                 replicas
           9m45s  deployment/web               scales web-d694fd46b from 7 to 8: spec.replicas has changed
           9m55s  deployment/web               1 more pod is ready
          25m15s  horizontalpodautoscaler/web  scales its target from 8 to 7
                                                 cpu resource utilization (percentage of request) asks for 1
                                                 replica; recent proposals hold it at 7 until the
                                                 stabilization window has passed
          25m15s  deployment/web               scales web-d694fd46b from 8 to 7: spec.replicas has changed
          25m30s  horizontalpodautoscaler/web  scales its target from 7 to 5
                                                 cpu resource utilization (percentage of request) asks for 1
                                                 replica; recent proposals hold it at 5 until the
                                                 stabilization window has passed
          25m30s  deployment/web               scales web-d694fd46b from 7 to 5: spec.replicas has changed
          25m45s  horizontalpodautoscaler/web  scales its target from 5 to 3
                                                 cpu resource utilization (percentage of request) asks for 1
                                                 replica; recent proposals hold it at 3 until the
                                                 stabilization window has passed
          25m45s  deployment/web               scales web-d694fd46b from 5 to 3: spec.replicas has changed
             26m  horizontalpodautoscaler/web  scales its target from 3 to 2
                                                 cpu resource utilization (percentage of request) asks for 1
                                                 replica
             26m  deployment/web               scales web-d694fd46b from 3 to 2: spec.replicas has changed

        Assumed: pods are ready 10s after their containers start; image web:bad cannot be pulled; load deploy/web:cpu=0s=1,10m=4,20m=4,21m=500m.
    "#]].assert_eq(&told(&setup));
    setup.loads = vec![Load::parse("deploy/none:cpu=1").expect("it is good")];
    let error = preview(&setup).expect_err("there is no such workload");
    expect!["--load deploy/none:cpu=1: there is no such workload in namespace default"]
        .assert_eq(&error.to_string());
}

/// The verdict, and what an autoscaler does.
fn check_scaled(setup: &Setup, expected: Expect) {
    let preview = preview(setup).expect("the input is good");
    let scales = preview
        .timeline
        .iter()
        .filter(|entry| entry.object.starts_with("horizontal") && entry.what.starts_with("scales"));
    let scales = scales.map(|entry| format!("{} {}", entry.at.round(), entry.what));
    let all: Vec<String> = [preview.verdict()].into_iter().chain(scales).collect();
    expected.assert_eq(&all.join("\n"));
}

#[test]
fn an_autoscaler_reads_what_files_say_of_usage() {
    let stages = |text: &str| nodes::stages::Stages::parse(text, "stages.yaml").expect("good");
    let of_nodes = |text: &str| nodes::Config::parse(text, "nodes.yaml").expect("good");
    let mut setup = setup(PODS, AUTOSCALER);
    setup.length = Duration::from_secs(600);
    // Without a file they use half of what they request, as they should.
    check_scaled(&setup, expect!["Within 10m deployment/web has 2 pods"]);
    setup.stages =
        stages("stages: [{name: busy, selector: {matchLabels: {app: web}}, next: Load, cpu: 2}]");
    check_scaled(
        &setup,
        expect![[r#"
        Within 10m deployment/web has 2 to 4 pods
        15 scales its target from 2 to 4"#]],
    );
    setup.stages = nodes::stages::Stages::default();
    setup.node_config = Some(of_nodes("usage: [{cpu: 700m}]"));
    check_scaled(
        &setup,
        expect![[r#"
        Within 10m deployment/web has 2 to 10 pods
        15 scales its target from 2 to 3
        45 scales its target from 3 to 5
        75 scales its target from 5 to 7
        105 scales its target from 7 to 10"#]],
    );
    // One that is there already acts, too, and the curve of a metric from outside begins with the preview.
    let from_outside = AUTOSCALER.replace(
        "{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}",
        "{type: External, external: {metric: {name: queue}, target: {type: AverageValue, averageValue: '10'}}}",
    );
    setup.state = Manifest::parse("old.yaml", &format!("{PODS}---{from_outside}")).expect("good");
    setup.manifests = Vec::new();
    setup.node_config = Some(of_nodes("nodes: [{name: big, count: 2}]"));
    setup.stages = stages("externalMetrics: [{name: queue, value: '0s=20,5m=20,6m=60'}]");
    check_scaled(
        &setup,
        expect![[r#"
        Within 10m deployment/web has 2 to 6 pods
        305 scales its target from 2 to 3
        320 scales its target from 3 to 4
        350 scales its target from 4 to 6"#]],
    );
    let told = told(&setup);
    assert!(told.starts_with("From old.yaml, on 2 nodes."), "{told}");
}

#[test]
fn stages_of_a_file_come_after_what_is_assumed() {
    let mut setup = setup("", &deployment("web:1", 2, ""));
    let text = "stages: [{name: slow, delay: {duration: 40s}, next: Ready}]";
    setup.stages = nodes::stages::Stages::parse(text, "stages.yaml").expect("good");
    assert_eq!(preview(&setup).expect("good").verdict(), "Completes in 40s");
}

#[test]
fn what_was_there_before_counts_and_an_object_given_twice_is_one() {
    check(
        &deployment("web:1", 10, ""),
        &deployment("web:1", 0, ""),
        expect![[r#"
            Completes in 0.1s.
            deployment/web in shop: scaled to zero, the last of 10 pods is gone after 0s"#]],
    );
    check(
        "",
        &format!(
            "{}---{}",
            deployment("web:1", 2, ""),
            deployment("web:1", 3, "")
        ),
        expect![[r#"
            Completes in 10s.
            deployment/web in shop: done after 10s, at most 3 pods"#]],
    );
}
