//! Why a controller did what it did: the last plans per object, with their reasons.
//!
//! The reconcile loop records every plan here, for all controllers alike; the debug endpoint and
//! `steersman why` read it. It is bounded in every direction, because it lives as long as the
//! process does and sees every object of the cluster.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use api::{Key, MicroTime};
use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::lru::Lru;

/// The last decisions of all controllers. Cheap to clone; clones share the record.
#[derive(Clone)]
pub struct Decisions {
    inner: Arc<Mutex<Inner>>,
    listener: Option<Listener>,
}

/// Hears of every decision that is not the one before it again: the controller, the object, when, and
/// the lines.
pub type Listener = Arc<dyn Fn(&'static str, &Key, MicroTime, &str) + Send + Sync>;

/// One plan, and how often in a row it was made again unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// When it was made first.
    pub at: MicroTime,
    /// When it was made last.
    pub last_at: MicroTime,
    pub count: u64,
    /// Why it could not be carried out, the last time that it could not; none once it could.
    pub failure: Option<Arc<str>>,
    /// Its lines, separated by newlines; empty when there was nothing to do.
    text: Arc<str>,
}

/// Enough to see a rollout stall and what came before it.
const DECISIONS_PER_OBJECT: usize = 8;

/// The objects that changed last are the ones that people ask about.
const OBJECTS: usize = 4096;

/// A plan may touch 500 pods; the first few say it all.
const BYTES_PER_DECISION: usize = 2048;

/// A server's message fits. One per object is kept, so all together stay below 2 MB.
const BYTES_PER_FAILURE: usize = 512;

/// All text together: an idle process has 12 MB in all, a busy one must not spend more than a few
/// on its memoirs.
const BYTES: usize = 4 * 1024 * 1024;

struct Inner {
    objects: Lru<(&'static str, Key), VecDeque<Decision>>,
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
            listener: None,
        }
    }

    /// The same, and somebody listens: the record forgets, who listens need not.
    #[must_use]
    pub fn heard_by(mut self, listener: Listener) -> Decisions {
        self.listener = Some(listener);
        self
    }

    /// Keeps what `controller` decided about `key`. A decision equal to the one before it is counted,
    /// not kept again.
    pub fn record(
        &self,
        controller: &'static str,
        key: &Key,
        at: MicroTime,
        lines: impl Iterator<Item = String>,
    ) {
        let text = bounded_text(lines);
        let mut inner = self.lock();
        let inner = &mut *inner;
        if inner.objects.len() >= OBJECTS
            && inner.objects.peek(&(controller, key.clone())).is_none()
        {
            inner.forget_oldest();
        }
        let decisions = inner
            .objects
            .get_or_insert((controller, key.clone()), VecDeque::new);
        if let Some(last) = decisions.back_mut()
            && *last.text == *text
        {
            last.last_at = at;
            last.count += 1;
            return;
        }
        if decisions.len() == DECISIONS_PER_OBJECT
            && let Some(dropped) = decisions.remove(least_telling(decisions, &text))
        {
            inner.bytes -= dropped.text.len();
        }
        inner.bytes += text.len();
        let text: Arc<str> = text.into();
        decisions.push_back(Decision {
            at,
            last_at: at,
            count: 1,
            failure: None,
            text: text.clone(),
        });
        while inner.bytes > BYTES {
            inner.forget_oldest();
        }
        if let Some(listener) = &self.listener {
            listener(controller, key, at, &text);
        }
    }

    /// Notes how carrying out the last decision about `key` went.
    pub fn note_outcome(&self, controller: &'static str, key: &Key, failure: Option<String>) {
        let mut inner = self.lock();
        // Looking must not make the object younger, and most of the time there is nothing to note.
        let Some(decisions) = inner.objects.peek_mut(&(controller, key.clone())) else {
            return;
        };
        if let Some(last) = decisions.back_mut() {
            last.failure = failure.map(|mut text| {
                text.truncate(text.floor_char_boundary(BYTES_PER_FAILURE));
                text.into()
            });
        }
    }

    /// What `controller` decided about `key`, oldest first.
    pub fn get(&self, controller: &str, key: &Key) -> Vec<Decision> {
        let inner = self.lock();
        // Looking does not need a controller name that lives forever.
        let objects: &Lru<(&str, Key), VecDeque<Decision>> = &inner.objects;
        objects
            .peek(&(controller, key.clone()))
            .map(|decisions| decisions.iter().cloned().collect())
            .unwrap_or_default()
    }

    /// What anybody decided about an object of this name, by controller. Kinds are not told apart here: whoever
    /// knows the controllers knows about which kind each of them decides.
    pub fn about(&self, key: &Key) -> Vec<(&'static str, Vec<Decision>)> {
        let controllers = self.controllers().into_iter();
        controllers
            .map(|controller| (controller, self.get(controller, key)))
            .filter(|(_, decisions)| !decisions.is_empty())
            .collect()
    }

    /// The controllers that have decided anything, by name.
    pub fn controllers(&self) -> Vec<&'static str> {
        let inner = self.lock();
        let names: BTreeSet<&'static str> = inner.objects.keys().map(|(name, _)| *name).collect();
        names.into_iter().collect()
    }

    /// The objects that `controller` decided about, by namespace and name.
    pub fn keys(&self, controller: &str) -> Vec<Key> {
        let inner = self.lock();
        let mut keys: Vec<Key> = inner
            .objects
            .keys()
            .filter(|(name, _)| *name == controller)
            .map(|(_, key)| key.clone())
            .collect();
        keys.sort();
        keys
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
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
            let freed: usize = decisions.iter().map(|decision| decision.text.len()).sum();
            self.bytes -= freed;
        }
    }
}

