//! A run and what it is held to: the same actions in a world without faults.

use std::time::Duration;

use crate::report::{Failure, Report};
use crate::run::{run_scenario, timeline_of};
use crate::scenario::Scenario;
use crate::shrink::shrink;

/// Fault costs retries, but not without bound: a run may write so many times as often as the calm one,
/// and so many times more for each fault.
const WRITES_FACTOR: u64 = 4;
const WRITES_PER_FAULT: u64 = 30;

/// UPSTREAM: what was created or deleted and never shows up is waited for so long.
const EXPECTATIONS: Duration = Duration::from_secs(5 * 60);

/// UPSTREAM: a key that fails is tried again at least this often.
const BACKOFF_MAX: Duration = Duration::from_secs(1000);

/// Runs a scenario and holds it to the calm run of the same actions.
pub fn verify(scenario: &Scenario) -> Report {
    let report = run_scenario(scenario);
    match scenario.is_calm() || scenario.loses_actions() || report.is_broken() {
        true => report,
        false => hold_to(scenario, &run_scenario(&scenario.calm()), report),
    }
}

/// The scenario with a crash right after this write of its managers, held to how it went without: `undisturbed`
/// is the same for all writes and need not be run for each.
pub fn verify_crash(scenario: &Scenario, after_write: u64, undisturbed: &Report) -> Report {
    let mut crashed = scenario.clone();
    crashed.crash_after_write = Some(after_write);
    let report = run_scenario(&crashed);
    match report.is_broken() {
        true => report,
        false => hold_to(&crashed, undisturbed, report),
    }
}

/// Runs one seed, and looks for the smallest scenario that still breaks if it does.
pub fn run_seed(seed: u64) -> Report {
    explain(&Scenario::from_seed(seed), &format!("--seed {seed}"))
}

/// Runs a scenario; a failure is shrunk and says how to replay it. `source` are the arguments that give
/// this scenario on the command line.
pub fn explain(scenario: &Scenario, source: &str) -> Report {
    explain_by(scenario, source, verify)
}

fn explain_by(scenario: &Scenario, source: &str, verify: impl Fn(&Scenario) -> Report) -> Report {
    let mut report = verify(scenario);
    if let Some(failure) = &mut report.failure {
        let sort = failure.sort();
        let (cut, small) = shrink(scenario, |smaller| {
            // Another problem than the one that was found is another scenario.
            verify(smaller).failure.filter(|found| found.sort() == sort)
        });
        if let Some(small) = small {
            *failure = small;
            failure.shrunk = Some(cut.apply(scenario));
        }
        failure.replay = format!("steersman simulate {source}{}", cut.arguments(scenario));
    }
    report
}

/// The end must be that of the calm run, and the way there not much longer.
fn hold_to(scenario: &Scenario, calm: &Report, mut report: Report) -> Report {
    let problem = if calm.granted != report.granted {
        // The user was refused something in one of the two: these are different scenarios.
        None
    } else if let Some(failure) = &calm.failure {
        Some(format!("without any fault: {}", failure.problem))
    } else if calm.end_state != report.end_state {
        Some(format!(
            "it ended otherwise than without faults:\n  {}\n  instead of\n  {}",
            report.end_state.join("\n  "),
            calm.end_state.join("\n  ")
        ))
    } else {
        check_writes(calm, &report).or_else(|| check_latency(scenario, calm, &report))
    };
    report.checks += 1;
    report.failure = problem.map(|problem| Failure {
        problem,
        timeline: timeline_of(scenario),
        shrunk: None,
        replay: String::new(),
    });
    report
}

fn check_writes(calm: &Report, report: &Report) -> Option<String> {
    let faults = report.fault_count() + report.crashes;
    let most = calm.manager_writes * WRITES_FACTOR + faults * WRITES_PER_FAULT;
    let (wrote, calm) = (report.manager_writes, calm.manager_writes);
    (wrote > most).then(|| {
        format!(
            "managers wrote {wrote} times, {calm} times without faults: more than retries explain"
        )
    })
}

/// Faults cost time, but not without bound. Waits double, so a key that failed as long as there were faults waits no
/// longer than that after the last of them; and whoever expects something that was lost gives up after a while.
fn check_latency(scenario: &Scenario, calm: &Report, report: &Report) -> Option<String> {
    let faulty = scenario.steps.iter().map(|step| step.at).max();
    let most = calm.converging + EXPECTATIONS + faulty.unwrap_or_default().min(BACKOFF_MAX);
    (report.converging > most).then(|| {
        let [took, calm] = [report, calm].map(|run| run.converging.as_secs());
        format!(
            "managers went on for {took} seconds after the last fault, {calm} without faults: longer than their back-offs explain"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::library;
    use crate::shrink::Cut;

    /// A check that breaks whenever a certain step is there, and another one when a second step is.
    fn broken_by(scenario: &Scenario, steps: [usize; 2]) -> impl Fn(&Scenario) -> Report {
        let at = steps.map(|step| scenario.steps[step].at);
        move |smaller| {
            let mut report = run_scenario(&library::LIBRARY[0].scenario());
            let has = |at| smaller.steps.iter().any(|step| step.at == at);
            let problem = match (has(at[0]), has(at[1])) {
                (true, _) => Some(format!("default/w{} is broken", smaller.steps.len())),
                (false, true) => Some("something else is".to_owned()),
                (false, false) => None,
            };
            report.failure = problem.map(|problem| Failure {
                problem,
                timeline: vec!["00:00:01.000 user POST default/pods -> 201".to_owned()],
                shrunk: None,
                replay: String::new(),
            });
            report
        }
    }

    #[test]
    fn a_failure_is_told_with_the_smallest_scenario_its_timeline_and_its_replay() {
        let scenario = Scenario::from_seed(3);
        let report = explain_by(&scenario, "--seed 3", broken_by(&scenario, [2, 5]));
        let told = report.to_string();
        for part in [
            "BROKEN: default/w1 is broken\n",
            "the smallest scenario found that breaks it:\nseed 3: ",
            "timeline:\n  00:00:01.000 user POST default/pods -> 201\n",
            "\nreplay: steersman simulate --seed 3 --steps 2",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
        let failure = report.failure.expect("it is broken");
        let faults = failure.replay.contains("--faults none").then_some("none");
        let managers = failure.replay.contains("--managers 1").then_some(1);
        let replayed = Cut::parse(&scenario, Some("2"), faults, managers);
        let replayed = replayed.map(|cut| cut.apply(&scenario).to_string());
        assert_eq!(replayed, Ok(failure.shrunk.expect("it was").to_string()));
    }

    #[test]
    fn a_run_that_goes_on_for_longer_than_back_offs_explain_is_broken() {
        let scenario = library::LIBRARY[0].scenario();
        let calm = run_scenario(&scenario);
        let told = |seconds: u64| {
            let mut late = calm.clone();
            late.converging = calm.converging + Duration::from_secs(seconds);
            hold_to(&scenario, &calm, late).failure.map(|it| it.problem)
        };
        // The last step is 23 seconds after the first.
        assert_eq!(told(323), None);
        let took = (calm.converging + Duration::from_secs(324)).as_secs();
        let calm = calm.converging.as_secs();
        assert_eq!(
            told(324),
            Some(format!(
                "managers went on for {took} seconds after the last fault, {calm} without faults: longer than their back-offs explain"
            ))
        );
    }

    #[test]
    fn what_holds_is_told_shortly() {
        let report = explain(&library::LIBRARY[0].scenario(), "--scenario rolling-update");
        assert!(!report.is_broken());
        assert!(!report.to_string().contains("replay"));
    }
}
