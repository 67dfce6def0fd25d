//! RBAC rules: what one rule allows, and whether a set of rules covers another.

use serde_json::{Value, json};

/// One policy rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) verbs: Vec<String>,
    pub(crate) groups: Vec<String>,
    pub(crate) resources: Vec<String>,
    pub(crate) names: Vec<String>,
    pub(crate) urls: Vec<String>,
}

/// What is being asked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attributes<'a> {
    pub(crate) verb: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) group: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) name: &'a str,
    /// For requests that are not about resources.
    pub(crate) path: &'a str,
    pub(crate) field_selector: &'a str,
}

impl Rule {
    pub(crate) fn parse(value: &Value) -> Rule {
        let list = |member: &str| {
            let list = value[member].as_array();
            list.into_iter()
                .flatten()
                .filter_map(|item| item.as_str().map(str::to_owned))
                .collect()
        };
        Rule {
            verbs: list("verbs"),
            groups: list("apiGroups"),
            resources: list("resources"),
            names: list("resourceNames"),
            urls: list("nonResourceURLs"),
        }
    }

    pub(crate) fn to_value(&self) -> Value {
        let mut value = json!({"verbs": self.verbs});
        for (member, list) in [
            ("apiGroups", &self.groups),
            ("resources", &self.resources),
            ("resourceNames", &self.names),
            ("nonResourceURLs", &self.urls),
        ] {
            if !list.is_empty() {
                value[member] = json!(list);
            }
        }
        value
    }

    pub(crate) fn allows(&self, asked: &Attributes<'_>) -> bool {
        if !has(&self.verbs, asked.verb) {
            return false;
        }
        if !asked.path.is_empty() {
            return self.urls.iter().any(|url| url_matches(url, asked.path));
        }
        has(&self.groups, asked.group)
            && self
                .resources
                .iter()
                .any(|resource| resource_matches(resource, asked.resource, asked.subresource))
            && (self.names.is_empty() || self.names.iter().any(|name| name == asked.name))
    }

    /// The smallest rules that together say the same, one by one: there can be more than fit into memory.
    pub(crate) fn split(&self) -> impl Iterator<Item = Rule> + '_ {
        let one = |text: &String| vec![text.clone()];
        self.verbs.iter().flat_map(move |verb| {
            let urls = self.urls.iter().map(move |url| Rule {
                verbs: one(verb),
                urls: one(url),
                ..Rule::default()
            });
            let resources = self.groups.iter().flat_map(move |group| {
                self.resources.iter().flat_map(move |resource| {
                    // Without names there is one part, for all of them.
                    let all = self.names.is_empty().then(Vec::new);
                    let names = all.into_iter().chain(self.names.iter().map(one));
                    names.map(move |names| Rule {
                        verbs: one(verb),
                        groups: one(group),
                        resources: one(resource),
                        names,
                        ..Rule::default()
                    })
                })
            });
            urls.chain(resources)
        })
    }

    /// Whether it names both resources and URLs, which validation refuses.
    pub(crate) fn is_mixed(&self) -> bool {
        !self.urls.is_empty() && !self.resources.is_empty()
    }

    /// Whether this rule allows everything that another allows, which must not be mixed.
    pub(crate) fn covers(&self, part: &Rule) -> bool {
        let all = |mine: &[String], theirs: &[String]| {
            mine.iter().any(|m| m == "*") || theirs.iter().all(|t| mine.contains(t))
        };
        if !all(&self.verbs, &part.verbs) {
            return false;
        }
        if !part.urls.is_empty() {
            return part
                .urls
                .iter()
                .all(|url| self.urls.iter().any(|mine| url_matches(mine, url)));
        }
        let resources = part.resources.iter().all(|resource| {
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            self.resources
                .iter()
                .any(|mine| resource_matches(mine, resource, subresource))
        });
        let names = self.names.is_empty()
            || (!part.names.is_empty() && part.names.iter().all(|name| self.names.contains(name)));
        all(&self.groups, &part.groups) && resources && names
    }

    /// What it takes to say whether this rule covers another, in words compared.
    pub(crate) fn effort(&self, part: &Rule) -> usize {
        // Parts are made for it.
        const LEAST: usize = 64;
        let pairs = [
            (&self.verbs, &part.verbs),
            (&self.groups, &part.groups),
            (&self.resources, &part.resources),
            (&self.names, &part.names),
            (&self.urls, &part.urls),
        ];
        let pairs = pairs.map(|(mine, theirs)| mine.len().saturating_mul(theirs.len()));
        pairs.into_iter().fold(LEAST, usize::saturating_add)
    }

    /// As upstream prints it in messages.
    pub(crate) fn text(&self) -> String {
        let list = |items: &[String]| {
            items
                .iter()
                .map(|item| format!("\"{item}\""))
                .collect::<Vec<_>>()
                .join(" ")
        };
        let mut parts = Vec::new();
        for (name, items) in [
            ("APIGroups", &self.groups),
            ("NonResourceURLs", &self.urls),
            ("ResourceNames", &self.names),
            ("Resources", &self.resources),
            ("Verbs", &self.verbs),
        ] {
            if !items.is_empty() {
                parts.push(format!("{name}:[{}]", list(items)));
            }
        }
        format!("{{{}}}", parts.join(", "))
    }
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == "*" || item == wanted)
}

