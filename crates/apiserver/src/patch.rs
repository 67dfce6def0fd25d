//! Patches: JSON patch (RFC 6902), merge patch (RFC 7386) and Kubernetes' strategic merge patch.

mod depth;
mod json;
mod merge;
mod restore;
mod strategic;

pub(crate) use depth::check as check_depth;
pub(crate) use json::{MAX_OPERATIONS, apply as json, operate_all};
pub(crate) use merge::apply as merge;
pub(crate) use restore::{check as check_shapes, go_print};
pub(crate) use strategic::apply as strategic;
