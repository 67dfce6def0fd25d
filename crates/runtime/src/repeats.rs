//! Controllers that undo themselves: noticed by what they write, and slowed down.
//!
//! A controller whose view of an object differs from the server's (a default that it does not know, a field that
//! admission takes away) creates, finds that it has to delete, and creates again, as fast as the server answers. The
//! loop counts such rounds by key: deleting what was created a moment ago and creating again, making the very same
//! change once more of an object that nobody has changed since, or creating one object after the other under ever new
//! names. Few of them are daily business; many in a short time make the key wait, longer with each round that follows.
//!
//! What users do is no round, however fast they do it. Where somebody else changes the object that the key names (its
//! generation, or any of it where its kind has none), all that was counted before is forgotten: who is scaled up and
//! down creates, deletes and creates because he was told to. And a change that is made again after others (back to a
//! size that was wanted before, or against somebody who takes it back) changes something each time; only one that left
//! the object as it was says that the controller does not get what it asks for.

use std::collections::VecDeque;
use std::time::Duration;

use api::Uid;
use client::writes::{State, Verb, Write};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::controller::LoopKey;
use api::Lru;

/// The recent writes of each key of one loop.
pub struct Repeats<K> {
    keys: Mutex<Lru<K, History>>,
}

/// A key that has to wait, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) wait: Duration,
    pub(crate) rounds: u32,
    /// The write that came again.
    pub(crate) write: String,
}

#[derive(Default)]
struct History {
    /// The object that the key names, and how far its changes are known: those of others were seen, our own answered.
    wanted: Option<(Uid, u64)>,
    /// How many syncs have written.
    syncs: u64,
    /// What was created lately, and by which sync, oldest first.
    created: VecDeque<(Instant, u64, String, bool)>,
    /// What was changed lately: which object, how, and what it was afterwards.
    changed: VecDeque<(Instant, String, u64, Option<State>)>,
    /// Something that was created lately has been deleted.
    is_undone: bool,
    rounds: VecDeque<Instant>,
    /// How often it was made to wait in a row.
    strikes: u32,
    held_until: Option<Instant>,
}

/// Keys that wrote lately; those of quiet ones are forgotten.
const KEYS: usize = 4096;

/// What is remembered of each.
const WRITES: usize = 64;

/// So many rounds within this time are no coincidence: users do not change their minds so often.
const ROUNDS: usize = 8;
const WINDOW: Duration = Duration::from_secs(10);

/// Syncs that create something under a name of their own, one after the other: a StatefulSet does so when it starts
/// pods in order, but each has to become ready first, even where time runs sixty times as fast.
const NAMING_SYNCS: usize = 48;
const NAMING_WINDOW: Duration = Duration::from_millis(500);

/// As many are enough once a key was made to wait: it does not get the benefit of the doubt again after each wait.
const NAMING_SYNCS_ON_STRIKES: usize = 4;

/// The first wait, doubled with each round that follows, and the longest: a fix of the cause shows soon.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

impl<K: LoopKey> Repeats<K> {
    pub(crate) fn new() -> Repeats<K> {
        Repeats {
            keys: Mutex::new(Lru::new(KEYS)),
        }
    }

    /// How long a key still has to wait, whose object is now as it says.
    pub(crate) fn wait(&self, key: &K, object: Option<&State>) -> Option<Duration> {
        let keys = self.keys.lock();
        let history = keys.peek(key)?;
        if object.is_some_and(|object| history.is_changed_by_others(object)) {
            return None;
        }
        let until = history.held_until?;
        let wait = until.saturating_duration_since(Instant::now());
        (!wait.is_zero()).then_some(wait)
    }

