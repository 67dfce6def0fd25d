//! Flag types: how each reads its text, with the words for what is wrong with it.

use std::net::IpAddr;

use api::GoDuration;

/// The type of a flag, with its bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Bool,
    Int {
        name: &'static str,
        min: i64,
        max: i64,
    },
    Float {
        name: &'static str,
    },
    Duration {
        min: GoDuration,
    },
    Text,
    List,
    /// A list whose items are given one by one: a comma is part of an item.
    Array,
    IntList,
    Ip,
    /// `key=value` or `key` items.
    Settings,
    /// `first-last`, or `first+more`.
    PortRange,
    /// `key=value` pairs.
    Pairs,
    FeatureGates,
    NamedCertKey,
    Quantity,
    Level,
    VModule,
    Version,
}

/// What a flag was set to.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Bool(bool),
    Int(i64),
    Float(f64),
    Duration(GoDuration),
    Text(String),
    List(Vec<String>),
    Ip(IpAddr),
}

/// A certificate and key for the names a client may ask for; no names means those in the certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedCertKey {
    pub certificate: String,
    pub key: String,
    pub names: Vec<String>,
}

impl Kind {
    /// Reads a type of the table, such as `int32[1..50]`.
    pub(super) fn read(text: &'static str) -> Option<Kind> {
        let (name, bounds) = match text.split_once('[') {
            Some((name, rest)) => (name, rest.strip_suffix(']')?.split_once("..")?),
            None => (text, ("", "")),
        };
        let bound = |text: &str, otherwise: i64| {
            if text.is_empty() {
                Some(otherwise)
            } else {
                text.parse().ok()
            }
        };
        Some(match name {
            "bool" => Kind::Bool,
            "int" | "int64" => Kind::Int {
                name,
                min: i64::MIN,
                max: i64::MAX,
            },
            "uint" => Kind::Int {
                name,
                min: 0,
                max: i64::MAX,
            },
            "int32" => Kind::Int {
                name,
                min: bound(bounds.0, i64::from(i32::MIN))?,
                max: bound(bounds.1, i64::from(i32::MAX))?,
            },
            "float" | "float32" | "float64" => Kind::Float { name },
            "duration" if bounds.0.is_empty() => Kind::Duration {
                min: GoDuration::from_nanos(i64::MIN),
            },
            "duration" => Kind::Duration {
                min: GoDuration::parse(bounds.0).ok()?,
            },
            "string" => Kind::Text,
            "strings" => Kind::List,
            "stringArray" => Kind::Array,
            "mapStringString" => Kind::Settings,
            "portRange" => Kind::PortRange,
            "int32Slice" => Kind::IntList,
            "ip" => Kind::Ip,
            "stringToString" => Kind::Pairs,
            "colonSeparatedMultimapStringString" => Kind::FeatureGates,
            "namedCertKey" => Kind::NamedCertKey,
            "quantity" => Kind::Quantity,
            "Level" => Kind::Level,
            "pattern=N,..." => Kind::VModule,
            "version" => Kind::Version,
            _ => return None,
        })
    }

