//! Command lines of Kubernetes components, as data: kube-controller-manager's here, others bring a table of their own.
//!
//! `table.txt` is the one list of flags. Parsing, `--help`, `/flagz`, `/configz` and the documentation all come
//! from it, so a flag cannot exist in one and be missing in another. The rules of the command line itself
//! (`--flag=value`, `--flag value`, `-v4`, `_` for `-`, repeated lists) are those of Go's pflag, since operators'
//! manifests rely on them.

mod help;
mod markdown;
mod parse;
mod value;

use std::sync::LazyLock;

pub use help::{Help, help};
pub use markdown::{markdown, page};
pub use parse::{ParseError, Parsed};
pub use value::{
    Kind, NamedCertKey, Value, parse_feature_gates, parse_named_cert_key, parse_port_range,
    parse_quantity, parse_vmodule,
};

/// One flag.
#[derive(Debug)]
pub struct Flag {
    pub name: &'static str,
    pub section: &'static str,
    pub kind: Kind,
    /// The default as text, as the flag would be written.
    pub default: &'static str,
    pub help: &'static str,
    /// Why the flag should no longer be used; it is hidden from the help then.
    pub deprecated: Option<&'static str>,
    /// Why the flag has no effect here, although it is accepted.
    pub no_effect: Option<&'static str>,
    /// Why no other value than the default is accepted: going on without it would mislead.
    pub refused: Option<&'static str>,
}

/// The flags of one program, in the order of its help.
#[derive(Debug)]
pub struct Table(Vec<Flag>);

/// kube-controller-manager's flags.
pub fn table() -> &'static Table {
    static TABLE: LazyLock<Table> = LazyLock::new(|| Table::read(include_str!("table.txt")));
    &TABLE
}

impl Table {
    /// Reads a table. A broken one is a mistake of this program, which its tests find.
    pub fn read(text: &'static str) -> Table {
        Table(read_table(text))
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Flag> {
        self.0.iter()
    }

    /// Reads the arguments that follow the program's (or subcommand's) name.
    pub fn parse<I: IntoIterator<Item = S>, S: Into<String>>(
        &'static self,
        arguments: I,
    ) -> Result<Parsed, ParseError> {
        parse::parse(self, arguments)
    }

    /// The index of the flag with this name, where `_` and `-` are the same.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        let name = name.replace('_', "-");
        self.0.iter().position(|flag| flag.name == name)
    }
}

impl<'a> IntoIterator for &'a Table {
    type Item = &'a Flag;
    type IntoIter = std::slice::Iter<'a, Flag>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

fn read_table(text: &'static str) -> Vec<Flag> {
    let mut section = "";
    let mut flags = Vec::new();
    for line in text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        if let Some(name) = line
            .strip_prefix('[')
            .and_then(|line| line.strip_suffix(']'))
        {
            section = name;
            continue;
        }
        let mut columns = line.splitn(4, '|').map(str::trim);
        let mut column = || {
            columns
                .next()
                .expect("each line of the flag table has four columns")
        };
        let (name, kind, default, text) = (column(), column(), column(), column());
        let (text, deprecated) = split_note(text, " !deprecated ");
        let (text, refused) = split_note(text, " !refused ");
        let (help, no_effect) = split_note(text, " ~");
        let kind = Kind::read(kind).expect("each line of the flag table names a known type");
        flags.push(Flag {
            name,
            section,
            kind,
            default,
            help,
            deprecated,
            no_effect,
            refused,
        });
    }
    flags
}

fn split_note(text: &'static str, mark: &str) -> (&'static str, Option<&'static str>) {
    match text.split_once(mark) {
        Some((text, note)) => (text, Some(note)),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_every_flag_of_the_reference_with_its_type_and_default() {
        let flags = table();
        let count = |keep: fn(&&Flag) -> bool| flags.iter().filter(keep).count();
        assert_eq!(count(|flag| flag.section != "steersman"), 150);
        let shown = |flag: &&Flag| flag.deprecated.is_none() && flag.section != "steersman";
        assert_eq!(count(shown), 148);
        for flag in flags {
            flag.kind
                .default_value(flag.default)
                .unwrap_or_else(|error| panic!("--{}: {error}", flag.name));
            assert!(
                flag.help.ends_with(['.', '}']),
                "--{} has no full sentence",
                flag.name
            );
            assert!(!flag.section.is_empty());
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = table().iter().map(|flag| flag.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), table().iter().count());
    }

    #[test]
    fn underscores_are_hyphens() {
        assert_eq!(
            table().position("concurrent_rc_syncs"),
            table().position("concurrent-rc-syncs")
        );
        assert!(table().position("concurrent_rc_syncs").is_some());
    }
}
