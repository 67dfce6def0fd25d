//! From arguments to values, by pflag's rules.

use std::net::IpAddr;

use super::{Flag, Kind, Table, Value};
use api::GoDuration;

pub(super) fn parse<I: IntoIterator<Item = S>, S: Into<String>>(
    table: &'static Table,
    arguments: I,
) -> Result<Parsed, ParseError> {
    let mut parsed = Parsed::defaults(table);
    let mut arguments = arguments.into_iter().map(Into::into);
    while let Some(argument) = arguments.next() {
        match argument.as_bytes() {
            // Everything after a lone "--" is positional, and there are no positional arguments.
            b"--" => match arguments.next() {
                Some(argument) => return Err(ParseError::Positional(argument)),
                None => break,
            },
            [b'-', b'-', ..] => parsed.read_long(&argument, &mut arguments)?,
            [b'-', _, ..] => parsed.read_short(&argument, &mut arguments)?,
            // UPSTREAM: an empty argument, as an unset shell variable leaves behind, is passed over.
            b"" => {}
            _ => return Err(ParseError::Positional(argument)),
        }
    }
    Ok(parsed)
}

/// What is wrong with a command line. Each sentence names the flag.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum ParseError {
    #[error("unknown flag: --{name}{suggestion}")]
    Unknown { name: String, suggestion: String },
    #[error("unknown shorthand flag: {letter:?} in {argument}; long flags take two hyphens")]
    UnknownShorthand { letter: char, argument: String },
    #[error("bad flag syntax: {0}; write --flag=value")]
    Syntax(String),
    #[error("flag needs an argument: --{0}")]
    MissingValue(&'static str),
    #[error("invalid argument {value:?} for \"--{flag}\" flag: {reason}")]
    Invalid {
        flag: &'static str,
        value: String,
        reason: String,
    },
    #[error(
        "unexpected argument {0:?}: only flags are accepted; write a boolean as --flag=true, not --flag true"
    )]
    Positional(String),
}

/// All flags with their values; the defaults where none was given.
#[derive(Clone, Debug)]
pub struct Parsed {
    table: &'static Table,
    values: Vec<Value>,
    given: Vec<bool>,
}

impl Parsed {
    fn defaults(table: &'static Table) -> Parsed {
        let default = |flag: &Flag| {
            flag.kind
                .default_value(flag.default)
                .expect("defaults of the flag table parse")
        };
        let values: Vec<Value> = table.iter().map(default).collect();
        Parsed {
            table,
            given: vec![false; values.len()],
            values,
        }
    }

