//! Finding the cluster that a command is about, and asking it as kubectl does.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use api::{Clock, ResourceType, Time};
use clap::Args;
use client::config::{Config, Environment, Material, Server};
use client::{Client, ListOptions, https};
use serde_json::Value;

use crate::up::instance::{self, Facts};

/// The file or the cluster that was named, else what `KUBECONFIG` says, else the cluster that is up; of several that one
/// that the current context leads to. With the namespace of its context.
pub(crate) fn find(kubeconfig: Option<&Path>, name: Option<&str>) -> Result<(Client, String)> {
    let environment = Environment::of_process();
    let config = match kubeconfig {
        Some(path) => of_file(path)?,
        None if name.is_none() && environment.kubeconfig.is_some() => {
            Config::from_environment(None, None, &environment).context("KUBECONFIG")?
        }
        None => of_file(&running(name, &environment, "--kubeconfig or --cluster")?)?,
    };
    let namespace = namespace_of(&config);
    Ok((client(config)?, namespace))
}

fn namespace_of(config: &Config) -> String {
    config.namespace.clone().unwrap_or_else(|| "default".into())
}

/// The kubeconfig of the cluster that is up, or of the one of this name; by which flags one of several can be chosen.
fn running(name: Option<&str>, environment: &Environment, flags: &str) -> Result<PathBuf> {
    let running = instance::look_everywhere()?;
    let found: Vec<Facts> = running
        .into_iter()
        .filter(|one| name.is_none_or(|name| one.name() == name))
        .filter_map(|one| one.facts.filter(Facts::is_serving))
        .collect();
    let current = Config::from_environment(None, None, environment);
    let current = current.map(|config| config.server.to_string()).ok();
    choose(found, name, current.as_deref(), flags)
}

fn choose(
    mut found: Vec<Facts>,
    name: Option<&str>,
    current: Option<&str>,
    flags: &str,
) -> Result<PathBuf> {
    let names: Vec<String> = found.iter().map(|one| one.name.clone()).collect();
    if found.len() > 1 {
        found.retain(|one| Some(one.server.as_str()) == current);
    }
    match (found.pop(), found.is_empty(), name) {
        (Some(one), true, _) => Ok(one.kubeconfig),
        (_, _, Some(name)) if names.is_empty() => {
            bail!("no cluster {name} is up: `steersman status` lists those that are")
        }
        (None, _, None) if names.is_empty() => {
            bail!("no cluster is up: `steersman up` starts one, --kubeconfig names one")
        }
        _ => bail!(
            "several clusters are up ({}): choose one with {flags}; `steersman status` shows them",
            names.join(", ")
        ),
    }
}

/// The current context of a kubeconfig.
pub(crate) fn to(kubeconfig: &Path) -> Result<Client> {
    client(of_file(kubeconfig)?)
}

fn of_file(kubeconfig: &Path) -> Result<Config> {
    let environment = Environment::of_process();
    let config = Config::from_environment(Some(kubeconfig), None, &environment);
    config.with_context(|| kubeconfig.display().to_string())
}

fn client(config: Config) -> Result<Client> {
    let transport = https::transport(config, runtime::clock::wall())?;
    Ok(Client::new(transport).with_user_agent(USER_AGENT))
}

#[derive(Args, Clone)]
pub(crate) struct ConnectionArguments {
    /// The kubeconfig [default: $KUBECONFIG, or else ~/.kube/config, or else that of the cluster that is up]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
}

impl ConnectionArguments {
    /// Is there a cluster to ask at all?
    pub(crate) fn has_cluster(&self) -> bool {
        // Which of several is meant has to be asked, not guessed.
        self.config().is_ok() || instance::look_everywhere().is_ok_and(|all| all.len() > 1)
    }

    /// As kubectl finds it; where there is no kubeconfig at all, the cluster that is up.
    fn config(&self) -> Result<Config> {
        let environment = Environment::of_process();
        let (file, context) = (self.kubeconfig.as_deref(), self.context.as_deref());
        let found = Config::from_environment(file, context, &environment);
        let is_named = file.is_some() || context.is_some() || environment.kubeconfig.is_some();
        match found {
            Err(_) if !is_named => of_file(&running(None, &environment, "--kubeconfig")?),
            // What was named is at fault, and the error says how.
            found => Ok(found?),
        }
    }
}

/// A cluster that can be asked.
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) server: String,
    /// The namespace of the context.
    pub(crate) namespace: String,
    /// None for a server in this process.
    config: Option<Config>,
    clock: Clock,
    /// How many objects are listed at a time.
    page: u32,
}

const USER_AGENT: &str = concat!("steersman/", env!("CARGO_PKG_VERSION"));

/// Objects are listed in pages of this size, as kubectl does.
pub(crate) const PAGE: u32 = 500;

/// A server in this process is asked for less at a time: both sides hold a page, and another request costs nothing.
pub(crate) const PAGE_IN_PROCESS: u32 = 50;

