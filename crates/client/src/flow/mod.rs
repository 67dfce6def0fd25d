//! How fast a client may ask: not at all limited, by a token bucket, or by what the server can take.
//!
//! A lane of its own, such as leader election's, is simply another client with another flow.

mod adaptive;
mod bucket;

use std::sync::Arc;
use std::time::Duration;

use self::adaptive::{Adaptive, Slot};
use self::bucket::Bucket;
use crate::Error;

/// Flow control shared by all clones of a client.
#[derive(Clone)]
pub struct Flow(Kind);

#[derive(Clone)]
enum Kind {
    Unlimited,
    Bucket(Arc<Bucket>),
    Adaptive(Arc<Adaptive>),
}

impl Flow {
    /// No limit: for a server in the same process.
    pub fn unlimited() -> Flow {
        Flow(Kind::Unlimited)
    }

    /// So many requests a second, after a burst of so many: what `--kube-api-qps` and `--kube-api-burst` ask for.
    /// A rate that is not positive means no limit, as in client-go.
    pub fn bucket(requests_per_second: f64, burst: u32) -> Flow {
        if requests_per_second > 0.0 {
            Flow(Kind::Bucket(Arc::new(Bucket::new(
                requests_per_second,
                burst,
            ))))
        } else {
            Flow::unlimited()
        }
    }

    /// As many requests at once as the server answers fast; fewer when it answers slowly or not at all.
    pub fn adaptive() -> Flow {
        Flow(Kind::Adaptive(Arc::new(Adaptive::new())))
    }

    /// Waits for its turn. Dropping the future gives the turn back.
    pub(crate) async fn acquire(&self) -> Permit {
        Permit(match &self.0 {
            Kind::Unlimited => None,
            Kind::Bucket(bucket) => {
                bucket.acquire().await;
                None
            }
            Kind::Adaptive(adaptive) => Some(adaptive.acquire().await),
        })
    }
}

/// The right to have one request under way. Dropping it without [`Permit::finish`] teaches the flow nothing.
pub(crate) struct Permit(Option<Slot>);

impl Permit {
    pub(crate) fn finish(self, answer: Result<Pace, &Error>) {
        if let Some(slot) = self.0 {
            slot.finish(match answer {
                Ok(Pace::Telling) => Signal::Answered,
                Ok(Pace::Other) => Signal::None,
                Err(error) => Signal::of(error),
            });
        }
    }
}

/// Whether the time an answer took says something about the load of the server. A list takes long because it is
/// long, and a watch is answered at once: only requests for one object compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    Telling,
    Other,
}

/// What one finished request says about the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signal {
    /// Answered; the time it took counts.
    Answered,
    /// The server is overloaded or failing, and may have said for how long to leave it alone.
    Overloaded(Option<Duration>),
    None,
}

impl Signal {
    fn of(error: &Error) -> Signal {
        match error {
            Error::Transport { .. } | Error::Timeout { .. } => Signal::Overloaded(None),
            // A disruption budget answers 429 too: that is about one pod, not about the server.
            Error::Status(status)
                if status
                    .causes
                    .iter()
                    .any(|cause| cause.reason == "DisruptionBudget") =>
            {
                Signal::None
            }
            Error::Status(status) if status.code == 429 || status.code >= 500 => {
                Signal::Overloaded(status.retry_after)
            }
            _ => Signal::None,
        }
    }
}
