//! Keeps one store in step with the API server.
//!
//! WatchList first: one stream that begins with every object and goes on with changes. A server
//! that does not know it gets a paged list and a watch. A stream that ends is resumed where it
//! was; one whose place the server has forgotten (410) begins again with a listing, after which
//! what is missing is deleted.

use std::time::Duration;

use api::{DecodeError, ResourceType};
use bytes::Bytes;
use client::{
    Client, Encoding, Error, ListOptions, ResourceVersionMatch, WatchEvent, WatchOptions,
    WatchStream,
};
use futures_util::StreamExt;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::StreamOptions;
use super::backoff::Backoff;
use super::freshness::Freshness;

/// Upstream's page size for lists that the server does not serve from its cache.
const PAGE: u32 = 500;

/// A watch ends by itself after 5 to 10 minutes, so that streams spread over API servers again.
const WATCH_SECONDS: u32 = 300;

/// How often a kind is asked for that the server does not serve: groups come and go with its version, and
/// they are not needed to the second.
const MISSING_RETRY: Duration = Duration::from_secs(30);

/// A relist of so many objects is one small answer: upstream's page. Larger stores wait a moment for their
/// stream to show progress before they list again.
const CHEAP_RELIST: usize = PAGE as usize;

/// How long a stream has to show progress. Large kinds are busy ones: there something changes
/// within this time, and the whole takeover has a second.
const PROBE_TIMEOUT: Duration = Duration::from_millis(300);

/// Where we are with the server.
enum Position {
    /// Nothing known: everything has to be listed.
    Unknown,
    /// The store reflects this revision.
    At(u64),
}

/// Why a stream ended.
enum End {
    /// As watches do, by themselves.
    Closed,
    /// By itself, but too early: before any event, or within its listing.
    ClosedEarly,
    /// Somebody needs to know that nothing is missing, and the stream could not show it in time.
    Stale,
    /// The server no longer knows our revision.
    Expired,
    /// The server does not speak WatchList.
    Unsupported,
    Failed(Error),
}

/// What is kept in step, whatever its kind: streaming is compiled once, not once for each kind.
pub(super) trait Target: Send + Sync {
    fn resource(&self) -> &ResourceType;
    /// Is it enough to ask for metadata?
    fn metadata_only(&self) -> bool;
    /// Is it asked for in protobuf where the server speaks it?
    fn protobuf(&self) -> bool;
    fn is_synced(&self) -> bool;
    /// Stores what the server sent and returns its resourceVersion.
    fn upsert(&self, object: &Bytes, encoding: Encoding) -> Result<u64, DecodeError>;
    /// Removes an object, given its last state, and returns its resourceVersion.
    fn delete(&self, object: &Bytes, encoding: Encoding) -> Result<u64, DecodeError>;
    fn begin_relist(&self);
    /// Pending a listing that shows this revision and was asked for at that moment: what it did not contain is
    /// gone.
    fn end_relist(&self, revision: u64, asked_at: Instant);
    /// Nothing older than this revision is still to come.
    fn advance(&self, revision: u64);
    fn resync(&self);
    fn len(&self) -> usize;
    /// The newest revision that it reflects.
    fn revision(&self) -> u64;
    fn freshness(&self) -> &Freshness;
}

pub(super) async fn run(target: &dyn Target, client: &Client, options: &StreamOptions) {
    let mut reflector = Reflector {
        target,
        client,
        options,
        position: Position::Unknown,
        watch_list: true,
        backoff: Backoff::new(options.rng.clone()),
        next_resync: options.resync.map(|every| Instant::now() + every),
        listed: false,
        asked_at: Instant::now(),
        probe: None,
        missing: false,
        lost: false,
    };
    loop {
        if !target.freshness().is_met() {
            reflector.position = Position::Unknown;
        }
        let end = reflector.step().await;
        reflector.handle_end(end).await;
    }
}

/// A stream has to reach what the server was at, to show that it misses nothing.
struct ProgressProbe {
    /// What the server was at, when it was asked.
    revision: u64,
    asked_at: Instant,
}

struct Reflector<'a> {
    target: &'a dyn Target,
    client: &'a Client,
    options: &'a StreamOptions,
    position: Position,
    watch_list: bool,
    backoff: Backoff,
    next_resync: Option<Instant>,
    /// A listing is under way: the next "initial events end" completes it.
    listed: bool,
    /// When the stream or listing was asked for.
    asked_at: Instant,
    probe: Option<ProgressProbe>,
    /// The server does not serve the kind; that was said once.
    missing: bool,
    /// The server no longer knew our revision: what was written meanwhile may be undone.
    lost: bool,
}

