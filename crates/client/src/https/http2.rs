//! HTTP/2 for many requests at a time on one thread.
//!
//! Whoever sends hands headers and body to the connection at once, and whatever was handed over by the time the
//! connection moves goes out in one write: a hundred creates are a few TLS records and a few system calls, not a
//! hundred. (hyper opens one stream after the other, and sends the body of each by a task of its own.)

use parking_lot::{Mutex, MutexGuard};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use h2::{PingPong, RecvStream};
use http::header::CONTENT_LENGTH;
use http::{Request, Response};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// A connection that carries many requests at once. It lives as long as one of its clones.
#[derive(Clone)]
pub(super) struct Connection {
    sender: SendRequest<Bytes>,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    closed: AtomicBool,
    max_streams: AtomicUsize,
}

/// A server that has been silent for so long is asked, and has so long to answer: a dead connection is noticed after
/// 26 s; with the time to reconnect it is replaced within 30 s.
const SILENCE: Duration = Duration::from_secs(16);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// How much one stream may send before we have read it: a megabyte fills a 100 ms round trip at 10 MB/s.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;

/// Room for every stream the server allows, so that one that nobody reads cannot stop the others.
const CONNECTION_WINDOW_BYTES: u32 = STREAM_WINDOW_BYTES * 100;

/// How many streams are assumed to be allowed until the server has spoken: what most servers say.
const ASSUMED_STREAMS: usize = 100;

/// The headers of an answer of the API server are a few hundred bytes.
const MAX_HEADERS_BYTES: u32 = 16 << 10;

/// One TLS record holds so much.
const GATHERED_BYTES: usize = 16 << 10;

/// Begins to speak over a stream of bytes. The connection moves while the future is polled, which ends with it.
pub(super) async fn speak<S>(
    io: S,
) -> Result<(Connection, impl Future<Output = Result<(), h2::Error>>), h2::Error>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let wire = Arc::new(Mutex::new(Wire {
        io,
        unsent: Vec::new(),
        sent: 0,
        heard_at: Instant::now(),
        failure: None,
    }));
    let (sender, mut connection) = h2::client::Builder::new()
        .enable_push(false)
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .initial_max_send_streams(ASSUMED_STREAMS)
        .max_header_list_size(MAX_HEADERS_BYTES)
        .handshake::<_, Bytes>(Gathering(Arc::clone(&wire)))
        .await?;
    let state = Arc::new(State::default());
    state.max_streams.store(ASSUMED_STREAMS, Ordering::Relaxed);
    let mut pulse = Pulse::new(connection.ping_pong());
    let told = Arc::clone(&state);
    let driven = std::future::poll_fn(move |cx| {
        let mut ended = Pin::new(&mut connection).poll(cx);
        let allowed = connection.max_concurrent_send_streams();
        told.max_streams.store(allowed, Ordering::Relaxed);
        if ended.is_pending() {
            // What came of it goes out only now, and all in one.
            let (sent, heard_at) = {
                let mut wire = lock(&wire);
                (wire.poll_send(cx), wire.heard_at)
            };
            let failure = match sent {
                Poll::Ready(Err(failure)) => Some(failure),
                Poll::Ready(Ok(())) | Poll::Pending => pulse.feel(heard_at, cx),
            };
            if let Some(failure) = failure {
                lock(&wire).failure = Some(failure);
                // Tells everyone who waits for an answer why there will be none.
                ended = Poll::Ready(match Pin::new(&mut connection).poll(cx) {
                    Poll::Ready(ended) => ended,
                    Poll::Pending => Ok(()),
                });
            }
        }
        if ended.is_ready() {
            told.closed.store(true, Ordering::Relaxed);
        }
        ended
    });
    Ok((Connection { sender, state }, driven))
}

impl Connection {
    /// Whether it has ended, or is about to: no request should be sent on it any more.
    pub(super) fn is_closed(&self) -> bool {
        self.state.closed.load(Ordering::Relaxed)
    }

    /// How many requests the server takes at a time.
    pub(super) fn max_streams(&self) -> usize {
        self.state.max_streams.load(Ordering::Relaxed)
    }

    pub(super) async fn send(
        &self,
        request: Request<Bytes>,
    ) -> Result<Response<RecvStream>, Failed> {
        let (mut head, body) = request.into_parts();
        let unsent = |error| {
            self.state.closed.store(true, Ordering::Relaxed);
            Failed::Unsent(error)
        };
        if !body.is_empty() {
            head.headers.insert(CONTENT_LENGTH, body.len().into());
        }
        // A clone of its own waits for nobody else's stream to open.
        let mut sender = self.sender.clone().ready().await.map_err(unsent)?;
        let sent = sender.send_request(Request::from_parts(head, ()), body.is_empty());
        let (answer, mut stream) = sent.map_err(unsent)?;
        if !body.is_empty() {
            stream.send_data(body, true).map_err(Failed::Broken)?;
        }
        answer.await.map_err(|error| match error.reason() {
            // The server says that it has not looked at it.
            Some(h2::Reason::REFUSED_STREAM) => Failed::Unsent(error),
            _ => Failed::Broken(error),
        })
    }
}

#[derive(Debug)]
pub(super) enum Failed {
    /// Nothing went out, or the server has not looked at it.
    Unsent(h2::Error),
    /// Nobody knows whether the server saw it.
    Broken(h2::Error),
}

