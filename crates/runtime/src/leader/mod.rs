//! Leader election by client-go's rules on a `coordination.k8s.io/v1` Lease.
//!
//! It interoperates with a Go process that contends for the same lease. Expiry is measured by how
//! long *we* have seen the lease unchanged, never by the times written in it, so a holder whose
//! clock is an hour off does no harm. Every write carries the resource version that was read.
//!
//! Two things differ from client-go, both for the better. Losing the lease does not end the process:
//! its caches are warm, so it contends again. And a leader that learns of another holder steps down
//! at once, where client-go would go on for the rest of the renew deadline. What a deposed leader
//! still has in hand is stopped by the [`Fence`].

mod coordinated;
mod fence;
mod lease;
mod lease_watch;

pub use coordinated::Candidacy;
pub use fence::{Fence, NotLeading};

use std::time::Duration;

use api::{Clock, MicroTime, Rng};
use client::Client;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::Stop;
use crate::events::{EventType, Recorder};
use crate::metrics::LeaderMetrics;
use lease::{Lock, Record};
use lease_watch::LeaseWatch;

/// A candidate for a lease. Spawn [`LeaderElector::run`].
pub struct LeaderElector {
    config: LeaseConfig,
    lock: Lock,
    clock: Clock,
    rng: Rng,
    recorder: Option<Recorder>,
    metrics: Option<LeaderMetrics>,
    leadership: watch::Sender<Leadership>,
    observed: Option<Observed>,
    /// When we last became the leader.
    leads_since: Instant,
    /// A write of ours may have given us the lease, whether or not we saw the answer.
    may_hold: bool,
    lease_watch: LeaseWatch,
}

/// Which lease, who we are, and how patient everyone is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseConfig {
    pub namespace: String,
    pub name: String,
    /// Unique among all candidates, such as `<hostname>_<uuid>`.
    pub identity: String,
    /// How long a candidate must see the lease unchanged before it takes it.
    pub lease_duration: Duration,
    /// How long a leader tries to renew before it gives up.
    pub renew_deadline: Duration,
    /// How long everyone waits between tries.
    pub retry_period: Duration,
    /// Release the lease on exit, so that another takes over without waiting. All work
    /// under the lease must have ended by then.
    pub release_on_exit: bool,
    /// The API server picks the leader; see [`Candidacy`].
    pub coordinated: bool,
    /// Watch the lease while standing by, to take it as soon as it is free.
    pub watch: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// Someone else leads, as far as is known.
    Standby { holder: Option<String> },
    /// We lead, and may write until then; each renewal moves it on. `since` is when we got the lease from
    /// another, or from nobody.
    Leading { since: Instant, until: Instant },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaseConfigError {
    #[error("the lease duration must be greater than the renew deadline")]
    LeaseDurationTooShort,
    #[error("the renew deadline must be greater than 1.2 times the retry period")]
    RenewDeadlineTooShort,
    #[error("the retry period must be greater than zero")]
    RetryPeriodZero,
    #[error("the lease duration must be at least one second: leases count whole seconds")]
    LeaseDurationZero,
    #[error("the identity of the candidate is empty")]
    IdentityEmpty,
}

/// Candidates wait the retry period and up to so much of it again, so that they do not all ask at
/// the same moment.
const JITTER_FACTOR: f64 = 1.2;

/// The lease as last seen, and when it was first seen so.
struct Observed {
    record: Record,
    since: Instant,
}

enum Attempt {
    /// The lease is ours, written anew at this moment or later.
    Held {
        since: Instant,
    },
    HeldByOther,
    /// The server did not do as asked, or did not answer.
    Failed,
}

impl LeaseConfig {
    /// Upstream's defaults for a controller manager.
    pub fn new(namespace: &str, name: &str, identity: &str) -> LeaseConfig {
        LeaseConfig {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            release_on_exit: true,
            coordinated: false,
            watch: true,
        }
    }