impl Decision {
    /// One line for each step of the plan, with its reason; none when there was nothing to do.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.text.lines()
    }
}

/// `{"time":…,"lastTime":…,"count":…,"lines":[…]}`, and `"failure"` where there is one.
impl Serialize for Decision {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Decision", 5)?;
        object.serialize_field("time", &self.at)?;
        object.serialize_field("lastTime", &self.last_at)?;
        object.serialize_field("count", &self.count)?;
        object.serialize_field("lines", &self.lines().collect::<Vec<_>>())?;
        match &self.failure {
            Some(failure) => object.serialize_field("failure", failure)?,
            None => object.skip_field("failure")?,
        }
        object.end()
    }
}

/// Which decision makes room for the next one: the oldest that was made again since with other numbers, or else
/// the oldest. A container that crashes for ever makes its owners wait in the same words for ever, and these must
/// not push out what was last done.
fn least_telling(decisions: &VecDeque<Decision>, next: &str) -> usize {
    let said_again = |index: &usize| {
        let later = decisions.range(index + 1..).map(|decision| &*decision.text);
        let mut later = later.chain([next]);
        later.any(|text| same_words(text, &decisions[*index].text))
    };
    (0..decisions.len()).find(said_again).unwrap_or(0)
}

/// Are the texts the same but for their numbers and times?
fn same_words(one: &str, other: &str) -> bool {
    words(one).eq(words(other))
}

/// What stands between the digits.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|character: char| character.is_ascii_digit());
    words.filter(|word| !word.is_empty())
}

