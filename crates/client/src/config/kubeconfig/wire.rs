//! The kubeconfig as it is written. Unknown fields are skipped, absent and null ones are empty.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::{Deserializer, Error};

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", expecting = "the map that a kubeconfig is")]
pub(super) struct Document {
    pub(super) current_context: Option<String>,
    pub(super) clusters: Option<Vec<Named<Cluster>>>,
    pub(super) contexts: Option<Vec<Named<Context>>>,
    pub(super) users: Option<Vec<Named<User>>>,
}

/// `{name: …, cluster|context|user: {…}}`
pub(super) struct Named<T> {
    pub(super) name: String,
    pub(super) value: T,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case", expecting = "the map of a cluster")]
pub(super) struct Cluster {
    pub(super) server: String,
    pub(super) tls_server_name: String,
    pub(super) insecure_skip_tls_verify: bool,
    pub(super) certificate_authority: String,
    pub(super) certificate_authority_data: String,
    pub(super) proxy_url: String,
    pub(super) extensions: Option<Vec<Extension>>,
}

#[derive(Deserialize)]
#[serde(expecting = "the map of an extension")]
pub(super) struct Extension {
    pub(super) name: String,
    #[serde(default)]
    pub(super) extension: serde_json::Value,
}

#[derive(Default, Deserialize)]
#[serde(default, expecting = "the map of a context")]
pub(super) struct Context {
    pub(super) cluster: String,
    pub(super) user: String,
    pub(super) namespace: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case", expecting = "the map of a user")]
pub(super) struct User {
    pub(super) client_certificate: String,
    pub(super) client_certificate_data: String,
    pub(super) client_key: String,
    pub(super) client_key_data: String,
    pub(super) token: String,
    #[serde(rename = "tokenFile")]
    pub(super) token_file: String,
    pub(super) username: String,
    pub(super) password: String,
    #[serde(rename = "as")]
    pub(super) impersonate: String,
    #[serde(rename = "as-uid")]
    pub(super) impersonate_uid: String,
    #[serde(rename = "as-groups")]
    pub(super) impersonate_groups: Option<Vec<String>>,
    #[serde(rename = "as-user-extra")]
    pub(super) impersonate_extra: Option<BTreeMap<String, Vec<String>>>,
    pub(super) auth_provider: Option<AuthProvider>,
    pub(super) exec: Option<Exec>,
}

#[derive(Default, Deserialize)]
#[serde(default, expecting = "the map of an auth-provider")]
pub(super) struct AuthProvider {
    pub(super) name: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "the map of exec")]
pub(super) struct Exec {
    pub(super) command: String,
    pub(super) args: Option<Vec<String>>,
    pub(super) env: Option<Vec<EnvironmentVariable>>,
    pub(super) api_version: String,
    pub(super) install_hint: String,
    pub(super) provide_cluster_info: bool,
    pub(super) interactive_mode: String,
}

#[derive(Deserialize)]
#[serde(expecting = "a map of name and value")]
pub(super) struct EnvironmentVariable {
    pub(super) name: String,
    #[serde(default)]
    pub(super) value: String,
}

impl<'de, T: Deserialize<'de> + Default> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The value's key is the singular of the list's name; whichever it is, there is just one.
        #[derive(Deserialize)]
        #[serde(
            bound(deserialize = "T: Deserialize<'de>"),
            expecting = "a map with a name"
        )]
        struct Entry<T> {
            name: Option<String>,
            cluster: Option<T>,
            context: Option<T>,
            user: Option<T>,
        }
        let entry = Entry::<T>::deserialize(deserializer)?;
        let name = entry
            .name
            .ok_or_else(|| D::Error::custom("an entry has no name"))?;
        let value = entry
            .cluster
            .or(entry.context)
            .or(entry.user)
            .unwrap_or_default();
        Ok(Named { name, value })
    }
}
