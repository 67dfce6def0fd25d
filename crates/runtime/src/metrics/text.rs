//! The Prometheus text format as Go's client library writes it.
//!
//! The `prometheus` crate has an encoder too, but it writes 10 ns as `0.00000001` where upstream
//! writes `1e-08`. `le` labels are text to a scraper: another spelling is another time series.

use std::fmt::Write;

use prometheus::proto::{LabelPair, Metric, MetricFamily, MetricType};

pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) fn render(families: &[MetricFamily]) -> String {
    /// About what an idle process with all controllers renders.
    const USUAL_BYTES: usize = 256 * 1024;
    let mut out = String::with_capacity(USUAL_BYTES);
    for family in families {
        header(&mut out, family);
        for metric in family.get_metric() {
            match family.get_field_type() {
                MetricType::COUNTER => {
                    let value = metric.get_counter().get_value();
                    sample(&mut out, family.name(), metric.get_label(), None, value);
                }
                MetricType::GAUGE => {
                    let value = metric.get_gauge().get_value();
                    sample(&mut out, family.name(), metric.get_label(), None, value);
                }
                MetricType::HISTOGRAM => histogram(&mut out, family.name(), metric),
                // We register neither.
                MetricType::SUMMARY | MetricType::UNTYPED => {}
            }
        }
    }
    out
}

fn header(out: &mut String, family: &MetricFamily) {
    let kind = match family.get_field_type() {
        MetricType::COUNTER => "counter",
        MetricType::GAUGE => "gauge",
        MetricType::HISTOGRAM => "histogram",
        MetricType::SUMMARY => "summary",
        MetricType::UNTYPED => "untyped",
    };
    out.push_str("# HELP ");
    out.push_str(family.name());
    out.push(' ');
    escape(out, family.help(), false);
    out.push_str("\n# TYPE ");
    out.push_str(family.name());
    out.push(' ');
    out.push_str(kind);
    out.push('\n');
}

fn histogram(out: &mut String, name: &str, metric: &Metric) {
    let (labels, histogram) = (metric.get_label(), metric.get_histogram());
    let bucket_name = format!("{name}_bucket");
    for bucket in histogram.get_bucket() {
        let bound = Some(bucket.upper_bound());
        sample(
            out,
            &bucket_name,
            labels,
            bound,
            bucket.cumulative_count() as f64,
        );
    }
    let count = histogram.get_sample_count() as f64;
    sample(out, &bucket_name, labels, Some(f64::INFINITY), count);
    sample(
        out,
        &format!("{name}_sum"),
        labels,
        None,
        histogram.get_sample_sum(),
    );
    sample(out, &format!("{name}_count"), labels, None, count);
}

fn sample(out: &mut String, name: &str, labels: &[LabelPair], bound: Option<f64>, value: f64) {
    out.push_str(name);
    let mut separator = '{';
    for label in labels {
        out.push(separator);
        separator = ',';
        out.push_str(label.name());
        out.push_str("=\"");
        escape(out, label.value(), true);
        out.push('"');
    }
    if let Some(bound) = bound {
        out.push(separator);
        separator = ',';
        out.push_str("le=\"");
        number(out, bound);
        out.push('"');
    }
    if separator == ',' {
        out.push('}');
    }
    out.push(' ');
    number(out, value);
    out.push('\n');
}

fn escape(out: &mut String, text: &str, quotes: bool) {
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if quotes => out.push_str("\\\""),
            other => out.push(other),
        }
    }
}

/// As Go's shortest `%g`: an exponent of at least two digits, below 1e-4 and from 1e+06.
fn number(out: &mut String, value: f64) {
    if value.is_nan() {
        out.push_str("NaN");
    } else if value.is_infinite() {
        out.push_str(if value > 0.0 { "+Inf" } else { "-Inf" });
    } else if value == 0.0 || (1e-4..GO_EXPONENT_FROM).contains(&value.abs()) {
        write!(out, "{value}").expect("writing to a string does not fail");
    } else {
        let scientific = format!("{value:e}");
        let (digits, exponent) = scientific
            .split_once('e')
            .expect("the format asks for an exponent");
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(rest) => ('-', rest),
            None => ('+', exponent),
        };
        write!(out, "{digits}e{sign}{exponent:0>2}").expect("writing to a string does not fail");
    }
}

/// `%g` without a precision decides as if the precision were 6 digits.
const GO_EXPONENT_FROM: f64 = 1e6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_as_go_does() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (1e-8, "1e-08"),
            (9.999999999999999e-6, "9.999999999999999e-06"),
            (9.999999999999999e-5, "9.999999999999999e-05"),
            (0.0001, "0.0001"),
            (0.001, "0.001"),
            (999999.0, "999999"),
            (1048576.0, "1.048576e+06"),
            (1234567.0, "1.234567e+06"),
            (1e100, "1e+100"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
        ] {
            let mut out = String::new();
            number(&mut out, value);
            assert_eq!(out, text);
        }
    }
}
