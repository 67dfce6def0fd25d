//! Bugs on purpose, to show that the simulator finds them.
//!
//! `mutation::on("name")` stands where somebody could have made that mistake. Without the feature
//! `seeded-bugs` it is `false` at compile time and nothing of it is left.

#[cfg(feature = "seeded-bugs")]
mod seeded {
    use std::cell::Cell;

    thread_local! {
        static BUG: Cell<&'static str> = const { Cell::new("") };
    }

    pub fn on(name: &str) -> bool {
        BUG.get() == name
    }

    /// Makes this the one bug there is on this thread, where a whole simulated cluster runs; an empty name is
    /// none.
    pub fn choose(name: &'static str) {
        BUG.set(name);
    }
}

#[cfg(feature = "seeded-bugs")]
pub use seeded::{choose, on};

/// Is this bug there?
#[cfg(not(feature = "seeded-bugs"))]
#[inline(always)]
pub const fn on(_name: &str) -> bool {
    false
}
