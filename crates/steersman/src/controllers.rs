//! `steersman controllers`: what there is, as the descriptors say.

use ::controllers::Descriptor;
use anyhow::Result;
use clap::{Args, ValueEnum};
use manager::gates::FeatureGates;
use serde_json::{Value, json};

#[derive(Args)]
pub(crate) struct Arguments {
    /// How to print the list
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    Text,
    Json,
}

pub(crate) fn main(arguments: &Arguments) -> Result<()> {
    match arguments.output {
        Output::Json => println!("{:#}", in_json()),
        Output::Text => {
            let gates = FeatureGates::defaults();
            for one in &::controllers::ALL {
                println!("{:<62} {}", one.name, state(one, &gates));
            }
        }
    }
    Ok(())
}

/// Whether it runs where nobody says otherwise, and what would turn it on.
fn state(one: &Descriptor, gates: &FeatureGates) -> String {
    let closed = closed_gates(one, gates);
    match (one.is_built(), one.cloud, one.on_by_default) {
        (_, true, _) => "run by cloud providers".to_owned(),
        (false, ..) => "not built yet".to_owned(),
        (true, _, false) => "off by default".to_owned(),
        (true, _, true) if closed.is_empty() => "on".to_owned(),
        (true, _, true) => {
            let wanted: Vec<String> = closed.iter().map(|gate| format!("{gate}=true")).collect();
            format!("off without --feature-gates={}", wanted.join(","))
        }
    }
}

/// The features that it needs and that are off.
fn closed_gates(one: &Descriptor, gates: &FeatureGates) -> Vec<&'static str> {
    let closed = one.gates.iter().filter(|gate| !gates.enabled(gate));
    closed.copied().collect()
}

fn in_json() -> Value {
    let defaults = FeatureGates::defaults();
    let all = ::controllers::ALL.iter().map(|one| {
        let kinds = |resources: &[api::ResourceType]| -> Vec<String> {
            resources.iter().map(ToString::to_string).collect()
        };
        json!({
            "name": one.name,
            "alias": one.alias,
            "serviceAccount": one.service_account,
            "gates": one.gates,
            "closedGates": closed_gates(one, &defaults),
            "onByDefault": one.on_by_default,
            "cloud": one.cloud,
            "built": one.is_built(),
            "component": one.component,
            "caches": one.caches.iter().map(|view| view.resource.to_string()).collect::<Vec<_>>(),
            "decidesAbout": kinds(one.decides_about),
            "queues": one.queues,
        })
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_that_is_on_by_default_is_no_condition() {
        let gates = FeatureGates::defaults();
        let state_of = |name: &str| {
            let all = &::controllers::ALL;
            let one = all.iter().find(|one| one.name == name);
            one.map(|one| state(one, &gates)).unwrap_or_default()
        };
        assert_eq!(state_of("deployment-controller"), "on");
        assert_eq!(state_of("taint-eviction-controller"), "on");
        assert_eq!(
            state_of("podcertificaterequest-cleaner-controller"),
            "off without --feature-gates=PodCertificateRequest=true"
        );
        assert_eq!(state_of("token-cleaner-controller"), "off by default");
        assert_eq!(
            state_of("cloud-node-lifecycle-controller"),
            "run by cloud providers"
        );
    }
}
