//! What a container finds around it: variables, and the files of the ConfigMaps and Secrets that are mounted.

use std::collections::BTreeMap;

use api::ResourceType;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use client::Client;
use serde_json::Value;

use super::downward::{self, field};
use super::{container_of, service_links, sub_paths};
use crate::script::{Files, Surroundings, normal};

const CONFIG_MAPS: ResourceType = ResourceType::namespaced("", "v1", "configmaps", "ConfigMap");
const NODES: ResourceType = ResourceType::cluster("", "v1", "nodes", "Node");
const SECRETS: ResourceType = ResourceType::namespaced("", "v1", "secrets", "Secret");

/// Contents by key.
pub(super) type Data = BTreeMap<String, String>;

/// Reads ConfigMaps and Secrets as they are needed, each once.
struct Sources<'a> {
    client: &'a Client,
    namespace: &'a str,
    /// What the pod's node has for pods, once it was asked for.
    allocatable: Option<Value>,
    read: BTreeMap<(&'static str, String), Data>,
}

pub(super) async fn surroundings(client: &Client, pod: &Value, container: &Value) -> Surroundings {
    let mut sources = Sources::of(client, pod);
    let hostname = match text(&pod["spec"]["hostname"]) {
        "" => text(&pod["metadata"]["name"]),
        given => given,
    };
    let mut around = Surroundings {
        hostname: hostname.to_owned(),
        ..Surroundings::default()
    };
    let host = [("HOSTNAME", hostname), ("HOME", "/root"), ("PATH", PATH)];
    for (name, value) in host {
        around.environment.insert(name.to_owned(), value.to_owned());
    }
    let variables = sources.variables(pod, container).await;
    let ip = text(&pod["status"]["podIP"]);
    let files = [
        ("/etc/hostname", format!("{hostname}\n")),
        (
            "/etc/hosts",
            format!("127.0.0.1\tlocalhost\n{ip}\t{hostname}\n"),
        ),
    ];
    for (path, contents) in files {
        around.files.insert(path.to_owned(), Ok(contents));
    }
    sources
        .fill_files(pod, container, &variables, &mut around.files)
        .await;
    around.environment.extend(variables);
    around
}

/// What the pod gives a container, without what its image and its runtime add.
pub(super) async fn variables(client: &Client, pod: &Value, container: &Value) -> Data {
    Sources::of(client, pod).variables(pod, container).await
}

/// What images have.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The command with its arguments, and with variables in the place of `$(NAME)`.
pub(super) fn command(container: &Value, environment: &Data) -> Vec<String> {
    let list = |field: &str| container[field].as_array().into_iter().flatten();
    list("command")
        .chain(list("args"))
        .map(|word| expand(text(word), environment))
        .collect()
}

fn expand(text: &str, variables: &Data) -> String {
    expand_with(text, |name| variables.get(name).cloned())
}

/// UPSTREAM: `$(NAME)` is the variable, `$$` a dollar, and what is not known stays.
pub(super) fn expand_with(text: &str, mut value: impl FnMut(&str) -> Option<String>) -> String {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        rest = after;
        if let Some(after) = rest.strip_prefix('$') {
            expanded.push('$');
            rest = after;
        } else if let Some((name, after)) =
            rest.strip_prefix('(').and_then(|one| one.split_once(')'))
        {
            match value(name) {
                Some(value) => expanded.push_str(&value),
                None => expanded.push_str(&format!("$({name})")),
            }
            rest = after;
        } else {
            expanded.push('$');
        }
    }
    expanded + rest
}

