//! Since when services have had something ready without a break, so that nobody who follows what is published of them may
//! see an empty set between two full ones.

use std::collections::BTreeMap;

use api::{Key, MicroTime};

use crate::oracle::{Sight, Verdict, World};

#[derive(Default)]
pub struct Supply(BTreeMap<Key, MicroTime>);

impl Supply {
    /// After a change: the services that have something ready.
    pub fn note(&mut self, world: &World, ready: impl Iterator<Item = Key>) {
        let before = std::mem::take(&mut self.0);
        let since = |key: Key| {
            let since = before.get(&key).copied().unwrap_or(world.now());
            (key, since)
        };
        self.0 = ready.map(since).collect();
    }

    pub fn forget(&mut self) {
        self.0.clear();
    }

    /// After a write that took the number of ready addresses of a service from `before` to `after`. `is_behind` says
    /// whether the writer may have decided on a view that lacked something.
    pub fn check(
        &self,
        world: &World,
        name: &'static str,
        key: &Key,
        (before, after): (usize, usize),
        is_behind: bool,
    ) -> Verdict {
        let since = self.0.get(key);
        let lasts = since.is_some_and(|since| world.now().since(*since) > world.reaction());
        world.check(name, Sight::unless(is_behind), || {
            match before > 0 && after == 0 && lasts {
                true => Err(format!(
                    "{key}: {before} ready addresses were published, then none, although there was something ready all the time"
                )),
                false => Ok(()),
            }
        })
    }
}