/// The next piece of an answer. What is read makes room for more.
pub(super) fn poll_data(
    stream: &mut RecvStream,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Bytes, h2::Error>>> {
    let piece = ready!(stream.poll_data(cx));
    if let Some(Ok(bytes)) = &piece {
        // Fails on a stream that has ended, which needs no room.
        let _ = stream.flow_control().release_capacity(bytes.len());
    }
    Poll::Ready(piece)
}

/// Asks a silent server whether it is still there.
struct Pulse {
    pings: Option<PingPong>,
    next_look: Pin<Box<Sleep>>,
    asked_at: Option<Instant>,
}

impl Pulse {
    fn new(pings: Option<PingPong>) -> Pulse {
        Pulse {
            pings,
            next_look: Box::pin(tokio::time::sleep(SILENCE)),
            asked_at: None,
        }
    }

    /// An error when the other side is silent although it was asked.
    fn feel(&mut self, heard_at: Instant, cx: &mut Context<'_>) -> Option<io::Error> {
        let pings = self.pings.as_mut()?;
        while let Poll::Ready(Ok(_)) = pings.poll_pong(cx) {}
        while self.next_look.as_mut().poll(cx).is_ready() {
            if self.asked_at.is_some_and(|asked_at| heard_at <= asked_at) {
                let silence = "the server does not answer pings";
                return Some(io::Error::new(io::ErrorKind::TimedOut, silence));
            }
            let (now, due) = (Instant::now(), heard_at + SILENCE);
            let next_look = if due <= now {
                // One that is still on its way serves as well.
                let _ = pings.send_ping(h2::Ping::opaque());
                self.asked_at = Some(now);
                now + PING_TIMEOUT
            } else {
                self.asked_at = None;
                due
            };
            self.next_look.as_mut().reset(next_look);
        }
        None
    }
}

/// The stream of bytes, and what has yet to go out.
struct Wire<S> {
    io: S,
    unsent: Vec<u8>,
    /// So much of it has gone out.
    sent: usize,
    /// When something came last.
    heard_at: Instant,
    /// Why nothing will come any more; told once.
    failure: Option<io::Error>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.unsent.len() {
            let left = &self.unsent[self.sent..];
            match ready!(Pin::new(&mut self.io).poll_write(cx, left))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.sent += written,
            }
        }
        self.unsent.clear();
        self.sent = 0;
        Pin::new(&mut self.io).poll_flush(cx)
    }

    /// Makes room for so much more. What is larger than all the room has it alone.
    fn poll_room(&mut self, more: usize, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(failure) = self.failure.take() {
            return Poll::Ready(Err(failure));
        }
        if !self.unsent.is_empty() && self.unsent.len() + more > GATHERED_BYTES {
            return self.poll_send(cx);
        }
        Poll::Ready(Ok(()))
    }
}

/// What HTTP/2 writes to: keeps it until [`Wire::poll_send`].
struct Gathering<S>(Arc<Mutex<Wire<S>>>);

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Gathering<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut wire = lock(&self.0);
        match Pin::new(&mut wire.io).poll_read(cx, buffer)? {
            Poll::Ready(()) => wire.heard_at = Instant::now(),
            Poll::Pending => match wire.failure.take() {
                Some(failure) => return Poll::Ready(Err(failure)),
                None => return Poll::Pending,
            },
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Gathering<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut wire = lock(&self.0);
        let more = pieces.iter().map(|piece| piece.len()).sum();
        ready!(wire.poll_room(more, cx))?;
        for piece in pieces {
            wire.unsent.extend_from_slice(piece);
        }
        Poll::Ready(Ok(more))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Not yet: there may be more.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut wire = lock(&self.0);
        ready!(wire.poll_send(cx))?;
        Pin::new(&mut wire.io).poll_shutdown(cx)
    }
}

/// Both ends are polled by one task, so nobody waits here.
fn lock<S>(wire: &Mutex<Wire<S>>) -> MutexGuard<'_, Wire<S>> {
    wire.lock()
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;
    use tokio::io::DuplexStream;

    use super::*;

    /// One end of a wire that counts what is written to it.
    struct Counted(DuplexStream, Arc<AtomicUsize>);

    impl AsyncRead for Counted {
        fn poll_read(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_read(cx, buffer)
        }
    }

    impl AsyncWrite for Counted {
        fn poll_write(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.1.fetch_add(1, Ordering::Relaxed);
            Pin::new(&mut self.0).poll_write(cx, bytes)
        }

        fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_flush(cx)
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_shutdown(cx)
        }
    }

    /// Answers every request with what it says of the length of its body.
    async fn answer(io: DuplexStream) {
        let mut connection = h2::server::handshake(io).await.unwrap();
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            let said = request.headers()[CONTENT_LENGTH].to_str().unwrap();
            let text = format!("{said} bytes");
            let mut answer = respond.send_response(Response::new(()), false).unwrap();
            answer.send_data(text.into(), true).unwrap();
        }
    }

    #[tokio::test]
    async fn what_is_asked_at_once_goes_out_in_few_writes() {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let writes = Arc::new(AtomicUsize::new(0));
        let io = Counted(ours, Arc::clone(&writes));
        let (connection, driven) = speak(io).await.unwrap();
        let asking = async {
            let ask = |_| {
                let request = Request::post("http://server/pods").body(vec![b'x'; 1000].into());
                connection.send(request.unwrap())
            };
            let answers = join_all((0..80).map(ask)).await;
            for answer in answers {
                let mut body = answer.unwrap().into_body();
                let piece = std::future::poll_fn(|cx| poll_data(&mut body, cx)).await;
                assert_eq!(&piece.unwrap().unwrap()[..], b"1000 bytes");
            }
        };
        tokio::select! {
            () = asking => {}
            ended = driven => panic!("the connection ended: {ended:?}"),
            () = answer(theirs) => panic!("the server ended"),
        }
        let (bytes, writes) = (80 * 1000, writes.load(Ordering::Relaxed));
        let few = 2 * (bytes / GATHERED_BYTES + 1);
        assert!(writes <= few, "{writes} writes, {few} would have done");
    }
}
