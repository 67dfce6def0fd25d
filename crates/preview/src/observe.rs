//! Somebody who watches a preview while it runs, to show it later.

use api::Clock;
use client::Client;
use runtime::Decisions;
use runtime::decisions::Listener;

/// Watches a preview from the moment of applying. It runs on the preview's own time.
pub trait Observer {
    /// Hears of decisions from the start.
    fn listener(&self) -> Listener;

    /// The present state is there, and can be looked at.
    fn begin(&mut self, client: Client, clock: Clock, decisions: Decisions);

    /// The manifests are applied next.
    fn applying(&mut self);

    /// Nothing happens any more.
    fn end(&mut self);
}
