//! CronJobs that all fire in the same minute.

use std::time::{Duration, SystemTime};

use anyhow::Result;
use real_tests::installation::Installation;
use serde_json::json;

use super::Options;
use super::fixtures::{PODS, wait_for};
use super::scenarios::{both, size};
use super::stage::{Phase, in_parallel, same_controllers};

const CRONJOBS: usize = 500;
const CRONJOB_PATH: &str = "/apis/batch/v1/namespaces/default/cronjobs";
/// So long before the minute is full the measuring begins. Whoever makes all of them within a minute of that is in time.
const BEFORE: u64 = 3;
/// The creation of all of them needs that much of a minute, on a machine that is busy.
const CREATING: u64 = 25;

pub(super) fn cronjobs(
    installation: &Installation,
    options: &Options,
    reverse: bool,
) -> Result<Vec<Phase>> {
    let cronjobs = size(options, CRONJOBS);
    both(installation, options, reverse, |stage, flavor| {
        let mut manager = stage.start_manager(flavor, &same_controllers())?;
        let api = stage.cluster.api.clone();
        // None of them is due before all of them are there.
        if until_the_minute() < CREATING + BEFORE {
            std::thread::sleep(Duration::from_secs(until_the_minute()));
        }
        in_parallel(cronjobs, |number| {
            let template = json!({
                "metadata": {"labels": {"app": "cron"}},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.invalid/cron:1"}]},
            });
            let cronjob = json!({
                "metadata": {"name": format!("cron-{number}")},
                "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}},
            });
            api.create(CRONJOB_PATH, &cronjob).map(drop)
        })?;
        let left = until_the_minute().saturating_sub(BEFORE);
        std::thread::sleep(Duration::from_secs(left));
        let mut fired = stage.measure("fired", cronjobs, &mut manager, |cluster| {
            let api = &cluster.api;
            wait_for(api, CRONJOB_PATH, cronjobs, |one| {
                one["status"]["active"]
                    .as_array()
                    .is_some_and(|active| active.len() == 1)
            })?;
            wait_for(api, PODS, cronjobs, |pod| {
                pod["metadata"]["labels"]["app"] == "cron"
            })
        })?;
        stage.count_on(&mut fired, SAYING)?;
        let wrote = |resource: &str| fired.writes_of(resource) / cronjobs as f64;
        let (cronjobs, events) = (wrote("cronjobs/status"), wrote("events"));
        Ok(vec![
            fired
                .with("cronjob-writes", cronjobs)
                .with("event-writes", events),
        ])
    })
}

/// What is still said of it once all pods are there.
const SAYING: Duration = Duration::from_secs(5);

/// Whole seconds that are left of this minute.
fn until_the_minute() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    60 - now.unwrap_or_default().as_secs() % 60
}
