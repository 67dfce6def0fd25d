//! From a resource type, a namespace and a name to the path and query that the API server expects.

use std::fmt::Write;

use api::ResourceType;

use crate::Error;

/// So that most paths, with their queries, are put together where they stay.
const USUAL_BYTES: usize = 128;

/// The path of a collection: `/apis/apps/v1/namespaces/default/deployments`. An empty namespace means
/// all namespaces, and is the only choice for a cluster-scoped type.
pub(crate) fn collection(rt: &ResourceType, namespace: &str) -> Result<String, Error> {
    let mut path = String::with_capacity(USUAL_BYTES);
    match &*rt.group {
        "" => path.push_str("/api/"),
        group => path.extend(["/apis/", group, "/"]),
    }
    path.push_str(&rt.version);
    if rt.namespaced && !namespace.is_empty() {
        check_segment("namespace", namespace)?;
        path.push_str("/namespaces/");
        escape_into(&mut path, namespace);
    }
    path.push('/');
    path.push_str(&rt.plural);
    Ok(path)
}

/// The path of a collection one may write to: here a namespaced type must name its namespace.
pub(crate) fn writable_collection(rt: &ResourceType, namespace: &str) -> Result<String, Error> {
    if rt.namespaced && namespace.is_empty() {
        let plural = &rt.plural;
        return Err(Error::InvalidRequest(format!(
            "{plural} are namespaced; name the namespace"
        )));
    }
    collection(rt, namespace)
}

/// The path of one object or of one of its subresources. An empty name is refused: with it, deleting
/// an object would become deleting all of them.
pub(crate) fn object(
    rt: &ResourceType,
    namespace: &str,
    name: &str,
    subresource: Option<&str>,
) -> Result<String, Error> {
    check_segment("name", name)?;
    let mut path = writable_collection(rt, namespace)?;
    path.push('/');
    escape_into(&mut path, name);
    if let Some(subresource) = subresource {
        check_segment("subresource", subresource)?;
        path.push('/');
        escape_into(&mut path, subresource);
    }
    Ok(path)
}

/// Query parameters in the order they are added; callers add them by alphabet, as client-go sends them.
pub(crate) struct Query {
    text: String,
}

impl Query {
    pub(crate) fn new() -> Query {
        Query {
            text: String::new(),
        }
    }

    pub(crate) fn text(&mut self, key: &str, value: Option<&str>) {
        // An empty resourceVersion means the same as none, and an empty selector too.
        let Some(value) = value.filter(|value| !value.is_empty()) else {
            return;
        };
        self.text.push(if self.text.is_empty() { '?' } else { '&' });
        self.text.push_str(key);
        self.text.push('=');
        escape_into(&mut self.text, value);
    }

    pub(crate) fn number(&mut self, key: &str, value: Option<u32>) {
        self.text(key, value.map(|value| value.to_string()).as_deref());
    }

    pub(crate) fn flag(&mut self, key: &str, value: bool) {
        self.text(key, value.then_some("true"));
    }

    /// The query to put behind a path, with its question mark; empty when there is none.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }
}

fn check_segment(what: &str, segment: &str) -> Result<(), Error> {
    if segment.is_empty() {
        return Err(Error::InvalidRequest(format!("the {what} is empty")));
    }
    // UPSTREAM: the names that rest.IsValidPathSegmentName refuses, because they change the path.
    if segment == "." || segment == ".." || segment.contains(['/', '%']) {
        return Err(Error::InvalidRequest(format!(
            "{segment:?} cannot be a {what}"
        )));
    }
    Ok(())
}

/// The text as a part of a path, or a value of a query.
pub fn escape(text: &str) -> String {
    let mut out = String::new();
    escape_into(&mut out, text);
    out
}

/// Percent-encodes all but RFC 3986's unreserved characters, which is right in paths and queries alike.
fn escape_into(out: &mut String, text: &str) {
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    if text.bytes().all(is_plain) {
        return out.push_str(text);
    }
    for byte in text.bytes() {
        if is_plain(byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
}
