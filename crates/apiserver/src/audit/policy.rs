//! Which requests are logged, and how much of them: `audit.k8s.io/v1` Policy.

use crate::auth::Identity;
use crate::rest::RequestInfo;
use serde::Deserialize;

/// How much of a request is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum Level {
    None,
    Metadata,
    Request,
    RequestResponse,
}

/// When an event is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Stage {
    RequestReceived,
    ResponseStarted,
    ResponseComplete,
    Panic,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Policy {
    api_version: String,
    kind: String,
    #[serde(default, rename = "metadata")]
    _metadata: serde::de::IgnoredAny,
    #[serde(default)]
    rules: Vec<Rule>,
    #[serde(default)]
    omit_stages: Vec<Stage>,
    #[serde(default)]
    omit_managed_fields: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    level: Level,
    #[serde(default)]
    users: Vec<String>,
    #[serde(default)]
    user_groups: Vec<String>,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    resources: Vec<Resources>,
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(default, rename = "nonResourceURLs")]
    non_resource_urls: Vec<String>,
    #[serde(default)]
    omit_stages: Vec<Stage>,
    omit_managed_fields: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Resources {
    #[serde(default)]
    group: String,
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    resource_names: Vec<String>,
}

/// What the policy says about one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ruling {
    pub(super) level: Level,
    pub(super) omit_stages: Vec<Stage>,
    pub(super) omit_managed_fields: bool,
}

impl Policy {
    /// Reads a policy file. The error completes a sentence about it.
    pub fn parse(text: &str) -> Result<Policy, String> {
        let mut policy: Policy =
            api::yaml::from_str(text).map_err(|error| format!("is no audit policy: {error}"))?;
        if policy.kind != "Policy" || policy.api_version != "audit.k8s.io/v1" {
            return Err(format!(
                "must be a Policy of audit.k8s.io/v1, not {} of {}",
                policy.kind, policy.api_version
            ));
        }
        if policy.rules.is_empty() {
            return Err("loaded illegal policy with 0 rules".to_owned());
        }
        for (index, rule) in policy.rules.iter_mut().enumerate() {
            rule.check()
                .map_err(|why| format!("rules[{index}] {why}"))?;
            // UPSTREAM: what the policy omits, every rule omits.
            rule.omit_stages.extend(&policy.omit_stages);
        }
        Ok(policy)
    }

    /// The first rule that matches counts; where none does, nothing is logged.
    pub(super) fn ruling(&self, identity: &Identity, info: &RequestInfo) -> Ruling {
        let rule = self.rules.iter().find(|rule| rule.matches(identity, info));
        match rule {
            Some(rule) => Ruling {
                level: rule.level,
                omit_stages: rule.omit_stages.clone(),
                omit_managed_fields: rule.omit_managed_fields.unwrap_or(self.omit_managed_fields),
            },
            None => Ruling {
                level: Level::None,
                omit_stages: Vec::new(),
                omit_managed_fields: self.omit_managed_fields,
            },
        }
    }
}

impl Rule {
    fn check(&self) -> Result<(), String> {
        let of_resources = !self.resources.is_empty() || !self.namespaces.is_empty();
        if of_resources && !self.non_resource_urls.is_empty() {
            return Err("cannot apply to both regular resources and non-resource URLs".to_owned());
        }
        for url in &self.non_resource_urls {
            let before = url.strip_suffix('*').unwrap_or(url);
            if url != "*" && (!url.starts_with('/') || before.contains('*')) {
                return Err(format!(
                    "has the non-resource URL {url:?}: it must be * or begin with / and have * at its end only"
                ));
            }
        }
        for resources in &self.resources {
            if !resources.resource_names.is_empty() && resources.resources.is_empty() {
                return Err("must name resources beside resourceNames".to_owned());
            }
        }
        Ok(())
    }

