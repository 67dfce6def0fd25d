//! Watch: a stream that reads the log of changes at its own pace.
//!
//! There is no buffer per watcher. A watcher that the log has left behind gets one ERROR event (410) and the
//! stream ends; its client starts over. Writers never wait for it.

use super::negotiate::{self, Shape};
use super::{Context, RequestInfo, read};
use crate::kinds::Kind;
use crate::selector::Selector;
use crate::status::{Cause, Status};
use crate::storage::{Change, Event, Stored, Tail};
use crate::{Body, BoxError};
use api::Clock;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::stream;
use http::Response;
use http::header::{CONTENT_TYPE, HeaderValue};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::json;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep};

/// How many changes one wake-up takes from the log: enough to be cheap, few enough to keep chunks small.
const BATCH: usize = 256;

/// UPSTREAM: bookmarks come about once a minute.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);

/// UPSTREAM: a watch without a timeout lasts between 30 and 60 minutes.
const MIN_TIMEOUT_SECONDS: u64 = 1800;

/// How many initial objects go into one chunk.
const INITIAL_CHUNK: usize = 256;

/// A chunk of so many bytes is long enough, however few objects are in it: it waits in memory for its client.
pub(super) const CHUNK_BYTES: usize = 256 * 1024;

struct Watcher {
    context: Arc<Context>,
    selector: Selector,
    prefix: String,
    shape: Shape,
    /// Everything up to here was sent or did not match.
    revision: u64,
    /// The state to send before changes.
    initial: VecDeque<Arc<Stored>>,
    /// Send a bookmark that says so after the initial state.
    announce_end: bool,
    bookmarks: bool,
    /// The beginning of a bookmark, once there was one.
    bookmark: String,
    next_bookmark: Instant,
    deadline: Instant,
    /// Rings when the next of the two is due. Kept from one event to the next: setting a timer costs more than most
    /// events do.
    timer: Option<Pin<Box<Sleep>>>,
    /// Woken when the kind changes.
    changed: Arc<Notify>,
    /// A table's columns go with its first event only.
    header_sent: bool,
    /// An error to send, after which the stream ends.
    failure: Option<Status>,
    ended: bool,
}

impl Context {
    pub(super) async fn watch(&mut self) -> Result<Response<Body>, Status> {
        let mut watcher = self.watcher()?;
        let initial = std::mem::take(&mut watcher.initial);
        // Nothing has to be waited for unless a webhook converts.
        match watcher.context.requested_all(initial.into()).await {
            Ok(mut initial) => {
                if watcher.context.conversion().is_some() {
                    let (selector, kind) = (&watcher.selector, &watcher.context.kind);
                    initial.retain(|object| selector.matches(kind, object));
                }
                watcher.initial = initial.into();
            }
            Err(status) => watcher.failure = Some(status),
        }
        let frames = stream::unfold(watcher, |mut watcher| async move {
            let chunk = watcher.next().await?;
            Some((Ok::<_, BoxError>(Frame::data(chunk)), watcher))
        });
        let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
        response
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(response)
    }

    fn watcher(&mut self) -> Result<Watcher, Status> {
        let shape = negotiate::shape(&self.headers)?;
        let query = &self.info.query;
        let selector = self.selector()?;
        let initial_wanted = check_initial_events(
            query.get("sendInitialEvents"),
            query.get("resourceVersionMatch"),
        )?;
        let wanted = super::list::revision(query.get("resourceVersion"))?;
        let seconds = match query.number::<u64>("timeoutSeconds")? {
            Some(seconds) if seconds > 0 => seconds,
            _ => MIN_TIMEOUT_SECONDS + self.shared.rng.next_u64() % MIN_TIMEOUT_SECONDS,
        };
        let bookmarks = query.flag("allowWatchBookmarks");
        let now = Instant::now();
        let mut watcher = Watcher {
            selector,
            prefix: self.prefix(),
            shape,
            revision: 0,
            initial: VecDeque::new(),
            announce_end: false,
            bookmarks,
            bookmark: String::new(),
            next_bookmark: next_beat(&self.shared.clock),
            deadline: now + Duration::from_secs(seconds.min(u64::from(u32::MAX))),
            timer: None,
            changed: self.shared.store.changes(&self.stored_kind),
            header_sent: false,
            failure: None,
            ended: false,
            context: Arc::new(self.for_stream()),
        };
        watcher.start(wanted, initial_wanted);
        Ok(watcher)
    }