fn resource_matches(rule: &str, resource: &str, subresource: &str) -> bool {
    if rule == "*" {
        return true;
    }
    match rule.split_once('/') {
        None => subresource.is_empty() && rule == resource,
        Some(("*", wanted)) => wanted == subresource,
        Some((of, wanted)) => of == resource && wanted == subresource,
    }
}

fn url_matches(rule: &str, path: &str) -> bool {
    match rule.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => rule == path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(verbs: &str, groups: &str, resources: &str, names: &str) -> Rule {
        let list = |text: &str| {
            text.split(',')
                .filter(|part| !part.is_empty() || text == "core")
                .map(|p| {
                    if p == "core" {
                        String::new()
                    } else {
                        p.to_owned()
                    }
                })
                .collect()
        };
        Rule {
            verbs: list(verbs),
            groups: list(groups),
            resources: list(resources),
            names: list(names),
            urls: Vec::new(),
        }
    }

    #[test]
    fn rules_allow_what_they_name() {
        let asked = Attributes {
            verb: "get",
            group: "apps",
            resource: "deployments",
            subresource: "scale",
            name: "a",
            ..Attributes::default()
        };
        assert!(rule("get", "apps", "deployments/scale", "").allows(&asked));
        assert!(rule("*", "*", "*/scale", "a,b").allows(&asked));
        assert!(rule("*", "*", "*", "").allows(&asked));
        assert!(!rule("get", "apps", "deployments", "").allows(&asked));
        assert!(!rule("get", "apps", "*", "b").allows(&asked));
        assert!(!rule("get", "core", "*", "").allows(&asked));
    }

    #[test]
    fn covering_is_per_part() {
        let wanted = rule("get,list", "apps", "deployments,deployments/scale", "");
        let held = [
            rule("get", "apps", "*", ""),
            rule("list", "apps", "deployments,deployments/scale", ""),
        ];
        assert!(
            wanted
                .split()
                .all(|part| held.iter().any(|rule| rule.covers(&part)))
        );
        let named = [rule("*", "*", "*", "only")];
        assert!(
            !wanted
                .split()
                .all(|part| named.iter().any(|rule| rule.covers(&part)))
        );
        let urls = Rule {
            verbs: vec!["get".into()],
            urls: vec!["/healthz/*".into()],
            ..Rule::default()
        };
        assert!(urls.allows(&Attributes {
            verb: "get",
            path: "/healthz/ping",
            ..Attributes::default()
        }));
    }
}
