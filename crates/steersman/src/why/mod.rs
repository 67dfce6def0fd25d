//! `steersman why`: what the controllers last decided about an object, and why it is not done yet.
//!
//! Facts are gathered here ([`gather`], [`ask`]); what they mean is said by the crate `explain`.

mod ask;
mod gather;
mod keep;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use controllers::discovery::{Discovery, discover};

use crate::connect::{Connection, ConnectionArguments};
use crate::terminal::Terminal;
pub(crate) use ask::{Answer, Manager};
pub(crate) use gather::{Gatherer, cannot_list, decided_about};

/// Ask the running controllers what they want, what they wait for and what is in the way.
///
/// In a cluster that `steersman up` runs, the kubeconfig is enough. For `steersman controller-manager` on
/// another cluster, name its secure port by --manager; your credentials of the kubeconfig are used there too,
/// and need `get` on the nonResourceURL `/debug/controllers/*`. Where no manager of ours can be asked, our
/// plans are made on a copy of the objects, and the last line says so. Nothing is ever written.
#[derive(Args)]
#[command(after_help = "Examples:
  steersman why deploy/web
  steersman why sts/db -n shop
  steersman why pod web-5d4f8-x2x7k
  steersman why deploy/web svc/web ingress/shop
  steersman why ns/old
  steersman why ds/agent --manager https://10.0.0.1:10257 --output json")]
pub(crate) struct Arguments {
    /// What to explain: `deploy/web svc/web`, or `deploy web`; kubectl's names and short names
    #[arg(value_name = "KIND/NAME", required = true, num_args = 1..)]
    object: Vec<String>,
    /// The namespace of the object [default: the context's]
    #[arg(short, long)]
    namespace: Option<String>,
    #[command(flatten)]
    connection: ConnectionArguments,
    /// The secure port of a `steersman controller-manager`
    #[arg(long, value_name = "URL")]
    manager: Option<String>,
    /// The certificate authority of that port [default: the cluster's]
    #[arg(long, value_name = "FILE", requires = "manager")]
    manager_certificate_authority: Option<PathBuf>,
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

pub(crate) fn main(arguments: &Arguments) -> Result<()> {
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let targets = targets(&arguments.object)?;
    let gathered = tokio.block_on(gather_facts(arguments, &targets))?;
    let mut failures = Vec::new();
    let mut told = Vec::new();
    for one in gathered {
        match one {
            Ok((facts, answer)) => {
                // Plans on a copy have a time of their own: this is outside of any runtime.
                let facts = ask::complete(facts, answer);
                told.push((explain::explain(&facts), facts.now));
            }
            Err(error) => failures.push(client::sentence(error.as_ref())),
        }
    }
    match (arguments.output, &*told) {
        (Output::Text, all) => {
            let terminal = Terminal::of_stdout();
            let texts = all
                .iter()
                .map(|(one, now)| one.painted(*now, terminal.colour));
            let texts: Vec<String> = texts.collect();
            print!("{}", terminal.wrap(&texts.join("\n\n")));
        }
        (Output::Json, [(one, _)]) if targets.len() == 1 => {
            println!("{}", serde_json::to_string_pretty(one)?);
        }
        (Output::Json, all) => {
            let all: Vec<&explain::Explanation> = all.iter().map(|(one, _)| one).collect();
            if !all.is_empty() {
                println!("{}", serde_json::to_string_pretty(&all)?);
            }
        }
    }
    match failures.is_empty() {
        true => Ok(()),
        // What could be explained was.
        false => bail!("{}", failures.join("; ")),
    }
}

type Gathered = Result<(explain::Facts, ask::Answer)>;

/// The facts about each object, or why there are none.
async fn gather_facts(arguments: &Arguments, targets: &[(&str, &str)]) -> Result<Vec<Gathered>> {
    let connection = Connection::open(&arguments.connection)?;
    let manager = Manager::reach(
        &connection,
        arguments.manager.as_deref(),
        arguments.manager_certificate_authority.clone(),
    )?;
    let discovery = read_discovery(&connection).await?;
    let gatherer = Gatherer {
        connection: &connection,
        discovery: &discovery,
        for_plans: true,
        namespace: arguments
            .namespace
            .as_deref()
            .unwrap_or(&connection.namespace),
    };
    let mut found = Vec::new();
    for (kind, name) in targets {
        found.push(about(&gatherer, &manager, kind, name).await);
    }
    Ok(found)
}

async fn about(gatherer: &Gatherer<'_>, manager: &Manager, kind: &str, name: &str) -> Gathered {
    let Some(resource) = gatherer.discovery.named(kind) else {
        bail!(
            "the server at {} has no resource {kind:?}; `kubectl api-resources` lists those that it has",
            gatherer.connection.server
        );
    };
    let facts = gatherer.facts(resource, name).await?;
    let answer = manager.ask(&facts).await?;
    Ok((facts, answer))
}

/// The server's kinds; this is the first request, so it also finds out whether there is a server.
pub(crate) async fn read_discovery(connection: &Connection) -> Result<Discovery> {
    match discover(&connection.client).await {
        Ok(found) => Ok(found),
        Err(controllers::discovery::DiscoveryError::Client(error)) => {
            bail!(
                "cannot ask the cluster at {}: {}",
                connection.server,
                client::describe(&error)
            )
        }
        Err(error) => Err(error.into()),
    }
}

/// `deploy/web svc/web`, or `deploy web`, or `pods a b`.
fn targets(words: &[String]) -> Result<Vec<(&str, &str)>> {
    let named = |word, pair: Option<(_, _)>| {
        let is_good = |(kind, name): &(&str, &str)| {
            !kind.is_empty() && !name.is_empty() && !name.contains('/')
        };
        pair.filter(is_good).with_context(|| {
            format!("{word:?} names no object; write KIND/NAME, such as deploy/web")
        })
    };
    match words {
        [kind, names @ ..] if !kind.contains('/') && !names.is_empty() => names
            .iter()
            .map(|name| named(name, Some((kind.as_str(), name.as_str()))))
            .collect(),
        all => all
            .iter()
            .map(|one| named(one, one.split_once('/')))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_named_as_in_kubectl() {
        let check = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            targets(&words).map_or_else(
                |error| error.to_string(),
                |all| {
                    let all = all.iter().map(|(kind, name)| format!("{kind} {name}"));
                    all.collect::<Vec<_>>().join(", ")
                },
            )
        };
        assert_eq!(check(&["deploy/web"]), "deploy web");
        assert_eq!(check(&["deployments.apps", "web"]), "deployments.apps web");
        assert_eq!(check(&["deploy/web", "svc/web"]), "deploy web, svc web");
        assert_eq!(check(&["pods", "a", "b"]), "pods a, pods b");
        for (words, bad) in [
            (&["web"][..], "web"),
            (&["deploy/"], "deploy/"),
            (&["/web"], "/web"),
            (&["deploy", "a/b"], "a/b"),
            (&["deploy/web", "db"], "db"),
        ] {
            let expected = format!("{bad:?} names no object; write KIND/NAME, such as deploy/web");
            assert_eq!(check(words), expected);
        }
    }
}
