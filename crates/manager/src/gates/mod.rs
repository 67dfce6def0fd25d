//! Feature gates: which features exist at the emulated version, which are on, and what `--feature-gates` may say.
//!
//! `table.txt` holds every gate with its history, since a gate's default and lock depend on the version that
//! is emulated. Controllers do not come here: they get a plain set of answers made from this.

mod version;

use std::collections::BTreeMap;
use std::sync::LazyLock;

pub use version::{EffectiveVersions, Version, VersionError};

/// The answers: every gate that exists at the emulated version, and whether it is on.
#[derive(Clone, Debug, PartialEq)]
pub struct FeatureGates {
    versions: EffectiveVersions,
    /// What was set, including through AllAlpha and AllBeta.
    set: BTreeMap<&'static str, bool>,
}

/// How settled a feature is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    Alpha,
    Beta,
    Ga,
    Deprecated,
}

/// What is wrong with `--feature-gates`.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum GateError {
    #[error("--feature-gates: unrecognized feature gate: {0}")]
    Unknown(String),
    #[error("--feature-gates: component not registered: {0}; only \"kube\" has feature gates")]
    UnknownComponent(String),
    #[error(
        "--feature-gates: set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use"
    )]
    MixedPrefixes,
    #[error(
        "--feature-gates: cannot set feature gate {name} to {value}, feature is locked to {locked}"
    )]
    Locked {
        name: &'static str,
        value: bool,
        locked: bool,
    },
    #[error(
        "--feature-gates: cannot set feature gate {name} to {value}, feature is PreAlpha at emulated version {at}"
    )]
    PreAlpha {
        name: &'static str,
        value: bool,
        at: Version,
    },
    #[error("--feature-gates: {name} is enabled, but depends on features that are disabled: [{}]", missing.join(" "))]
    Dependency {
        name: &'static str,
        missing: Vec<&'static str>,
    },
    #[error("--feature-gates: {0}")]
    Syntax(String),
}

impl FeatureGates {
    /// Applies the items of `--feature-gates` to the defaults of the emulated version. All mistakes are
    /// reported at once, so that an operator fixes a manifest in one go.
    pub fn new(
        versions: EffectiveVersions,
        flag: &[String],
    ) -> Result<FeatureGates, Vec<GateError>> {
        let mut gates = FeatureGates {
            versions,
            set: BTreeMap::new(),
        };
        let wanted = wanted(flag).map_err(|error| vec![error])?;
        let mut errors = Vec::new();
        for (name, &value) in wanted.iter().filter(|(name, _)| !is_group(name)) {
            match gates.check(name, value) {
                Ok(name) => {
                    gates.set.insert(name, value);
                }
                Err(error) => errors.push(error),
            }
        }
        for (group, stage) in [(ALL_ALPHA, Stage::Alpha), (ALL_BETA, Stage::Beta)] {
            if let Some(&value) = wanted.get(group) {
                gates.set_group(stage, value);
                gates.set.insert(group, value);
            }
        }
        if errors.is_empty() {
            errors.extend(gates.broken_dependencies());
        }
        if errors.is_empty() {
            Ok(gates)
        } else {
            Err(errors)
        }
    }

    /// The defaults of the newest version.
    pub fn defaults() -> FeatureGates {
        FeatureGates {
            versions: EffectiveVersions::default(),
            set: BTreeMap::new(),
        }
    }

    /// Whether the feature is on. A name that is not in the table is off.
    pub fn enabled(&self, name: &str) -> bool {
        match self.set.get(name) {
            Some(&on) => on,
            None if ON_HERE.contains(&name) => true,
            None => find(name)
                .and_then(|gate| self.state(gate))
                .is_some_and(|state| state.default),
        }
    }

