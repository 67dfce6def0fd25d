//! What the process says about itself besides its work, and the --*-metrics flags.

use std::collections::BTreeMap;
use std::fmt::Write;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Gauge, IntCounter};
use runtime::Metrics;
use runtime::metrics::Stability;

use crate::gates::{FeatureGates, Version};
use crate::options::MetricsOptions;
use crate::version;

/// All metrics of the process, as `/metrics` shows them.
pub struct ProcessMetrics {
    metrics: Metrics,
    options: MetricsOptions,
}

impl ProcessMetrics {
    /// Adds the process's own families to those of its parts.
    pub fn new(metrics: Metrics, options: MetricsOptions, gates: &FeatureGates) -> ProcessMetrics {
        build_info(&metrics);
        feature_gates(&metrics, gates);
        registration(&metrics, &options);
        // A system without /proc has no process metrics; that is no reason not to run.
        let _ = metrics
            .registry()
            .register(Box::new(ProcessCollector::new()));
        ProcessMetrics { metrics, options }
    }

    /// The text for a scraper.
    pub fn render(&self) -> String {
        let text = self.metrics.render();
        if self.options.disabled.is_empty() && self.options.allowed_labels.is_empty() {
            return text;
        }
        restrict(&text, &self.options)
    }
}

fn build_info(metrics: &Metrics) {
    let labels = [
        "build_date",
        "compiler",
        "git_commit",
        "git_tree_state",
        "git_version",
        "go_version",
        "major",
        "minor",
        "platform",
    ];
    let help = "What was built, from what, when and by what.";
    let info = metrics.gauge("kubernetes_build_info", help, Stability::Beta, &labels);
    let platform = version::platform();
    info.with_label_values(&[
        version::BUILD_DATE,
        version::COMPILER,
        version::GIT_COMMIT,
        "clean",
        version::GIT_VERSION,
        version::COMPILER,
        version::MAJOR,
        version::MINOR,
        &platform,
    ])
    .set(1.0);
}

fn feature_gates(metrics: &Metrics, gates: &FeatureGates) {
    let help = "Whether a feature is on.";
    let enabled = metrics.gauge(
        "kubernetes_feature_enabled",
        help,
        Stability::Beta,
        &["name", "stage"],
    );
    for (name, stage, on) in gates.all() {
        enabled
            .with_label_values(&[name, stage.label()])
            .set(f64::from(u8::from(on)));
    }
    let versions = gates.versions();
    let labels = ["binary", "component", "emulation", "min_compat"];
    let help = "The versions in force.";
    let info = metrics.gauge("version_info", help, Stability::Alpha, &labels);
    info.with_label_values(&[
        &Version::BINARY.to_string(),
        "kube",
        &versions.emulated.to_string(),
        &versions.min_compatibility.to_string(),
    ])
    .set(1.0);
}

fn registration(metrics: &Metrics, options: &MetricsOptions) {
    let disabled = metrics.counter(
        "disabled_metrics_total",
        "Metrics turned off.",
        Stability::Beta,
        &[],
    );
    disabled
        .with_label_values::<&str>(&[])
        .inc_by(options.disabled.len() as u64);
    let hidden = metrics.counter(
        "hidden_metrics_total",
        "Metrics no longer shown.",
        Stability::Beta,
        &[],
    );
    hidden.with_label_values::<&str>(&[]).inc_by(0);
    let registered = metrics.counter(
        "registered_metrics_total",
        "Metrics that exist, by how long their names will stay.",
        Stability::Beta,
        &["deprecated_version", "stability_level"],
    );
    let counted = metrics.clone();
    metrics.before_scrape(move || {
        for (level, mark) in [
            ("ALPHA", "[ALPHA]"),
            ("BETA", "[BETA]"),
            ("STABLE", "[STABLE]"),
        ] {
            let families = counted.registry().gather();
            let marked = families
                .iter()
                .filter(|family| family.help().starts_with(mark));
            let counter = registered.with_label_values(&["", level]);
            let count = marked.count() as u64;
            counter.inc_by(count.saturating_sub(counter.get()));
        }
        true
    });
}