    fn read_long(
        &mut self,
        argument: &str,
        rest: &mut impl Iterator<Item = String>,
    ) -> Result<(), ParseError> {
        let body = &argument[2..];
        let (name, value) = match body.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (body, None),
        };
        if name.is_empty() || name.starts_with('-') {
            return Err(ParseError::Syntax(argument.to_owned()));
        }
        let found = self.table.position(name);
        let index = found.ok_or_else(|| ParseError::Unknown {
            name: name.to_owned(),
            suggestion: suggest(self.table, name),
        })?;
        self.set(index, value, rest)
    }

    fn read_short(
        &mut self,
        argument: &str,
        rest: &mut impl Iterator<Item = String>,
    ) -> Result<(), ParseError> {
        let letter = argument[1..]
            .chars()
            .next()
            .expect("the caller saw a character after the hyphen");
        let after = &argument[1 + letter.len_utf8()..];
        match letter {
            'h' => {
                let index = self.known("help");
                self.set(index, Some("true".into()), rest)?;
                if after.is_empty() {
                    Ok(())
                } else {
                    self.read_short(&format!("-{after}"), rest)
                }
            }
            'v' => {
                let index = self.known("v");
                let value = (!after.is_empty())
                    .then(|| after.strip_prefix('=').unwrap_or(after).to_owned());
                self.set(index, value, rest)
            }
            _ => Err(ParseError::UnknownShorthand {
                letter,
                argument: argument.to_owned(),
            }),
        }
    }

    fn set(
        &mut self,
        index: usize,
        value: Option<String>,
        rest: &mut impl Iterator<Item = String>,
    ) -> Result<(), ParseError> {
        let flag = &self.table.0[index];
        let text = match (value, flag.kind.implied()) {
            (Some(value), _) => value,
            (None, Some(implied)) => implied.to_owned(),
            (None, None) => rest.next().ok_or(ParseError::MissingValue(flag.name))?,
        };
        // UPSTREAM: an empty address leaves the default, so --bind-address= means all interfaces.
        if flag.kind == Kind::Ip && text.trim().is_empty() {
            return Ok(());
        }
        let value = flag
            .kind
            .parse(&text)
            .map_err(|reason| ParseError::Invalid {
                flag: flag.name,
                value: text.clone(),
                reason,
            })?;
        match (&mut self.values[index], value) {
            (Value::List(items), Value::List(more)) if self.given[index] => items.extend(more),
            (slot, value) => *slot = value,
        }
        self.given[index] = true;
        Ok(())
    }

    /// Every flag with its value, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Flag, &Value)> {
        self.table.iter().zip(&self.values)
    }

    /// What to tell the operator once about flags that do nothing here or will go away.
    pub fn warnings(&self) -> Vec<String> {
        let given = self.given();
        let warning = |flag: &Flag| match (flag.deprecated, flag.no_effect) {
            (Some(reason), _) => Some(format!(
                "Flag --{} has been deprecated: {reason}",
                flag.name
            )),
            (None, Some(reason)) => Some(format!(
                "Flag --{} is accepted but has no effect: {}",
                flag.name,
                reason.trim_end_matches('.')
            )),
            (None, None) => None,
        };
        given.filter_map(warning).collect()
    }

    /// Flags that were given a value which this program cannot honour.
    pub fn refusals(&self) -> Vec<ParseError> {
        let refused = |flag: &'static Flag| {
            let value = self.value(flag.name);
            let reason = flag.refused?;
            let is_default = flag.kind.default_value(flag.default).as_ref() == Ok(value);
            (!is_default).then(|| ParseError::Invalid {
                flag: flag.name,
                value: value.to_string(),
                reason: reason.trim_end_matches('.').to_owned(),
            })
        };
        self.given().filter_map(refused).collect()
    }

    fn given(&self) -> impl Iterator<Item = &'static Flag> {
        let flags = self.table.iter().zip(&self.given);
        flags.filter(|(_, given)| **given).map(|(flag, _)| flag)
    }

    pub fn is_given(&self, name: &str) -> bool {
        self.given[self.known(name)]
    }

    pub fn bool(&self, name: &str) -> bool {
        match self.value(name) {
            Value::Bool(on) => *on,
            _ => wrong_type(name),
        }
    }

    pub fn int(&self, name: &str) -> i64 {
        match self.value(name) {
            Value::Int(number) => *number,
            _ => wrong_type(name),
        }
    }

    pub fn int32(&self, name: &str) -> i32 {
        i32::try_from(self.int(name)).expect("the flag's type keeps it within 32 bits")
    }

    pub fn float(&self, name: &str) -> f64 {
        match self.value(name) {
            Value::Float(number) => *number,
            _ => wrong_type(name),
        }
    }

    pub fn float32(&self, name: &str) -> f32 {
        self.float(name) as f32
    }

    pub fn duration(&self, name: &str) -> GoDuration {
        match self.value(name) {
            Value::Duration(duration) => *duration,
            _ => wrong_type(name),
        }
    }

    pub fn text(&self, name: &str) -> &str {
        match self.value(name) {
            Value::Text(text) => text,
            _ => wrong_type(name),
        }
    }

    pub fn list(&self, name: &str) -> &[String] {
        match self.value(name) {
            Value::List(items) => items,
            _ => wrong_type(name),
        }
    }

    pub fn ip(&self, name: &str) -> IpAddr {
        match self.value(name) {
            Value::Ip(address) => *address,
            _ => wrong_type(name),
        }
    }

    /// An address that may be left out.
    pub fn optional_ip(&self, name: &str) -> Option<IpAddr> {
        match self.value(name) {
            Value::Ip(address) => Some(*address),
            Value::Text(text) if text.is_empty() => None,
            _ => wrong_type(name),
        }
    }

    fn value(&self, name: &str) -> &Value {
        &self.values[self.known(name)]
    }

    fn known(&self, name: &str) -> usize {
        let found = self.table.position(name);
        found.unwrap_or_else(|| panic!("--{name} is not in the flag table"))
    }
}

/// A mistake in this program, not in its input: a test reads every flag of the options.
fn wrong_type(name: &str) -> ! {
    panic!("--{name} is read with another type than the flag table gives it")
}

/// `; did you mean --x?` if a flag is within a few typing mistakes.
fn suggest(table: &Table, name: &str) -> String {
    const MOST_MISTAKES: usize = 3;
    let visible = table.iter().filter(|flag| flag.deprecated.is_none());
    let nearest = visible
        .map(|flag| (distance(name, flag.name), flag.name))
        .min();
    match nearest {
        Some((mistakes, nearest)) if mistakes <= MOST_MISTAKES && mistakes < name.len() => {
            format!("; did you mean --{nearest}?")
        }
        _ => "; see --help for all flags".into(),
    }
}

