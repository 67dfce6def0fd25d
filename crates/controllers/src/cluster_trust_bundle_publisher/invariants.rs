//! What must hold: of every write ([`safe`]), and once nothing changes any more ([`converged`]).

use std::sync::Arc;

use api::decision::counted;
use api::kinds::ClusterTrustBundle;

use super::plan::bundle_name;
use super::{DESCRIPTOR, SIGNER};
use crate::oracle::{Change, Oracle, Verdict, View, World, no_business};

#[derive(Default)]
pub struct TrustBundleOracle;

impl Oracle for TrustBundleOracle {
    fn views(&self) -> Vec<View> {
        vec![View::of::<ClusterTrustBundle>()]
    }

    fn after_write(&self, world: &World, change: &Change) -> Verdict {
        let root_ca = world.run.root_ca;
        match (
            change.after::<ClusterTrustBundle>(),
            change.gone::<ClusterTrustBundle>(),
        ) {
            (Some(written), _) => safe(Some(&written), None, root_ca),
            (None, Some(gone)) => safe(None, Some(&gone), root_ca),
            (None, None) => no_business(DESCRIPTOR.name, change),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        let bundles = world.store::<ClusterTrustBundle>().list();
        converged(&bundles, world.run.root_ca)
    }
}

/// There is one bundle of the signer, with the certificates. `bundles` are all.
pub fn converged(bundles: &[Arc<ClusterTrustBundle>], root_ca: &str) -> Verdict {
    let own = bundles.iter();
    let own = own.filter(|bundle| bundle.spec.signer_name == SIGNER);
    match own.collect::<Vec<_>>().as_slice() {
        [one] if *one.spec.trust_bundle == *root_ca => Ok(()),
        others => Err(format!(
            "{SIGNER} has {}, and not one with the root certificates",
            counted(others.len(), "trust bundle")
        )),
    }
}

/// Bundles of other signers are left alone, and what is written holds the certificates.
pub fn safe(
    written: Option<&ClusterTrustBundle>,
    gone: Option<&ClusterTrustBundle>,
    root_ca: &str,
) -> Verdict {
    let name = bundle_name(SIGNER, root_ca);
    let is_right = |bundle: &ClusterTrustBundle| {
        bundle.spec.signer_name == SIGNER
            && *bundle.metadata.name == *name
            && *bundle.spec.trust_bundle == *root_ca
    };
    let is_surplus = |bundle: &ClusterTrustBundle| {
        bundle.spec.signer_name == SIGNER && *bundle.metadata.name != *name
    };
    match written.is_none_or(is_right) && gone.is_none_or(is_surplus) {
        true => Ok(()),
        false => Err(format!(
            "a trust bundle that is not {name} was written, or it was deleted"
        )),
    }
}
