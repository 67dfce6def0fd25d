//! Leases, as far as they are signs of life.

use serde::Deserialize;

use crate::meta::{Meta, WireMeta};
use crate::protobuf::{Malformed, Message, Value};
use crate::resource::{DecodeError, Resource, ResourceType, decode_json, decode_protobuf};
use crate::time::MicroTime;

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct Lease {
    pub metadata: Meta,
    pub spec: LeaseSpec,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaseSpec {
    pub renew_time: Option<MicroTime>,
}

impl Resource for Lease {
    const TYPE: ResourceType =
        ResourceType::namespaced("coordination.k8s.io", "v1", "leases", "Lease");

    /// Every node renews its lease six times a minute.
    const PROTOBUF: bool = true;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn decode(json: &[u8]) -> Result<Lease, DecodeError> {
        decode_json(&Lease::TYPE, json)
    }

    fn decode_protobuf(message: &[u8]) -> Result<Lease, DecodeError> {
        decode_protobuf(&Lease::TYPE, message)
    }
}

impl<'a> Message<'a> for Lease {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        match field {
            1 => self.metadata = value.message::<WireMeta>()?.into(),
            2 => self.spec = value.message()?,
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for LeaseSpec {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        if field == 4 {
            let Moment { seconds, nanos } = value.message()?;
            let micros = seconds.saturating_mul(1_000_000) + nanos / 1000;
            self.renew_time = Some(MicroTime::from_unix_micros(micros));
        }
        Ok(())
    }
}

/// A `MicroTime` on the wire.
#[derive(Default)]
struct Moment {
    seconds: i64,
    nanos: i64,
}

impl<'a> Message<'a> for Moment {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        match field {
            1 => self.seconds = value.number()?,
            2 => self.nanos = value.number()?,
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Metadata with a name; a holder that is passed over; the renew time 5.25 s after the epoch.
    const MESSAGE: [u8; 21] = [
        0x0a, 3, 0x0a, 1, b'n', 0x12, 14, 0x0a, 1, b'x', 0x22, 9, 0x08, 5, 0x10, 0x80, 0xe5, 0x9a,
        0x77, 0x18, 0,
    ];

    #[test]
    fn json_and_protobuf_give_the_same_view() {
        let json = r#"{"metadata":{"name":"n"},"spec":{"holderIdentity":"x","renewTime":"1970-01-01T00:00:05.250000Z"}}"#;
        let lease = Lease::decode(json.as_bytes()).unwrap();
        assert_eq!(Lease::decode_protobuf(&MESSAGE).unwrap(), lease);
        let renewed = lease.spec.renew_time.unwrap();
        assert_eq!(renewed.unix_micros(), 5_250_000);
        let never = Lease::decode(br#"{"metadata":{"name":"n"}}"#).unwrap();
        assert_eq!(never.spec.renew_time, None);
    }
}
