//! Types of the expressions of validating admission policies. A small controller.
//!
//! **Converges**: `status.typeChecking` of every policy says which of its expressions do not fit the schemas of the kinds
//! that its rules name, and `status.observedGeneration` which generation that is about.
//!
//! **Triggers**: new and changed policies.
//!
//! **Writes**: server-side apply of the status, forced, as `validatingadmissionpolicy-status`; once per generation.
//!
//! **Reads**, when there is a generation to check: discovery, and the OpenAPI v3 documents of the groups that the rules
//! name. Nothing of them is kept.
//!
//! **Mirrors** `pkg/controller/validatingadmissionpolicystatus`, and `typechecking.go` of
//! `k8s.io/apiserver/pkg/admission/plugin/policy/validating`.
//!
//! **Deliberate differences**: when schemas cannot be read the policy is checked again later, where upstream checks it
//! without them; types of objects are called by their kind, where upstream adds a random number.

mod actions;
mod invariants;
mod plan;
mod schema;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::decision::{Line, agree, counted};
use api::kinds::ValidatingAdmissionPolicy;
use api::{Key, ObjectId, Resource};
use bytes::Bytes;
use cel::Decl;
use client::Patch;
use http::Request;
use runtime::rate_limit::Backoff;
use runtime::{Change, Context, Controller, Error, Loop, Next, Reconcile, Report, Store};
use serde_json::{Value, json};

use crate::Descriptor;
use crate::discovery::{self, DiscoveryError};
use crate::oracle::View;

pub use invariants::{PolicyStatusOracle, converged, safe};
pub use plan::{Checked, Gvk, check, types_to_check};

pub const DESCRIPTOR: Descriptor = Descriptor {
    caches: &[View::of::<ValidatingAdmissionPolicy>()],
    decides_about: &[ValidatingAdmissionPolicy::TYPE],
    queues: &[QUEUE],
    build: Some(|ctx| {
        let settings = &ctx.config.validating_admission_policy_status_controller;
        let workers = ctx.workers(settings.concurrent_syncs);
        Some(controller(ctx, workers).into())
    }),
    oracle: Some(|| Box::<PolicyStatusOracle>::default()),
    actions: &actions::ACTIONS,
    ..Descriptor::named(
        "validatingadmissionpolicy-status-controller",
        "",
        "validatingadmissionpolicy-status-controller",
    )
};

/// The queue's name, and the field manager's.
const QUEUE: &str = "validatingadmissionpolicy-status";

pub fn controller(context: &Context, workers: usize) -> Controller {
    Loop::on::<Key>(context, Backoff::DEFAULT)
        .queue(QUEUE)
        .watches::<ValidatingAdmissionPolicy>(|change, queue| {
            if !matches!(change, Change::Deleted(_)) {
                queue.add(change.object().key());
            }
        })
        .workers(workers)
        .reconciler(PolicyStatus {
            context: context.clone(),
            policies: context.informers.store::<ValidatingAdmissionPolicy>(),
        })
}

pub struct PolicyStatus {
    context: Context,
    policies: Arc<Store<ValidatingAdmissionPolicy>>,
}

/// Whether a policy is to be checked: its status is about an older generation.
pub fn is_due(policy: &ValidatingAdmissionPolicy) -> bool {
    policy.metadata.generation > policy.status.observed_generation
}

impl Reconcile for PolicyStatus {
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        let Some(policy) = self.policies.get(key).filter(|policy| is_due(policy)) else {
            return Ok(Next::AwaitChange);
        };
        let (types, params) = self.resolve(&policy).await?;
        let warnings = check(&policy, &types, params.as_ref());
        let what = match warnings.len() {
            0 => "says that its expressions fit their types".to_owned(),
            count => format!(
                "says that {} {} not fit",
                counted(count as u64, "expression"),
                agree(count as u64, "does", "do")
            ),
        };
        let generation = policy.metadata.generation;
        let line = Line::acts("ChecksTypes", what).because(format!(
            "generation {generation} was checked against {}",
            counted(types.len() as u64, "schema")
        ));
        report.decide(ObjectId::of(&*policy), [line]);
        let mut checking = json!({});
        if !warnings.is_empty() {
            checking["expressionWarnings"] = json!(warnings);
        }
        let resource = ValidatingAdmissionPolicy::TYPE;
        let body = json!({
            "apiVersion": resource.api_version(), "kind": resource.kind,
            // Of another one of the name, generations start at one.
            "metadata": {"name": key.name, "uid": policy.metadata.uid},
            "status": {"observedGeneration": generation, "typeChecking": checking},
        });
        let patch = Patch::Apply {
            body: body.to_string().into(),
            field_manager: QUEUE.into(),
            force: true,
        };
        let client = &self.context.client;
        client
            .patch(&resource, "", &key.name, Some("status"), &patch)
            .await?;
        Ok(Next::AwaitChange)
    }
}

impl PolicyStatus {
    /// The types that a policy is about, and that of its parameters, as far as they have schemas.
    async fn resolve(
        &self,
        policy: &ValidatingAdmissionPolicy,
    ) -> Result<(Vec<Checked>, Option<Arc<Decl>>), Error> {
        let client = &self.context.client;
        let served = discovery::discover(client).await.map_err(retry)?;
        let params = policy.spec.param_kind.as_ref();
        let params = params.map(|params| Gvk::new(&params.api_version, &params.kind));
        let mut documents = BTreeMap::new();
        let mut types = Vec::new();
        for gvk in types_to_check(policy, &served) {
            if let Some(decl) = self.declaration(&gvk, &mut documents).await? {
                types.push(Checked { gvk, decl });
            }
        }
        let params = match params {
            Some(gvk) => self.declaration(&gvk, &mut documents).await?,
            None => None,
        };
        Ok((types, params))
    }

    async fn declaration(
        &self,
        gvk: &Gvk,
        documents: &mut BTreeMap<String, Option<Value>>,
    ) -> Result<Option<Arc<Decl>>, Error> {
        let path = gvk.document();
        if !documents.contains_key(&path) {
            let document = self.document(&path).await?;
            documents.insert(path.clone(), document);
        }
        let document = documents.get(&path).and_then(Option::as_ref);
        let schema = document.and_then(|document| schema::resolve(document, gvk));
        let decl = schema.and_then(|schema| Decl::from_schema(&schema, &gvk.kind, true));
        Ok(decl.map(Arc::new))
    }

    /// The OpenAPI document of a group's version; nothing if it has none.
    async fn document(&self, path: &str) -> Result<Option<Value>, Error> {
        let request = Request::get(path)
            .header(http::header::ACCEPT, "application/json")
            .body(Bytes::new());
        // A name that makes no path is that of nothing.
        let Ok(request) = request else {
            return Ok(None);
        };
        match self.context.client.request(request).await {
            Ok(body) => {
                let read = serde_json::from_slice(&body);
                read.map(Some).map_err(|error| {
                    Error::Retry(format!(
                        "GET {path} was not answered with a document: {error}"
                    ))
                })
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

fn retry(error: DiscoveryError) -> Error {
    match error {
        DiscoveryError::Client(error) => error.into(),
        other => Error::Retry(other.to_string()),
    }
}