    /// Takes down what a sync of a key wrote, which began when its object was as it says; says if it has to wait.
    pub(crate) fn note(&self, key: &K, object: Option<&State>, writes: &[Write]) -> Option<Hold> {
        if writes.is_empty() {
            return None;
        }
        let mut keys = self.keys.lock();
        let history = keys.get_or_insert(key.clone(), History::default);
        let now = Instant::now();
        history.forget_before(now);
        history.follow(object, writes);
        history.syncs += 1;
        let mut again = None;
        for write in writes {
            if history.is_round(now, write) {
                history.rounds.push_back(now);
                again = Some(write);
            }
        }
        let write = again?;
        let is_held = history.strikes > 0 || history.rounds.len() >= ROUNDS;
        is_held.then(|| history.hold(now, write))
    }
}

impl History {
    fn is_changed_by_others(&self, object: &State) -> bool {
        let known = self.wanted.as_ref();
        known.is_some_and(|(uid, wanted)| *uid != object.uid || *wanted < object.wanted())
    }

    /// Forgets everything if another client has changed the object, and notes what our own writes made of it.
    fn follow(&mut self, object: Option<&State>, writes: &[Write]) {
        let Some(object) = object else { return };
        if self.is_changed_by_others(object) {
            *self = History::default();
        }
        let ours = writes.iter().filter_map(|write| write.left.as_ref());
        let ours = ours.filter(|left| left.uid == object.uid);
        let known = self.wanted.take().map(|(_, wanted)| wanted);
        let wanted = ours.map(State::wanted).chain(known).max();
        let wanted = wanted.unwrap_or_default().max(object.wanted());
        self.wanted = Some((object.uid.clone(), wanted));
    }

    /// What is long ago counts no more. A key that went on without a round is on good terms again.
    fn forget_before(&mut self, now: Instant) {
        // While a key waits nothing happens: what it did before counts as if it had not.
        let waited = match self.strikes {
            0 => Duration::ZERO,
            _ => LONGEST_WAIT,
        };
        let is_past = |at: &Instant| now.duration_since(*at) > WINDOW + waited;
        while self.rounds.front().is_some_and(is_past) {
            self.rounds.pop_front();
        }
        while self.created.front().is_some_and(|(at, ..)| is_past(at)) {
            self.created.pop_front();
        }
        while self.changed.front().is_some_and(|(at, ..)| is_past(at)) {
            self.changed.pop_front();
        }
        let since_hold = self
            .held_until
            .map(|until| now.saturating_duration_since(until));
        if since_hold.is_some_and(|since| since > WINDOW + waited) {
            (self.strikes, self.held_until) = (0, None);
        }
    }

    /// Whether a write is one more round of the same.
    fn is_round(&mut self, now: Instant, write: &Write) -> bool {
        match write.verb {
            Verb::Create => {
                let new = (now, self.syncs, write.path.clone(), write.is_named);
                push(&mut self.created, new);
                let is_undone = std::mem::take(&mut self.is_undone);
                let enough = match self.strikes {
                    0 => NAMING_SYNCS,
                    _ => NAMING_SYNCS_ON_STRIKES,
                };
                is_undone || (write.is_named && self.naming_syncs(now, &write.path) >= enough)
            }
            Verb::Delete => {
                self.is_undone |= self
                    .created
                    .iter()
                    .any(|(_, _, path, _)| *path == write.path);
                false
            }
            Verb::Change => {
                let last = self
                    .changed
                    .iter()
                    .rfind(|(_, path, ..)| *path == write.path);
                let is_same = last.is_some_and(|(_, _, content, left)| {
                    *content == write.content && left.is_some() && *left == write.left
                });
                let new = (now, write.path.clone(), write.content, write.left.clone());
                push(&mut self.changed, new);
                is_same
            }
        }
    }

    /// How many syncs have just created something under a name of their own beside this.
    fn naming_syncs(&self, now: Instant, path: &str) -> usize {
        let collection = |path: &str| path.rfind('/').unwrap_or(0);
        let beside = |other: &str| other[..collection(other)] == path[..collection(path)];
        let named = self
            .created
            .iter()
            .filter(|(at, ..)| now.duration_since(*at) <= NAMING_WINDOW)
            .filter(|(_, _, other, is_named)| *is_named && beside(other));
        let mut syncs: Vec<u64> = named.map(|(_, sync, ..)| *sync).collect();
        syncs.dedup();
        syncs.len()
    }

