//! Figures with their goals: a table for people, lines of JSON for everything else.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::Serialize;

/// What a figure is held to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

#[derive(Debug, Default)]
pub(crate) struct Report {
    figures: Vec<Figure>,
}

#[derive(Debug, Serialize)]
struct Figure {
    name: String,
    value: f64,
    unit: String,
    goal: Option<f64>,
    /// Whether the goal was reached; `null` where there is none.
    met: Option<bool>,
}

impl Report {
    pub(crate) fn figure(&mut self, name: &str, value: f64, unit: &str, goal: Option<Goal>) {
        let (goal, met) = match goal {
            None => (None, None),
            Some(Goal::AtMost(bound)) => (Some(bound), Some(value <= bound)),
            Some(Goal::AtLeast(bound)) => (Some(bound), Some(value >= bound)),
        };
        self.figures.push(Figure {
            name: name.to_owned(),
            value,
            unit: unit.to_owned(),
            goal,
            met,
        });
    }

    /// Prints the table and writes the lines.
    pub(crate) fn finish(&self, bench: &str) -> Result<()> {
        println!("\n{}", self.table());
        let folder = target_directory().join("bench");
        std::fs::create_dir_all(&folder)?;
        let path = folder.join(format!("{bench}.jsonl"));
        std::fs::write(&path, self.lines()?)
            .with_context(|| format!("cannot write {}", path.display()))?;
        println!("figures are in {}", path.display());
        Ok(())
    }

    fn table(&self) -> String {
        let width = self
            .figures
            .iter()
            .map(|figure| figure.name.len())
            .max()
            .unwrap_or(0)
            .max(6);
        let mut table = format!(
            "{:<width$} {:>12} {:<8} {:>10}\n",
            "figure", "value", "unit", "goal"
        );
        for figure in &self.figures {
            let goal = figure
                .goal
                .map(|goal| format!("{goal:.3}"))
                .unwrap_or_default();
            let verdict = match figure.met {
                Some(false) => "  missed",
                Some(true) => "  met",
                None => "",
            };
            let _ = writeln!(
                table,
                "{:<width$} {:>12.3} {:<8} {goal:>10}{verdict}",
                figure.name, figure.value, figure.unit
            );
        }
        table
    }

    fn lines(&self) -> Result<String> {
        let mut lines = String::new();
        for figure in &self.figures {
            lines += &serde_json::to_string(figure)?;
            lines.push('\n');
        }
        Ok(lines)
    }
}

/// Where cargo builds: the folder that holds the profile folder of this program.
pub(crate) fn target_directory() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    program
        .ancestors()
        .nth(2)
        .map(PathBuf::from)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_knows_whether_it_met_its_goal() {
        let mut report = Report::default();
        report.figure("memory", 11.0, "MB", Some(Goal::AtMost(12.0)));
        report.figure("keys", 1.0, "1/s", Some(Goal::AtLeast(2.0)));
        report.figure("wall", 3.5, "s", None);
        assert_eq!(
            report.lines().unwrap(),
            "{\"name\":\"memory\",\"value\":11.0,\"unit\":\"MB\",\"goal\":12.0,\"met\":true}\n\
             {\"name\":\"keys\",\"value\":1.0,\"unit\":\"1/s\",\"goal\":2.0,\"met\":false}\n\
             {\"name\":\"wall\",\"value\":3.5,\"unit\":\"s\",\"goal\":null,\"met\":null}\n"
        );
        assert!(report.table().contains("2.000  missed"));
    }
}
