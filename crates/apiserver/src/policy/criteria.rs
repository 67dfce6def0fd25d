//! Which requests a policy, a binding or a webhook is about: rules, selectors, and equivalent versions.
//!
//! Mirrors `apiserver/pkg/admission/plugin/policy/matching` and the predicates of webhooks that it is made of. Read
//! once with [`Criteria::of_policy`] or [`Criteria::of_webhook`], then asked for every request.

use std::sync::Arc;

use api::{LabelSelector, Selector};
use serde_json::Value;

use crate::admission::{self, Cluster, Operation};
use crate::kinds::Kind;
use crate::status::{Status, Subject};

/// What of a request decides whether it is matched.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub operation: Operation,
    /// The resource at the version asked for.
    pub resource: &'a Arc<Kind>,
    pub subresource: &'a str,
    /// "" for cluster-scoped objects. UPSTREAM: a Namespace is in itself.
    pub namespace: &'a str,
    pub name: &'a str,
    pub object: Option<&'a Value>,
    pub old: Option<&'a Value>,
}

#[derive(Debug)]
pub(crate) struct Criteria {
    namespaces: Result<Selector, String>,
    objects: Result<Selector, String>,
    rules: Vec<Rule>,
    excluded: Vec<Rule>,
    exact: bool,
    /// Whether having no rules means everything, as it does for bindings, or nothing, as for webhooks.
    matches_without_rules: bool,
}

#[derive(Debug)]
struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    names: Vec<String>,
    scope: String,
}

impl Criteria {
    /// From `matchConstraints` of a policy or `matchResources` of a binding.
    pub(crate) fn of_policy(resources: &Value) -> Criteria {
        Criteria {
            excluded: rules(&resources["excludeResourceRules"]),
            rules: rules(&resources["resourceRules"]),
            matches_without_rules: true,
            ..Criteria::selecting(resources)
        }
    }

    /// From one webhook of a configuration.
    pub(crate) fn of_webhook(hook: &Value) -> Criteria {
        Criteria {
            rules: rules(&hook["rules"]),
            ..Criteria::selecting(hook)
        }
    }

    fn selecting(of: &Value) -> Criteria {
        Criteria {
            namespaces: selector(&of["namespaceSelector"]),
            objects: selector(&of["objectSelector"]),
            rules: Vec::new(),
            excluded: Vec::new(),
            exact: of["matchPolicy"] != "Equivalent",
            matches_without_rules: false,
        }
    }

    /// The resource at the version in which the request is to be seen, if it is matched. The error says why that cannot
    /// be told; it never comes from selectors of criteria whose rules do not match.
    pub(crate) fn matches(
        &self,
        target: &Target<'_>,
        cluster: &dyn Cluster,
    ) -> Result<Option<Arc<Kind>>, Status> {
        let in_namespace = self.selects_namespace(target, cluster);
        if matches!(in_namespace, Ok(false)) {
            return Ok(None);
        }
        let of_object = self.selects_object(target);
        if matches!(of_object, Ok(false)) {
            return Ok(None);
        }
        if self.matched(&self.excluded, target, cluster).is_some() {
            return Ok(None);
        }
        let matched = match self.rules.is_empty() && self.matches_without_rules {
            true => Some(target.resource.clone()),
            false => self.matched(&self.rules, target, cluster),
        };
        if matched.is_some() {
            in_namespace?;
            of_object?;
        }
        Ok(matched)
    }

    /// Whether a rule names one of these kinds, which are one resource at its versions, for one of the operations: a
    /// quick look, before anything else of a request is known.
    pub(crate) fn may_match(
        &self,
        kinds: &[&Arc<Kind>],
        subresource: &str,
        operations: &[Operation],
    ) -> bool {
        self.rules.iter().any(|rule| {
            let mut asked = operations.iter();
            asked.any(|operation| has(&rule.operations, operation.name()))
                && kinds
                    .iter()
                    .any(|kind| rule.names_resource(kind, subresource))
        })
    }

