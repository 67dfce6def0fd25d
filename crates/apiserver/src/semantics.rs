//! Where the generic machinery asks what it must know about a kind: types, defaults, strategy, validation,
//! admission, tables. Everything here forwards; the knowledge is in the modules it names.

use crate::admission::{self, Change, Operation, Plugin, Request, Verdict};
use crate::auth::rules::Attributes;
use crate::auth::{Identity, escalation, param_access};
use crate::crd::{self, CustomVersion, lifecycle, objects, structural};
use crate::kinds::{Kind, Registry, Subresource};
use crate::policy::{self, Policies};
use crate::rest::{Context, metadata_mut, stamp};
use crate::schema;
use crate::server::Shared;
use crate::status::{Cause, Status};
use crate::storage::Transaction;
use crate::{bootstrap, defaults, strategy, tables, validation};
use serde_json::{Value, json};
use std::sync::Arc;

/// What a client sent, read as the kind's type: (object, unknown fields).
pub(crate) fn decode(kind: &Kind, value: Value) -> Result<(Value, Vec<String>), Status> {
    read(kind, value).map_err(|why| cannot_be_handled(&kind.kind, &kind.version, &why))
}

/// The same; the error is why it cannot be read.
pub(crate) fn read(kind: &Kind, value: Value) -> Result<(Value, Vec<String>), String> {
    if let Some(version) = kind.custom() {
        return decode_custom(version, value);
    }
    let Some(ty) = schema::type_for(&kind.group, &kind.version, &kind.kind) else {
        return Ok((value, Vec::new()));
    };
    let decoded = schema::decode(ty, value).map_err(|error| error.to_string())?;
    Ok((decoded.object, decoded.unknown))
}

/// A custom object: its metadata as everyone's, the rest by its definition's schema.
fn decode_custom(
    version: &CustomVersion,
    mut value: Value,
) -> Result<(Value, Vec<String>), String> {
    let metadata = value
        .get_mut("metadata")
        .map(Value::take)
        .unwrap_or_default();
    let mut unknown = Vec::new();
    if let Some(ty) = schema::type_named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta") {
        let metadata = if metadata.is_null() {
            Value::Object(serde_json::Map::new())
        } else {
            metadata
        };
        let decoded = schema::decode(ty, metadata).map_err(|error| error.to_string())?;
        unknown.extend(
            decoded
                .unknown
                .iter()
                .map(|path| format!("metadata.{path}")),
        );
        if let Some(map) = value.as_object_mut() {
            map.insert("metadata".into(), decoded.object);
        }
    }
    let schema = &version.schema.ready().value;
    unknown.extend(structural::prune(schema, &mut value));
    structural::prune_nulls(schema, &mut value);
    let embedded = structural::coerce(schema, &mut value);
    unknown.extend(embedded?);
    Ok((value, unknown))
}

/// 400, in the words of upstream's decoder.
pub(crate) fn cannot_be_handled(kind: &str, version: &str, why: &str) -> Status {
    Status::bad_request(format!(
        "{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"
    ))
}

/// Fills in what the user left out.
pub(crate) fn default(kind: &Kind, value: &mut Value) {
    match kind.custom() {
        Some(version) => structural::default(&version.schema.ready().value, value),
        None => defaults::apply(kind, value),
    }
}

pub(crate) fn prepare_create(shared: &Shared, kind: &Kind, new: &mut Value) {
    strategy::prepare_create(kind, new, &shared.now());
    if is_definition(kind) {
        crd::complete(new, &shared.now());
        lifecycle::hold(new);
    }
}

