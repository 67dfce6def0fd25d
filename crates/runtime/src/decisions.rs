//! Why a controller did what it did: the last plans per object, with their reasons.
//!
//! The reconcile loop records every plan here, for all controllers alike; the debug endpoint and
//! `steersman why` read it. It is bounded in every direction, because it lives as long as the
//! process does and sees every object of the cluster.

use std::borrow::Cow;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use api::decision::{Decided, Decision, Line, Started};
use api::{Key, MicroTime, ObjectId};
use parking_lot::Mutex;
use tokio::sync::watch;

use api::Lru;

/// The last decisions of all controllers. Cheap to clone; clones share the record.
#[derive(Clone)]
pub struct Decisions {
    inner: Arc<Mutex<Inner>>,
    started: Arc<watch::Sender<Started>>,
    listener: Option<Listener>,
}

/// Called with every decision that differs from the one before: the controller, the object, when, and
/// the lines.
pub type Listener = Arc<dyn Fn(&'static str, &ObjectId, MicroTime, &[Line]) + Send + Sync>;

/// Enough to see a rollout stall and what came before it.
const DECISIONS_PER_OBJECT: usize = 8;

/// The objects that changed last are the ones that people ask about.
const OBJECTS: usize = 4096;

/// A plan may touch 500 pods; the first few say it all.
const BYTES_PER_DECISION: usize = 2048;

/// A server's message fits. One per object is kept, so all together stay below 2 MB.
const BYTES_PER_FAILURE: usize = 512;

/// All text together: an idle process has 12 MB in all, a busy one must not spend more than a few
/// on its history.
const BYTES: usize = 4 * 1024 * 1024;

/// Who decided about what. The uid tells a recreated object from its namesake.
type About = (&'static str, ObjectId);

struct Inner {
    objects: Lru<About, VecDeque<Decision>>,
    /// The sum of the lengths of all texts.
    bytes: usize,
}

impl Decisions {
    pub fn new() -> Decisions {
        let inner = Inner {
            objects: Lru::new(OBJECTS),
            bytes: 0,
        };
        Decisions {
            inner: Arc::new(Mutex::new(inner)),
            started: Arc::default(),
            listener: None,
        }
    }

    /// The same with a listener, which sees every decision: the record is bounded.
    #[must_use]
    pub fn heard_by(mut self, listener: Listener) -> Decisions {
        self.listener = Some(listener);
        self
    }

    /// These controllers run, beside those that did before, until what is returned is dropped.
    #[must_use]
    pub fn begin(&self, started: Started) -> StartedGuard {
        self.started.send_modify(|all| {
            all.running.extend_from_slice(&started.running);
            all.skipped.extend_from_slice(&started.skipped);
        });
        StartedGuard {
            all: self.started.clone(),
            own: started,
        }
    }

    /// Which controllers run here.
    pub fn started(&self) -> watch::Receiver<Started> {
        self.started.subscribe()
    }

    /// Keeps what `controller` decided about an object. A decision equal to the one before it is counted,
    /// not kept again. The reconcile loop does this for every controller, through its `Report`.
    fn record(
        &self,
        controller: &'static str,
        object: &ObjectId,
        at: MicroTime,
        lines: impl IntoIterator<Item = Line>,
    ) {
        let lines = bounded(lines.into_iter());
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let about = (controller, object.clone());
        if inner.objects.len() >= OBJECTS && inner.objects.peek(&about).is_none() {
            inner.forget_oldest();
        }
        let decisions = inner.objects.get_or_insert(about, VecDeque::new);
        if let Some(last) = decisions.back_mut()
            && *last.lines == *lines
        {
            last.last_at = at;
            last.count += 1;
            return;
        }
        if decisions.len() == DECISIONS_PER_OBJECT
            && let Some(dropped) = decisions.remove(least_telling(decisions, &lines))
        {
            inner.bytes -= dropped.bytes();
        }
        let decision = Decision {
            at,
            last_at: at,
            count: 1,
            lines: lines.into(),
            failure: None,
        };
        inner.bytes += decision.bytes();
        let lines = decision.lines.clone();
        decisions.push_back(decision);
        while inner.bytes > BYTES {
            inner.forget_oldest();
        }
        if let Some(listener) = &self.listener {
            listener(controller, object, at, &lines);
        }
    }

    /// Notes how carrying out the last decision about an object went.
    pub fn note_outcome(&self, controller: &'static str, object: &ObjectId, failure: Option<&str>) {
        let mut inner = self.inner.lock();
        // Looking must not make the object younger, and most of the time there is nothing to note.
        let about = (controller, object.clone());
        let Some(last) = inner.objects.peek_mut(&about).and_then(VecDeque::back_mut) else {
            return;
        };
        last.failure = failure.map(|text| Arc::from(&*shortened(text)));
    }

    /// All decisions about objects that match, by controller.
    pub fn about(&self, fits: impl Fn(&str, &ObjectId) -> bool) -> Vec<Decided> {
        let inner = self.inner.lock();
        let mut found: Vec<Decided> = inner
            .objects
            .iter()
            .filter(|((controller, object), _)| fits(controller, object))
            .map(|((controller, object), decisions)| Decided {
                controller: (*controller).into(),
                object: object.clone(),
                decisions: decisions.iter().cloned().collect(),
            })
            .collect();
        found.sort_by(|one, two| {
            (&one.controller, &one.object).cmp(&(&two.controller, &two.object))
        });
        found
    }

    /// What `controller` decided about objects of this name, oldest first.
    pub fn get(&self, controller: &str, key: &Key) -> Vec<Decision> {
        let about = self.about(|by, object| by == controller && object.key() == *key);
        about
            .into_iter()
            .flat_map(|decided| decided.decisions)
            .collect()
    }

    /// The controllers that have decided anything, by name.
    pub fn controllers(&self) -> Vec<&'static str> {
        let inner = self.inner.lock();
        let names: BTreeSet<&'static str> = inner.objects.keys().map(|(name, _)| *name).collect();
        names.into_iter().collect()
    }

    /// The objects that `controller` decided about, by kind, namespace and name.
    pub fn objects(&self, controller: &str) -> Vec<ObjectId> {
        let inner = self.inner.lock();
        let keys = inner.objects.keys();
        let mut objects: Vec<ObjectId> = keys
            .filter(|(name, _)| *name == controller)
            .map(|(_, object)| object.clone())
            .collect();
        objects.sort();
        objects
    }
}

/// As long as it is there, its controllers run.
pub struct StartedGuard {
    all: Arc<watch::Sender<Started>>,
    own: Started,
}

impl Drop for StartedGuard {
    fn drop(&mut self) {
        self.all.send_modify(|all| {
            all.running.retain(|name| !self.own.running.contains(name));
            all.skipped.retain(|name| !self.own.skipped.contains(name));
        });
    }
}

impl Default for Decisions {
    fn default() -> Decisions {
        Decisions::new()
    }
}

impl Inner {
    fn forget_oldest(&mut self) {
        if let Some((_, decisions)) = self.objects.pop_oldest() {
            self.bytes -= decisions.iter().map(Decision::bytes).sum::<usize>();
        }
    }
}

/// Which decision makes room for the next one: the oldest that was made again since with other numbers, or else
/// the oldest. A container that crashes for ever makes its owners wait for the same reason for ever, and these must
/// not push out what was last done.
fn least_telling(decisions: &VecDeque<Decision>, next: &[Line]) -> usize {
    let is_repeated = |index: &usize| {
        let held = &decisions[*index];
        let mut later = decisions.range(index + 1..);
        held.repeats(next) || later.any(|decision| held.repeats(&decision.lines))
    };
    (0..decisions.len()).find(is_repeated).unwrap_or(0)
}

/// The lines, up to the limit; a last one says how many are left out.
fn bounded(mut lines: impl Iterator<Item = Line>) -> Vec<Line> {
    let (mut kept, mut bytes) = (Vec::new(), 0);
    while let Some(mut line) = lines.next() {
        bytes += line.bytes();
        if bytes <= BYTES_PER_DECISION {
            kept.push(line);
            continue;
        }
        let mut left_out = 1 + lines.count();
        if kept.is_empty() {
            // A beginning that says something is worth more than a count.
            let end = line
                .what
                .floor_char_boundary(BYTES_PER_DECISION.min(line.what.len()));
            line.what = line.what[..end].to_owned().into();
            (line.why, line.hint) = ("".into(), "".into());
            kept.push(line);
            left_out -= 1;
        }
        if left_out > 0 {
            kept.push(Line::states("LeftOut", format!("and {left_out} more")));
        }
        break;
    }
    kept
}

/// What one reconcile decides, as it decides it. The loop makes one for each reconcile, with everything in it
/// that is the same for all decisions of a controller, and notes at the end how carrying them out went.
pub struct Report<'a> {
    controller: &'static str,
    decisions: &'a Decisions,
    now: MicroTime,
    objects: Mutex<Vec<ObjectId>>,
}