    /// The name of the type in the help.
    pub fn type_name(self) -> &'static str {
        match self {
            Kind::Bool => "",
            Kind::Int { name, .. } | Kind::Float { name } => name,
            Kind::Duration { .. } => "duration",
            Kind::Text => "string",
            Kind::List => "strings",
            Kind::Array => "stringArray",
            Kind::Settings => "mapStringString",
            Kind::PortRange => "portRange",
            Kind::IntList => "int32Slice",
            Kind::Ip => "ip",
            Kind::Pairs => "stringToString",
            Kind::FeatureGates => "colonSeparatedMultimapStringString",
            Kind::NamedCertKey => "namedCertKey",
            Kind::Quantity => "quantity",
            Kind::Level => "Level",
            Kind::VModule => "pattern=N,...",
            Kind::Version => "version[=true]",
        }
    }

    /// The value for a flag that stands alone, for types that may.
    pub(super) fn implied(self) -> Option<&'static str> {
        matches!(self, Kind::Bool | Kind::Version).then_some("true")
    }

    /// Whether a second occurrence adds to the first instead of replacing it.
    pub(super) fn accumulates(self) -> bool {
        matches!(
            self,
            Kind::List
                | Kind::Array
                | Kind::Settings
                | Kind::IntList
                | Kind::Pairs
                | Kind::FeatureGates
                | Kind::NamedCertKey
        )
    }

    pub(super) fn default_value(self, text: &str) -> Result<Value, String> {
        match self {
            _ if self.accumulates() && (text.is_empty() || text == "[]") => {
                Ok(Value::List(Vec::new()))
            }
            // An address that may be left out.
            Kind::Ip if text.is_empty() => Ok(Value::Text(String::new())),
            _ => self.parse(text),
        }
    }

    /// Reads a value. The error is a phrase that completes `invalid argument "x" for "--flag" flag: `.
    pub(super) fn parse(self, text: &str) -> Result<Value, String> {
        match self {
            Kind::Bool => parse_bool(text).map(Value::Bool),
            Kind::Int { min, max, .. } => parse_int(text, min, max).map(Value::Int),
            Kind::Float { name } => parse_float(text, name).map(Value::Float),
            Kind::Duration { min } => {
                let duration = GoDuration::parse(text)?;
                if duration < min {
                    Err(format!("must be at least {min}"))
                } else {
                    Ok(Value::Duration(duration))
                }
            }
            Kind::Text => Ok(Value::Text(text.to_owned())),
            Kind::List => split_csv(text).map(Value::List),
            Kind::Array => Ok(Value::List(vec![text.to_owned()])),
            Kind::Settings => {
                let items = text.split(',').map(str::trim);
                let items = items.filter(|item| !item.is_empty());
                Ok(Value::List(items.map(str::to_owned).collect()))
            }
            Kind::PortRange => parse_port_range(text).map(|_| Value::Text(text.to_owned())),
            Kind::IntList => {
                let items: Vec<String> =
                    text.split(',').map(|item| item.trim().to_owned()).collect();
                for item in &items {
                    parse_int(item, i64::from(i32::MIN), i64::from(i32::MAX))?;
                }
                Ok(Value::List(items))
            }
            Kind::Ip => match text.trim().parse() {
                Ok(address) => Ok(Value::Ip(address)),
                Err(_) => Err("must be an IP address, such as 0.0.0.0 or ::1".into()),
            },
            Kind::Pairs => split_pairs(text).map(Value::List),
            Kind::FeatureGates => {
                parse_feature_gates([text])?;
                Ok(Value::List(vec![text.to_owned()]))
            }
            Kind::NamedCertKey => {
                parse_named_cert_key(text).map(|_| Value::List(vec![text.to_owned()]))
            }
            Kind::Quantity => parse_quantity(text).map(|_| Value::Text(text.to_owned())),
            Kind::Level => parse_int(text, 0, i64::from(i32::MAX)).map(Value::Int),
            Kind::VModule => parse_vmodule(text).map(|_| Value::Text(text.to_owned())),
            Kind::Version => match text {
                "raw" => Ok(Value::Text("raw".into())),
                _ => parse_bool(text)
                    .map(|on| Value::Text(on.to_string()))
                    .map_err(|_| "must be true, false or raw".to_owned()),
            },
        }
    }
}

/// As flags are printed by `/flagz`.
impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Bool(on) => write!(f, "{on}"),
            Value::Int(number) => write!(f, "{number}"),
            Value::Float(number) => write!(f, "{number}"),
            Value::Duration(duration) => write!(f, "{duration}"),
            Value::Text(text) => f.write_str(text),
            Value::List(items) => write!(f, "[{}]", items.join(",")),
            Value::Ip(address) => write!(f, "{address}"),
        }
    }
}

/// The words that Go's `strconv.ParseBool` knows.
pub(crate) fn parse_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        _ => Err("must be true or false".into()),
    }
}

fn parse_int(text: &str, min: i64, max: i64) -> Result<i64, String> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    // UPSTREAM: pflag reads integers with base 0, so 0x10, 0b1, 0o17 and 017 are numbers too.
    let (radix, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    let number = match digits.starts_with(['+', '-']) {
        true => None,
        false => i128::from_str_radix(digits, radix).ok(),
    };
    let Some(number) = number else {
        return Err("must be a whole number".into());
    };
    let number = if negative { -number } else { number };
    match i64::try_from(number)
        .ok()
        .filter(|number| (min..=max).contains(number))
    {
        Some(number) => Ok(number),
        None if max >= i64::from(i32::MAX)
            && number < i128::from(min)
            && min > i64::from(i32::MIN) =>
        {
            Err(format!("must be at least {min}"))
        }
        None => Err(format!("must be between {min} and {max}")),
    }
}

