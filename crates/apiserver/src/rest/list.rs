//! List: selectors, pages, and every meaning of resourceVersion.

use super::negotiate::{self, Shape};
use super::query::Query;
use super::watch::CHUNK_BYTES;
use super::{Context, read};
use crate::selector::Selector;
use crate::status::{Cause, Status};
use crate::storage::{Page, Stored, Unreadable};
use crate::{Body, BoxError, convert};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures_util::stream;
use http::Response;
use http::header::{CONTENT_TYPE, HeaderValue};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use ring::hmac;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

/// Longer lists are put together as they are read.
const STREAMED_BYTES: usize = 4 * 1024 * 1024;

/// What lists may have that have to be put together as a whole.
const MAX_DOCUMENT_BYTES: usize = 256 * 1024 * 1024;

const LIST_END: &[u8] = b"]}";

impl Context {
    pub(super) async fn list(&mut self) -> Result<Response<Body>, Status> {
        let shape = negotiate::shape(&self.headers)?;
        let selector = self.selector()?;
        if self.conversion().is_none() {
            let (page, metadata) = self.page(&selector)?;
            return self.answered(shape, page.items, metadata);
        }
        // Fields are those of the version asked for, which the webhook knows: a page has those that match of as many as
        // were asked for.
        let (page, mut metadata) = self.page(&selector.of_any_version())?;
        let mut items = self.requested_all(page.items).await?;
        items.retain(|item| selector.matches(&self.kind, item));
        if let Some(metadata) = metadata.as_object_mut().filter(|_| !selector.is_empty()) {
            metadata.remove("remainingItemCount");
        }
        self.answered(shape, items, metadata)
    }

    /// Small lists in one piece, large ones bit by bit: the objects are kept in less memory than their text takes.
    fn answered(
        &mut self,
        shape: Shape,
        items: Vec<Arc<Stored>>,
        metadata: Value,
    ) -> Result<Response<Body>, Status> {
        if !is_long(&items) {
            return self.listed(shape, &items, metadata);
        }
        if shape == Shape::Table || negotiate::wants_yaml(&self.headers) {
            if bytes_of(&items) <= MAX_DOCUMENT_BYTES {
                return self.listed(shape, &items, metadata);
            }
            let why =
                "the list is too large for this format; ask for parts of it by the parameter limit";
            return Err(Status::new(413, "RequestEntityTooLarge", why));
        }
        Ok(self.streamed(shape, items, &metadata))
    }

