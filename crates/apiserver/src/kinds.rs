//! The kinds that the server knows: their names, scope, verbs, subresources and the few storage rules
//! that differ between them. Everything else in the crate asks a [`Kind`] and never compares names itself.
//!
//! Built-in kinds are data (`kinds/table.txt`); custom ones come and go with their definitions.

mod selectable;
mod served;

use crate::crd::CustomVersion;
use crate::crd::schema::Ready;
use api::collections::HashMap;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

pub use served::ServedVersions;

type Text = Cow<'static, str>;

/// One kind at one version.
#[derive(Clone, Debug)]
pub struct Kind {
    /// "" for the core group.
    pub group: Text,
    pub version: Text,
    pub kind: Text,
    pub plural: Text,
    pub singular: Text,
    pub short_names: Vec<Text>,
    pub categories: Vec<Text>,
    pub namespaced: bool,
    pub verbs: Verbs,
    pub subresources: Vec<Subresource>,
    /// Whether the kind's strategy keeps `metadata.generation`.
    pub generation: bool,
    /// Whether a PUT may leave out the resourceVersion.
    pub unconditional_update: bool,
    /// Whether a PUT to a name that does not exist creates it.
    pub create_on_update: bool,
    /// Whether it is served only where kinds that are not stable yet are asked for.
    pub preview: bool,
    /// Field selectors beyond `metadata.name` and `metadata.namespace`.
    pub selectable_fields: Vec<Text>,
    /// Whether versions of the kind have other selectable fields, or others in them: what was noted when an object was
    /// written may be another version's.
    pub(crate) fields_vary: bool,
    pub origin: Origin,
    /// The revision of the definition that gave a custom kind its schema: what was stored before that is pruned and
    /// defaulted anew when it is read.
    pub(crate) schema_since: u64,
    /// The (group, plural) under which objects are stored: `events.k8s.io` shares the core group's events.
    pub storage: (Text, Text),
    pub(crate) head: Head,
}

/// How objects of a kind begin, made when it is first needed: every answer and every event says it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head(OnceLock<(String, String)>);

/// What can be done with a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verbs {
    /// Stored objects with all eight verbs.
    All,
    /// Reviews and bindings: they can be created and nothing is kept.
    CreateOnly,
    /// Made when they are asked for: get and list.
    ReadOnly,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subresource {
    Approval,
    Attach,
    Binding,
    EphemeralContainers,
    Eviction,
    Exec,
    Finalize,
    Log,
    PortForward,
    Proxy,
    Resize,
    Scale,
    Status,
    Token,
}

#[derive(Clone, Debug)]
pub enum Origin {
    BuiltIn,
    Custom(Arc<CustomVersion>),
}

impl Kind {
    /// `v1` or `apps/v1`.
    pub fn api_version(&self) -> &str {
        &self.head().0
    }

    /// `{"kind":"Pod","apiVersion":"v1",` to which a body without its opening brace is added.
    pub(crate) fn type_prefix(&self) -> &str {
        &self.head().1
    }

    fn head(&self) -> &(String, String) {
        self.head.0.get_or_init(|| {
            let (group, version, kind) = (&self.group, &self.version, &self.kind);
            let api_version = match group.is_empty() {
                true => version.to_string(),
                false => format!("{group}/{version}"),
            };
            let prefix = format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",");
            (api_version, prefix)
        })
    }

    /// `deployments.apps`, or `pods` in the core group: how messages name a resource.
    pub fn qualified_plural(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_string()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// True for the built-in kind of that group and name, whatever its version.
    pub fn is(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind && matches!(self.origin, Origin::BuiltIn)
    }

    pub fn has(&self, subresource: Subresource) -> bool {
        self.subresources.contains(&subresource)
    }

    /// Where a kind that makes pods says how they look.
    pub(crate) fn pod_template(&self) -> Option<&'static str> {
        Some(match (&*self.group, &*self.kind) {
            ("", "PodTemplate") => "template",
            ("", "ReplicationController")
            | ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet")
            | ("batch", "Job") => "spec.template",
            ("batch", "CronJob") => "spec.jobTemplate.spec.template",
            _ => return None,
        })
    }

    /// The schema of a custom kind, ready for use.
    pub(crate) fn schema(&self) -> Option<Arc<Ready>> {
        self.custom().map(|version| version.schema.ready())
    }

    pub fn custom(&self) -> Option<&CustomVersion> {
        match &self.origin {
            Origin::BuiltIn => None,
            Origin::Custom(version) => Some(version),
        }
    }
}

impl Subresource {
    pub fn parse(name: &str) -> Option<Subresource> {
        ALL_SUBRESOURCES
            .iter()
            .find(|(_, text)| *text == name)
            .map(|(subresource, _)| *subresource)
    }

    /// What is answered by a container, in its own words.
    pub(crate) fn is_connection(self) -> bool {
        use Subresource::{Attach, Exec, Log, PortForward, Proxy};
        matches!(self, Exec | Attach | PortForward | Log | Proxy)
    }

