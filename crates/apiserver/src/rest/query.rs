//! Query parameters.

use crate::status::{Cause, Status};
use std::borrow::Cow;

#[derive(Clone, Debug, Default)]
pub(crate) struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    pub(crate) fn parse(text: &str) -> Query {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key), decode(value))
        });
        Query {
            pairs: pairs.collect(),
        }
    }

    /// The first value of a parameter, empty if it is missing.
    pub(crate) fn get(&self, key: &str) -> &str {
        self.pairs
            .iter()
            .find(|(candidate, _)| candidate == key)
            .map_or("", |(_, value)| value)
    }

    pub(crate) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.pairs
            .iter()
            .filter(move |(candidate, _)| candidate == key)
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.pairs.iter().any(|(candidate, _)| candidate == key)
    }

    /// UPSTREAM: a flag without a value is true, "0" and "false" are not.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.has(key) && !matches!(self.get(key), "0" | "false" | "False")
    }

    pub(crate) fn number<T: std::str::FromStr>(&self, key: &str) -> Result<Option<T>, Status> {
        let text = self.get(key);
        if text.is_empty() {
            return Ok(None);
        }
        let wrong = |_| {
            let quoted = api::syntax::go_quote(text);
            Status::bad_request(format!(
                "strconv.ParseInt: parsing {quoted}: invalid syntax"
            ))
        };
        text.parse().map(Some).map_err(wrong)
    }

    /// `dryRun=All`; any other value is refused.
    pub(crate) fn dry_run(&self) -> Result<bool, Cause> {
        let given: Vec<&str> = self.all("dryRun").collect();
        if given.iter().all(|value| *value == "All") {
            return Ok(!given.is_empty());
        }
        let message = format!("Unsupported value: {given:?}: supported values: \"All\"");
        Err(Cause::new("dryRun", "FieldValueNotSupported", message))
    }
}

fn decode(text: &str) -> String {
    // Most need nothing, and are too short for a searcher.
    if !text.bytes().any(|byte| matches!(byte, b'+' | b'%')) {
        return text.to_owned();
    }
    percent_decode(&text.replace('+', " ")).into_owned()
}

/// Bytes that do not decode to UTF-8 become replacement characters: no name contains them.
pub(crate) fn percent_decode(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut index = 0;
    while index < bytes.len() {
        let hex = |byte: u8| {
            char::from(byte)
                .to_digit(16)
                .and_then(|digit| u8::try_from(digit).ok())
        };
        let pair = (
            bytes.get(index + 1).copied().and_then(hex),
            bytes.get(index + 2).copied().and_then(hex),
        );
        match (bytes[index], pair) {
            (b'%', (Some(high), Some(low))) => {
                out.push(high << 4 | low);
                index += 3;
            }
            (byte, _) => {
                out.push(byte);
                index += 1;
            }
        }
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes() {
        let query = Query::parse("labelSelector=app%3Dweb%2Cx&watch&limit=5&a=b+c&dryRun=All");
        assert_eq!(query.get("labelSelector"), "app=web,x");
        assert!(query.flag("watch") && !query.flag("follow"));
        assert_eq!(query.number::<u32>("limit"), Ok(Some(5)));
        assert_eq!(query.get("a"), "b c");
        assert_eq!(query.dry_run(), Ok(true));
        assert_eq!(percent_decode("%zz%4"), "%zz%4");
    }
}
