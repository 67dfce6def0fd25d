//! Who is connected, and who has to go when there is no room.
//!
//! A new connection always gets a seat. At a limit the connection that has been idle the longest makes room, those
//! first whose client never said who it is. If all are busy, the new one gets one of a few spare seats, where
//! nothing but health checks is answered; of those the oldest makes room.

use crate::in_flight::InFlight;
use crate::limits::Limits;
use crate::{HEADER_TIMEOUT, IDLE_TIMEOUT};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio::time::Instant;

/// All connections of one port; clones share them.
#[derive(Clone)]
pub struct Connections(Arc<Shared>);

struct Shared {
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By number, so oldest first.
    seats: BTreeMap<u64, Entry>,
    last: u64,
}

struct Entry {
    peer: IpAddr,
    is_spare: bool,
    is_known: bool,
    requests: usize,
    /// When the last request ended, or the connection began.
    since: Instant,
    is_closing: bool,
    changed: Arc<Notify>,
}

/// One connection; it makes room when dropped.
#[derive(Clone)]
pub struct Seat(Arc<Place>);

struct Place {
    shared: Arc<Shared>,
    number: u64,
    is_spare: bool,
    changed: Arc<Notify>,
}

/// Enough that a probe finishes its handshake before as many others come, too.
const SPARE_SEATS: usize = 16;

impl Connections {
    pub fn new(limits: Limits) -> Connections {
        Connections(Arc::new(Shared {
            limits,
            state: Mutex::default(),
        }))
    }

    /// A seat for a connection that was accepted.
    pub fn seat(&self, peer: IpAddr) -> Seat {
        // An IPv4 address that came through an IPv6 socket is the same peer.
        let peer = peer.to_canonical();
        let mut state = self.0.state.lock();
        let is_spare = !state.has_room(self.0.limits, peer);
        if is_spare {
            state.keep_spares_free();
        }
        state.last += 1;
        let (number, changed) = (state.last, Arc::new(Notify::new()));
        state.seats.insert(
            number,
            Entry {
                peer,
                is_spare,
                is_known: false,
                requests: 0,
                since: Instant::now(),
                is_closing: false,
                changed: changed.clone(),
            },
        );
        drop(state);
        Seat(Arc::new(Place {
            shared: self.0.clone(),
            number,
            is_spare,
            changed,
        }))
    }

    /// Nothing could be accepted: whoever has been idle the longest goes.
    pub fn make_room(&self) {
        self.0.state.lock().close_idle(None);
    }

    pub fn count(&self) -> usize {
        self.0.state.lock().seats.len()
    }
}

impl State {
    /// Whether there is a full seat, which may take that of another.
    fn has_room(&mut self, limits: Limits, peer: IpAddr) -> bool {
        let seated = || {
            let seats = self.seats.values();
            seats.filter(|entry| !entry.is_spare && !entry.is_closing)
        };
        let of_peer = seated().filter(|entry| entry.peer == peer).count();
        if of_peer >= limits.per_peer {
            return self.close_idle(Some(peer));
        }
        seated().count() < limits.total || self.close_idle(None)
    }

    /// Closes the connection that has been idle the longest, of one peer or of all; false if all are busy.
    fn close_idle(&mut self, peer: Option<IpAddr>) -> bool {
        let idle = self.seats.values_mut().filter(|entry| {
            let concerns = peer.is_none_or(|peer| entry.peer == peer);
            concerns && entry.requests == 0 && !entry.is_spare && !entry.is_closing
        });
        let longest = idle.min_by_key(|entry| (entry.is_known, entry.since));
        longest.map(Entry::close).is_some()
    }

    fn keep_spares_free(&mut self) {
        let spare = |entry: &&mut Entry| entry.is_spare && !entry.is_closing;
        let count = self.seats.values_mut().filter(spare).count();
        if count >= SPARE_SEATS
            && let Some(oldest) = self.seats.values_mut().find(spare)
        {
            oldest.close();
        }
    }
}

impl Entry {
    fn close(&mut self) {
        self.is_closing = true;
        self.changed.notify_one();
    }
}

impl Seat {
    /// Whether nothing but health checks is answered here.
    pub fn is_spare(&self) -> bool {
        self.0.is_spare
    }

    /// The connection's client has said who it is, and was believed.
    pub fn known(&self) {
        self.0.with(|entry| entry.is_known = true);
    }

    /// A request has come: the connection is busy until what is returned is dropped.
    pub fn begin(&self) -> InFlight {
        self.0.with(|entry| entry.requests += 1);
        InFlight(self.clone())
    }