    /// What the stream needs of the request.
    pub(super) fn for_stream(&mut self) -> Context {
        let asked = RequestInfo {
            verb: self.info.verb,
            ..RequestInfo::default()
        };
        Context {
            shared: self.shared.clone(),
            info: std::mem::replace(&mut self.info, asked),
            registry: self.registry.clone(),
            kind: self.kind.clone(),
            stored_kind: self.stored_kind.clone(),
            subresource: None,
            headers: http::HeaderMap::new(),
            body: Bytes::new(),
            identity: self.identity.clone(),
            warnings: Vec::new(),
            audit_annotations: Vec::new(),
            applying: false,
            reviewed: None,
            converted: None,
            conversions: super::versions::Conversions::default(),
            upgrade: None,
            is_admitted: false,
        }
    }
}

/// When the next bookmark is due. All watches have theirs at the same moment, so that a server with many of them that
/// has nothing else to do wakes once a minute, and not for each.
fn next_beat(clock: &Clock) -> Instant {
    let period = BOOKMARK_PERIOD.as_micros();
    // Who has just begun knows where it is.
    let soonest = BOOKMARK_PERIOD / 2;
    let from = u128::try_from(clock.now().plus(soonest).unix_micros()).unwrap_or(0);
    let rest = u64::try_from(period - from % period).unwrap_or(0);
    Instant::now() + soonest + Duration::from_micros(rest)
}

/// `None`: not given. UPSTREAM: it needs `resourceVersionMatch=NotOlderThan`.
fn check_initial_events(text: &str, matching: &str) -> Result<Option<bool>, Status> {
    let mut causes = Vec::new();
    let mut refuse = |reason, message: String| {
        causes.push(Cause::new("resourceVersionMatch", reason, message));
    };
    let is_known = matching == "NotOlderThan";
    if !text.is_empty() && !is_known {
        let message =
            "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        refuse("FieldValueForbidden", message.to_owned());
    }
    if text.is_empty() && !matching.is_empty() {
        let message = "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        refuse("FieldValueForbidden", message.to_owned());
    }
    if !matching.is_empty() && !is_known {
        let shown = api::syntax::go_quote(matching);
        let message = format!("Unsupported value: {shown}: supported values: \"NotOlderThan\"");
        refuse("FieldValueNotSupported", message);
    }
    if !causes.is_empty() {
        return Err(Status::invalid_options("ListOptions", causes));
    }
    if text.is_empty() {
        return Ok(None);
    }
    Ok(Some(!matches!(text, "0" | "false" | "False")))
}

impl Watcher {
    /// Decides what comes first: the current state, or changes after a revision.
    fn start(&mut self, wanted: Option<u64>, initial_wanted: Option<bool>) {
        let store = &self.context.shared.store;
        let current = store.visible_revision();
        // UPSTREAM: no revision, or 0, means "start with what is there".
        let from_state = initial_wanted.unwrap_or(wanted.unwrap_or(0) == 0);
        if initial_wanted == Some(true)
            && let Some(wanted) = wanted
            && wanted > current
        {
            self.failure = Some(Status::resource_version_too_large(wanted, current));
            return;
        }
        self.revision = match (from_state, wanted) {
            (true, _) | (false, None | Some(0)) => current,
            (false, Some(wanted)) => wanted,
        };
        if from_state {
            let kind = &self.context.stored_kind;
            let selector = match self.context.conversion() {
                None => self.selector.clone(),
                // What is left is selected when it has been converted.
                Some(_) => self.selector.of_any_version(),
            };
            let keep = |object: &Stored| selector.matches(kind, object);
            if let Ok(page) = store.list(kind, &self.prefix, "", 0, None, &keep) {
                self.revision = page.revision;
                self.initial = page.items.into();
            }
            self.announce_end = initial_wanted == Some(true) && self.bookmarks;
        }
    }

    /// The next chunk of the stream; `None` when it is over.
    async fn next(&mut self) -> Option<Bytes> {
        if self.ended {
            return None;
        }
        if let Some(status) = self.failure.take() {
            self.ended = true;
            return Some(line("ERROR", &[status.to_value().to_string().as_bytes()]));
        }
        if !self.initial.is_empty() || self.announce_end {
            return Some(self.initial_chunk());
        }
        let changed = self.changed.clone();
        loop {
            let notified = changed.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            let taken = match self.context.conversion() {
                None => self.take_changes(),
                Some(_) => Box::pin(self.take_converted()).await,
            };
            if taken.is_some() {
                return taken;
            }
            if self.ended {
                return None;
            }
            let due = self.due();
            let timer = self
                .timer
                .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
            tokio::select! {
                biased;
                () = notified => {}
                () = timer.as_mut() => return self.on_time(),
            }
        }
    }

    fn due(&self) -> Instant {
        match self.bookmarks {
            true => self.deadline.min(self.next_bookmark),
            false => self.deadline,
        }
    }

