//! `steersman preview`: what would happen if these manifests were applied.
//!
//! Reads files ([`input`]) and, if asked to, a cluster ([`cluster`]); the preview itself is the simulator's.

#![expect(clippy::print_stderr, reason = "this is where users are spoken to")]

mod cluster;
mod html;
mod input;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use api::Time;
use clap::{Args, ValueEnum};
use nodes::stages::Stages;
use preview::{self, BEGIN, Manifest, Preview, Setup, Style};
use serde_json::Value;

use crate::connect::ConnectionArguments;
use crate::terminal::Terminal;

const KUBECONFIG_HELP: &str = "Start from the state of this kubeconfig's cluster [default: $KUBECONFIG, or else ~/.kube/config, or else the cluster that is up]";
const CONTEXT_HELP: &str =
    "Start from the state of this context's cluster [default: the current one]";

/// Run the real controllers on manifests, on a virtual clock: how will this rollout behave once it is applied?
///
/// Starts from the state of the current context's cluster where there is one (--context and --kubeconfig name
/// another), or from a file (--snapshot: what `kubectl get ... -o yaml` printed, or plain manifests), or from an
/// empty cluster (--empty); the first line says which. Nothing is ever written to a cluster. CronJobs and
/// autoscalers are followed for all of --for; `drain NODE` evicts what is on a node. Exits with 0 if everything
/// completes, 2 if something does not, 1 if the input is wrong.
#[derive(Args)]
#[command(
    mut_arg("kubeconfig", |argument| argument.help(KUBECONFIG_HELP)),
    mut_arg("context", |argument| argument.help(CONTEXT_HELP)),
    after_help = "Examples:
  steersman preview -f web.yaml
  steersman preview -f new/ --snapshot old.yaml --ready-after 30s
  steersman preview -f web.yaml --context production --fail-image web:2.0
  steersman preview drain node-1
  steersman preview -f backup.yaml --for 24h
  steersman preview -f hpa.yaml --for 1h --load deploy/web:cpu=0s=1,10m=8,40m=1
  kustomize build . | steersman preview -f - --output svg > rollout.svg
  steersman preview -f web.yaml --output html > rollout.html"
)]
pub(crate) struct Arguments {
    /// Drain nodes, once what -f names is applied
    #[arg(value_name = "drain NODE", num_args = 1..)]
    action: Vec<String>,
    /// What to apply: a file, a folder (its .yaml, .yml and .json files), or - for standard input
    #[arg(short, long = "filename", value_name = "FILE|DIR|-", required_unless_present_any = ["action", "load", "node_config", "stages"])]
    filenames: Vec<PathBuf>,
    #[command(flatten)]
    connection: ConnectionArguments,
    /// Where objects go that name no namespace [default: the context's one, or else default]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Start from the objects of this file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["context", "kubeconfig"])]
    snapshot: Option<PathBuf>,
    /// Start from an empty cluster
    #[arg(long, conflicts_with_all = ["context", "kubeconfig", "snapshot"])]
    empty: bool,
    /// A metric over time that autoscalers read, such as deploy/web:cpu=0s=1,10m=8 (what all pods of web use together),
    /// or external:queue_depth=0s=0,5m=100; can be given several times
    #[arg(long, value_name = "KIND/NAME:METRIC=CURVE", value_parser = preview::Load::parse)]
    load: Vec<preview::Load>,
    /// How long pods take to become ready once their containers run
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration, allow_hyphen_values = true)]
    ready_after: Duration,
    /// An image that cannot be pulled, such as web:bad; can be given several times
    #[arg(long, value_name = "IMAGE", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    fail_image: Vec<String>,
    /// Which nodes to simulate and what pods on them use, from a file, as for `up` (docs/behaviours.md)
    #[arg(long, value_name = "FILE", conflicts_with = "nodes")]
    node_config: Option<PathBuf>,
    /// How pods behave and what they use, from a file of stages, as for `up` (docs/behaviours.md)
    #[arg(long, value_name = "FILE")]
    stages: Option<PathBuf>,
    /// How many nodes to simulate [default: those of the state, or 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=5000))]
    nodes: Option<u64>,
    /// How much virtual time to give it
    #[arg(long = "for", value_name = "DURATION", default_value = "30m", value_parser = parse_duration, allow_hyphen_values = true)]
    length: Duration,
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
    Svg,
    /// The dashboard with this preview in it, as one file that needs no server
    Html,
}

/// What a rollout that does not complete exits with.
const INCOMPLETE: u8 = 2;

pub(crate) fn main(arguments: &Arguments) -> Result<ExitCode> {
    let inputs = arguments.filenames.iter().chain(&arguments.snapshot);
    if inputs.filter(|path| path.as_os_str() == "-").count() > 1 {
        bail!("standard input can be read once only: give - once, and a file for the rest");
    }
    let manifests = input::read(&arguments.filenames)?;
    if manifests.is_empty() && !arguments.filenames.is_empty() {
        bail!("there is no object in what was given by -f");
    }
    if let Some(namespace) = &arguments.namespace {
        check_namespaces(&manifests, namespace)?;
    }
    let setup = setup(arguments, manifests)?;
    for missing in &setup.missing {
        eprintln!("goes on without {missing}");
    }
    let preview = match arguments.output {
        Output::Html => html::print(&setup)?,
        output => {
            let preview = preview::preview(&setup)?;
            print(&preview, output)?;
            preview
        }
    };
    Ok(match preview.completes {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(INCOMPLETE),
    })
}