impl<'a> Sources<'a> {
    fn of(client: &'a Client, pod: &'a Value) -> Sources<'a> {
        Sources {
            client,
            namespace: text(&pod["metadata"]["namespace"]),
            allocatable: None,
            read: BTreeMap::new(),
        }
    }

    async fn variables(&mut self, pod: &Value, container: &Value) -> Data {
        let links = service_links::variables(self.client, pod).await;
        let mut variables: Data = links.into_iter().collect();
        for from in list(container, "envFrom") {
            let prefix = text(&from["prefix"]);
            for (kind, field) in [("configMap", "configMapRef"), ("secret", "secretRef")] {
                for (key, value) in self.data(kind, text(&from[field]["name"])).await {
                    variables.insert(format!("{prefix}{key}"), value);
                }
            }
        }
        for variable in list(container, "env") {
            let name = text(&variable["name"]).to_owned();
            let from = &variable["valueFrom"];
            let (map, secret) = (&from["configMapKeyRef"], &from["secretKeyRef"]);
            let value = if map.is_object() {
                let data = self.data("configMap", text(&map["name"])).await;
                data.get(text(&map["key"])).cloned()
            } else if secret.is_object() {
                let data = self.data("secret", text(&secret["name"])).await;
                data.get(text(&secret["key"])).cloned()
            } else if from["fieldRef"].is_object() {
                Some(field(pod, text(&from["fieldRef"]["fieldPath"])))
            } else if from["resourceFieldRef"].is_object() {
                Some(
                    self.resource(pod, container, &from["resourceFieldRef"])
                        .await,
                )
            } else {
                Some(expand(text(&variable["value"]), &variables))
            };
            if let Some(value) = value {
                variables.insert(name, value);
            }
        }
        variables
    }

    async fn fill_files(
        &mut self,
        pod: &Value,
        container: &Value,
        variables: &Data,
        files: &mut Files,
    ) {
        for mount in list(container, "volumeMounts") {
            let name = &mount["name"];
            let Some(volume) = list(&pod["spec"], "volumes").find(|one| one["name"] == *name)
            else {
                continue;
            };
            let place = text(&mount["mountPath"]).trim_end_matches('/');
            // With a part that is wrong the container is not created.
            let Ok(part) = sub_paths::of_mount(mount, variables) else {
                continue;
            };
            let part = part.trim_end_matches('/');
            for (path, contents) in self.volume(pod, volume).await {
                let path = normal(&path);
                let rest = path.strip_prefix(part);
                if let Some(rest) = rest.filter(|rest| rest.is_empty() || rest.starts_with('/')) {
                    files.insert(format!("{place}{rest}"), contents);
                }
            }
        }
    }

    /// The files of a volume, by their paths in it.
    async fn volume(&mut self, pod: &Value, volume: &Value) -> Files {
        let mut files = Files::new();
        let own = [volume.clone()];
        let sources = volume["projected"]["sources"].as_array();
        for source in sources.map_or(&own[..], |sources| sources) {
            for (kind, name) in [("configMap", "name"), ("secret", "secretName")] {
                let part = &source[kind];
                let name = match text(&part["name"]) {
                    "" => text(&part[name]),
                    given => given,
                };
                let data = self.data(kind, name).await;
                let items: Vec<&Value> = list(part, "items").collect();
                if items.is_empty() {
                    files.extend(data.into_iter().map(|(key, value)| (key, Ok(value))));
                    continue;
                }
                for item in items {
                    if let Some(value) = data.get(text(&item["key"])) {
                        files.insert(text(&item["path"]).to_owned(), Ok(value.clone()));
                    }
                }
            }
            for item in list(&source["downwardAPI"], "items") {
                let of = &item["resourceFieldRef"];
                let value = if of.is_object() {
                    let container = container_of(pod, text(&of["containerName"]));
                    self.resource(pod, &container, of).await
                } else {
                    field(pod, text(&item["fieldRef"]["fieldPath"]))
                };
                files.insert(text(&item["path"]).to_owned(), Ok(value));
            }
            if let Some(path) = source["serviceAccountToken"]["path"].as_str() {
                let why = "simulated containers are given no token".to_owned();
                files.insert(path.to_owned(), Err(why));
            }
        }
        files
    }

    /// What a container may use or asks for. A limit that is not set is what the node has.
    async fn resource(&mut self, pod: &Value, container: &Value, reference: &Value) -> String {
        let allocatable = match self.allocatable.take() {
            Some(known) => known,
            None => {
                let name = text(&pod["spec"]["nodeName"]);
                let answer = self.client.get(&NODES, "", name).await;
                let node: Value = answer
                    .ok()
                    .and_then(|answer| serde_json::from_slice(&answer).ok())
                    .unwrap_or_default();
                node["status"]["allocatable"].clone()
            }
        };
        let value = downward::resource(container, reference, &allocatable);
        self.allocatable = Some(allocatable);
        value
    }

    /// What a ConfigMap or Secret holds; nothing where there is none.
    async fn data(&mut self, kind: &'static str, name: &str) -> Data {
        if name.is_empty() {
            return Data::new();
        }
        let known = (kind, name.to_owned());
        if let Some(held) = self.read.get(&known) {
            return held.clone();
        }
        let resource = if kind == "secret" {
            &SECRETS
        } else {
            &CONFIG_MAPS
        };
        let answer = self.client.get(resource, self.namespace, name).await;
        let object: Value = answer
            .ok()
            .and_then(|answer| serde_json::from_slice(&answer).ok())
            .unwrap_or_default();
        let entries = |field: &str| object[field].as_object().into_iter().flatten();
        let decoded = |value: &Value| {
            let bytes = STANDARD.decode(text(value)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let plain = entries("data").map(|(key, value)| match kind {
            "secret" => (key.clone(), decoded(value)),
            _ => (key.clone(), text(value).to_owned()),
        });
        let binary = entries("binaryData").map(|(key, value)| (key.clone(), decoded(value)));
        let data: Data = plain.chain(binary).collect();
        self.read.insert(known, data.clone());
        data
    }
}

pub(super) fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value[field].as_array().into_iter().flatten()
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
