//! Who asks, and may they? Client certificates, bearer tokens, impersonation, RBAC.

pub(crate) mod authenticate;
pub(crate) mod bootstrap_tokens;
pub(crate) mod escalation;
pub(crate) mod impersonate;
pub(crate) mod nodes;
pub(crate) mod param_access;
pub(crate) mod rbac;
pub(crate) mod rules;
pub(crate) mod tokens;

pub use rbac::Authorizer;

use std::collections::BTreeMap;

/// Members of this group may do everything, whatever the roles say.
pub const MASTERS: &str = "system:masters";
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";

/// An authenticated user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    pub user: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

/// A bearer token that is known from the start, as in kube-apiserver's token file.
#[derive(Clone)]
pub struct StaticToken {
    pub token: String,
    pub identity: Identity,
}

impl Identity {
    /// Callers in the same process, and the administrator's certificate.
    pub fn admin() -> Identity {
        Identity::new("kubernetes-admin", &[MASTERS])
    }

    /// A user in groups, authenticated.
    pub fn new(user: &str, groups: &[&str]) -> Identity {
        let mut groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
        groups.push(AUTHENTICATED.to_owned());
        Identity {
            user: user.to_owned(),
            groups,
            ..Identity::default()
        }
    }

    pub fn anonymous() -> Identity {
        Identity {
            user: "system:anonymous".to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Identity::default()
        }
    }

    pub(crate) fn service_account(namespace: &str, name: &str, uid: &str) -> Identity {
        let in_namespace = format!("system:serviceaccounts:{namespace}");
        let user = format!("system:serviceaccount:{namespace}:{name}");
        let identity = Identity::new(&user, &["system:serviceaccounts", &in_namespace]);
        Identity {
            uid: uid.to_owned(),
            ..identity
        }
    }

    pub(crate) fn is_anonymous(&self) -> bool {
        self.is_in(UNAUTHENTICATED)
    }

    pub(crate) fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|candidate| candidate == group)
    }
}
