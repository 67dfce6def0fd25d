//! Objects kept small: compressed once they have not been written for a while, unpacked whenever they are read.

use bytes::Bytes;

/// The JSON of one object.
#[derive(Clone)]
pub(crate) enum Packed {
    Plain(Bytes),
    Compressed { bytes: Box<[u8]>, length: usize },
}

impl Default for Packed {
    fn default() -> Packed {
        Packed::Plain(Bytes::new())
    }
}

/// Below it there is little to gain.
const SHORTEST: usize = 200;

impl Packed {
    pub(crate) fn pack(body: Bytes) -> Packed {
        if body.len() < SHORTEST {
            return Packed::Plain(body);
        }
        let bytes = lz4_flex::block::compress(&body);
        // It has to be worth unpacking it.
        if bytes.len() * 5 > body.len() * 4 {
            return Packed::Plain(body);
        }
        Packed::Compressed {
            bytes: bytes.into_boxed_slice(),
            length: body.len(),
        }
    }

    pub(crate) fn unpack(&self) -> Bytes {
        match self {
            Packed::Plain(body) => body.clone(),
            Packed::Compressed { bytes, length } => {
                let body = lz4_flex::block::decompress(bytes, *length);
                Bytes::from(body.expect("it was packed here"))
            }
        }
    }

    /// How many bytes it takes as it is.
    pub(crate) fn held(&self) -> usize {
        match self {
            Packed::Plain(body) => body.len(),
            Packed::Compressed { bytes, .. } => bytes.len(),
        }
    }

    /// How long it is unpacked.
    pub(crate) fn len(&self) -> usize {
        match self {
            Packed::Plain(body) => body.len(),
            Packed::Compressed { length, .. } => *length,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_body_is_found_again() {
        let rng = api::Rng::from_seed(1);
        let noise = (0..1000).map(|_| (rng.next_u64() % 256) as u8).collect();
        let json = r#"{"name":"VARIABLE","value":"a value of the usual length"}"#.repeat(20);
        let bodies = [
            (Bytes::new(), false),
            (Bytes::from_static(b"{}"), false),
            (noise, false),
            (Bytes::from(json), true),
        ];
        for (body, shrinks) in bodies {
            let packed = Packed::pack(body.clone());
            assert_eq!(matches!(packed, Packed::Compressed { .. }), shrinks);
            assert_eq!((packed.unpack(), packed.len()), (body.clone(), body.len()));
        }
    }
}
