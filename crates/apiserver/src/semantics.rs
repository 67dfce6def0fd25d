//! Where the generic machinery asks what it must know about a kind: types, defaults, strategy, validation,
//! admission, tables. Everything here forwards; the knowledge is in the modules it names.

use crate::admission::{self, Change, Operation, Request, User};
use crate::kinds::{Kind, Subresource};
use crate::rest::{Context, metadata_mut, stamp};
use crate::schema;
use crate::server::Shared;
use crate::status::{Cause, Status};
use crate::storage::Transaction;
use crate::{defaults, strategy, tables};
use serde_json::{Value, json};
use std::sync::Arc;

/// What a client sent, read as the kind's type: (object, unknown fields).
pub(crate) fn decode(kind: &Kind, value: Value) -> Result<(Value, Vec<String>), Status> {
    let Some(ty) = schema::type_for(&kind.group, &kind.version, &kind.kind) else {
        return Ok((value, Vec::new()));
    };
    let decoded =
        schema::decode(ty, value).map_err(|error| cannot_be_handled(kind, &error.to_string()))?;
    Ok((decoded.object, decoded.unknown))
}

/// 400, in the words of upstream's decoder.
pub(crate) fn cannot_be_handled(kind: &Kind, why: &str) -> Status {
    Status::bad_request(format!(
        "{} in version \"{}\" cannot be handled as a {}: {why}",
        kind.kind, kind.version, kind.kind
    ))
}

/// Fills in what the user left out.
pub(crate) fn default(kind: &Kind, value: &mut Value) {
    defaults::apply(kind, value);
}

pub(crate) fn prepare_create(shared: &Shared, kind: &Kind, new: &mut Value) {
    strategy::prepare_create(kind, new, &shared.now());
}

pub(crate) fn prepare_update(
    shared: &Shared,
    kind: &Kind,
    subresource: Option<Subresource>,
    new: &mut Value,
    old: &Value,
) {
    match subresource {
        None => strategy::prepare_update(kind, new, old),
        Some(Subresource::Status) => strategy::prepare_status_update(kind, new, old, &shared.now()),
        Some(Subresource::Approval) => {
            strategy::prepare_approval_update(kind, new, old, &shared.now())
        }
        Some(Subresource::Finalize) => strategy::prepare_finalize_update(kind, new, old),
        Some(Subresource::EphemeralContainers) => {
            strategy::prepare_ephemeral_containers_update(kind, new, old)
        }
        Some(Subresource::Resize) => strategy::prepare_resize_update(kind, new, old),
        Some(_) => {}
    }
}

/// A write as admission sees it.
pub(crate) struct Admission<'a> {
    pub(crate) operation: Operation,
    pub(crate) kind: &'a Kind,
    pub(crate) name: &'a str,
    pub(crate) dry_run: bool,
}

impl Context {
    /// Mutating admission, before the kind's strategy.
    pub(crate) fn mutate(
        &self,
        transaction: &Transaction<'_>,
        admission: &Admission<'_>,
        new: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        self.admission(transaction, admission, |context, request| {
            admission::mutate(context, request, new, old)
        })
    }

    /// Validating admission, after validation. What is to be written along with the object is written.
    pub(crate) fn admit(
        &mut self,
        transaction: &mut Transaction<'_>,
        admission: &Admission<'_>,
        new: &Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let verdict = self.admission(transaction, admission, |context, request| {
            admission::validate(context, request, new, old)
        })?;
        self.warnings.extend(verdict.warnings);
        if !admission.dry_run {
            for change in verdict.changes {
                carry_out(&self.shared, transaction, change);
            }
        }
        Ok(())
    }

