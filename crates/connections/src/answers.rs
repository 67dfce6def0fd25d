//! Answers on their way to their clients: bounded in what all of them have in memory.
//!
//! A client that asks and does not read leaves the answer with us, and a thousand such requests fit into one connection. So
//! what waits is counted, for all and for each user. Where there is no room, answers that have not moved for a while are
//! given up, and then new ones are refused: of a read when it is answered, of a write before it is done. What waits a very
//! long time is given up in any case: it keeps objects that may have been deleted.

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::Instant;

/// What a body can fail with.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Handed over at a time, as a copy: what the protocol keeps of it does not keep the rest. A frame of HTTP/2 has as much.
const SLICE: usize = 16 * 1024;

/// Whoever reads at all reads something within this.
const STALLED_AFTER: Duration = Duration::from_secs(10);

/// A person may leave a pager open for a while.
const ABANDONED_AFTER: Duration = Duration::from_secs(300);

/// How often to look for those.
const SWEEP_PERIOD: Duration = Duration::from_secs(10);

/// The answers of one port; clones share them.
#[derive(Clone)]
pub struct Answers(Arc<Shared>);

struct Shared {
    /// For all of them, and for those of one user.
    total: usize,
    share: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By number, so oldest first.
    waiting: BTreeMap<u64, Entry>,
    last: u64,
    bytes: usize,
    of_users: BTreeMap<Arc<str>, usize>,
    swept: Option<Instant>,
}

struct Entry {
    user: Arc<str>,
    bytes: usize,
    moved: Instant,
    content: Arc<dyn GiveUp>,
}

/// There is no room for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many answers wait for their clients")]
pub struct NoRoom;

#[derive(Debug, thiserror::Error)]
#[error("nobody read the answer")]
struct GivenUp;

/// The body of an answer that counts what waits of it.
pub struct Waiting<B: Send + 'static> {
    shared: Arc<Shared>,
    number: u64,
    content: Arc<Mutex<Option<Content<B>>>>,
    size_hint: SizeHint,
    is_done: bool,
}

struct Content<B> {
    body: B,
    /// Of the last frame.
    rest: Bytes,
}

trait GiveUp: Send + Sync {
    /// Takes the content away, unless it moves right now.
    fn give_up(&self) -> Option<Box<dyn Send>>;
}

impl<B: Send + 'static> GiveUp for Mutex<Option<Content<B>>> {
    fn give_up(&self) -> Option<Box<dyn Send>> {
        let content = self.try_lock()?.take()?;
        Some(Box::new(content.body))
    }
}

impl Answers {
    pub fn new(total: usize) -> Answers {
        Answers(Arc::new(Shared {
            total,
            share: total / 2,
            state: Mutex::default(),
        }))
    }

    /// Whether a user can have one more answer.
    pub fn has_room(&self, user: &str) -> bool {
        let mut given_up = Vec::new();
        let mut state = self.0.state.lock();
        let has_room = loop {
            let of_user = state.of_users.get(user).copied().unwrap_or(0);
            let is_over_share = of_user >= self.0.share;
            if state.bytes < self.0.total && !is_over_share {
                break true;
            }
            match state.give_up(is_over_share.then_some(user), STALLED_AFTER) {
                Some(held) => given_up.push(held),
                None => break false,
            }
        };
        drop(state);
        drop(given_up);
        has_room
    }

    /// Counts an answer for a user, if there is room for it.
    pub fn keep<B>(&self, user: &str, body: B) -> Result<Waiting<B>, NoRoom>
    where
        B: Body<Data = Bytes> + Send + 'static,
    {
        self.keep_as(user, body, false)
    }

    /// Counts an answer that has to be given: what it is about has been done.
    pub fn keep_done<B>(&self, user: &str, body: B) -> Result<Waiting<B>, NoRoom>
    where
        B: Body<Data = Bytes> + Send + 'static,
    {
        self.keep_as(user, body, true)
    }

    fn keep_as<B>(&self, user: &str, body: B, is_done: bool) -> Result<Waiting<B>, NoRoom>
    where
        B: Body<Data = Bytes> + Send + 'static,
    {
        let size_hint = body.size_hint();
        // What comes bit by bit is counted as it comes.
        let whole = size_hint.exact().unwrap_or(0);
        let content = Content {
            body,
            rest: Bytes::new(),
        };
        let content = Arc::new(Mutex::new(Some(content)));
        let shared = self.0.clone();
        let number = shared.state.lock().add(user, content.clone());
        let waiting = Waiting {
            shared,
            number,
            content,
            size_hint,
            is_done,
        };
        let whole = usize::try_from(whole).unwrap_or(usize::MAX);
        waiting.shared.take(number, whole, is_done)?;
        Ok(waiting)
    }
}

