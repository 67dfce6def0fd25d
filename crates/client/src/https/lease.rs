//! The right to send one request over a connection, kept until the answer has been read.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};

use crate::{Body, BoxError};

pub(super) struct Lease {
    sender: Sender,
    reused: bool,
}

enum Sender {
    Http2 {
        sender: http2::SendRequest<Full<Bytes>>,
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
        sender: http2::SendRequest<Full<Bytes>>,
        open_streams: &Arc<AtomicUsize>,
        reused: bool,
    ) -> Lease {
        Lease {
            sender: Sender::Http2 {
                sender,
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

    pub(super) async fn send(
        &mut self,
        request: Request<Bytes>,
    ) -> Result<Response<Incoming>, SendError> {
        let request = request.map(Full::new);
        let sent = match &mut self.sender {
            Sender::Http2 { sender, .. } => sender.try_send_request(request).await,
            Sender::Http1(returned) => match &mut returned.sender {
                Some(sender) => sender.try_send_request(request).await,
                None => return Err(SendError::Unsent("the connection is gone".into())),
            },
        };
        sent.map_err(|mut error| {
            let unsent = error.take_message().is_some();
            let error = Box::new(error.into_error());
            if unsent {
                SendError::Unsent(error)
            } else {
                SendError::Broken(error)
            }
        })
    }

    /// A body that gives the lease back when it has been read or dropped.
    pub(super) fn hold_while_reading(self, body: Incoming) -> Body {
        Held { body, _lease: self }.boxed_unsync()
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
        let mut idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
        if !sender.is_closed() && idle.len() < MAX_IDLE_HTTP1 {
            idle.push(sender);
        }
    }
}

/// Fields are dropped in order: first the body, which ends the stream, then the lease.
struct Held {
    body: Incoming,
    _lease: Lease,
}

impl http_body::Body for Held {
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

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
