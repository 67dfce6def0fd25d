//! What Kubernetes objects are, as far as controllers read them.
//!
//! Pure data: *views* with exactly the fields that controllers read, and the small languages
//! around them (selectors, quantities, times, names). No IO, no async, no clock of its own, no
//! logging. What repeats across objects is interned, so a cached pod costs a few hundred bytes.
//!
//! Pod templates stay raw JSON ([`template`], [`json`]): a field that a newer API server added
//! passes through us untouched.

pub mod amounts;
pub mod calendar;
pub mod cidr;
pub mod clock;
pub mod collections;
pub mod cron;
pub mod decision;
pub mod gates;
mod go_dump;
mod go_duration;
pub mod hash;
mod http_date;
pub mod intern;
pub mod ip;
pub mod json;
mod json_path;
pub mod key;
pub mod kinds;
pub mod labels;
mod lru;
pub mod meta;
pub mod mutation;
pub mod names;
pub mod pod_resources;
pub mod protobuf;
pub mod quota;
pub mod random;
pub mod resource;
pub mod template;
pub mod time;
pub mod uid;
pub mod usage;
pub mod yaml;

pub use amounts::Amounts;
pub use cidr::Cidr;
pub use clock::Clock;
pub use decision::ObjectId;
pub use gates::{Gate, Gates};
pub use go_duration::GoDuration;
pub use intern::Istr;
pub use key::Key;
pub use labels::LabelSet;
pub use lru::Lru;
pub use meta::{Meta, OwnerRef};
pub use random::Rng;
pub use resource::{DecodeError, Resource, ResourceType};
pub use template::Template;
pub use time::{MicroTime, Time};
pub use uid::Uid;

pub mod conditions;
pub mod int_or_string;
pub mod node_affinity;
pub mod pod_affinity;
pub mod quantity;
pub mod selector;
pub mod syntax;
pub mod taints;
mod text_enum;

pub use conditions::Condition;
pub use int_or_string::IntOrString;
pub use node_affinity::Affinity;
pub use quantity::Quantity;
pub use selector::{FieldSelector, LabelSelector, Selector};
pub use taints::{Taint, Toleration};
