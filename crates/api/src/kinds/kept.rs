//! `spec` and `status` of an object as they came, for those who write it back whole.
//!
//! Roles that may update and not patch make a controller write every field of an object, also those that its view does
//! not have. Of objects that are about to be written their text is kept, so that nobody has to read them once more.

use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::resource::Resource;

/// An object of which the text may be at hand.
pub trait Rewritten: Resource {
    /// `{"spec": …, "status": …}` of the revision that the view is of; none where it was not kept.
    fn kept(&self) -> Option<&str>;
}

/// What a view tells apart stands in its fields: by their texts two are always equal.
#[derive(Clone, Default)]
pub(super) struct Kept(Option<Box<str>>);

impl Kept {
    pub(super) fn of(json: &[u8]) -> Kept {
        #[derive(Deserialize)]
        struct Parts<'a> {
            #[serde(borrow)]
            spec: Option<&'a RawValue>,
            #[serde(borrow)]
            status: Option<&'a RawValue>,
        }
        let Ok(Parts { spec, status }) = serde_json::from_slice(json) else {
            return Kept::default();
        };
        let text = |part: Option<&RawValue>| part.map_or("{}", RawValue::get).to_owned();
        let (spec, status) = (text(spec), text(status));
        Kept(Some(
            format!(r#"{{"spec":{spec},"status":{status}}}"#).into(),
        ))
    }

    pub(super) fn text(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl PartialEq for Kept {
    fn eq(&self, _: &Kept) -> bool {
        true
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "kept" } else { "not kept" })
    }
}
