//! Connections that speak another protocol (WebSocket, SPDY) with the server behind an APIService: what one side says is
//! told to the other, until either ends or nobody has said anything for long.

use crate::Body;
use crate::rest::response;
use crate::serve::Upgrade;
use bytes::Bytes;
use http::Response;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// So many at a time: each takes two connections and a buffer for either direction.
const MAX_UPGRADED: usize = 1024;

/// UPSTREAM: the kubelet's `streamingConnectionIdleTimeout`; somebody may have a shell open over lunch.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4 * 60 * 60);

/// The connections of all clients.
pub(super) struct Upgraded(Arc<Semaphore>);

impl Default for Upgraded {
    fn default() -> Upgraded {
        Upgraded(Arc::new(Semaphore::new(MAX_UPGRADED)))
    }
}

/// A client's connection that may be upgraded, and its place among those that are.
pub(super) struct Seat {
    upgrade: Upgrade,
    place: OwnedSemaphorePermit,
}

impl Upgraded {
    /// Nothing if there are too many.
    pub(super) fn seat(&self, upgrade: Upgrade) -> Option<Seat> {
        let place = self.0.clone().try_acquire_owned().ok()?;
        Some(Seat { upgrade, place })
    }
}

impl Seat {
    /// Hands on the answer of the other server, 101, and then what is said on both connections.
    pub(super) fn relay(self, mut answer: Response<Body>) -> Response<Body> {
        let Seat { upgrade, place } = self;
        let Some(theirs) = answer.extensions_mut().remove::<OnUpgrade>() else {
            return response::text(502, "the connection to the backend cannot be upgraded");
        };
        upgrade.then(move |ours| async move {
            if let Ok(theirs) = theirs.await {
                converse(TokioIo::new(ours), TokioIo::new(theirs)).await;
            }
            drop(place);
        });
        answer.map(|_| response::whole(Bytes::new()))
    }
}

async fn converse(
    ours: impl AsyncRead + AsyncWrite + Unpin,
    mut theirs: impl AsyncRead + AsyncWrite + Unpin,
) {
    let last = Arc::new(Mutex::new(Instant::now()));
    let mut ours = Noticed {
        stream: ours,
        last: last.clone(),
    };
    tokio::select! {
        // How it ends concerns the two of them only.
        _ = copy_bidirectional(&mut ours, &mut theirs) => {}
        () = silence(&last) => {}
    }
}

/// Waits until nothing has been said for long.
async fn silence(last: &Mutex<Instant>) {
    loop {
        let end = *last.lock() + IDLE_TIMEOUT;
        if Instant::now() >= end {
            return;
        }
        tokio::time::sleep_until(end).await;
    }
}

/// A stream, and when anything went through it last.
struct Noticed<S> {
    stream: S,
    last: Arc<Mutex<Instant>>,
}

impl<S> Noticed<S> {
    fn notice(&self) {
        *self.last.lock() = Instant::now();
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Noticed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = ready!(Pin::new(&mut self.stream).poll_read(context, buffer));
        self.notice();
        Poll::Ready(read)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Noticed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, buffer));
        self.notice();
        Poll::Ready(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    #[tokio::test(start_paused = true)]
    async fn what_one_side_says_the_other_hears_until_one_ends() {
        let (mut client, ours) = duplex(16);
        let (theirs, mut server) = duplex(16);
        let talk = async {
            client.write_all(b"hello").await.unwrap();
            let mut heard = [0; 5];
            server.read_exact(&mut heard).await.unwrap();
            assert_eq!(&heard, b"hello");
            server.write_all(b"bye").await.unwrap();
            drop(server);
            let mut heard = Vec::new();
            client.read_to_end(&mut heard).await.unwrap();
            assert_eq!(heard, b"bye");
            drop(client);
        };
        tokio::join!(converse(ours, theirs), talk);
    }

    #[tokio::test(start_paused = true)]
    async fn silence_ends_it_from_the_last_word_on() {
        let (mut client, ours) = duplex(16);
        let (theirs, mut server) = duplex(16);
        let begun = Instant::now();
        let talk = async {
            tokio::time::sleep(IDLE_TIMEOUT / 2).await;
            client.write_all(b"a").await.unwrap();
            tokio::time::sleep(IDLE_TIMEOUT / 2).await;
            server.write_all(b"b").await.unwrap();
            let mut heard = Vec::new();
            client.read_to_end(&mut heard).await.unwrap();
            assert_eq!(heard, b"b");
        };
        tokio::join!(converse(ours, theirs), talk);
        assert_eq!(begun.elapsed(), IDLE_TIMEOUT * 2);
    }
}
