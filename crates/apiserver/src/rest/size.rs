//! How large an object may be: as large as etcd takes it.

use super::Context;
use super::body::content_type;
use super::metadata::metadata_mut;
use crate::kinds::Kind;
use crate::status::Status;
use crate::storage::is_modest;
use serde_json::Value;
use std::io;

/// UPSTREAM: etcd's `--max-request-bytes`.
pub(crate) const MAX_OBJECT: usize = 1_572_864;

/// What parts below this add up to is not looked at: defaults and managed fields add no megabyte to it.
const SURELY_SMALL: usize = 128 * 1024;

impl Context {
    /// 413 if an object that is to be stored is too large, where one was of that length; 500 if the disk has no room.
    pub(super) fn check_size(&self, new: &mut Value, before: usize) -> Result<(), Status> {
        if let Some(why) = self.shared.store.is_short()
            && !is_modest(before, json_bytes(new))
        {
            // UPSTREAM: what etcd says when its space is used up, which still deletes then.
            let why = format!("database space exceeded, delete something or free the disk: {why}");
            return Err(Status::internal(why));
        }
        // Aliases of YAML and copies of a JSON patch make much out of little.
        let is_plain = matches!(
            content_type(&self.headers),
            "" | "application/json"
                | "application/vnd.kubernetes.protobuf"
                | "application/merge-patch+json"
                | "application/strategic-merge-patch+json"
        );
        let is_small = is_plain && self.body.len() + before <= SURELY_SMALL;
        if is_small || fits(&self.stored_kind, new) {
            return Ok(());
        }
        // UPSTREAM: tried again without managed fields, which can be large.
        metadata_mut(new).remove("managedFields");
        if fits(&self.stored_kind, new) {
            return Ok(());
        }
        Err(Status::new(
            413,
            "RequestEntityTooLarge",
            "Request entity too large: etcdserver: request is too large",
        ))
    }
}

/// Custom objects are stored as JSON. The others are protobuf there, which is shorter: what counts is what it cannot
/// leave out, so that nothing is refused that fits.
fn fits(kind: &Kind, value: &Value) -> bool {
    if kind.custom().is_some() {
        return json_bytes(value) <= MAX_OBJECT;
    }
    let bytes = text_bytes(value);
    // Bytes are in Base64 here, four letters for three of them.
    let holds_bytes = kind.is("", "Secret") || kind.is("", "ConfigMap");
    let bytes = if holds_bytes { bytes / 4 * 3 } else { bytes };
    bytes <= MAX_OBJECT
}

fn json_bytes(value: &Value) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Counting cannot fail.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

/// The texts, and a tag and a length for each value.
fn text_bytes(value: &Value) -> usize {
    2 + match value {
        Value::String(text) => text.len(),
        Value::Array(list) => list.iter().map(text_bytes).sum(),
        Value::Object(map) => map.values().map(text_bytes).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds;
    use serde_json::json;

    #[test]
    fn what_protobuf_leaves_out_does_not_count() {
        let check = |kind: &str, value: Value, expected: bool| {
            let kind = kinds::find("", kind).unwrap();
            assert_eq!(fits(kind, &value), expected, "{}", kind.kind);
        };
        // Twice as long in JSON.
        let lines = "\n".repeat(MAX_OBJECT - 10);
        check("Pod", json!({ "a": lines }), true);
        check("Pod", json!({"a": lines, "b": "more than that"}), false);
        let bytes = "x".repeat(MAX_OBJECT + MAX_OBJECT / 4);
        check("Secret", json!({"data": {"a": bytes}}), true);
        check("Pod", json!({"data": {"a": bytes}}), false);
    }
}