    pub(super) fn streamed(
        &mut self,
        shape: Shape,
        items: Vec<Arc<Stored>>,
        metadata: &Value,
    ) -> Response<Body> {
        let mut context = self.for_stream();
        context.headers.clone_from(&self.headers);
        let head = context.list_head(shape, metadata);
        let items = items.into_iter().enumerate();
        let frames = stream::unfold(Some((context, head, items)), move |state| async move {
            let (context, mut chunk, mut items) = state?;
            let mut is_whole = false;
            while chunk.len() < CHUNK_BYTES && !is_whole {
                match items.next() {
                    Some((index, item)) => context.put_item(shape, &mut chunk, index, &item),
                    None => is_whole = true,
                }
            }
            let rest = match is_whole {
                true => {
                    chunk.extend_from_slice(LIST_END);
                    None
                }
                false => Some((context, Vec::new(), items)),
            };
            Some((Ok::<_, BoxError>(Frame::data(Bytes::from(chunk))), rest))
        });
        let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, json);
        response
    }

    /// A list in the shape that the client accepts.
    pub(super) fn listed(
        &self,
        shape: Shape,
        items: &[Arc<Stored>],
        metadata: Value,
    ) -> Result<Response<Body>, Status> {
        let document = match shape {
            Shape::Object | Shape::Metadata => self.list_in(shape, items, &metadata),
            Shape::Table => {
                self.check_include()?;
                let mut table = self.table(items.iter().map(|item| &**item), true);
                table["metadata"] = metadata;
                table.to_string().into_bytes()
            }
        };
        self.encoded(200, document)
    }

    pub(crate) fn selector(&self) -> Result<Selector, Status> {
        let query = &self.info.query;
        Selector::parse(
            &self.kind,
            query.get("labelSelector"),
            query.get("fieldSelector"),
        )
    }

    /// What all keys of the request's scope start with.
    pub(crate) fn prefix(&self) -> String {
        if self.kind.namespaced && !self.info.namespace.is_empty() {
            format!("{}/", self.info.namespace)
        } else {
            String::new()
        }
    }

    /// The objects that were asked for, and the metadata of their list.
    pub(super) fn page(&self, selector: &Selector) -> Result<(Page, Value), Status> {
        let query = &self.info.query;
        let limit: usize = query
            .number::<i64>("limit")?
            .unwrap_or(0)
            .max(0)
            .try_into()
            .unwrap_or(usize::MAX);
        // Nobody waits for a list, but its options are read as those of a watch are.
        query.number::<i64>("timeoutSeconds")?;
        let matching = query.get("resourceVersionMatch");
        let token = query.get("continue");
        let prefix = self.prefix();
        let keep = |object: &Stored| selector.matches(&self.stored_kind, object);
        let store = &self.shared.store;
        let current = store.visible_revision();
        check_options(query)?;
        let wanted = revision(query.get("resourceVersion")).map_err(|status| {
            let why = format!("invalid resource version: {}", status.message);
            Status::bad_request(why)
        })?;
        let (start, at, limit) = if token.is_empty() {
            match (wanted, matching) {
                (Some(0), "") => (String::new(), None, 0),
                (Some(wanted), _) if wanted > current => {
                    return Err(Status::resource_version_too_large(wanted, current));
                }
                // UPSTREAM: a limit with a revision means that revision, for clients older than resourceVersionMatch.
                (Some(wanted), "Exact") => (String::new(), Some(wanted), limit),
                (Some(wanted), "") if limit > 0 => (String::new(), Some(wanted), limit),
                _ => (String::new(), None, limit),
            }
        } else {
            if wanted.is_some_and(|wanted| wanted > 0) {
                return Err(Status::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            let token = Token::decode(token, &self.seal())?;
            // -1 is a token that was given out with an expired one: continue with whatever is there now.
            let at = u64::try_from(token.rv).ok();
            (format!("{prefix}{}", token.start), at, limit)
        };
        let page = store.list(&self.stored_kind, &prefix, &start, limit, at, &keep);
        let page = page.map_err(|error| expired(&error, query.get("continue"), &self.seal()))?;
        let next = (page.remaining > 0).then(|| page.items.last()).flatten();
        let mut metadata = json!({"resourceVersion": page.revision.to_string()});
        if let Some(last) = next {
            metadata["continue"] =
                json!(Token::after(&prefix, last, page.revision).encode(&self.seal()));
            if selector.is_empty() {
                metadata["remainingItemCount"] = json!(page.remaining);
            }
        }
        Ok((page, metadata))
    }

    /// What tokens of this list are sealed with: one of another resource or namespace is none of ours.
    fn seal(&self) -> Seal<'_> {
        let (group, plural) = &self.stored_kind.storage;
        Seal {
            key: &self.shared.continue_key,
            scope: [&**group, &**plural, &*self.info.namespace].join("\0"),
        }
    }

    /// The list's JSON, put together from the stored objects' bytes.
    pub(crate) fn whole_list(&self, items: &[Arc<Stored>], metadata: &Value) -> Vec<u8> {
        self.list_in(Shape::Object, items, metadata)
    }

    fn list_in(&self, shape: Shape, items: &[Arc<Stored>], metadata: &Value) -> Vec<u8> {
        let mut out = self.list_head(shape, metadata);
        if shape == Shape::Object {
            out.reserve(items.iter().map(|item| item.body_len() + 64).sum());
        }
        for (index, item) in items.iter().enumerate() {
            self.put_item(shape, &mut out, index, item);
        }
        out.extend_from_slice(LIST_END);
        out
    }

    /// A list up to its first item.
    fn list_head(&self, shape: Shape, metadata: &Value) -> Vec<u8> {
        let (kind, version) = match shape {
            Shape::Metadata => ("PartialObjectMetadata", self.meta_version()),
            _ => (&*self.kind.kind, self.kind.api_version()),
        };
        let head = format!(
            r#"{{"kind":"{kind}List","apiVersion":"{version}","metadata":{metadata},"items":["#
        );
        head.into_bytes()
    }

    fn put_item(&self, shape: Shape, out: &mut Vec<u8>, index: usize, item: &Stored) {
        if index > 0 {
            out.push(b',');
        }
        if shape == Shape::Metadata {
            // Each as it is when it is read alone, to the byte: clients compare managed fields as text.
            out.extend(self.metadata_of(item));
        } else if self.kind.custom().is_some() {
            out.extend_from_slice(&read::whole(&self.kind, item));
        } else if convert::differs(&self.kind) {
            let mut value: Value = serde_json::from_slice(&item.body()).unwrap_or_default();
            convert::from_storage(&self.kind, &mut value);
            out.extend_from_slice(value.to_string().as_bytes());
        } else {
            // UPSTREAM: items of typed lists do not repeat their kind.
            out.extend_from_slice(&item.body());
        }
    }
}

