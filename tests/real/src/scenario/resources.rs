//! The kinds that scenarios speak of, and their paths.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use anyhow::{Result, bail};

use crate::manager;

/// What is written in the course of decisions about something else.
const WRITTEN_BESIDE: [&str; 4] = [
    "controllerrevisions",
    "endpoints",
    "endpointslices",
    "serviceaccounts",
];

/// What is decided about and belongs to no record: of these users write all but the status, and scenarios wait for
/// what that says.
const NOT_RECORDED: [&str; 5] = [
    "devicetaintrules",
    "horizontalpodautoscalers",
    "poddisruptionbudgets",
    "podgroups",
    "services",
];

/// A kind of the API.
pub(crate) struct Kind {
    /// As in a target like `deployment/web`: that of a manifest in lower case.
    pub(crate) target: String,
    /// The path of its group and version.
    path: String,
    pub(crate) plural: &'static str,
    /// As in a target like `pvc/data`.
    short_names: Vec<&'static str>,
    /// Scenarios share a cluster, so objects without a namespace carry the scenario's in front of their names.
    pub(crate) namespaced: bool,
}

/// All kinds, those of the preferred version first. The table is our API server's; scenarios ask kube-apiserver for the
/// same paths, so that a wrong line fails there.
static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    let table = include_str!("../../../../crates/apiserver/src/kinds/table.txt");
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(Kind::read).collect()
});

impl Kind {
    /// `autoscaling/v2 HorizontalPodAutoscaler horizontalpodautoscalers hpa all n status`
    fn read(line: &'static str) -> Option<Kind> {
        let columns: Vec<&str> = line.split(' ').collect();
        let [version, kind, plural, short_names, _, flags, _] = columns[..] else {
            return None;
        };
        let root = if version.contains('/') { "apis" } else { "api" };
        let short_names = short_names.split(',').filter(|name| *name != "-");
        Some(Kind {
            target: kind.to_lowercase(),
            path: format!("/{root}/{version}"),
            plural,
            short_names: short_names.collect(),
            namespaced: flags.contains('n'),
        })
    }

    fn is(&self, name: &str) -> bool {
        self.target == name.to_lowercase() || self.short_names.contains(&name)
    }
}

/// The plurals of what controllers decide about as long as nobody turns a feature on.
fn decided() -> BTreeSet<&'static str> {
    let acting = manager::ours().iter().filter(|one| one.acts_by_default());
    let decided = acting.flat_map(|one| &one.decides_about);
    decided.map(|resource| manager::plural(resource)).collect()
}

/// What the final state of a scenario consists of: whatever the controllers write.
pub(crate) fn recorded() -> impl Iterator<Item = &'static Kind> {
    let mut plurals = decided();
    plurals.extend(WRITTEN_BESIDE);
    plurals.retain(|plural| !NOT_RECORDED.contains(plural));
    plurals.into_iter().map(|plural| {
        let found = KINDS.iter().find(|kind| kind.plural == plural);
        found.unwrap_or_else(|| panic!("the table has no {plural}"))
    })
}

pub(super) fn stale_exceptions() -> Vec<&'static str> {
    let decided = decided();
    let unknown = NOT_RECORDED.into_iter().filter(|it| !decided.contains(it));
    let needless = WRITTEN_BESIDE.into_iter().filter(|it| decided.contains(it));
    unknown.chain(needless).collect()
}

fn find(kind: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|known| known.is(kind))
}

/// The path of all objects of a kind in a namespace, or of a kind that has none.
pub(crate) fn collection(kind: &str, namespace: &str) -> Result<String> {
    let Some(known) = find(kind) else {
        let targets: Vec<&str> = KINDS.iter().map(|known| &*known.target).collect();
        let targets = targets.join(", ");
        bail!("there is no kind {kind:?} in the API; there are: {targets}");
    };
    let Kind { path, plural, .. } = known;
    Ok(match known.namespaced {
        true => format!("{path}/namespaces/{namespace}/{plural}"),
        false => format!("{path}/{plural}"),
    })
}

/// The path of all objects of a kind in all namespaces.
pub(crate) fn everywhere(kind: &str) -> Result<String> {
    let path = collection(kind, "")?;
    Ok(path.replace("/namespaces//", "/"))
}

/// The name of a kind in paths; its own where the API has no such kind.
pub(crate) fn plural(kind: &str) -> &str {
    find(kind).map_or(kind, |known| known.plural)
}

/// The path of a target like `deployment/web`, or `far:deployment/web` in the scenario's second namespace
/// `far`, or `/kube-system:configmap/x` in a namespace that belongs to no scenario.
pub(crate) fn object(target: &str, namespace: &str) -> Result<String> {
    if let Some((absolute, target)) = target.strip_prefix('/').and_then(|t| t.split_once(':')) {
        return object(target, absolute);
    }
    if let Some((second, target)) = target.split_once(':') {
        return object(target, &format!("{namespace}-{second}"));
    }
    match target.split_once('/') {
        Some((kind, name)) if find(kind).is_some_and(|known| !known.namespaced) => {
            Ok(format!("{}/{namespace}-{name}", collection(kind, "")?))
        }
        Some((kind, name)) => Ok(format!("{}/{name}", collection(kind, namespace)?)),
        None => bail!("a target is written kind/name, not {target:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_become_paths() {
        let cases = [
            (
                "deployment/web",
                "/apis/apps/v1/namespaces/n/deployments/web",
            ),
            ("pod/web-0", "/api/v1/namespaces/n/pods/web-0"),
            (
                "pvc/data",
                "/api/v1/namespaces/n/persistentvolumeclaims/data",
            ),
            (
                "hpa/web",
                "/apis/autoscaling/v2/namespaces/n/horizontalpodautoscalers/web",
            ),
            ("node/a", "/api/v1/nodes/n-a"),
            ("namespace/far", "/api/v1/namespaces/n-far"),
            ("far:pod/web-0", "/api/v1/namespaces/n-far/pods/web-0"),
            ("/far:pod/web-0", "/api/v1/namespaces/far/pods/web-0"),
        ];
        for (target, path) in cases {
            assert_eq!(object(target, "n").unwrap(), path);
        }
        assert_eq!(everywhere("pod").unwrap(), "/api/v1/pods");
        assert_eq!(everywhere("node").unwrap(), "/api/v1/nodes");
        assert!(object("web", "n").is_err());
        assert!(object("gadget/web", "n").is_err());
    }
}
