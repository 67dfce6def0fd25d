//! What the API server serves: every resource of every version, with its verbs.
//!
//! The garbage collector and the namespace controller work on whatever there is, custom resources
//! included. They ask through aggregated discovery: two requests for everything.

mod monitor;

use std::fmt;
use std::sync::Arc;

use api::ResourceType;
use bytes::Bytes;
use client::{Client, Conditional};
use futures_util::future::try_join;
use http::Request;
use http::header::{ACCEPT, HeaderValue};
use serde::Deserialize;
use tracing::warn;

pub(crate) use monitor::Monitor;

/// What was found, and which group versions could not be asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovery {
    pub resources: Vec<Served>,
    /// Group versions whose server did not answer: their resources are unknown, not gone.
    pub failed: Vec<GroupVersion>,
}

/// One resource in one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    pub resource: ResourceType,
    /// What else people call it: `deployment`, `deploy`.
    pub other_names: Vec<String>,
    pub verbs: Vec<String>,
    /// Has it a subresource `scale` that speaks of a Scale?
    pub has_scale: bool,
    /// The version of this resource that the server would rather be asked for.
    pub preferred: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupVersion {
    pub group: String,
    pub version: String,
}

#[derive(Debug, thiserror::Error)]
pub enum DiscoveryError {
    #[error(transparent)]
    Client(#[from] client::Error),
    #[error(
        "GET {path} was not answered with aggregated discovery (Kubernetes 1.30 and newer have it)"
    )]
    Unreadable {
        path: &'static str,
        #[source]
        source: serde_json::Error,
    },
}

/// Asks the server for all that it serves.
pub async fn discover(client: &Client) -> Result<Discovery, DiscoveryError> {
    let known = refresh(client, &Known::default()).await?;
    Ok(Arc::unwrap_or_clone(known.found))
}

/// What was found, and how to ask whether it is still true.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub found: Arc<Discovery>,
    /// Of the core group's document and of that of all others.
    tags: [Option<HeaderValue>; 2],
}

/// Asks again, which costs next to nothing while nothing has changed.
pub async fn refresh(client: &Client, known: &Known) -> Result<Known, DiscoveryError> {
    let [core, groups] = &known.tags;
    let [core, groups] = fetch(client, [core.as_ref(), groups.as_ref()]).await?;
    let documents = match (core, groups) {
        (Conditional::Unchanged, Conditional::Unchanged) => return Ok(known.clone()),
        (core @ Conditional::Changed { .. }, groups @ Conditional::Changed { .. }) => {
            [core, groups]
        }
        // What the other one said is not kept.
        _ => fetch(client, [None, None]).await?,
    };
    let mut found = Discovery::default();
    let mut tags = [None, None];
    for (at, document) in documents.into_iter().enumerate() {
        if let Conditional::Changed { body, tag } = document {
            found.read(PATHS[at], &body)?;
            tags[at] = tag;
        }
    }
    let found = Arc::new(found);
    Ok(Known { found, tags })
}

/// As [`refresh`], for those who go on with what they know where the server cannot say: why, and what it does not know, goes
/// to the log.
pub(crate) async fn refresh_or_warn(client: &Client, known: &Known) -> Option<Known> {
    let reason = match refresh(client, known).await {
        Ok(known) if !known.found.resources.is_empty() => {
            if let Some(failure) = known.found.failure() {
                warn!(
                    failure,
                    "some groups were not discovered; what is known of them stays"
                );
            }
            return Some(known);
        }
        Ok(_) => "discovery reports no resources".to_owned(),
        Err(error) => client::describe(&error),
    };
    warn!(
        reason,
        "cannot ask for new kinds, going on with those that are known"
    );
    None
}

impl Discovery {
    /// Each resource once, in the version that the server prefers, if it knows all these verbs.
    pub fn preferred(&self, verbs: &[&str]) -> impl Iterator<Item = &Served> {
        self.resources
            .iter()
            .filter(move |served| served.preferred && verbs.iter().all(|verb| served.can(verb)))
    }

