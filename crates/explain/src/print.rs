//! An explanation as text.

use std::fmt;

use api::Time;

use crate::time::{human, relative};
use crate::{Explanation, Obstacle, State, Tone};

impl Explanation {
    /// The text without colour, as of `now`.
    pub fn text(&self, now: Time) -> String {
        self.painted(now, false)
    }

    /// The text for a terminal that may have colour, as of `now`.
    pub fn painted(&self, now: Time, colour: bool) -> String {
        let mut out = String::new();
        // Writing into a string cannot fail.
        let _ = self.write(&mut out, now, colour);
        out
    }

    fn write(&self, out: &mut String, now: Time, colour: bool) -> fmt::Result {
        use fmt::Write;
        let object = match self.namespace.as_str() {
            "" => self.object.clone(),
            namespace => format!("{} in {namespace}", self.object),
        };
        let tone = match self.state {
            State::Settled => Tone::Good,
            State::Progressing | State::Unknown => Tone::Warning,
            State::Stuck => Tone::Bad,
        };
        let object = Tone::Heading.paint(&object, colour);
        writeln!(out, "{object}: {}", tone.paint(&self.verdict, colour))?;
        let section = |out: &mut String, heading: &str, lines: &[String]| {
            section(out, heading, lines, colour);
        };
        section(out, "wants", &self.wants);
        section(out, "sees", &self.sees);
        let did: Vec<String> = self
            .did
            .iter()
            .map(|did| {
                let failed = did
                    .failure
                    .as_ref()
                    .map_or(String::new(), |why| format!("; failed: {why}"));
                format!("{:<9} {}{failed}", relative(did.at, now), did.what)
            })
            .collect();
        section(out, "did", &did);
        section(out, "would", &self.would);
        section(out, "pending", &self.waits);
        let obstacles: Vec<String> = self
            .in_the_way
            .iter()
            .filter(|one| !one.in_verdict)
            .map(|obstacle| obstacle.text(now))
            .collect();
        section(out, "in the way", &obstacles);
        if let Some(help) = &self.help {
            let lines = [help.command.clone(), help.why.clone()];
            let lines = lines.into_iter().filter(|line| !line.is_empty());
            section(out, "would help", &lines.collect::<Vec<_>>());
        }
        section(out, "not read", &self.missing);
        let source = format!("Source: {}.", self.source);
        writeln!(out, "\n{}", Tone::Faint.paint(&source, colour))
    }
}

impl Obstacle {
    fn text(&self, now: Time) -> String {
        let more = match self.more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let since = self.since.map_or(String::new(), |since| {
            format!(" (for {})", human(now.unix() - since.unix()))
        });
        format!("{}{more}: {}{since}", self.object, self.why)
    }
}

/// The longest heading and two spaces.
const INDENT: usize = 12;

fn section(out: &mut String, heading: &str, lines: &[String], colour: bool) {
    if lines.is_empty() {
        return;
    }
    out.push('\n');
    for (index, line) in lines.iter().enumerate() {
        let heading = if index == 0 { heading } else { "" };
        let gap = " ".repeat(INDENT - heading.len());
        let heading = Tone::Heading.paint(heading, colour);
        out.push_str(&format!("{heading}{gap}{line}\n"));
    }
}
