//! Reading request bodies: bounded in length, in time, and in what all of them have in memory.

use bytes::{Buf, Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// The memory of all bodies that are being read or answered.
#[derive(Clone)]
pub struct Bodies {
    room: Arc<Semaphore>,
}

/// What a body takes of it, until this is dropped.
#[derive(Debug, Default)]
pub struct Room(Vec<OwnedSemaphorePermit>);

/// Why a body was not read.
#[derive(Debug, PartialEq, Eq)]
pub enum Unread {
    TooLarge,
    /// It did not come in time.
    TooSlow,
    /// Others have all the memory.
    NoRoom,
    /// The client broke off.
    Broken,
}

/// Room is counted in these, so that the count of a semaphore suffices and small bodies cost little.
const UNIT: usize = 1024;

/// A body has this long, and the time that its bytes take at a slow rate.
const PATIENCE: Duration = Duration::from_secs(10);

/// A tenth of what a bad mobile connection carries: 3 MB in a minute.
const SLOWEST_BYTES_PER_SECOND: u64 = 64 * 1024;

/// As much as a body may have that is read.
const DISCARDED_MAX: usize = 3 * 1024 * 1024;

/// What comes of a body that is refused has this long.
const DISCARDED_WITHIN: Duration = Duration::from_secs(1);

/// Throws away what comes of a body that nobody will read: a client that is answered while it still sends takes the reset of
/// its stream for a failure, and never sees the answer.
pub async fn discard<B>(mut body: B)
where
    B: Body<Data = Bytes> + Unpin,
{
    let due = Instant::now() + DISCARDED_WITHIN;
    let mut left = DISCARDED_MAX;
    if body.size_hint().lower() > left as u64 {
        return;
    }
    while !body.is_end_stream() {
        let Ok(Some(Ok(frame))) = timeout_at(due, body.frame()).await else {
            return;
        };
        let length = frame.data_ref().map_or(0, Bytes::len);
        match left.checked_sub(length) {
            Some(less) => left = less,
            None => return,
        }
    }
}

impl Bodies {
    pub fn new(bytes: usize) -> Bodies {
        Bodies {
            room: Arc::new(Semaphore::new(bytes / UNIT)),
        }
    }

    /// The whole body, if it has at most `most` bytes.
    pub async fn read<B>(&self, mut body: B, most: usize) -> Result<(Bytes, Room), Unread>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        if body.is_end_stream() {
            return Ok((Bytes::new(), Room::default()));
        }
        if body.size_hint().lower() > most as u64 {
            return Err(Unread::TooLarge);
        }
        let started = Instant::now();
        let (mut read, mut room, mut taken) = (BytesMut::new(), Room::default(), 0);
        loop {
            let earned = Duration::from_secs(read.len() as u64 / SLOWEST_BYTES_PER_SECOND);
            let due = started + PATIENCE + earned;
            let frame = match timeout_at(due, body.frame()).await {
                Err(_) => return Err(Unread::TooSlow),
                Ok(None) => return Ok((read.freeze(), room)),
                Ok(Some(Err(_))) => return Err(Unread::Broken),
                Ok(Some(Ok(frame))) => frame,
            };
            let Ok(data) = frame.into_data() else {
                continue;
            };
            if read.len() + data.remaining() > most {
                return Err(Unread::TooLarge);
            }
            let wanted = (read.len() + data.remaining()).div_ceil(UNIT);
            let more = u32::try_from(wanted - taken).unwrap_or(u32::MAX);
            let permits = self.room.clone().acquire_many_owned(more);
            match timeout_at(due, permits).await {
                Ok(Ok(permits)) if more > 0 => room.0.push(permits),
                Ok(Ok(_)) => {}
                Ok(Err(_)) | Err(_) => return Err(Unread::NoRoom),
            }
            taken = wanted;
            read.extend_from_slice(&data);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::{StreamExt, stream};
    use http_body::Frame;
    use http_body_util::{Full, StreamBody};
    use std::convert::Infallible;

    fn chunks(
        chunks: usize,
        length: usize,
        pause: Duration,
    ) -> impl Body<Data = Bytes, Error = Infallible> + Unpin {
        let chunk = Bytes::from(vec![b'x'; length]);
        let all = stream::iter(0..chunks).then(move |_| {
            let chunk = chunk.clone();
            async move {
                tokio::time::sleep(pause).await;
                Ok(Frame::data(chunk))
            }
        });
        StreamBody::new(Box::pin(all))
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_read_whole_or_not_at_all() {
        let bodies = Bodies::new(1 << 20);
        let quick = Duration::ZERO;
        let (read, _) = bodies.read(chunks(3, 1000, quick), 3000).await.unwrap();
        assert_eq!(read.len(), 3000);
        let refused = bodies.read(chunks(3, 1000, quick), 2999).await;
        assert_eq!(refused.unwrap_err(), Unread::TooLarge);
        let announced = Full::new(Bytes::from_static(b"1234"));
        assert_eq!(
            bodies.read(announced, 3).await.unwrap_err(),
            Unread::TooLarge
        );
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_thrown_away_is_bounded_in_bytes_and_time() {
        let start = Instant::now();
        let mut whole = chunks(3, 1000, Duration::ZERO);
        discard(&mut whole).await;
        assert!(whole.frame().await.is_none(), "all of it came");
        let mut large = chunks(5, DISCARDED_MAX / 3, Duration::ZERO);
        discard(&mut large).await;
        assert!(large.frame().await.is_some(), "it is left where it is");
        assert_eq!(start.elapsed(), Duration::ZERO);
        discard(chunks(2, 1, Duration::from_secs(7))).await;
        assert_eq!(start.elapsed(), DISCARDED_WITHIN);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_stops_half_way_is_cut_off() {
        let bodies = Bodies::new(1 << 20);
        let start = Instant::now();
        let stuck = chunks(2, 1000, Duration::from_secs(7));
        assert_eq!(bodies.read(stuck, 3000).await.unwrap_err(), Unread::TooSlow);
        assert_eq!(start.elapsed(), PATIENCE);
        // Slow, but it comes.
        let slow = chunks(20, 100_000, Duration::from_secs(1));
        let read = Bodies::new(4 << 20).read(slow, 3 << 20).await;
        assert_eq!(read.unwrap().0.len(), 2_000_000);
    }

    #[tokio::test(start_paused = true)]
    async fn all_bodies_together_have_bounded_room() {
        let bodies = Bodies::new(10 * UNIT);
        let first = bodies.read(chunks(8, UNIT, Duration::ZERO), 1 << 20).await;
        let second = bodies.read(chunks(3, UNIT, Duration::ZERO), 1 << 20).await;
        assert_eq!(second.unwrap_err(), Unread::NoRoom);
        drop(first);
        let third = bodies.read(chunks(10, UNIT, Duration::ZERO), 1 << 20).await;
        assert!(third.is_ok(), "what was read is gone");
    }
}
