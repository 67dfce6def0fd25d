//! Pod templates as Go prints their structs.
//!
//! Upstream names ReplicaSets, and revisions of DaemonSets, by a hash of what go-spew's `%#v` prints of a template: every
//! field in the order of the Go struct, with its type, whether or not it is set. The structs are in a table that a Go
//! program prints (`cargo xtask schema --live`):
//!
//! ```text
//! v1.Lifecycle                              a type; below it its fields:
//!  PostStart postStart *v1.LifecycleHandler name in Go, name in JSON, type
//!  Handler - v1.Handler                     its fields lie beside those of the struct in JSON
//! v1.Signal
//!  = string                                 another name of a type
//! ```

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use crate::json::Node;

enum Layout {
    Alias(&'static str),
    Struct(Vec<Field>),
}

struct Field {
    name: &'static str,
    /// Empty for an embedded struct.
    key: &'static str,
    of: &'static str,
}

static LAYOUTS: LazyLock<HashMap<&'static str, Layout>> =
    LazyLock::new(|| read(include_str!("../../../schema/go_structs.txt")));

/// None for what upstream's manager would not read as we do: a quantity beyond 64 bits, a time where none belongs.
pub fn pod_template(template: &Node) -> Option<String> {
    let mut dump = Dump(String::with_capacity(8 * 1024));
    dump.value("v1.PodTemplateSpec", Some(template), true)?;
    Some(dump.0)
}

fn read(table: &'static str) -> HashMap<&'static str, Layout> {
    let mut layouts = HashMap::new();
    let mut current = "";
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match (line.starts_with(' '), words.as_slice()) {
            (false, [name]) => {
                current = name;
                layouts.insert(current, Layout::Struct(Vec::new()));
            }
            (true, ["=", of]) => {
                layouts.insert(current, Layout::Alias(of));
            }
            (true, [name, key, of]) => {
                if let Some(Layout::Struct(fields)) = layouts.get_mut(current) {
                    let key = if *key == "-" { "" } else { key };
                    fields.push(Field { name, key, of });
                }
            }
            _ => {}
        }
    }
    layouts
}

struct Dump(String);

impl Dump {
    /// A value of type `of`, after that type if it is `typed`: elements of lists and maps are not.
    fn value(&mut self, of: &'static str, node: Option<&Node>, typed: bool) -> Option<()> {
        let node = node.filter(|node| !node.is_null());
        if typed {
            let _ = write!(self.0, "({of})");
        }
        if let Some(of) = of.strip_prefix('*') {
            // go-spew prints pointers in lists in another way; templates have none.
            return match node {
                _ if !typed => None,
                Some(_) => self.value(of, node, false),
                None => self.nil(),
            };
        }
        if let Some(of) = of.strip_prefix("[]") {
            return self.list(of, node);
        }
        if let Some(of) = of.strip_prefix("map[") {
            let (_, of) = of.split_once(']')?;
            return self.map(of, node);
        }
        match of {
            "string" => self.text(&node.map_or(Some("".into()), Node::as_str)?),
            "bool" | "int32" | "int64" => self.literal(of, node),
            "resource.Quantity" => self.quantity(node),
            "intstr.IntOrString" => self.int_or_string(node),
            "v1.Time" if node.is_none() => self
                .text("{Time:(time.Time){wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}}"),
            _ => match LAYOUTS.get(of)? {
                Layout::Alias(of) => self.value(of, node, false),
                Layout::Struct(fields) => self.fields(fields, node),
            },
        }
    }

    fn fields(&mut self, fields: &'static [Field], node: Option<&Node>) -> Option<()> {
        if !matches!(node, None | Some(Node::Object(_))) {
            return None;
        }
        self.0.push('{');
        for (number, field) in fields.iter().enumerate() {
            if number > 0 {
                self.0.push(' ');
            }
            let _ = write!(self.0, "{}:", field.name);
            let value = match field.key {
                "" => node,
                key => node.and_then(|node| node.get(&[key])),
            };
            self.value(field.of, value, true)?;
        }
        self.0.push('}');
        Some(())
    }

    /// Protobuf, by which upstream's manager reads, knows no empty lists.
    fn list(&mut self, of: &'static str, node: Option<&Node>) -> Option<()> {
        let items = match node {
            None => return self.nil(),
            Some(Node::Array(items)) if items.is_empty() => return self.nil(),
            Some(Node::Array(items)) => items,
            Some(_) => return None,
        };
        self.0.push('[');
        for (number, item) in items.iter().enumerate() {
            if number > 0 {
                self.0.push(' ');
            }
            self.value(of, Some(item), false)?;
        }
        self.0.push(']');
        Some(())
    }

    fn map(&mut self, of: &'static str, node: Option<&Node>) -> Option<()> {
        let entries = match node {
            None => return self.nil(),
            Some(Node::Object(entries)) if entries.is_empty() => return self.nil(),
            Some(Node::Object(entries)) => entries,
            Some(_) => return None,
        };
        let mut entries: Vec<(&str, &Node)> =
            entries.iter().map(|(key, value)| (&**key, value)).collect();
        entries.sort_by_key(|(key, _)| *key);
        self.0.push_str("map[");
        for (number, (key, value)) in entries.into_iter().enumerate() {
            if number > 0 {
                self.0.push(' ');
            }
            let _ = write!(self.0, "{key}:");
            self.value(of, Some(value), false)?;
        }
        self.0.push(']');
        Some(())
    }

