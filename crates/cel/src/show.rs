//! Values in plain words, for messages and tests.

use std::fmt;

use api::syntax::go_quote;

use crate::value::Value;

pub(crate) fn show(value: &Value<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match value {
        Value::Null => f.write_str("null"),
        Value::Bool(flag) => write!(f, "{flag}"),
        Value::Int(number) => write!(f, "{number}"),
        Value::Uint(number) => write!(f, "{number}u"),
        Value::Double(number) => write!(f, "{}d", crate::convert::go_float(*number)),
        Value::String(text) => f.write_str(&go_quote(text)),
        Value::Bytes(bytes) => {
            let mut shown = String::new();
            for chunk in bytes.utf8_chunks() {
                let quoted = go_quote(chunk.valid());
                shown.push_str(&quoted[1..quoted.len() - 1]);
                for byte in chunk.invalid() {
                    shown.push_str(&format!("\\x{byte:02x}"));
                }
            }
            write!(f, "b\"{shown}\"")
        }
        Value::Duration(nanos) => write!(f, "duration({nanos})"),
        Value::Timestamp(instant) => {
            write!(f, "timestamp({}.{:09})", instant.seconds, instant.nanos)
        }
        Value::Type(of) => write!(f, "type({})", of.runtime_name()),
        Value::List(list) => {
            let items = list.iter().map(|item| match item {
                Ok(item) => go_quote(&format!("{item:?}")),
                Err(fault) => format!("<{fault}>"),
            });
            write!(f, "list[{}]", items.collect::<Vec<_>>().join(" "))
        }
        Value::Map(map) => {
            let entries = map.entries().into_iter().map(|(key, value)| match value {
                Ok(value) => format!("{key:?}: {value:?}"),
                Err(fault) => format!("{key:?}: <{fault}>"),
            });
            let mut entries: Vec<String> = entries.collect();
            entries.sort();
            write!(f, "map[{}]", entries.join(" "))
        }
        Value::Optional(None) => f.write_str("none"),
        Value::Optional(Some(inner)) => write!(f, "optional({inner:?})"),
        Value::Object(object) => {
            write!(f, "{}{{", object.name)?;
            for (name, value) in &object.fields {
                write!(f, "{name}: {value:?} ")?;
            }
            f.write_str("}")
        }
        Value::Kube(kube) => write!(f, "{kube}"),
    }
}

/// A key or index as messages name it.
pub(crate) fn plain(value: &Value<'_>) -> String {
    match value {
        Value::String(text) => text.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Double(number) => crate::convert::go_float(*number),
        other => format!("{other:?}"),
    }
}
