//! A request that is being answered, to the last byte of its answer.

use crate::seats::Seat;
use bytes::Buf;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};

/// While it lives, its connection is busy.
pub struct InFlight(pub(crate) Seat);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The body of an answer that keeps its connection busy until it ends, and whatever else has to live as long.
pub struct Held<B, K> {
    body: B,
    _kept: K,
}

impl<B, K> Held<B, K> {
    pub fn new(body: B, kept: K) -> Held<B, K> {
        Held { body, _kept: kept }
    }
}

impl<D: Buf, B: Body<Data = D> + Unpin, K: Unpin> Body for Held<B, K> {
    type Data = D;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<D>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
