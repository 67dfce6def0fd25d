//! One log line: klog's text form, and the JSON that Kubernetes components write.

use std::fmt::{self, Write};

use tracing::field::{Field, Visit};

/// The facts of a line besides its fields.
pub(super) struct Header<'a> {
    pub severity: Severity,
    pub verbosity: u32,
    pub unix_micros: i64,
    pub process: u32,
    pub file: &'a str,
    pub line: u32,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Severity {
    Info,
    Warning,
    Error,
}

/// `I1115 04:21:33.123456   12345 file.rs:12] "Message" key="value"`
pub(super) fn text_line(header: &Header<'_>, fields: &Fields) -> String {
    let letter = match header.severity {
        Severity::Info => 'I',
        Severity::Warning => 'W',
        Severity::Error => 'E',
    };
    let (_, month, day) = civil_date(header.unix_micros.div_euclid(DAY));
    let micros = header.unix_micros.rem_euclid(DAY);
    let seconds = micros / 1_000_000;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let mut line = format!(
        "{letter}{month:02}{day:02} {hour:02}:{minute:02}:{second:02}.{:06} {:>7} {}:{}] ",
        micros % 1_000_000,
        header.process,
        base_name(header.file),
        header.line,
    );
    push_quoted(&mut line, &fields.message);
    for (key, value) in fields.context.iter().chain(&fields.own) {
        line.push(' ');
        line.push_str(key);
        value.push_text(&mut line);
    }
    line.push('\n');
    line
}

/// `{"ts":1700000000000.123,"caller":"logging/layer.rs:12","msg":"Message","v":0,"key":"value"}`
pub(super) fn json_line(header: &Header<'_>, fields: &Fields) -> String {
    let millis = header.unix_micros.div_euclid(1000);
    let rest = header.unix_micros.rem_euclid(1000);
    let mut line = format!("{{\"ts\":{millis}.{rest:03},\"caller\":");
    push_json(
        &mut line,
        &format!("{}:{}", last_two_parts(header.file), header.line),
    );
    line.push_str(",\"msg\":");
    push_json(&mut line, &fields.message);
    if header.severity != Severity::Error {
        // Writing to a String cannot fail.
        let _ = write!(line, ",\"v\":{}", header.verbosity);
    }
    for (key, value) in fields.context.iter().chain(&fields.own) {
        line.push(',');
        push_json(&mut line, key);
        line.push(':');
        value.push_json(&mut line);
    }
    line.push_str("}\n");
    line
}

const DAY: i64 = 86_400 * 1_000_000;

/// Year, month and day of a day since 1970 (Howard Hinnant's algorithm: eras of 400 years, from March).
pub(crate) fn civil_date(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn last_two_parts(path: &str) -> &str {
    let mut slashes = path.rmatch_indices('/').map(|(index, _)| index);
    slashes.nth(1).map_or(path, |index| &path[index + 1..])
}

/// The fields of an event or a span, in order.
#[derive(Clone, Default)]
pub(super) struct Fields {
    pub message: String,
    /// The verbosity that the event asks for with its field `v`.
    pub verbosity: Option<u32>,
    /// What the spans around the event say.
    pub context: Vec<(&'static str, Value)>,
    pub own: Vec<(&'static str, Value)>,
}

#[derive(Clone)]
pub(super) enum Value {
    Text(String),
    /// A number or a boolean, as written.
    Plain(String),
}

impl Fields {
    fn push(&mut self, field: &Field, value: Value) {
        let value = if is_secret(field.name()) {
            Value::Text(REDACTED.into())
        } else {
            value
        };
        // UPSTREAM: everyone greps for err=.
        let name = if field.name() == "error" {
            "err"
        } else {
            field.name()
        };
        self.own.push((name, value));
    }

    fn push_text(&mut self, field: &Field, text: String) {
        match field.name() {
            "message" => self.message = text,
            // A header that slipped into a message must not show its token.
            _ if text.starts_with("Bearer ") => self.push(field, Value::Text(REDACTED.into())),
            _ => self.push(field, Value::Text(text)),
        }
    }
}

const REDACTED: &str = "--- REDACTED ---";

/// Names whose values never belong into a log. `secret` itself is not one: it names an object.
fn is_secret(name: &str) -> bool {
    matches!(
        name,
        "token" | "bearer_token" | "password" | "authorization" | "private_key" | "client_secret"
    )
}

impl Visit for Fields {
    fn record_i64(&mut self, field: &Field, value: i64) {
        match field.name() {
            "v" => self.verbosity = Some(u32::try_from(value).unwrap_or(0)),
            _ => self.push(field, Value::Plain(value.to_string())),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "v" => self.verbosity = Some(u32::try_from(value).unwrap_or(u32::MAX)),
            _ => self.push(field, Value::Plain(value.to_string())),
        }
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        match value.is_finite() {
            true => self.push(field, Value::Plain(value.to_string())),
            false => self.push(field, Value::Text(value.to_string())),
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.push(field, Value::Plain(value.to_string()));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.push_text(field, value.to_owned());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        let mut text = value.to_string();
        let mut source = value.source();
        while let Some(cause) = source {
            let _ = write!(text, ": {cause}");
            source = cause.source();
        }
        self.push_text(field, text);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.push_text(field, format!("{value:?}"));
    }
}

impl Value {
    fn push_text(&self, line: &mut String) {
        match self {
            Value::Plain(text) => {
                line.push('=');
                line.push_str(text);
            }
            // klog shows a text of several lines as an indented block.
            Value::Text(text) if text.contains('\n') => {
                line.push_str("=<\n");
                for part in text.trim_end_matches('\n').split('\n') {
                    line.push('\t');
                    line.push_str(part);
                    line.push('\n');
                }
                line.push_str(" >");
            }
            Value::Text(text) => {
                line.push('=');
                push_quoted(line, text);
            }
        }
    }

    fn push_json(&self, line: &mut String) {
        match self {
            Value::Plain(text) => line.push_str(text),
            Value::Text(text) => push_json(line, text),
        }
    }
}

/// Go's `%q`: printable text as it is, the rest escaped.
fn push_quoted(line: &mut String, text: &str) {
    line.push('"');
    for character in text.chars() {
        match character {
            '"' => line.push_str("\\\""),
            '\\' => line.push_str("\\\\"),
            '\n' => line.push_str("\\n"),
            '\t' => line.push_str("\\t"),
            '\r' => line.push_str("\\r"),
            control if control < ' ' || control == '\u{7f}' => {
                let _ = write!(line, "\\x{:02x}", u32::from(control));
            }
            other => line.push(other),
        }
    }
    line.push('"');
}

fn push_json(line: &mut String, text: &str) {
    line.push_str(&serde_json::Value::from(text).to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        for (days, expected) in [
            (0, (1970, 1, 1)),
            (59, (1970, 3, 1)),
            (19_782, (2024, 2, 29)),
            (-1, (1969, 12, 31)),
        ] {
            assert_eq!(civil_date(days), expected);
        }
    }

    #[test]
    fn callers() {
        assert_eq!(base_name("crates/a/src/b.rs"), "b.rs");
        assert_eq!(last_two_parts("crates/a/src/b.rs"), "src/b.rs");
        assert_eq!(last_two_parts("b.rs"), "b.rs");
    }
}
