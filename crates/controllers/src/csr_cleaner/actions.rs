//! What users leave behind.

use std::time::Duration;

use api::kinds::CertificateSigningRequest;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use crate::certificates::Signer;
use crate::oracle::{Actions, Draw, UserAction};

pub(super) const ACTIONS: [Actions; 1] = [Actions {
    draw: forget,
    // A day, and two looks.
    takes: Duration::from_secs(26 * 60 * 60),
}];

/// Made for this, with a key that nobody has kept.
const JANE: &str = include_str!("../certificates/testdata/jane.csr");

/// A request that nobody decides about.
fn forget(draw: &Draw<'_>) -> Vec<UserAction> {
    let name = format!("forgotten-{}", draw.number);
    let spec = json!({"spec": {
        "request": BASE64_STANDARD.encode(JANE),
        "signerName": Signer::ApiServerClient.name(), "usages": ["client auth"],
    }});
    vec![UserAction::create::<CertificateSigningRequest>(
        "", &name, spec,
    )]
}
