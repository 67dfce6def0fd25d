//! Kinds that discovery has shown and shows no longer.
//!
//! All objects of a definition go with it. If its kind were forgotten at once, nobody could be asked about owners of that
//! kind, and what they own would stay for ever. So its name is good for a while longer: the answer is that there is no
//! such object. UPSTREAM: its REST mapper knows a kind until it is reset, up to a period of discovery later; whoever refers
//! to a kind that nobody ever knew, or to one that has been gone for longer, is left alone.

use std::time::Duration;

use api::ResourceType;
use tokio::time::Instant;

use super::DISCOVERY_PERIOD;

/// Two periods: one until it is noticed, one to ask.
const KEPT: Duration = Duration::from_secs(2 * DISCOVERY_PERIOD.as_secs());

/// A definition can be made and deleted many times a second.
const CAPACITY: usize = 1000;

#[derive(Default)]
pub(super) struct Departed(Vec<(ResourceType, Instant)>);

impl Departed {
    pub(super) fn add(&mut self, gone: Vec<ResourceType>, now: Instant) {
        self.0
            .retain(|(kind, since)| now - *since < KEPT && !gone.contains(kind));
        self.0.extend(gone.into_iter().map(|kind| (kind, now)));
        let excess = self.0.len().saturating_sub(CAPACITY);
        self.0.drain(..excess);
    }

    /// The resource that an `apiVersion` and `kind` meant.
    pub(super) fn find(&self, api_version: &str, kind: &str, now: Instant) -> Option<ResourceType> {
        let is_meant = |gone: &ResourceType| gone.kind == kind && gone.api_version() == api_version;
        let found = self.0.iter().rev();
        found
            .filter(|(gone, since)| now - *since < KEPT && is_meant(gone))
            .map(|(gone, _)| gone.clone())
            .next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_known_for_a_while_and_room_is_bounded() {
        const WIDGET: ResourceType =
            ResourceType::namespaced("example.com", "v1", "widgets", "Widget");
        let kind = |number: usize| ResourceType {
            kind: format!("W{number}").into(),
            ..WIDGET
        };
        let mut departed = Departed::default();
        let begin = Instant::now();
        departed.add((0..=CAPACITY).map(kind).collect(), begin);
        let found = |number: usize, later: Duration| {
            departed
                .find("example.com/v1", &format!("W{number}"), begin + later)
                .is_some()
        };
        assert!(!found(0, Duration::ZERO), "the oldest makes room");
        assert!(found(1, KEPT - Duration::from_secs(1)));
        assert!(!found(1, KEPT));
    }
}
