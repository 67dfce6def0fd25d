//! Medians, ranges and ratios over all rounds.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use real_tests::Flavor;

use super::stage::Phase;
use crate::report::{Goal, Report};

/// What is read off a phase: its name, its unit, and how.
pub(crate) struct Measure {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    read: fn(&Phase) -> f64,
}

pub(crate) const MEASURES: [Measure; 7] = [
    Measure {
        name: "cpu",
        unit: "ms/item",
        read: |phase| phase.cpu_seconds * 1e3 / phase.items as f64,
    },
    Measure {
        name: "cpu/etcd",
        unit: "x",
        read: |phase| phase.cpu_seconds / phase.etcd_cpu_seconds.max(0.01),
    },
    Measure {
        name: "wall",
        unit: "s",
        read: |phase| phase.wall_seconds,
    },
    Measure {
        name: "resident",
        unit: "MB",
        read: |phase| phase.resident_bytes / 1e6,
    },
    Measure {
        name: "peak",
        unit: "MB",
        read: |phase| phase.peak_resident_bytes / 1e6,
    },
    Measure {
        name: "requests",
        unit: "per item",
        read: |phase| phase.requests.values().sum::<u64>() as f64 / phase.items as f64,
    },
    Measure {
        name: "status-writes",
        unit: "",
        read: |phase| phase.status_writes as f64,
    },
];

/// Goals as ratios to Go in the same run: the budgets of the design, by scenario, phase and measure.
const GOALS: [(&str, f64); 35] = [
    ("idle.idle.resident", 0.2),
    ("deployment.up.cpu", 0.2),
    ("deployment.ready.cpu", 0.2),
    ("deployment.ready.status-writes", 0.7),
    ("deployment.deleted.cpu", 0.2),
    ("deployment.deleted.wall", 0.5),
    ("limited.deleted.wall", 0.5),
    ("namespace.gone.wall", 0.5),
    ("rolling.rolled.cpu", 0.2),
    ("rolling.rolled.status-writes", 0.7),
    ("statefulset.parallel.cpu", 0.2),
    ("statefulset.ordered.cpu", 0.2),
    ("daemonset.up.cpu", 0.2),
    ("default-flags.up.wall", 0.06),
    ("failover.stopped.wall", 0.06),
    ("failover.crashed.wall", 1.0),
    ("services.ready.cpu", 0.2),
    ("services.flipped.cpu", 0.2),
    ("services.flipped.slice-writes", 1.0),
    ("services.flipped.bytes-written", 1.0),
    ("services.rolled.slice-writes", 1.0),
    ("cronjobs.fired.cpu", 0.2),
    ("budgets.ready.cpu", 0.2),
    ("budgets.ready.budget-writes", 0.5),
    ("quotas.created.cpu", 0.2),
    ("quotas.created.quota-writes", 1.0),
    ("quotas.deleted.quota-writes", 1.0),
    ("autoscalers.period.cpu", 0.2),
    ("claims.bound.cpu", 0.2),
    ("claims.bound.wall", 0.5),
    ("attachments.attached.cpu", 0.2),
    ("attachments.detached.cpu", 0.2),
    ("certificates.signed.cpu", 0.4),
    ("at-rest.rest.cpu", 0.1),
    ("at-rest.rest.resident", 0.06),
];

/// What holds for every phase that has no goal of its own.
const EVERYWHERE: [(&str, f64); 2] = [(".requests", 1.0), (".wall", 1.05)];

fn goal(figure: &str) -> Option<Goal> {
    let own = GOALS.iter().find(|(name, _)| *name == figure);
    let goal = own.or_else(|| EVERYWHERE.iter().find(|(end, _)| figure.ends_with(end)));
    goal.map(|(_, bound)| Goal::AtMost(*bound))
}

/// Memory that a phase has more than an earlier one, shared out over what came in between.
struct Growth {
    scenario: &'static str,
    from: &'static str,
    to: &'static str,
    name: &'static str,
    /// At most so many bytes.
    bytes: Option<f64>,
    /// At most so much of Go's.
    ratio: Option<f64>,
}

