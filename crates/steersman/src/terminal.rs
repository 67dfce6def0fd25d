//! What the terminal can do, and how text is put onto it: colour, width, wrapped words. One place for all commands.

use std::borrow::Cow;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::sync::OnceLock;

use clap::ValueEnum;
pub(crate) use explain::Tone;

/// `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set or TERM is dumb
    #[default]
    Auto,
    /// In files and pipes, too
    Always,
    Never,
}

/// What was asked for on the command line; it does not change.
static ASKED: OnceLock<Color> = OnceLock::new();

pub(crate) fn ask_for(color: Color) {
    // The command line is read once.
    let _ = ASKED.set(color);
}

/// Where text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terminal {
    /// None where nobody measures: in files and pipes, whose lines can be searched for.
    pub(crate) width: Option<usize>,
    pub(crate) colour: bool,
    pub(crate) unicode: bool,
    pub(crate) is_terminal: bool,
}

/// Where the width is not known, for charts: what fits a terminal of the usual size and most logs.
const USUAL_WIDTH: usize = 100;

/// On less than this nothing is wrapped: charts have rows that are longer, and words would stand one to a line.
const NARROWEST: usize = 30;

impl Terminal {
    pub(crate) fn of_stdout() -> Terminal {
        Terminal::of(&std::io::stdout())
    }

    pub(crate) fn of(stream: &(impl IsTerminal + AsFd)) -> Terminal {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let is_terminal = stream.is_terminal();
        let measured = match is_terminal {
            true => rustix::termios::tcgetwinsize(stream.as_fd()).ok(),
            false => None,
        };
        let asked = ASKED.get().copied().unwrap_or_default();
        Terminal {
            width: width(
                variable("COLUMNS").as_deref(),
                measured.map(|size| size.ws_col),
            ),
            colour: colour(asked, is_terminal, variable),
            unicode: unicode(variable),
            is_terminal,
        }
    }

    pub(crate) fn paint(self, tone: Tone, text: &str) -> String {
        tone.paint(text, self.colour)
    }

    /// How wide charts are.
    pub(crate) fn chart_width(self) -> usize {
        self.width.unwrap_or(USUAL_WIDTH)
    }

    /// The text with its words wrapped where lines are longer than the terminal is wide. Rows of charts are never
    /// longer, so they stay whole.
    pub(crate) fn wrap(self, text: &str) -> Cow<'_, str> {
        match self.width {
            Some(width) if width >= NARROWEST => Cow::Owned(wrap(text, width)),
            _ => Cow::Borrowed(text),
        }
    }
}

/// `COLUMNS` is what somebody wants; shells set it without exporting it, so the terminal is asked, too.
fn width(columns: Option<&str>, measured: Option<u16>) -> Option<usize> {
    let wanted = columns.and_then(|columns| columns.parse().ok());
    let width = wanted.or(measured.map(usize::from));
    width.filter(|width| *width > 0)
}

fn colour(asked: Color, is_terminal: bool, variable: impl Fn(&str) -> Option<String>) -> bool {
    match asked {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => {
            is_terminal
                && variable("NO_COLOR").is_none()
                && variable("TERM").is_some_and(|terminal| terminal != "dumb")
        }
    }
}

fn unicode(variable: impl Fn(&str) -> Option<String>) -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(variable);
    locale.is_none_or(|locale| {
        let locale = locale.to_uppercase();
        locale.contains("UTF-8") || locale.contains("UTF8")
    })
}

fn wrap(text: &str, width: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = match line.strip_suffix('\n') {
            Some(line) => (line, "\n"),
            None => (line, ""),
        };
        match seen(line) <= width {
            true => out.push_str(line),
            false => wrap_line(&mut out, line, width),
        }
        out.push_str(end);
    }
    out
}

/// Commands that a person copies stay in one piece: a terminal that is too narrow breaks them without a line end.
const COMMANDS: [&str; 4] = ["kubectl ", "steersman ", "export ", "http"];

