//! `steersman why`: what the controllers last decided about an object, and why it is not done yet.
//!
//! Facts are gathered here ([`gather`], [`ask`]); what they mean is said by the crate `explain`.

mod ask;
mod gather;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use controllers::discovery::{Discovery, discover};

use crate::connect::{Connection, ConnectionArguments};
pub(crate) use ask::{Answer, Manager};
pub(crate) use gather::{Gatherer, cannot_list, decided_about};

/// Asks the running controllers what they want, what they wait for and what is in the way.
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
  steersman why ns/old
  steersman why ds/agent --manager https://10.0.0.1:10257 --output json")]
pub(crate) struct Arguments {
    /// What to explain: `deploy/web`, or `deploy web`; kubectl's names and short names
    #[arg(value_name = "KIND/NAME", required = true, num_args = 1..=2)]
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
    let (facts, gathered) = tokio.block_on(gather_facts(arguments))?;
    let facts = ask::complete(facts, gathered);
    let explanation = explain::explain(&facts);
    match arguments.output {
        Output::Text => print!("{}", explanation.text(facts.now)),
        Output::Json => println!("{}", serde_json::to_string_pretty(&explanation)?),
    }
    Ok(())
}

async fn gather_facts(arguments: &Arguments) -> Result<(explain::Facts, ask::Answer)> {
    let (kind, name) = target(&arguments.object)?;
    let connection = Connection::open(&arguments.connection)?;
    let manager = Manager::reach(
        &connection,
        arguments.manager.as_deref(),
        arguments.manager_certificate_authority.clone(),
    )?;
    let discovery = read_discovery(&connection).await?;
    let Some(resource) = discovery.named(kind) else {
        bail!(
            "the server at {} has no resource {kind:?}",
            connection.server
        );
    };
    let gatherer = Gatherer {
        connection: &connection,
        discovery: &discovery,
        namespace: arguments
            .namespace
            .as_deref()
            .unwrap_or(&connection.namespace),
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

/// `deploy/web`, or `deploy web`.
fn target(words: &[String]) -> Result<(&str, &str)> {
    let found = match words {
        [one] => one.split_once('/'),
        [kind, name] => Some((kind.as_str(), name.as_str())),
        _ => None,
    };
    match found {
        Some((kind, name)) if !kind.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok((kind, name))
        }
        _ => bail!(
            "{:?} names no object; write KIND/NAME, such as deploy/web",
            words.join(" ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_named_as_in_kubectl() {
        let check = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            target(&words).map_or_else(
                |error| error.to_string(),
                |(kind, name)| format!("{kind} {name}"),
            )
        };
        assert_eq!(check(&["deploy/web"]), "deploy web");
        assert_eq!(check(&["deployments.apps", "web"]), "deployments.apps web");
        for bad in [&["web"][..], &["deploy/"], &["/web"], &["deploy", "a/b"]] {
            let expected = format!(
                "{:?} names no object; write KIND/NAME, such as deploy/web",
                bad.join(" ")
            );
            assert_eq!(check(bad), expected);
        }
    }
}
