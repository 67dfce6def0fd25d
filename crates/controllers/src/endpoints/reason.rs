//! A plan in words.

use api::decision::Line;

use super::plan::{Action, Plan};
use super::subsets::{CAPACITY, count};
use crate::service_endpoints::counted;

pub fn explain(plan: &Plan<'_>) -> Vec<Line> {
    let ready: usize = plan
        .subsets
        .iter()
        .map(|subset| subset.addresses.len())
        .sum();
    let others = count(&plan.subsets) - ready;
    let mut what = format!("stores {} in Endpoints", addresses(ready, "ready "));
    if others > 0 {
        what.push_str(&format!(", and {others} not ready"));
    }
    let mut lines = vec![Line::states("StoresEndpoints", what)];
    if plan.is_truncated {
        let what = format!(
            "leaves out {}",
            addresses(plan.addresses - count(&plan.subsets), "")
        );
        let why = format!("Endpoints hold at most {CAPACITY}");
        let line = Line::states("OverCapacity", what).because(why);
        lines.push(line.hint("read EndpointSlices, which hold all of them"));
    }
    match plan.action {
        Action::Nothing => {}
        Action::Create => lines.push(Line::acts("CreatesEndpoints", "creates Endpoints")),
        Action::Update => lines.push(
            Line::acts("UpdatesEndpoints", "updates Endpoints")
                .because("addresses, ports or labels have changed"),
        ),
    }
    lines
}

/// `1 ready address`, `2 ready addresses`
fn addresses(count: usize, which: &str) -> String {
    match count {
        1 => format!("1 {which}address"),
        _ => counted(count, &format!("{which}addresse")),
    }
}