/// Whether a list is better put together as it is read.
pub(super) fn is_long(items: &[Arc<Stored>]) -> bool {
    bytes_of(items) > STREAMED_BYTES
}

fn bytes_of(items: &[Arc<Stored>]) -> usize {
    items.iter().map(|item| item.body_len()).sum()
}

/// A resourceVersion parameter; empty is `None`.
pub(crate) fn revision(text: &str) -> Result<Option<u64>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    let wrong = |_| {
        let quoted = api::syntax::go_quote(text);
        // UPSTREAM: not the client's fault, says everyone but a list.
        Status::unexpected(format!(
            "resourceVersion: Invalid value: {quoted}: strconv.ParseUint: parsing {quoted}: invalid syntax"
        ))
    };
    text.parse().map(Some).map_err(wrong)
}

fn check_options(query: &Query) -> Result<(), Status> {
    let matching = query.get("resourceVersionMatch");
    let (revision, token) = (query.get("resourceVersion"), query.get("continue"));
    let mut causes = Vec::new();
    let mut forbid = |field: &str, why: &str| {
        causes.push(Cause::new(
            field,
            "FieldValueForbidden",
            format!("Forbidden: {why}"),
        ));
    };
    const MATCH: &str = "resourceVersionMatch";
    if !matching.is_empty() && revision.is_empty() {
        let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
        forbid(MATCH, why);
    }
    if !matching.is_empty() && !token.is_empty() {
        let why = "resourceVersionMatch is forbidden when continue is provided";
        forbid(MATCH, why);
    }
    if matching == "Exact" && revision == "0" {
        let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
        forbid(MATCH, why);
    }
    if query.has("sendInitialEvents") {
        forbid(
            "sendInitialEvents",
            "sendInitialEvents is forbidden for list",
        );
    }
    if !matches!(matching, "" | "Exact" | "NotOlderThan") {
        let shown = api::syntax::go_quote(matching);
        let message = format!(
            "Unsupported value: {shown}: supported values: \"Exact\", \"NotOlderThan\", \"\""
        );
        let first = causes
            .iter()
            .take_while(|cause| cause.field == MATCH)
            .count();
        causes.insert(first, Cause::new(MATCH, "FieldValueNotSupported", message));
    }
    match causes.is_empty() {
        true => Ok(()),
        false => Err(Status::invalid_options("ListOptions", causes)),
    }
}

fn expired(error: &Unreadable, token: &str, seal: &Seal<'_>) -> Status {
    let Unreadable::Compacted { floor } = error;
    if token.is_empty() {
        return Status::expired(format!(
            "The resourceVersion for the provided list is too old. (oldest: {floor})"
        ));
    }
    let message = "The provided continue parameter is too old to display a consistent list result. You can start a new \
                   list without the continue parameter, or use the continue token in this response to retrieve the \
                   remainder of the results. Continuing with the provided token results in an inconsistent list - \
                   objects that were created, modified, or deleted between the time the first chunk was returned and \
                   now may show up in the list.";
    let fresh = Token::decode(token, seal).map(|token| Token { rv: -1, ..token }.encode(seal));
    Status {
        continue_token: fresh.ok(),
        ..Status::expired(message)
    }
}

/// Says which tokens are ours.
struct Seal<'a> {
    key: &'a hmac::Key,
    scope: String,
}

impl Seal<'_> {
    fn text(&self, token: &Token) -> Vec<u8> {
        format!("{}\0{}\0{}", self.scope, token.rv, token.start).into_bytes()
    }
}

