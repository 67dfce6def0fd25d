//! Conditions of an object's status, and upstream's several rules for changing them.
//!
//! All kinds share one shape here. They differ in the extra time they carry (`lastUpdateTime`,
//! `lastProbeTime` or `lastHeartbeatTime`) and in what keeps `lastTransitionTime`; the rule to use is
//! that of the upstream controller: [`set`] is `meta.SetStatusCondition`, [`replace`] is that of
//! ReplicaSets and ReplicationControllers, [`replace_keeping_transition`] that of Deployments,
//! [`update_in_place`] that of pods and autoscalers.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::meta::or_default;
use crate::text_enum::text_enum;
use crate::{Istr, Time};

/// One observation about an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Condition {
    pub type_: Istr,
    pub status: ConditionStatus,
    pub reason: Istr,
    pub message: Arc<str>,
    pub last_transition_time: Option<Time>,
    /// When the condition was last looked at; `extra_time` says how the kind calls it.
    pub last_update_time: Option<Time>,
    pub extra_time: ExtraTime,
    /// The generation that the condition speaks of; 0 if the kind does not say.
    pub observed_generation: i64,
}

text_enum! {
    pub enum ConditionStatus {
        True = "True",
        False = "False",
        Unknown = "Unknown",
    }
    default "Unknown"
}

/// How a kind calls the time at which a condition was last looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ExtraTime {
    /// `lastUpdateTime`: Deployments, certificate signing requests.
    #[default]
    Update,
    /// `lastProbeTime`: pods, jobs, claims.
    Probe,
    /// `lastHeartbeatTime`: nodes.
    Heartbeat,
}

impl Condition {
    /// A condition that changed at `now`. Kinds with a second time set it themselves.
    pub fn new(
        type_: &str,
        status: ConditionStatus,
        reason: &str,
        message: impl Into<Arc<str>>,
        now: Time,
    ) -> Self {
        Self {
            type_: Istr::from(type_),
            status,
            reason: Istr::from(reason),
            message: message.into(),
            last_transition_time: Some(now),
            ..Self::default()
        }
    }

    /// This condition, with the time of its last update or probe as well.
    pub fn updated_at(mut self, extra_time: ExtraTime, at: Time) -> Self {
        self.extra_time = extra_time;
        self.last_update_time = Some(at);
        self
    }

    pub fn is_true(&self) -> bool {
        self.status == ConditionStatus::True
    }

    pub fn is_false(&self) -> bool {
        self.status == ConditionStatus::False
    }
}

pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|one| &*one.type_ == type_)
}

/// Whether the condition is there and says True.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(Condition::is_true)
}

/// Whether the condition is there and says False; one that is absent says nothing.
pub fn is_false(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(Condition::is_false)
}

/// Removes the condition. True if it was there.
pub fn remove(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|one| &*one.type_ != type_);
    conditions.len() != before
}

/// Sets a condition as `meta.SetStatusCondition` does: the transition time changes with the status alone,
/// to that of `new` or else to `now`. True if anything changed.
pub fn set(conditions: &mut Vec<Condition>, new: Condition, now: Time) -> bool {
    let transition = Some(new.last_transition_time.unwrap_or(now));
    let Some(held) = conditions.iter_mut().find(|one| one.type_ == new.type_) else {
        conditions.push(Condition {
            last_transition_time: transition,
            ..new
        });
        return true;
    };
    let status_changed = held.status != new.status;
    let changed = status_changed
        || held.reason != new.reason
        || held.message != new.message
        || held.observed_generation != new.observed_generation;
    if status_changed {
        held.status = new.status;
        held.last_transition_time = transition;
    }
    held.reason = new.reason;
    held.message = new.message;
    held.observed_generation = new.observed_generation;
    changed
}

/// Sets a condition as ReplicaSets do: nothing happens while status and reason stay the same, whatever
/// the message; otherwise the new one takes its place at the end, with its own times. True if replaced.
pub fn replace(conditions: &mut Vec<Condition>, new: Condition) -> bool {
    // UPSTREAM: a new message alone is not worth a write.
    let unchanged = find(conditions, &new.type_)
        .is_some_and(|held| held.status == new.status && held.reason == new.reason);
    if unchanged {
        return false;
    }
    remove(conditions, &new.type_);
    conditions.push(new);
    true
}

/// Like [`replace`], but as Deployments do: the transition time stays while the status does.
pub fn replace_keeping_transition(conditions: &mut Vec<Condition>, mut new: Condition) -> bool {
    if let Some(held) = find(conditions, &new.type_).filter(|held| held.status == new.status) {
        new.last_transition_time = held.last_transition_time;
    }
    replace(conditions, new)
}

/// Sets a condition as pods and autoscalers do: in its place, the transition time stays while the status
/// does. True if anything changed.
pub fn update_in_place(conditions: &mut Vec<Condition>, mut new: Condition) -> bool {
    let Some(held) = conditions.iter_mut().find(|one| one.type_ == new.type_) else {
        conditions.push(new);
        return true;
    };
    if held.status == new.status {
        new.last_transition_time = held.last_transition_time;
    }
    let changed = *held != new;
    *held = new;
    changed
}

