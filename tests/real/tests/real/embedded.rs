//! The stories of the differential on our own API server, with our manager: one description, both servers.

use real_tests::scenario::{Scenario, run_embedded};

#[test]
fn every_scenario_plays_on_our_own_api_server() {
    let folder = std::env::temp_dir().join(format!("steersman-stories-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let wanted = std::env::var("SCENARIOS").unwrap_or_default();
    let wanted: Vec<String> = wanted.split_terminator(',').map(str::to_owned).collect();
    let scenarios = Scenario::load(&wanted).unwrap();
    let results = run_embedded(&folder, &scenarios).unwrap();
    assert_eq!(results.len(), scenarios.len());
    let failures: Vec<String> = results
        .iter()
        .filter_map(|(name, result)| Some(format!("{name}: {:#}", result.as_ref().err()?)))
        .collect();
    assert!(
        failures.is_empty(),
        "{} fail; the logs are kept in {}:\n{}",
        failures.len(),
        folder.display(),
        failures.join("\n")
    );
    std::fs::remove_dir_all(folder).unwrap();
}
