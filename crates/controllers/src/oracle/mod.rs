//! What must hold of what a controller looks after, and what users do to it: one component for each controller.
//!
//! The simulator collects both from [`Descriptor::oracle`](crate::Descriptor) and
//! [`Descriptor::actions`](crate::Descriptor), and knows no controller by name. A controller's [`Oracle`] holds what has
//! to be remembered between two checks; the checks themselves are the pure functions of its `invariants.rs`. Laws between
//! controllers (only the leader writes, nobody is adopted by the dead) are the simulator's own.

mod action;
#[cfg(test)]
mod calm;
mod change;
mod checks;
mod history;
pub mod workloads;
mod world;

use std::time::Duration;

use api::{Key, Meta, Rng};

pub use action::{Labelled, Target, UserAction};
pub use change::{Actor, Change, Viewed};
pub(crate) use checks::{
    adopted, count, covers, deletes_only_its_own, end_state_line, is_available, no_business,
    owner_of, released, says, versions,
};
pub(crate) use history::{Disturbances, Generations, Losses};
pub use history::{LAG, REACTION, SLOW_REACTION};
pub use workloads::Workloads;
pub use world::{Lag, Raw, Run, Sight, Tally, View, World};

/// The problem, in words that name the objects.
pub type Verdict = Result<(), String>;

/// What must hold of what one controller looks after.
pub trait Oracle: Send {
    /// Views that it needs beyond those that controllers cache.
    fn views(&self) -> Vec<View> {
        Vec::new()
    }

    /// Notes what later checks need to know. Called for every change by any client, before anything is checked.
    fn observe(&mut self, _world: &World, _change: &Change) {}

    /// The server has lost changes: who was dead may live again.
    fn forget_lost(&mut self) {}

    /// After a write of this controller, unless the server lost changes a moment ago and caches may still show them.
    fn after_write(&self, world: &World, change: &Change) -> Verdict;

    /// After a write of this controller, also while caches may show what the server has lost.
    fn after_any_write(&self, _world: &World, _change: &Change) -> Verdict {
        Ok(())
    }

    /// After a write of another controller, or of nodes and what stands beside them.
    fn after_write_of_another(&self, _world: &World, _change: &Change) -> Verdict {
        Ok(())
    }

    /// When nothing changes any more, all faults are over, and users have left nothing paused or broken.
    fn at_rest(&self, world: &World) -> Verdict;

    /// Minutes after the last fault, however busy the cluster is kept: what nobody has to wait for is done.
    fn in_time(&self, _world: &World) -> Verdict {
        Ok(())
    }

    /// When nothing changes any more, although users may have paused or broken something.
    fn even_if_paused(&self, _world: &World) -> Verdict {
        Ok(())
    }

    /// Is there such an object? Asked for the keys that its expectations remember; none if it has no expectations.
    fn exists(&self, _world: &World, _key: &Key) -> Option<bool> {
        None
    }

    /// May the key fail for ever, as it does upstream?
    fn may_fail(&self, _world: &World, _key: &Key) -> bool {
        false
    }

    /// Does it repeat events for ever, as upstream does, because of what users have left?
    fn may_complain(&self, _world: &World) -> bool {
        false
    }

    /// May the object stay half deleted for ever, as it does upstream?
    fn may_stay(&self, _world: &World, _plural: &str, _meta: &Meta) -> bool {
        false
    }

    /// May an owner that is gone become the controller of what changed, because upstream does not look again before this
    /// write?
    fn may_adopt_unseen(&self, _world: &World, _change: &Change) -> bool {
        false
    }

    /// What a user sees of its objects in the end, a line for each, without names and times that differ from run to run.
    /// What depends on who came first, and not on what was asked for, is left out.
    fn end_state(&self, _world: &World) -> Vec<String> {
        Vec::new()
    }
}

/// How the simulator gets an oracle for a run.
pub type NewOracle = fn() -> Box<dyn Oracle>;

/// What a user does to what a controller looks after, one thing after the other.
#[derive(Clone, Copy)]
pub struct Actions {
    pub draw: fn(&Draw<'_>) -> Vec<UserAction>,
    /// How long the controller takes to deal with it. What takes days is drawn rarely, and nothing else happens then.
    pub takes: Duration,
}

impl Actions {
    /// What is dealt with at once.
    pub const fn of(draw: fn(&Draw<'_>) -> Vec<UserAction>) -> Actions {
        Actions {
            draw,
            takes: Duration::ZERO,
        }
    }
}

/// What actions are drawn from.
pub struct Draw<'a> {
    pub rng: &'a Rng,
    /// Where namespaced objects go.
    pub namespace: &'static str,
    /// Makes its names its own.
    pub number: usize,
    /// Nodes are called node-0, node-1 and so on.
    pub nodes: usize,
    /// Pods have addresses of both families.
    pub is_dual_stack: bool,
}
