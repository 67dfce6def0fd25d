//! What all pages see: rows and decisions as they change, computed once and handed to every page.
//!
//! A change leaves at once, and what follows within a picture of a screen leaves together, each time as one [`Frame`].
//! The frames of the last minutes are kept, on top of the rows as they were before the first of them ([`Inner::base`]): a
//! page that comes gets the base, the frames, and then whatever happens, so it can show every moment of the last minutes
//! without asking again. All of it is bounded, and nothing of it exists while no page is open.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::decision::{Decided, Line};
use api::{MicroTime, ObjectId};
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{Notify, broadcast};

use crate::kinds;

/// Who may see something: those who may list this resource in this namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Scope {
    pub(crate) group: String,
    /// Empty for what only those may see who may see everything.
    pub(crate) plural: String,
    pub(crate) namespace: String,
    /// What controllers decided, which has a rule of its own.
    pub(crate) decided: bool,
}

/// A piece of JSON and who may see it.
#[derive(Clone)]
pub(crate) struct Item {
    pub(crate) scope: Arc<Scope>,
    pub(crate) json: Arc<str>,
}

/// What changed in one moment.
pub(crate) struct Frame {
    pub(crate) at: MicroTime,
    pub(crate) set: Vec<(Arc<str>, Item)>,
    pub(crate) gone: Vec<(Arc<str>, Arc<Scope>)>,
    pub(crate) decisions: Vec<Item>,
}

/// A frame on its way, with its text for those who may see all of it.
#[derive(Clone)]
pub(crate) struct Sent {
    pub(crate) frame: Arc<Frame>,
    pub(crate) whole: Bytes,
}

/// What a page begins with.
pub(crate) struct Snapshot {
    pub(crate) base: Frame,
    pub(crate) history: Vec<Arc<Frame>>,
    pub(crate) live: broadcast::Receiver<Sent>,
}

/// The one feed of a process.
pub struct Feed {
    inner: Mutex<Inner>,
    active: AtomicBool,
    changed: Notify,
    sender: broadcast::Sender<Sent>,
    bounds: Bounds,
}

/// How much history is kept: whichever is full first.
#[derive(Clone, Copy)]
struct Bounds {
    bytes: usize,
    time: Duration,
}

#[derive(Default)]
struct Inner {
    base: BTreeMap<Arc<str>, Item>,
    base_at: Option<MicroTime>,
    begun_at: Option<MicroTime>,
    base_decisions: VecDeque<Item>,
    history: VecDeque<Arc<Frame>>,
    history_bytes: usize,
    pending: BTreeMap<Arc<str>, Option<Item>>,
    /// Of what is gone nothing but its scope is needed.
    scopes: BTreeMap<Arc<str>, Arc<Scope>>,
    pending_decisions: Vec<Item>,
}

/// Frames that a page may be behind before it is dropped and starts over: ten seconds of a cluster that never rests.
const BACKLOG: usize = 512;

/// The history of the slider, in bytes of JSON and in time.
const SLIDER: Bounds = Bounds {
    bytes: 1024 * 1024,
    time: Duration::from_secs(15 * 60),
};

/// A recording has a beginning and an end; what does not fit a page that people send each other is left out at the
/// beginning.
const RECORDING: Bounds = Bounds {
    bytes: 16 * 1024 * 1024,
    time: Duration::from_secs(100 * 365 * 24 * 3600),
};

/// What comes within this time of the beginning is what was there before: informers need a moment to list it.
const BEGINNING: Duration = Duration::from_secs(1);

/// Decisions from before the history that a page begins with.
const EARLIER_DECISIONS: usize = 400;

/// Decisions that one frame may hold: a cluster that is restored makes thousands at once, and nobody reads them.
const DECISIONS_AT_ONCE: usize = 1000;

/// How far frames are apart at least: no screen shows more than 60 pictures a second.
const APART: Duration = Duration::from_millis(16);

impl Feed {
    pub fn new() -> Arc<Feed> {
        Feed::bounded(SLIDER)
    }

    /// One that keeps everything from beginning to end, for [`crate::Dashboard::record`].
    pub fn recording() -> Arc<Feed> {
        Feed::bounded(RECORDING)
    }

    fn bounded(bounds: Bounds) -> Arc<Feed> {
        Arc::new(Feed {
            bounds,
            inner: Mutex::default(),
            active: AtomicBool::new(false),
            changed: Notify::new(),
            sender: broadcast::channel(BACKLOG).0,
        })
    }