impl Connection {
    pub(crate) fn open(arguments: &ConnectionArguments) -> Result<Connection> {
        let config = arguments.config()?;
        Ok(Connection {
            client: client(config.clone())?,
            server: config.server.to_string(),
            namespace: namespace_of(&config),
            config: Some(config),
            clock: runtime::clock::wall(),
            page: PAGE,
        })
    }

    /// To a server that this process speaks to already, whose clock it is.
    pub(crate) fn within(client: Client, server: &str, clock: &Clock, page: u32) -> Connection {
        Connection {
            client,
            server: server.to_owned(),
            namespace: "default".to_owned(),
            config: None,
            clock: clock.clone(),
            page,
        }
    }

    /// The same credentials for another server. Its certificate is checked against `authority`, or else
    /// against the one of the kubeconfig.
    pub(crate) fn elsewhere(&self, address: &str, authority: Option<PathBuf>) -> Result<Client> {
        let config = self.config.clone();
        let mut config = config.context("this process has no kubeconfig")?;
        config.server = Server::parse(address, http::uri::Scheme::HTTPS)?;
        config.proxy = None;
        config.tls.server_name = None;
        if let Some(authority) = authority {
            config.tls.authorities = Some(Material::File(authority));
            config.tls.insecure = false;
        }
        client(config)
    }

    /// What time it is in the cluster: its clock may be ahead of ours, or run at another speed. A server that does
    /// not say is taken to agree with us.
    pub(crate) async fn now(&self) -> Time {
        match self.client.server_time().await {
            Ok(Some(time)) => time,
            _ => self.clock.now().time(),
        }
    }

    pub(crate) async fn get(
        &self,
        resource: &ResourceType,
        namespace: &str,
        name: &str,
    ) -> Result<Value, client::Error> {
        let namespace = if resource.namespaced { namespace } else { "" };
        let body = self.client.get(resource, namespace, name).await?;
        Ok(typed(
            serde_json::from_slice(&body).unwrap_or_default(),
            resource,
        ))
    }

    /// All objects of a kind, in all namespaces for "".
    pub(crate) async fn list(
        &self,
        resource: &ResourceType,
        namespace: &str,
        label_selector: Option<String>,
    ) -> Result<Vec<Value>, client::Error> {
        let whole = |item: &[u8]| Some(serde_json::from_slice(item).unwrap_or_default());
        self.list_kept(resource, namespace, label_selector, whole)
            .await
    }

    /// What is kept of all objects of a kind.
    pub(crate) async fn list_kept(
        &self,
        resource: &ResourceType,
        namespace: &str,
        label_selector: Option<String>,
        keep: impl Fn(&[u8]) -> Option<Value>,
    ) -> Result<Vec<Value>, client::Error> {
        let namespace = if resource.namespaced { namespace } else { "" };
        let mut options = ListOptions {
            label_selector,
            limit: Some(self.page),
            ..ListOptions::default()
        };
        let mut found = Vec::new();
        loop {
            let page = self.client.list(resource, namespace, &options).await?;
            let kept = page.items.iter().filter_map(|item| keep(item));
            found.extend(kept.map(|object| typed(object, resource)));
            match page.continue_token {
                Some(token) => options.continue_token = Some(token),
                None => return Ok(found),
            }
        }
    }
}

/// Items of lists do not say what they are.
fn typed(mut object: Value, resource: &ResourceType) -> Value {
    if let Some(map) = object.as_object_mut() {
        map.insert("apiVersion".into(), Value::from(&*resource.api_version()));
        map.insert("kind".into(), Value::from(&*resource.kind));
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    fn up(name: &str, server: &str) -> Facts {
        Facts {
            name: name.to_owned(),
            pid: 1,
            server: server.to_owned(),
            kubeconfig: PathBuf::from(name),
            merged_into: None,
            nodes: 3,
            data_dir: None,
            version: String::new(),
            dashboard: None,
            log: None,
        }
    }

    #[test]
    fn of_several_clusters_the_current_context_names_one() {
        let check = |names: &[&str], name: Option<&str>, current: Option<&str>| {
            let found = names
                .iter()
                .map(|name| up(name, &format!("https://{name}")));
            match choose(found.collect(), name, current, "--kubeconfig") {
                Ok(path) => path.display().to_string(),
                Err(error) => error.to_string(),
            }
        };
        assert_eq!(check(&["a"], None, Some("https://elsewhere")), "a");
        assert_eq!(check(&["a", "b"], None, Some("https://b")), "b");
        let undecided = "several clusters are up (a, b): choose one with --kubeconfig; `steersman status` shows them";
        assert_eq!(check(&["a", "b"], None, Some("https://c")), undecided);
        assert_eq!(check(&["a", "b"], None, None), undecided);
        assert_eq!(
            check(&[], Some("dev"), None),
            "no cluster dev is up: `steersman status` lists those that are"
        );
        assert_eq!(
            check(&[], None, None),
            "no cluster is up: `steersman up` starts one, --kubeconfig names one"
        );
    }
}
