//! Raw extensions that must come back byte for byte: `ControllerRevision.data`. Key order and number text are
//! kept; what Go's JSON printer would change (white space, `<`, `>`, `&`) is changed, as upstream stores it.

use crate::kinds::Kind;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The text of the opaque field of an object's JSON, if its kind has one and it is set.
pub(crate) fn text_of(kind: &Kind, json: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Revision<'a> {
        #[serde(borrow)]
        data: Option<&'a RawValue>,
    }
    if !kind.is("apps", "ControllerRevision") {
        return None;
    }
    let revision: Revision<'_> = serde_json::from_slice(json).ok()?;
    revision.data.map(|raw| compact(raw.get()))
}

/// Removes white space between tokens and escapes what Go escapes inside strings.
fn compact(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let (mut in_string, mut escaped) = (false, false);
    for c in json.chars() {
        if !in_string {
            if !c.is_ascii_whitespace() {
                out.push(c);
            }
            in_string = c == '"';
            continue;
        }
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            _ => out.push(c),
        }
        in_string = escaped || c != '"';
        escaped = !escaped && c == '\\';
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_order_and_numbers_and_escapes_like_go() {
        let kind = crate::kinds::find("apps", "ControllerRevision").unwrap();
        let json = br#"{"data": {"z": 1.0, "a": "x\" < y"}, "revision": 1}"#;
        assert_eq!(
            text_of(kind, json).unwrap(),
            r#"{"z":1.0,"a":"x\" \u003c y"}"#
        );
        assert_eq!(
            text_of(crate::kinds::find("", "ConfigMap").unwrap(), json),
            None
        );
    }
}