impl State {
    fn add(&mut self, user: &str, content: Arc<dyn GiveUp>) -> u64 {
        self.last += 1;
        let entry = Entry {
            user: user.into(),
            bytes: 0,
            moved: Instant::now(),
            content,
        };
        self.waiting.insert(self.last, entry);
        self.last
    }

    /// Counts another size for an answer.
    fn resize(&mut self, number: u64, bytes: usize) {
        let Some(entry) = self.waiting.get_mut(&number) else {
            return;
        };
        let of_user = self.of_users.entry(entry.user.clone()).or_default();
        *of_user = *of_user - entry.bytes + bytes;
        if *of_user == 0 {
            self.of_users.remove(&entry.user);
        }
        self.bytes = self.bytes - entry.bytes + bytes;
        entry.bytes = bytes;
    }

    /// Gives up one answer that has not moved for so long; what it held is to be dropped when nothing is locked.
    fn give_up(&mut self, user: Option<&str>, after: Duration) -> Option<Box<dyn Send>> {
        let now = Instant::now();
        let of_user = |entry: &Entry| user.is_none_or(|user| *entry.user == *user);
        let (number, held) = self.waiting.iter().find_map(|(number, entry)| {
            let is_stalled = entry.bytes > 0 && now.duration_since(entry.moved) >= after;
            let held = (is_stalled && of_user(entry)).then(|| entry.content.give_up())?;
            Some((*number, held?))
        })?;
        self.resize(number, 0);
        Some(held)
    }
}

impl Shared {
    /// Counts so many bytes for an answer, in place of what was counted before.
    fn take(&self, number: u64, bytes: usize, is_done: bool) -> Result<(), NoRoom> {
        // What is larger than anyone's share goes through alone, or nobody could ever read it.
        let bytes = bytes.min(self.share);
        let mut given_up = Vec::new();
        let mut state = self.state.lock();
        let now = Instant::now();
        if state
            .swept
            .is_none_or(|at| now.duration_since(at) >= SWEEP_PERIOD)
        {
            state.swept = Some(now);
            while let Some(held) = state.give_up(None, ABANDONED_AFTER) {
                given_up.push(held);
            }
        }
        let taken = loop {
            let Some(entry) = state.waiting.get(&number) else {
                break Err(NoRoom);
            };
            let (user, before) = (entry.user.clone(), entry.bytes);
            let of_user = state.of_users.get(&user).copied().unwrap_or(0);
            let is_full = state.bytes - before + bytes > self.total;
            let is_over_share = of_user - before + bytes > self.share;
            if bytes <= before || !(is_full || is_over_share) {
                state.resize(number, bytes);
                break Ok(());
            }
            let whose = is_over_share.then_some(&*user);
            match state.give_up(whose, STALLED_AFTER) {
                Some(held) => given_up.push(held),
                None if is_done => {
                    state.resize(number, bytes);
                    break Ok(());
                }
                None => break Err(NoRoom),
            }
        };
        drop(state);
        drop(given_up);
        taken
    }

    fn moved(&self, number: u64) {
        if let Some(entry) = self.state.lock().waiting.get_mut(&number) {
            entry.moved = Instant::now();
        }
    }
}

impl<B: Send + 'static> Drop for Waiting<B> {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.resize(self.number, 0);
        let entry = state.waiting.remove(&self.number);
        drop(state);
        drop(entry);
    }
}

