//! Whose token a secret holds, and what it lacks. Pure.

use std::fmt;

use api::kinds::{SERVICE_ACCOUNT_TOKEN, Secret};
use api::{Istr, Meta, Uid};

/// The annotations by which a secret names its account.
pub(super) const NAME_KEY: &str = "kubernetes.io/service-account.name";
pub(super) const UID_KEY: &str = "kubernetes.io/service-account.uid";

/// The account that a secret names; without a uid any of that name is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub name: Istr,
    pub uid: Option<Uid>,
}

impl Owner {
    pub fn means(&self, account: &Meta) -> bool {
        *self.name == *account.name && self.uid.as_ref().is_none_or(|uid| *uid == account.uid)
    }
}

/// `None` for secrets that are no tokens, or nobody's.
pub fn owner(secret: &Secret) -> Option<Owner> {
    if secret.type_ != SERVICE_ACCOUNT_TOKEN {
        return None;
    }
    let meta = &secret.metadata;
    let name = meta.annotation(NAME_KEY).filter(|name| !name.is_empty())?;
    let uid = meta.annotation(UID_KEY).filter(|uid| !uid.is_empty());
    Some(Owner {
        name: Istr::new(name),
        uid: uid.map(Uid::from),
    })
}

/// What a token secret lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    pub token: bool,
    pub namespace: bool,
    pub ca: bool,
}

/// `root_ca` in base64; empty if there is none to give.
pub fn missing(secret: &Secret, root_ca: &str) -> Missing {
    let held = |key: &str| secret.data.get(key).map_or("", |value| value.as_str());
    Missing {
        token: held("token").is_empty(),
        namespace: held("namespace").is_empty(),
        ca: !root_ca.is_empty() && held("ca.crt") != root_ca,
    }
}

impl Missing {
    pub fn any(self) -> bool {
        self.token || self.namespace || self.ca
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<&str> = [
            (self.token, "a token"),
            (self.namespace, "its namespace"),
            (self.ca, "the root certificates"),
        ]
        .iter()
        .filter(|(lacks, _)| *lacks)
        .map(|(_, name)| *name)
        .collect();
        write!(f, "writes {} into it", parts.join(", "))
    }
}
