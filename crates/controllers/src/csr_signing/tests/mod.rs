//! Certificates first, then where authorities come from, then the whole against the embedded API server.

mod authority;
mod ca_source;
mod plan;
mod sync;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

const CA_CERTIFICATE: &str = include_str!("../../certificates/testdata/ca.crt");
const CA_KEY: &str = include_str!("../../certificates/testdata/ca.key");
const NODE_CLIENT: &str = include_str!("../../certificates/testdata/node-client.csr");
const NODE_SERVING: &str = include_str!("../../certificates/testdata/node-serving.csr");
const JANE: &str = include_str!("../../certificates/testdata/jane.csr");

fn encoded(pem: &str) -> String {
    BASE64_STANDARD.encode(pem)
}
