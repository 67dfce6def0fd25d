//! One watch event: what happened, and to which object.

use std::borrow::Cow;
use std::collections::BTreeMap;

use api::Meta;
use api::meta::WireMeta;
use api::protobuf::{self, Malformed, Message, Value};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::envelope::Envelope;
use crate::list::revision;
use crate::{Error, Status};

/// What happened to an object. Objects are the server's own bytes.
#[derive(Debug)]
pub enum WatchEvent {
    Added(Bytes),
    Modified(Bytes),
    Deleted(Bytes),
    /// Nothing happened up to this revision: a good place to resume from.
    Bookmark {
        resource_version: u64,
        /// WatchList: all objects that existed when the watch began have been sent.
        initial_events_end: bool,
    },
    /// The server gives up on this stream, and says why.
    Error(Error),
}

/// Splits a whole line. The form that API servers write is split without looking into the object, which whoever reads
/// it parses anyway; all other forms are parsed with care.
pub(crate) fn parse_line(line: &Bytes, request: &str) -> Result<WatchEvent, Error> {
    type Make = fn(Bytes) -> WatchEvent;
    const FORMS: [(&[u8], Make); 3] = [
        (br#"{"type":"MODIFIED","object":{"#, WatchEvent::Modified),
        (br#"{"type":"ADDED","object":{"#, WatchEvent::Added),
        (br#"{"type":"DELETED","object":{"#, WatchEvent::Deleted),
    ];
    let text = line.strip_suffix(b"\n").unwrap_or(line);
    for (start, make) in FORMS {
        if text.starts_with(start) && text.ends_with(b"}}") {
            return Ok(make(line.slice(start.len() - 1..text.len() - 1)));
        }
    }
    if let Some(resource_version) = plain_bookmark(text) {
        return Ok(WatchEvent::Bookmark {
            resource_version,
            initial_events_end: false,
        });
    }
    parse(line, request)
}

/// The revision of a bookmark whose metadata says nothing else and comes last: there is one a minute on every watch.
fn plain_bookmark(line: &[u8]) -> Option<u64> {
    const METADATA: &[u8] = br#","metadata":{"resourceVersion":""#;
    let line = line.strip_prefix(br#"{"type":"BOOKMARK","object":{"apiVersion":""#)?;
    let line = line.strip_suffix(br#""}}}"#)?;
    let digits = line.len() - line.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let (before, digits) = line.split_at(digits);
    // No text holds such quotes without a backslash, so the braces that follow are the ends of the metadata, of the
    // object and of the event.
    before.strip_suffix(METADATA)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Splits what may not be a whole event.
pub(crate) fn parse(frame: &Bytes, request: &str) -> Result<WatchEvent, Error> {
    let text = frame.trim_ascii_end();
    let wire: Wire<'_> =
        serde_json::from_slice(frame).map_err(|source| Error::decode(request, text, source))?;
    let object = frame.slice_ref(wire.object.get().as_bytes());
    match wire.kind.as_ref() {
        "ADDED" => Ok(WatchEvent::Added(object)),
        "MODIFIED" => Ok(WatchEvent::Modified(object)),
        "DELETED" => Ok(WatchEvent::Deleted(object)),
        "BOOKMARK" => bookmark(&object).map_err(|source| Error::decode(request, text, source)),
        "ERROR" => {
            let status = Status::parse(&object)
                .ok_or_else(|| Error::decode(request, text, "an error event carries a Status"))?;
            Ok(WatchEvent::Error(Error::Status(Box::new(status))))
        }
        other => Err(Error::decode(
            request,
            text,
            format!("unknown watch event type {other}"),
        )),
    }
}

/// Splits a frame of a protobuf watch. What remains is the object's own message, without its envelope.
pub(crate) fn parse_message(frame: &Bytes, request: &str) -> Result<WatchEvent, Error> {
    let malformed = |problem: Malformed| Error::decode(request, b"(protobuf)", problem.to_string());
    let event: Event<'_> = protobuf::read(frame).map_err(malformed)?;
    let envelope = Envelope::open(event.object).map_err(malformed)?;
    let object = || frame.slice_ref(envelope.message);
    match event.kind {
        "ADDED" => Ok(WatchEvent::Added(object())),
        "MODIFIED" => Ok(WatchEvent::Modified(object())),
        "DELETED" => Ok(WatchEvent::Deleted(object())),
        "BOOKMARK" => {
            let Bookmark(meta) = protobuf::read(envelope.message).map_err(malformed)?;
            Ok(WatchEvent::Bookmark {
                resource_version: meta.resource_version,
                initial_events_end: meta.annotation(INITIAL_EVENTS_END) == Some("true"),
            })
        }
        "ERROR" => {
            let status = Status::parse_message(envelope.message).map_err(malformed)?;
            Ok(WatchEvent::Error(Error::Status(Box::new(status))))
        }
        other => {
            let problem = format!("unknown watch event type {other}");
            Err(Error::decode(request, b"(protobuf)", problem))
        }
    }
}

#[derive(Default)]
struct Event<'a> {
    kind: &'a str,
    object: &'a [u8],
}

impl<'a> Message<'a> for Event<'a> {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        match field {
            1 => self.kind = value.text()?,
            // A raw extension, which holds bytes and nothing else.
            2 => protobuf::descend(value, &[1], &mut |raw| {
                self.object = raw.bytes()?;
                Ok(())
            })?,
            _ => {}
        }
        Ok(())
    }
}

#[derive(Default)]
struct Bookmark(Meta);

impl<'a> Message<'a> for Bookmark {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        if field == 1 {
            self.0 = value.message::<WireMeta>()?.into();
        }
        Ok(())
    }
}

/// The annotation of the bookmark that ends the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

fn bookmark(object: &[u8]) -> Result<WatchEvent, serde_json::Error> {
    let wire: BookmarkObject<'_> = serde_json::from_slice(object)?;
    let annotations = wire.metadata.annotations.unwrap_or_default();
    Ok(WatchEvent::Bookmark {
        resource_version: revision(&wire.metadata.resource_version),
        initial_events_end: annotations
            .get(INITIAL_EVENTS_END)
            .is_some_and(|value| value == "true"),
    })
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct BookmarkObject<'a> {
    #[serde(borrow)]
    metadata: BookmarkMeta<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMeta<'a> {
    #[serde(borrow, default)]
    resource_version: Cow<'a, str>,
    annotations: Option<BTreeMap<String, String>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quick_way_and_the_careful_way_agree() {
        for line in [
            r#"{"type":"ADDED","object":{"a":{"b":[1,2]}}}"#,
            r#"{"type":"MODIFIED","object":{}}"#,
            r#"{"type":"DELETED","object":{"text":"}} \" é"}}"#,
            r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"3"}}}"#,
            r#"{"type":"BOOKMARK","object":{"apiVersion":"v1","kind":"Pod","metadata":{"resourceVersion":"307"}}}"#,
            r#"{"type":"BOOKMARK","object":{"apiVersion":"v1","kind":"Pod","metadata":{"resourceVersion":""}}}"#,
            r#"{"type":"BOOKMARK","object":{"apiVersion":"v1","kind":"Pod","metadata":{"resourceVersion":"3"}}"#,
            r#"{"type":"BOOKMARK","object":{"apiVersion":"v1","metadata":{"annotations":{"k8s.io/initial-events-end":"true"},"resourceVersion":"3"}}}"#,
            r#"{"type":"BOOKMARK","object":{"apiVersion":"v1","metadata":{"resourceVersion":"3","creationTimestamp":null}}}"#,
            r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}"#,
            r#"{"type": "ADDED", "object": {"a": 1} }"#,
            r#"{"object":{"a":1},"type":"ADDED"}"#,
            r#"{"type":"ADDED","object":{"a":1},"extra":1}"#,
            r#"{"type":"ADDED","object":[]}"#,
            r#"{"type":"ADDED"}"#,
        ] {
            for end in ["", "\n"] {
                let line = Bytes::from([line, end].concat());
                let [quick, careful] = [parse_line(&line, ""), parse(&line, "")];
                assert_eq!(format!("{quick:?}"), format!("{careful:?}"));
            }
        }
    }
}
