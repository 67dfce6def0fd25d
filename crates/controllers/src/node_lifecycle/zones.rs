//! How many nodes of a zone may be down before evictions slow down or stop. Pure.
//!
//! When most of a zone stops posting status at once, the fault is more likely between us and the zone than in its
//! nodes, and moving all its pods would make things worse.

use std::collections::BTreeMap;
use std::fmt;

/// The zones of a cluster, by name.
pub type Zones<T> = BTreeMap<String, T>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum State {
    #[default]
    Initial,
    Normal,
    PartialDisruption,
    FullDisruption,
}

/// The nodes of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Count {
    pub ready: usize,
    pub down: usize,
}

/// What the flags say about rates.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// `--node-eviction-rate`: nodes a second.
    pub usual: f32,
    /// `--secondary-node-eviction-rate`, in a zone that is partly down.
    pub secondary: f32,
    /// `--large-cluster-size-threshold`: a zone that is smaller gets no secondary rate at all.
    pub large_zone: i32,
    /// `--unhealthy-zone-threshold`: the share of nodes that makes a zone partly down.
    pub unhealthy_share: f32,
}

/// What a check of all zones comes to.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Verdict {
    pub states: Zones<State>,
    /// Zones whose rate changes.
    pub rates: Zones<f32>,
    pub transition: Transition,
}

/// What happens to the cluster as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Transition {
    #[default]
    None,
    /// No node at all is ready any more: nobody is to be driven away.
    AllDown,
    /// The first node is ready again: nothing that was seen in between counts.
    SomeUp,
}

/// This many nodes of a zone may be down whatever their share. Upstream's number.
const ALWAYS_TOLERATED: usize = 2;

pub fn state_of(count: Count, rates: &Rates) -> State {
    let share = count.down as f32 / (count.down + count.ready) as f32;
    if count.ready == 0 && count.down > 0 {
        State::FullDisruption
    } else if count.down > ALWAYS_TOLERATED && share >= rates.unhealthy_share {
        State::PartialDisruption
    } else {
        State::Normal
    }
}

/// The rate for a zone of this size in this state.
pub fn rate_of(state: State, size: usize, rates: &Rates) -> f32 {
    match state {
        State::PartialDisruption => {
            let is_large = i32::try_from(size).is_ok_and(|size| size > rates.large_zone);
            if is_large { rates.secondary } else { 0.0 }
        }
        State::Initial | State::Normal | State::FullDisruption => rates.usual,
    }
}

/// `was` are the states at the last check; `counts` the nodes of the zones now.
pub fn assess(was: &Zones<State>, counts: &Zones<Count>, rates: &Rates) -> Verdict {
    let was_of = |zone: &str| was.get(zone).copied().unwrap_or_default();
    let now: Zones<State> = counts
        .iter()
        .map(|(zone, count)| (zone.clone(), state_of(*count, rates)))
        .collect();
    let all_were_down = counts
        .keys()
        .all(|zone| was_of(zone) == State::FullDisruption);
    let all_are_down = now.values().all(|state| *state == State::FullDisruption);
    let size = |zone: &str| counts.get(zone).map_or(0, |count| count.ready + count.down);
    let rated = |zone: &String, state: &State| {
        let rate = rate_of(*state, size(zone), rates);
        (zone.clone(), rate)
    };
    match (all_were_down, all_are_down) {
        (true, true) => Verdict {
            states: now,
            ..Verdict::default()
        },
        (false, true) => Verdict {
            rates: now.keys().map(|zone| (zone.clone(), 0.0)).collect(),
            states: now,
            transition: Transition::AllDown,
        },
        (true, false) => Verdict {
            rates: now.iter().map(|(zone, state)| rated(zone, state)).collect(),
            states: now,
            transition: Transition::SomeUp,
        },
        (false, false) => {
            let changed = now.iter().filter(|(zone, state)| was_of(zone) != **state);
            Verdict {
                rates: changed.map(|(zone, state)| rated(zone, state)).collect(),
                states: now,
                transition: Transition::None,
            }
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            State::Initial => "new",
            State::Normal => "normal",
            State::PartialDisruption => "partly down",
            State::FullDisruption => "down",
        })
    }
}