    /// The time has come for a bookmark, or for the end.
    fn on_time(&mut self) -> Option<Bytes> {
        let now = Instant::now();
        if now >= self.deadline {
            self.ended = true;
            return None;
        }
        self.next_bookmark += BOOKMARK_PERIOD;
        if self.next_bookmark <= now {
            // Nobody has read for so long.
            self.next_bookmark = next_beat(&self.context.shared.clock);
        }
        let due = self.due();
        if let Some(timer) = &mut self.timer {
            timer.as_mut().reset(due);
        }
        let visible = self.context.shared.store.visible_revision();
        self.revision = self.revision.max(visible);
        Some(self.bookmark(false))
    }

    fn initial_chunk(&mut self) -> Bytes {
        let mut chunk = BytesMut::new();
        for _ in 0..INITIAL_CHUNK {
            if chunk.len() >= CHUNK_BYTES {
                break;
            }
            let Some(object) = self.initial.pop_front() else {
                break;
            };
            let shown = self.encode(&object);
            put_line(&mut chunk, "ADDED", &[&shown]);
        }
        if self.initial.is_empty() && self.announce_end {
            self.announce_end = false;
            chunk.put(self.bookmark(true));
        }
        chunk.freeze()
    }

    /// Matching changes since the last ones, if there are any.
    fn take_changes(&mut self) -> Option<Bytes> {
        let context = self.context.clone();
        loop {
            let before = self.revision;
            match context
                .shared
                .store
                .tail(&context.stored_kind, self.revision, BATCH)
            {
                Tail::Behind { floor } => {
                    self.ended = true;
                    let message = format!("too old resource version: {} ({floor})", self.revision);
                    let status = Status::expired(message).to_value().to_string();
                    return Some(line("ERROR", &[status.as_bytes()]));
                }
                Tail::Events(events, complete) => {
                    let (mut reached, mut size, mut lines) = (complete, 0, Vec::new());
                    // A watch from the future waits: what happens before it is not shown.
                    for event in events.iter().filter(|event| event.revision > before) {
                        let Some(line) = self.line_of(event) else {
                            continue;
                        };
                        size += line.len();
                        lines.push(line);
                        if size >= CHUNK_BYTES {
                            reached = event.revision;
                            break;
                        }
                    }
                    self.revision = before.max(reached);
                    let mut lines = lines.into_iter();
                    if let Some(first) = lines.next() {
                        return Some(joined(first, lines));
                    }
                    if events.len() < BATCH {
                        return None;
                    }
                }
            }
        }
    }

    /// The same where a webhook converts what is shown.
    async fn take_converted(&mut self) -> Option<Bytes> {
        let context = self.context.clone();
        loop {
            let before = self.revision;
            let store = &context.shared.store;
            let (events, complete) = match store.tail(&context.stored_kind, before, BATCH) {
                Tail::Behind { .. } => return self.take_changes(),
                Tail::Events(events, complete) => (events, complete),
            };
            self.revision = before.max(complete);
            let mut lines = Vec::new();
            for event in events.iter().filter(|event| event.revision > before) {
                if !event.object.key.starts_with(&self.prefix) {
                    continue;
                }
                let previous = event.previous.iter().cloned();
                let states: Vec<_> = [event.object.clone()].into_iter().chain(previous).collect();
                match context.requested_all(states).await {
                    Ok(mut states) => {
                        let previous = event.previous.as_ref().and_then(|_| states.pop());
                        let object = states.pop().unwrap_or_else(|| event.object.clone());
                        let event = Event::new(event.revision, event.change, object, previous);
                        lines.extend(self.line_of(&event));
                    }
                    // UPSTREAM: a watch ends with what it cannot show.
                    Err(status) => {
                        self.ended = true;
                        let status = status.to_value().to_string();
                        lines.push(line("ERROR", &[status.as_bytes()]));
                        break;
                    }
                }
            }
            let mut lines = lines.into_iter();
            if let Some(first) = lines.next() {
                return Some(joined(first, lines));
            }
            if events.len() < BATCH {
                return None;
            }
        }
    }

    /// What this watcher gets to see of a change, if anything.
    fn line_of(&mut self, event: &Event) -> Option<Bytes> {
        if !event.object.key.starts_with(&self.prefix) {
            return None;
        }
        let kind = self.context.stored_kind.clone();
        let matched = event
            .previous
            .as_ref()
            .is_some_and(|previous| self.selector.matches(&kind, previous));
        let matches =
            event.change != Change::Deleted && self.selector.matches(&kind, &event.object);
        let kind_of_change = match (matched, matches) {
            (false, false) => return None,
            (false, true) => Change::Added,
            (true, true) => Change::Modified,
            (true, false) => Change::Deleted,
        };
        if kind_of_change == event.change && self.shape == Shape::Object {
            return Some(self.shared_line(event));
        }
        let shown = match (&event.previous, kind_of_change) {
            // It no longer matches: its last matching state, at this revision.
            (Some(previous), Change::Deleted) if event.change != Change::Deleted => {
                self.encode(&crate::storage::with_revision(previous, event.revision))
            }
            _ => self.encode(&event.object),
        };
        Some(line(kind_of_change.name(), &[&shown]))
    }

