//! Bugs on purpose, to show that the simulator finds them.
//!
//! `mutation::on("name")` stands where somebody could have made that mistake. Without the feature
//! `seeded-bugs` it is `false` at compile time and nothing of it is left.

#[cfg(feature = "seeded-bugs")]
mod seeded {
    use std::sync::{PoisonError, RwLock};

    static BUG: RwLock<&str> = RwLock::new("");

    pub fn on(name: &str) -> bool {
        *BUG.read().unwrap_or_else(PoisonError::into_inner) == name
    }

    /// Makes this the one bug there is, in the whole process; an empty name is none.
    pub fn choose(name: &'static str) {
        *BUG.write().unwrap_or_else(PoisonError::into_inner) = name;
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