const GROWTHS: [Growth; 4] = [
    Growth {
        scenario: "cached",
        from: "empty",
        to: "filled",
        name: "bytes-per-pod",
        bytes: Some(600.0),
        ratio: None,
    },
    Growth {
        scenario: "services",
        from: "empty",
        to: "filled",
        name: "bytes-per-endpoint",
        bytes: None,
        ratio: Some(0.1),
    },
    Growth {
        scenario: "claims",
        from: "empty",
        to: "filled",
        name: "bytes-per-claim-and-volume",
        bytes: None,
        ratio: Some(0.15),
    },
    Growth {
        scenario: "claims",
        from: "filled",
        to: "attached",
        name: "bytes-per-attachment",
        bytes: None,
        ratio: Some(0.15),
    },
];

/// CPU a claim among 10,000 volumes, of what it takes among 1,000.
const MATCHING_GROWTH: f64 = 1.5;

/// CPU until each foreign pod is in the caches, in milliseconds: 0.9 s for 30,000.
const SYNC_PER_POD: f64 = 0.03;

pub(crate) struct Summary {
    against: Flavor,
    /// By `scenario.phase`, in the order of the first round.
    phases: Vec<(String, Vec<Phase>)>,
}

/// One line of the table.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) go: Spread,
    pub(crate) other: Spread,
}

/// Median, least and greatest of the rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    least: f64,
    greatest: f64,
}

impl Row {
    pub(crate) fn ratio(&self) -> Option<f64> {
        (self.go.median > 0.0).then(|| self.other.median / self.go.median)
    }
}

impl Summary {
    pub(crate) fn new(against: Flavor) -> Summary {
        Summary {
            against,
            phases: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, scenario: &str, phases: Vec<Phase>) {
        for phase in phases {
            let key = format!("{scenario}.{}", phase.name);
            match self.phases.iter_mut().find(|(known, _)| *known == key) {
                Some((_, rounds)) => rounds.push(phase),
                None => self.phases.push((key, vec![phase])),
            }
        }
    }

    pub(crate) fn against(&self) -> Flavor {
        self.against
    }

    pub(crate) fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for (key, rounds) in &self.phases {
            let mut add = |name: &str, unit: &'static str, read: &dyn Fn(&Phase) -> f64| {
                let of = |flavor: Flavor| {
                    let phases = rounds.iter().filter(|phase| phase.flavor == flavor);
                    spread(phases.map(read))
                };
                if let (Some(go), Some(other)) = (of(Flavor::Go), of(Flavor::Ours)) {
                    let name = format!("{key}.{name}");
                    rows.push(Row {
                        name,
                        unit,
                        go,
                        other,
                    });
                }
            };
            for measure in &MEASURES {
                add(measure.name, measure.unit, &measure.read);
            }
            for (name, _) in rounds.first().map_or(&[][..], |phase| &phase.own) {
                add(name, "", &|phase| phase.own(name));
            }
        }
        rows
    }

    pub(crate) fn table(&self) -> String {
        let mut table = format!(
            "{:<30} {:<9} {:>28} {:>28} {:>7}\n",
            "", "unit", "go median (range)", "other median (range)", "ratio"
        );
        for row in self.rows() {
            let ratio = row
                .ratio()
                .map(|ratio| format!("{ratio:.2}"))
                .unwrap_or_default();
            let _ = writeln!(
                table,
                "{:<30} {:<9} {:>28} {:>28} {ratio:>7}",
                row.name,
                row.unit,
                row.go.shown(),
                row.other.shown()
            );
        }
        for (key, verbs) in self.requests() {
            let _ = writeln!(table, "{key:<30} requests  {verbs}");
        }
        table
    }

    /// Requests by verb of the last round, Go's and the other's.
    fn requests(&self) -> Vec<(String, String)> {
        let shown = |requests: &BTreeMap<String, u64>| {
            requests
                .iter()
                .map(|(verb, count)| format!("{verb} {count}"))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let last = |rounds: &[Phase], flavor: Flavor| {
            rounds
                .iter()
                .rfind(|phase| phase.flavor == flavor)
                .map(|phase| shown(&phase.requests))
                .unwrap_or_default()
        };
        let line = |rounds: &[Phase]| {
            format!(
                "go: {} | other: {}",
                last(rounds, Flavor::Go),
                last(rounds, Flavor::Ours)
            )
        };
        self.phases
            .iter()
            .map(|(key, rounds)| (key.clone(), line(rounds)))
            .collect()
    }

    /// Ratios with their goals, and the memory per cached pod, which is a difference of two phases.
    pub(crate) fn report(&self, report: &mut Report) {
        for row in self.rows() {
            if let Some(ratio) = row.ratio() {
                report.figure(&row.name, ratio, "x of Go", goal(&row.name));
            }
        }
        if let Some(sync) = self
            .rows()
            .iter()
            .find(|row| row.name == "cached.filled.cpu")
        {
            let goal = Some(Goal::AtMost(SYNC_PER_POD));
            report.figure("cached.sync-per-pod", sync.other.median, "ms", goal);
        }
        for growth in &GROWTHS {
            let Some((go, other)) = self.bytes_each(growth) else {
                continue;
            };
            let name = format!("{}.{}", growth.scenario, growth.name);
            report.figure(&format!("{name}.go"), go, "bytes", None);
            let absolute = growth.bytes.map(Goal::AtMost);
            report.figure(&name, other, "bytes", absolute);
            if let Some(ratio) = growth.ratio {
                let goal = Some(Goal::AtMost(ratio));
                report.figure(&format!("{name}-ratio"), other / go, "x of Go", goal);
            }
        }
        self.report_matching(report);
    }

    /// How much more CPU ten times as many volumes and claims take, of ten times.
    fn report_matching(&self, report: &mut Report) {
        for (flavor, end, goal) in [
            (Flavor::Go, ".go", None),
            (Flavor::Ours, "", Some(Goal::AtMost(MATCHING_GROWTH))),
        ] {
            let cpu = |key: &str| {
                let (_, rounds) = self.phases.iter().find(|(known, _)| known == key)?;
                let phases = rounds.iter().filter(|phase| phase.flavor == flavor);
                Some(spread(phases.map(|phase| phase.cpu_seconds / phase.items as f64))?.median)
            };
            if let (Some(small), Some(large)) = (cpu("matching.small"), cpu("matching.large")) {
                report.figure(&format!("matching.growth{end}"), large / small, "x", goal);
            }
        }
    }

    /// What each thing between two phases takes in memory: Go's, and the other's.
    fn bytes_each(&self, growth: &Growth) -> Option<(f64, f64)> {
        let resident = |phase: &str, flavor: Flavor| {
            let key = format!("{}.{phase}", growth.scenario);
            let (_, rounds) = self.phases.iter().find(|(known, _)| *known == key)?;
            let values = rounds.iter().filter(|phase| phase.flavor == flavor);
            Some((
                spread(values.map(|phase| phase.resident_bytes))?.median,
                rounds.first()?.items as f64,
            ))
        };
        let each = |flavor: Flavor| {
            let ((filled, items), (empty, _)) =
                (resident(growth.to, flavor)?, resident(growth.from, flavor)?);
            Some((filled - empty) / items)
        };
        Some((each(Flavor::Go)?, each(Flavor::Ours)?))
    }
}