/// Where the next page starts, in upstream's form, with a seal: what a client makes up is no place to go on from.
#[derive(Debug, Serialize, Deserialize, PartialEq)]
struct Token {
    #[serde(default)]
    v: String,
    #[serde(default)]
    rv: i64,
    #[serde(default)]
    start: String,
    #[serde(default)]
    seal: String,
}

impl Token {
    fn after(prefix: &str, last: &Stored, revision: u64) -> Token {
        let key = last.key.strip_prefix(prefix).unwrap_or(&last.key);
        let rv = i64::try_from(revision).unwrap_or(i64::MAX);
        Token {
            v: "meta.k8s.io/v1".into(),
            rv,
            start: format!("{key}\0"),
            seal: String::new(),
        }
    }

    fn encode(mut self, seal: &Seal<'_>) -> String {
        let tag = hmac::sign(seal.key, &seal.text(&self));
        self.seal = URL_SAFE_NO_PAD.encode(tag);
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&self).unwrap_or_default())
    }

    fn decode(text: &str, seal: &Seal<'_>) -> Result<Token, Status> {
        let invalid = |why: &str| {
            let message = format!("invalid continue token: continue key is not valid: {why}");
            Status::bad_request(message)
        };
        const GARBLED: &str = "the token could not be decoded";
        let bytes = URL_SAFE_NO_PAD
            .decode(text.trim_end_matches('='))
            .map_err(|_| invalid(GARBLED))?;
        let token: Token = serde_json::from_slice(&bytes).map_err(|_| invalid(GARBLED))?;
        if token.v != "meta.k8s.io/v1" {
            let why = format!("server does not recognize this encoded version {}", token.v);
            return Err(invalid(&why));
        }
        if token.rv == 0 || token.start.is_empty() {
            return Err(invalid("it does not say where to continue"));
        }
        let tag = URL_SAFE_NO_PAD.decode(&token.seal).unwrap_or_default();
        if hmac::verify(seal.key, &seal.text(&token), &tag).is_err() {
            return Err(invalid("it was not given out by this server for this list"));
        }
        Ok(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(secret: &str) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes())
    }

    fn seal<'a>(key: &'a hmac::Key, scope: &str) -> Seal<'a> {
        let scope = scope.to_owned();
        Seal { key, scope }
    }

    fn token() -> Token {
        Token {
            v: "meta.k8s.io/v1".into(),
            rv: 95,
            start: "c1\0".into(),
            seal: String::new(),
        }
    }

    #[test]
    fn tokens_round_trip_and_look_like_upstreams() {
        let key = key("ours");
        let seal = seal(&key, "configmaps");
        let text = token().encode(&seal);
        let json = String::from_utf8(URL_SAFE_NO_PAD.decode(&text).unwrap()).unwrap();
        let upstream = r#"{"v":"meta.k8s.io/v1","rv":95,"start":"c1\u0000","seal":""#;
        assert!(json.starts_with(upstream), "{json}");
        let read = Token::decode(&text, &seal).unwrap();
        assert_eq!((read.rv, read.start), (95, "c1\0".to_owned()));
        assert_eq!(Token::decode("%%%", &seal).unwrap_err().code, 400);
    }

    // Issue 21, point 14.
    #[test]
    fn forged_tokens_and_those_of_another_list_are_refused() {
        let (ours, theirs) = (key("ours"), key("theirs"));
        let here = seal(&ours, "configmaps\0a");
        let refused = |text: &str| {
            let status = Token::decode(text, &here).expect_err("must be refused");
            assert_eq!(status.code, 400);
            assert!(
                status.message.contains("not given out"),
                "{}",
                status.message
            );
        };
        let plain = serde_json::to_vec(&token()).unwrap();
        refused(&URL_SAFE_NO_PAD.encode(plain));
        refused(&token().encode(&seal(&theirs, "configmaps\0a")));
        refused(&token().encode(&seal(&ours, "configmaps\0b")));
        let mut moved = Token::decode(&token().encode(&here), &here).unwrap();
        moved.rv = 94;
        refused(&URL_SAFE_NO_PAD.encode(serde_json::to_vec(&moved).unwrap()));
    }
}
