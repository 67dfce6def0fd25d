//! What the API server wraps a protobuf object in.

use api::protobuf::{self, Malformed, Message, Value};
use http::HeaderValue;

/// How bytes from the API server are to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    #[default]
    Json,
    Protobuf,
}

/// The media type of whole objects and of watches alike, but for parameters.
const MEDIA_TYPE: &[u8] = b"application/vnd.kubernetes.protobuf";

/// Every object begins with this, so that it cannot be taken for JSON.
const MAGIC: &[u8] = b"k8s\0";

impl Encoding {
    /// As the content type says; an old or embedded server may answer JSON to whoever asked for protobuf.
    pub(crate) fn of(content_type: Option<&HeaderValue>) -> Encoding {
        match content_type {
            Some(value) if value.as_bytes().starts_with(MEDIA_TYPE) => Encoding::Protobuf,
            _ => Encoding::Json,
        }
    }
}

/// The kind of an object and its message.
#[derive(Default)]
pub(crate) struct Envelope<'a> {
    pub(crate) kind: &'a str,
    pub(crate) message: &'a [u8],
}

impl<'a> Envelope<'a> {
    pub(crate) fn open(bytes: &'a [u8]) -> Result<Envelope<'a>, Malformed> {
        let inside = bytes
            .strip_prefix(MAGIC)
            .ok_or_else(|| Malformed::new("does not begin as Kubernetes objects do"))?;
        protobuf::read(inside)
    }

    pub(crate) fn is_one(bytes: &[u8]) -> bool {
        bytes.starts_with(MAGIC)
    }
}

impl<'a> Message<'a> for Envelope<'a> {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        match field {
            // The type: version and kind.
            1 => protobuf::descend(value, &[2], &mut |kind| {
                self.kind = kind.text()?;
                Ok(())
            })?,
            2 => self.message = value.bytes()?,
            _ => {}
        }
        Ok(())
    }
}
