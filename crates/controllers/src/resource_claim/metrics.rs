//! Upstream's figures of claims.

use std::collections::BTreeMap;

use api::kinds::{EXTENDED_RESOURCE_CLAIM, POD_CLAIM_NAME, ResourceClaim};
use prometheus::{GaugeVec, IntCounterVec};
use runtime::metrics::Stability;
use runtime::{Context, Store};

pub struct ClaimMetrics {
    creates: IntCounterVec,
    claims: GaugeVec,
}

impl ClaimMetrics {
    pub fn new(context: &Context) -> ClaimMetrics {
        let metrics = &context.metrics;
        ClaimMetrics {
            creates: metrics.counter(
                "resourceclaim_controller_creates_total",
                "Number of ResourceClaims creation requests, categorized by creation status and admin access",
                Stability::Alpha,
                &["status", "admin_access"],
            ),
            claims: metrics.gauge(
                "resourceclaim_controller_resource_claims",
                "Number of ResourceClaims, categorized by allocation status, admin access, and source. Source can be \
                 'resource_claim_template' (created from a template), 'extended_resource' (extended resources), or \
                 empty (manually created by a user).",
                Stability::Alpha,
                &["allocated", "admin_access", "source"],
            ),
        }
    }

    pub fn created(&self, is_done: bool, admin_access: bool) {
        let status = if is_done { "success" } else { "failure" };
        let labels = [status, text(admin_access)];
        self.creates.with_label_values(&labels).inc();
    }

    /// Counts everything anew: what is not there any more is not shown.
    pub fn count(&self, claims: &Store<ResourceClaim>) {
        let mut counts: BTreeMap<[&str; 3], u32> = BTreeMap::new();
        for claim in claims.list() {
            let allocated = text(claim.status.allocation.is_some());
            let admin_access = text(claim.spec.has_admin_access());
            let labels = [allocated, admin_access, source(&claim)];
            *counts.entry(labels).or_default() += 1;
        }
        self.claims.reset();
        for (labels, count) in counts {
            self.claims.with_label_values(&labels).set(count.into());
        }
    }
}

fn source(claim: &ResourceClaim) -> &'static str {
    let annotation = |name: &str| claim.metadata.annotation(name).unwrap_or_default();
    if annotation(EXTENDED_RESOURCE_CLAIM) == "true" {
        "extended_resource"
    } else if !annotation(POD_CLAIM_NAME).is_empty() {
        "resource_claim_template"
    } else {
        ""
    }
}

fn text(yes: bool) -> &'static str {
    if yes { "true" } else { "false" }
}
