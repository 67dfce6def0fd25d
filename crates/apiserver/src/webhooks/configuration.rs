//! Webhooks as their configurations describe them.

use crate::kinds::Kind;
use crate::policy::conditions::Conditions;
use crate::policy::criteria::Criteria;
use crate::policy::expression::Compiler;
use crate::storage::Store;
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// One webhook, compiled.
pub(super) struct Webhook {
    /// Tells webhooks of the same name apart.
    pub(super) id: String,
    pub(super) spec: WebhookSpec,
    pub(super) criteria: Criteria,
    pub(super) conditions: Conditions,
}

/// `admissionregistration.k8s.io/v1` MutatingWebhook and ValidatingWebhook.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WebhookSpec {
    pub(super) name: String,
    pub(super) client_config: ClientConfig,
    failure_policy: Option<String>,
    side_effects: Option<String>,
    timeout_seconds: Option<u64>,
    #[serde(default)]
    pub(super) admission_review_versions: Vec<String>,
    reinvocation_policy: Option<String>,
}

/// Where a webhook is.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClientConfig {
    pub(crate) url: Option<String>,
    pub(crate) service: Option<ServiceReference>,
    /// PEM in base64.
    pub(crate) ca_bundle: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub(crate) struct ServiceReference {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) path: Option<String>,
    pub(crate) port: Option<u16>,
}

/// UPSTREAM: how long a webhook may take that does not say.
const DEFAULT_TIMEOUT_SECONDS: u64 = 10;

/// UPSTREAM: and at most.
const MAX_TIMEOUT_SECONDS: u64 = 30;

impl WebhookSpec {
    pub(super) fn fails_open(&self) -> bool {
        self.failure_policy.as_deref() == Some("Ignore")
    }

    pub(super) fn is_reinvoked(&self) -> bool {
        self.reinvocation_policy.as_deref() == Some("IfNeeded")
    }

    pub(super) fn supports_dry_run(&self) -> bool {
        matches!(self.side_effects.as_deref(), Some("None" | "NoneOnDryRun"))
    }

    pub(super) fn timeout(&self) -> Duration {
        let seconds = self.timeout_seconds.unwrap_or(DEFAULT_TIMEOUT_SECONDS);
        Duration::from_secs(seconds.clamp(1, MAX_TIMEOUT_SECONDS))
    }
}

/// The webhooks of all configurations of a kind. UPSTREAM: by the name of the configuration, then in its order.
pub(super) fn read(store: &Store, kind: &Arc<Kind>) -> Vec<Webhook> {
    let mut webhooks = Vec::new();
    for stored in store.list_newest(kind, "") {
        let configuration = stored.value(kind);
        let hooks = configuration["webhooks"].as_array().into_iter().flatten();
        for (index, hook) in hooks.enumerate() {
            match WebhookSpec::deserialize(hook) {
                Ok(spec) => webhooks.push(Webhook::new(stored.name(), index, spec, hook)),
                // Validation has seen to it that this does not happen.
                Err(why) => tracing::error!(
                    configuration = stored.name(), index, %why, "a stored webhook cannot be read and is not called"
                ),
            }
        }
    }
    webhooks
}

impl Webhook {
    fn new(configuration: &str, index: usize, spec: WebhookSpec, hook: &Value) -> Webhook {
        let conditions = &hook["matchConditions"];
        Webhook {
            id: format!("{configuration}/{}/{index}", spec.name),
            criteria: Criteria::of_webhook(hook),
            conditions: Conditions::read(
                conditions,
                false,
                &mut Compiler::default(),
                spec.fails_open(),
            ),
            spec,
        }
    }
}

impl ClientConfig {
    /// As a definition or a configuration has it.
    pub(crate) fn read(value: &Value) -> Option<ClientConfig> {
        ClientConfig::deserialize(value).ok()
    }
}
