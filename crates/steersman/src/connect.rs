//! Finding the cluster that a command is about.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use client::Client;
use client::config::{Config, Environment};

use crate::up::instance;

/// The file that was given, else what `KUBECONFIG` says, else the cluster that is up.
pub(crate) fn find(kubeconfig: Option<&Path>) -> Result<Client> {
    if let Some(path) = kubeconfig {
        return to(path);
    }
    let environment = Environment::of_process();
    if environment.kubeconfig.is_some() {
        let config = Config::from_environment(None, None, &environment).context("KUBECONFIG")?;
        return client(config);
    }
    let running = instance::look_everywhere()?;
    let mut kubeconfigs: Vec<PathBuf> = running
        .into_iter()
        .filter_map(|one| one.facts.filter(|facts| facts.is_serving()))
        .map(|facts| facts.kubeconfig)
        .collect();
    match (kubeconfigs.pop(), kubeconfigs.is_empty()) {
        (Some(path), true) => to(&path),
        (Some(_), false) => bail!("several clusters are up: choose one with --kubeconfig"),
        (None, _) => bail!("no cluster is up: `steersman up` starts one, --kubeconfig names one"),
    }
}

/// The current context of a kubeconfig.
pub(crate) fn to(kubeconfig: &Path) -> Result<Client> {
    let environment = Environment::of_process();
    let config = Config::from_environment(Some(kubeconfig), None, &environment);
    client(config.with_context(|| kubeconfig.display().to_string())?)
}

fn client(config: Config) -> Result<Client> {
    let transport = client::https::transport(config, runtime::clock::wall())?;
    Ok(Client::new(transport).with_user_agent("steersman"))
}
