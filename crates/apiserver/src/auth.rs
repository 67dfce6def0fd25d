//! Who asks: identities.

use std::collections::BTreeMap;

/// An authenticated user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    pub user: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Identity {
    /// Callers in the same process, and the administrator's certificate.
    pub fn admin() -> Identity {
        Identity {
            user: "kubernetes-admin".to_owned(),
            groups: vec![
                "system:masters".to_owned(),
                "system:authenticated".to_owned(),
            ],
            ..Identity::default()
        }
    }

    pub fn anonymous() -> Identity {
        Identity {
            user: "system:anonymous".to_owned(),
            groups: vec!["system:unauthenticated".to_owned()],
            ..Identity::default()
        }
    }
}