    /// The event's line as every watcher of this version gets it, printed by the first of them.
    fn shared_line(&self, event: &Event) -> Bytes {
        let kind: &Kind = &self.context.kind;
        let change = event.change.name();
        let print = || match read::as_stored(kind, &event.object) {
            Some((start, rest)) => line(change, &[start, &rest]),
            None => line(change, &[&read::whole(kind, &event.object)]),
        };
        event.line(kind.api_version(), print)
    }

    fn encode(&mut self, object: &Stored) -> Vec<u8> {
        let context = &self.context;
        match self.shape {
            Shape::Object => read::whole(&context.kind, object),
            Shape::Metadata => context.metadata_of(object),
            Shape::Table => {
                let mut table = context.table(std::iter::once(object), !self.header_sent);
                table["metadata"] = json!({"resourceVersion": object.revision.to_string()});
                self.header_sent = true;
                table.to_string().into_bytes()
            }
        }
    }

    fn bookmark(&mut self, initial_events_end: bool) -> Bytes {
        let annotations = match initial_events_end {
            true => r#""annotations":{"k8s.io/initial-events-end":"true"},"#,
            false => "",
        };
        let revision = self.revision.to_string();
        let (start, end) = self.around_bookmark();
        let parts = [start, annotations, r#""resourceVersion":""#, &revision, end];
        let mut out = Vec::with_capacity(parts.iter().map(|part| part.len()).sum());
        let append = |part: &str| out.extend_from_slice(part.as_bytes());
        parts.into_iter().for_each(append);
        Bytes::from(out)
    }

    /// What every bookmark of this watch begins and ends with: there is one each minute.
    fn around_bookmark(&mut self) -> (&str, &'static str) {
        let kind = &self.context.kind;
        // Names of kinds need no escapes.
        let of = |table: &str, api_version: &str, kind: &str| {
            format!(
                r#"{{"type":"BOOKMARK","object":{table}{{"apiVersion":"{api_version}","kind":"{kind}","metadata":{{"#
            )
        };
        let version = self.context.meta_version();
        let (shape, start) = (self.shape, &mut self.bookmark);
        if start.is_empty() {
            *start = match shape {
                Shape::Object => of("", kind.api_version(), &kind.kind),
                Shape::Metadata => of("", version, "PartialObjectMetadata"),
                // UPSTREAM: kubectl finds the bookmark's metadata in the row's object.
                Shape::Table => {
                    let table = format!(
                        r#"{{"apiVersion":"{version}","columnDefinitions":[],"kind":"Table","metadata":{{}},"rows":[{{"cells":[],"object":"#
                    );
                    of(&table, kind.api_version(), &kind.kind)
                }
            };
        }
        let end = match shape {
            Shape::Object | Shape::Metadata => "\"}}}\n",
            Shape::Table => "\"}}}]}}\n",
        };
        (start, end)
    }
}

/// Lines as one chunk. A line alone, which is the usual case, is not copied: all watchers share it.
fn joined(first: Bytes, rest: impl Iterator<Item = Bytes>) -> Bytes {
    let mut chunk = None;
    for line in rest {
        chunk
            .get_or_insert_with(|| BytesMut::from(&first[..]))
            .put(line);
    }
    chunk.map_or(first, BytesMut::freeze)
}

/// One event, whose object comes in parts.
fn line(kind: &str, object: &[&[u8]]) -> Bytes {
    let length: usize = object.iter().map(|part| part.len()).sum();
    let around: usize = AROUND.iter().map(|part| part.len()).sum();
    let mut out = Vec::with_capacity(around + kind.len() + length);
    put_line(&mut out, kind, object);
    Bytes::from(out)
}

/// What is before the type of an event, between it and the object, and after that.
const AROUND: [&[u8]; 3] = [b"{\"type\":\"", b"\",\"object\":", b"}\n"];

fn put_line(out: &mut impl BufMut, kind: &str, object: &[&[u8]]) {
    out.put_slice(AROUND[0]);
    out.put_slice(kind.as_bytes());
    out.put_slice(AROUND[1]);
    object.iter().for_each(|part| out.put_slice(part));
    out.put_slice(AROUND[2]);
}
