//! `cargo xtask picture`: the terminal screen of `steersman up` as `docs/up.svg`, from what it really says.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::{steps, workspace};

/// The last line of the screen begins with it.
const LAST: &str = "Ctrl-C stops it";

/// In pixels. A character of the fonts named below is as wide as six tenths of its height.
const FONT: f64 = 14.0;
const LINE: f64 = 20.0;
const MARGIN: f64 = 20.0;
const BAR: f64 = 34.0;

pub(crate) fn run(_: &[String]) -> Result<()> {
    steps::succeed(workspace::cargo().args(["build", "--quiet", "--package", "steersman"]))?;
    let home = std::env::temp_dir().join(format!("steersman-picture-{}", std::process::id()));
    std::fs::create_dir_all(&home)?;
    let screen = screen(&home);
    std::fs::remove_dir_all(&home)?;
    let path = workspace::root().join("docs/up.svg");
    std::fs::write(&path, svg(&screen?))?;
    println!("wrote {}", path.display());
    Ok(())
}

/// What a user at home sees after typing the command.
fn screen(home: &Path) -> Result<Vec<String>> {
    let mut up = Command::new(workspace::root().join("target/debug/steersman"))
        .arg("up")
        .env("HOME", home)
        .env_remove("XDG_DATA_HOME")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run steersman")?;
    let mut lines = vec!["$ steersman up".to_owned()];
    let output = up.stdout.take().context("it is piped")?;
    for line in BufReader::new(output).lines() {
        let line = line?.replace(&*home.to_string_lossy(), "~");
        // What makes a link open once is long, and nobody copies it from a picture.
        let line = match line.split_once("?link=") {
            Some((address, _)) => format!("{address}?link=…"),
            None => line,
        };
        let is_last = line.starts_with(LAST);
        lines.push(line);
        if is_last {
            break;
        }
    }
    up.kill()?;
    up.wait()?;
    if !lines.last().is_some_and(|line| line.starts_with(LAST)) {
        bail!("steersman up ended before it was up: {lines:?}");
    }
    Ok(lines)
}

fn svg(lines: &[String]) -> String {
    let columns = lines
        .iter()
        .map(|line| line.chars().count())
        .max()
        .unwrap_or(0);
    let width = columns as f64 * FONT * 0.6 + 2.0 * MARGIN;
    let height = BAR + lines.len() as f64 * LINE + MARGIN;
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        if line.is_empty() {
            continue;
        }
        let y = BAR + (number as f64 + 1.0) * LINE;
        let colour = match line.trim_start() {
            line if line.starts_with("$ ") => "#ffffff",
            line if line.starts_with("export ") || line.starts_with("kubectl ") => "#9cdcfe",
            line if line.ends_with(" s") => "#b5e8a0",
            _ => "#d4d4d4",
        };
        let _ = writeln!(
            text,
            "<text x=\"{MARGIN}\" y=\"{y}\" fill=\"{colour}\" xml:space=\"preserve\">{}</text>",
            escaped(line)
        );
    }
    let buttons: String = ["#ff5f56", "#ffbd2e", "#27c93f"]
        .iter()
        .enumerate()
        .map(|(number, colour)| {
            let x = MARGIN + number as f64 * 20.0;
            format!("<circle cx=\"{x}\" cy=\"18\" r=\"6\" fill=\"{colour}\"/>\n")
        })
        .collect();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"The terminal after steersman up\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#1e1e1e\"/>\n{buttons}\
         <g font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace\" \
         font-size=\"{FONT}\">\n{text}</g>\n</svg>\n"
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_holds_its_lines_and_nothing_that_breaks_it() {
        let lines = ["$ steersman up".to_owned(), "a <b> & c".to_owned()];
        let picture = svg(&lines);
        assert!(picture.contains(">$ steersman up</text>"));
        assert!(picture.contains(">a &lt;b&gt; &amp; c</text>"));
        assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
    }
}
