//! One change of one object, as the API server made it.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use api::{Meta, Resource};

/// Who wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    User,
    Nodes,
    /// A manager, and the controller in it; empty for what the process itself does.
    Manager(usize, &'static str),
}

/// An object of any kind.
pub trait Viewed: Any + Send + Sync {
    fn meta(&self) -> &Meta;
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<K: Resource> Viewed for K {
    fn meta(&self) -> &Meta {
        Resource::meta(self)
    }

    fn into_any(self: Arc<K>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

/// An object before and after a change. Both are there for an update, the first alone for an object that is gone, the
/// second alone for one that was created.
pub struct Change {
    pub plural: Cow<'static, str>,
    /// None for what the server did on its own account, while it did something else.
    pub by: Option<Actor>,
    /// The same object in each view that somebody has of its kind; empty if there was none.
    pub(super) before: Vec<Arc<dyn Viewed>>,
    pub(super) after: Vec<Arc<dyn Viewed>>,
}

impl Change {
    pub fn before<K: Resource>(&self) -> Option<Arc<K>> {
        seen_as(&self.before)
    }

    pub fn after<K: Resource>(&self) -> Option<Arc<K>> {
        seen_as(&self.after)
    }

    pub fn created<K: Resource>(&self) -> Option<Arc<K>> {
        self.after().filter(|_| self.before.is_empty())
    }

    pub fn updated<K: Resource>(&self) -> Option<(Arc<K>, Arc<K>)> {
        Some((self.before()?, self.after()?))
    }

    /// What is gone, as it was last.
    pub fn gone<K: Resource>(&self) -> Option<Arc<K>> {
        self.before().filter(|_| self.after.is_empty())
    }

    /// What began to go away in this change, or is gone by it: as it was before.
    pub fn ending<K: Resource>(&self) -> Option<Arc<K>> {
        self.before().filter(|_| self.is_ending())
    }

    /// Did the object begin to go away in this change, or is it gone by it?
    pub fn is_ending(&self) -> bool {
        let was_ending = self.meta_before().is_some_and(Meta::is_terminating);
        self.meta_after().is_none_or(Meta::is_terminating) && !was_ending
    }

    pub fn meta_before(&self) -> Option<&Meta> {
        self.before.first().map(|object| object.meta())
    }

    pub fn meta_after(&self) -> Option<&Meta> {
        self.after.first().map(|object| object.meta())
    }

    /// The newest there is.
    pub fn meta(&self) -> Option<&Meta> {
        self.meta_after().or(self.meta_before())
    }

    /// Did this controller make it?
    pub fn is_by(&self, controller: &str) -> bool {
        matches!(self.by, Some(Actor::Manager(_, name)) if name == controller)
    }
}

fn seen_as<K: Resource>(views: &[Arc<dyn Viewed>]) -> Option<Arc<K>> {
    let mut seen = views.iter().map(|object| object.clone().into_any());
    seen.find_map(|object| object.downcast().ok())
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Actor::User => f.pad("user"),
            Actor::Nodes => f.pad("nodes"),
            Actor::Manager(number, "") => f.pad(&format!("manager-{number}")),
            Actor::Manager(0, controller) => f.pad(controller.trim_end_matches("-controller")),
            Actor::Manager(number, controller) => {
                let controller = controller.trim_end_matches("-controller");
                f.pad(&format!("{controller}-{number}"))
            }
        }
    }
}
