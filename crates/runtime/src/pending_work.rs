//! What the controllers of a process have not finished: keys that wait for a worker, keys that fail, and what
//! was expected and has not come.
//!
//! Once nothing changes any more all of it must be gone: a key that still fails is stuck, and an expectation
//! that is still open has leaked. The simulator looks here.

use parking_lot::Mutex;
use std::sync::Arc;

/// Clones share it.
#[derive(Clone, Default)]
pub struct PendingWork(Arc<Mutex<Vec<Source>>>);

struct Source {
    name: String,
    look: Look,
}

/// None when what it looked at is gone.
type Look = Box<dyn Fn() -> Option<Pending> + Send>;

/// The pending work of one queue, or of one table of expectations. Keys are in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Waiting for a worker, or in its hands.
    pub busy: Vec<String>,
    /// Failed the last time; to be tried again.
    pub failing: Vec<String>,
    /// Waiting to see what was done for them.
    pub expecting: Vec<String>,
    /// All keys of which expectations are remembered.
    pub held: Vec<String>,
}

impl PendingWork {
    pub(crate) fn watch(&self, name: &str, look: impl Fn() -> Option<Pending> + Send + 'static) {
        let mut sources = self.0.lock();
        // Each term of leadership brings new ones: those of the last are gone by now.
        sources.retain(|source| (source.look)().is_some());
        sources.push(Source {
            name: name.to_owned(),
            look: Box::new(look),
        });
    }

    /// What there is at this moment, by the name of the queue or of the controller.
    pub fn look(&self) -> Vec<(String, Pending)> {
        let sources = self.0.lock();
        let look = |source: &Source| Some((source.name.clone(), (source.look)()?));
        sources.iter().filter_map(look).collect()
    }
}
