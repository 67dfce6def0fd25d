//! What users do to published trust bundles.

use api::kinds::ClusterTrustBundle;
use serde_json::json;

use super::SIGNER;
use crate::oracle::{Actions, Draw, UserAction};

pub(super) const ACTIONS: [Actions; 1] = [Actions::of(publish_another)];

/// One of the same signer, as an older root would have left, or one of another signer, which is nobody's business.
fn publish_another(draw: &Draw<'_>) -> Vec<UserAction> {
    let signer = match draw.rng.chance(2) {
        true => SIGNER,
        false => "example.com/signer",
    };
    let name = format!("{}:old-{}", signer.replace('/', ":"), draw.number);
    let bundle = json!({"spec": {"signerName": signer, "trustBundle": OLD_ROOT}});
    vec![UserAction::create::<ClusterTrustBundle>("", &name, bundle)]
}

const OLD_ROOT: &str = include_str!("../certificates/testdata/ca.crt");