/// Whoever names a namespace means it: an object of another one is a mistake, as it is for kubectl.
fn check_namespaces(manifests: &[Manifest], asked: &str) -> Result<()> {
    for manifest in manifests {
        if let Some(own) = cluster::namespace_of(manifest).filter(|own| *own != asked) {
            bail!(
                "{}: line {}: the namespace from the provided object {own:?} does not match the namespace {asked:?}. You must pass '--namespace={own}' to perform this operation.",
                manifest.file,
                manifest.line
            );
        }
    }
    Ok(())
}

/// The nodes of `drain NODE...`.
fn drained(action: &[String]) -> Result<Vec<String>> {
    match action {
        [] => Ok(Vec::new()),
        [word, nodes @ ..] if word == "drain" && !nodes.is_empty() => Ok(nodes.to_vec()),
        [word] if word == "drain" => bail!("drain what? Write drain NODE, such as drain node-1"),
        other => bail!(
            "{:?} is not something to preview; write -f FILE or drain NODE",
            other.join(" ")
        ),
    }
}

fn setup(arguments: &Arguments, manifests: Vec<Manifest>) -> Result<Setup> {
    let drain = drained(&arguments.action)?;
    let node_config = arguments.node_config.as_deref();
    let node_config = node_config.map(nodes::Config::load).transpose()?;
    let stages = arguments.stages.as_deref().map(Stages::load).transpose()?;
    let stages = stages.unwrap_or_default();
    let declares_usage = stages.declare_usage()
        || node_config
            .as_ref()
            .is_some_and(nodes::Config::declares_usage);
    let state = state(arguments, &manifests, declares_usage)?;
    let known = || manifests.iter().chain(&state.objects);
    for image in &arguments.fail_image {
        // A * stands for anything.
        let is_pattern = image.contains('*');
        if !is_pattern && !known().any(|manifest| names_image(&manifest.object, image)) {
            bail!("--fail-image {image}: nothing here has a container with this image");
        }
    }
    // Times in objects of a cluster are of today; without any, the same input gives the same preview.
    let lived = |manifest: &Manifest| manifest.object["metadata"]["uid"].is_string();
    let begin = match (state.objects.iter().any(lived), state.now) {
        (true, Some(now)) => now,
        (true, None) => runtime::clock::wall().now().time(),
        (false, _) => Time::from_unix(BEGIN),
    };
    Ok(Setup {
        manifests,
        state: state.objects,
        namespace: arguments
            .namespace
            .clone()
            .or(state.namespace)
            .unwrap_or_else(|| "default".to_owned()),
        begin,
        ready_after: arguments.ready_after,
        fail_images: arguments.fail_image.clone(),
        nodes: arguments
            .nodes
            .and_then(|count| usize::try_from(count).ok()),
        node_config,
        stages,
        assumed: assumed(arguments),
        length: arguments.length,
        missing: state.missing,
        from: state.from,
        drain,
        loads: arguments.load.clone(),
    })
}

/// Is there a container with this image, from any registry, in the object or in a template of it?
fn names_image(object: &Value, image: &str) -> bool {
    let is_it = |found: &str| {
        let before = found.strip_suffix(image);
        before.is_some_and(|registry| registry.is_empty() || registry.ends_with('/'))
    };
    match object {
        Value::Object(fields) => fields.iter().any(|(name, value)| {
            name == "image" && value.as_str().is_some_and(is_it) || names_image(value, image)
        }),
        Value::Array(items) => items.iter().any(|item| names_image(item, image)),
        _ => false,
    }
}

/// What files are taken to say.
fn assumed(arguments: &Arguments) -> Vec<String> {
    let files = [
        ("nodes are", &arguments.node_config),
        ("pods behave", &arguments.stages),
    ];
    let given = files
        .into_iter()
        .filter_map(|(what, file)| Some((what, file.as_ref()?)));
    given
        .map(|(what, file)| format!("{what} as {} says", file.display()))
        .collect()
}

/// What is there: of a file, of a cluster that was named, of the current context's cluster if there is one.
fn state(
    arguments: &Arguments,
    manifests: &[Manifest],
    declares_usage: bool,
) -> Result<cluster::State> {
    let asked = &arguments.connection;
    let namespace = arguments.namespace.as_deref();
    if let Some(file) = &arguments.snapshot {
        return Ok(cluster::State {
            objects: input::read(std::slice::from_ref(file))?,
            from: file.display().to_string(),
            ..cluster::State::default()
        });
    }
    let is_named = asked.context.is_some() || asked.kubeconfig.is_some();
    if arguments.empty || !is_named && !asked.has_cluster() {
        return Ok(cluster::State::default());
    }
    let mut applied = manifests
        .iter()
        .filter_map(|one| preview::Kind::of(&one.object));
    let has_metrics =
        !arguments.load.is_empty() || declares_usage || applied.any(preview::Kind::goes_by_metrics);
    let read = cluster::read(asked, namespace, manifests, has_metrics);
    match is_named {
        true => read,
        false => read.context(
            "the current context's cluster cannot be read; --empty starts from an empty one",
        ),
    }
}

fn print(preview: &Preview, output: Output) -> Result<()> {
    match output {
        Output::Text => {
            let terminal = Terminal::of_stdout();
            let style = Style {
                width: terminal.chart_width(),
                colour: terminal.colour,
                unicode: terminal.unicode,
            };
            print!("{}", terminal.wrap(&preview::text(preview, style)));
        }
        Output::Json => println!("{}", serde_json::to_string_pretty(preview)?),
        Output::Svg => print!("{}", preview::svg(preview)),
        // It is printed as it is recorded.
        Output::Html => {}
    }
    Ok(())
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    nodes::behaviour::parse_duration(text).ok_or_else(|| {
        format!(
            "{text:?} is not a duration such as 20s, 1m30s or 2h, of 876000h (a century) at most"
        )
    })
}
