//! What the controllers that keep house must do, and must not do: accounts, tokens, certificates, roles, times
//! to live.

use std::sync::LazyLock;

use api::kinds::ROOT_CA_CONFIG_MAP;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use controllers::{
    cluster_role_aggregation as roles, legacy_token_cleaner as cleaner, root_ca_publisher as root,
    service_account as accounts, service_account_token as tokens, ttl, ttl_after_finished as jobs,
};

use super::mirror::Object;
use super::{Inner, Mirror};
use crate::cluster::{ROOT_CA, default_options};

const ACCOUNTS_NAME: &str = accounts::DESCRIPTOR.name;
const ROOT_NAME: &str = root::DESCRIPTOR.name;
const TTL_NAME: &str = ttl::DESCRIPTOR.name;
const JOBS_NAME: &str = jobs::DESCRIPTOR.name;
const ROLES_NAME: &str = roles::DESCRIPTOR.name;
const TOKENS_NAME: &str = tokens::DESCRIPTOR.name;
const CLEANER_NAME: &str = cleaner::DESCRIPTOR.name;

type Verdict = Result<(), String>;

static ACCOUNTS: LazyLock<Vec<String>> =
    LazyLock::new(|| accounts::DEFAULT_ACCOUNTS.map(str::to_owned).to_vec());
static ROOT_CA_BASE64: LazyLock<String> = LazyLock::new(|| BASE64_STANDARD.encode(ROOT_CA));

impl Inner {
    /// Each of them writes nothing but what is its own.
    pub(super) fn check_housekeeping(
        &self,
        controller: &str,
        before: Option<&Object>,
        after: Option<&Object>,
    ) -> Verdict {
        // Times to live are counted by the clock of whoever counts.
        let now = self.clock.now().plus(self.skew);
        match (controller, before, after) {
            (ACCOUNTS_NAME, None, Some(Object::Account(made))) => {
                accounts::safe(&made.metadata, &ACCOUNTS)
            }
            (ROOT_NAME, _, Some(Object::ConfigMap(map))) => root::safe(&map.metadata),
            (TTL_NAME, Some(Object::Node(before)), Some(Object::Node(after))) => {
                ttl::safe(before, after)
            }
            // In the foreground: it stays until its dependents are gone.
            (JOBS_NAME, Some(Object::Job(job)), _) => jobs::safe(job, now),
            (ROLES_NAME, Some(Object::Role(before)), Some(Object::Role(after)))
                if !self.views_may_lag =>
            {
                roles::safe(Some(before), after, &self.mirror.roles.list())
            }
            (ROLES_NAME, _, Some(Object::Role(_))) => Ok(()),
            (TOKENS_NAME, Some(Object::Secret(_)), Some(_)) => Ok(()),
            (TOKENS_NAME, Some(Object::Secret(secret)), None) => {
                tokens::safe(secret, &self.mirror.accounts)
            }
            (TOKENS_NAME, Some(Object::Account(_)), Some(Object::Account(_))) => Ok(()),
            (CLEANER_NAME, Some(Object::Secret(_)), Some(_)) => Ok(()),
            (CLEANER_NAME, Some(Object::Secret(secret)), None) => {
                cleaner::safe(secret, &self.mirror.accounts, clean_up_period(), now)
            }
            (
                ACCOUNTS_NAME | ROOT_NAME | TTL_NAME | JOBS_NAME | ROLES_NAME | TOKENS_NAME
                | CLEANER_NAME,
                before,
                after,
            ) => {
                let object = after.or(before).map(|object| object.meta().key());
                let what = object.map_or_else(String::new, |key| key.to_string());
                Err(format!("{controller} has no business with {what}"))
            }
            _ => Ok(()),
        }
    }
}

impl Mirror {
    pub(super) fn housekeeping_converged(&self, now: api::MicroTime) -> Verdict {
        for namespace in self.namespaces.list() {
            accounts::converged(&namespace, &self.accounts, &ACCOUNTS)?;
            if namespace.status.phase == "Active" {
                let name = &namespace.metadata.name;
                let held = self.config_maps.find(name, ROOT_CA_CONFIG_MAP);
                root::converged(held.as_deref(), ROOT_CA)
                    .map_err(|problem| format!("namespace {name}: {problem}"))?;
            }
        }
        let nodes = self.nodes.list();
        let step = ttl::select_step(0, nodes.len());
        nodes
            .iter()
            .try_for_each(|node| ttl::converged(node, step))?;
        let all = self.roles.list();
        all.iter()
            .try_for_each(|role| roles::converged(role, &all))?;
        let all = self.jobs.list();
        all.iter().try_for_each(|job| jobs::converged(job, now))?;
        for secret in self.secrets.list() {
            tokens::converged(&secret, &self.accounts, &ROOT_CA_BASE64)?;
            // No pod here mounts a secret.
            cleaner::converged(&secret, &self.accounts, false, clean_up_period(), now)?;
        }
        Ok(())
    }
}

fn clean_up_period() -> std::time::Duration {
    let config = &default_options().config.legacy_sa_token_cleaner;
    config.clean_up_period.to_std()
}