/// The lines joined, up to the limit; a last line says how many are left out.
fn bounded_text(mut lines: impl Iterator<Item = String>) -> String {
    let mut text = String::new();
    while let Some(line) = lines.next() {
        let room = BYTES_PER_DECISION - text.len();
        if line.len() + 1 > room {
            let cut = line.floor_char_boundary(room.saturating_sub(1).min(line.len()));
            // A beginning that says something is worth more than a count.
            let kept_a_part = text.is_empty() && cut > 0;
            if kept_a_part {
                text.push_str(&line[..cut]);
                text.push('\n');
            }
            let left_out = lines.count() + usize::from(!kept_a_part);
            if left_out > 0 {
                text.push_str(&format!("and {left_out} more"));
            }
            return text;
        }
        text.push_str(&line);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Time;
    use expect_test::expect;

    fn at(second: i64) -> MicroTime {
        Time::from_unix(second).micro()
    }

    fn record(decisions: &Decisions, name: &str, second: i64, lines: &[&str]) {
        let lines = lines.iter().map(|line| (*line).to_owned());
        decisions.record("replicaset", &Key::new("web", name), at(second), lines);
    }

    fn counts(decisions: &Decisions, name: &str) -> Vec<(String, u64)> {
        decisions
            .get("replicaset", &Key::new("web", name))
            .iter()
            .map(|decision| {
                (
                    decision.lines().collect::<Vec<_>>().join("|"),
                    decision.count,
                )
            })
            .collect()
    }

    #[test]
    fn equal_decisions_in_a_row_collapse() {
        let decisions = Decisions::new();
        for (second, line) in [
            (1, "create 2"),
            (2, "wait"),
            (3, "wait"),
            (9, "wait"),
            (10, "create 2"),
        ] {
            record(&decisions, "a", second, &[line]);
        }
        let kept = decisions.get("replicaset", &Key::new("web", "a"));
        expect![[r#"[{"time":"1970-01-01T00:00:01.000000Z","lastTime":"1970-01-01T00:00:01.000000Z","count":1,"lines":["create 2"]},{"time":"1970-01-01T00:00:02.000000Z","lastTime":"1970-01-01T00:00:09.000000Z","count":3,"lines":["wait"]},{"time":"1970-01-01T00:00:10.000000Z","lastTime":"1970-01-01T00:00:10.000000Z","count":1,"lines":["create 2"]}]"#]]
            .assert_eq(&serde_json::to_string(&kept).unwrap());
    }

    #[test]
    fn a_decision_that_fails_says_so_until_it_does_not() {
        let decisions = Decisions::new();
        let key = Key::new("web", "a");
        let fails = |text: &str| {
            decisions.note_outcome("replicaset", &key, Some(text.to_owned()));
        };
        fails("nothing was decided yet, so nothing can fail");
        record(&decisions, "a", 1, &["create 2"]);
        fails("exceeded quota");
        record(&decisions, "a", 2, &["create 2"]);
        let last = || decisions.get("replicaset", &key).pop().unwrap();
        assert_eq!(last().failure.as_deref(), Some("exceeded quota"));
        assert!(
            serde_json::to_string(&last())
                .unwrap()
                .ends_with(r#""lines":["create 2"],"failure":"exceeded quota"}"#)
        );
        decisions.note_outcome("replicaset", &key, None);
        assert_eq!(last().failure, None);
        assert_eq!(decisions.about(&key).len(), 1);
        assert!(decisions.about(&Key::new("web", "b")).is_empty());
    }

    #[test]
    fn who_listens_hears_each_new_decision_once() {
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let told = heard.clone();
        let decisions = Decisions::new().heard_by(Arc::new(move |controller, key, at, text| {
            let line = format!("{at} {controller} {key} {text}");
            told.lock().push(line);
        }));
        for second in 1..4 {
            record(&decisions, "a", second, &["wait"]);
        }
        assert_eq!(
            *heard.lock(),
            ["1970-01-01T00:00:01.000000Z replicaset web/a wait\n"]
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
            record(&decisions, "a", step, &[&format!("step {step}")]);
        }
        let kept = counts(&decisions, "a");
        assert_eq!(kept.len(), 8);
        assert_eq!(kept[0].0, "step 12");
    }

    #[test]
    fn waits_that_come_again_do_not_push_out_what_was_done() {
        let decisions = Decisions::new();
        record(&decisions, "a", 0, &["creates a-5d4f8 with 2 of 2 pods"]);
        for step in 1..40 {
            let available = step % 3;
            let wait = format!("waits for pods: {available} of 2 are available");
            let until = format!("counts as stuck at 1970-01-01T00:10:{step:02}Z");
            record(&decisions, "a", step, &[&wait, &until]);
            record(&decisions, "a", step, &["is complete"]);
        }
        let kept = counts(&decisions, "a");
        let kept: Vec<&str> = kept.iter().map(|(text, _)| text.as_str()).collect();
        expect![[r#"
            creates a-5d4f8 with 2 of 2 pods
            is complete
            waits for pods: 1 of 2 are available|counts as stuck at 1970-01-01T00:10:37Z
            is complete
            waits for pods: 2 of 2 are available|counts as stuck at 1970-01-01T00:10:38Z
            is complete
            waits for pods: 0 of 2 are available|counts as stuck at 1970-01-01T00:10:39Z
            is complete"#]]
        .assert_eq(&kept.join("\n"));
        let bytes: usize = decisions
            .get("replicaset", &Key::new("web", "a"))
            .iter()
            .map(|kept| kept.text.len())
            .sum();
        assert_eq!(decisions.lock().bytes, bytes);
    }

    #[test]
    fn the_object_decided_longest_ago_goes_first() {
        let decisions = Decisions::new();
        for object in 0..OBJECTS {
            record(&decisions, &format!("{object:04}"), 1, &["x"]);
        }
        record(&decisions, "0000", 2, &["x"]);
        record(&decisions, "new", 3, &["x"]);
        let keys = decisions.keys("replicaset");
        assert_eq!(keys.len(), OBJECTS);
        assert!(counts(&decisions, "0001").is_empty());
        assert_eq!(counts(&decisions, "0000"), [("x".to_owned(), 2)]);
        assert_eq!(decisions.lock().bytes, 2 * OBJECTS);
    }

    #[test]
    fn text_is_bounded_and_says_what_is_left_out() {
        let decisions = Decisions::new();
        let lines: Vec<String> = (0..500)
            .map(|pod| format!("delete pod web-{pod}: too many"))
            .collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        record(&decisions, "a", 1, &lines);
        let kept = decisions.get("replicaset", &Key::new("web", "a"));
        assert_eq!(kept[0].lines().last(), Some("and 427 more"));
        assert_eq!(kept[0].lines().count(), 74);

        record(&decisions, "b", 1, &[&"é".repeat(4000)]);
        let text = &counts(&decisions, "b")[0].0;
        assert_eq!(text.len(), 2046);
    }

    #[test]
    fn all_text_together_is_bounded() {
        let decisions = Decisions::new();
        for step in 0..8 {
            for object in 0..1000 {
                let line = format!("{step} {}", "x".repeat(2000));
                record(&decisions, &object.to_string(), step, &[&line]);
            }
        }
        let inner = decisions.lock();
        assert!(inner.bytes <= BYTES, "{}", inner.bytes);
        assert!(inner.objects.len() > 200, "{}", inner.objects.len());
    }

    #[test]
    fn controllers_are_told_apart() {
        let decisions = Decisions::new();
        let key = Key::new("web", "a");
        decisions.record("job", &key, at(1), ["run".to_owned()].into_iter());
        record(&decisions, "a", 1, &["create"]);
        record(&decisions, "b", 1, &["create"]);
        assert_eq!(decisions.controllers(), ["job", "replicaset"]);
        assert_eq!(decisions.keys("job"), std::slice::from_ref(&key));
        assert_eq!(decisions.keys("replicaset").len(), 2);
        assert!(decisions.get("cronjob", &key).is_empty());
    }
}
