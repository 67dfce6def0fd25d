//! What users do to requests: they ask, approve, and deny.

use api::Rng;
use api::kinds::CertificateSigningRequest;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::certificates::Signer;
use crate::oracle::{Actions, Draw, UserAction};

pub(super) const ACTIONS: [Actions; 1] = [Actions::of(ask)];

/// Made for this, with keys that nobody has kept.
const NODE_SERVING: &str = include_str!("../certificates/testdata/node-serving.csr");
const JANE: &str = include_str!("../certificates/testdata/jane.csr");

/// Some ask, and somebody else decides: rightly, wrongly, or not at all.
fn ask(draw: &Draw<'_>) -> Vec<UserAction> {
    let asked = 1 + draw.rng.below(3);
    (0..asked)
        .flat_map(|which| ask_one(draw.rng, &format!("request-{}-{which}", draw.number)))
        .collect()
}

fn ask_one(rng: &Rng, name: &str) -> Vec<UserAction> {
    let (signer, request, usage) = match rng.below(4) {
        0 => (Signer::KubeletServing.name(), NODE_SERVING, "server auth"),
        // Its names make it none of a kubelet that is a client.
        1 => (Signer::KubeletClient.name(), NODE_SERVING, "client auth"),
        2 => (Signer::ApiServerClient.name(), JANE, "client auth"),
        _ => ("example.com/unknown", JANE, "client auth"),
    };
    // No signer of ours gives a certificate for that.
    let usage = if rng.chance(4) { "code signing" } else { usage };
    let spec = json!({"spec": {
        "request": BASE64_STANDARD.encode(request), "signerName": signer,
        "usages": ["digital signature", usage],
    }});
    let create = UserAction::create::<CertificateSigningRequest>("", name, spec);
    let decided = match rng.below(4) {
        0 => Some("Denied"),
        1 | 2 => Some("Approved"),
        _ => None,
    };
    let decision = decided.map(|decision| decide(name, decision));
    std::iter::once(create).chain(decision).collect()
}

fn decide(name: &str, decision: &str) -> UserAction {
    let condition: Value = json!({
        "type": decision, "status": "True", "reason": "UserDecided", "message": "as asked",
    });
    UserAction::change_part::<CertificateSigningRequest>(
        "",
        name,
        "approval",
        json!({"status": {"conditions": [condition]}}),
        match decision {
            "Denied" => "denies",
            _ => "approves",
        },
    )
}
