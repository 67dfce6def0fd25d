//! The Job that is posted.

use api::decision::Line;
use serde_json::{Value, json};

use super::pure::{cron_job, time};
use crate::cronjob::new_job::{body, job_name};

fn made(zone: Option<&str>, template: Value) -> Value {
    let spec = json!({"schedule": "* * * * ?", "timeZone": zone, "jobTemplate": template});
    let cron_job = cron_job(spec, json!({}), "09:59");
    let scheduled = time("10:00");
    let name = job_name(&cron_job.metadata.name, scheduled);
    let body = body(&cron_job, &name, scheduled).unwrap();
    serde_json::from_str(&body.to_string()).unwrap()
}

// Upstream: TestGetJobFromTemplate2 (3 rows).
#[test]
fn a_job_carries_its_template_its_owner_and_its_time() {
    let template = |annotations: Value| {
        json!({
            "metadata": {"labels": {"a": "b"}, "annotations": annotations, "finalizers": ["x/y"]},
            "spec": {"activeDeadlineSeconds": 1, "template": {"spec": {"containers": [{"image": "foo/bar"}]}}},
        })
    };
    let one = made(Some("UTC"), template(json!({"x": "y"})));
    assert_eq!(
        one,
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": "hello-24394200",
                "namespace": "default",
                "labels": {"a": "b"},
                "annotations": {
                    "x": "y",
                    "batch.kubernetes.io/cronjob-scheduled-timestamp": "2016-05-19T10:00:00Z",
                },
                "ownerReferences": [{
                    "apiVersion": "batch/v1", "kind": "CronJob", "name": "hello", "uid": "1a2b3c",
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": {"activeDeadlineSeconds": 1, "template": {"spec": {"containers": [{"image": "foo/bar"}]}}},
        })
    );
    assert_eq!(made(None, template(json!({"x": "y"}))), one);
    let rome = made(Some("Europe/Rome"), template(json!({"x": "y", "z": "x"})));
    assert_eq!(
        rome["metadata"]["annotations"],
        json!({
            "x": "y", "z": "x",
            "batch.kubernetes.io/cronjob-scheduled-timestamp": "2016-05-19T12:00:00+02:00",
        })
    );
}

#[test]
fn what_a_newer_api_server_added_to_a_template_passes_through() {
    let spec =
        json!({"schedule": "* * * * ?", "jobTemplate": {"spec": {"new": {"b": 1, "a": [null]}}}});
    let cron_job = cron_job(spec, json!({}), "09:59");
    let body = body(&cron_job, "hello-1", time("10:00"))
        .unwrap()
        .to_string();
    assert!(
        body.ends_with(r#""spec":{"new":{"a":[null],"b":1}}}"#),
        "{body}"
    );
    assert!(!body.contains("labels"), "{body}");
}

#[test]
fn a_job_is_named_after_the_minute_it_is_for() {
    assert_eq!(&*job_name("a", api::Time::from_unix(0)), "a-0");
    assert_eq!(&*job_name("a", api::Time::from_unix(119)), "a-1");
    assert_eq!(&*job_name("a", api::Time::from_unix(-61)), "a--1");
}

#[test]
fn lines_agree_in_number() {
    let line = |jobs: &[&str]| {
        let jobs = jobs.iter().map(|job| Box::from(*job)).collect();
        Line::from(&crate::cronjob::Reason::StillActive { jobs, next: None }).why
    };
    assert_eq!(
        line(&["a-1"]),
        "job a-1 is still active and concurrencyPolicy is Forbid"
    );
    assert_eq!(
        line(&["a-1", "a-2"]),
        "jobs a-1, a-2 are still active and concurrencyPolicy is Forbid"
    );
}