    /// The resource that an `apiVersion` and `kind` mean. One that is not served means nothing, also if
    /// another version is: an owner that cannot be asked for must not count as gone.
    pub fn find(&self, api_version: &str, kind: &str) -> Option<&ResourceType> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let mut served = self.resources.iter().map(|served| &served.resource);
        served.find(|resource| {
            resource.kind == kind && resource.group == group && resource.version == version
        })
    }

    /// Resources that are not in what was found later. Those whose server did not answer are unknown, not missing.
    pub fn missing_from(&self, later: &Discovery) -> Vec<ResourceType> {
        let is_missing = |resource: &&ResourceType| {
            let stays = later
                .resources
                .iter()
                .any(|served| served.resource == **resource);
            !stays && !later.is_unknown(resource)
        };
        let resources = self.resources.iter().map(|served| &served.resource);
        resources.filter(is_missing).cloned().collect()
    }

    /// Could nobody say whether this is served?
    pub(crate) fn is_unknown(&self, resource: &ResourceType) -> bool {
        self.failed
            .iter()
            .any(|failed| *failed.group == *resource.group && *failed.version == *resource.version)
    }

    /// The resource of a group in the version that the server prefers.
    pub fn preferred_version(&self, group: &str, plural: &str) -> Option<&Served> {
        self.preferred(&[])
            .find(|served| served.resource.group == group && served.resource.plural == plural)
    }

    /// The resource that a person means by `deploy`, `deployments`, `Deployment` or `deployments.apps`.
    pub fn named(&self, name: &str) -> Option<&ResourceType> {
        let name = name.to_lowercase();
        let (name, group) = name.split_once('.').unwrap_or((&name, ""));
        self.preferred(&[])
            .find(|served| {
                let resource = &served.resource;
                let known = resource.plural == name
                    || resource.kind.to_lowercase() == name
                    || served.other_names.iter().any(|other| other == name);
                known && (group.is_empty() || resource.group.starts_with(group))
            })
            .map(|served| &served.resource)
    }

    /// Upstream's words for group versions that did not answer; `None` when all did.
    pub fn failure(&self) -> Option<String> {
        if self.failed.is_empty() {
            return None;
        }
        let groups: Vec<String> = self
            .failed
            .iter()
            .map(|version| format!("{version}: stale GroupVersion discovery: {version}"))
            .collect();
        Some(format!(
            "unable to retrieve the complete list of server APIs: {}",
            groups.join(", ")
        ))
    }

    fn read(&mut self, path: &'static str, document: &[u8]) -> Result<(), DiscoveryError> {
        let list: GroupList = serde_json::from_slice(document)
            .map_err(|source| DiscoveryError::Unreadable { path, source })?;
        list.items.into_iter().for_each(|group| self.add(group));
        Ok(())
    }

    fn add(&mut self, group: Group) {
        let name = group.metadata.name;
        let begin = self.resources.len();
        for version in group.versions {
            if version.freshness == "Stale" {
                self.failed.push(GroupVersion {
                    group: name.clone(),
                    version: version.version,
                });
                continue;
            }
            for resource in version.resources {
                let Some(kind) = resource.response_kind.filter(|kind| !kind.kind.is_empty()) else {
                    continue;
                };
                // Versions come in the server's order of preference.
                let preferred = !self.resources[begin..]
                    .iter()
                    .any(|known| known.resource.plural == resource.resource);
                self.resources.push(Served {
                    resource: ResourceType {
                        group: name.clone().into(),
                        version: version.version.clone().into(),
                        plural: resource.resource.into(),
                        kind: kind.kind.into(),
                        namespaced: resource.scope == "Namespaced",
                    },
                    other_names: resource
                        .short_names
                        .into_iter()
                        .chain([resource.singular_resource])
                        .filter(|name| !name.is_empty())
                        .collect(),
                    verbs: resource.verbs,
                    has_scale: resource.subresources.iter().any(WireSubresource::is_scale),
                    preferred,
                });
            }
        }
    }
}

impl Served {
    pub fn can(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.group.is_empty() {
            write!(f, "{}/", self.group)?;
        }
        f.write_str(&self.version)
    }
}

/// Where the core group is told of, and where all others are.
const PATHS: [&str; 2] = ["/api", "/apis"];

async fn fetch(
    client: &Client,
    tags: [Option<&HeaderValue>; 2],
) -> Result<[Conditional; 2], client::Error> {
    const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
    let get = |at: usize| {
        let request = Request::get(PATHS[at])
            .header(ACCEPT, AGGREGATED)
            .body(Bytes::new())
            .expect("a constant path and header");
        client.request_unless(request, tags[at])
    };
    let (core, groups) = try_join(get(0), get(1)).await?;
    Ok([core, groups])
}

