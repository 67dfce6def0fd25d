//! Which built-in kinds are served: kube-apiserver's `--runtime-config`.

use super::Kind;

/// Rules in the order in which they count less and less: by stability, by version, by resource.
#[derive(Clone, Debug, Default)]
pub struct ServedVersions(Vec<(Rule, bool)>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rule {
    All,
    Stability(Stability),
    Version(String, String),
    Resource(String, String, String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stability {
    Ga,
    Beta,
    Alpha,
}

impl ServedVersions {
    /// From `key=value` items; a key alone is on. What asks for something that is not built comes back as words.
    pub fn parse(items: &[String]) -> Result<(ServedVersions, Vec<String>), String> {
        let mut rules = Vec::new();
        let mut warnings = Vec::new();
        for item in items
            .iter()
            .map(|item| item.trim())
            .filter(|item| !item.is_empty())
        {
            let (key, value) = item.split_once('=').unwrap_or((item, "true"));
            let on = match value {
                "true" | "1" | "" => true,
                "false" | "0" => false,
                _ => {
                    return Err(format!(
                        "invalid value {key}={value}: must be true or false"
                    ));
                }
            };
            let rule = read(key)?;
            if on && !super::built_in().iter().any(|kind| rule.is_about(kind)) {
                warnings.push(format!("{key} is not built yet, so it is not served"));
            }
            rules.push((rule, on));
        }
        // A stable sort: of two rules alike the last one counts.
        rules.sort_by(|one, two| one.0.cmp(&two.0));
        Ok((ServedVersions(rules), warnings))
    }

    pub(super) fn has(&self, kind: &Kind) -> bool {
        let about = self.0.iter().filter(|(rule, _)| rule.is_about(kind));
        about.last().is_none_or(|(_, on)| *on)
    }

    /// Whether a kind is named that is not served unless it is.
    pub(super) fn asks_for(&self, kind: &Kind) -> bool {
        let about = self.0.iter().filter(|(rule, _)| rule.is_about(kind));
        about.last().is_some_and(|(_, on)| *on)
    }
}

impl Rule {
    fn is_about(&self, kind: &Kind) -> bool {
        match self {
            Rule::All => true,
            Rule::Stability(stability) => *stability == stability_of(&kind.version),
            Rule::Version(group, version) => kind.group == *group && kind.version == *version,
            Rule::Resource(group, version, plural) => {
                kind.group == *group && kind.version == *version && kind.plural == *plural
            }
        }
    }
}

fn read(key: &str) -> Result<Rule, String> {
    let rule = match key.split('/').collect::<Vec<_>>()[..] {
        ["api", "all"] => Rule::All,
        ["api", "ga"] => Rule::Stability(Stability::Ga),
        ["api", "beta"] => Rule::Stability(Stability::Beta),
        ["api", "alpha"] => Rule::Stability(Stability::Alpha),
        ["v1"] | ["api", "v1"] => Rule::Version(String::new(), "v1".to_owned()),
        ["v1", plural] => Rule::Resource(String::new(), "v1".to_owned(), plural.to_owned()),
        [group, version] => Rule::Version(group.to_owned(), version.to_owned()),
        [group, version, plural] => {
            Rule::Resource(group.to_owned(), version.to_owned(), plural.to_owned())
        }
        _ => {
            return Err(format!(
                "{key:?} must be api/all, api/ga, api/beta, api/alpha, group/version or group/version/resource"
            ));
        }
    };
    if let Rule::Version(group, _) | Rule::Resource(group, ..) = &rule
        && !super::built_in().iter().any(|kind| kind.group == *group)
        && !group.ends_with(".k8s.io")
    {
        return Err(format!("unknown api groups {group}"));
    }
    Ok(rule)
}

fn stability_of(version: &str) -> Stability {
    match version {
        _ if version.contains("alpha") => Stability::Alpha,
        _ if version.contains("beta") => Stability::Beta,
        _ => Stability::Ga,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serves(rules: &[&str], api_version: &str, plural: &str) -> bool {
        let rules: Vec<String> = rules.iter().map(|rule| (*rule).to_owned()).collect();
        let (served, _) = ServedVersions::parse(&rules).unwrap();
        let registry = super::super::Registry::serving(super::super::Extra::default(), &served);
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        registry.resource(group, version, plural).is_some()
    }

    #[test]
    fn the_narrowest_rule_counts() {
        assert!(serves(&[], "apps/v1", "deployments"));
        assert!(!serves(&["apps/v1=false"], "apps/v1", "deployments"));
        assert!(!serves(
            &["apps/v1/deployments=false"],
            "apps/v1",
            "deployments"
        ));
        assert!(serves(
            &["apps/v1/deployments=false"],
            "apps/v1",
            "replicasets"
        ));
        assert!(serves(&["v1=true", "api/all=false"], "v1", "pods"));
        assert!(!serves(
            &["v1=true", "api/all=false"],
            "apps/v1",
            "deployments"
        ));
    }

    #[test]
    fn mistakes_are_named() {
        let parse = |text: &str| ServedVersions::parse(&[text.to_owned()]);
        assert_eq!(
            parse("nonsense/v1=true").unwrap_err(),
            "unknown api groups nonsense"
        );
        assert!(
            parse("apps/v1=maybe")
                .unwrap_err()
                .contains("must be true or false")
        );
        assert!(parse("a/b/c/d").unwrap_err().contains("must be api/all"));
        let (_, warnings) = parse("internal.apiserver.k8s.io/v1alpha1=true").unwrap();
        assert_eq!(warnings.len(), 1);
    }
}
