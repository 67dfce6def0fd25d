//! `--html`: the dashboard with a run in it, on which a failure can be walked back and forth.

use std::path::Path;

use dashboard::{Notes, Recording, decision_json};
use serde_json::{Value, json};
use simulator::{Moment, Report, Scenario, moments_of};

/// Writes the page: of the smallest scenario that still breaks, where one was found.
pub(crate) fn write(path: &Path, scenario: &Scenario, report: &Report) -> Result<(), String> {
    let failure = report.failure.as_ref();
    let shrunk = failure.and_then(|failure| failure.shrunk.as_ref());
    let moments = moments_of(shrunk.unwrap_or(scenario));
    let frames: Vec<Value> = moments.iter().map(frame).collect();
    let millis = |moment: Option<&Moment>| moment.map_or(0, |one| one.at().unix_micros() / 1000);
    let notes = match failure {
        Some(failure) => Notes {
            verdict: failure.problem.clone(),
            failed: true,
            warnings: vec![format!("replay: {}", failure.replay)],
        },
        None => Notes {
            verdict: "Every check held.".to_owned(),
            failed: false,
            warnings: Vec::new(),
        },
    };
    let page = dashboard::one_file(&Recording {
        title: format!("Simulation {}", report.name),
        begin: millis(moments.last()),
        count_from: millis(moments.first()),
        base: json!({"t": millis(moments.first())}),
        frames,
        notes,
    });
    std::fs::write(path, page)
        .map_err(|error| format!("--html: cannot write {}: {error}", path.display()))
}

fn frame(moment: &Moment) -> Value {
    let at = moment.at();
    let told = match moment {
        Moment::Decided {
            controller,
            object,
            lines,
            ..
        } => decision_json(controller, object, at, lines),
        Moment::Happened { what, .. } => json!({
            "t": at.unix_micros() / 1000,
            "controller": "trace",
            "object": {"kind": "Run", "name": "requests"},
            "lines": [{"class": "states", "reason": "Trace", "what": what}],
        }),
    };
    json!({"t": at.unix_micros() / 1000, "decisions": [told]})
}
