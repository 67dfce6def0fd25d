//! Reading a whole body into memory, up to a limit.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;

use crate::{Body, Error};

/// What one answer may weigh. A list from the watch cache comes in one piece whatever its limit says;
/// 200,000 pods of 5 KB make 1 GB, and twice that is no longer a list but a mistake.
const MAX_ANSWER_BYTES: usize = 2 << 30;

/// One object has 1.5 MB where it is stored, and what a server serves is told in a few.
const MAX_OBJECT_BYTES: usize = 16 << 20;

/// Why something is refused is a sentence and its causes.
const MAX_REFUSAL_BYTES: usize = 1 << 20;

pub(crate) async fn collect(body: Body, request: &str) -> Result<Bytes, Error> {
    collect_up_to(MAX_ANSWER_BYTES, body, request).await
}

/// An answer that is no list.
pub(crate) async fn collect_object(body: Body, request: &str) -> Result<Bytes, Error> {
    collect_up_to(MAX_OBJECT_BYTES, body, request).await
}

/// The body of a refusal. A server that goes on for ever about it is not listened to.
pub(crate) async fn collect_refusal(body: Body, request: &str) -> Result<Bytes, Error> {
    collect_up_to(MAX_REFUSAL_BYTES, body, request).await
}

async fn collect_up_to(limit: usize, mut body: Body, request: &str) -> Result<Bytes, Error> {
    // Most answers are one chunk: keep that one as it is and copy only when a second arrives.
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|source| Error::transport(request, source))?;
        let Ok(chunk) = frame.into_data() else {
            continue;
        };
        if first.len() + rest.len() + chunk.len() > limit {
            return Err(Error::TooLarge {
                request: request.to_owned(),
                limit,
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

#[cfg(test)]
mod tests {
    use super::*;
    use http_body::Frame;
    use http_body_util::StreamBody;

    #[tokio::test]
    async fn an_endless_refusal_is_not_read_to_its_end() {
        let chunk = || Ok(Frame::data(Bytes::from(vec![b'x'; 64 * 1024])));
        let endless = futures_util::stream::repeat_with(chunk);
        let body = StreamBody::new(endless).boxed_unsync();
        let read = collect_refusal(body, "GET /api").await;
        assert!(matches!(
            read,
            Err(Error::TooLarge {
                limit: MAX_REFUSAL_BYTES,
                ..
            })
        ));
    }
}