impl<B> Body for Waiting<B>
where
    B: Body<Data = Bytes, Error = BoxError> + Unpin + Send + 'static,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let mut locked = self.content.lock();
        let Some(content) = locked.as_mut() else {
            return Poll::Ready(Some(Err(GivenUp.into())));
        };
        if content.rest.is_empty() {
            let frame = match ready!(Pin::new(&mut content.body).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                other => return Poll::Ready(other),
            };
            match frame.into_data() {
                Ok(data) if data.len() > SLICE => {
                    if let Err(full) = self.shared.take(self.number, data.len(), self.is_done) {
                        return Poll::Ready(Some(Err(full.into())));
                    }
                    content.rest = data;
                }
                // What it was counted for is on its way.
                Ok(data) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        let length = content.rest.len().min(SLICE);
        let slice = Bytes::copy_from_slice(&content.rest[..length]);
        content.rest.advance(length);
        match content.rest.is_empty() {
            true => {
                content.rest = Bytes::new();
                self.shared.state.lock().resize(self.number, 0);
            }
            false => self.shared.moved(self.number),
        }
        Poll::Ready(Some(Ok(Frame::data(slice))))
    }

    fn is_end_stream(&self) -> bool {
        let content = self.content.lock();
        content
            .as_ref()
            .is_some_and(|content| content.rest.is_empty() && content.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        // It is asked before the first frame.
        self.size_hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;
    use http_body_util::{BodyExt, Full, StreamBody};

    fn whole(bytes: usize) -> impl Body<Data = Bytes, Error = BoxError> + Unpin + Send + 'static {
        Full::new(Bytes::from(vec![b'x'; bytes])).map_err(|never| match never {})
    }

    fn chunks(
        count: usize,
        bytes: usize,
    ) -> impl Body<Data = Bytes, Error = BoxError> + Unpin + Send + 'static {
        let chunk = Bytes::from(vec![b'x'; bytes]);
        StreamBody::new(stream::iter(
            (0..count).map(move |_| Ok(Frame::data(chunk.clone()))),
        ))
    }

    async fn read<B>(body: B) -> Result<usize, String>
    where
        B: Body<Data = Bytes, Error = BoxError>,
    {
        let body = body.collect().await.map_err(|error| error.to_string())?;
        Ok(body.to_bytes().len())
    }

    const MEGABYTE: usize = 1 << 20;

    #[tokio::test(start_paused = true)]
    async fn what_is_read_is_whole_and_counted_no_more() {
        let answers = Answers::new(4 * MEGABYTE);
        for _ in 0..10 {
            let body = answers.keep("joe", whole(MEGABYTE + 7)).unwrap();
            assert_eq!(body.size_hint().exact(), Some(MEGABYTE as u64 + 7));
            assert_eq!(read(body).await, Ok(MEGABYTE + 7));
            let body = answers.keep("joe", chunks(9, MEGABYTE)).unwrap();
            assert_eq!(read(body).await, Ok(9 * MEGABYTE));
            assert_eq!(read(answers.keep("joe", whole(0)).unwrap()).await, Ok(0));
        }
        let large = answers.keep("joe", whole(20 * MEGABYTE)).unwrap();
        assert_eq!(read(large).await, Ok(20 * MEGABYTE));
        assert_eq!(answers.0.state.lock().bytes, 0);
        assert!(answers.0.state.lock().of_users.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_read_is_refused_more_and_leaves_room_for_others() {
        let answers = Answers::new(4 * MEGABYTE);
        let first = answers.keep("joe", whole(MEGABYTE)).unwrap();
        let second = answers.keep("joe", whole(MEGABYTE)).unwrap();
        assert!(answers.keep("joe", whole(MEGABYTE)).is_err());
        assert!(answers.keep("jane", whole(2 * MEGABYTE)).is_ok());
        // A stream that nobody reads has nothing in memory.
        let stream = answers.keep("joe", chunks(3, MEGABYTE)).unwrap();
        assert_eq!(read(stream).await.unwrap_err(), NoRoom.to_string());
        drop(first);
        let stream = answers.keep("joe", chunks(3, MEGABYTE)).unwrap();
        assert_eq!(read(stream).await, Ok(3 * MEGABYTE));
        drop(second);
        assert_eq!(answers.0.state.lock().bytes, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_done_is_answered_and_no_more_is_done() {
        let answers = Answers::new(4 * MEGABYTE);
        assert!(answers.has_room("joe"));
        let done: Vec<_> = (0..3)
            .map(|_| answers.keep_done("joe", whole(MEGABYTE)).unwrap())
            .collect();
        assert!(!answers.has_room("joe") && answers.has_room("jane"));
        tokio::time::sleep(STALLED_AFTER).await;
        assert!(answers.has_room("joe"), "two of them made room");
        let read = futures_util::future::join_all(done.into_iter().map(read)).await;
        assert_eq!(read.iter().filter(|read| read.is_ok()).count(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn answers_that_do_not_move_make_room() {
        let answers = Answers::new(4 * MEGABYTE);
        let mut moving = answers.keep("joe", whole(MEGABYTE)).unwrap();
        let stalled = answers.keep("joe", whole(MEGABYTE)).unwrap();
        tokio::time::sleep(STALLED_AFTER - Duration::from_secs(1)).await;
        assert!(moving.frame().await.unwrap().is_ok());
        assert!(answers.keep("joe", whole(MEGABYTE)).is_err());
        tokio::time::sleep(Duration::from_secs(1)).await;
        let next = answers.keep("joe", whole(MEGABYTE)).unwrap();
        assert_eq!(read(stalled).await.unwrap_err(), GivenUp.to_string());
        assert_eq!(read(moving).await, Ok(MEGABYTE - SLICE));
        assert_eq!(read(next).await, Ok(MEGABYTE));
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_reads_is_given_up_in_the_end() {
        let answers = Answers::new(4 * MEGABYTE);
        let stalled = answers.keep("joe", whole(MEGABYTE)).unwrap();
        tokio::time::sleep(ABANDONED_AFTER).await;
        drop(answers.keep("jane", whole(MEGABYTE)).unwrap());
        assert!(read(stalled).await.is_err());
    }
}
