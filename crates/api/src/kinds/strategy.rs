//! How update strategies look on the wire: a type, and limits that only a rolling update has.

use serde::Deserialize;

use crate::Istr;
use crate::int_or_string::IntOrString;
use crate::meta::or_default;

/// The part that Deployments and DaemonSets share; each reads its own meaning of `type`.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct WireStrategy {
    pub(super) r#type: Istr,
    #[serde(deserialize_with = "or_default")]
    pub(super) rolling_update: WireRolling,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct WireRolling {
    pub(super) max_unavailable: Option<IntOrString>,
    pub(super) max_surge: Option<IntOrString>,
}