#[derive(Deserialize)]
struct GroupList {
    items: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    metadata: GroupMeta,
    #[serde(default)]
    versions: Vec<Version>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct GroupMeta {
    name: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Version {
    version: String,
    freshness: String,
    resources: Vec<WireResource>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireResource {
    resource: String,
    singular_resource: String,
    short_names: Vec<String>,
    response_kind: Option<WireKind>,
    scope: String,
    verbs: Vec<String>,
    subresources: Vec<WireSubresource>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireSubresource {
    subresource: String,
    response_kind: Option<WireKind>,
}

impl WireSubresource {
    /// Something else of that name cannot be read.
    fn is_scale(&self) -> bool {
        let kind = self.response_kind.as_ref().map(|kind| &*kind.kind);
        self.subresource == "scale" && kind == Some("Scale")
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireKind {
    kind: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn discovery(groups: &str) -> Discovery {
        let mut found = Discovery::default();
        found.read("/apis", groups.as_bytes()).unwrap();
        found
    }

    fn example() -> Discovery {
        discovery(
            r#"{"items":[
            {"metadata":{"creationTimestamp":null},"versions":[{"version":"v1","freshness":"Current","resources":[
                {"resource":"pods","responseKind":{"kind":"Pod"},"scope":"Namespaced","verbs":["delete","list"]},
                {"resource":"bare","scope":"Namespaced","verbs":[]}]}]},
            {"metadata":{"name":"a.io"},"versions":[
                {"version":"v2","resources":[{"resource":"xs","singularResource":"x","shortNames":["ex"],"responseKind":{"kind":"X"},"scope":"Cluster","verbs":["list"]}]},
                {"version":"v1","resources":[{"resource":"xs","responseKind":{"kind":"X"},"scope":"Cluster","verbs":["list"]},
                                             {"resource":"ys","responseKind":{"kind":"Y"},"scope":"Cluster","verbs":["list"]}]}]},
            {"metadata":{"name":"m.io"},"versions":[{"version":"v1beta1","freshness":"Stale"}]}]}"#,
        )
    }

    #[test]
    fn each_resource_is_preferred_in_one_version() {
        let found = example();
        let preferred: Vec<String> = found
            .preferred(&["list"])
            .map(|served| {
                format!(
                    "{} {}",
                    served.resource.api_version(),
                    served.resource.plural
                )
            })
            .collect();
        assert_eq!(preferred, ["v1 pods", "a.io/v2 xs", "a.io/v1 ys"]);
        assert_eq!(found.preferred(&["list", "delete"]).count(), 1);
    }

    #[test]
    fn a_kind_is_found_in_the_version_that_was_named() {
        let found = example();
        let version = |api_version: &str, kind: &str| {
            found
                .find(api_version, kind)
                .map(|resource| resource.version.to_string())
        };
        assert_eq!(version("a.io/v1", "X").as_deref(), Some("v1"));
        assert_eq!(version("a.io/v2", "X").as_deref(), Some("v2"));
        assert_eq!(version("a.io/v9", "X"), None, "not served");
        assert_eq!(version("v1", "Pod").as_deref(), Some("v1"));
        assert_eq!(version("b.io/v1", "X"), None);
        assert_eq!(version("", ""), None);
    }

    #[test]
    fn a_scale_is_what_speaks_of_one() {
        let found = discovery(
            r#"{"items":[{"metadata":{"name":"a.io"},"versions":[{"version":"v1","resources":[
                {"resource":"as","responseKind":{"kind":"A"},"subresources":[{"subresource":"status","responseKind":{"kind":"A"}},
                    {"subresource":"scale","responseKind":{"group":"autoscaling","version":"v1","kind":"Scale"}}]},
                {"resource":"bs","responseKind":{"kind":"B"},"subresources":[{"subresource":"scale","responseKind":{"kind":"B"}}]},
                {"resource":"cs","responseKind":{"kind":"C"}}]}]}]}"#,
        );
        let scales: Vec<bool> = found
            .resources
            .iter()
            .map(|served| served.has_scale)
            .collect();
        assert_eq!(scales, [true, false, false]);
    }

    #[test]
    fn people_call_a_resource_by_many_names() {
        let found = example();
        let named = |name: &str| {
            found
                .named(name)
                .map(|resource| resource.plural.to_string())
        };
        for name in ["xs", "x", "ex", "X", "xs.a.io", "x.a"] {
            assert_eq!(named(name).as_deref(), Some("xs"), "{name}");
        }
        assert_eq!(named("pod").as_deref(), Some("pods"));
        assert_eq!((named("xs.b.io"), named("nope")), (None, None));
    }

    #[test]
    fn a_group_that_does_not_answer_is_named() {
        assert_eq!(
            example().failure().as_deref(),
            Some(
                "unable to retrieve the complete list of server APIs: m.io/v1beta1: stale GroupVersion discovery: m.io/v1beta1"
            )
        );
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_not_changed_is_not_read_again() {
        let world = testkit::World::new().await;
        let first = refresh(&world.client, &Known::default()).await.unwrap();
        assert!(first.found.named("deploy").is_some());
        let second = refresh(&world.client, &first).await.unwrap();
        assert!(Arc::ptr_eq(&first.found, &second.found));
        world.define_widgets().await;
        world.wait_until_idle().await;
        let third = refresh(&world.client, &second).await.unwrap();
        assert!(third.found.named("widgets").is_some());
        assert!(third.found.named("pods").is_some(), "asked for anew");
    }
}
