//! Upstream's cases are in `events_cache_test.go`: `TestEventAggregatorByReasonFunc`,
//! `TestEventCorrelator`, `TestEventSpamFilter`.

use std::borrow::Cow;

use api::{ResourceType, Rng, Uid};

use super::*;
use crate::events::{EventType, ObjectRef};

const PODS: ResourceType = ResourceType::namespaced("", "v1", "pods", "Pod");

struct Fixture {
    correlator: Correlator,
    names: Names,
    now: Instant,
    wall: MicroTime,
}

impl Fixture {
    fn new() -> Fixture {
        Fixture {
            correlator: Correlator::new(),
            names: Names::new(Rng::from_seed(1)),
            now: Instant::now(),
            wall: Time::from_unix(1000).micro(),
        }
    }

    fn pass(&mut self, seconds: u64) {
        let passed = Duration::from_secs(seconds);
        self.now += passed;
        self.wall = self.wall.plus(passed);
    }

    fn send(&mut self, object: &str, reason: &'static str, message: &str) -> Option<Event> {
        let event = Event {
            name: self.names.next(object, self.wall),
            object: ObjectRef::named(&PODS, "web", object, Uid::default()),
            event_type: EventType::Normal,
            reason: Cow::Borrowed(reason),
            message: message.to_owned(),
            first_at: self.wall.time(),
            last_at: self.wall.time(),
            count: 1,
            combined: false,
        };
        self.correlator
            .correlate(event, self.now, self.wall, &self.names)
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_event_again_is_a_higher_count_of_the_first() {
    let mut fixture = Fixture::new();
    let first = fixture.send("a", "Pulled", "image").unwrap();
    fixture.pass(5);
    let second = fixture.send("a", "Pulled", "image").unwrap();
    assert_eq!((first.count, second.count), (1, 2));
    assert_eq!(second.name, first.name);
    assert_eq!(second.first_at, first.first_at);
    assert_eq!(second.last_at, Time::from_unix(1005));
}

#[tokio::test(start_paused = true)]
async fn another_object_reason_or_message_is_another_event() {
    let mut fixture = Fixture::new();
    for (object, reason, message) in [
        ("a", "Pulled", "image"),
        ("b", "Pulled", "image"),
        ("a", "Failed", "image"),
        ("a", "Pulled", "other"),
    ] {
        let event = fixture.send(object, reason, message).unwrap();
        assert_eq!(event.count, 1, "{object} {reason} {message}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_tenth_similar_event_is_combined() {
    let mut fixture = Fixture::new();
    for number in 1..=9 {
        let event = fixture.send("a", "Failed", &number.to_string()).unwrap();
        assert!(!event.combined);
    }
    let tenth = fixture.send("a", "Failed", "10").unwrap();
    assert!(tenth.combined);
    assert_eq!(tenth.message, "(combined from similar events): 10");
    assert_eq!(tenth.count, 1);

    let eleventh = fixture.send("a", "Failed", "11").unwrap();
    assert_eq!(eleventh.message, "(combined from similar events): 11");
    assert_eq!((eleventh.count, &eleventh.name), (2, &tenth.name));

    let known = fixture.send("a", "Failed", "3").unwrap();
    assert_eq!((known.message.as_str(), known.count), ("3", 2));
    let other_reason = fixture.send("a", "Killed", "x").unwrap();
    assert!(!other_reason.combined);
}

#[tokio::test(start_paused = true)]
async fn similar_events_far_apart_are_not_combined() {
    let mut fixture = Fixture::new();
    for number in 1..=20 {
        let event = fixture.send("a", "Failed", &number.to_string()).unwrap();
        assert!(!event.combined, "{number}");
        fixture.pass(601);
    }
    // 600 seconds exactly are still close.
    for number in 21..=30 {
        let event = fixture.send("a", "Failed", &number.to_string()).unwrap();
        assert_eq!(event.combined, number == 30, "{number}");
        fixture.pass(600);
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_has_25_events_at_once_and_one_each_five_minutes() {
    let mut fixture = Fixture::new();
    let passed = |fixture: &mut Fixture, object: &str, times: usize| {
        (0..times)
            .filter(|_| fixture.send(object, "Failed", "same").is_some())
            .count()
    };
    assert_eq!(passed(&mut fixture, "a", 100), 25);
    assert_eq!(passed(&mut fixture, "b", 1), 1);
    fixture.pass(299);
    assert_eq!(passed(&mut fixture, "a", 10), 0);
    fixture.pass(2);
    assert_eq!(passed(&mut fixture, "a", 10), 1);
    fixture.pass(100 * 300);
    assert_eq!(passed(&mut fixture, "a", 100), 25);
}

#[tokio::test(start_paused = true)]
async fn suppressed_events_are_counted() {
    let mut fixture = Fixture::new();
    for _ in 0..40 {
        fixture.send("a", "Failed", "same");
    }
    fixture.pass(301);
    assert_eq!(fixture.send("a", "Failed", "same").unwrap().count, 41);
}

#[tokio::test(start_paused = true)]
async fn memory_is_bounded() {
    let mut fixture = Fixture::new();
    for object in 0..5000 {
        fixture.send(&object.to_string(), "Failed", "same");
    }
    assert_eq!(fixture.correlator.written.len(), REMEMBERED);
    assert_eq!(fixture.correlator.similar.len(), REMEMBERED);
    assert_eq!(fixture.correlator.budgets.len(), REMEMBERED);
    // The first one is forgotten, so it is a new event.
    assert_eq!(fixture.send("0", "Failed", "same").unwrap().count, 1);
}
