//! `steersman controllers`: what there is, as the descriptors say.

use anyhow::Result;
use clap::{Args, ValueEnum};
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
            for one in &::controllers::ALL {
                let state = match (one.is_built(), one.cloud, one.on_by_default) {
                    (_, true, _) => "run by cloud providers",
                    (false, ..) => "not built yet",
                    (true, _, false) => "off by default",
                    (true, _, true) if one.gates.is_empty() => "on",
                    (true, _, true) => "on where its gates are",
                };
                println!("{:<62} {state}", one.name);
            }
        }
    }
    Ok(())
}

fn in_json() -> Value {
    let all = ::controllers::ALL.iter().map(|one| {
        let kinds = |resources: &[api::ResourceType]| -> Vec<String> {
            resources.iter().map(ToString::to_string).collect()
        };
        json!({
            "name": one.name,
            "alias": one.alias,
            "serviceAccount": one.service_account,
            "gates": one.gates,
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
