//! Writes that are made ready before they have their turn.
//!
//! Only one write has its turn at a time, and merging, checking and printing a large object takes long. So all of
//! that happens before, with the object as it was then; in its turn a write only makes sure that the object still is
//! what it was, and takes its place. If it is not, everything is done again with what is there now.
//!
//! A write is made ready in two steps, [`Proposed`] and [`Prepared`]: admission webhooks are called between them and
//! after them (see [`super::admitted`]).

use super::Context;
use super::create::{Checked, NewObject};
use super::update::{Change, replacing};
use crate::admission::{self, Operation, Verdict};
use crate::status::Status;
use crate::storage::{Draft, Stored, Transaction};
use serde_json::Value;
use std::sync::Arc;

/// What is to be written, as its author and the admission plugins want it.
pub(crate) enum Proposed {
    New(Box<NewObject>),
    Change(Box<Change>),
}

/// A write that only has to be stored.
pub(crate) enum Prepared {
    New(Box<Checked>),
    Change(Box<Replacement>),
}

impl Prepared {
    /// Whether anything is to be stored.
    pub(super) fn is_written(&self) -> bool {
        match self {
            Prepared::New(_) => true,
            Prepared::Change(change) => matches!(change.outcome, Outcome::Changed { .. }),
        }
    }

    /// The object as it is to be, and as it was.
    pub(super) fn states(&self) -> (&Value, Option<&Value>) {
        match self {
            Prepared::New(checked) => (&checked.value, None),
            Prepared::Change(replacement) => match &replacement.outcome {
                Outcome::Same { before, new }
                | Outcome::Finished { before, new, .. }
                | Outcome::Changed { before, new, .. } => (new, Some(before)),
            },
        }
    }

    /// What is to be stored, and the object that it was printed from.
    pub(super) fn draft_mut(&mut self) -> Option<(&Value, &mut Draft)> {
        match self {
            Prepared::New(checked) => Some((&checked.value, checked.draft.as_mut()?)),
            Prepared::Change(change) => match &mut change.outcome {
                Outcome::Changed { new, draft, .. } => Some((new, draft)),
                _ => None,
            },
        }
    }
}

/// A new state of an object that is there.
pub(crate) struct Replacement {
    pub(super) old: Arc<Stored>,
    pub(super) outcome: Outcome,
    /// The last change of anything that its addresses and ports were chosen by.
    pub(super) allocated: Option<u64>,
}

pub(super) enum Outcome {
    /// It is as it should be.
    Same { before: Value, new: Value },
    /// The last finalizer is gone, and so is the object.
    Finished {
        before: Value,
        new: Value,
        opaque: Option<String>,
    },
    Changed {
        before: Value,
        new: Value,
        opaque: Option<String>,
        draft: Draft,
        verdict: Verdict,
    },
}

/// The status code and the object, and the revision to wait for.
pub(super) type Written = ((u16, Arc<Stored>), u64);

/// How often a write is made ready while others may be faster; then it is done within its turn.
const ATTEMPTS: usize = 3;

impl Context {
    /// Makes a write ready and stores it. Only what a webhook admits or converts has to wait for anything.
    pub(super) async fn write_prepared(
        &mut self,
        dry_run: bool,
        propose: impl FnMut(&mut Context) -> Result<Proposed, Status>,
    ) -> Result<Written, Status> {
        match self.webhooks(&[Operation::Create, Operation::Update]) {
            None if !self.has_to_wait() => self.write_at_once(dry_run, propose),
            hooks => Box::pin(self.write_admitted(hooks.as_ref(), dry_run, propose)).await,
        }
    }

    pub(super) fn write_at_once(
        &mut self,
        dry_run: bool,
        mut propose: impl FnMut(&mut Context) -> Result<Proposed, Status>,
    ) -> Result<Written, Status> {
        let shared = self.shared.clone();
        let warnings = self.warnings.len();
        // What takes addresses has to know that nobody else does meanwhile.
        let attempts = match admission::allocates(&self.stored_kind) {
            true => 0,
            false => ATTEMPTS,
        };
        for _ in 0..attempts {
            let proposed = propose(self)?;
            let prepared = self.complete(proposed, dry_run)?;
            let (stored, revision) = shared
                .store
                .write(|transaction| self.swap(transaction, prepared, dry_run))?;
            if let Some(stored) = stored {
                return Ok((stored, revision));
            }
            self.warnings.truncate(warnings);
        }
        shared.store.write(|transaction| {
            let proposed = propose(self)?;
            let prepared = self.complete(proposed, dry_run)?;
            let stored = self.swap(transaction, prepared, dry_run)?;
            stored.ok_or_else(|| Status::internal("the object changes while nothing may change it"))
        })
    }

    pub(super) fn complete(
        &mut self,
        proposed: Proposed,
        dry_run: bool,
    ) -> Result<Prepared, Status> {
        Ok(match proposed {
            Proposed::New(new) => Prepared::New(Box::new(self.complete_new(*new, dry_run)?)),
            Proposed::Change(change) => {
                Prepared::Change(Box::new(self.complete_change(*change, dry_run)?))
            }
        })
    }