    pub fn name(self) -> &'static str {
        ALL_SUBRESOURCES
            .iter()
            .find(|(subresource, _)| *subresource == self)
            .map_or("", |(_, text)| text)
    }
}

const ALL_SUBRESOURCES: [(Subresource, &str); 14] = [
    (Subresource::Approval, "approval"),
    (Subresource::Attach, "attach"),
    (Subresource::Binding, "binding"),
    (Subresource::EphemeralContainers, "ephemeralcontainers"),
    (Subresource::Eviction, "eviction"),
    (Subresource::Exec, "exec"),
    (Subresource::Finalize, "finalize"),
    (Subresource::Log, "log"),
    (Subresource::PortForward, "portforward"),
    (Subresource::Proxy, "proxy"),
    (Subresource::Resize, "resize"),
    (Subresource::Scale, "scale"),
    (Subresource::Status, "status"),
    (Subresource::Token, "token"),
];

/// Every built-in kind, in the table's order.
pub fn built_in() -> &'static [Arc<Kind>] {
    static KINDS: OnceLock<Vec<Arc<Kind>>> = OnceLock::new();
    KINDS.get_or_init(|| {
        let lines = include_str!("kinds/table.txt").lines();
        lines
            .filter(|line| !line.starts_with('#'))
            .filter_map(parse_line)
            .map(Arc::new)
            .collect()
    })
}

/// The built-in kind of that group and name ("Pod"), at the first version the table lists.
pub fn find(group: &str, kind: &str) -> Option<&'static Arc<Kind>> {
    static PLACES: OnceLock<HashMap<(&str, &str), usize>> = OnceLock::new();
    let places = PLACES.get_or_init(|| {
        let mut places = HashMap::default();
        for (place, kind) in built_in().iter().enumerate() {
            // The first version counts.
            places.entry((&*kind.kind, &*kind.group)).or_insert(place);
        }
        places
    });
    let place = places.get(&(kind, group))?;
    built_in().get(*place)
}

/// Kinds that are served only where they are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extra {
    /// What simulated pods and nodes use, as a metrics server would say it.
    pub usage: bool,
    /// Those that are not stable yet, which upstream has behind `--runtime-config` and gates.
    pub previews: bool,
}

/// The kinds being served: the built-in ones and those of the established definitions.
#[derive(Clone, Debug)]
pub struct Registry {
    /// In the order of group, version and plural: discovery shows it, and every request looks something up.
    kinds: Vec<Arc<Kind>>,
    /// The revisions of the definitions that kinds were made of, by name.
    definitions: BTreeMap<Arc<str>, u64>,
}

impl Default for Registry {
    fn default() -> Self {
        let mut kinds = built_in().to_vec();
        kinds.retain(|kind| !kind.preview);
        kinds.sort_by(|one, two| key(one).cmp(&key(two)));
        Registry {
            kinds,
            definitions: BTreeMap::new(),
        }
    }
}

impl Registry {
    /// The built-in kinds, and those that a server was asked for.
    pub(crate) fn serving(extra: Extra, served: &ServedVersions) -> Registry {
        let mut registry = Registry::default();
        registry.kinds.retain(|kind| served.has(kind));
        let previews = built_in().iter().filter(|kind| kind.preview);
        previews
            .filter(|kind| extra.previews || served.asks_for(kind))
            .for_each(|kind| registry.insert(Arc::clone(kind)));
        if extra.usage {
            let kinds = USAGE.iter().filter_map(|line| parse_line(line));
            kinds.for_each(|kind| registry.insert(kind));
        }
        registry
    }

    pub fn resource(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Kind>> {
        let place = self.place((group, version, plural)).ok()?;
        self.kinds.get(place)
    }

    /// By apiVersion and kind, as an object names itself.
    pub fn kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Kind>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.iter()
            .find(|k| k.group == group && k.version == version && k.kind == kind)
    }

    pub fn insert(&mut self, kind: impl Into<Arc<Kind>>) {
        let kind = kind.into();
        match self.place(key(&kind)) {
            Ok(place) => self.kinds[place] = kind,
            Err(place) => self.kinds.insert(place, kind),
        }
    }

    /// The names of the definitions whose kinds are served.
    pub(crate) fn definitions(&self) -> impl Iterator<Item = &Arc<str>> {
        self.definitions.keys()
    }

    /// The revision of a definition whose kinds are served.
    pub(crate) fn revision_of(&self, definition: &str) -> Option<u64> {
        self.definitions.get(definition).copied()
    }

    /// Removes the kinds of a definition.
    pub(crate) fn forget(&mut self, definition: &str) {
        if self.definitions.remove(definition).is_some()
            && let Some((plural, group)) = definition.split_once('.')
        {
            self.remove_custom(group, plural);
        }
    }

    /// Adds the kinds of a definition.
    pub(crate) fn define(&mut self, name: Arc<str>, revision: u64, kinds: Vec<Arc<Kind>>) {
        kinds.into_iter().for_each(|kind| self.insert(kind));
        self.definitions.insert(name, revision);
    }

