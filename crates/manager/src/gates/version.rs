//! `--emulated-version` and `--min-compatibility-version`.

use std::collections::BTreeMap;
use std::fmt;

/// A Kubernetes minor version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    pub major: u32,
    pub minor: u32,
}

impl Version {
    /// The version whose behaviour this program has unless told otherwise.
    pub const BINARY: Version = Version::new(1, 36);

    /// The oldest version that can be emulated or stayed compatible with: three minor versions back.
    pub const FLOOR: Version = Version::new(1, Version::BINARY.minor - 3);

    pub const fn new(major: u32, minor: u32) -> Version {
        Version { major, minor }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The versions in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EffectiveVersions {
    pub emulated: Version,
    pub min_compatibility: Version,
}

impl Default for EffectiveVersions {
    fn default() -> Self {
        EffectiveVersions {
            emulated: Version::BINARY,
            min_compatibility: previous(Version::BINARY),
        }
    }
}

/// What is wrong with a version flag.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum VersionError {
    #[error(
        "{flag}: could not parse {text:?} as version; write MAJOR.MINOR, such as kube={}",
        Version::BINARY
    )]
    Malformed { flag: &'static str, text: String },
    #[error("{flag}: patch version not allowed, got: {text}")]
    Patch { flag: &'static str, text: String },
    #[error("{flag}: duplicate version flag, {component} is given twice")]
    Duplicate {
        flag: &'static str,
        component: String,
    },
    #[error("{flag}: component not registered: {component}; only \"kube\" is known")]
    UnknownComponent {
        flag: &'static str,
        component: String,
    },
    #[error("{flag}: version {version} is not between [{low}, {high}]")]
    OutOfRange {
        flag: &'static str,
        version: Version,
        low: Version,
        high: Version,
    },
}

impl EffectiveVersions {
    /// Reads the values of `--emulated-version` and `--min-compatibility-version`.
    pub fn from_flags(
        emulated: &[String],
        compatibility: &[String],
    ) -> Result<EffectiveVersions, VersionError> {
        let emulated_version = read(EMULATED, emulated)?.unwrap_or(Version::BINARY);
        check_range(EMULATED, emulated_version, Version::BINARY)?;
        // Unless given, one minor version before the emulated one, as far as that is allowed.
        let otherwise = previous(emulated_version).max(Version::FLOOR);
        let min_compatibility = read(COMPATIBILITY, compatibility)?.unwrap_or(otherwise);
        check_range(COMPATIBILITY, min_compatibility, emulated_version)?;
        Ok(EffectiveVersions {
            emulated: emulated_version,
            min_compatibility,
        })
    }

    /// The allowed values of both flags, for the help.
    pub fn help() -> (String, String) {
        let defaults = EffectiveVersions::default();
        let range = |default| {
            format!(
                "kube={}..{}(default:{default})",
                Version::FLOOR,
                Version::BINARY
            )
        };
        (range(defaults.emulated), range(defaults.min_compatibility))
    }
}

const EMULATED: &str = "--emulated-version";
const COMPATIBILITY: &str = "--min-compatibility-version";

fn previous(version: Version) -> Version {
    Version::new(version.major, version.minor.saturating_sub(1))
}

fn check_range(flag: &'static str, version: Version, high: Version) -> Result<(), VersionError> {
    match (Version::FLOOR..=high).contains(&version) {
        true => Ok(()),
        false => Err(VersionError::OutOfRange {
            flag,
            version,
            low: Version::FLOOR,
            high,
        }),
    }
}

fn read(flag: &'static str, items: &[String]) -> Result<Option<Version>, VersionError> {
    let mut versions = BTreeMap::new();
    for item in items {
        let (component, text) = item.split_once('=').unwrap_or(("kube", item));
        let (component, text) = (component.trim(), text.trim());
        let version = parse(flag, text)?;
        if versions.insert(component.to_owned(), version).is_some() {
            return Err(VersionError::Duplicate {
                flag,
                component: component.to_owned(),
            });
        }
    }
    match versions.keys().find(|component| *component != "kube") {
        Some(component) => Err(VersionError::UnknownComponent {
            flag,
            component: component.clone(),
        }),
        None => Ok(versions.remove("kube")),
    }
}

fn parse(flag: &'static str, text: &str) -> Result<Version, VersionError> {
    let malformed = || VersionError::Malformed {
        flag,
        text: text.to_owned(),
    };
    let numbers = text
        .strip_prefix('v')
        .unwrap_or(text)
        .split('.')
        .map(str::parse::<u32>);
    match numbers
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| malformed())?[..]
    {
        [major, minor] | [major, minor, 0] => Ok(Version::new(major, minor)),
        [_, _, _] => Err(VersionError::Patch {
            flag,
            text: text.to_owned(),
        }),
        _ => Err(malformed()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(emulated: &[&str], compatibility: &[&str], expected: Result<(&str, &str), &str>) {
        let owned = |items: &[&str]| {
            items
                .iter()
                .map(|item| (*item).to_owned())
                .collect::<Vec<_>>()
        };
        let actual = EffectiveVersions::from_flags(&owned(emulated), &owned(compatibility))
            .map(|versions| {
                (
                    versions.emulated.to_string(),
                    versions.min_compatibility.to_string(),
                )
            })
            .map_err(|error| error.to_string());
        let expected = expected
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .map_err(str::to_owned);
        assert_eq!(actual, expected);
    }

    #[test]
    fn compatibility_follows_emulation() {
        check(&[], &[], Ok(("1.36", "1.35")));
        check(&["kube=1.34"], &[], Ok(("1.34", "1.33")));
        check(&["1.33"], &[], Ok(("1.33", "1.33")));
        check(&["v1.35.0"], &["kube=1.35"], Ok(("1.35", "1.35")));
    }

    #[test]
    fn refuses_what_it_cannot_be() {
        check(
            &["1.32"],
            &[],
            Err("--emulated-version: version 1.32 is not between [1.33, 1.36]"),
        );
        check(
            &["1.37"],
            &[],
            Err("--emulated-version: version 1.37 is not between [1.33, 1.36]"),
        );
        check(
            &["1.34"],
            &["1.35"],
            Err("--min-compatibility-version: version 1.35 is not between [1.33, 1.34]"),
        );
        check(
            &["kube=1.34.2"],
            &[],
            Err("--emulated-version: patch version not allowed, got: 1.34.2"),
        );
        check(
            &["wardle=1.2"],
            &[],
            Err("--emulated-version: component not registered: wardle; only \"kube\" is known"),
        );
        check(
            &["1.34", "kube=1.35"],
            &[],
            Err("--emulated-version: duplicate version flag, kube is given twice"),
        );
        check(
            &["latest"],
            &[],
            Err(
                "--emulated-version: could not parse \"latest\" as version; write MAJOR.MINOR, such as kube=1.36",
            ),
        );
    }
}