    fn validate(&self) -> Result<(), LeaseConfigError> {
        if self.lease_duration <= self.renew_deadline {
            return Err(LeaseConfigError::LeaseDurationTooShort);
        }
        if self.renew_deadline <= self.retry_period.mul_f64(JITTER_FACTOR) {
            return Err(LeaseConfigError::RenewDeadlineTooShort);
        }
        if self.retry_period.is_zero() {
            return Err(LeaseConfigError::RetryPeriodZero);
        }
        if self.lease_duration < Duration::from_secs(1) {
            return Err(LeaseConfigError::LeaseDurationZero);
        }
        if self.identity.is_empty() {
            return Err(LeaseConfigError::IdentityEmpty);
        }
        Ok(())
    }
}

impl LeaderElector {
    /// `client` must have a lane of its own and no [`Fence`].
    pub fn new(
        client: Client,
        config: LeaseConfig,
        clock: Clock,
        rng: Rng,
        recorder: Option<Recorder>,
    ) -> Result<LeaderElector, LeaseConfigError> {
        config.validate()?;
        // UPSTREAM: half the deadline, so that a request that got lost leaves time for another.
        let timeout = config.renew_deadline / 2;
        Ok(LeaderElector {
            lock: Lock::new(client, &config.namespace, &config.name, timeout),
            config,
            clock,
            rng,
            recorder,
            metrics: None,
            leadership: watch::Sender::new(Leadership::Standby { holder: None }),
            observed: None,
            leads_since: Instant::now(),
            may_hold: false,
            lease_watch: LeaseWatch::new(),
        })
    }

    pub fn with_metrics(mut self, metrics: LeaderMetrics) -> LeaderElector {
        metrics.set_leading(false);
        self.metrics = Some(metrics);
        self
    }