/// The union of all kinds' fields. Times that are null in JSON are absent.
#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Wire {
    r#type: Istr,
    status: ConditionStatus,
    #[serde(skip_serializing_if = "is_zero")]
    observed_generation: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_update_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_probe_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_heartbeat_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_transition_time: Option<Time>,
    #[serde(skip_serializing_if = "is_empty")]
    reason: Istr,
    #[serde(skip_serializing_if = "is_blank", deserialize_with = "or_default")]
    message: Arc<str>,
}

impl<'de> Deserialize<'de> for Condition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = Wire::deserialize(deserializer)?;
        let (last_update_time, extra_time) = if wire.last_probe_time.is_some() {
            (wire.last_probe_time, ExtraTime::Probe)
        } else if wire.last_heartbeat_time.is_some() {
            (wire.last_heartbeat_time, ExtraTime::Heartbeat)
        } else {
            (wire.last_update_time, ExtraTime::Update)
        };
        Ok(Self {
            type_: wire.r#type,
            status: wire.status,
            reason: wire.reason,
            message: wire.message,
            last_transition_time: wire.last_transition_time,
            last_update_time,
            extra_time,
            observed_generation: wire.observed_generation,
        })
    }
}

impl Serialize for Condition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let only = |kind| self.last_update_time.filter(|_| self.extra_time == kind);
        Wire {
            r#type: self.type_.clone(),
            status: self.status.clone(),
            observed_generation: self.observed_generation,
            last_update_time: only(ExtraTime::Update),
            last_probe_time: only(ExtraTime::Probe),
            last_heartbeat_time: only(ExtraTime::Heartbeat),
            last_transition_time: self.last_transition_time,
            reason: self.reason.clone(),
            message: self.message.clone(),
        }
        .serialize(serializer)
    }
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

fn is_empty(text: &Istr) -> bool {
    text.is_empty()
}

