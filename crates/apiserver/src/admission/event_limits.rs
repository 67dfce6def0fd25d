//! EventRateLimit: how many events the server takes in a second, from everybody, for a namespace, from a user, or of a
//! source about an object.
//!
//! UPSTREAM: `plugin/pkg/admission/eventratelimit`.

use std::time::Duration;

use api::{Lru, MicroTime};
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use serde::Deserialize;
use serde_json::Value;

use super::configuration::{decode, expect_type};
use super::{Context, Request, aggregate};
use crate::fields::text;
use crate::status::{Status, summary};
use crate::validation;

/// UPSTREAM: how many buckets a limit has that does not say.
const DEFAULT_CACHE_SIZE: usize = 4096;

const VERSION: &str = "eventratelimit.admission.k8s.io/v1alpha1";

pub(crate) struct EventLimits(Vec<Limit>);

struct Limit {
    key: Key,
    qps: f64,
    burst: f64,
    /// By the digest of what they are for: an event says that, at any length.
    buckets: Mutex<Lru<[u8; 32], Bucket>>,
}

/// What has a bucket of its own.
#[derive(Clone, Copy, Debug, Deserialize)]
enum Key {
    Server,
    Namespace,
    User,
    SourceAndObject,
}

struct Bucket {
    tokens: f64,
    filled_at: MicroTime,
}

#[derive(Deserialize)]
struct Configuration {
    limits: Vec<LimitConfiguration>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LimitConfiguration {
    r#type: Key,
    qps: i32,
    burst: i32,
    #[serde(default)]
    cache_size: i32,
}

impl EventLimits {
    /// From the plugin's configuration, if there is one.
    pub(super) fn read(configuration: Option<&Value>) -> Result<EventLimits, String> {
        let configuration = configuration.unwrap_or(&Value::Null);
        if !configuration.is_null() {
            expect_type(configuration, "Configuration", &[VERSION])?;
        }
        let causes = validation::event_limits(configuration);
        if !causes.is_empty() {
            return Err(summary(&causes));
        }
        let Configuration { limits } = decode(configuration.clone())?;
        Ok(EventLimits(limits.iter().map(Limit::new).collect()))
    }

    /// Takes a token from each bucket that the event has, and refuses it if one is empty.
    pub(super) fn check(
        &self,
        context: &Context<'_>,
        request: &Request<'_>,
        event: &Value,
    ) -> Result<(), Status> {
        // UPSTREAM: those of events.k8s.io are another kind, which nobody counts.
        if request.dry_run || !request.asked.is("", "Event") {
            return Ok(());
        }
        let refusals = self.0.iter().filter_map(|limit| {
            let key = limit.key.of(context, request, event);
            let has_room = limit.take(&key, context.now);
            (!has_room).then(|| format!("limit reached on type {:?} for key {key}", limit.key))
        });
        match aggregate(refusals.collect()) {
            None => Ok(()),
            Some(why) => {
                let message = format!("Too many requests: {why}");
                Err(Status::new(429, "TooManyRequests", message))
            }
        }
    }
}

impl Limit {
    fn new(configuration: &LimitConfiguration) -> Limit {
        let size = match (configuration.r#type, configuration.cache_size) {
            (Key::Server, _) => 1,
            (_, 0) => DEFAULT_CACHE_SIZE,
            (_, size) => usize::try_from(size).unwrap_or(DEFAULT_CACHE_SIZE),
        };
        Limit {
            key: configuration.r#type,
            qps: f64::from(configuration.qps),
            burst: f64::from(configuration.burst),
            buckets: Mutex::new(Lru::new(size)),
        }
    }

    fn take(&self, key: &str, now: MicroTime) -> bool {
        let digest = digest(&SHA256, key.as_bytes());
        let mut id = [0; 32];
        id.copy_from_slice(digest.as_ref());
        let mut buckets = self.buckets.lock();
        let bucket = buckets.get_or_insert(id, || Bucket {
            tokens: self.burst,
            filled_at: now,
        });
        let waited: Duration = now.since(bucket.filled_at);
        bucket.tokens = (bucket.tokens + waited.as_secs_f64() * self.qps).min(self.burst);
        bucket.filled_at = now;
        let has_room = bucket.tokens >= 1.0;
        if has_room {
            bucket.tokens -= 1.0;
        }
        has_room
    }
}

impl Key {
    fn of(self, context: &Context<'_>, request: &Request<'_>, event: &Value) -> String {
        match self {
            Key::Server => String::new(),
            Key::Namespace => request.namespace.to_owned(),
            Key::User => context.user.user.clone(),
            Key::SourceAndObject => [
                "source.component",
                "source.host",
                "involvedObject.kind",
                "involvedObject.namespace",
                "involvedObject.name",
                "involvedObject.uid",
                "involvedObject.apiVersion",
            ]
            .map(|path| text(event, path))
            .concat(),
        }
    }
}