impl Spread {
    fn shown(self) -> String {
        format!(
            "{:.2} ({:.2}-{:.2})",
            self.median, self.least, self.greatest
        )
    }
}

fn spread(values: impl Iterator<Item = f64>) -> Option<Spread> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let (least, greatest) = (*values.first()?, *values.last()?);
    let middle = values.len() / 2;
    let median = if values.len() % 2 == 1 {
        values[middle]
    } else {
        (values[middle - 1] + values[middle]) / 2.0
    };
    Some(Spread {
        median,
        least,
        greatest,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_rounds() {
        let of = |values: &[f64]| spread(values.iter().copied()).map(|spread| spread.median);
        assert_eq!(of(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(of(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn rows_compare_the_two_per_item() {
        let phase = |flavor, cpu_seconds| Phase {
            name: "up",
            flavor,
            items: 10,
            wall_seconds: 1.0,
            cpu_seconds,
            etcd_cpu_seconds: 1.0,
            resident_bytes: 1e6,
            peak_resident_bytes: 1e6,
            requests: BTreeMap::new(),
            status_writes: 0,
            own: Vec::new(),
        };
        let mut summary = Summary::new(Flavor::Ours);
        summary.add(
            "deployment",
            vec![phase(Flavor::Go, 1.0), phase(Flavor::Ours, 0.1)],
        );
        let row = &summary.rows()[0];
        assert_eq!(row.name, "deployment.up.cpu");
        assert_eq!((row.go.median, row.ratio()), (100.0, Some(0.1)));
    }
}