    /// Tells who leads, now and whenever it changes. A renewal is a change too: it moves `until`.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.subscribe()
    }

    /// Fails when we lead and have not renewed for far too long: the election itself is stuck.
    pub fn health(&self) -> LeaseHealth {
        LeaseHealth {
            leadership: self.leadership(),
            lease: self.config.name.clone(),
            lease_duration: self.config.lease_duration,
            renew_deadline: self.config.renew_deadline,
        }
    }

    /// Contends for the lease, holds it, and contends again after losing it, until the signal comes.
    pub async fn run(mut self, stop: Stop) {
        tracing::info!(lease = %self.lock, identity = self.config.identity, "contending for the lease");
        let mut led_to_the_end = false;
        while !led_to_the_end && self.acquire(&stop).await {
            self.hold(&stop).await;
            // Writes end here, before anyone else can know that the lease is free.
            self.stand_by();
            tracing::info!(lease = %self.lock, "stopped leading");
            led_to_the_end = stop.is_stopped();
            if !led_to_the_end {
                self.record("stopped leading");
            }
        }
        if self.may_hold && self.config.release_on_exit {
            self.release().await;
        }
        if led_to_the_end {
            self.record("stopped leading");
        }
    }

    /// True once we lead; false when the signal comes first.
    async fn acquire(&mut self, stop: &Stop) -> bool {
        loop {
            match stop.or(self.attempt()).await {
                None => return false,
                Some(Attempt::Held { since }) => {
                    // Only now, after the answer: what another wrote as the leader was written before.
                    self.leads_since = Instant::now();
                    self.lead(since);
                    self.record("became leader");
                    tracing::info!(lease = %self.lock, "became leader");
                    return true;
                }
                Some(Attempt::HeldByOther | Attempt::Failed) => self.stand_by(),
            }
            if stop.or(self.wait_for_turn()).await.is_none() {
                return false;
            }
        }
    }

    /// Until the next try: a retry period and some, or as soon as the lease is free by what is known of it.
    async fn wait_for_turn(&mut self) {
        let wait = 1.0 + self.rng.unit() * JITTER_FACTOR;
        let retry_at = Instant::now() + self.config.retry_period.mul_f64(wait);
        loop {
            let expires_at = self.observed.as_ref().and_then(Observed::expires_at);
            let due = match expires_at.filter(|expiry| *expiry > Instant::now()) {
                Some(expiry) if self.config.watch => retry_at.min(expiry),
                _ => retry_at,
            };
            let news = async {
                match self.config.watch {
                    true => self.lease_watch.next(&self.lock).await,
                    false => std::future::pending().await,
                }
            };
            let Ok(record) = tokio::time::timeout_at(due, news).await else {
                return;
            };
            self.observe(&record);
            if record.holder.is_empty() {
                return;
            }
        }
    }

    /// Renews the lease until that fails for the renew deadline, another has it, or the signal comes.
    async fn hold(&mut self, stop: &Stop) {
        loop {
            let wait = tokio::time::sleep(self.config.retry_period);
            if stop.or(wait).await.is_none() {
                return;
            }
            let deadline = self.config.renew_deadline;
            match stop.or(tokio::time::timeout(deadline, self.renew())).await {
                Some(Ok(Some(since))) => self.lead(since),
                Some(Ok(None)) => {
                    tracing::warn!(lease = %self.lock, holder = self.holder(), "another has taken the lease");
                    return;
                }
                Some(Err(_)) if crate::mutation::on("lead-without-lease") => {
                    self.lead(Instant::now());
                }
                Some(Err(_)) => {
                    tracing::warn!(
                        lease = %self.lock,
                        "could not renew the lease within {} s; is the API server reachable?",
                        deadline.as_secs()
                    );
                    return;
                }
                None => return,
            }
        }
    }

    /// Tries until the lease is written anew; `None` when another has it.
    async fn renew(&mut self) -> Option<Instant> {
        loop {
            let tried_at = Instant::now();
            match self.attempt().await {
                Attempt::Held { since } => return Some(since),
                Attempt::HeldByOther => return None,
                Attempt::Failed => {
                    tokio::time::sleep_until(tried_at + self.config.retry_period).await;
                }
            }
        }
    }

    /// Takes the lease if it is free, renews it if it is ours.
    async fn attempt(&mut self) -> Attempt {
        if self.config.coordinated {
            return self.attempt_coordinated().await;
        }
        let since = Instant::now();
        let mut wanted = self.wanted(self.clock.now());

        // As the holder we know the lease: no other candidate writes it while it is valid.
        if let Some(observed) = &self.observed
            && observed.record.holder == self.config.identity
            && observed.is_valid(since)
        {
            wanted.acquired = observed.record.acquired;
            wanted.transitions = observed.record.transitions;
            match self.lock.update(&wanted).await {
                Ok(()) => return self.held(wanted, since),
                Err(error) => {
                    tracing::debug!(lease = %self.lock, %error, "renewing needs a look at the lease first");
                }
            }
        }

        let current = match self.lock.get().await {
            Ok(current) => current,
            Err(error) if error.is_not_found() => {
                self.may_hold = true;
                return match self.lock.create(&wanted).await {
                    Ok(()) => self.held(wanted, since),
                    Err(error) => self.failed("create", &error),
                };
            }
            Err(error) => return self.failed("read", &error),
        };
        self.observe(&current);
        let ours = current.holder == self.config.identity;
        let steals = crate::mutation::on("steal-lease");
        if !ours && !current.holder.is_empty() && self.is_valid() && !steals {
            self.may_hold = false;
            return Attempt::HeldByOther;
        }
        if ours {
            wanted.acquired = current.acquired;
            wanted.transitions = current.transitions;
            if let Some(metrics) = &self.metrics {
                metrics.on_slow_path();
            }
        } else {
            wanted.transitions = current.transitions.saturating_add(1);
        }
        self.may_hold = true;
        match self.lock.update(&wanted).await {
            Ok(()) => self.held(wanted, since),
            Err(error) => self.failed("write", &error),
        }
    }

    /// The lease as ours from now on.
    fn wanted(&self, now: MicroTime) -> Record {
        Record {
            holder: self.config.identity.clone(),
            duration_seconds: i64::try_from(self.config.lease_duration.as_secs())
                .unwrap_or(i64::MAX),
            acquired: Some(now),
            renewed: Some(now),
            transitions: 0,
            strategy: None,
            preferred: None,
        }
    }

    /// Gives the lease back, so that another candidate takes it at its next try.
    async fn release(&mut self) {
        let now = self.clock.now();
        let deadline = self.config.renew_deadline;
        let released = async {
            let current = self.lock.get().await?;
            if current.holder != self.config.identity {
                return Ok(false);
            }
            let free = Record {
                holder: String::new(),
                // UPSTREAM: validation wants a positive duration.
                duration_seconds: 1,
                acquired: Some(now),
                renewed: Some(now),
                transitions: current.transitions,
                strategy: current.strategy,
                preferred: None,
            };
            self.lock.update(&free).await.map(|()| true)
        };
        match tokio::time::timeout(deadline, released).await {
            Ok(Ok(true)) => tracing::info!(lease = %self.lock, "released the lease"),
            Ok(Ok(false)) => {}
            Ok(Err(error)) => {
                tracing::warn!(lease = %self.lock, %error, "could not release the lease")
            }
            Err(_) => tracing::warn!(lease = %self.lock, "no answer while releasing the lease"),
        }
    }

    fn held(&mut self, record: Record, since: Instant) -> Attempt {
        self.may_hold = true;
        self.observed = Some(Observed { record, since });
        Attempt::Held { since }
    }

    fn failed(&self, verb: &str, error: &lease::Error) -> Attempt {
        tracing::warn!(lease = %self.lock, "cannot {verb} the lease: {}", client::describe(error));
        Attempt::Failed
    }

    fn observe(&mut self, current: &Record) {
        if self
            .observed
            .as_ref()
            .is_some_and(|seen| seen.record == *current)
        {
            return;
        }
        self.observed = Some(Observed {
            record: current.clone(),
            since: Instant::now(),
        });
    }

    fn is_valid(&self) -> bool {
        self.observed
            .as_ref()
            .is_some_and(|observed| observed.is_valid(Instant::now()))
    }

    /// From the moment before a write that succeeded: others count from when they see it, which is
    /// later, and wait longer. So until the deadline no other candidate can have the lease.
    fn lead(&self, since: Instant) {
        self.publish(Leadership::Leading {
            since: self.leads_since,
            until: since + self.config.renew_deadline,
        });
    }

    fn stand_by(&self) {
        let holder = Some(self.holder().to_owned()).filter(|holder| !holder.is_empty());
        self.publish(Leadership::Standby { holder });
    }

    fn publish(&self, now: Leadership) {
        if let Some(metrics) = &self.metrics {
            metrics.set_leading(matches!(now, Leadership::Leading { .. }));
        }
        self.leadership.send_if_modified(|before| {
            let changed = *before != now;
            if let Leadership::Standby {
                holder: Some(holder),
            } = &now
                && changed
            {
                tracing::info!(lease = %self.lock, holder, "standing by");
            }
            *before = now;
            changed
        });
    }

    fn holder(&self) -> &str {
        self.observed
            .as_ref()
            .map_or("", |observed| &observed.record.holder)
    }

    fn record(&self, what: &str) {
        if let (Some(recorder), Some(lease)) = (&self.recorder, self.lock.object()) {
            let message = format!("{} {what}", self.config.identity);
            recorder.event(&lease, EventType::Normal, "LeaderElection", message);
        }
    }
}

impl Observed {
    fn is_valid(&self, now: Instant) -> bool {
        self.expires_at().is_none_or(|end| end > now)
    }

    /// A duration beyond what the clock can count never ends.
    fn expires_at(&self) -> Option<Instant> {
        let seconds = u64::try_from(self.record.duration_seconds).unwrap_or(0);
        self.since.checked_add(Duration::from_secs(seconds))
    }
}

/// The health check `leaderElection`.
#[derive(Clone)]
pub struct LeaseHealth {
    leadership: watch::Receiver<Leadership>,
    lease: String,
    lease_duration: Duration,
    renew_deadline: Duration,
}

impl LeaseHealth {
    /// An error that names the lease when we lead, and it has been expired for longer than `grace`.
    pub fn check(&self, grace: Duration) -> Result<(), String> {
        let Leadership::Leading { until, .. } = *self.leadership.borrow() else {
            return Ok(());
        };
        let since_renewal = (Instant::now() + self.renew_deadline).saturating_duration_since(until);
        if since_renewal > self.lease_duration + grace {
            return Err(format!(
                "failed election to renew leadership on lease {}",
                self.lease
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
