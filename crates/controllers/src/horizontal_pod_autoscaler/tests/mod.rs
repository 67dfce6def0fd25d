//! Behaviour of the controller, weakest test that suffices first.

mod apis;
mod behavior;
mod calculator;
mod limits;
mod plan;
mod properties;
mod sync;
mod targets;

use std::time::Duration;

use super::Configuration;

/// As upstream's tests have it.
fn configuration() -> Configuration {
    Configuration {
        downscale_window: Duration::from_secs(300),
        tolerance: 0.1,
        cpu_initialization_period: Duration::from_secs(120),
        initial_readiness_delay: Duration::from_secs(10),
        scales_to_zero: false,
        has_tolerances: true,
        pod_level_requests: true,
    }
}