    fn selects_namespace(
        &self,
        target: &Target<'_>,
        cluster: &dyn Cluster,
    ) -> Result<bool, Status> {
        let is_namespace = target.resource.plural == "namespaces";
        if target.namespace.is_empty() && !is_namespace {
            return Ok(true);
        }
        let selector = self.namespaces.as_ref().map_err(Status::internal)?;
        if selector.is_empty() {
            return Ok(true);
        }
        let written = is_namespace
            && target.subresource.is_empty()
            && matches!(target.operation, Operation::Create | Operation::Update);
        if written {
            return Ok(target
                .object
                .is_some_and(|object| selects(selector, object)));
        }
        let found = cluster.get(admission::namespaces(), "", target.namespace);
        let found = found.ok_or_else(|| {
            Status::not_found(Subject {
                group: "",
                plural: "namespaces",
                name: target.namespace,
            })
        })?;
        Ok(selects(selector, &found))
    }

    fn selects_object(&self, target: &Target<'_>) -> Result<bool, Status> {
        let selector = self.objects.as_ref().map_err(Status::internal)?;
        let objects = [target.object, target.old];
        let mut objects = objects.into_iter().flatten();
        Ok(selector.is_empty() || objects.any(|object| selects(selector, object)))
    }

    /// The first version of the resource that one of the rules names: the one asked for, or an equivalent one.
    fn matched(
        &self,
        rules: &[Rule],
        target: &Target<'_>,
        cluster: &dyn Cluster,
    ) -> Option<Arc<Kind>> {
        if rules.is_empty() {
            return None;
        }
        if rules.iter().any(|rule| rule.names(target, target.resource)) {
            return Some(target.resource.clone());
        }
        if self.exact {
            return None;
        }
        let registry = cluster.registry();
        let served = |kind: &Kind| {
            target.subresource.is_empty()
                || kind
                    .subresources
                    .iter()
                    .any(|subresource| subresource.name() == target.subresource)
        };
        let equivalents: Vec<&Arc<Kind>> = registry
            .iter()
            .filter(|kind| kind.storage == target.resource.storage && served(kind))
            .filter(|kind| {
                (&kind.group, &kind.version) != (&target.resource.group, &target.resource.version)
            })
            .collect();
        let of_rule = |rule: &Rule| equivalents.iter().find(|kind| rule.names(target, kind));
        rules.iter().find_map(of_rule).map(|kind| (*kind).clone())
    }
}

impl Rule {
    fn names(&self, target: &Target<'_>, resource: &Kind) -> bool {
        let is_namespace = resource.group.is_empty()
            && resource.version == "v1"
            && resource.plural == "namespaces";
        let clustered = is_namespace || target.namespace.is_empty();
        let in_scope = match &*self.scope {
            "Namespaced" => !clustered,
            "Cluster" => clustered,
            scope => matches!(scope, "" | "*"),
        };
        in_scope
            && has(&self.operations, target.operation.name())
            && has(&self.versions, &resource.version)
            && self.names_resource(resource, target.subresource)
            && (self.names.is_empty() || self.names.iter().any(|name| name == target.name))
    }
}

impl Rule {
    fn names_resource(&self, resource: &Kind, subresource: &str) -> bool {
        has(&self.groups, &resource.group)
            && self.resources.iter().any(|rule| {
                let (plural, named) = rule.split_once('/').unwrap_or((rule, ""));
                (plural == "*" || plural == resource.plural)
                    && (named == "*" || named == subresource)
            })
    }
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == "*" || item == wanted)
}

fn rules(list: &Value) -> Vec<Rule> {
    let read = |rule: &Value| {
        let texts = |member: &str| {
            let list = rule[member].as_array().into_iter().flatten();
            let texts = list.filter_map(Value::as_str).map(str::to_owned);
            texts.collect()
        };
        Rule {
            operations: texts("operations"),
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            resources: texts("resources"),
            names: texts("resourceNames"),
            scope: rule["scope"].as_str().unwrap_or_default().to_owned(),
        }
    };
    list.as_array().into_iter().flatten().map(read).collect()
}

/// A selector that is not there selects everything: defaults have put an empty one in its place.
pub(super) fn selector(value: &Value) -> Result<Selector, String> {
    if value.is_null() {
        return Ok(Selector::everything());
    }
    let selector: LabelSelector =
        serde_json::from_value(value.clone()).map_err(|error| error.to_string())?;
    selector.compile().map_err(|error| error.to_string())
}

