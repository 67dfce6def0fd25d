//! Keys that sign and verify: service account tokens and certificates. RSA, or ECDSA on P-256 or P-384. And texts in PEM.
//!
//! With ring, which is there for TLS, and not by a JWT library: docs/adr/0013-tokens.md says why. The signatures of
//! certificate requests that ring does not verify, and Go does, are verified by the crates of RustCrypto.

mod ecdsa;
pub mod jws;
pub mod pem;
mod private;
mod public;
mod request;

pub use ecdsa::verify_ecdsa;
pub use private::{Curve, Key, KeyError, PrivateKey};
pub use public::{Parameters, PublicKey};
pub use request::{knows_signature_of, verify_request};

/// The `AlgorithmIdentifier` of RSA keys, and of ECDSA keys on P-256 and on P-384, in DER.
const RSA_ALGORITHM: &[u8] = &[
    0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00,
];
const P256_ALGORITHM: &[u8] = &[
    0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
    0xce, 0x3d, 0x03, 0x01, 0x07,
];
const P384_ALGORITHM: &[u8] = &[
    0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b, 0x81, 0x04,
    0x00, 0x22,
];
