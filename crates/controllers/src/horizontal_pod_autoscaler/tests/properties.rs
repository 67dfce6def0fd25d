//! What holds whatever is measured: hundreds of autoscalers with random bounds, rules and metrics, hours of each.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use api::kinds::{Behavior, HorizontalPodAutoscaler, Pod, ScalingPolicy, ScalingRules};
use api::{Resource, Rng, Time};
use serde_json::json;

use super::super::{Memory, Moment, Need, Observed, PodMetric, PodMetrics, Reading, need, plan};
use super::configuration;
use super::plan::{cpu, hpa, scale};

const PERIOD: Duration = Duration::from_secs(15);

fn draw_rules(rng: &Rng) -> ScalingRules {
    let mut rules = ScalingRules {
        stabilization_window_seconds: rng.chance(2).then(|| rng.below(600) as i32),
        select_policy: Some(["Max", "Min", "Disabled"][rng.below(3)].into()),
        ..ScalingRules::default()
    };
    for _ in 0..=rng.below(2) {
        rules.policies.push(ScalingPolicy {
            r#type: ["Pods", "Percent"][rng.below(2)].into(),
            value: 1 + rng.below(150) as i32,
            period_seconds: 1 + rng.below(300) as i32,
        });
    }
    rules
}

fn draw(rng: &Rng) -> HorizontalPodAutoscaler {
    let least = 1 + rng.below(5) as i32;
    let mut drawn = hpa(
        Some(least),
        least + rng.below(20) as i32,
        vec![cpu(1 + rng.below(200) as i32)],
    );
    if rng.chance(2) {
        drawn.spec.behavior = Some(Behavior {
            scale_up: rng.chance(2).then(|| draw_rules(rng)),
            scale_down: rng.chance(2).then(|| draw_rules(rng)),
        });
    }
    drawn
}

/// Pods that run since yesterday.
fn ready_pods(count: i32) -> Vec<Arc<Pod>> {
    let pod = |number: i32| {
        let pod = json!({
            "metadata": {"name": format!("p{number}")},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"phase": "Running", "startTime": Time::from_unix(900_000), "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": Time::from_unix(900_000)}]},
        });
        Arc::new(Pod::decode(pod.to_string().as_bytes()).unwrap())
    };
    // Each is read once.
    static ALL: OnceLock<Vec<Arc<Pod>>> = OnceLock::new();
    let all = ALL.get_or_init(|| (0..MOST).map(pod).collect());
    all[..usize::try_from(count).unwrap()].to_vec()
}

/// More replicas than any run has.
const MOST: i32 = 64;

fn metrics(pods: &[Arc<Pod>], at: Time, mut usage: impl FnMut() -> Option<i64>) -> PodMetrics {
    let metric = |value: i64| PodMetric {
        value,
        at,
        window: Duration::from_secs(30),
    };
    let measured = pods.iter().filter_map(|pod| {
        let value = usage()?;
        Some((pod.metadata.name.clone(), metric(value)))
    });
    measured.collect()
}

/// Runs an autoscaler for this many periods; `usage` is what one pod uses. Gives the sizes it went through.
fn run(
    hpa: &mut HorizontalPodAutoscaler,
    mut replicas: i32,
    periods: u32,
    mut usage: impl FnMut(i32) -> Option<i64>,
) -> Vec<i32> {
    let (mut memory, configuration) = (Memory::default(), configuration());
    let mut sizes = vec![replicas];
    for period in 0..periods {
        let now = Time::from_unix(1_000_000).micro().plus(PERIOD * period);
        let observed = match need(hpa, replicas, &configuration) {
            Need::Metrics => {
                let pods = ready_pods(replicas);
                let read = metrics(&pods, now.time(), || usage(replicas));
                let reading = match read.is_empty() {
                    true => Err("nothing was read".to_owned()),
                    false => Ok(Reading::Pods(read)),
                };
                Observed::Metrics {
                    pods,
                    readings: vec![reading],
                }
            }
            _ => Observed::Nothing,
        };
        let at = Moment { now, steady: now };
        let mut plan = plan(
            hpa,
            &scale(replicas),
            observed,
            &mut memory,
            &configuration,
            at,
        );
        if let Some(rescale) = plan.rescale.clone() {
            plan.scaled(hpa, &configuration, now.time());
            memory.note_change(hpa.spec.behavior.as_ref(), replicas, rescale.to, now);
            replicas = rescale.to;
        }
        hpa.status = plan.status;
        sizes.push(replicas);
    }
    sizes
}

#[test]
fn never_leaves_its_bounds_nor_scales_to_zero() {
    for seed in 0..300 {
        let rng = Rng::from_seed(seed);
        let mut hpa = draw(&rng);
        let begun = 1 + rng.below(40) as i32;
        let absurd = [0, -1, i64::MIN, i64::MAX, 1];
        let sizes = run(&mut hpa, begun, 100, |_| match rng.below(10) {
            0 => None,
            1 => Some(absurd[rng.below(absurd.len())]),
            _ => Some(rng.below(4000) as i64),
        });
        let (least, most) = (hpa.min_replicas(), hpa.spec.max_replicas);
        for size in &sizes[1..] {
            assert!(
                (least..=most).contains(size),
                "seed {seed}: {size} of {least}..={most}: {sizes:?}"
            );
        }
    }
}

#[test]
fn a_target_that_somebody_scaled_to_zero_stays_there() {
    for seed in 0..50 {
        let rng = Rng::from_seed(seed);
        let sizes = run(&mut draw(&rng), 0, 20, |_| Some(100_000));
        assert!(sizes.iter().all(|size| *size == 0), "seed {seed}");
    }
}

#[test]
fn never_moves_inside_its_tolerance() {
    for seed in 0..200 {
        let rng = Rng::from_seed(seed);
        let mut hpa = draw(&rng);
        hpa.spec.metrics = serde_json::from_value(json!([cpu(100)])).unwrap();
        let (least, most) = (hpa.min_replicas(), hpa.spec.max_replicas);
        let begun = least + rng.below((most - least + 1) as usize) as i32;
        let sizes = run(&mut hpa, begun, 100, |_| Some(910 + rng.below(180) as i64));
        assert!(
            sizes.iter().all(|size| *size == begun),
            "seed {seed}: {sizes:?}"
        );
    }
}

#[test]
fn a_steady_load_comes_to_rest_without_flapping() {
    for seed in 0..200 {
        let rng = Rng::from_seed(seed);
        let mut hpa = draw(&rng);
        // Rules of users may forbid any change.
        hpa.spec.behavior = None;
        hpa.spec.metrics = serde_json::from_value(json!([cpu(50)])).unwrap();
        let load = 100 + rng.below(20_000) as i64;
        let begun = 1 + rng.below(30) as i32;
        let sizes = run(&mut hpa, begun, 200, |replicas| {
            Some(load / i64::from(replicas))
        });
        let turns = sizes.windows(3).filter(|seen| {
            (seen[0] < seen[1] && seen[1] > seen[2]) || (seen[0] > seen[1] && seen[1] < seen[2])
        });
        assert!(turns.count() <= 1, "seed {seed}: {sizes:?}");
        let last = &sizes[sizes.len() - 50..];
        assert!(
            last.iter().all(|size| *size == last[0]),
            "seed {seed}: {sizes:?}"
        );
    }
}
