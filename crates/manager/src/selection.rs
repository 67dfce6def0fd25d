//! What `--controllers` makes of the controllers that there are.

use controllers::{ALL, Descriptor, find};

use crate::gates::FeatureGates;

/// What becomes of a controller in this process.
#[derive(Clone, Debug, PartialEq)]
pub enum Selection {
    Runs,
    /// --controllers leaves it out.
    Deselected,
    /// A feature it needs is off.
    Gated(&'static [&'static str]),
    /// It is a cloud provider's controller.
    Cloud,
    /// It was selected, but this build does not have it.
    NotBuilt,
}

/// A name in --controllers that no controller has.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error(
    "--controllers: {name:?} is not in the list of known controllers{}; `steersman controllers` lists them",
    did_you_mean(name)
)]
pub struct UnknownController {
    pub name: String,
}

/// Three letters are in too many names.
const TELLING_LETTERS: usize = 4;

/// ` (did you mean job-controller?)`, by names and aliases that hold what was written, or that are held by it.
fn did_you_mean(wrong: &str) -> String {
    let wrong = wrong.to_lowercase();
    let is_near = |known: &str| {
        let (short, long) = match known.len() < wrong.len() {
            true => (known, wrong.as_str()),
            false => (wrong.as_str(), known),
        };
        long.contains(short) && (short.len() >= TELLING_LETTERS || long.starts_with(short))
    };
    let near = ALL.iter().filter(|descriptor| {
        let kind = descriptor.name.trim_end_matches("-controller");
        let names = [kind, descriptor.alias];
        let mut names = names.into_iter().filter(|name| !name.is_empty());
        !wrong.is_empty() && names.any(is_near)
    });
    let near: Vec<&str> = near.map(|descriptor| descriptor.name).take(3).collect();
    match near.is_empty() {
        true => String::new(),
        false => format!(" (did you mean {}?)", near.join(" or ")),
    }
}

/// Checks --controllers and replaces aliases by names.
pub fn canonical(list: &[String]) -> Result<Vec<String>, Vec<UnknownController>> {
    let mut names = Vec::new();
    let mut unknown = Vec::new();
    for item in list {
        let (minus, name) = match item.strip_prefix('-') {
            Some(name) => ("-", name),
            None => ("", item.as_str()),
        };
        match find(name) {
            _ if item == "*" => names.push(item.clone()),
            Some(descriptor) => names.push(format!("{minus}{}", descriptor.name)),
            None => unknown.push(UnknownController {
                name: name.to_owned(),
            }),
        }
    }
    if unknown.is_empty() {
        Ok(names)
    } else {
        Err(unknown)
    }
}

/// What becomes of each controller, given --controllers (with aliases replaced) and the gates.
pub fn select<'a>(
    list: &'a [String],
    gates: &'a FeatureGates,
) -> impl Iterator<Item = (&'static Descriptor, Selection)> + 'a {
    ALL.iter().map(move |descriptor| {
        let fate = match descriptor {
            _ if !descriptor.first && !is_selected(descriptor, list) => Selection::Deselected,
            _ if descriptor.cloud => Selection::Cloud,
            _ if descriptor.gates.iter().any(|gate| !gates.enabled(gate)) => {
                Selection::Gated(descriptor.gates)
            }
            _ if !descriptor.is_built() => Selection::NotBuilt,
            _ => Selection::Runs,
        };
        (descriptor, fate)
    })
}

/// The first explicit mention counts; "*" stands for the defaults of those never mentioned.
fn is_selected(descriptor: &Descriptor, list: &[String]) -> bool {
    let mention = list.iter().find_map(|item| match item.strip_prefix('-') {
        Some(name) if name == descriptor.name => Some(false),
        None if item == descriptor.name => Some(true),
        _ => None,
    });
    mention.unwrap_or_else(|| descriptor.on_by_default && list.iter().any(|item| item == "*"))
}

/// All names, sorted, as the help lists them.
pub fn known_names() -> Vec<&'static str> {
    let mut names: Vec<_> = ALL.iter().map(|descriptor| descriptor.name).collect();
    names.sort_unstable();
    names
}

/// Names of those that run only when --controllers asks for them.
pub fn disabled_by_default() -> Vec<&'static str> {
    let mut names: Vec<_> = ALL
        .iter()
        .filter(|descriptor| !descriptor.on_by_default)
        .map(|descriptor| descriptor.name)
        .collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(list: &str, name: &str, expected: Selection) {
        let list: Vec<String> = list.split(',').map(str::to_owned).collect();
        let list = canonical(&list).unwrap();
        let gates = FeatureGates::defaults();
        let fate = select(&list, &gates)
            .find(|(descriptor, _)| descriptor.name == name)
            .map(|(_, fate)| fate);
        assert_eq!(fate, Some(expected), "{name} in {list:?}");
    }

    #[test]
    fn gates_of_descriptors_exist() {
        let known: Vec<_> = FeatureGates::defaults()
            .all()
            .map(|(name, ..)| name)
            .collect();
        for gate in ALL.iter().flat_map(|descriptor| descriptor.gates) {
            assert!(known.contains(gate), "{gate}");
        }
    }

    #[test]
    fn a_star_stands_for_the_defaults() {
        check("*", "job-controller", Selection::Runs);
        check("*", "token-cleaner-controller", Selection::Deselected);
        check(
            "*,tokencleaner",
            "token-cleaner-controller",
            Selection::Runs,
        );
        check("*,-job", "job-controller", Selection::Deselected);
    }

    #[test]
    fn without_a_star_only_what_is_named_runs() {
        check("deployment", "job-controller", Selection::Deselected);
        check("deployment", "deployment-controller", Selection::Runs);
    }

    #[test]
    fn the_first_mention_counts() {
        check("job,-job", "job-controller", Selection::Runs);
        check(
            "-job-controller,job",
            "job-controller",
            Selection::Deselected,
        );
    }

    #[test]
    fn the_token_controller_requests_no_token() {
        check(
            "-serviceaccount-token,job",
            "serviceaccount-token-controller",
            Selection::Runs,
        );
    }

    #[test]
    fn gates_cloud_and_missing_builds_are_distinguished() {
        check(
            "*",
            "podgroup-protection-controller",
            Selection::Gated(&["GenericWorkload"]),
        );
        check("*", "service-lb-controller", Selection::Cloud);
        check(
            "*",
            "validatingadmissionpolicy-status-controller",
            Selection::Runs,
        );
    }

    #[test]
    fn unknown_names_are_refused_with_those_that_are_near() {
        let errors = canonical(&["*".into(), "-foo".into(), "jobs".into()]).unwrap_err();
        let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "--controllers: \"foo\" is not in the list of known controllers; `steersman controllers` lists them",
                "--controllers: \"jobs\" is not in the list of known controllers (did you mean job-controller?); `steersman controllers` lists them",
            ]
        );
    }
}
