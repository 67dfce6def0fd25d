//! What one piece of work writes, noted as the server accepts it: the reconcile loop asks whether a controller undoes
//! what it did.

use std::cell::RefCell;
use std::hash::{Hash, Hasher};

use api::{Meta, Uid};
use bytes::Bytes;
use http::Method;
use serde::Deserialize;

tokio::task_local! {
    static WRITES: RefCell<Vec<Write>>;
}

/// A write that the server has accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    pub verb: Verb,
    /// The path of the object; of what was created, too.
    pub path: String,
    /// Equal for the same write of the same object, whatever revision it was made on.
    pub content: u64,
    /// Created under a name that the writer chose.
    pub is_named: bool,
    /// What the server answered that the object is now.
    pub left: Option<State>,
}

/// One state of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub uid: Uid,
    pub generation: i64,
    pub revision: u64,
}

impl State {
    pub fn of(meta: &Meta) -> State {
        State {
            uid: meta.uid.clone(),
            generation: meta.generation,
            revision: meta.resource_version,
        }
    }

    /// Grows with what users want of the object: with its generation, or, where a kind has none, with any change.
    pub fn wanted(&self) -> u64 {
        match u64::try_from(self.generation) {
            Ok(generation @ 1..) => generation,
            _ => self.revision,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Create,
    Change,
    Delete,
}

/// The first few say it all: a sync may create 500 pods.
const MOST_NOTED: usize = 64;

/// Does some work, and tells what it wrote through any client. What it hands to other tasks is not seen.
pub async fn noted<T>(work: impl Future<Output = T>) -> (T, Vec<Write>) {
    WRITES
        .scope(RefCell::default(), async {
            let result = work.await;
            (result, WRITES.with(RefCell::take))
        })
        .await
}

/// Notes a request that was answered with success, if somebody wants to know.
pub(crate) fn note(method: &Method, target: &str, body: &Bytes, answer: &[u8]) {
    let verb = match *method {
        Method::POST => Verb::Create,
        Method::PUT | Method::PATCH => Verb::Change,
        Method::DELETE => Verb::Delete,
        _ => return,
    };
    // Outside of such work nobody does.
    let _ = WRITES.try_with(|writes| {
        let mut writes = writes.borrow_mut();
        if writes.len() >= MOST_NOTED {
            return;
        }
        let path = target.split('?').next().unwrap_or_default();
        let written = written(answer);
        let path = match (verb, &written) {
            (Verb::Create, Some(object)) => format!("{path}/{}", object.name),
            _ => path.to_owned(),
        };
        let content = content_of(body);
        writes.push(Write {
            verb,
            path,
            content,
            is_named: memchr::memmem::find(body, b"\"generateName\"").is_none(),
            left: written.as_ref().and_then(Written::state),
        });
    });
}

/// What the server says that an object is after a write. Not [`Meta`], which interns what nobody asks for here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    name: String,
    #[serde(default)]
    uid: Uid,
    #[serde(default)]
    generation: i64,
    #[serde(default)]
    resource_version: String,
}

impl Written {
    fn state(&self) -> Option<State> {
        Some(State {
            uid: self.uid.clone(),
            generation: self.generation,
            revision: self.resource_version.parse().ok()?,
        })
    }
}

fn written(answer: &[u8]) -> Option<Written> {
    #[derive(Deserialize)]
    struct Object {
        metadata: Written,
    }
    let object: Object = serde_json::from_slice(answer).ok()?;
    Some(object.metadata)
}

/// A hash of everything but the revision.
fn content_of(body: &[u8]) -> u64 {
    const REVISION: &[u8] = b"\"resourceVersion\":\"";
    let mut hasher = std::hash::DefaultHasher::new();
    match memchr::memmem::find(body, REVISION) {
        None => body.hash(&mut hasher),
        Some(start) => {
            let (before, rest) = body.split_at(start + REVISION.len());
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            before.hash(&mut hasher);
            rest[digits..].hash(&mut hasher);
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn writes_are_noted_where_somebody_asks() {
        let body = Bytes::from_static(br#"{"metadata":{"resourceVersion":"7"},"a":1}"#);
        let again = Bytes::from_static(br#"{"metadata":{"resourceVersion":"89"},"a":1}"#);
        let other = Bytes::from_static(br#"{"metadata":{"resourceVersion":"7"},"a":2}"#);
        note(&Method::PUT, "/nobody/asks", &body, b"");
        let ((), writes) = noted(async {
            note(&Method::GET, "/x", &Bytes::new(), b"");
            note(
                &Method::POST,
                "/pods?x=1",
                &body,
                br#"{"metadata":{"name":"a"}}"#,
            );
            let left =
                br#"{"metadata":{"name":"a","uid":"u","generation":3,"resourceVersion":"90"}}"#;
            note(&Method::PUT, "/pods/a/status", &again, left);
            note(&Method::DELETE, "/pods/a", &other, b"{}");
        })
        .await;
        let paths: Vec<(Verb, &str)> = writes
            .iter()
            .map(|write| (write.verb, &*write.path))
            .collect();
        assert_eq!(
            paths,
            [
                (Verb::Create, "/pods/a"),
                (Verb::Change, "/pods/a/status"),
                (Verb::Delete, "/pods/a")
            ]
        );
        assert_eq!(writes[0].content, writes[1].content);
        assert_ne!(writes[0].content, writes[2].content);
        let left: Vec<_> = writes.iter().map(|write| write.left.clone()).collect();
        let state = State {
            uid: "u".into(),
            generation: 3,
            revision: 90,
        };
        assert_eq!(left, [None, Some(state), None]);
    }
}
