//! From a scenario that breaks to a small one that still does.

use crate::faults::FaultRates;
use crate::report::Failure;
use crate::scenario::Scenario;

/// What is left of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The numbers of the steps that are kept.
    pub steps: Vec<usize>,
    pub faults: FaultRates,
    pub managers: usize,
}

/// Each attempt is a run; a person waits for the result.
const ATTEMPTS_MAX: usize = 150;

/// Leaves out whatever can be left out while `broken` still finds something. Gives what is left, and the
/// last failure.
pub fn shrink(
    scenario: &Scenario,
    broken: impl Fn(&Scenario) -> Option<Failure>,
) -> (Cut, Option<Failure>) {
    let mut shrinking = Shrinking {
        scenario,
        broken,
        best: Cut::none(scenario),
        failure: None,
        left: ATTEMPTS_MAX,
    };
    shrinking.drop_faults();
    shrinking.drop_steps();
    shrinking.drop_faults();
    (shrinking.best, shrinking.failure)
}

struct Shrinking<'a, B> {
    scenario: &'a Scenario,
    broken: B,
    best: Cut,
    failure: Option<Failure>,
    left: usize,
}

impl<B: Fn(&Scenario) -> Option<Failure>> Shrinking<'_, B> {
    fn accept(&mut self, cut: Cut) -> bool {
        if self.left == 0 || cut == self.best {
            return false;
        }
        self.left -= 1;
        match (self.broken)(&cut.apply(self.scenario)) {
            Some(failure) => {
                self.best = cut;
                self.failure = Some(failure);
                true
            }
            None => false,
        }
    }

    fn drop_faults(&mut self) {
        let mut calm = self.best.clone();
        calm.faults = FaultRates::default();
        if self.accept(calm) {
            return;
        }
        for class in 0..self.best.faults.classes().len() {
            let mut fewer = self.best.clone();
            *fewer.faults.classes()[class].1 = 0;
            self.accept(fewer);
        }
        let mut alone = self.best.clone();
        alone.managers = 1;
        self.accept(alone);
    }

    /// Halves, then quarters, down to single steps; again as long as something goes.
    fn drop_steps(&mut self) {
        let mut size = self.best.steps.len().div_ceil(2);
        while size > 0 {
            let mut from = 0;
            let mut dropped = false;
            while from < self.best.steps.len() {
                let mut fewer = self.best.clone();
                let to = (from + size).min(fewer.steps.len());
                fewer.steps.drain(from..to);
                match self.accept(fewer) {
                    true => dropped = true,
                    false => from += size,
                }
            }
            if size > 1 || !dropped {
                size /= 2;
            }
        }
    }
}

impl Cut {
    /// Everything is left.
    pub fn none(scenario: &Scenario) -> Cut {
        Cut {
            steps: (0..scenario.steps.len()).collect(),
            faults: scenario.faults,
            managers: scenario.managers,
        }
    }

    pub fn apply(&self, scenario: &Scenario) -> Scenario {
        let mut smaller = scenario.only(&self.steps);
        smaller.faults = self.faults;
        smaller.managers = self.managers;
        smaller
    }

    /// The arguments that cut the scenario of a seed down to this.
    pub fn arguments(&self, scenario: &Scenario) -> String {
        let mut arguments = String::new();
        if self.steps.len() < scenario.steps.len() {
            let steps: Vec<String> = self.steps.iter().map(ToString::to_string).collect();
            let steps = if steps.is_empty() {
                "none".to_owned()
            } else {
                steps.join(",")
            };
            arguments += &format!(" --steps {steps}");
        }
        if self.faults != scenario.faults {
            let mut faults = self.faults;
            let named: Vec<&str> = faults
                .classes()
                .iter()
                .filter(|(_, one_in)| **one_in > 0)
                .map(|(name, _)| *name)
                .collect();
            let named = if named.is_empty() {
                "none".to_owned()
            } else {
                named.join(",")
            };
            arguments += &format!(" --faults {named}");
        }
        if self.managers != scenario.managers {
            arguments += &format!(" --managers {}", self.managers);
        }
        if let Some(write) = scenario.crash_after_write {
            arguments += &format!(" --crash-after-write {write}");
        }
        arguments
    }

    /// Reads what [`Cut::arguments`] writes; says what is wrong with it.
    pub fn parse(
        scenario: &Scenario,
        steps: Option<&str>,
        faults: Option<&str>,
        managers: Option<usize>,
    ) -> Result<Cut, String> {
        let mut cut = Cut::none(scenario);
        if let Some(steps) = steps {
            let count = scenario.steps.len();
            let number = |text: &str| {
                let number = text.trim().parse().ok().filter(|number| *number < count);
                number.ok_or_else(|| {
                    format!(
                        "--steps: {text:?} is no step of {}: it has {count}, from 0 on",
                        scenario.name
                    )
                })
            };
            cut.steps = words(steps).map(number).collect::<Result<_, String>>()?;
        }
        if let Some(faults) = faults {
            let wanted: Vec<&str> = words(faults).collect();
            let mut known = Vec::new();
            for (name, one_in) in cut.faults.classes() {
                known.push(name);
                if !wanted.contains(&name) {
                    *one_in = 0;
                }
            }
            if let Some(unknown) = wanted.iter().find(|name| !known.contains(name)) {
                return Err(format!(
                    "--faults: there is no class {unknown:?}; there are {}",
                    known.join(", ")
                ));
            }
        }
        cut.managers = managers.unwrap_or(cut.managers);
        Ok(cut)
    }
}

/// The words of a list; "none" has none.
fn words(list: &str) -> impl Iterator<Item = &str> {
    list.split(',')
        .filter(|word| !word.is_empty() && *word != "none")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure() -> Failure {
        Failure {
            problem: "broken".into(),
            timeline: Vec::new(),
            shrunk: None,
            replay: String::new(),
        }
    }

    /// A check that breaks whenever two certain steps and one class of faults are there.
    #[test]
    fn what_does_not_matter_is_left_out() {
        let mut scenario = Scenario::from_seed(3);
        scenario.faults.conflict = 7;
        scenario.faults.slow = 7;
        let (first, second) = (scenario.steps[2].at, scenario.steps[5].at);
        let (cut, last) = shrink(&scenario, |smaller| {
            let has = |at| smaller.steps.iter().any(|step| step.at == at);
            (has(first) && has(second) && smaller.faults.conflict > 0).then(failure)
        });
        assert!(last.is_some());
        assert!(cut.steps.contains(&2) && cut.steps.contains(&5));
        assert!(cut.steps.len() <= 4, "{cut:?}");
        assert_eq!(
            cut.faults,
            FaultRates {
                conflict: 7,
                ..FaultRates::default()
            }
        );
        let arguments = cut.arguments(&scenario);
        assert!(arguments.contains("--faults conflict"), "{arguments}");
    }

    #[test]
    fn arguments_can_be_read_back() {
        let scenario = Scenario::from_seed(3);
        let cut = Cut {
            steps: vec![0, 4],
            faults: FaultRates::default(),
            managers: scenario.managers,
        };
        assert!(cut.arguments(&scenario).starts_with(" --steps 0,4"));
        let read = Cut::parse(&scenario, Some("0,4"), Some("none"), None);
        assert_eq!(read, Ok(cut));
        assert!(Cut::parse(&scenario, Some("999"), None, None).is_err());
        assert!(Cut::parse(&scenario, None, Some("goblins"), None).is_err());
    }
}
