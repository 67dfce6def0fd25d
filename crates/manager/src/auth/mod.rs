//! Who may read the secure port.
//!
//! Nothing is decided here that the API server could decide: client certificates are checked against the CAs it
//! publishes, bearer tokens and permissions are reviewed by it, and the answers are kept for a few seconds.
//! Only the always-allowed paths and the group system:masters need no question.

mod authorities;
mod cache;
mod metrics;
mod reviews;

pub use connections::User;
use connections::{certificate, request_header};
use http::HeaderMap;
use rustls_pki_types::{CertificateDer, UnixTime};
use tokio::time::Instant;

pub use authorities::{Authorities, AuthoritySource};
use cache::Cache;
use metrics::AuthMetrics;
use reviews::Reviews;

use crate::options::{AuthenticationOptions, AuthorizationOptions};

/// Why a request was not let in.
#[derive(Debug, thiserror::Error)]
pub enum Denied {
    /// It claims to be someone, and is not. The reason is for the log.
    #[error("{0}")]
    Unauthorized(String),
    #[error("forbidden: User {user:?} cannot {verb} path {path:?}{reason}")]
    Forbidden {
        user: String,
        verb: String,
        path: String,
        reason: String,
    },
    /// The API server could not be asked.
    #[error("{0}")]
    Unavailable(String),
}

/// Authentication and authorization for the secure port.
pub struct Auth {
    authorities: Authorities,
    clock: api::Clock,
    tokens: Option<Reviews>,
    token_cache: Cache<Option<User>>,
    access: Option<Reviews>,
    allowed: Cache<()>,
    denied: Cache<String>,
    always_allow: Vec<String>,
    certificate_uids: bool,
    metrics: Option<AuthMetrics>,
}

const ANONYMOUS: &str = "system:anonymous";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const AUTHENTICATED: &str = "system:authenticated";
const PRIVILEGED: &str = "system:masters";

/// Callers' answers kept at most, per cache: scrapers and operators are few, so more means someone is guessing.
const CACHED_ANSWERS: usize = 1024;

impl Auth {
    /// `token_reviewer` and `access_reviewer` are clients for --authentication-kubeconfig and
    /// --authorization-kubeconfig, if there are any.
    pub fn new(
        authentication: &AuthenticationOptions,
        authorization: &AuthorizationOptions,
        authorities: Authorities,
        clock: api::Clock,
        token_reviewer: Option<client::Client>,
        access_reviewer: Option<client::Client>,
        certificate_uids: bool,
    ) -> Auth {
        Auth {
            authorities,
            clock,
            tokens: token_reviewer.map(Reviews::new),
            token_cache: Cache::new(authentication.token_cache_ttl, CACHED_ANSWERS),
            access: access_reviewer.map(Reviews::new),
            allowed: Cache::new(authorization.allow_ttl, CACHED_ANSWERS),
            denied: Cache::new(authorization.deny_ttl, CACHED_ANSWERS),
            always_allow: authorization.always_allow_paths.clone(),
            certificate_uids,
            metrics: None,
        }
    }

    /// Counts what it decides.
    fn measure_expiration(&self, leaf: &CertificateDer<'_>, now: api::MicroTime) {
        let Some(metrics) = &self.metrics else { return };
        if let Some(expires) = certificate::expires(leaf) {
            let seconds = expires - now.unix_micros() / 1_000_000;
            let family = metrics
                .certificate_expiration
                .with_label_values::<&str>(&[]);
            family.observe(seconds as f64);
        }
    }

    pub fn measured(mut self, metrics: &runtime::Metrics) -> Auth {
        let families = AuthMetrics::new(metrics);
        let tokens = families.token_reviews.clone();
        let access = families.access_reviews.clone();
        self.tokens = self.tokens.map(|reviews| reviews.measured(tokens));
        self.access = self.access.map(|reviews| reviews.measured(access));
        self.metrics = Some(families);
        self
    }

    pub fn authorities(&self) -> &Authorities {
        &self.authorities
    }