/// Drops what is disabled, and folds label values that are not allowed into "unexpected".
fn restrict(text: &str, options: &MetricsOptions) -> String {
    let mut output = String::with_capacity(text.len());
    let mut family = "";
    // Samples of the family whose labels were folded, by series, in order of appearance.
    let mut folded: Vec<(String, f64)> = Vec::new();
    let mut index: BTreeMap<String, usize> = BTreeMap::new();
    let flush = |output: &mut String, folded: &mut Vec<(String, f64)>| {
        for (series, value) in folded.drain(..) {
            // Writing to a String cannot fail.
            let _ = writeln!(output, "{series} {value}");
        }
    };
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# HELP ") {
            flush(&mut output, &mut folded);
            index.clear();
            family = comment.split(' ').next().unwrap_or_default();
        }
        if options.disabled.iter().any(|name| name == family) {
            continue;
        }
        let constrained = options
            .allowed_labels
            .keys()
            .any(|(metric, _)| metric == family);
        match line.rsplit_once(' ') {
            Some((series, value)) if constrained && !line.starts_with('#') => {
                let series = fold_labels(series, family, options);
                let value: f64 = value.parse().unwrap_or(0.0);
                match index.get(&series) {
                    Some(at) => folded[*at].1 += value,
                    None => {
                        index.insert(series.clone(), folded.len());
                        folded.push((series, value));
                    }
                }
            }
            _ => {
                output.push_str(line);
                output.push('\n');
            }
        }
    }
    flush(&mut output, &mut folded);
    output
}

/// `name{label="value"}` with values that are not allowed replaced.
fn fold_labels(series: &str, family: &str, options: &MetricsOptions) -> String {
    let Some((name, labels)) = series.split_once('{') else {
        return series.to_owned();
    };
    let mut rest = labels.strip_suffix('}').unwrap_or(labels);
    let mut folded = format!("{name}{{");
    while let Some((label, after)) = rest.split_once("=\"") {
        let end = closing_quote(after);
        let value = &after[..end];
        let allowed = options
            .allowed_labels
            .get(&(family.to_owned(), label.trim_start_matches(',').to_owned()));
        let kept = allowed.is_none_or(|values| values.iter().any(|allowed| allowed == value));
        folded.push_str(label);
        folded.push_str("=\"");
        folded.push_str(if kept { value } else { "unexpected" });
        folded.push('"');
        rest = after.get(end + 1..).unwrap_or_default();
    }
    folded.push('}');
    folded
}

/// The end of a label's value: the first quotation mark that is not escaped.
fn closing_quote(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at,
            _ => {}
        }
    }
    text.len()
}

/// `process_*`, read from /proc at each scrape.
struct ProcessCollector {
    cpu: IntCounterSeconds,
    gauges: Vec<(Gauge, fn(&Proc) -> Option<f64>)>,
    received: IntCounter,
    sent: IntCounter,
}

/// Seconds of CPU as a counter of a float.
type IntCounterSeconds = prometheus::Counter;

impl ProcessCollector {
    fn new() -> ProcessCollector {
        let gauge = |name: &str, help: &str| {
            Gauge::new(name, help).expect("metric names in our code are valid")
        };
        let counter = |name: &str, help: &str| {
            IntCounter::new(name, help).expect("metric names in our code are valid")
        };
        ProcessCollector {
            cpu: prometheus::Counter::new(
                "process_cpu_seconds_total",
                "CPU time of the process in seconds.",
            )
            .expect("metric names in our code are valid"),
            gauges: vec![
                (
                    gauge("process_max_fds", "File descriptors that may be open."),
                    |proc| proc.limit("Max open files"),
                ),
                (
                    gauge("process_open_fds", "File descriptors that are open."),
                    |_| Proc::open_files(),
                ),
                (
                    gauge("process_resident_memory_bytes", "Memory in use."),
                    |proc| proc.status("VmRSS:"),
                ),
                (
                    gauge("process_virtual_memory_bytes", "Address space in use."),
                    |proc| proc.status("VmSize:"),
                ),
                (
                    gauge(
                        "process_virtual_memory_max_bytes",
                        "Address space that may be used.",
                    ),
                    |proc| Some(proc.limit("Max address space").unwrap_or(u64::MAX as f64)),
                ),
                (
                    gauge(
                        "process_start_time_seconds",
                        "When the process started, since 1970.",
                    ),
                    Proc::started,
                ),
            ],
            received: counter(
                "process_network_receive_bytes_total",
                "Bytes received over the network.",
            ),
            sent: counter(
                "process_network_transmit_bytes_total",
                "Bytes sent over the network.",
            ),
        }
    }
}

