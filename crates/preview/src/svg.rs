//! A preview as a picture that reads well on light and on dark ground. Pure.

use crate::report::{Preview, Workload};
use crate::series::{BANDS, Sample};
use crate::text::duration;
use crate::ticks;

const WIDTH: f64 = 760.0;
/// The height of one chart, without its title and legend.
const HEIGHT: f64 = 180.0;
const LEFT: f64 = 48.0;
const RIGHT: f64 = 16.0;
/// Title above, times and legend below each chart.
const ABOVE: f64 = 44.0;
const BELOW: f64 = 56.0;

/// Colours that keep apart for people who do not see all of them, on both grounds.
const STYLE: &str = "
text { font: 12px system-ui, sans-serif; fill: #24292f; }
.title { font-size: 14px; font-weight: 600; }
.axis { stroke: #8c959f; fill: none; }
.mark { stroke: #cf222e; stroke-width: 2; fill: none; } .marked { fill: #cf222e; font-weight: 600; }
.want { stroke: #24292f; stroke-dasharray: 4 3; fill: none; }
.new-ready { fill: #1a7f37; } .new { fill: #d4a72c; } .old-ready { fill: #0969da; } .old { fill: #8250df; }
.succeeded { fill: #57ab5a; } .failed { fill: #cf222e; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; } .mark { stroke: #f85149; } .marked { fill: #f85149; } .want { stroke: #e6edf3; }
  .new-ready { fill: #3fb950; } .new { fill: #e3b341; } .old-ready { fill: #58a6ff; } .old { fill: #bc8cff; }
  .succeeded { fill: #8ddb8c; } .failed { fill: #f85149; }
}";

pub fn svg(preview: &Preview) -> String {
    let block = ABOVE + HEIGHT + BELOW;
    let charts: Vec<&Workload> = preview
        .workloads
        .iter()
        .filter(|workload| !workload.samples.is_empty())
        .collect();
    let height = 28.0 + block * charts.len() as f64;
    let verdict = escape(&preview.verdict());
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{verdict}\">\n<style>{STYLE}</style>\n<text class=\"title\" x=\"{LEFT}\" y=\"18\">{verdict}</text>\n"
    );
    for (index, workload) in charts.iter().enumerate() {
        let top = 28.0 + block * index as f64;
        out.push_str(&format!("<g transform=\"translate(0 {top})\">\n"));
        out.push_str(&chart(preview, workload));
        out.push_str("</g>\n");
    }
    out.push_str("</svg>\n");
    out
}

fn chart(preview: &Preview, workload: &Workload) -> String {
    let end = workload.chart_end(preview.given_seconds);
    let highest = workload.samples.iter().map(Sample::height).max();
    let most = highest.unwrap_or(0).max(workload.wanted).max(1);
    let place = Place {
        end,
        most: f64::from(most),
    };
    let mut out = String::new();
    let name = escape(&format!("{} in {}", workload.object, workload.namespace));
    let fewest = workload.minimum_available.map_or(String::new(), |fewest| {
        format!(
            ", never fewer than {fewest} of {} available",
            workload.wanted
        )
    });
    out.push_str(&format!(
        "<text class=\"title\" x=\"{LEFT}\" y=\"16\">{name}</text>\n<text x=\"{LEFT}\" y=\"34\">at most {}{fewest}</text>\n",
        api::decision::counted(workload.peak_pods, "pod")
    ));
    let shown = shown(workload);
    for band in shown.iter().rev().copied() {
        out.push_str(&place.area(&workload.samples, band));
    }
    let wanted = place.y(f64::from(workload.wanted));
    let (bottom, right) = (place.y(0.0), WIDTH - RIGHT);
    out.push_str(&format!(
        "<path class=\"want\" d=\"M{LEFT} {wanted}H{right}\"/>\n<path class=\"axis\" d=\"M{LEFT} {ABOVE}V{bottom}H{right}\"/>\n"
    ));
    out.push_str(&format!(
        "<text x=\"{0}\" y=\"{1}\" text-anchor=\"end\">{most}</text>\n<text x=\"{0}\" y=\"{bottom}\" text-anchor=\"end\">0</text>\n",
        LEFT - 6.0,
        ABOVE + 10.0
    ));
    for count in ticks::counts(most)
        .into_iter()
        .filter(|count| *count < most)
    {
        let y = place.y(f64::from(count));
        out.push_str(&format!(
            "<text x=\"{0}\" y=\"{1:.1}\" text-anchor=\"end\">{count}</text>\n",
            LEFT - 6.0,
            y + 4.0
        ));
    }
    for mark in &workload.marks {
        let x = place.x(mark.at);
        let (anchor, shift) = match x > WIDTH / 2.0 {
            true => ("end", -4.0),
            false => ("start", 4.0),
        };
        out.push_str(&format!(
            "<path class=\"mark\" d=\"M{x:.1} {ABOVE}V{bottom}\"/>\n<text class=\"marked\" x=\"{:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>\n",
            x + shift,
            ABOVE + 12.0,
            escape(&mark.text)
        ));
    }
    for time in ticks::times(end) {
        let anchor = match place.x(time) {
            x if x < LEFT + 20.0 => "start",
            x if x > WIDTH - RIGHT - 20.0 => "end",
            _ => "middle",
        };
        out.push_str(&format!(
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>\n",
            place.x(time),
            bottom + 16.0,
            duration(time)
        ));
    }
    out.push_str(&legend(&shown, bottom + 38.0));
    out
}

struct Place {
    end: f64,
    most: f64,
}

impl Place {
    fn x(&self, time: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (time / self.end).clamp(0.0, 1.0)
    }

    fn y(&self, count: f64) -> f64 {
        ABOVE + HEIGHT * (1.0 - count / self.most)
    }

    /// Everything up to a band, in steps; bands below are drawn over it.
    fn area(&self, samples: &[Sample], band: usize) -> String {
        let (class, _) = BANDS[band];
        let top = |sample: &Sample| f64::from(sample.bands()[..=band].iter().sum::<i32>());
        let mut path = format!("M{:.1} {:.1}", self.x(0.0), self.y(0.0));
        for sample in samples.iter().filter(|sample| sample.at <= self.end) {
            path.push_str(&format!(
                "H{:.1}V{:.1}",
                self.x(sample.at),
                self.y(top(sample))
            ));
        }
        path.push_str(&format!("H{:.1}V{:.1}Z", self.x(self.end), self.y(0.0)));
        format!("<path class=\"{class}\" d=\"{path}\"/>\n")
    }
}

/// The bands that such a workload can have: what has ended counts for Jobs only.
fn shown(workload: &Workload) -> Vec<usize> {
    let ends = |class: &str| matches!(class, "succeeded" | "failed");
    let is_old = |class: &str| class.starts_with("old");
    let can_be = |class: &str| match workload.is_job() {
        true => !is_old(class),
        false => !ends(class),
    };
    let bands = BANDS.iter().enumerate();
    bands
        .filter(|(_, (class, _))| can_be(class))
        .map(|(band, _)| band)
        .collect()
}

fn legend(shown: &[usize], y: f64) -> String {
    let mut out = String::new();
    for (index, (class, name)) in shown.iter().map(|band| BANDS[*band]).enumerate() {
        let x = LEFT + 140.0 * index as f64;
        out.push_str(&format!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{}\" width=\"12\" height=\"12\"/><text x=\"{}\" y=\"{y}\">{name}</text>\n",
            y - 10.0,
            x + 18.0
        ));
    }
    out.push_str(&format!(
        "<path class=\"want\" d=\"M{0} {1}h24\"/><text x=\"{2}\" y=\"{y}\">wanted</text>\n",
        LEFT + 560.0,
        y - 4.0,
        LEFT + 590.0
    ));
    out
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
