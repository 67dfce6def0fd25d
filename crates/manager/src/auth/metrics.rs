//! How often callers were let in or not, and how long the API server took to say.

use std::time::Duration;

use prometheus::{HistogramVec, IntCounterVec};
use runtime::Metrics;
use runtime::metrics::Stability::Alpha;

/// A millisecond to sixteen seconds, doubling.
const DECISION_SECONDS: &[f64] = &[
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096,
    8.192, 16.384,
];

const REVIEW_SECONDS: &[f64] = &[0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0];

/// From now over half an hour to a year.
const CERTIFICATE_SECONDS: &[f64] = &[
    0.0,
    1800.0,
    3600.0,
    7200.0,
    21600.0,
    43200.0,
    86400.0,
    172_800.0,
    345_600.0,
    604_800.0,
    2_592_000.0,
    7_776_000.0,
    15_552_000.0,
    31_104_000.0,
];

pub(super) struct AuthMetrics {
    pub users: IntCounterVec,
    pub authentication: Outcomes,
    pub authorization: Outcomes,
    pub token_cache: IntCounterVec,
    pub token_reviews: Outcomes,
    pub access_reviews: Outcomes,
    pub certificate_expiration: HistogramVec,
}

/// A counter and a histogram with the same label.
#[derive(Clone)]
pub(super) struct Outcomes {
    count: IntCounterVec,
    seconds: HistogramVec,
}

impl Outcomes {
    pub(super) fn observe(&self, outcome: &str, took: Duration) {
        self.count.with_label_values(&[outcome]).inc();
        self.seconds
            .with_label_values(&[outcome])
            .observe(took.as_secs_f64());
    }
}

impl AuthMetrics {
    pub(super) fn new(metrics: &Metrics) -> AuthMetrics {
        let outcomes =
            |count: &str, seconds: &str, help: &str, label: &str, buckets: &[f64]| Outcomes {
                count: metrics.counter(count, &format!("{help}."), Alpha, &[label]),
                seconds: metrics.histogram(
                    seconds,
                    &format!("{help}: seconds taken."),
                    Alpha,
                    &[label],
                    buckets,
                ),
            };
        AuthMetrics {
            users: metrics.counter(
                "authenticated_user_requests",
                "Requests of known callers by kind of user.",
                Alpha,
                &["username"],
            ),
            authentication: outcomes(
                "authentication_attempts",
                "authentication_duration_seconds",
                "Attempts to find out who calls",
                "result",
                DECISION_SECONDS,
            ),
            authorization: outcomes(
                "authorization_attempts_total",
                "authorization_duration_seconds",
                "Attempts to find out what a caller may do",
                "result",
                DECISION_SECONDS,
            ),
            token_cache: metrics.counter(
                "authentication_token_cache_request_total",
                "Tokens looked up in the cache.",
                Alpha,
                &["status"],
            ),
            token_reviews: outcomes(
                "apiserver_delegated_authn_request_total",
                "apiserver_delegated_authn_request_duration_seconds",
                "Token reviews asked for",
                "code",
                REVIEW_SECONDS,
            ),
            access_reviews: outcomes(
                "apiserver_delegated_authz_request_total",
                "apiserver_delegated_authz_request_duration_seconds",
                "Access reviews asked for",
                "code",
                REVIEW_SECONDS,
            ),
            certificate_expiration: metrics.histogram(
                "apiserver_client_certificate_expiration_seconds",
                "How long the certificates of callers are still good.",
                Alpha,
                &[],
                CERTIFICATE_SECONDS,
            ),
        }
    }
}

/// UPSTREAM: a few well-known names, and kinds for the rest: metrics must not tell who the users are.
pub(super) fn kind_of_user(name: &str) -> &str {
    match name {
        "admin"
        | "client"
        | "kube_proxy"
        | "kubelet"
        | "system:serviceaccount:kube-system:default" => name,
        _ if name.contains('@') => "email_id",
        _ => "other",
    }
}