impl<'a> Report<'a> {
    pub fn new(controller: &'static str, decisions: &'a Decisions, now: MicroTime) -> Report<'a> {
        Report {
            controller,
            decisions,
            now,
            objects: Mutex::default(),
        }
    }

    /// The controller has decided this about an object.
    pub fn decide(&self, object: ObjectId, lines: impl IntoIterator<Item = Line>) {
        self.decisions
            .record(self.controller, &object, self.now, lines);
        self.objects.lock().push(object);
    }

    /// What was decided about so far.
    pub fn objects(&self) -> Vec<ObjectId> {
        self.objects.lock().clone()
    }

    /// The reconcile is over; a failure is that of the decisions it made.
    pub fn conclude(self, failure: Option<&str>) {
        for object in self.objects.lock().iter() {
            self.decisions
                .note_outcome(self.controller, object, failure);
        }
    }
}

/// As much of a message as is kept, with an ellipsis where it is cut.
fn shortened(text: &str) -> Cow<'_, str> {
    match text.len() <= BYTES_PER_FAILURE {
        true => Cow::Borrowed(text),
        false => {
            let end = text.floor_char_boundary(BYTES_PER_FAILURE);
            Cow::Owned(format!("{}…", &text[..end]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Time;
    use expect_test::expect;

    const RS: &str = "replicaset-controller";

    fn at(second: i64) -> MicroTime {
        Time::from_unix(second).micro()
    }

    fn object(name: &str) -> ObjectId {
        ObjectId {
            group: "apps".into(),
            kind: "ReplicaSet".into(),
            namespace: "web".into(),
            name: name.into(),
            uid: "u".into(),
        }
    }

    /// `creates 2` is the reason `creates`: what follows is numbers.
    fn line(text: &str) -> Line {
        let reason = text.split(' ').next().unwrap_or_default().to_owned();
        let mut line = Line::acts("", text.to_owned());
        line.reason = reason.into();
        line
    }

    fn record(decisions: &Decisions, name: &str, second: i64, lines: &[&str]) {
        let lines = lines.iter().map(|text| line(text));
        decisions.record(RS, &object(name), at(second), lines);
    }

    fn texts(decision: &Decision) -> String {
        let lines: Vec<String> = decision.lines.iter().map(Line::to_string).collect();
        lines.join("|")
    }

    fn counts(decisions: &Decisions, name: &str) -> Vec<(String, u64)> {
        let kept = decisions.get(RS, &Key::new("web", name));
        kept.iter()
            .map(|decision| (texts(decision), decision.count))
            .collect()
    }

    #[test]
    fn equal_decisions_in_a_row_collapse() {
        let decisions = Decisions::new();
        for (second, text) in [
            (1, "create 2"),
            (2, "wait"),
            (3, "wait"),
            (9, "wait"),
            (10, "create 2"),
        ] {
            record(&decisions, "a", second, &[text]);
        }
        let kept = decisions.get(RS, &Key::new("web", "a"));
        expect![[r#"[{"time":"1970-01-01T00:00:01.000000Z","lastTime":"1970-01-01T00:00:01.000000Z","count":1,"lines":[{"class":"acts","reason":"create","what":"create 2"}]},{"time":"1970-01-01T00:00:02.000000Z","lastTime":"1970-01-01T00:00:09.000000Z","count":3,"lines":[{"class":"acts","reason":"wait","what":"wait"}]},{"time":"1970-01-01T00:00:10.000000Z","lastTime":"1970-01-01T00:00:10.000000Z","count":1,"lines":[{"class":"acts","reason":"create","what":"create 2"}]}]"#]]
            .assert_eq(&serde_json::to_string(&kept).unwrap());
    }

    #[test]
    fn a_decision_that_fails_says_so_until_it_does_not() {
        let decisions = Decisions::new();
        let (key, web) = (Key::new("web", "a"), object("a"));
        decisions.note_outcome(
            RS,
            &web,
            Some("nothing was decided yet, so nothing can fail"),
        );
        record(&decisions, "a", 1, &["create 2"]);
        decisions.note_outcome(RS, &web, Some("exceeded quota"));
        record(&decisions, "a", 2, &["create 2"]);
        let last = || decisions.get(RS, &key).pop().unwrap();
        assert_eq!(last().failure.as_deref(), Some("exceeded quota"));
        decisions.note_outcome(RS, &web, None);
        assert_eq!(last().failure, None);
    }

    #[test]
    fn a_failure_that_is_cut_says_so() {
        assert_eq!(shortened("exceeded quota"), "exceeded quota");
        let long = "é".repeat(BYTES_PER_FAILURE);
        let kept = shortened(&long);
        assert_eq!(kept.len(), BYTES_PER_FAILURE + "…".len());
        assert!(kept.ends_with("é…"), "{kept}");
    }

    #[test]
    fn a_recreated_object_does_not_inherit_the_story_of_its_namesake() {
        let decisions = Decisions::new();
        record(&decisions, "a", 1, &["create 2"]);
        let again = ObjectId {
            uid: "v".into(),
            ..object("a")
        };
        decisions.record(RS, &again, at(2), [line("wait")]);
        let of = |id: &ObjectId| decisions.about(|_, object| object == id)[0].decisions.len();
        assert_eq!((of(&object("a")), of(&again)), (1, 1));
        let custom = ObjectId {
            group: "example.com".into(),
            ..object("a")
        };
        assert!(decisions.about(|_, object| *object == custom).is_empty());
    }

    #[test]
    fn a_report_notes_the_failure_of_all_that_it_decided() {
        let decisions = Decisions::new();
        let report = Report::new(RS, &decisions, at(1));
        report.decide(object("a"), [line("create 2")]);
        report.decide(object("b"), [line("create 3")]);
        report.conclude(Some("exceeded quota"));
        for name in ["a", "b"] {
            let kept = decisions.get(RS, &Key::new("web", name));
            assert_eq!(kept[0].failure.as_deref(), Some("exceeded quota"));
        }
    }

    #[test]
    fn who_listens_hears_each_new_decision_once() {
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let told = heard.clone();
        let decisions =
            Decisions::new().heard_by(Arc::new(move |controller, object, at, lines| {
                told.lock()
                    .push(format!("{at} {controller} {object} {}", lines[0]));
            }));
        for second in 1..4 {
            record(&decisions, "a", second, &["wait"]);
        }
        assert_eq!(
            *heard.lock(),
            ["1970-01-01T00:00:01.000000Z replicaset-controller ReplicaSet web/a wait"]
        );
    }

    #[test]
    fn nothing_to_do_is_a_decision_too() {
        let decisions = Decisions::new();
        record(&decisions, "a", 1, &[]);
        record(&decisions, "a", 2, &[]);
        assert_eq!(counts(&decisions, "a"), [(String::new(), 2)]);
    }

    #[test]
    fn an_object_keeps_its_last_eight() {
        let decisions = Decisions::new();
        for step in 0..20 {
            record(&decisions, "a", step, &[&format!("step-{step}")]);
        }
        let kept = counts(&decisions, "a");
        assert_eq!(kept.len(), 8);
        assert_eq!(kept[0].0, "step-12");
    }

    #[test]
    fn waits_for_the_same_reason_do_not_push_out_what_was_done() {
        let decisions = Decisions::new();
        record(&decisions, "a", 0, &["creates a-5d4f8 with 2 of 2 pods"]);
        for step in 1..40 {
            let available = step % 3;
            let wait = format!("waits for pods: {available} of 2 are available");
            record(&decisions, "a", step, &[&wait, &format!("deadline {step}")]);
            record(&decisions, "a", step, &["complete"]);
        }
        let kept = counts(&decisions, "a");
        let kept: Vec<&str> = kept.iter().map(|(text, _)| text.as_str()).collect();
        expect![[r#"
            creates a-5d4f8 with 2 of 2 pods
            complete
            waits for pods: 1 of 2 are available|deadline 37
            complete
            waits for pods: 2 of 2 are available|deadline 38
            complete
            waits for pods: 0 of 2 are available|deadline 39
            complete"#]]
        .assert_eq(&kept.join("\n"));
        let kept = decisions.get(RS, &Key::new("web", "a"));
        let bytes: usize = kept.iter().map(Decision::bytes).sum();
        assert_eq!(decisions.inner.lock().bytes, bytes);
    }

    #[test]
    fn the_object_decided_longest_ago_is_evicted_first() {
        let decisions = Decisions::new();
        for object in 0..OBJECTS {
            record(&decisions, &format!("{object:04}"), 1, &["x"]);
        }
        record(&decisions, "0000", 2, &["x"]);
        record(&decisions, "new", 3, &["x"]);
        assert_eq!(decisions.objects(RS).len(), OBJECTS);
        assert!(counts(&decisions, "0001").is_empty());
        assert_eq!(counts(&decisions, "0000"), [("x".to_owned(), 2)]);
        assert_eq!(decisions.inner.lock().bytes, OBJECTS);
    }

    #[test]
    fn text_is_bounded_and_says_what_is_left_out() {
        let decisions = Decisions::new();
        let lines: Vec<String> = (0..500)
            .map(|pod| format!("delete pod web-{pod}: too many"))
            .collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        record(&decisions, "a", 1, &lines);
        let kept = &decisions.get(RS, &Key::new("web", "a"))[0];
        assert_eq!(kept.lines.len(), 77);
        assert_eq!(kept.lines[76].to_string(), "and 424 more");

        record(&decisions, "b", 1, &[&"é".repeat(4000)]);
        assert_eq!(counts(&decisions, "b")[0].0.len(), 2048);
    }

    #[test]
    fn all_text_together_is_bounded() {
        let decisions = Decisions::new();
        for step in 0..8 {
            for object in 0..1000 {
                let text = format!("{step} {}", "x".repeat(2000));
                record(&decisions, &object.to_string(), step, &[&text]);
            }
        }
        let inner = decisions.inner.lock();
        assert!(inner.bytes <= BYTES, "{}", inner.bytes);
        assert!(inner.objects.len() > 200, "{}", inner.objects.len());
    }

    /// A manager that migrates leaders has two sets of controllers, each with a lease of its own.
    #[test]
    fn controllers_run_until_their_term_is_over() {
        let started = |running: &'static str, skipped: &'static str| Started {
            running: vec![running.into()],
            skipped: vec![skipped.into()],
        };
        let decisions = Decisions::new();
        let one = decisions.begin(started("job", "csrsigning"));
        let two = decisions.begin(started("service", "route"));
        let now = decisions.started().borrow().clone();
        assert_eq!(now.running, ["job", "service"]);
        assert_eq!(now.skipped, ["csrsigning", "route"]);
        drop(one);
        assert_eq!(*decisions.started().borrow(), started("service", "route"));
        drop(two);
        assert_eq!(*decisions.started().borrow(), Started::default());
    }

    #[test]
    fn controllers_are_distinguished() {
        let decisions = Decisions::new();
        decisions.record("job-controller", &object("a"), at(1), [line("run")]);
        record(&decisions, "a", 1, &["create"]);
        record(&decisions, "b", 1, &["create"]);
        assert_eq!(decisions.controllers(), ["job-controller", RS]);
        assert_eq!(decisions.objects("job-controller"), [object("a")]);
        assert_eq!(decisions.objects(RS).len(), 2);
        assert!(decisions.get("cronjob", &Key::new("web", "a")).is_empty());
    }
}
