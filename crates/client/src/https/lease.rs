//! The right to send one request over a connection, kept until the answer has been read.

use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;

use super::http2;
use crate::{Body, BoxError};

pub(super) struct Lease {
    sender: Sender,
    reused: bool,
}

enum Sender {
    Http2 {
        connection: http2::Connection,
        _stream: OpenStream,
    },
    Http1(ReturnedWhenDropped),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Http2,
    Http1,
}

pub(super) enum SendError {
    /// The connection was closed before anything went out: safe to send elsewhere, whatever it is.
    Unsent(BoxError),
    /// Nobody knows whether the server saw it.
    Broken(BoxError),
}

/// Idle HTTP/1 connections of one generation of credentials.
pub(super) type IdleHttp1 = Mutex<Vec<http1::SendRequest<Full<Bytes>>>>;

/// Beyond this, an idle HTTP/1 connection is closed: it costs the server a file descriptor.
const MAX_IDLE_HTTP1: usize = 32;

impl SendError {
    pub(super) fn into_inner(self) -> BoxError {
        match self {
            SendError::Unsent(error) | SendError::Broken(error) => error,
        }
    }
}

impl Lease {
    pub(super) fn http2(
        connection: http2::Connection,
        open_streams: &Arc<AtomicUsize>,
        reused: bool,
    ) -> Lease {
        Lease {
            sender: Sender::Http2 {
                connection,
                _stream: OpenStream::new(open_streams),
            },
            reused,
        }
    }

    pub(super) fn http1(
        sender: http1::SendRequest<Full<Bytes>>,
        idle: &Arc<IdleHttp1>,
        reused: bool,
    ) -> Lease {
        let returned = ReturnedWhenDropped {
            sender: Some(sender),
            idle: Arc::downgrade(idle),
        };
        Lease {
            sender: Sender::Http1(returned),
            reused,
        }
    }

    /// Whether the connection had been there before, so that the server may have closed it meanwhile.
    pub(super) fn is_reused(&self) -> bool {
        self.reused
    }

    pub(super) fn protocol(&self) -> Protocol {
        match self.sender {
            Sender::Http2 { .. } => Protocol::Http2,
            Sender::Http1(_) => Protocol::Http1,
        }
    }

    /// The answer, whose body keeps the lease until it has been read or dropped.
    pub(super) async fn send(
        mut self,
        request: Request<Bytes>,
    ) -> Result<Response<Body>, SendError> {
        match &mut self.sender {
            Sender::Http2 { connection, .. } => {
                let answer = connection.send(request).await?;
                Ok(answer.map(|body| Held { body, _lease: self }.boxed_unsync()))
            }
            Sender::Http1(returned) => {
                let Some(sender) = &mut returned.sender else {
                    return Err(SendError::Unsent("the connection is gone".into()));
                };
                let sent = sender.try_send_request(request.map(Full::new)).await;
                let answer = sent.map_err(|mut error| {
                    let unsent = error.take_message().is_some();
                    let error = Box::new(error.into_error());
                    match unsent {
                        true => SendError::Unsent(error),
                        false => SendError::Broken(error),
                    }
                })?;
                Ok(answer.map(|body| Held { body, _lease: self }.boxed_unsync()))
            }
        }
    }
}

impl From<http2::Failed> for SendError {
    fn from(failed: http2::Failed) -> SendError {
        match failed {
            http2::Failed::Unsent(error) => SendError::Unsent(Box::new(error)),
            http2::Failed::Broken(error) => SendError::Broken(Box::new(error)),
        }
    }
}

/// Counts one stream of an HTTP/2 connection.
struct OpenStream(Arc<AtomicUsize>);

impl OpenStream {
    fn new(count: &Arc<AtomicUsize>) -> OpenStream {
        count.fetch_add(1, Ordering::Relaxed);
        OpenStream(Arc::clone(count))
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An HTTP/1 connection goes back to the idle ones. If its answer was not read to the end it is useless by then,
/// which the next one to take it finds out.
struct ReturnedWhenDropped {
    sender: Option<http1::SendRequest<Full<Bytes>>>,
    idle: Weak<IdleHttp1>,
}

impl Drop for ReturnedWhenDropped {
    fn drop(&mut self) {
        let (Some(sender), Some(idle)) = (self.sender.take(), self.idle.upgrade()) else {
            return;
        };
        let mut idle = idle.lock();
        if !sender.is_closed() && idle.len() < MAX_IDLE_HTTP1 {
            idle.push(sender);
        }
    }
}

/// Fields are dropped in order: first the body, which ends the stream, then the lease. Readers read until there is no
/// more; nobody asks how much that is.
struct Held<B> {
    body: B,
    _lease: Lease,
}

impl http_body::Body for Held<Incoming> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.body)
            .poll_frame(cx)
            .map_err(BoxError::from)
    }
}

/// The API server sends no trailers.
impl http_body::Body for Held<h2::RecvStream> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let piece = http2::poll_data(&mut self.body, cx);
        piece.map(|piece| Some(piece?.map(Frame::data).map_err(BoxError::from)))
    }
}
