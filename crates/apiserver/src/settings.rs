//! What kube-apiserver's flags choose, as far as this server has a choice. The default is the cluster in a box.

use crate::admission::{PluginSettings, Plugins};
use crate::audit::Auditor;
use crate::auth::Authorizer;
use crate::kinds::ServedVersions;
use api::Gates;
use keys::PublicKey;
use std::sync::Arc;

#[derive(Clone)]
pub struct Settings {
    pub anonymous: Anonymous,
    /// Whether bootstrap tokens are credentials.
    pub bootstrap_tokens: bool,
    /// Who is asked whether a request may be made, in this order.
    pub authorizers: Vec<Authorizer>,
    pub plugins: Plugins,
    /// What they were told by files.
    pub plugin_settings: PluginSettings,
    pub tolerations: TolerationSeconds,
    /// Whether containers may be privileged at all.
    pub allow_privileged: bool,
    pub event_lifetime_seconds: i64,
    pub service_account_tokens: ServiceAccountTokens,
    /// Those that change what is valid: `HPAScaleToZero`.
    pub gates: Gates,
    /// Which of the built-in kinds are served.
    pub served: ServedVersions,
    /// Who notes what is asked; none: nobody.
    pub audit: Option<Arc<Auditor>>,
}

/// What becomes of callers without credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anonymous {
    Refused,
    /// They may ask whether the server is well, and which version it has.
    HealthOnly,
    /// They are a user like any other.
    Allowed,
}

/// How long pods stay on nodes that are not ready or unreachable, unless they say so themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TolerationSeconds {
    pub not_ready: i64,
    pub unreachable: i64,
}

/// Beside the key that signs and the issuer that is written into tokens.
#[derive(Clone, Debug, Default)]
pub struct ServiceAccountTokens {
    /// What else verifies tokens.
    pub keys: Vec<PublicKey>,
    /// Other issuers whose tokens are believed.
    pub accepted_issuers: Vec<String>,
    /// Audiences of this server; empty: its issuer.
    pub audiences: Vec<String>,
    /// Where the discovery document says that the keys are; none: at this server's own address.
    pub keys_url: Option<String>,
    /// No token is good for longer; none: as long as it asks for.
    pub longest_seconds: Option<i64>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            anonymous: Anonymous::HealthOnly,
            bootstrap_tokens: true,
            authorizers: vec![Authorizer::Node, Authorizer::Rbac],
            plugins: Plugins::default().with_node_restriction(),
            plugin_settings: PluginSettings::default(),
            tolerations: TolerationSeconds::default(),
            allow_privileged: true,
            // UPSTREAM: --event-ttl.
            event_lifetime_seconds: 3600,
            service_account_tokens: ServiceAccountTokens::default(),
            gates: Gates::default(),
            served: ServedVersions::default(),
            audit: None,
        }
    }
}

impl Default for TolerationSeconds {
    /// UPSTREAM: --default-not-ready-toleration-seconds and its sibling.
    fn default() -> TolerationSeconds {
        TolerationSeconds {
            not_ready: 300,
            unreachable: 300,
        }
    }
}
