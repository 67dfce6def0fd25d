//! Documents about all kinds: made when first asked for, recreated when kinds come or go, told by their tag.

use crate::Body;
use crate::kinds::Registry;
use crate::rest::response;
use bytes::Bytes;
use http::header::{ETAG, HeaderValue, IF_NONE_MATCH, VARY};
use http::{HeaderMap, HeaderName, Response};
use parking_lot::Mutex;
use std::sync::Arc;

/// What was made of one set of kinds.
pub(crate) struct Cached<T>(Mutex<Option<(Arc<Registry>, T)>>);

impl<T> Default for Cached<T> {
    fn default() -> Cached<T> {
        Cached(Mutex::new(None))
    }
}

impl<T: Clone> Cached<T> {
    pub(crate) fn get(&self, registry: &Arc<Registry>, make: impl FnOnce(&Registry) -> T) -> T {
        let mut made = self.0.lock();
        if let Some((of, known)) = &*made
            && Arc::ptr_eq(of, registry)
        {
            return known.clone();
        }
        let new = make(registry);
        *made = Some((registry.clone(), new.clone()));
        new
    }
}

/// A document and the hash of its text.
#[derive(Clone)]
pub(crate) struct Document {
    pub(crate) text: Bytes,
    pub(crate) hash: String,
}

impl Document {
    pub(crate) fn new(text: impl Into<Bytes>) -> Document {
        let text = text.into();
        let hash = digest(&text);
        Document { text, hash }
    }

    /// The document, or the bare news that it has not changed for whoever knows its tag.
    pub(crate) fn answer(&self, headers: &HeaderMap, content_type: &'static str) -> Response<Body> {
        let tag = format!("\"{}\"", self.hash);
        let known = headers
            .get(IF_NONE_MATCH)
            .is_some_and(|value| value.as_bytes() == tag.as_bytes());
        let mut answer = if known {
            response::typed(304, content_type, Bytes::new())
        } else {
            response::typed(200, content_type, self.text.clone())
        };
        set(&mut answer, ETAG, &tag);
        set(&mut answer, VARY, "Accept");
        answer
    }
}

/// A hash as tags and addresses show it.
pub(crate) fn digest(bytes: &[u8]) -> String {
    shown(&ring::digest::digest(&ring::digest::SHA256, bytes))
}

/// The hash of a value as it prints, without printing it anywhere.
pub(crate) fn digest_of(value: &serde_json::Value) -> String {
    struct Digesting(ring::digest::Context);
    impl std::io::Write for Digesting {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.update(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut digesting = Digesting(ring::digest::Context::new(&ring::digest::SHA256));
    // Nothing that it writes to can fail.
    let _ = serde_json::to_writer(&mut digesting, value);
    shown(&digesting.0.finish())
}

fn shown(digest: &ring::digest::Digest) -> String {
    let digits = digest.as_ref().iter().map(|byte| format!("{byte:02X}"));
    digits.collect()
}

pub(crate) fn set(response: &mut Response<Body>, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}