    pub(crate) fn end(&self) {
        self.0.with(|entry| {
            entry.requests = entry.requests.saturating_sub(1);
            if entry.requests == 0 {
                entry.since = Instant::now();
                entry.changed.notify_one();
            }
        });
    }

    /// Waits until the connection has been idle for too long, or has to make room for another.
    pub async fn closing(&self) {
        loop {
            let changed = self.0.changed.notified();
            let Some(due) = self.0.with(|entry| entry.due()) else {
                return;
            };
            match due {
                None => changed.await,
                Some(due) if due <= Instant::now() => return,
                Some(due) => {
                    let _ = tokio::time::timeout_at(due, changed).await;
                }
            }
        }
    }
}

impl Entry {
    /// When it has been idle for too long; nothing while it is busy.
    fn due(&self) -> Option<Instant> {
        // The first request has to come sooner: whoever connects has one.
        let patience = if self.is_known {
            IDLE_TIMEOUT
        } else {
            HEADER_TIMEOUT
        };
        match (self.is_closing, self.requests) {
            (true, _) => Some(self.since),
            (false, 0) => Some(self.since + patience),
            (false, _) => None,
        }
    }
}

impl Place {
    /// Nothing if the connection has gone.
    fn with<T>(&self, look: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        self.shared
            .state
            .lock()
            .seats
            .get_mut(&self.number)
            .map(look)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.state.lock().seats.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::time::Duration;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    fn connections(total: usize, per_peer: usize) -> Connections {
        Connections::new(Limits { total, per_peer })
    }

    fn is_closing(seat: &Seat) -> bool {
        seat.closing().now_or_never().is_some()
    }

    async fn later(seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_one_that_was_idle_the_longest_makes_room() {
        let all = connections(3, 3);
        let (first, second, busy) = (all.seat(ONE), all.seat(ONE), all.seat(ONE));
        let request = busy.begin();
        later(1).await;
        drop(first.begin());
        let new = all.seat(OTHER);
        assert!(!new.is_spare() && is_closing(&second), "idle since it came");
        assert!(!is_closing(&first) && !is_closing(&busy));
        drop((second, request));
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_go_before_those_who_are_known() {
        let all = connections(2, 2);
        let known = all.seat(ONE);
        known.known();
        later(5).await;
        let stranger = all.seat(OTHER);
        all.seat(OTHER);
        assert!(is_closing(&stranger) && !is_closing(&known));
    }

    #[tokio::test(start_paused = true)]
    async fn one_peer_makes_room_among_its_own() {
        let all = connections(10, 2);
        let (others, first, second) = (all.seat(OTHER), all.seat(ONE), all.seat(ONE));
        let third = all.seat(ONE);
        assert!(!third.is_spare());
        assert!(is_closing(&first) && !is_closing(&second) && !is_closing(&others));
        // The same address, as an IPv6 socket tells it.
        all.seat("::ffff:10.0.0.1".parse().unwrap());
        assert!(is_closing(&second));
    }

    #[tokio::test(start_paused = true)]
    async fn when_all_are_busy_there_is_a_spare_seat_for_health() {
        let all = connections(2, 2);
        let busy: Vec<_> = (0..2).map(|_| all.seat(ONE)).collect();
        let requests: Vec<_> = busy.iter().map(Seat::begin).collect();
        let spares: Vec<_> = (0..SPARE_SEATS + 3).map(|_| all.seat(ONE)).collect();
        assert!(spares.iter().all(Seat::is_spare));
        let closed = spares.iter().filter(|seat| is_closing(seat)).count();
        assert_eq!(closed, 3, "the oldest of them");
        assert!(is_closing(&spares[2]) && !is_closing(&spares[3]));
        assert!(!busy.iter().any(is_closing), "nobody who works is cut off");
        drop(requests);
        drop(spares);
        assert_eq!(all.count(), 2, "what is gone is forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn idle_connections_end_and_busy_ones_do_not() {
        let all = connections(10, 10);
        let seat = all.seat(ONE);
        let start = Instant::now();
        seat.closing().await;
        assert_eq!(start.elapsed(), HEADER_TIMEOUT, "never a request");

        let seat = all.seat(ONE);
        seat.known();
        let request = seat.begin();
        assert!(
            tokio::time::timeout(Duration::from_secs(3600), seat.closing())
                .await
                .is_err()
        );
        let ended = Instant::now();
        drop(request);
        seat.closing().await;
        assert_eq!(ended.elapsed(), IDLE_TIMEOUT);
    }
}
