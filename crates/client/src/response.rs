//! Reading a whole body into memory, up to a limit.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;

use crate::{Body, Error};

/// What one answer may weigh. A list from the watch cache comes in one piece whatever its limit says;
/// 200,000 pods of 5 KB make 1 GB, and twice that is no longer a list but a mistake.
const MAX_ANSWER_BYTES: usize = 2 << 30;

pub(crate) async fn collect(mut body: Body, request: &str) -> Result<Bytes, Error> {
    // Most answers are one chunk: keep that one as it is and copy only when a second arrives.
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|source| Error::transport(request, source))?;
        let Ok(chunk) = frame.into_data() else {
            continue;
        };
        if first.len() + rest.len() + chunk.len() > MAX_ANSWER_BYTES {
            return Err(Error::TooLarge {
                request: request.to_owned(),
                limit: MAX_ANSWER_BYTES,
            });
        }
        if first.is_empty() && rest.is_empty() {
            first = chunk;
        } else {
            if !first.is_empty() {
                rest.extend_from_slice(&std::mem::take(&mut first));
            }
            rest.extend_from_slice(&chunk);
        }
    }
    Ok(if rest.is_empty() {
        first
    } else {
        rest.freeze()
    })
}