    fn matches(&self, identity: &Identity, info: &RequestInfo) -> bool {
        let any = |list: &[String], value: &str| list.iter().any(|one| one == value);
        if !self.users.is_empty() && !any(&self.users, &identity.user) {
            return false;
        }
        let in_group = |group: &String| any(&self.user_groups, group);
        if !self.user_groups.is_empty() && !identity.groups.iter().any(in_group) {
            return false;
        }
        if !self.verbs.is_empty() && !any(&self.verbs, info.verb) {
            return false;
        }
        if !self.namespaces.is_empty() || !self.resources.is_empty() {
            return info.is_resource
                && (self.namespaces.is_empty() || any(&self.namespaces, &info.namespace))
                && (self.resources.is_empty() || self.resources.iter().any(|one| one.has(info)));
        }
        if self.non_resource_urls.is_empty() {
            return true;
        }
        let matches = |url: &String| match url.strip_suffix('*') {
            Some(prefix) => info.path.starts_with(prefix),
            None => info.path == *url,
        };
        !info.is_resource && self.non_resource_urls.iter().any(matches)
    }
}

impl Resources {
    fn has(&self, info: &RequestInfo) -> bool {
        if self.group != info.group && self.group != "*" {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        if !self.resource_names.is_empty() && !self.resource_names.contains(&info.name) {
            return false;
        }
        let (resource, subresource) = (&info.resource, &info.subresource);
        let matches = |wanted: &String| match wanted.split_once('/') {
            None => wanted == "*" || (wanted == resource && subresource.is_empty()),
            Some(("*", wanted)) => !subresource.is_empty() && wanted == subresource,
            Some((wanted, "*")) => wanted == resource,
            Some((one, two)) => one == resource && two == subresource,
        };
        self.resources.iter().any(matches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Method, Uri};

    fn level(policy: &str, method: Method, uri: &'static str) -> Level {
        let head = "apiVersion: audit.k8s.io/v1\nkind: Policy\n";
        let policy = Policy::parse(&format!("{head}{policy}")).unwrap();
        let info = RequestInfo::parse(&method, &Uri::from_static(uri));
        let identity = Identity::new("anna", &["team"]);
        policy.ruling(&identity, &info).level
    }

    #[test]
    fn the_first_rule_that_matches_counts() {
        // TestChecker of k8s.io/apiserver/pkg/audit/policy, in our own cases.
        let policy = "
rules:
- {level: None, users: [ben]}
- {level: None, verbs: [watch]}
- {level: Request, resources: [{group: '', resources: [secrets, 'pods/*']}]}
- {level: RequestResponse, resources: [{group: apps, resources: ['*/status']}]}
- {level: None, nonResourceURLs: ['/healthz*', /version]}
- {level: Metadata, userGroups: [team]}
";
        let check = |method: Method, uri, expected| {
            assert_eq!(
                level(policy, method.clone(), uri),
                expected,
                "{method} {uri}"
            );
        };
        check(Method::GET, "/api/v1/secrets?watch=true", Level::None);
        check(
            Method::GET,
            "/api/v1/namespaces/a/secrets/b",
            Level::Request,
        );
        check(
            Method::GET,
            "/api/v1/namespaces/a/pods/b/log",
            Level::Request,
        );
        check(Method::GET, "/api/v1/namespaces/a/pods/b", Level::Request);
        check(
            Method::PUT,
            "/apis/apps/v1/namespaces/a/deployments/b/status",
            Level::RequestResponse,
        );
        check(
            Method::PUT,
            "/apis/apps/v1/namespaces/a/deployments/b",
            Level::Metadata,
        );
        check(Method::GET, "/healthz/ping", Level::None);
        check(Method::GET, "/metrics", Level::Metadata);
    }

    #[test]
    fn mistakes_are_named() {
        let wrong = |rules: &str| {
            let head = "apiVersion: audit.k8s.io/v1\nkind: Policy\n";
            Policy::parse(&format!("{head}{rules}")).unwrap_err()
        };
        assert_eq!(wrong("rules: []"), "loaded illegal policy with 0 rules");
        assert!(wrong("rules: [{level: Everything}]").contains("Everything"));
        assert!(wrong("rules: [{levle: None}]").contains("levle"));
        assert!(
            wrong("rules: [{level: None, namespaces: [a], nonResourceURLs: [/a]}]")
                .contains("rules[0] cannot")
        );
        assert!(
            wrong("rules: [{level: None, nonResourceURLs: ['/a*b']}]").contains("at its end only")
        );
        assert!(Policy::parse("kind: Policy\napiVersion: v1\nrules: []").is_err());
    }
}
