//! Volumes that a worker has chosen for a claim and not yet written so: no other claim gets them meanwhile.
//!
//! From the moment that the write is noted ([`crate::storage::latest`]) the volume itself names its claim.

use api::Istr;
use api::collections::HashSet;
use parking_lot::Mutex;

#[derive(Default)]
pub struct Reservations(Mutex<HashSet<Istr>>);

/// Ends when it is dropped, whether the write got through or not.
pub struct Reservation<'a> {
    all: &'a Reservations,
    volume: Istr,
}

impl Reservations {
    /// None if another claim is just being given the volume.
    pub fn reserve(&self, volume: &str) -> Option<Reservation<'_>> {
        let volume = Istr::new(volume);
        let is_first = self.0.lock().insert(volume.clone());
        is_first.then_some(Reservation { all: self, volume })
    }

    pub fn contains(&self, volume: &str) -> bool {
        self.0.lock().contains(volume)
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.all.0.lock().remove(&self.volume);
    }
}