impl Reflector<'_> {
    /// One stream (or one listing), from its beginning to its end.
    async fn step(&mut self) -> End {
        match self.position {
            Position::At(revision) => self.watch(Some(revision), false).await,
            Position::Unknown if self.watch_list => self.watch(None, true).await,
            Position::Unknown => match Box::pin(self.list()).await {
                Ok(revision) => {
                    self.position = Position::At(revision);
                    End::Closed
                }
                Err(error) if error.is_gone() => End::Expired,
                Err(error) => End::Failed(error),
            },
        }
    }

    /// Decides where and when to go on after a stream has ended.
    async fn handle_end(&mut self, end: End) {
        let resource = self.target.resource();
        match end {
            End::Closed => {}
            End::Stale => self.position = Position::Unknown,
            End::Unsupported => {
                debug!(%resource, "the server refuses WatchList, using list and watch");
                self.watch_list = false;
            }
            End::ClosedEarly => {
                debug!(%resource, "the watch ended early, will retry");
                self.backoff.wait(None).await;
            }
            End::Expired => {
                debug!(%resource, "our revision is too old for the server, listing again");
                if !crate::mutation::on("ignore-gone") {
                    self.position = Position::Unknown;
                    self.lost = true;
                }
                self.backoff.wait(None).await;
            }
            End::Failed(error) if error.is_not_found() => {
                if !self.missing {
                    warn!(%resource, "the API server does not serve this kind: what needs it is off until it does");
                }
                self.missing = true;
                self.position = Position::Unknown;
                tokio::time::sleep(MISSING_RETRY).await;
            }
            End::Failed(error) => {
                if error.is_resource_version_too_large() {
                    self.position = Position::Unknown;
                    self.lost = true;
                }
                warn!(%resource, error = %client::describe(&error), "watch failed, will retry");
                if error.is_transport() {
                    self.backoff.wait_for_server().await;
                } else {
                    self.backoff.wait(error.retry_after()).await;
                }
            }
        }
    }

    /// Watches from `revision`, or from the beginning with all objects first.
    async fn watch(&mut self, revision: Option<u64>, from_start: bool) -> End {
        let timeout_seconds = WATCH_SECONDS + self.options.rng.below(WATCH_SECONDS as usize) as u32;
        let options = WatchOptions {
            resource_version: revision.map(|revision| revision.to_string()),
            send_initial_events: from_start,
            allow_bookmarks: true,
            timeout_seconds: Some(timeout_seconds),
            metadata_only: self.target.metadata_only(),
            protobuf: self.target.protobuf(),
            ..WatchOptions::default()
        };
        self.asked_at = Instant::now();
        // Boxed, as are listings: what a stream needs for a moment is not kept for its life.
        let opening = self.client.watch(self.target.resource(), "", &options);
        let opened = Box::pin(opening).await;
        let stream = match opened {
            Ok(stream) => stream,
            Err(error) => return refused(error, from_start),
        };
        if std::mem::take(&mut self.missing) {
            info!(resource = %self.target.resource(), "the API server serves this kind now");
        }
        if from_start {
            self.target.begin_relist();
        }
        self.listed = !from_start;
        let (end, events) = self.follow(stream, from_start).await;
        match end {
            // Half a listing is none; and a server that closes watches at once must not be asked
            // in a tight loop.
            End::Closed if !self.listed || events == 0 => End::ClosedEarly,
            end => {
                // It has delivered: the next trouble is a new one.
                if events > 0 && self.listed {
                    self.backoff.reset();
                }
                end
            }
        }
    }

    /// Takes events until the stream ends, which it does by itself if the server does not; gives how many there were.
    async fn follow(&mut self, mut stream: WatchStream, from_start: bool) -> (End, u64) {
        let encoding = stream.encoding();
        let mut events: u64 = 0;
        self.probe = None;
        loop {
            let give_up = self
                .probe
                .as_ref()
                .map(|probe| probe.asked_at + PROBE_TIMEOUT);
            let event = tokio::select! {
                biased;
                event = stream.next() => event,
                () = self.target.freshness().lacking() => match Box::pin(self.probe_progress()).await {
                    true => continue,
                    false => return (End::Stale, events),
                },
                () = sleep_until(give_up) => return (End::Stale, events),
                () = sleep_until(self.next_resync) => {
                    self.resync();
                    continue;
                }
            };
            let end = match event {
                None => Some(End::Closed),
                Some(Err(error)) => Some(End::Failed(error)),
                Some(Ok(event)) => {
                    events += 1;
                    self.on_event(event, encoding, from_start)
                }
            };
            if let Some(end) = end {
                return (end, events);
            }
            self.check_probe();
        }
    }

    fn on_event(&mut self, event: WatchEvent, encoding: Encoding, from_start: bool) -> Option<End> {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                self.took(self.target.upsert(&object, encoding));
            }
            WatchEvent::Deleted(object) => {
                self.took(self.target.delete(&object, encoding));
            }
            WatchEvent::Bookmark {
                resource_version,
                initial_events_end,
            } => {
                if initial_events_end && !self.listed {
                    self.listed = true;
                    self.end_relist(resource_version);
                }
                self.reached(resource_version);
                self.target.advance(resource_version);
            }
            WatchEvent::Error(error) => return Some(refused(error, from_start && !self.listed)),
        }
        None
    }

    /// Remembers where to resume; within a listing there is no such position yet.
    fn reached(&mut self, revision: u64) {
        if self.listed && revision > 0 {
            self.position = Position::At(revision);
        }
    }

    /// Asks the server where it is, so that the stream can show that it is there too. False where a new
    /// listing costs no more than that.
    async fn probe_progress(&mut self) -> bool {
        if !self.listed || self.target.len() <= CHEAP_RELIST {
            return false;
        }
        let options = ListOptions {
            limit: Some(1),
            metadata_only: true,
            ..ListOptions::default()
        };
        let asked_at = Instant::now();
        let asking = self.client.list(self.target.resource(), "", &options);
        let Ok(Ok(page)) = tokio::time::timeout(PROBE_TIMEOUT, asking).await else {
            return false;
        };
        let revision = page.resource_version;
        self.probe = Some(ProgressProbe { revision, asked_at });
        self.check_probe();
        true
    }

    fn check_probe(&mut self) {
        let at = self.target.revision();
        if let Some(probe) = self.probe.take_if(|probe| probe.revision <= at) {
            self.target.freshness().prove(probe.asked_at);
        }
    }

    async fn list(&mut self) -> Result<u64, Error> {
        self.asked_at = Instant::now();
        self.target.begin_relist();
        let mut options = ListOptions {
            limit: Some(PAGE),
            metadata_only: self.target.metadata_only(),
            ..ListOptions::default()
        };
        if !self.target.is_synced() {
            // The first list may come from the server's cache: cheap, and as fresh as a watch.
            options.resource_version = Some("0".into());
            options.resource_version_match = Some(ResourceVersionMatch::NotOlderThan);
        }
        loop {
            let page = self
                .client
                .list(self.target.resource(), "", &options)
                .await?;
            for json in &page.items {
                if let Err(error) = self.target.upsert(json, Encoding::Json) {
                    skip(&error);
                }
            }
            let Some(token) = page.continue_token else {
                self.end_relist(page.resource_version);
                return Ok(page.resource_version);
            };
            options.continue_token = Some(token);
            options.resource_version = None;
            options.resource_version_match = None;
        }
    }

    /// Pending a listing. After one that was needed because the server had forgotten us all listeners hear of everything
    /// again, as from upstream's informers after any listing: a server that was restored from a backup has undone
    /// writes that the cache never saw, and to their author it looks as if nothing had changed.
    fn end_relist(&mut self, revision: u64) {
        self.target.end_relist(revision, self.asked_at);
        if std::mem::take(&mut self.lost) {
            self.target.resync();
        }
    }

    /// Notes how far an object of a watch brought us.
    fn took(&mut self, revision: Result<u64, DecodeError>) {
        match revision {
            Ok(revision) => self.reached(revision),
            Err(error) => skip(&error),
        }
    }

    fn resync(&mut self) {
        self.next_resync = self.options.resync.map(|every| Instant::now() + every);
        self.target.resync();
    }
}

/// An object that does not decode is reported and skipped; it never stops the stream.
fn skip(error: &DecodeError) {
    warn!(%error, "skipping an object that this version cannot read");
}

fn refused(error: Error, from_start: bool) -> End {
    if error.is_gone() {
        End::Expired
    } else if from_start && is_unsupported(&error) {
        End::Unsupported
    } else {
        End::Failed(error)
    }
}

/// Answers by which servers say that they do not do `sendInitialEvents`: a definite no, not a
/// passing trouble.
fn is_unsupported(error: &Error) -> bool {
    error
        .status()
        .is_some_and(|status| matches!(status.code, 400 | 405 | 415 | 422 | 500))
        && !error.is_server_timeout()
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
