//! Which bundle a signer should have, and what to do about it. Pure.

use std::fmt::Write;
use std::sync::Arc;

use api::decision::Line;
use api::kinds::TrustBundle;
use ring::digest;

/// What has to be done so that there is one bundle, of this name.
pub struct Plan<B> {
    pub name: String,
    pub steps: Vec<Step<B>>,
}

pub enum Step<B> {
    Create,
    /// It holds something else.
    Update(Arc<B>),
    /// Another one of the same signer.
    Delete(Arc<B>),
}

/// `bundles` are those of the signer.
pub fn plan<B: TrustBundle>(signer: &str, bundles: &[Arc<B>], root_ca: &str) -> Plan<B> {
    let name = bundle_name(signer, root_ca);
    let mut steps = Vec::new();
    let held = bundles.iter().find(|bundle| *bundle.meta().name == *name);
    match held {
        None => steps.push(Step::Create),
        Some(held) if *held.spec().trust_bundle != *root_ca => {
            steps.push(Step::Update(held.clone()));
        }
        Some(_) => {}
    }
    let surplus = bundles.iter().filter(|bundle| *bundle.meta().name != *name);
    steps.extend(surplus.cloned().map(Step::Delete));
    Plan { name, steps }
}

/// The signer, and the first twelve bytes of the hash of the certificates.
pub fn bundle_name(signer: &str, root_ca: &str) -> String {
    let hash = digest::digest(&digest::SHA256, root_ca.as_bytes());
    let mut name = format!("{}:", signer.replace('/', ":"));
    for byte in &hash.as_ref()[..12] {
        // Writing to a string cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    name
}

impl<B: TrustBundle> From<&Step<B>> for Line {
    fn from(step: &Step<B>) -> Line {
        match step {
            Step::Create => Line::acts("CreatesBundle", "creates it")
                .because("there is none with these certificates"),
            Step::Update(_) => Line::acts("UpdatesBundle", "restores it")
                .because("it holds something else than its name says"),
            Step::Delete(_) => Line::acts("DeletesBundle", "deletes it")
                .because("the signer has another bundle now"),
        }
    }
}
