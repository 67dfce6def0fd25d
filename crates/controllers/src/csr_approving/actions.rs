//! What kubelets ask for.

use api::kinds::CertificateSigningRequest;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use crate::certificates::Signer;
use crate::oracle::{Actions, Draw, UserAction};

pub(super) const ACTIONS: [Actions; 1] = [Actions::of(ask)];

/// Made for this, with a key that nobody has kept.
const NODE_CLIENT: &str = include_str!("../certificates/testdata/node-client.csr");

/// One in three asks for usages that no kubelet needs.
fn ask(draw: &Draw<'_>) -> Vec<UserAction> {
    let usages = match draw.rng.chance(3) {
        true => json!(["client auth"]),
        false => json!(["digital signature", "client auth"]),
    };
    let name = format!("kubelet-{}", draw.number);
    let spec = json!({"spec": {
        "request": BASE64_STANDARD.encode(NODE_CLIENT),
        "signerName": Signer::KubeletClient.name(), "usages": usages,
    }});
    vec![UserAction::create::<CertificateSigningRequest>(
        "", &name, spec,
    )]
}