    /// For [`runtime::Decisions::heard_by`]. While no page is open it costs one load of a flag.
    pub fn listener(self: &Arc<Feed>) -> runtime::decisions::Listener {
        let feed = self.clone();
        Arc::new(move |controller, object, at, lines| {
            if feed.active.load(Ordering::Relaxed) && !lines.is_empty() {
                feed.decide(decision(controller, object, at, lines));
            }
        })
    }

    /// Pages come: begin with these decisions.
    pub(crate) fn activate(&self, decided: Vec<Decided>, now: MicroTime) {
        let mut earlier: Vec<(MicroTime, Item)> = decided
            .iter()
            .flat_map(|about| {
                let told = about.decisions.iter().filter(|one| !one.lines.is_empty());
                told.map(|one| {
                    (
                        one.at,
                        decision(&about.controller, &about.object, one.at, &one.lines),
                    )
                })
            })
            .collect();
        earlier.sort_by_key(|(at, _)| *at);
        let surplus = earlier.len().saturating_sub(EARLIER_DECISIONS);
        let mut inner = self.inner.lock();
        inner.base_decisions = earlier.drain(surplus..).map(|(_, item)| item).collect();
        (inner.base_at, inner.begun_at) = (Some(now), Some(now));
        drop(inner);
        self.active.store(true, Ordering::Relaxed);
    }

    /// The last page is gone: so is everything else.
    pub(crate) fn deactivate(&self) {
        self.active.store(false, Ordering::Relaxed);
        *self.inner.lock() = Inner::default();
    }

    pub(crate) fn pages(&self) -> usize {
        self.sender.receiver_count()
    }

    pub(crate) fn put(&self, key: &str, item: Item) {
        let key: Arc<str> = key.into();
        self.inner.lock().pending.insert(key, Some(item));
        self.changed.notify_one();
    }

    pub(crate) fn remove(&self, key: &str) {
        let mut inner = self.inner.lock();
        let is_known = inner.scopes.contains_key(key) || inner.pending.contains_key(key);
        if is_known {
            inner.pending.insert(key.into(), None);
            self.changed.notify_one();
        }
    }

    fn decide(&self, item: Item) {
        let mut inner = self.inner.lock();
        if inner.pending_decisions.len() < DECISIONS_AT_ONCE {
            inner.pending_decisions.push(item);
            self.changed.notify_one();
        }
    }

    /// Sends what changed, for as long as it is polled.
    pub(crate) async fn run(&self, clock: &api::Clock) {
        loop {
            self.changed.notified().await;
            self.flush(clock.now());
            tokio::time::sleep(APART).await;
        }
    }

    /// What a page begins with, and whatever comes after it.
    pub(crate) fn subscribe(&self, now: MicroTime) -> Snapshot {
        let inner = self.inner.lock();
        // Under the lock, so that nothing is between the snapshot and what follows it.
        let live = self.sender.subscribe();
        let base = Frame {
            at: inner.base_at.unwrap_or(now),
            set: inner
                .base
                .iter()
                .map(|(key, item)| (key.clone(), item.clone()))
                .collect(),
            gone: Vec::new(),
            decisions: inner.base_decisions.iter().cloned().collect(),
        };
        Snapshot {
            base,
            history: inner.history.iter().cloned().collect(),
            live,
        }
    }

    pub(crate) fn flush(&self, at: MicroTime) {
        let mut inner = self.inner.lock();
        let Some(frame) = inner.take_frame(at) else {
            return;
        };
        let whole = Bytes::from(frame.render(|_| true));
        inner.history_bytes += frame.bytes();
        let frame = Arc::new(frame);
        inner.history.push_back(frame.clone());
        inner.trim(at, self.bounds);
        // Nobody listens: then there is nobody to tell.
        let _ = self.sender.send(Sent { frame, whole });
    }
}

impl Inner {
    fn take_frame(&mut self, at: MicroTime) -> Option<Frame> {
        let mut frame = Frame {
            at,
            set: Vec::new(),
            gone: Vec::new(),
            decisions: std::mem::take(&mut self.pending_decisions),
        };
        for (key, item) in std::mem::take(&mut self.pending) {
            match item {
                Some(item) => {
                    self.scopes.insert(key.clone(), item.scope.clone());
                    frame.set.push((key, item));
                }
                None => {
                    if let Some(scope) = self.scopes.remove(&key) {
                        frame.gone.push((key, scope));
                    }
                }
            }
        }
        let is_empty = frame.set.is_empty() && frame.gone.is_empty() && frame.decisions.is_empty();
        (!is_empty).then_some(frame)
    }