    fn literal(&mut self, of: &str, node: Option<&Node>) -> Option<()> {
        let text = match node {
            Some(Node::Literal(text)) => text,
            Some(_) => return None,
            None if of == "bool" => return self.text("false"),
            None => return self.text("0"),
        };
        match of {
            "bool" => text.parse::<bool>().ok().map(drop)?,
            _ => text.parse::<i64>().ok().map(drop)?,
        }
        self.text(text)
    }

    fn int_or_string(&mut self, node: Option<&Node>) -> Option<()> {
        let (kind, number, text) = match node {
            Some(Node::Text(_)) => (1, 0, node?.as_str()?),
            Some(Node::Literal(text)) => (0, text.parse::<i32>().ok()?, "".into()),
            Some(_) => return None,
            None => (0, 0, "".into()),
        };
        let _ = write!(
            self.0,
            "{{Type:(intstr.Type){kind} IntVal:(int32){number} StrVal:(string){text}}}"
        );
        Some(())
    }

    fn quantity(&mut self, node: Option<&Node>) -> Option<()> {
        let parts = match node {
            Some(node) => Parts::of(&node.as_str()?)?,
            None => Parts::default(),
        };
        let _ = write!(
            self.0,
            "{{i:(resource.int64Amount){{value:(int64){} scale:(resource.Scale){}}} \
             d:(resource.infDecAmount){{Dec:(*inf.Dec)<nil>}} s:(string){} Format:(resource.Format){}}}",
            parts.value, parts.scale, parts.text, parts.format
        );
        Some(())
    }

    fn text(&mut self, text: &str) -> Option<()> {
        self.0.push_str(text);
        Some(())
    }

    fn nil(&mut self) -> Option<()> {
        self.text("<nil>")
    }
}

/// What Go keeps of a quantity that fits into 64 bits.
#[derive(Default)]
struct Parts {
    value: i64,
    scale: i32,
    /// Its text, where Go keeps it.
    text: String,
    format: &'static str,
}

/// Decimal digits that surely fit into 64 bits.
const DIGITS_MAX: usize = 18;

impl Parts {
    /// Reads a quantity in the form that the API server writes.
    fn of(text: &str) -> Option<Parts> {
        let digits = text.strip_prefix('-').unwrap_or(text);
        let end = digits
            .find(|char: char| !char.is_ascii_digit())
            .unwrap_or(digits.len());
        let (digits, suffix) = digits.split_at(end);
        if digits.is_empty() || (digits.starts_with('0') && text != "0") {
            return None;
        }
        let number: i64 = digits.parse().ok()?;
        let (value, scale, format, keeps_text) = match binary(suffix) {
            Some(exponent) => {
                let room = 14 - (f64::from(exponent) * 3.0 / 10.0) as i32;
                let is_short = i32::try_from(digits.len()).ok()? <= room;
                let value = number.checked_mul(1_i64 << exponent).filter(|_| is_short)?;
                (value, 0, "BinarySI", number & 7 != 0)
            }
            None => {
                let (scale, format) = decimal(suffix)?;
                (digits.len() <= DIGITS_MAX && scale >= -9).then_some(())?;
                let keeps_text = scale % 3 == 0 && !digits.ends_with("000");
                (number, scale, format, keeps_text)
            }
        };
        Some(Parts {
            value: if text.starts_with('-') { -value } else { value },
            scale,
            text: if keeps_text {
                text.to_owned()
            } else {
                String::new()
            },
            format,
        })
    }
}

/// The power of two that a suffix stands for.
fn binary(suffix: &str) -> Option<u32> {
    const SUFFIXES: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let place = SUFFIXES.iter().position(|held| *held == suffix)?;
    Some(10 * (u32::try_from(place).ok()? + 1))
}

/// The power of ten that a suffix stands for, and the format that it is of.
fn decimal(suffix: &str) -> Option<(i32, &'static str)> {
    const SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    if let Some(place) = SUFFIXES.iter().position(|held| *held == suffix) {
        return Some((3 * i32::try_from(place).ok()? - 9, "DecimalSI"));
    }
    let exponent = suffix.strip_prefix('e')?;
    Some((exponent.parse().ok()?, "DecimalExponent"))
}

#[cfg(test)]
mod tests {
    use crate::Template;

    /// Templates of all shapes with their hashes, as `templates hashes` prints them.
    #[test]
    fn hashes_are_upstreams() {
        let mut count = 0;
        for line in include_str!("go_dump/hashes.txt").lines() {
            let (hash, rest) = line.split_once(' ').unwrap();
            let (collisions, template) = rest.split_once(' ').unwrap();
            let template = Template::parse(template).unwrap();
            assert_eq!(template.short_hash(collisions.parse().ok()), hash, "{rest}");
            count += 1;
        }
        assert_eq!(count, 20);
    }

    #[test]
    fn what_go_would_read_otherwise_is_left_to_others() {
        let dump = |text: &str| super::pod_template(&crate::json::Node::parse(text).unwrap());
        for odd in [
            r#"{"spec":{"containers":7}}"#,
            r#"{"spec":{"hostNetwork":"x"}}"#,
            r#"{"metadata":{"creationTimestamp":"2026-01-01T00:00:00Z"}}"#,
            r#"{"spec":{"overhead":{"cpu":"12345678901234567890123"}}}"#,
            r#"[]"#,
        ] {
            assert!(dump(odd).is_none(), "{odd}");
        }
        assert_eq!(
            dump("{}"),
            dump(r#"{"metadata":null,"spec":{"containers":[],"unknown":1}}"#)
        );
    }
}
