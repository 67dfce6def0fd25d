//! Reaching a cluster as kubectl does: kubeconfig, context, credentials.

use std::path::PathBuf;

use anyhow::{Context, Result};
use api::ResourceType;
use clap::Args;
use client::config::{Config, Environment, Material, Server};
use client::{Client, ListOptions, https};
use serde_json::Value;

#[derive(Args, Clone)]
pub(crate) struct ConnectionArguments {
    /// The kubeconfig [default: $KUBECONFIG, or else ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
}

/// A cluster that can be asked.
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) server: String,
    /// The namespace of the context.
    pub(crate) namespace: String,
    config: Config,
}

const USER_AGENT: &str = concat!("steersman/", env!("CARGO_PKG_VERSION"));

/// Objects are listed in pages of this size, as kubectl does.
const PAGE: u32 = 500;

impl Connection {
    pub(crate) fn open(arguments: &ConnectionArguments) -> Result<Connection> {
        let environment = Environment::of_process();
        let (file, context) = (
            arguments.kubeconfig.as_deref(),
            arguments.context.as_deref(),
        );
        let config = Config::from_environment(file, context, &environment)
            .context("no cluster to ask: give --kubeconfig, or start one with `steersman up`")?;
        Ok(Connection {
            client: connect(config.clone())?,
            server: config.server.to_string(),
            namespace: config.namespace.clone().unwrap_or_else(|| "default".into()),
            config,
        })
    }

    /// The same credentials for another server. Its certificate is checked against `authority`, or else
    /// against the one of the kubeconfig.
    pub(crate) fn elsewhere(&self, address: &str, authority: Option<PathBuf>) -> Result<Client> {
        let mut config = self.config.clone();
        config.server = Server::parse(address, http::uri::Scheme::HTTPS)?;
        config.proxy = None;
        if let Some(authority) = authority {
            config.tls.authorities = Some(Material::File(authority));
        }
        connect(config)
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
        let namespace = if resource.namespaced { namespace } else { "" };
        let mut options = ListOptions {
            label_selector,
            limit: Some(PAGE),
            ..ListOptions::default()
        };
        let mut found = Vec::new();
        loop {
            let page = self.client.list(resource, namespace, &options).await?;
            let items = page
                .items
                .iter()
                .map(|item| typed(serde_json::from_slice(item).unwrap_or_default(), resource));
            found.extend(items);
            match page.continue_token {
                Some(token) => options.continue_token = Some(token),
                None => return Ok(found),
            }
        }
    }
}

fn connect(config: Config) -> Result<Client> {
    let transport = https::transport(config, runtime::clock::wall())?;
    Ok(Client::new(transport).with_user_agent(USER_AGENT))
}

/// Items of lists do not say what they are.
fn typed(mut object: Value, resource: &ResourceType) -> Value {
    if let Some(map) = object.as_object_mut() {
        map.insert("apiVersion".into(), Value::from(&*resource.api_version()));
        map.insert("kind".into(), Value::from(&*resource.kind));
    }
    object
}
