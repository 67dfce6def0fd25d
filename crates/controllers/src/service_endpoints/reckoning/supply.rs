//! Since when services have had something ready without a break, so that nobody who follows what is published of them may
//! see an empty set between two full ones.

use std::collections::BTreeMap;
use std::fmt;

use api::{Key, MicroTime};

use crate::oracle::{Sight, Verdict, World};

/// What somebody follows: a service, and of slices one family of its addresses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Followed {
    pub service: Key,
    pub family: Option<String>,
}

impl Followed {
    pub fn of_family(service: &Key, family: &str) -> Followed {
        Followed {
            service: service.clone(),
            family: Some(family.to_owned()),
        }
    }

    pub fn whole(service: &Key) -> Followed {
        Followed {
            service: service.clone(),
            family: None,
        }
    }
}

impl fmt::Display for Followed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.family {
            Some(family) => write!(f, "{} over {family}", self.service),
            None => write!(f, "{}", self.service),
        }
    }
}

#[derive(Default)]
pub struct Supply(BTreeMap<Followed, MicroTime>);

impl Supply {
    /// After a change: what has something ready.
    pub fn note(&mut self, world: &World, ready: impl Iterator<Item = Followed>) {
        let before = std::mem::take(&mut self.0);
        let since = |followed: Followed| {
            let since = before.get(&followed).copied().unwrap_or(world.now());
            (followed, since)
        };
        self.0 = ready.map(since).collect();
    }

    pub fn forget(&mut self) {
        self.0.clear();
    }

    /// After a write that took the number of ready addresses from `before` to `after`. `is_behind` says whether the writer
    /// may have decided on a view that lacked something.
    pub fn check(
        &self,
        world: &World,
        name: &'static str,
        followed: &Followed,
        (before, after): (usize, usize),
        is_behind: bool,
    ) -> Verdict {
        let since = self.0.get(followed);
        let lasts = since.is_some_and(|since| world.now().since(*since) > world.reaction());
        world.check(name, Sight::unless(is_behind), || {
            match before > 0 && after == 0 && lasts {
                true => Err(format!(
                    "{followed}: {before} ready addresses were published, then none, although there was something ready all the time"
                )),
                false => Ok(()),
            }
        })
    }
}