fn parse_float(text: &str, kind: &str) -> Result<f64, String> {
    // Kept as written, and narrowed when it is read, so that 0.1 is shown as 0.1.
    let fits = kind != "float32" || text.parse::<f32>().is_ok_and(f32::is_finite);
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && fits => Ok(number),
        _ => Err("must be a number, such as 0.5".into()),
    }
}

/// Splits a list by commas, where a quoted item may hold commas: `a,"b,c"`.
fn split_csv(text: &str) -> Result<Vec<String>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let mut items = vec![String::new()];
    let mut quoted = false;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let item = items.last_mut().expect("the list starts with one item");
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                item.push('"');
            }
            '"' if quoted || item.is_empty() => quoted = !quoted,
            '"' => {
                return Err(
                    "has a quotation mark in the middle of an item; quote the whole item".into(),
                );
            }
            ',' if !quoted => items.push(String::new()),
            _ => item.push(character),
        }
    }
    if quoted {
        Err("has an opening quotation mark without a closing one".into())
    } else {
        Ok(items)
    }
}

/// `key=value` pairs. A single pair may hold commas in its value: `metric,label=a,b`.
fn split_pairs(text: &str) -> Result<Vec<String>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let pairs = match text.matches('=').count() {
        0 => return Err(format!("{text} must be formatted as key=value")),
        1 => vec![text.trim_matches('"').to_owned()],
        _ => split_csv(text)?,
    };
    match pairs.iter().find(|pair| !pair.contains('=')) {
        Some(pair) => Err(format!(
            "{pair} must be formatted as key=value; quote a pair whose value has commas"
        )),
        None => Ok(pairs),
    }
}

/// `CERT,KEY` or `CERT,KEY:name,name`.
pub fn parse_named_cert_key(text: &str) -> Result<NamedCertKey, String> {
    let (files, names) = match text.split_once(':') {
        Some((files, names)) => (
            files,
            names
                .split(',')
                .map(|name| name.trim().to_owned())
                .collect(),
        ),
        None => (text, Vec::new()),
    };
    let files: Vec<&str> = files.split(',').map(str::trim).collect();
    match (&files[..], names.iter().any(String::is_empty)) {
        ([certificate, key], false) if !certificate.is_empty() && !key.is_empty() => {
            Ok(NamedCertKey {
                certificate: (*certificate).to_owned(),
                key: (*key).to_owned(),
                names,
            })
        }
        _ => Err(
            "expected comma separated certificate and key file paths, optionally with :name,name"
                .into(),
        ),
    }
}

/// `30000-32767`, or `30000+2767`, or one port: the first and the last one.
pub fn parse_port_range(text: &str) -> Result<(u16, u16), String> {
    const WRONG: &str = "must be a range of ports such as 30000-32767";
    let port = |text: &str| text.trim().parse::<u16>().map_err(|_| WRONG.to_owned());
    let (first, last) = match (text.split_once('-'), text.split_once('+')) {
        (Some((first, last)), _) => (port(first)?, port(last)?),
        (None, Some((first, more))) => {
            let first = port(first)?;
            (first, first.checked_add(port(more)?).ok_or(WRONG)?)
        }
        (None, None) => (port(text)?, port(text)?),
    };
    match first <= last {
        true => Ok((first, last)),
        false => Err(WRONG.to_owned()),
    }
}

/// `[component:]Name=bool` items: (component, name, on). Whether the names exist is for the gates to say.
pub fn parse_feature_gates<'a>(
    texts: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<(String, String, bool)>, String> {
    let mut gates = Vec::new();
    for item in texts
        .into_iter()
        .flat_map(|text| text.split(','))
        .map(str::trim)
        .filter(|item| !item.is_empty())
    {
        let (component, pair) = item.split_once(':').unwrap_or(("", item));
        let (name, value) = pair
            .split_once('=')
            .ok_or_else(|| format!("missing bool value for {}", pair.trim()))?;
        let (name, value) = (name.trim(), value.trim());
        let on = parse_bool(value)
            .map_err(|error| format!("invalid value of {name}={value}: {error}"))?;
        gates.push((component.trim().to_owned(), name.to_owned(), on));
    }
    Ok(gates)
}

/// `pattern=level` items of `--vmodule`.
pub fn parse_vmodule(text: &str) -> Result<Vec<(String, i64)>, String> {
    let items = text.split(',').filter(|item| !item.is_empty());
    items
        .map(|item| match item.split_once('=') {
            Some((pattern, level)) if !pattern.is_empty() => {
                let level = parse_int(level, 0, i64::from(i32::MAX)).map_err(|_| {
                    format!("the level of {pattern:?} must be a whole number, 0 or more")
                })?;
                Ok((pattern.to_owned(), level))
            }
            _ => Err(format!("{item:?} must be formatted as pattern=level")),
        })
        .collect()
}