    fn hold(&mut self, now: Instant, write: &Write) -> Hold {
        let doubled = FIRST_WAIT.saturating_mul(1 << self.strikes.min(10));
        let wait = doubled.min(LONGEST_WAIT);
        self.strikes += 1;
        self.held_until = Some(now + wait);
        let verb = match write.verb {
            Verb::Create => "create",
            Verb::Change => "change",
            Verb::Delete => "delete",
        };
        Hold {
            wait,
            rounds: u32::try_from(self.rounds.len()).unwrap_or(u32::MAX),
            write: format!("{verb} {}", write.path),
        }
    }
}

fn push<T>(kept: &mut VecDeque<T>, item: T) {
    if kept.len() >= WRITES {
        kept.pop_front();
    }
    kept.push_back(item);
}

impl std::fmt::Display for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Hold {
            wait,
            rounds,
            write,
        } = self;
        write!(
            f,
            "undoes its own writes, last: {write} (round {rounds} within {}s); waits {}s",
            WINDOW.as_secs(),
            wait.as_secs()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(verb: Verb, path: &str, content: u64) -> Write {
        Write {
            verb,
            path: path.to_owned(),
            content,
            is_named: false,
            left: None,
        }
    }

    fn state(generation: i64, revision: u64) -> State {
        State {
            uid: "u".into(),
            generation,
            revision,
        }
    }

    /// A change after which the object has a revision.
    fn change(path: &str, content: u64, revision: u64) -> Write {
        Write {
            left: Some(state(0, revision)),
            ..write(Verb::Change, path, content)
        }
    }

    fn create(name: u32) -> Write {
        write(Verb::Create, &format!("/sets/{name}"), 0)
    }

    fn delete(name: u32) -> Write {
        write(Verb::Delete, &format!("/sets/{name}"), 0)
    }

    async fn later(millis: u64) {
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn who_creates_and_deletes_in_turn_waits_longer_each_time() {
        let repeats = Repeats::new();
        let mut waits = Vec::new();
        for round in 0..20 {
            if let Some(wait) = repeats.wait(&"a", None) {
                later(u64::try_from(wait.as_millis()).unwrap()).await;
            }
            // Another name each time, as with a collision count.
            assert_eq!(repeats.note(&"a", None, &[delete(round)]), None);
            waits.extend(
                repeats
                    .note(&"a", None, &[create(round + 1)])
                    .map(|hold| hold.wait.as_secs()),
            );
            later(1).await;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60, 60]);
        assert!(repeats.wait(&"b", None).is_none(), "others go on");
    }

    #[tokio::test(start_paused = true)]
    async fn ordinary_creates_and_deletes_are_no_hot_loop() {
        let repeats = Repeats::new();
        for round in 0..200 {
            // A job: pods come and go, but it does not delete what it just made.
            assert_eq!(
                repeats.note(&"job", None, &[create(round), create(round + 1000)]),
                None
            );
            // A scale-down of young pods, one after the other.
            assert_eq!(
                repeats
                    .note(&"job", None, &[delete(round + 1000)])
                    .map(|_| ()),
                None
            );
            // A status that counts up.
            let status = write(Verb::Change, "/jobs/a/status", u64::from(round));
            assert_eq!(repeats.note(&"status", None, &[status]), None);
            later(2000).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_change_again_and_again_is_a_round_too() {
        let repeats = Repeats::new();
        // It changes nothing: the revision stays.
        let status = change("/sets/a/status", 7, 40);
        let held = (0..20).position(|_| {
            repeats
                .note(&"a", None, std::slice::from_ref(&status))
                .is_some()
        });
        assert_eq!(held, Some(ROUNDS));
        let hold = repeats.note(&"a", None, &[status]).unwrap();
        assert_eq!(
            hold.to_string(),
            "undoes its own writes, last: change /sets/a/status (round 9 within 10s); waits 2s"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn ever_new_names_are_noticed_and_many_at_once_are_not() {
        let repeats = Repeats::new();
        let named = |name| Write {
            is_named: true,
            ..create(name)
        };
        let many: Vec<Write> = (0..500).map(named).collect();
        assert_eq!(repeats.note(&"parallel", None, &many), None);
        let held = (0..100).position(|name| repeats.note(&"a", None, &[named(name)]).is_some());
        assert_eq!(held, Some(NAMING_SYNCS + ROUNDS - 2));
        for name in 0..200 {
            assert_eq!(repeats.note(&"ordered", None, &[named(name)]), None);
            later(20).await;
        }
        // Pods under names of the server's choice are a job's daily business.
        assert!((0..100).all(|name| repeats.note(&"job", None, &[create(name)]).is_none()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_behaves_again_is_forgiven() {
        let repeats = Repeats::new();
        let status = |content| change("/sets/a/status", content, content);
        for _ in 0..=ROUNDS {
            repeats.note(&"a", None, &[status(1)]);
        }
        assert_eq!(repeats.wait(&"a", None), Some(FIRST_WAIT));
        later(80_000).await;
        assert_eq!(repeats.wait(&"a", None), None);
        assert_eq!(repeats.note(&"a", None, &[status(2)]), None);
        assert_eq!(
            repeats.note(&"a", None, &[status(2)]),
            None,
            "the first round of another count"
        );
    }

    /// The sync of a set whose size others keep changing: it creates and deletes the same pods.
    fn resize(repeats: &Repeats<&'static str>, object: &State) -> Option<Hold> {
        let created = repeats.note(&"a", Some(object), &[create(1)]);
        created.or(repeats.note(&"a", Some(object), &[delete(1)]))
    }

    #[tokio::test(start_paused = true)]
    async fn repeated_external_resizes_are_no_hot_loop() {
        let repeats = Repeats::new();
        for generation in 1..200 {
            assert_eq!(resize(&repeats, &state(generation, 0)), None);
            later(10).await;
        }
        // A kind without generations: any change by another client counts.
        for revision in 1..200 {
            let object = State {
                uid: "service".into(),
                ..state(0, revision)
            };
            assert_eq!(resize(&repeats, &object), None);
            later(10).await;
        }
        let told = state(200, 0);
        let held = (0..20).position(|_| resize(&repeats, &told).is_some());
        assert_eq!(held, Some(ROUNDS), "and by nobody");
    }

    #[tokio::test(start_paused = true)]
    async fn its_own_changes_of_the_object_are_no_changes_of_others() {
        let repeats = Repeats::new();
        let held = (1..20).position(|generation| {
            let annotate = Write {
                left: Some(state(generation + 1, 0)),
                ..write(Verb::Change, "/deployments/a", generation.unsigned_abs())
            };
            let object = state(generation, 0);
            let writes = [delete(1), create(1), annotate];
            repeats.note(&"a", Some(&object), &writes).is_some()
        });
        assert_eq!(held, Some(ROUNDS));
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_of_what_users_want_ends_the_wait() {
        let repeats = Repeats::new();
        for _ in 0..=ROUNDS {
            resize(&repeats, &state(1, 0));
        }
        assert_eq!(repeats.wait(&"a", Some(&state(1, 7))), Some(FIRST_WAIT));
        let fixed = state(2, 8);
        assert_eq!(repeats.wait(&"a", Some(&fixed)), None);
        assert_eq!(resize(&repeats, &fixed), None);
        assert_eq!(
            repeats.wait(&"a", Some(&fixed)),
            None,
            "nor is it held then"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn changes_back_and_forth_and_against_others_are_no_rounds() {
        let repeats = Repeats::new();
        for revision in 0..200 {
            // Sizes, or counts of pods that become ready and unready.
            let status = change("/sets/a/status", revision % 2, revision);
            // Somebody takes back what this writes.
            let fought = change("/sets/b", 7, revision);
            assert_eq!(repeats.note(&"a", None, &[status, fought]), None);
            later(10).await;
        }
    }
}