/// Insertions, deletions and replacements between two names.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::super::table;
    use super::*;

    fn ok(arguments: &[&str]) -> Parsed {
        table()
            .parse(arguments.iter().copied())
            .unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
    }

    fn check_error(arguments: &[&str], expected: &str) {
        assert_eq!(
            table()
                .parse(arguments.iter().copied())
                .expect_err("must be refused")
                .to_string(),
            expected
        );
    }

    #[test]
    fn values_follow_after_an_equals_sign_or_a_space() {
        for arguments in [
            &["--secure-port=0"][..],
            &["--secure-port", "0"],
            &["--secure_port", "0"],
        ] {
            assert_eq!(ok(arguments).int("secure-port"), 0);
        }
        assert_eq!(ok(&["--kubeconfig="]).text("kubeconfig"), "");
    }

    #[test]
    fn booleans_stand_alone() {
        assert!(ok(&["--allocate-node-cidrs"]).bool("allocate-node-cidrs"));
        assert!(!ok(&["--leader-elect=false"]).bool("leader-elect"));
        check_error(
            &["--leader-elect", "false"],
            "unexpected argument \"false\": only flags are accepted; write a boolean as --flag=true, not --flag true",
        );
    }

    #[test]
    fn verbosity_has_a_shorthand() {
        for arguments in [
            &["-v", "4"][..],
            &["-v4"],
            &["-v=4"],
            &["--v=4"],
            &["--v", "4"],
        ] {
            assert_eq!(ok(arguments).int("v"), 4);
        }
        assert!(ok(&["-h"]).bool("help"));
    }

    #[test]
    fn the_first_list_replaces_the_default_and_later_ones_add() {
        assert_eq!(ok(&[]).list("controllers"), ["*"]);
        assert_eq!(
            ok(&["--controllers=a,b", "--controllers", "-c"]).list("controllers"),
            ["a", "b", "-c"]
        );
        assert_eq!(ok(&["--v=1", "--v=2"]).int("v"), 2);
    }

    #[test]
    fn an_empty_address_keeps_the_default() {
        assert_eq!(
            ok(&["--bind-address="]).ip("bind-address").to_string(),
            "0.0.0.0"
        );
    }

    #[test]
    fn what_has_no_effect_is_said_once() {
        let parsed = ok(&[
            "--cloud-config=x",
            "--cloud-config=y",
            "--node-sync-period=1s",
            "--v=1",
        ]);
        assert_eq!(
            parsed.warnings(),
            [
                "Flag --cloud-config is accepted but has no effect: In-tree cloud providers no longer exist",
                "Flag --node-sync-period has been deprecated: it has no effect",
            ]
        );
    }

    #[test]
    fn mistakes_name_the_flag() {
        check_error(
            &["--kubecofnig=x"],
            "unknown flag: --kubecofnig; did you mean --kubeconfig?",
        );
        check_error(
            &["--config=x"],
            "unknown flag: --config; see --help for all flags",
        );
        check_error(&["--secure-port"], "flag needs an argument: --secure-port");
        check_error(
            &["--secure-port=https"],
            "invalid argument \"https\" for \"--secure-port\" flag: must be a whole number",
        );
        check_error(
            &["--concurrent-job-syncs=0"],
            "invalid argument \"0\" for \"--concurrent-job-syncs\" flag: must be at least 1",
        );
        check_error(&["--=x"], "bad flag syntax: --=x; write --flag=value");
        check_error(
            &["-kubeconfig=x"],
            "unknown shorthand flag: 'k' in -kubeconfig=x; long flags take two hyphens",
        );
        assert!(matches!(
            table().parse(["run"]),
            Err(ParseError::Positional(_))
        ));
        assert!(matches!(
            table().parse(["--", "run"]),
            Err(ParseError::Positional(_))
        ));
    }

    #[test]
    fn every_flag_with_a_wrong_value_is_refused_by_name() {
        for flag in table() {
            let wrong = match flag.kind {
                Kind::Text | Kind::Array | Kind::Settings => continue,
                Kind::List => "\"",
                Kind::Pairs | Kind::FeatureGates | Kind::NamedCertKey | Kind::VModule => "x",
                _ => "?",
            };
            let error = table()
                .parse([format!("--{}={wrong}", flag.name)])
                .expect_err(flag.name)
                .to_string();
            assert!(error.contains(&format!("--{}", flag.name)), "{error}");
        }
    }
}