pub(crate) fn prepare_update(
    shared: &Shared,
    kind: &Kind,
    subresource: Option<Subresource>,
    new: &mut Value,
    old: &Value,
) {
    match subresource {
        None => {
            strategy::prepare_update(kind, new, old, &shared.now());
            if is_definition(kind) {
                crd::complete(new, &shared.now());
            }
        }
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

/// What a subresource takes, where that is an object of a type of its own.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    pub(crate) operation: Operation,
    /// apiVersion and kind.
    pub(crate) object_type: (&'static str, &'static str),
    pub(crate) dry_run: bool,
}

impl Context {
    /// Mutating admission, before the kind's strategy.
    pub(crate) fn mutate(
        &self,
        admission: &Admission<'_>,
        new: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        self.admission(admission, |context, request| {
            admission::mutate(context, request, new, old)
        })
    }

    /// Gives a Service its addresses and ports, after everyone who may change it has done so. UPSTREAM: this is its
    /// storage's work, and no admission webhook that changes objects sees it. Returns by which state they were chosen.
    pub(crate) fn allocate(
        &self,
        admission: &Admission<'_>,
        new: &mut Value,
        old: Option<&Value>,
    ) -> Result<Option<u64>, Status> {
        if !admission::allocates(admission.kind) || self.subresource.is_some() {
            return Ok(None);
        }
        let chosen_by = admission::allocated_by(&self.shared.store);
        self.admission(admission, |context, request| {
            admission::allocate(context, request, new, old)
        })?;
        Ok(Some(chosen_by))
    }

    /// Whether nobody can have taken the same addresses and ports meanwhile.
    pub(crate) fn still_allocated(&self, chosen_by: Option<u64>) -> bool {
        chosen_by.is_none_or(|chosen_by| chosen_by == admission::allocated_by(&self.shared.store))
    }

    /// Whether a kubelet may write to a subresource that is no object of its own.
    pub(crate) fn check_node(&self, object: &Value) -> Result<(), Status> {
        let admission = Admission {
            operation: Operation::Create,
            kind: &self.stored_kind,
            name: &self.info.name,
            dry_run: false,
        };
        self.admission(&admission, |context, request| {
            admission::check_node(context, request, object, None)
        })
    }

    /// Whether the namespace still takes what is written to it.
    pub(crate) fn check_lifecycle(&self, admission: &Admission<'_>) -> Result<(), Status> {
        self.admission(admission, admission::check_lifecycle)
    }

    /// The part of validating admission that has no effect beyond its verdict, after validation.
    pub(crate) fn verdict(
        &mut self,
        admission: &Admission<'_>,
        new: &Value,
        old: Option<&Value>,
    ) -> Result<Verdict, Status> {
        let namespace = if admission.kind.namespaced {
            self.info.namespace.as_str()
        } else {
            ""
        };
        let write = escalation::Write {
            kind: admission.kind,
            requested_name: &self.info.name,
            namespace,
            new,
            old,
        };
        escalation::check(&self.shared, &self.identity, &write)?;
        param_access::check(&self.shared, &self.identity, admission.kind, new, old)?;
        let mut verdict = Verdict::default();
        let reviewed = self.admission(admission, |context, request| {
            admission::review(context, request, new, old, &mut verdict)
        });
        if reviewed.is_err() {
            // A refusal carries the warnings that came before it.
            self.note(&mut verdict);
        }
        reviewed.map(|()| verdict)
    }

    /// Keeps what admission has said, for the answer and for the audit log.
    pub(crate) fn note(&mut self, verdict: &mut Verdict) {
        self.warnings.append(&mut verdict.warnings);
        let metrics = &self.shared.metrics.admission;
        let checks = std::mem::take(&mut verdict.policy_checks);
        checks.iter().for_each(|check| metrics.checked(check));
        let annotations = std::mem::take(&mut verdict.annotations);
        self.audit_annotations.extend(annotations);
    }

    /// Validating admission of a deletion.
    pub(crate) fn review_deletion(
        &mut self,
        admission: &Admission<'_>,
        old: &Value,
    ) -> Result<(), Status> {
        let mut verdict = Verdict::default();
        let reviewed = self.admission(admission, |context, request| {
            admission::review(context, request, &Value::Null, Some(old), &mut verdict)
        });
        self.note(&mut verdict);
        reviewed
    }

    /// Policies may change what a subresource takes, where that is an object of a type of its own: apiVersion and kind.
    /// What follows from it is not admitted again.
    pub(crate) fn mutate_part(
        &mut self,
        part: Part,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let admitted = self.admission_of(part, |context, request| {
            match context
                .settings
                .plugins
                .has(Plugin::MutatingAdmissionPolicy)
            {
                true => policy::mutate(context, request, object, old, |_| Ok(())),
                false => Ok(()),
            }
        });
        self.is_admitted = true;
        admitted
    }

    /// And may refuse it.
    pub(crate) fn validate_part(
        &mut self,
        part: Part,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let mut verdict = Verdict::default();
        let admitted = self.admission_of(part, |context, request| {
            match context
                .settings
                .plugins
                .has(Plugin::ValidatingAdmissionPolicy)
            {
                true => policy::validate(context, request, object, old, &mut verdict),
                false => Ok(()),
            }
        });
        self.note(&mut verdict);
        admitted
    }

    fn admission_of(
        &self,
        part: Part,
        admit: impl FnOnce(&admission::Context<'_>, &Request<'_>) -> Result<(), Status>,
    ) -> Result<(), Status> {
        let admission = Admission {
            operation: part.operation,
            kind: &self.stored_kind,
            name: &self.info.name,
            dry_run: part.dry_run,
        };
        self.admission(&admission, |context, request| {
            let request = Request {
                object_type: Some(part.object_type),
                is_admitted: false,
                ..*request
            };
            admit(context, &request)
        })
    }

    /// The options of a request, as admission shows them. UPSTREAM: a patch is a create or an update there.
    pub(crate) fn options(&self, operation: Operation) -> Value {
        let kind = match operation {
            Operation::Connect => return Value::Null,
            Operation::Delete => return self.delete_options().unwrap_or_default().to_value(),
            Operation::Update => "UpdateOptions",
            Operation::Create => "CreateOptions",
        };
        let query = &self.info.query;
        let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        for member in ["fieldManager", "fieldValidation"] {
            if !query.get(member).is_empty() {
                options[member] = json!(query.get(member));
            }
        }
        let dry_run: Vec<&str> = query
            .all("dryRun")
            .filter(|value| !value.is_empty())
            .collect();
        if !dry_run.is_empty() {
            options["dryRun"] = json!(dry_run);
        }
        options
    }

    /// The rest of validating admission: what is to be written along with the object is written.
    pub(crate) fn charge(
        &mut self,
        transaction: &mut Transaction<'_>,
        admission: &Admission<'_>,
        new: &Value,
        old: Option<&Value>,
        mut verdict: Verdict,
    ) -> Result<(), Status> {
        self.admission(admission, |context, request| {
            admission::charge(context, request, new, old, &mut verdict)
        })?;
        self.note(&mut verdict);
        if !admission.dry_run {
            for change in verdict.changes {
                carry_out(&self.shared, transaction, change);
            }
        }
        Ok(())
    }

    pub(crate) fn admission<T>(
        &self,
        admission: &Admission<'_>,
        ask: impl FnOnce(&admission::Context<'_>, &Request<'_>) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let context = admission::Context {
            cluster: &State(&self.shared),
            user: &self.identity,
            random: &self.shared.rng,
            networks: &self.shared.networks,
            settings: &self.shared.settings,
            now: self.shared.clock.now(),
        };
        let options = match self.shared.policies.are_there(&self.shared.store) {
            true => self.options(admission.operation),
            false => Value::Null,
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
            asked: &self.kind,
            object_type: None,
            dry_run: admission.dry_run,
            is_admitted: self.is_admitted,
            options: &options,
        };
        ask(&context, &request)
    }

    /// What follows from a deletion within the same transaction.
    pub(crate) fn after_delete(&self, transaction: &mut Transaction<'_>, old: &Value) {
        for change in admission::released_by_deletion(&self.stored_kind, old) {
            carry_out(&self.shared, transaction, change);
        }
        if self.stored_kind.custom().is_some() {
            // The last object of a definition that is being deleted takes it along.
            let definition = format!("{}.{}", self.stored_kind.plural, self.stored_kind.group);
            lifecycle::clean_up(&self.shared, transaction, &definition);
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
            transaction.put(&kind, &key, &value, None);
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

/// The newest state, as admission reads it: within a write, what that write will change.
struct State<'a>(&'a Shared);

/// The labels that a pod gets from the node it is bound to.
pub(crate) fn place_of(shared: &Shared, node: &str) -> Vec<(String, Value)> {
    admission::place_of(&State(shared), node)
}

impl admission::Cluster for State<'_> {
    fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let key = if kind.namespaced {
            format!("{namespace}/{name}")
        } else {
            name.to_owned()
        };
        let stored = self.0.store.get(kind, &key)?;
        Some(self.0.parsed.value(kind, &stored))
    }

    fn list(&self, kind: &Kind, namespace: &str) -> Vec<Arc<Value>> {
        let prefix = if namespace.is_empty() {
            String::new()
        } else {
            format!("{namespace}/")
        };
        let stored = self.0.store.list_newest(kind, &prefix);
        let parsed = stored.iter().map(|one| self.0.parsed.value(kind, one));
        parsed.collect()
    }

    fn decide(&self, user: &Identity, check: &cel::Check, verb: &str) -> cel::Decision {
        let account = |asker: &cel::Asker| match asker {
            cel::Asker::User => user.clone(),
            cel::Asker::ServiceAccount { namespace, name } => {
                Identity::service_account(namespace, name, "")
            }
        };
        let (identity, asked) = match check {
            cel::Check::Path(asker, path) => {
                let asked = Attributes {
                    verb,
                    path,
                    ..Attributes::default()
                };
                (account(asker), asked)
            }
            cel::Check::Resource(asker, resource) => {
                let asked = Attributes {
                    verb,
                    namespace: &resource.namespace,
                    group: &resource.group,
                    resource: &resource.resource,
                    subresource: &resource.subresource,
                    name: &resource.name,
                    path: "",
                    field_selector: &resource.field_selector,
                };
                (account(asker), asked)
            }
            _ => return cel::Decision::default(),
        };
        let (allowed, reason) = self.0.rbac.decide(&self.0.store, &identity, &asked);
        cel::Decision {
            allowed,
            reason,
            error: None,
        }
    }

    fn registry(&self) -> Arc<Registry> {
        self.0.registry()
    }

    fn policies(&self) -> Arc<Policies> {
        self.0.policies.current(&self.0.store)
    }

    fn may(&self, user: &Identity, verb: &str, resource: &str, name: &str) -> bool {
        let group = "certificates.k8s.io";
        let asked = Attributes {
            verb,
            group,
            resource,
            name,
            ..Attributes::default()
        };
        self.0.rbac.allows(&self.0.store, user, &asked)
    }
}

pub(crate) fn validate_create(shared: &Shared, kind: &Kind, value: &Value) -> Vec<Cause> {
    let mut causes = validation::create(kind, value, shared.settings.gates);
    causes.extend(check_schema(kind, None, value, None));
    causes
}

/// What only custom kinds and their definitions are checked for.
fn check_schema(
    kind: &Kind,
    subresource: Option<Subresource>,
    value: &Value,
    old: Option<&Value>,
) -> Vec<Cause> {
    match kind.custom() {
        Some(version) => objects::validate(version, subresource, value, old),
        None if is_definition(kind) => crd::validate(value, old),
        None => Vec::new(),
    }
}

pub(crate) fn is_definition(kind: &Kind) -> bool {
    kind.is("apiextensions.k8s.io", "CustomResourceDefinition")
}

pub(crate) fn validate_update(
    shared: &Shared,
    kind: &Kind,
    subresource: Option<Subresource>,
    new: &Value,
    old: &Value,
) -> Vec<Cause> {
    let mut causes = match subresource {
        None => validation::update(kind, new, old, shared.settings.gates),
        Some(Subresource::Approval) => validation::approval_update(new, old),
        Some(_) => validation::status_update(kind, new, old, shared.now_seconds()),
    };
    causes.extend(check_schema(kind, subresource, new, Some(old)));
    causes
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

/// A namespace that nobody has asked for in so many words. One that was made meanwhile stays as it is, and one whose name
/// is none is not made: whoever writes to it is told.
pub(crate) fn make_namespace(shared: &Arc<Shared>, name: &str) {
    let kind = admission::namespaces();
    let mut value =
        serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    default(kind, &mut value);
    stamp(shared, &mut value);
    prepare_create(shared, kind, &mut value);
    if !validate_create(shared, kind, &value).is_empty() {
        return;
    }
    let stored: Result<_, Status> = shared.store.write(|transaction| {
        if transaction.get(kind, name).is_none() {
            transaction.put(kind, name, &value, None);
        }
        Ok(())
    });
    debug_assert!(stored.is_ok(), "storing a namespace has no way to fail");
}

/// Stores the objects that exist from the start, those of them that are not there.
pub(crate) fn boot(shared: &Arc<Shared>, advertise: Option<(std::net::IpAddr, u16)>) {
    let now = shared.now();
    let serves = |resource| shared.registry().serves("certificates.k8s.io", resource);
    let options = bootstrap::Options {
        networks: &shared.networks,
        advertise,
        now: &now,
        rbac: true,
        previews: bootstrap::Previews {
            trust_bundles: serves("clustertrustbundles"),
            pod_certificates: serves("podcertificaterequests"),
        },
    };
    let stored: Result<_, Status> = shared.store.write(|transaction| {
        for (kind, mut value) in bootstrap::boot_objects(&options) {
            let text = |member: &str| {
                value["metadata"][member]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
            };
            let key = if kind.namespaced {
                format!("{}/{}", text("namespace"), text("name"))
            } else {
                text("name")
            };
            match transaction.get(&kind, &key) {
                None => {
                    metadata_mut(&mut value);
                    stamp(shared, &mut value);
                    transaction.put(&kind, &key, &value, None);
                }
                Some(held) => {
                    let mut held = held.value(&kind);
                    if bootstrap::follow_address(&kind, &mut held, &value) {
                        transaction.put(&kind, &key, &held, None);
                    }
                }
            }
        }
        // Nobody else writes yet: no marker can be ahead of its Service.
        bootstrap::addresses::repair(shared, transaction, i64::MAX);
        Ok(())
    });
    debug_assert!(stored.is_ok(), "storing boot objects has no way to fail");
}
