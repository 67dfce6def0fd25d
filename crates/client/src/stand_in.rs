//! Stand-ins for what the `api` crate will provide; this file goes when it does.

use std::borrow::Cow;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceType {
    pub group: Cow<'static, str>,
    pub version: Cow<'static, str>,
    pub plural: Cow<'static, str>,
    pub kind: Cow<'static, str>,
    pub namespaced: bool,
}

pub type Uid = String;

pub trait Resource: Sized {
    const TYPE: ResourceType;
    fn decode(bytes: &[u8]) -> Result<Self, serde_json::Error>;
}