fn wrap_line(out: &mut String, line: &str, width: usize) {
    let start = line.trim_start();
    let is_command = |column: &str| COMMANDS.iter().any(|command| column.starts_with(command));
    if line.split("  ").map(str::trim_start).any(is_command) {
        return out.push_str(line);
    }
    let hang = " ".repeat(hang(line, width));
    let mut column = line.len() - start.len();
    out.push_str(&line[..column]);
    for (index, word) in start.split(' ').enumerate() {
        let length = seen(word);
        if index > 0 && column + 1 + length > width && column > hang.len() {
            out.push('\n');
            out.push_str(&hang);
            column = hang.len();
        } else if index > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
}

/// How far the lines that follow are set in: two more than the last column of the row that leaves half of the width, so
/// that a row with a heading and those below it look alike.
fn hang(line: &str, width: usize) -> usize {
    let own = line.len() - line.trim_start().len();
    let mut found = own;
    let mut rest = &line[own..];
    while let Some(gap) = rest.find("  ") {
        rest = rest[gap..].trim_start();
        let column = seen(&line[..line.len() - rest.len()]);
        if column * 2 > width {
            break;
        }
        found = column;
    }
    found + 2
}

/// How many characters of it are seen: the codes of colours are not.
fn seen(text: &str) -> usize {
    let mut count = 0;
    let mut in_code = false;
    for character in text.chars() {
        match (in_code, character) {
            (false, '\u{1b}') => in_code = true,
            (true, 'm') => in_code = false,
            (true, _) => {}
            (false, _) => count += 1,
        }
    }
    count
}

/// The beginning of a line that fits, for lines that are written over.
pub(crate) fn fitting(text: &str, width: usize) -> String {
    match text.chars().count() <= width {
        true => text.to_owned(),
        false => {
            let kept = text.chars().take(width.saturating_sub(1));
            kept.chain(std::iter::once('…')).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_wrapped_below_the_text_of_their_row() {
        let text = "wants       three pods of web, all of them ready and available\nshort\n";
        assert_eq!(
            wrap(text, 40),
            "wants       three pods of web, all of\n              them ready and available\nshort\n"
        );
    }

    #[test]
    fn rows_of_a_section_hang_alike() {
        let rows = "did         4s ago    creates three pods of web\n            2s ago    deletes two pods of web\n";
        assert_eq!(
            wrap(rows, 44),
            "did         4s ago    creates three pods of\n                        web\n            2s ago    deletes two pods of\n                        web\n"
        );
    }

    #[test]
    fn prose_hangs_by_two_and_colours_do_not_count() {
        let text = "\u{1b}[31mdeployment/web\u{1b}[0m is stuck because no node has room";
        assert_eq!(
            wrap(text, 33),
            "\u{1b}[31mdeployment/web\u{1b}[0m is stuck because\n  no node has room"
        );
    }

    #[test]
    fn commands_and_long_words_stay_whole() {
        let command = "  kubectl create deployment web --image=nginx --replicas=3";
        assert_eq!(wrap(command, 30), command);
        let helping = "would help  kubectl set image deployment/web c=IMAGE -n shop";
        assert_eq!(wrap(helping, 30), helping);
        let long = "a".repeat(50);
        assert_eq!(wrap(&long, 30), long);
    }

    #[test]
    fn what_was_wanted_goes_before_what_was_measured() {
        assert_eq!(width(Some("60"), Some(132)), Some(60));
        assert_eq!(width(None, Some(132)), Some(132));
        assert_eq!(width(Some("many"), Some(132)), Some(132));
        assert_eq!(width(None, Some(0)), None, "a terminal that does not know");
        assert_eq!(width(None, None), None);
    }

    #[test]
    fn colour_is_for_terminals_that_want_it() {
        let with = |asked, is_terminal, set: &[(&str, &str)]| {
            colour(asked, is_terminal, |name| {
                let found = set.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        let term = ("TERM", "xterm");
        assert!(with(Color::Auto, true, &[term]));
        assert!(!with(Color::Auto, false, &[term]));
        assert!(!with(Color::Auto, true, &[term, ("NO_COLOR", "1")]));
        assert!(!with(Color::Auto, true, &[("TERM", "dumb")]));
        assert!(with(Color::Always, false, &[("NO_COLOR", "1")]));
        assert!(!with(Color::Never, true, &[term]));
    }

    #[test]
    fn a_line_that_is_written_over_fits() {
        assert_eq!(fitting("three nodes", 20), "three nodes");
        assert_eq!(fitting("three nodes", 6), "three…");
    }
}
