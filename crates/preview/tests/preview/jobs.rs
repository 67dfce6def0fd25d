//! Previews of Jobs.

use super::*;

/// A Job of `completions` pods, two at a time, that run a command.
fn job(command: &str, completions: u32, more: &str) -> String {
    format!(
        "
apiVersion: batch/v1
kind: Job
metadata: {{name: once}}
spec:
  completions: {completions}
  parallelism: 2
  template:
    spec: {{restartPolicy: Never, containers: [{{name: main, image: 'job:1', command: {command}}}]}}
{more}"
    )
}

#[test]
fn a_job_is_followed_to_its_end() {
    check(
        "",
        &job("[sleep, '20']", 3, ""),
        expect![[r#"
        Completes in 42s.
        job/once in default: done after 41s, at most 2 pods, 3 succeed"#]],
    );
    check(
        "",
        &job("['false']", 1, "  backoffLimit: 1\n"),
        expect![[r#"
            Does not complete: job/once fails after 11s.
            job/once in default: fails after 11s (BackoffLimitExceeded), at most 1 pod, 2 fail
            warning: job/once fails after 11s: BackoffLimitExceeded: Job has reached the specified backoff limit"#]],
    );
    check(
        "",
        &job("[sleep, '500']", 1, "  activeDeadlineSeconds: 30\n"),
        expect![[r#"
            Does not complete: job/once fails after 31s.
            job/once in default: fails after 31s (DeadlineExceeded), at most 1 pod
            warning: job/once fails after 31s: DeadlineExceeded: Job was active longer than specified deadline"#]],
    );
    check(
        "",
        &job(
            "['false']",
            1,
            "  podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [1]}}]}\n",
        ),
        expect![[r#"
            Does not complete: job/once fails after 1s.
            job/once in default: fails after 1s (PodFailurePolicy), at most 1 pod, 1 fails
            warning: job/once fails after 1s: PodFailurePolicy: Container main for pod default/once-xxxxx failed with exit code 1 matching FailJob rule at index 0"#]],
    );
    check(
        "",
        &job("[sleep, '5000']", 1, ""),
        expect![[r#"
            Does not complete within 15m.
            job/once in default: not done, at most 1 pod
            warning: job/once does not finish within 15m: 0 of 1 succeeded"#]],
    );
    // It goes away as soon as it has finished.
    check(
        "",
        &job("[sleep, '5']", 1, "  ttlSecondsAfterFinished: 0\n"),
        expect![[r#"
            Completes in 6s.
            job/once in default: done after 5s, at most 1 pod, 1 succeeds"#]],
    );
    check(
        "",
        &job("[sleep, '5']", 1, "  suspend: true\n"),
        expect![[r#"
            Completes in 0s.
            job/once in default: suspended: it runs when it is resumed"#]],
    );
}

#[test]
fn the_timeline_and_the_chart_of_a_job() {
    let preview = run("", &job("['false']", 1, "  backoffLimit: 1\n"));
    let style = Style {
        width: 50,
        colour: false,
        unicode: false,
    };
    let printed = without_random_parts(&text(&preview, style));
    // The bars keep the blanks at the beginning of lines.
    let printed: Vec<String> = printed.lines().map(|line| format!(">{line}")).collect();
    expect![[r#"
        >From an empty cluster of 3 nodes.
        >Does not complete: job/once fails after 11s.
        >
        >job/once in default: fails after 11s (BackoffLimitExceeded), at most 1 pod, 2 fail
        >   2 |                                        xx
        >   1 | +xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
        >   0 +--------+-------+-------+-------+-------+-
        >       0s     2s      4s      6s      8s     10s
        >         fails: BackoffLimitExceeded after 11s ^
        >       + new, not ready   x failed
        >
        >      0s  job/once  you apply it; it is new
        >                      new.yaml
        >      0s  job/once  creates 1 pod: it has 0 of 1
        >      0s  job/once  1 more pod has failed
        >     10s  job/once  creates 1 pod: it has 0 of 1
        >     10s  job/once  1 more pod has failed
        >     11s  job/once  fails
        >                      BackoffLimitExceeded: Job
        >                      has reached the specified
        >                      backoff limit
        >
        >warning: job/once fails after 11s: BackoffLimitExceeded: Job has reached the specified backoff limit
        >
        >Assumed: pods are ready 10s after their containers start; image web:bad cannot be pulled."#]].assert_eq(&printed.join("\n"));
    assert!(svg(&preview).contains("job/once fails after"));
}