    /// What is too old becomes part of the base.
    fn trim(&mut self, now: MicroTime, bounds: Bounds) {
        let begun = self.begun_at.unwrap_or(now);
        while let Some(first) = self.history.front() {
            let is_old = now.since(first.at) > bounds.time || first.at < begun.plus(BEGINNING);
            if !is_old && self.history_bytes <= bounds.bytes {
                break;
            }
            let Some(frame) = self.history.pop_front() else {
                break;
            };
            self.history_bytes = self.history_bytes.saturating_sub(frame.bytes());
            self.base_at = Some(frame.at);
            for (key, item) in &frame.set {
                self.base.insert(key.clone(), item.clone());
            }
            for (key, _) in &frame.gone {
                self.base.remove(key);
            }
            self.base_decisions.extend(frame.decisions.iter().cloned());
            let surplus = self.base_decisions.len().saturating_sub(EARLIER_DECISIONS);
            self.base_decisions.drain(..surplus);
        }
    }
}

impl Frame {
    /// As JSON, with what the viewer may see.
    pub(crate) fn render(&self, sees: impl Fn(&Scope) -> bool) -> String {
        let mut text = format!("{{\"t\":{}", self.at.unix_micros() / 1000);
        let mut set = self
            .set
            .iter()
            .filter(|(_, item)| sees(&item.scope))
            .peekable();
        if set.peek().is_some() {
            list(
                &mut text,
                "set",
                '{',
                '}',
                set.map(|(key, item)| format!("{}:{}", quoted(key), item.json)),
            );
        }
        let mut gone = self.gone.iter().filter(|(_, scope)| sees(scope)).peekable();
        if gone.peek().is_some() {
            list(
                &mut text,
                "gone",
                '[',
                ']',
                gone.map(|(key, _)| quoted(key)),
            );
        }
        let mut decisions = self
            .decisions
            .iter()
            .filter(|item| sees(&item.scope))
            .peekable();
        if decisions.peek().is_some() {
            list(
                &mut text,
                "decisions",
                '[',
                ']',
                decisions.map(|item| item.json.to_string()),
            );
        }
        text.push('}');
        text
    }

    pub(crate) fn scopes(&self) -> impl Iterator<Item = &Arc<Scope>> {
        let set = self.set.iter().map(|(_, item)| &item.scope);
        let gone = self.gone.iter().map(|(_, scope)| scope);
        set.chain(gone)
            .chain(self.decisions.iter().map(|item| &item.scope))
    }

    /// About as long as it is as text.
    fn bytes(&self) -> usize {
        let set: usize = self
            .set
            .iter()
            .map(|(key, item)| key.len() + item.json.len() + 4)
            .sum();
        let gone: usize = self.gone.iter().map(|(key, _)| key.len() + 3).sum();
        let decisions: usize = self.decisions.iter().map(|item| item.json.len() + 1).sum();
        set + gone + decisions + 60
    }
}

fn list(
    text: &mut String,
    name: &str,
    open: char,
    close: char,
    parts: impl Iterator<Item = String>,
) {
    let _ = write!(text, ",\"{name}\":{open}");
    for (index, part) in parts.enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(&part);
    }
    text.push(close);
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A decision as the page reads it.
pub fn decision_json(
    controller: &str,
    object: &ObjectId,
    at: MicroTime,
    lines: &[Line],
) -> serde_json::Value {
    json!({"t": at.unix_micros() / 1000, "controller": controller, "object": object, "lines": lines})
}

