//! A run and what it is held to: the same wishes in a world without trouble.

use crate::report::{Failure, Report};
use crate::run::{run_scenario, timeline_of};
use crate::scenario::Scenario;
use crate::shrink::{Cut, shrink};

/// Trouble costs retries, but not without bound: a run may write so many times as often as the calm one,
/// and so many times more for each fault.
const WRITES_FACTOR: u64 = 4;
const WRITES_PER_FAULT: u64 = 30;

/// Runs a scenario and holds it to the calm run of the same wishes.
pub fn verify(scenario: &Scenario) -> Report {
    let report = run_scenario(scenario);
    match scenario.is_calm() || scenario.loses_wishes() || report.is_broken() {
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
    let mut report = verify(scenario);
    if report.is_broken() {
        let (cut, small) = shrink(scenario, |smaller| verify(smaller).failure);
        if let (Some(failure), Some(small)) = (&mut report.failure, small) {
            *failure = small;
            failure.shrunk = Some(cut.apply(scenario));
            failure.replay = format!("steersman simulate {source}{}", cut.arguments(scenario));
        } else if let Some(failure) = &mut report.failure {
            failure.replay = format!(
                "steersman simulate {source}{}",
                Cut::none(scenario).arguments(scenario)
            );
        }
    }
    report
}

/// The end must be that of the calm run, and the way there not much longer.
fn hold_to(scenario: &Scenario, calm: &Report, mut report: Report) -> Report {
    let problem = if calm.granted != report.granted {
        // The user was refused something in one of the two: these are different stories.
        None
    } else if let Some(failure) = &calm.failure {
        Some(format!("without any trouble: {}", failure.problem))
    } else if calm.end_state != report.end_state {
        Some(format!(
            "it ended otherwise than without trouble:\n  {}\n  instead of\n  {}",
            report.end_state.join("\n  "),
            calm.end_state.join("\n  ")
        ))
    } else {
        let faults = report.fault_count() + report.crashes;
        let most = calm.manager_writes * WRITES_FACTOR + faults * WRITES_PER_FAULT;
        let wrote = report.manager_writes;
        (wrote > most).then(|| {
            let calm = calm.manager_writes;
            format!("managers wrote {wrote} times, {calm} times without trouble: more than retries explain")
        })
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
