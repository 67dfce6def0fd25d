//! Writes the summary where readers find it: `docs/benchmarks.md` with a chart beside it.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};

use super::summary::{Row, Summary};

/// Pixels: a bar, the label beside it, and the widest bar.
const ROW_HEIGHT: usize = 22;
const LABEL_WIDTH: usize = 230;
const BAR_WIDTH: f64 = 400.0;
/// A ratio at which a bar is cut off: five times Go's cost is bad enough to be seen.
const WIDEST_RATIO: f64 = 2.0;

/// Between these two lines of the document lies what this command writes.
const BEGIN: &str = "<!-- head-to-head: written by cargo xtask bench head-to-head --write -->";
const END: &str = "<!-- head-to-head: end -->";

pub(crate) fn write(summary: &Summary) -> Result<()> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    std::fs::create_dir_all(&docs)?;
    std::fs::write(docs.join("head-to-head.svg"), svg(&summary.rows()))
        .context("cannot write the chart")?;
    let path = docs.join("benchmarks.md");
    let existing = std::fs::read_to_string(&path).unwrap_or_else(|_| "# Benchmarks\n".to_owned());
    std::fs::write(&path, replace_section(&existing, &markdown(summary)))
        .context("cannot write docs/benchmarks.md")
}

fn markdown(summary: &Summary) -> String {
    let mut text = format!(
        "{BEGIN}\n## Head to head: Go and {}\n\nMedians over all rounds; a ratio below 1 is cheaper or faster than Go.\n\n\
         ![ratios to Go](head-to-head.svg)\n\n| figure | unit | Go | other | ratio |\n|---|---|---|---|---|\n",
        summary.against().name()
    );
    for row in summary.rows() {
        let ratio = row
            .ratio()
            .map(|ratio| format!("{ratio:.2}"))
            .unwrap_or_default();
        let _ = writeln!(
            text,
            "| {} | {} | {:.2} | {:.2} | {ratio} |",
            row.name, row.unit, row.go.median, row.other.median
        );
    }
    text + END + "\n"
}

/// Puts the section in the place of the old one, or at the end of a document that has none.
fn replace_section(document: &str, section: &str) -> String {
    match (document.find(BEGIN), document.find(END)) {
        (Some(begin), Some(end)) if begin < end => {
            let rest = document[end + END.len()..].trim_start_matches('\n');
            let gap = if rest.is_empty() { "" } else { "\n" };
            format!("{}{section}{gap}{rest}", &document[..begin])
        }
        _ => format!("{}\n\n{section}", document.trim_end()),
    }
}

fn svg(rows: &[Row]) -> String {
    let shown: Vec<(&Row, f64)> = rows
        .iter()
        .filter_map(|row| Some((row, row.ratio()?)))
        .collect();
    let height = (shown.len() + 2) * ROW_HEIGHT;
    let width = LABEL_WIDTH + BAR_WIDTH as usize + 80;
    let one = LABEL_WIDTH as f64 + BAR_WIDTH / WIDEST_RATIO;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<text x=\"{one}\" y=\"14\" text-anchor=\"middle\">Go = 1</text>\n"
    );
    for (index, (row, ratio)) in shown.iter().enumerate() {
        let y = (index + 1) * ROW_HEIGHT;
        let bar = ratio.min(WIDEST_RATIO) / WIDEST_RATIO * BAR_WIDTH;
        let colour = if *ratio <= 1.0 { "#2a7" } else { "#c53" };
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text><rect x=\"{LABEL_WIDTH}\" y=\"{y}\" \
             width=\"{bar:.1}\" height=\"16\" fill=\"{colour}\"/><text x=\"{:.1}\" y=\"{}\">{ratio:.2}</text>",
            LABEL_WIDTH - 6,
            y + 12,
            row.name,
            LABEL_WIDTH as f64 + bar + 4.0,
            y + 12,
        );
    }
    let _ = writeln!(
        svg,
        "<line x1=\"{one}\" y1=\"18\" x2=\"{one}\" y2=\"{height}\" stroke=\"#888\"/>\n</svg>"
    );
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_replaced_in_place_or_appended() {
        let section = format!("{BEGIN}\nnew\n{END}\n");
        let first = replace_section("# Benchmarks\n", &section);
        assert_eq!(first, format!("# Benchmarks\n\n{section}"));
        let older = format!("# Benchmarks\n\n{BEGIN}\nold\n{END}\n\n## More\n");
        assert_eq!(
            replace_section(&older, &section),
            format!("# Benchmarks\n\n{section}\n## More\n")
        );
    }
}