    fn admission<T>(
        &self,
        transaction: &Transaction<'_>,
        admission: &Admission<'_>,
        ask: impl FnOnce(&admission::Context<'_>, &Request<'_>) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let user = User {
            name: self.identity.user.clone(),
            uid: self.identity.uid.clone(),
            groups: self.identity.groups.clone(),
            extra: self.identity.extra.clone(),
        };
        let context = admission::Context {
            cluster: &State { transaction },
            user: &user,
            now: &self.shared.now(),
            random: &self.shared.rng,
            networks: &self.shared.networks,
        };
        let request = Request {
            operation: admission.operation,
            kind: admission.kind,
            namespace: if admission.kind.namespaced {
                &self.info.namespace
            } else {
                ""
            },
            name: admission.name,
            subresource: self.subresource,
        };
        ask(&context, &request)
    }

    /// What follows from a deletion within the same transaction.
    pub(crate) fn after_delete(&self, transaction: &mut Transaction<'_>, old: &Value) {
        for change in admission::released_by_deletion(&self.stored_kind, old) {
            carry_out(&self.shared, transaction, change);
        }
    }
}

fn carry_out(shared: &Shared, transaction: &mut Transaction<'_>, change: Change) {
    let key = |kind: &Kind, namespace: &str, name: &str| {
        if kind.namespaced {
            format!("{namespace}/{name}")
        } else {
            name.to_owned()
        }
    };
    match change {
        Change::Put(kind, mut value) => {
            let text = |member: &str| {
                value["metadata"][member]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
            };
            let key = key(&kind, &text("namespace"), &text("name"));
            if transaction.get(&kind, &key).is_none() && text("uid").is_empty() {
                metadata_mut(&mut value);
                stamp(shared, &mut value);
            }
            transaction.put(&kind, &key, &mut value, None);
        }
        Change::Delete {
            kind,
            namespace,
            name,
        } => {
            transaction.remove(&kind, &key(&kind, &namespace, &name));
        }
    }
}

/// The state within a write, as admission reads it.
struct State<'a, 'b> {
    transaction: &'a Transaction<'b>,
}

impl admission::Cluster for State<'_, '_> {
    fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Value> {
        let key = if kind.namespaced {
            format!("{namespace}/{name}")
        } else {
            name.to_owned()
        };
        Some(self.transaction.get(kind, &key)?.value(kind))
    }

    fn list(&self, kind: &Kind, namespace: &str) -> Vec<Value> {
        let prefix = if namespace.is_empty() {
            String::new()
        } else {
            format!("{namespace}/")
        };
        self.transaction
            .list(kind, &prefix)
            .iter()
            .map(|stored| stored.value(kind))
            .collect()
    }

    fn may(&self, user: &User, _verb: &str, _resource: &str, _name: &str) -> bool {
        user.groups.iter().any(|group| group == "system:masters")
    }
}

pub(crate) fn validate_create(_kind: &Kind, _value: &Value) -> Vec<Cause> {
    Vec::new()
}

pub(crate) fn validate_update(
    _kind: &Kind,
    _subresource: Option<Subresource>,
    _new: &Value,
    _old: &Value,
) -> Vec<Cause> {
    Vec::new()
}

/// `columnDefinitions` of a table.
pub(crate) fn columns(kind: &Kind) -> Value {
    tables::columns(kind)
        .iter()
        .map(tables::Column::to_value)
        .collect()
}

pub(crate) fn cells(kind: &Kind, value: &Value, now: &str) -> Value {
    Value::Array(tables::cells(kind, value, now))
}

/// Objects that exist from the start.
pub(crate) fn boot(shared: &Arc<Shared>) {
    let Some(kind) = crate::kinds::find("", "Namespace") else {
        return;
    };
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        let mut value = json!({"metadata": {"name": name}});
        default(kind, &mut value);
        prepare_create(shared, kind, &mut value);
        let created: Result<_, Status> = shared.store.write(|transaction| {
            if transaction.get(kind, name).is_none() {
                stamp(shared, &mut value);
                transaction.put(kind, name, &mut value, None);
            }
            Ok(())
        });
        debug_assert!(created.is_ok());
    }
}
