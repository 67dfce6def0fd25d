//! The descriptions of all types and fields, as the compressed table that the embedded API server carries. Its format
//! is described at the reader, `crates/apiserver/src/openapi/prose.rs`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

/// The file below the folder of tables.
pub(crate) const TABLE: &str = "prose.deflate";

/// The best that there is: it is made once and read by many.
const LEVEL: u8 = 10;

pub(crate) fn compressed(schemas: &BTreeMap<String, Value>) -> Vec<u8> {
    miniz_oxide::deflate::compress_to_vec_zlib(text(schemas).as_bytes(), LEVEL)
}

/// Does a table say what these schemas say? Its text counts: the same text is packed otherwise by the next release of the
/// compressor.
pub(crate) fn is_of(table: &[u8], schemas: &BTreeMap<String, Value>) -> bool {
    let said = miniz_oxide::inflate::decompress_to_vec_zlib(table);
    said.is_ok_and(|said| said == text(schemas).as_bytes())
}

fn text(schemas: &BTreeMap<String, Value>) -> String {
    let mut out = String::new();
    // Many kinds say the same of their metadata.
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    let mut lines = 0;
    let mut line = |name: &str, schema: &Value| {
        let said = escape(schema["description"].as_str().unwrap_or_default());
        let said = match known.get(&said) {
            // A short text is no longer than the number of its line.
            Some(line) if said.len() > 6 => format!("={line}"),
            _ => {
                known.insert(said.clone(), lines);
                said
            }
        };
        lines += 1;
        let tab = if said.is_empty() { "" } else { "\t" };
        let _ = writeln!(out, "{name}{tab}{said}");
    };
    for (name, schema) in schemas {
        line(name.strip_prefix("io.k8s.").unwrap_or(name), schema);
        let properties = schema["properties"].as_object();
        for (field, schema) in properties.into_iter().flatten() {
            line(&format!(" {field}"), schema);
        }
    }
    out
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('\n', "\\n")
        .replace('\t', "\\t")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_table_is_known_by_its_text() {
        let schemas = |said: &str| BTreeMap::from([("a".to_owned(), json!({"description": said}))]);
        let loosely = miniz_oxide::deflate::compress_to_vec_zlib(text(&schemas("x")).as_bytes(), 1);
        assert!(is_of(&loosely, &schemas("x")) && is_of(&compressed(&schemas("x")), &schemas("x")));
        assert!(!is_of(&loosely, &schemas("y")) && !is_of(b"no table", &schemas("x")));
    }

    #[test]
    fn what_was_said_before_is_named_by_its_line() {
        let field = json!({"description": "A long sentence.\nAnd another."});
        let one = json!({"description": "One.", "properties": {"a": field, "b": {}}});
        let two = json!({"properties": {"a": field}});
        let schemas = [
            ("io.k8s.x.One".to_owned(), one),
            ("io.k8s.x.Two".to_owned(), two),
        ];
        let expected = "x.One\tOne.\n a\tA long sentence.\\nAnd another.\n b\nx.Two\n a\t=1\n";
        assert_eq!(text(&schemas.into_iter().collect()), expected);
    }
}