    /// Lets a request in, or says why not.
    pub async fn admit(
        &self,
        peer: &[CertificateDer<'_>],
        headers: &HeaderMap,
        verb: &str,
        path: &str,
    ) -> Result<User, Denied> {
        let started = Instant::now();
        let user = self.authenticate(peer, headers).await;
        if let Some(metrics) = &self.metrics {
            let outcome = if user.is_ok() { "success" } else { "error" };
            metrics.authentication.observe(outcome, started.elapsed());
            if let Ok(user) = &user {
                let kind = metrics::kind_of_user(&user.name);
                metrics.users.with_label_values(&[kind]).inc();
            }
        }
        let user = user?;
        let started = Instant::now();
        let decision = self.authorize(&user, verb, path).await;
        if let Some(metrics) = &self.metrics {
            let outcome = match &decision {
                Ok(()) => "allowed",
                Err(Denied::Unavailable(_)) => "error",
                Err(_) => "no-opinion",
            };
            metrics.authorization.observe(outcome, started.elapsed());
        }
        decision.map(|()| user)
    }

    /// UPSTREAM: front proxy, client certificate, token, in this order; the first that knows the caller counts,
    /// and a caller who tried and failed with all is refused rather than anonymous.
    async fn authenticate(
        &self,
        peer: &[CertificateDer<'_>],
        headers: &HeaderMap,
    ) -> Result<User, Denied> {
        let settings = self.authorities.current();
        let now = self.clock.now();
        let mut failures = Vec::new();
        if !peer.is_empty() {
            if let Some(proxy) = &settings.request_header {
                match request_header::user(proxy, peer, headers, as_tls(now)) {
                    Ok(Some(user)) => return Ok(authenticated(user)),
                    Ok(None) => {}
                    Err(failure) => failures.push(failure),
                }
            }
            if let Some(roots) = &settings.client_ca {
                match certificate::verify(roots, peer, as_tls(now)) {
                    Ok(()) => {
                        self.measure_expiration(&peer[0], now);
                        let user = certificate::user(&peer[0], self.certificate_uids);
                        return user.map(authenticated).map_err(Denied::Unauthorized);
                    }
                    Err(failure) => failures.push(failure),
                }
            }
        }
        if let (Some(tokens), Some(token)) = (&self.tokens, bearer_token(headers)) {
            match self.review_token(tokens, token).await {
                Ok(Some(user)) => return Ok(authenticated(user)),
                Ok(None) => failures.push("invalid bearer token".into()),
                Err(failure) => failures.push(failure),
            }
        }
        if !failures.is_empty() {
            return Err(Denied::Unauthorized(failures.join("; ")));
        }
        Ok(User {
            name: ANONYMOUS.into(),
            groups: vec![UNAUTHENTICATED.into()],
            ..User::default()
        })
    }

    async fn review_token(&self, tokens: &Reviews, token: &str) -> Result<Option<User>, String> {
        let key = cache::key(&[token]);
        let kept = self.token_cache.get(&key);
        if let Some(metrics) = &self.metrics {
            let status = if kept.is_some() { "hit" } else { "miss" };
            metrics.token_cache.with_label_values(&[status]).inc();
        }
        if let Some(answer) = kept {
            return Ok(answer);
        }
        let answer = tokens.review_token(token).await?;
        self.token_cache.insert(key, answer.clone());
        Ok(answer)
    }

    async fn authorize(&self, user: &User, verb: &str, path: &str) -> Result<(), Denied> {
        if user.groups.iter().any(|group| group == PRIVILEGED) || self.is_always_allowed(path) {
            return Ok(());
        }
        let forbidden = |reason: String| Denied::Forbidden {
            user: user.name.clone(),
            verb: verb.to_owned(),
            path: path.to_owned(),
            reason: if reason.is_empty() {
                reason
            } else {
                format!(": {reason}")
            },
        };
        let Some(access) = &self.access else {
            return Err(forbidden(String::new()));
        };
        let key = cache_key(user, verb, path);
        if self.allowed.get(&key).is_some() {
            return Ok(());
        }
        if let Some(reason) = self.denied.get(&key) {
            return Err(forbidden(reason));
        }
        let (allowed, reason) = access
            .review_access(user, verb, path)
            .await
            .map_err(Denied::Unavailable)?;
        if allowed {
            self.allowed.insert(key, ());
            Ok(())
        } else {
            self.denied.insert(key, reason.clone());
            Err(forbidden(reason))
        }
    }

    /// UPSTREAM: slashes in front do not count, and a trailing star matches by prefix.
    fn is_always_allowed(&self, path: &str) -> bool {
        let path = path.strip_prefix('/').unwrap_or(path);
        self.always_allow.iter().any(|allowed| {
            let allowed = allowed.strip_prefix('/').unwrap_or(allowed);
            match allowed.strip_suffix('*') {
                Some(prefix) => path.starts_with(prefix),
                None => path == allowed,
            }
        })
    }
}

/// Everything that an access review depends on.
fn cache_key(user: &User, verb: &str, path: &str) -> cache::CacheKey {
    let mut parts = vec![verb, path, user.name.as_str(), user.uid.as_str()];
    parts.extend(user.groups.iter().map(String::as_str));
    for (key, values) in &user.extra {
        // A part that no group can be, so that groups and extras cannot be confused.
        parts.push("\u{0}");
        parts.push(key);
        parts.extend(values.iter().map(String::as_str));
    }
    cache::key(&parts)
}

/// The time as TLS counts it.
fn as_tls(now: api::MicroTime) -> UnixTime {
    let micros = u64::try_from(now.unix_micros()).unwrap_or(0);
    UnixTime::since_unix_epoch(std::time::Duration::from_micros(micros))
}

/// One sample of each family, so that a test can compare them with upstream's.
#[cfg(test)]
pub(crate) fn register_metrics(metrics: &runtime::Metrics) {
    let families = AuthMetrics::new(metrics);
    let zero = std::time::Duration::ZERO;
    families.users.with_label_values(&["other"]).inc();
    families.token_cache.with_label_values(&["hit"]).inc();
    for outcomes in [
        &families.authentication,
        &families.authorization,
        &families.token_reviews,
        &families.access_reviews,
    ] {
        outcomes.observe("x", zero);
    }
}

fn authenticated(mut user: User) -> User {
    let known = |group: &String| group == AUTHENTICATED || group == UNAUTHENTICATED;
    if user.name != ANONYMOUS && !user.groups.iter().any(known) {
        user.groups.push(AUTHENTICATED.into());
    }
    user
}

fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(http::header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests;