fn decision(controller: &str, object: &ObjectId, at: MicroTime, lines: &[Line]) -> Item {
    let known = kinds::named(&object.kind).filter(|kind| kind.group == object.group);
    Item {
        scope: Arc::new(Scope {
            group: object.group.to_string(),
            plural: known.map_or(String::new(), |kind| kind.plural.to_string()),
            namespace: object.namespace.to_string(),
            decided: true,
        }),
        json: decision_json(controller, object, at, lines)
            .to_string()
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::Report;

    fn item(namespace: &str, json: &str) -> Item {
        Item {
            scope: Arc::new(Scope {
                group: String::new(),
                plural: "pods".into(),
                namespace: namespace.into(),
                decided: false,
            }),
            json: json.into(),
        }
    }

    fn at(second: i64) -> MicroTime {
        MicroTime::from_unix_micros(second * 1_000_000)
    }

    #[test]
    fn a_page_that_comes_late_can_show_every_moment() {
        let feed = Feed::new();
        feed.activate(Vec::new(), at(-10));
        feed.put("a", item("x", "1"));
        feed.flush(at(1));
        feed.put("a", item("x", "2"));
        feed.put("b", item("y", "3"));
        feed.flush(at(2));
        feed.remove("a");
        feed.remove("never there");
        feed.flush(at(3));
        let mut snapshot = feed.subscribe(at(3));
        let frames: Vec<String> = snapshot
            .history
            .iter()
            .map(|frame| frame.render(|_| true))
            .collect();
        assert_eq!(
            frames,
            [
                r#"{"t":1000,"set":{"a":1}}"#,
                r#"{"t":2000,"set":{"a":2,"b":3}}"#,
                r#"{"t":3000,"gone":["a"]}"#
            ]
        );
        assert_eq!(snapshot.base.render(|_| true), r#"{"t":-10000}"#);
        feed.put("c", item("x", "4"));
        feed.flush(at(4));
        let sent = snapshot.live.try_recv().unwrap();
        assert_eq!(sent.whole, r#"{"t":4000,"set":{"c":4}}"#);
    }

    #[test]
    fn the_viewer_gets_what_he_may_see() {
        let feed = Feed::new();
        feed.activate(Vec::new(), at(-10));
        feed.put("a", item("x", "1"));
        feed.put("b", item("y", "2"));
        feed.flush(at(1));
        let snapshot = feed.subscribe(at(1));
        let seen = snapshot.history[0].render(|scope| scope.namespace == "y");
        assert_eq!(seen, r#"{"t":1000,"set":{"b":2}}"#);
    }

    #[test]
    fn history_is_bounded_and_what_is_older_is_the_base() {
        let feed = Feed::new();
        feed.activate(Vec::new(), at(-10));
        let long = format!("\"{}\"", "x".repeat(10_000));
        for second in 0..500 {
            feed.put(&format!("pod-{}", second % 7), item("x", &long));
            feed.flush(at(second));
        }
        let snapshot = feed.subscribe(at(500));
        assert_eq!(snapshot.base.set.len(), 7);
        assert!(snapshot.history.len() < 110, "{}", snapshot.history.len());
        assert!(feed.inner.lock().history_bytes <= SLIDER.bytes);
        feed.put("late", item("x", "1"));
        feed.flush(at(500 + 20 * 60));
        assert_eq!(
            feed.subscribe(at(2000)).history.len(),
            1,
            "the rest is too old"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_leaves_at_once_and_what_follows_it_leaves_together() {
        let feed = Feed::new();
        feed.activate(Vec::new(), at(-10));
        let mut live = feed.subscribe(at(0)).live;
        let clock = runtime::clock::wall();
        let (own, begun) = (feed.clone(), tokio::time::Instant::now());
        let running = runtime::spawn(async move { own.run(&clock).await });
        feed.put("a", item("x", "1"));
        assert_eq!(live.recv().await.unwrap().frame.set.len(), 1);
        assert_eq!(begun.elapsed(), Duration::ZERO);
        feed.put("b", item("x", "2"));
        feed.put("c", item("x", "3"));
        assert_eq!(live.recv().await.unwrap().frame.set.len(), 2);
        assert!(
            begun.elapsed() <= APART + Duration::from_millis(1),
            "{:?}",
            begun.elapsed()
        );
        drop(running);
    }

    #[test]
    fn nothing_is_kept_while_no_page_is_open() {
        let feed = Feed::new();
        let decisions = runtime::Decisions::new().heard_by(feed.listener());
        let web = ObjectId {
            group: "apps".into(),
            kind: "Deployment".into(),
            namespace: "x".into(),
            name: "web".into(),
            uid: api::Uid::default(),
        };
        let line = || Line::acts("ScalesUp", "scales web-1 up");
        Report::new("deployment-controller", &decisions, at(1)).decide(web.clone(), [line()]);
        assert!(feed.inner.lock().pending_decisions.is_empty());
        feed.activate(decisions.about(|_, _| true), at(2));
        Report::new("deployment-controller", &decisions, at(2)).decide(web.clone(), [line()]);
        feed.flush(at(2));
        assert!(
            feed.subscribe(at(2)).history.is_empty(),
            "it belongs to the beginning"
        );
        Report::new("deployment-controller", &decisions, at(3))
            .decide(web.clone(), [line(), line()]);
        feed.flush(at(4));
        let snapshot = feed.subscribe(at(4));
        assert_eq!(snapshot.base.decisions.len(), 1);
        assert_eq!(snapshot.history[0].decisions.len(), 1);
        assert_eq!(snapshot.history[0].decisions[0].scope.plural, "deployments");
        feed.deactivate();
        assert!(feed.subscribe(at(5)).history.is_empty());
    }
}