fn is_blank(text: &Arc<str>) -> bool {
    text.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Type=Status reason message @seconds`; the time may be left out.
    fn condition(text: &str) -> Condition {
        let (rest, at) = text.split_once(" @").unwrap_or((text, ""));
        let mut words = rest.split(' ');
        let (type_, status) = words.next().unwrap().split_once('=').unwrap();
        let mut made = Condition::new(
            type_,
            ConditionStatus::from(status),
            words.next().unwrap_or(""),
            words.next().unwrap_or(""),
            Time::default(),
        );
        made.last_transition_time = at.parse().ok().map(Time::from_unix);
        made
    }

    fn list(text: &str) -> Vec<Condition> {
        text.split(", ")
            .filter(|one| !one.is_empty())
            .map(condition)
            .collect()
    }

    fn print(conditions: &[Condition]) -> String {
        let one = |held: &Condition| {
            let at = held
                .last_transition_time
                .map_or("-".into(), |at| at.unix().to_string());
            format!(
                "{}={} {} {} @{at}",
                held.type_, held.status, held.reason, held.message
            )
        };
        conditions.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    fn check(
        change: impl Fn(&mut Vec<Condition>) -> bool,
        before: &str,
        after: &str,
        changed: bool,
    ) {
        let mut conditions = list(before);
        assert_eq!(change(&mut conditions), changed, "{before}");
        assert_eq!(print(&conditions), after);
    }

    // TestSetStatusCondition
    #[test]
    fn set_moves_the_transition_time_with_the_status_alone() {
        let set_at_9 = |text: &'static str| {
            move |conditions: &mut Vec<Condition>| {
                set(conditions, condition(text), Time::from_unix(9))
            }
        };
        check(set_at_9("A=True r m"), "", "A=True r m @9", true);
        check(set_at_9("A=True r m @5"), "", "A=True r m @5", true);
        check(
            set_at_9("A=True r m @5"),
            "A=True r m @1, B=True x y @2",
            "A=True r m @1, B=True x y @2",
            false,
        );
        check(
            set_at_9("A=True r2 m"),
            "A=True r m @1",
            "A=True r2 m @1",
            true,
        );
        check(
            set_at_9("A=True r m2"),
            "A=True r m @1",
            "A=True r m2 @1",
            true,
        );
        check(
            set_at_9("A=False r m"),
            "A=True r m @1, B=True x y @2",
            "A=False r m @9, B=True x y @2",
            true,
        );
        check(
            set_at_9("A=False r m @4"),
            "A=True r m @1",
            "A=False r m @4",
            true,
        );
    }

    #[test]
    fn set_notices_a_new_generation() {
        let mut conditions = list("A=True r m @1");
        let mut newer = conditions[0].clone();
        newer.observed_generation = 2;
        assert!(set(&mut conditions, newer, Time::from_unix(9)));
        assert_eq!(conditions[0].observed_generation, 2);
        assert_eq!(print(&conditions), "A=True r m @1");
    }

    // TestSetCondition of ReplicaSets and of ReplicationControllers
    #[test]
    fn replace_ignores_a_new_message_and_takes_new_times() {
        let with = |text: &'static str| {
            move |conditions: &mut Vec<Condition>| replace(conditions, condition(text))
        };
        check(with("A=True r m @9"), "", "A=True r m @9", true);
        check(
            with("A=True r m @9"),
            "B=True x y @2",
            "B=True x y @2, A=True r m @9",
            true,
        );
        check(
            with("A=True r m2 @9"),
            "A=True r m @1",
            "A=True r m @1",
            false,
        );
        check(
            with("A=True r2 m @9"),
            "A=True r m @1, B=True x y @2",
            "B=True x y @2, A=True r2 m @9",
            true,
        );
        check(
            with("A=False r m @9"),
            "A=True r m @1",
            "A=False r m @9",
            true,
        );
    }

    // TestSetCondition of Deployments
    #[test]
    fn replace_keeping_transition_keeps_it_while_the_status_stays() {
        let with = |text: &'static str| {
            move |conditions: &mut Vec<Condition>| {
                replace_keeping_transition(conditions, condition(text))
            }
        };
        check(with("A=True r m @9"), "", "A=True r m @9", true);
        check(
            with("A=True r m @9"),
            "B=False x y @2",
            "B=False x y @2, A=True r m @9",
            true,
        );
        check(
            with("A=True r m2 @9"),
            "A=True r m @1",
            "A=True r m @1",
            false,
        );
        check(
            with("A=True r2 m @9"),
            "A=True r m @1, B=True x y @2",
            "B=True x y @2, A=True r2 m @1",
            true,
        );
        check(
            with("A=False r m @9"),
            "A=True r m @1",
            "A=False r m @9",
            true,
        );
    }

    // TestUpdatePodCondition
    #[test]
    fn update_in_place_keeps_the_order() {
        let with = |text: &'static str| {
            move |conditions: &mut Vec<Condition>| update_in_place(conditions, condition(text))
        };
        check(
            with("A=True r m @9"),
            "B=True x y @2",
            "B=True x y @2, A=True r m @9",
            true,
        );
        check(
            with("A=True r m @9"),
            "A=True r m @1, B=True x y @2",
            "A=True r m @1, B=True x y @2",
            false,
        );
        check(
            with("A=True r m2 @9"),
            "A=True r m @1, B=True x y @2",
            "A=True r m2 @1, B=True x y @2",
            true,
        );
        check(
            with("A=False r m @9"),
            "A=True r m @1, B=True x y @2",
            "A=False r m @9, B=True x y @2",
            true,
        );
    }

    // TestGetCondition, TestRemoveCondition
    #[test]
    fn finds_and_removes() {
        let mut conditions = list("A=True r m @1, B=False r m @1, C=Unknown r m @1");
        let found = |type_| find(&conditions, type_).map(|held| held.status.clone());
        assert_eq!(found("A"), Some(ConditionStatus::True));
        assert_eq!(found("C"), Some(ConditionStatus::Unknown));
        assert_eq!(found("D"), None);
        assert!(find(&[], "A").is_none() && !remove(&mut Vec::new(), "A"));
        assert!(
            is_true(&conditions, "A") && !is_true(&conditions, "B") && !is_true(&conditions, "D")
        );
        assert!(
            is_false(&conditions, "B")
                && !is_false(&conditions, "C")
                && !is_false(&conditions, "D")
        );
        assert!(!remove(&mut conditions, "D") && conditions.len() == 3);
        assert!(remove(&mut conditions, "A") && !remove(&mut conditions, "A"));
        assert_eq!(print(&conditions), "B=False r m @1, C=Unknown r m @1");
    }

    #[test]
    fn every_kind_keeps_its_own_time() {
        for json in [
            r#"{"type":"Available","status":"True","lastUpdateTime":"2024-01-02T03:04:05Z","lastTransitionTime":"2024-01-02T03:04:05Z","reason":"R","message":"m"}"#,
            r#"{"type":"Complete","status":"True","lastProbeTime":"2024-01-02T03:04:05Z","lastTransitionTime":"2024-01-02T03:04:05Z"}"#,
            r#"{"type":"Ready","status":"Unknown","lastHeartbeatTime":"2024-01-02T03:04:05Z","reason":"R"}"#,
            r#"{"type":"X","status":"False","observedGeneration":3,"lastTransitionTime":"2024-01-02T03:04:05Z"}"#,
        ] {
            let read: Condition = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_string(&read).unwrap(), json);
        }
    }

    #[test]
    fn nulls_and_strangers_are_skipped() {
        let read: Condition = serde_json::from_str(
            r#"{"type":"Ready","status":"True","lastProbeTime":null,"lastTransitionTime":null,"message":null,"strange":[1]}"#,
        )
        .unwrap();
        assert_eq!(
            read,
            Condition {
                last_transition_time: None,
                ..condition("Ready=True")
            }
        );
    }
}