/// A number of bytes with an optional suffix: `512`, `64Ki`, `1M`.
pub fn parse_quantity(text: &str) -> Result<u64, String> {
    const WRONG: &str = "must be a number of bytes such as 512, 64Ki or 1M";
    let digits = text
        .bytes()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let (number, suffix) = text.split_at(digits);
    let scale: u64 = match suffix {
        "" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => return Err(WRONG.into()),
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(scale))
        .ok_or_else(|| WRONG.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: &'static str, text: &str, expected: Result<&str, &str>) {
        let actual = Kind::read(kind)
            .unwrap()
            .parse(text)
            .map(|value| value.to_string());
        assert_eq!(
            actual.as_deref().map_err(String::as_str),
            expected,
            "{kind} {text:?}"
        );
    }

    #[test]
    fn each_type_reads_its_values() {
        check("bool", "T", Ok("true"));
        check("int32", "-0x10", Ok("-16"));
        check("int32", "017", Ok("15"));
        check("int", "0", Ok("0"));
        check("float32", "0.1", Ok("0.1"));
        check("duration", "1.5h", Ok("1h30m0s"));
        check("strings", "a,\"b,c\",d", Ok("[a,b,c,d]"));
        check("strings", "", Ok("[]"));
        check("int32Slice", "23, 29", Ok("[23,29]"));
        check("ip", "::1", Ok("::1"));
        check("stringToString", "m,l=a,b", Ok("[m,l=a,b]"));
        check("stringToString", "\"m,l=a,b\",n=c", Ok("[m,l=a,b,n=c]"));
        check(
            "colonSeparatedMultimapStringString",
            "kube:A=true,B=false",
            Ok("[kube:A=true,B=false]"),
        );
        check("quantity", "64Ki", Ok("64Ki"));
        check("Level", "4", Ok("4"));
        check("pattern=N,...", "gc*=6,x=1", Ok("gc*=6,x=1"));
        check("version", "raw", Ok("raw"));
    }

    #[test]
    fn each_type_says_what_is_wrong() {
        check("bool", "yes", Err("must be true or false"));
        check("int32", "x", Err("must be a whole number"));
        check("int32", "--1", Err("must be a whole number"));
        check(
            "int32",
            "3000000000",
            Err("must be between -2147483648 and 2147483647"),
        );
        check("int32[1..]", "0", Err("must be at least 1"));
        check("int32[1..50]", "51", Err("must be between 1 and 50"));
        check("float32", "1e300", Err("must be a number, such as 0.5"));
        check("float", "NaN", Err("must be a number, such as 0.5"));
        check("duration[1s..]", "10ms", Err("must be at least 1s"));
        check(
            "strings",
            "a,\"b",
            Err("has an opening quotation mark without a closing one"),
        );
        check("int32Slice", "23,x", Err("must be a whole number"));
        check(
            "ip",
            "localhost",
            Err("must be an IP address, such as 0.0.0.0 or ::1"),
        );
        check(
            "stringToString",
            "a",
            Err("a must be formatted as key=value"),
        );
        check(
            "colonSeparatedMultimapStringString",
            "A",
            Err("missing bool value for A"),
        );
        check(
            "colonSeparatedMultimapStringString",
            "A=maybe",
            Err("invalid value of A=maybe: must be true or false"),
        );
        check(
            "namedCertKey",
            "a.crt",
            Err(
                "expected comma separated certificate and key file paths, optionally with :name,name",
            ),
        );
        check(
            "quantity",
            "1e3",
            Err("must be a number of bytes such as 512, 64Ki or 1M"),
        );
        check("Level", "-1", Err("must be at least 0"));
        check(
            "pattern=N,...",
            "gc",
            Err("\"gc\" must be formatted as pattern=level"),
        );
        check("version", "1.2", Err("must be true, false or raw"));
    }

    #[test]
    fn a_named_pair_keeps_its_names() {
        assert_eq!(
            parse_named_cert_key("foo.crt,foo.key:*.foo.com,foo.com"),
            Ok(NamedCertKey {
                certificate: "foo.crt".into(),
                key: "foo.key".into(),
                names: vec!["*.foo.com".into(), "foo.com".into()],
            })
        );
    }
}