impl Collector for ProcessCollector {
    fn desc(&self) -> Vec<&Desc> {
        let gauges = self.gauges.iter().flat_map(|(gauge, _)| gauge.desc());
        let counters = [self.cpu.desc(), self.received.desc(), self.sent.desc()];
        gauges.chain(counters.into_iter().flatten()).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let proc = Proc::read();
        let mut families = Vec::new();
        if let Some(seconds) = proc.cpu_seconds() {
            self.cpu.inc_by((seconds - self.cpu.get()).max(0.0));
            families.extend(self.cpu.collect());
        }
        for (gauge, read) in &self.gauges {
            if let Some(value) = read(&proc) {
                gauge.set(value);
                families.extend(gauge.collect());
            }
        }
        if let Some((received, sent)) = proc.network() {
            self.received
                .inc_by(received.saturating_sub(self.received.get()));
            self.sent.inc_by(sent.saturating_sub(self.sent.get()));
            families.extend(self.received.collect());
            families.extend(self.sent.collect());
        }
        families
    }
}

/// The files of /proc that say something about this process; empty where they cannot be read.
struct Proc {
    stat: String,
    status: String,
    limits: String,
    netstat: String,
    system: String,
}

/// Linux reports times to processes in hundredths of a second on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

impl Proc {
    fn read() -> Proc {
        let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        Proc {
            stat: text("/proc/self/stat"),
            status: text("/proc/self/status"),
            limits: text("/proc/self/limits"),
            netstat: text("/proc/self/net/netstat"),
            system: text("/proc/stat"),
        }
    }

    /// A field of /proc/self/stat by its number in proc(5), counted after the name in parentheses.
    fn stat_field(&self, number: usize) -> Option<f64> {
        let (_, after_name) = self.stat.rsplit_once(") ")?;
        after_name
            .split(' ')
            .nth(number.checked_sub(3)?)?
            .parse()
            .ok()
    }

    fn cpu_seconds(&self) -> Option<f64> {
        Some((self.stat_field(14)? + self.stat_field(15)?) / TICKS_PER_SECOND)
    }

    fn started(&self) -> Option<f64> {
        let booted = self
            .system
            .lines()
            .find_map(|line| line.strip_prefix("btime "))?;
        Some(booted.trim().parse::<f64>().ok()? + self.stat_field(22)? / TICKS_PER_SECOND)
    }

    /// A line of /proc/self/status in kilobytes, as bytes.
    fn status(&self, name: &str) -> Option<f64> {
        let line = self
            .status
            .lines()
            .find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().strip_suffix(" kB")?.parse::<f64>().ok()? * 1024.0)
    }

    /// The soft limit; none if it is unlimited.
    fn limit(&self, name: &str) -> Option<f64> {
        let line = self
            .limits
            .lines()
            .find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    }

    fn open_files() -> Option<f64> {
        // The directory that is being read is one of them.
        std::fs::read_dir("/proc/self/fd")
            .ok()
            .map(|files| files.count().saturating_sub(1) as f64)
    }

    fn network(&self) -> Option<(u64, u64)> {
        let mut lines = self
            .netstat
            .lines()
            .filter_map(|line| line.strip_prefix("IpExt: "));
        let (names, values) = (lines.next()?, lines.next()?);
        let value = |wanted: &str| {
            let at = names.split(' ').position(|name| name == wanted)?;
            values.split(' ').nth(at)?.parse().ok()
        };
        Some((value("InOctets")?, value("OutOctets")?))
    }
}

#[cfg(test)]
mod tests;
