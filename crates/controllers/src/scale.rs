//! The scale of anything: how many replicas an object of any kind is meant to have, through its subresource `scale`.
//!
//! Which resource an `apiVersion` and `kind` mean is known from discovery, which is asked again when a kind is not
//! known yet, or when what it led to is gone: but not by each of many who look for what is not there.

use std::time::Duration;

use api::syntax::go_quote;
use api::{Meta, ResourceType};
use client::Client;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use crate::discovery::{Discovery, DiscoveryError, Known, refresh};

/// For so long an answer of discovery is as good as another one.
const SHARED: Duration = Duration::from_secs(2);

/// Reads and writes scales.
pub struct Scales {
    client: Client,
    discovered: Mutex<Discovered>,
}

#[derive(Clone, Default)]
struct Discovered {
    known: Known,
    asked_at: Option<Instant>,
}

/// What the subresource says.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Scale {
    pub metadata: Meta,
    pub spec: ScaleSpec,
    pub status: ScaleStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ScaleSpec {
    pub replicas: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ScaleStatus {
    pub replicas: i32,
    /// Selects the pods, as in the query of a list; empty if the kind does not say.
    pub selector: String,
}

/// Why a scale is not known, in upstream's words.
#[derive(Debug, thiserror::Error)]
pub enum ScaleError {
    #[error("unexpected GroupVersion string: {0}")]
    GroupVersion(String),
    #[error("no matches for kind {} in {place}", go_quote(kind))]
    NoMatch { kind: String, place: String },
    #[error("{0} does not implement the scale subresource")]
    NotScalable(String),
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    #[error(transparent)]
    Client(#[from] client::Error),
}

impl Scales {
    pub fn new(client: &Client) -> Scales {
        Scales {
            client: client.clone(),
            discovered: Mutex::default(),
        }
    }

    /// The resource of one kind in one version.
    pub async fn resource(
        &self,
        api_version: &str,
        kind: &str,
    ) -> Result<ResourceType, ScaleError> {
        let group_version = parse_group_version(api_version)?;
        let found = self
            .look_up(|discovery| discovery.find(group_version, kind).cloned())
            .await?;
        found.ok_or_else(|| ScaleError::NoMatch {
            kind: kind.to_owned(),
            place: format!("version {}", go_quote(group_version)),
        })
    }

    /// Every resource of a kind in its group, whatever the version, in the server's order of preference.
    pub async fn resources(
        &self,
        api_version: &str,
        kind: &str,
    ) -> Result<Vec<ResourceType>, ScaleError> {
        let group_version = parse_group_version(api_version)?;
        let group = group_version.split_once('/').map_or("", |(group, _)| group);
        let of_kind = |discovery: &Discovery| {
            let served = discovery.resources.iter().map(|served| &served.resource);
            let found: Vec<ResourceType> = served
                .filter(|resource| resource.group == group && resource.kind == kind)
                .cloned()
                .collect();
            (!found.is_empty()).then_some(found)
        };
        let found = self.look_up(of_kind).await?;
        found.ok_or_else(|| ScaleError::NoMatch {
            kind: kind.to_owned(),
            place: format!("group {}", go_quote(group)),
        })
    }

    /// The scale of an object. None if there is no such object; an error if its kind has no scale.
    pub async fn get(
        &self,
        resource: &ResourceType,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Scale>, ScaleError> {
        match self.read(resource, namespace, name).await {
            Ok(scale) => Ok(Some(scale)),
            Err(error) if error.is_not_found() => {
                let known = self.refresh().await?;
                let version = known.found.resources.iter();
                let mut version = version.filter(|served| served.resource == *resource);
                match version.next().is_some_and(|served| served.has_scale) {
                    true => Ok(None),
                    false => Err(ScaleError::NotScalable(resource.to_string())),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The scale of an object as the server answers it, which may be that there is none.
    pub async fn read(
        &self,
        resource: &ResourceType,
        namespace: &str,
        name: &str,
    ) -> Result<Scale, client::Error> {
        let resource = self.preferred(resource);
        let answer = self
            .client
            .get_subresource(&resource, namespace, name, "scale")
            .await?;
        decode(&format!("GET {resource}/{name}/scale"), &answer)
    }

    /// Asks for another number of replicas, of the scale that was read and no other.
    pub async fn update(
        &self,
        resource: &ResourceType,
        scale: &Scale,
        replicas: i32,
    ) -> Result<(), client::Error> {
        let resource = self.preferred(resource);
        let meta = &scale.metadata;
        let body = json!({
            "apiVersion": "autoscaling/v1", "kind": "Scale",
            "metadata": meta,
            "spec": {"replicas": replicas},
            "status": {"replicas": scale.status.replicas, "selector": scale.status.selector},
        });
        let (namespace, name) = (&*meta.namespace, &*meta.name);
        self.client
            .replace(&resource, namespace, name, Some("scale"), body.to_string())
            .await
            .map(drop)
    }

    /// UPSTREAM: scales are asked for in the version that the server prefers, whatever the reference says.
    fn preferred(&self, resource: &ResourceType) -> ResourceType {
        let found = self.discovered.lock().known.found.clone();
        let served = found.preferred_version(&resource.group, &resource.plural);
        served.map_or_else(|| resource.clone(), |served| served.resource.clone())
    }

    /// Finds something in what is served; asks the server again if it is not there.
    async fn look_up<T>(
        &self,
        find: impl Fn(&Discovery) -> Option<T>,
    ) -> Result<Option<T>, DiscoveryError> {
        let known = self.discovered.lock().known.found.clone();
        match find(&known) {
            Some(found) => Ok(Some(found)),
            None => Ok(find(&self.refresh().await?.found)),
        }
    }

    async fn refresh(&self) -> Result<Known, DiscoveryError> {
        let Discovered { known, asked_at } = self.discovered.lock().clone();
        if asked_at.is_some_and(|at| at.elapsed() < SHARED) {
            return Ok(known);
        }
        let known = refresh(&self.client, &known).await?;
        *self.discovered.lock() = Discovered {
            known: known.clone(),
            asked_at: Some(Instant::now()),
        };
        Ok(known)
    }
}

/// As upstream reads it: `apps/v1`, `v1`, and `/v1` for the core group.
fn parse_group_version(api_version: &str) -> Result<&str, ScaleError> {
    match api_version.matches('/').count() {
        0 | 1 => Ok(api_version.strip_prefix('/').unwrap_or(api_version)),
        _ => Err(ScaleError::GroupVersion(api_version.to_owned())),
    }
}

fn decode(request: &str, answer: &[u8]) -> Result<Scale, client::Error> {
    serde_json::from_slice(answer).map_err(|source| client::Error::decode(request, answer, source))
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Resource;
    use api::kinds::ReplicaSet;
    use testkit::World;

    async fn world() -> (World, Scales) {
        let world = World::new().await;
        let scales = Scales::new(&world.client);
        let set = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]}}},
        });
        world.create(&ReplicaSet::TYPE, set).await;
        (world, scales)
    }

    #[tokio::test(start_paused = true)]
    async fn reads_and_writes_the_scale_of_a_kind_that_discovery_knows() {
        let (world, scales) = world().await;
        let resource = scales.resource("apps/v1", "ReplicaSet").await.unwrap();
        let scale = scales.get(&resource, "default", "web").await.unwrap();
        let scale = scale.unwrap();
        assert_eq!(
            (scale.spec.replicas, &*scale.status.selector),
            (3, "app=web")
        );
        scales.update(&resource, &scale, 5).await.unwrap();
        let set = world.get(&ReplicaSet::TYPE, "web").await.unwrap();
        assert_eq!(set["spec"]["replicas"], 5);
        let again = scales.update(&resource, &scale, 7).await;
        assert!(again.unwrap_err().is_conflict(), "it was read before");
        let gone = scales.get(&resource, "default", "gone").await;
        assert_eq!(gone.unwrap(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn says_in_upstreams_words_why_there_is_no_scale() {
        let (_world, scales) = world().await;
        let why = |api_version: &'static str, kind: &'static str| {
            let scales = &scales;
            async move {
                let resource = match scales.resource(api_version, kind).await {
                    Ok(resource) => resource,
                    Err(error) => return error.to_string(),
                };
                let got = scales.get(&resource, "default", "x").await;
                got.unwrap_err().to_string()
            }
        };
        assert_eq!(
            why("a/b/c", "X").await,
            "unexpected GroupVersion string: a/b/c"
        );
        assert_eq!(
            why("example.com/v1", "Widget").await,
            "no matches for kind \"Widget\" in version \"example.com/v1\""
        );
        assert_eq!(
            why("apps/v1", "DaemonSet").await,
            "daemonsets.apps does not implement the scale subresource"
        );
        let none = scales.resources("example.com/v1", "Widget").await;
        assert_eq!(
            none.unwrap_err().to_string(),
            "no matches for kind \"Widget\" in group \"example.com\""
        );
        let all = scales.resources("apps/v9", "ReplicaSet").await.unwrap();
        assert_eq!(all.len(), 1, "any version will do");
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_lookups_of_a_missing_object_share_an_answer() {
        let (world, scales) = world().await;
        let before = world.reads_of("/apis");
        for _ in 0..50 {
            assert!(scales.resource("example.com/v1", "Widget").await.is_err());
        }
        assert_eq!(world.reads_of("/apis") - before, 1);
        tokio::time::sleep(SHARED).await;
        assert!(scales.resource("example.com/v1", "Widget").await.is_err());
        assert_eq!(world.reads_of("/apis") - before, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_kind_that_is_defined_later_is_found() {
        let (world, scales) = world().await;
        assert!(scales.resource("example.com/v1", "Widget").await.is_err());
        world.define_widgets().await;
        world.wait_until_idle().await;
        let resource = scales.resource("example.com/v1", "Widget").await.unwrap();
        let got = scales.get(&resource, "default", "x").await;
        assert_eq!(
            got.unwrap_err().to_string(),
            "widgets.example.com does not implement the scale subresource"
        );
    }
}