    /// Stores what was made ready, if what it was made of is still there.
    pub(super) fn swap(
        &mut self,
        transaction: &mut Transaction<'_>,
        prepared: Prepared,
        dry_run: bool,
    ) -> Result<Option<(u16, Arc<Stored>)>, Status> {
        match prepared {
            Prepared::New(mut checked) => {
                let key = self.key(&checked.name);
                if transaction.get(&self.stored_kind, &key).is_some()
                    || !self.still_allocated(checked.allocated)
                {
                    return Ok(None);
                }
                let stored = self.keep_new(transaction, &mut checked, dry_run)?;
                Ok(Some((201, stored)))
            }
            Prepared::Change(replacement) => {
                let current = transaction.get(&self.stored_kind, &replacement.old.key);
                if current.is_none_or(|current| current.revision != replacement.old.revision)
                    || !self.still_allocated(replacement.allocated)
                {
                    return Ok(None);
                }
                let stored = self.keep_replacement(transaction, *replacement, dry_run)?;
                Ok(Some((200, stored)))
            }
        }
    }

    pub(super) fn keep_replacement(
        &mut self,
        transaction: &mut Transaction<'_>,
        replacement: Replacement,
        dry_run: bool,
    ) -> Result<Arc<Stored>, Status> {
        let Replacement { old, outcome, .. } = replacement;
        match outcome {
            Outcome::Same { .. } => Ok(old),
            Outcome::Finished { new, opaque, .. } => {
                self.finish_deletion(transaction, &old, new, opaque.as_deref(), dry_run)
            }
            Outcome::Changed {
                before,
                new,
                opaque,
                draft,
                verdict,
            } => {
                let kind = self.stored_kind.clone();
                let admission = replacing(&kind, &old, dry_run);
                self.charge(transaction, &admission, &new, Some(&before), verdict)?;
                Ok(match dry_run {
                    true => self.store(transaction, &old.key, &new, opaque.as_deref(), true),
                    false => self.keep(transaction, &old.key, draft),
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Identity;
    use crate::rest::{Begun, RequestInfo, begin};
    use crate::{ApiServer, Options};
    use bytes::Bytes;
    use http::{Method, Request};
    use serde_json::json;

    const MAPS: &str = "/api/v1/namespaces/default/configmaps";

    fn context(server: &ApiServer, method: Method, uri: &str, body: &Value) -> Context {
        let shared = server.shared();
        let request = Request::builder().method(method).uri(uri);
        let request = request
            .header("content-type", "application/merge-patch+json")
            .body(Bytes::from(body.to_string()))
            .unwrap();
        let info = RequestInfo::parse(request.method(), request.uri());
        let registry = shared.registry();
        let kind = registry.resource(&info.group, &info.version, &info.resource);
        let kind = kind.cloned();
        let admin = Arc::new(Identity::admin());
        match begin(shared, registry, kind, info, request, admin) {
            Ok(Begun::Resource(context, _)) => *context,
            _ => panic!("it is a resource"),
        }
    }

    async fn server() -> ApiServer {
        let clock = api::Clock::fixed(api::Time::from_unix(1_704_067_200));
        let server = ApiServer::open(Options::in_memory(clock, api::Rng::from_seed(1))).unwrap();
        let body = json!({"metadata": {"name": "a"}, "data": {"count": "0"}}).to_string();
        let request = Request::post(MAPS).body(Bytes::from(body)).unwrap();
        let answer = server.handle(request, Identity::admin()).await;
        assert_eq!(answer.status(), 201);
        server
    }

    fn patch(server: &ApiServer, member: &str) -> u64 {
        let changes = json!({"data": {member: "1"}});
        let path = format!("{MAPS}/a");
        let mut other = context(server, Method::PATCH, &path, &changes);
        let written = other.write_at_once(false, |other| {
            let changes = other.parse_patch();
            other.propose_patch(changes, false)
        });
        written.unwrap().1
    }

    #[tokio::test]
    async fn who_was_overtaken_starts_again_from_what_is_there() {
        let server = server().await;
        for overtaken in [1, 2, 3, 7] {
            let path = format!("{MAPS}/a");
            let changes = json!({"data": {"mine": overtaken.to_string()}});
            let mut context = context(&server, Method::PATCH, &path, &changes);
            let mut attempts = 0;
            let (object, _) = context
                .write_at_once(false, |context| {
                    let changes = context.parse_patch();
                    let prepared = context.propose_patch(changes, false)?;
                    attempts += 1;
                    // Nobody can overtake it once it has its turn.
                    if attempts <= overtaken.min(ATTEMPTS) {
                        patch(&server, &format!("other{overtaken}{attempts}"));
                    }
                    Ok(prepared)
                })
                .unwrap();
            assert_eq!(attempts, overtaken.min(ATTEMPTS) + 1);
            let value = object.1.value(&context.stored_kind);
            assert_eq!(value["data"]["mine"], overtaken.to_string());
            let last = format!("other{overtaken}{}", overtaken.min(ATTEMPTS));
            assert_eq!(value["data"][last], "1", "nothing of the others is lost");
        }
    }

    #[tokio::test]
    async fn others_write_while_a_large_object_is_made_ready() {
        let server = server().await;
        let path = format!("{MAPS}/a");
        let changes = json!({"metadata": {"labels": {"a": "b"}}});
        let mut context = context(&server, Method::PATCH, &path, &changes);
        let mut is_first = true;
        let written = context.write_at_once(false, |context| {
            if std::mem::take(&mut is_first) {
                // Within the turn of this write it would wait for ever.
                let free: Result<_, ()> = context.shared.store.write(|_| Ok(()));
                assert!(free.is_ok());
            }
            let changes = context.parse_patch();
            context.propose_patch(changes, false)
        });
        assert_eq!(written.unwrap().0.0, 200);
    }
}