    /// Every gate that exists at the emulated version, by name: its stage and whether it is on.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, Stage, bool)> + '_ {
        let groups = [(ALL_ALPHA, Stage::Alpha), (ALL_BETA, Stage::Beta)];
        let groups = groups
            .into_iter()
            .map(|(name, stage)| (name, stage, self.set.get(name) == Some(&true)));
        let gates = table()
            .iter()
            .filter_map(|gate| Some((gate.name, self.state(gate)?.stage, self.enabled(gate.name))));
        groups.chain(gates)
    }

    /// Features that were set and are settled: setting them will stop to work one day.
    pub fn warnings(&self) -> Vec<String> {
        let stage = |name: &str| {
            find(name)
                .and_then(|gate| self.state(gate))
                .map(|state| state.stage)
        };
        let warning = |(name, value): (&&'static str, &bool)| match stage(name) {
            Some(Stage::Ga) => Some(format!(
                "Setting GA feature gate {name}={value}. It will be removed in a future release."
            )),
            Some(Stage::Deprecated) => Some(format!(
                "Setting deprecated feature gate {name}={value}. It will be removed in a future release."
            )),
            _ => None,
        };
        self.set.iter().filter_map(warning).collect()
    }

    /// The answers in the form that controllers hold.
    pub fn for_controllers(&self) -> api::Gates {
        let gates = api::Gate::ALL.iter();
        gates.fold(api::Gates::default(), |gates, gate| {
            gates.with(*gate, self.enabled(gate.name()))
        })
    }

    pub fn versions(&self) -> EffectiveVersions {
        self.versions
    }

    /// The lines of `--help`: alpha and beta features with their defaults.
    pub fn help() -> String {
        let defaults = FeatureGates::defaults();
        let mut lines: Vec<String> = defaults
            .all()
            .filter(|(_, stage, _)| matches!(stage, Stage::Alpha | Stage::Beta))
            .map(|(name, stage, on)| {
                format!("kube:{name}=true|false ({} - default={on})", stage.label())
            })
            .collect();
        lines.sort_unstable();
        lines.join("\n")
    }

    fn check(&self, name: &str, value: bool) -> Result<&'static str, GateError> {
        let gate = find(name).ok_or_else(|| GateError::Unknown(name.to_owned()))?;
        match self.state(gate) {
            None => Err(GateError::PreAlpha {
                name: gate.name,
                value,
                at: self.versions.emulated,
            }),
            Some(state) if state.locked && state.default != value => Err(GateError::Locked {
                name: gate.name,
                value,
                locked: state.default,
            }),
            Some(_) => Ok(gate.name),
        }
    }

    fn set_group(&mut self, stage: Stage, value: bool) {
        for gate in table() {
            if self.state(gate).is_some_and(|state| state.stage == stage) {
                self.set.entry(gate.name).or_insert(value);
            }
        }
    }

    fn broken_dependencies(&self) -> Vec<GateError> {
        let broken = |gate: &'static Gate| {
            let missing: Vec<_> = gate
                .needs
                .iter()
                .copied()
                .filter(|name| !self.enabled(name))
                .collect();
            (!missing.is_empty() && self.enabled(gate.name)).then_some(GateError::Dependency {
                name: gate.name,
                missing,
            })
        };
        table().iter().filter_map(broken).collect()
    }

    /// The gate's state at the emulated version; none if it did not exist yet.
    fn state(&self, gate: &Gate) -> Option<State> {
        gate.history
            .iter()
            .rev()
            .find(|(since, _)| *since <= self.versions.emulated)
            .map(|(_, state)| *state)
    }
}

impl Stage {
    /// As `kubernetes_feature_enabled` and the help spell it.
    pub fn label(self) -> &'static str {
        match self {
            Stage::Alpha => "ALPHA",
            Stage::Beta => "BETA",
            Stage::Ga => "",
            Stage::Deprecated => "DEPRECATED",
        }
    }
}

/// Off upstream, on here unless turned off: a manager that keeps its lease after a clean exit makes the next
/// one wait for nothing.
const ON_HERE: &[&str] = &["ControllerManagerReleaseLeaderElectionLockOnExit"];

const ALL_ALPHA: &str = "AllAlpha";
const ALL_BETA: &str = "AllBeta";

fn is_group(name: &str) -> bool {
    name == ALL_ALPHA || name == ALL_BETA
}

/// Names and values of the flag; the last word on a name counts.
fn wanted(flag: &[String]) -> Result<BTreeMap<String, bool>, GateError> {
    let items = crate::flags::parse_feature_gates(flag.iter().map(String::as_str))
        .map_err(GateError::Syntax)?;
    if let Some((component, ..)) = items
        .iter()
        .find(|(component, ..)| !matches!(&component[..], "" | "kube"))
    {
        return Err(GateError::UnknownComponent(component.clone()));
    }
    let prefixed = items
        .iter()
        .filter(|(component, ..)| component == "kube")
        .count();
    if prefixed != 0 && prefixed != items.len() {
        return Err(GateError::MixedPrefixes);
    }
    Ok(items
        .into_iter()
        .map(|(_, name, value)| (name, value))
        .collect())
}

#[derive(Debug)]
struct Gate {
    name: &'static str,
    history: Vec<(Version, State)>,
    needs: Vec<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct State {
    stage: Stage,
    default: bool,
    locked: bool,
}

fn find(name: &str) -> Option<&'static Gate> {
    table()
        .binary_search_by(|gate| gate.name.cmp(name))
        .ok()
        .map(|index| &table()[index])
}

fn table() -> &'static [Gate] {
    static TABLE: LazyLock<Vec<Gate>> = LazyLock::new(|| {
        let lines = include_str!("table.txt")
            .lines()
            .filter(|line| !line.starts_with('#'));
        lines
            .map(|line| read_gate(line).expect("each line of the gate table is well formed"))
            .collect()
    });
    &TABLE
}

fn read_gate(line: &'static str) -> Option<Gate> {
    let (history, needs) = line.split_once('>').unwrap_or((line, ""));
    let mut words = history.split_whitespace();
    let name = words.next()?;
    let history = words.map(read_state).collect::<Option<_>>()?;
    Some(Gate {
        name,
        history,
        needs: needs.split_whitespace().collect(),
    })
}

/// `33:beta=on!`
fn read_state(word: &str) -> Option<(Version, State)> {
    let (minor, rest) = word.split_once(':')?;
    let (stage, default) = rest.split_once('=')?;
    let stage = match stage {
        "alpha" => Stage::Alpha,
        "beta" => Stage::Beta,
        "ga" => Stage::Ga,
        "deprecated" => Stage::Deprecated,
        _ => return None,
    };
    let locked = default.ends_with('!');
    let default = match default.trim_end_matches('!') {
        "on" => true,
        "off" => false,
        _ => return None,
    };
    Some((
        Version::new(1, minor.parse().ok()?),
        State {
            stage,
            default,
            locked,
        },
    ))
}

#[cfg(test)]
mod tests;
