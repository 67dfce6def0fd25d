//! What nobody may use unless a quota covers it, from the file of `--admission-control-config-file`.

use std::collections::BTreeSet;

use api::Istr;
use api::amounts::Amounts;
use api::kinds::ResourceQuota;
use api::quota::{Item, Scope};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::Request;
use super::super::configuration::{check_unknown, decode, expect_type};
use crate::status::{Status, summary};
use crate::validation;

const KIND: (&str, &str) = ("ResourceQuotaConfiguration", "apiserver.config.k8s.io/v1");
const OLDER: [&str; 2] = [
    "resourcequota.admission.k8s.io/v1beta1",
    "resourcequota.admission.k8s.io/v1alpha1",
];

#[derive(Default)]
pub(in crate::admission) struct LimitedResources(Vec<Limited>);

struct Limited {
    group: String,
    resource: String,
    /// Parts of the names of what may not be used.
    contains: Vec<String>,
    /// With the scopes alone.
    scopes: ResourceQuota,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Configuration {
    #[serde(default, deserialize_with = "api::meta::or_default")]
    limited_resources: Vec<LimitedResource>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LimitedResource {
    api_group: String,
    resource: String,
    #[serde(deserialize_with = "api::meta::or_default")]
    match_contains: Vec<String>,
    match_scopes: Value,
}

impl LimitedResources {
    /// From the plugin's configuration, if there is one.
    pub(in crate::admission) fn read(told: Option<&Value>) -> Result<LimitedResources, String> {
        let Some(told) = told.filter(|told| !told.is_null()) else {
            return Ok(LimitedResources::default());
        };
        let (kind, version) = KIND;
        match expect_type(told, "Configuration", &OLDER) {
            Ok(()) => {}
            Err(_) => expect_type(told, kind, &[version])?,
        }
        check_unknown(
            told,
            &["apiVersion", "kind", "limitedResources"],
            (
                "limitedResources",
                &["apiGroup", "resource", "matchContains", "matchScopes"],
            ),
        )?;
        let causes = validation::limited_resources(told);
        if !causes.is_empty() {
            return Err(summary(&causes));
        }
        let read: Configuration = decode(told.clone())?;
        let limited = read.limited_resources.into_iter().map(|limited| {
            let selector = json!({"matchExpressions": limited.match_scopes});
            let scopes = decode(json!({"spec": {"scopeSelector": selector}}));
            Ok(Limited {
                group: limited.api_group,
                resource: limited.resource,
                contains: limited.match_contains,
                scopes: scopes.map_err(|why| format!("matchScopes: {why}"))?,
            })
        });
        limited.collect::<Result<_, String>>().map(LimitedResources)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Refuses what no quota covers: by what the quotas of the object track, and by the scopes of all quotas of its
    /// namespace that it is in.
    pub(super) fn check(
        &self,
        request: &Request<'_>,
        item: &Item<'_>,
        usage: &Amounts,
        tracked: &BTreeSet<Istr>,
        quotas: &[&ResourceQuota],
    ) -> Result<(), Status> {
        let (group, plural) = (&*request.kind.group, &*request.kind.plural);
        let of_kind = self.0.iter();
        let of_kind = of_kind.filter(|one| one.group == group && one.resource == plural);
        let contains: Vec<&String> = of_kind.flat_map(|one| &one.contains).collect();
        let is_limited = |name: &Istr| contains.iter().any(|part| name.contains(part.as_str()));
        let used = usage.iter().filter(|(_, amount)| amount.sign() > 0);
        let uncovered: BTreeSet<&str> = used
            .map(|(name, _)| name)
            .filter(|name| is_limited(name) && !tracked.contains(*name))
            .map(Istr::as_str)
            .collect();
        if !uncovered.is_empty() {
            let uncovered: Vec<&str> = uncovered.into_iter().collect();
            let why = format!("insufficient quota to consume: {}", uncovered.join(","));
            return Err(request.forbidden(&why));
        }
        let covered: BTreeSet<&str> = quotas
            .iter()
            .flat_map(|quota| quota.scopes())
            .filter(|scope| scope.matches(item))
            .map(|scope| scope.name)
            .collect();
        let limited = self.0.iter().flat_map(|one| one.scopes.scopes());
        let uncovered: Vec<String> = limited
            .filter(|scope| scope.matches(item) && !covered.contains(scope.name))
            .map(|scope| shown(&scope))
            .collect();
        match uncovered.is_empty() {
            true => Ok(()),
            // UPSTREAM: no status of its own, so it is the server's fault.
            false => Err(Status::unexpected(format!(
                "insufficient quota to match these scopes: [{}]",
                uncovered.join(" ")
            ))),
        }
    }
}

/// As Go prints it.
fn shown(scope: &Scope<'_>) -> String {
    let values: Vec<&str> = scope.values.iter().map(Istr::as_str).collect();
    format!(
        "{{{} {} [{}]}}",
        scope.name,
        scope.operator,
        values.join(" ")
    )
}