pub(super) fn selects(selector: &Selector, object: &Value) -> bool {
    let labels = &object["metadata"]["labels"];
    selector.matches_by(|key| labels.get(key).and_then(Value::as_str))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::admission::store::Store;
    use crate::kinds::Registry;

    fn kind(group: &str, version: &str, plural: &str) -> Arc<Kind> {
        let registry = Registry::default();
        registry.resource(group, version, plural).unwrap().clone()
    }

    /// The version that a request is matched at: `-` if it is not, `!` if that cannot be told.
    fn matched(criteria: &Criteria, target: &Target<'_>) -> String {
        let cluster = Store::of(&[json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "a", "labels": {"env": "test"}}})]);
        match criteria.matches(target, &cluster) {
            Ok(Some(kind)) => kind.api_version().to_owned(),
            Ok(None) => "-".to_owned(),
            Err(status) => format!("! {}", status.message),
        }
    }

    fn check(change: impl FnOnce(&mut Value), expected: &str) {
        let resource = kind("autoscaling", "v1", "horizontalpodautoscalers");
        let object = json!({"metadata": {"name": "x", "labels": {"app": "web"}}});
        let target = Target {
            operation: Operation::Update,
            resource: &resource,
            subresource: "",
            namespace: "a",
            name: "x",
            object: Some(&object),
            old: None,
        };
        let mut resources = json!({"matchPolicy": "Equivalent", "resourceRules": [{
            "apiGroups": ["autoscaling"], "apiVersions": ["v1"], "operations": ["UPDATE"],
            "resources": ["horizontalpodautoscalers"]}]});
        change(&mut resources);
        let criteria = Criteria::of_policy(&resources);
        assert_eq!(matched(&criteria, &target), expected, "{resources}");
    }

    /// `TestMatcher` of policy/matching
    #[test]
    fn rules_name_operations_resources_scopes_and_names() {
        check(|_| {}, "autoscaling/v1");
        let rule = |member: &'static str, value: Value| {
            move |resources: &mut Value| resources["resourceRules"][0][member] = value
        };
        check(rule("operations", json!(["CREATE", "*"])), "autoscaling/v1");
        check(rule("operations", json!(["CREATE"])), "-");
        check(rule("apiGroups", json!(["*"])), "autoscaling/v1");
        check(rule("apiGroups", json!([""])), "-");
        check(rule("resources", json!(["*"])), "autoscaling/v1");
        check(rule("resources", json!(["*/status"])), "-");
        check(rule("resources", json!(["*/*"])), "autoscaling/v1");
        check(rule("scope", json!("Namespaced")), "autoscaling/v1");
        check(rule("scope", json!("Cluster")), "-");
        check(rule("resourceNames", json!(["y", "x"])), "autoscaling/v1");
        check(rule("resourceNames", json!(["y"])), "-");
        check(
            |resources| resources["resourceRules"] = json!([]),
            "autoscaling/v1",
        );
        check(
            |resources| resources["excludeResourceRules"] = resources["resourceRules"].clone(),
            "-",
        );
    }

    #[test]
    fn equivalent_versions_match_unless_they_must_be_exact() {
        let other = |resources: &mut Value| {
            resources["resourceRules"][0]["apiVersions"] = json!(["v2"]);
        };
        check(other, "autoscaling/v2");
        check(
            |resources| {
                other(resources);
                resources["matchPolicy"] = json!("Exact");
            },
            "-",
        );
    }

    #[test]
    fn selectors_choose_namespaces_and_objects() {
        let selects = |member: &'static str, labels: Value| {
            move |resources: &mut Value| resources[member] = json!({"matchLabels": labels})
        };
        check(
            selects("namespaceSelector", json!({"env": "test"})),
            "autoscaling/v1",
        );
        check(selects("namespaceSelector", json!({"env": "prod"})), "-");
        check(
            selects("objectSelector", json!({"app": "web"})),
            "autoscaling/v1",
        );
        check(selects("objectSelector", json!({"app": "db"})), "-");
    }

    #[test]
    fn a_missing_namespace_matters_only_where_the_rules_match() {
        let resource = kind("", "v1", "pods");
        let target = Target {
            operation: Operation::Create,
            resource: &resource,
            subresource: "",
            namespace: "missing",
            name: "x",
            object: None,
            old: None,
        };
        let hook = |plural: &str| {
            Criteria::of_webhook(
                &json!({"namespaceSelector": {"matchLabels": {"a": "b"}}, "rules": [{
                "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": [plural]}]}),
            )
        };
        assert_eq!(
            matched(&hook("pods"), &target),
            "! namespaces \"missing\" not found"
        );
        assert_eq!(matched(&hook("secrets"), &target), "-");
        let without_rules = Criteria::of_webhook(&json!({}));
        assert_eq!(matched(&without_rules, &target), "-");
    }
}