    /// Removes every custom kind of a (group, plural).
    pub fn remove_custom(&mut self, group: &str, plural: &str) {
        self.kinds
            .retain(|k| k.custom().is_none() || k.group != group || k.plural != plural);
    }

    /// In the order of group, version, plural.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.kinds.iter()
    }

    /// Whether a resource is served at any version.
    pub(crate) fn serves(&self, group: &str, plural: &str) -> bool {
        let mut kinds = self.iter();
        kinds.any(|kind| kind.group == group && kind.plural == plural)
    }

    pub fn has_group(&self, group: &str) -> bool {
        let next = self.next_to(group, "");
        next.is_some_and(|kind| kind.group == group)
    }

    pub fn has_group_version(&self, group: &str, version: &str) -> bool {
        let next = self.next_to(group, version);
        next.is_some_and(|kind| kind.group == group && kind.version == version)
    }

    fn next_to(&self, group: &str, version: &str) -> Option<&Arc<Kind>> {
        let place = self.place((group, version, ""));
        self.kinds.get(place.unwrap_or_else(|place| place))
    }

    /// Where the kind is, or where it would be.
    fn place(&self, wanted: (&str, &str, &str)) -> Result<usize, usize> {
        self.kinds.binary_search_by(|kind| key(kind).cmp(&wanted))
    }
}

fn key(kind: &Kind) -> (&str, &str, &str) {
    (&kind.group, &kind.version, &kind.plural)
}

/// The kinds of a metrics server and of an adapter for other metrics, as in the table. The paths of the adapter's name
/// objects and metrics; its one resource stands for all of them, so that clients find its groups.
const USAGE: [&str; 5] = [
    "custom.metrics.k8s.io/v1beta1 MetricValueList metrics - - no -",
    "custom.metrics.k8s.io/v1beta2 MetricValueList metrics - - no -",
    "external.metrics.k8s.io/v1beta1 ExternalMetricValueList externalmetrics - - no -",
    "metrics.k8s.io/v1beta1 NodeMetrics nodes - - o -",
    "metrics.k8s.io/v1beta1 PodMetrics pods - - no -",
];

fn parse_line(line: &'static str) -> Option<Kind> {
    let mut words = line.split(' ');
    let api_version = words.next()?;
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let (kind, plural) = (words.next()?, words.next()?);
    let short_names = list(words.next()?);
    let categories = list(words.next()?);
    let flags = words.next()?;
    let subresources = list(words.next()?)
        .iter()
        .filter_map(|name| Subresource::parse(name))
        .collect();
    let storage_group = if group == "events.k8s.io" { "" } else { group };
    Some(Kind {
        group: group.into(),
        version: version.into(),
        kind: kind.into(),
        plural: plural.into(),
        singular: kind.to_lowercase().into(),
        short_names,
        categories,
        namespaced: flags.contains('n'),
        verbs: match flags {
            flags if flags.contains('r') => Verbs::CreateOnly,
            flags if flags.contains('o') => Verbs::ReadOnly,
            _ => Verbs::All,
        },
        subresources,
        generation: flags.contains('g'),
        unconditional_update: !flags.contains('p'),
        create_on_update: flags.contains('c'),
        preview: flags.contains('a'),
        selectable_fields: selectable::fields(group, kind)
            .iter()
            .map(|field| Cow::Borrowed(*field))
            .collect(),
        fields_vary: false,
        origin: Origin::BuiltIn,
        schema_since: 0,
        storage: (storage_group.into(), plural.into()),
        head: Head::default(),
    })
}

fn list(word: &'static str) -> Vec<Text> {
    if word == "-" {
        Vec::new()
    } else {
        word.split(',').map(Cow::Borrowed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_a_kind() {
        let lines = include_str!("kinds/table.txt")
            .lines()
            .filter(|line| !line.starts_with('#'))
            .count();
        assert_eq!(built_in().len(), lines);
    }

    #[test]
    fn rules_of_some_kinds() {
        let pod = find("", "Pod").unwrap();
        assert!(
            pod.namespaced && pod.generation && pod.unconditional_update && !pod.create_on_update
        );
        assert!(pod.has(Subresource::Eviction) && !pod.has(Subresource::Scale));
        let lease = find("coordination.k8s.io", "Lease").unwrap();
        assert!(!lease.unconditional_update && lease.create_on_update);
        assert_eq!(find("events.k8s.io", "Event").unwrap().storage.0, "");
        assert_eq!(
            find("authorization.k8s.io", "SubjectAccessReview")
                .unwrap()
                .verbs,
            Verbs::CreateOnly
        );
    }

    #[test]
    fn registry_finds_by_resource_and_by_kind() {
        let registry = Registry::default();
        assert_eq!(
            registry.resource("apps", "v1", "deployments").unwrap().kind,
            "Deployment"
        );
        assert_eq!(
            registry
                .kind("autoscaling/v1", "HorizontalPodAutoscaler")
                .unwrap()
                .version,
            "v1"
        );
        assert!(registry.resource("apps", "v2", "deployments").is_none());
    }
}
