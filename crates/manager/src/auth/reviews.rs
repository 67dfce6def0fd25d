//! Asking the API server: is this token good, may this user do that?

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use api::ResourceType;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::User;
use super::metrics::Outcomes;

/// A client for reviews.
pub(super) struct Reviews {
    client: client::Client,
    metrics: Option<Outcomes>,
}

const TOKEN_REVIEWS: ResourceType =
    ResourceType::cluster("authentication.k8s.io", "v1", "tokenreviews", "TokenReview");
const ACCESS_REVIEWS: ResourceType = ResourceType::cluster(
    "authorization.k8s.io",
    "v1",
    "subjectaccessreviews",
    "SubjectAccessReview",
);

/// A caller waits this long for the API server at most.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);

/// UPSTREAM: five attempts, half a second apart and then half as long again each time.
const ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const PAUSE_FACTOR: f64 = 1.5;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Review<S> {
    api_version: &'static str,
    kind: &'static str,
    spec: S,
}

#[derive(Serialize)]
struct TokenSpec<'a> {
    token: &'a str,
}

#[derive(Deserialize)]
struct TokenAnswer {
    #[serde(default)]
    status: TokenStatus,
}

#[derive(Default, Deserialize)]
struct TokenStatus {
    #[serde(default)]
    authenticated: bool,
    #[serde(default)]
    user: TokenUser,
    #[serde(default)]
    error: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TokenUser {
    username: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AccessSpec<'a> {
    user: &'a str,
    uid: &'a str,
    groups: &'a [String],
    extra: &'a BTreeMap<String, Vec<String>>,
    non_resource_attributes: NonResource<'a>,
}

#[derive(Serialize)]
struct NonResource<'a> {
    path: &'a str,
    verb: &'a str,
}

#[derive(Deserialize)]
struct AccessAnswer {
    #[serde(default)]
    status: AccessStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AccessStatus {
    allowed: bool,
    denied: bool,
    reason: String,
}

impl Reviews {
    pub(super) fn new(client: client::Client) -> Reviews {
        Reviews {
            client,
            metrics: None,
        }
    }

    pub(super) fn measured(mut self, metrics: Outcomes) -> Reviews {
        self.metrics = Some(metrics);
        self
    }

    /// Whose token it is; none if it is nobody's.
    pub(super) async fn review_token(&self, token: &str) -> Result<Option<User>, String> {
        let review = Review {
            api_version: "authentication.k8s.io/v1",
            kind: "TokenReview",
            spec: TokenSpec { token },
        };
        let answer: TokenAnswer = self.ask(&TOKEN_REVIEWS, &review).await?;
        match answer.status {
            TokenStatus {
                authenticated: true,
                user,
                ..
            } => Ok(Some(User {
                name: user.username,
                uid: user.uid,
                groups: user.groups,
                extra: user.extra,
            })),
            TokenStatus { error, .. } if !error.is_empty() => Err(error),
            _ => Ok(None),
        }
    }

    /// Whether the user may, and the reason that was given.
    pub(super) async fn review_access(
        &self,
        user: &User,
        verb: &str,
        path: &str,
    ) -> Result<(bool, String), String> {
        let review = Review {
            api_version: "authorization.k8s.io/v1",
            kind: "SubjectAccessReview",
            spec: AccessSpec {
                user: &user.name,
                uid: &user.uid,
                groups: &user.groups,
                extra: &user.extra,
                non_resource_attributes: NonResource { path, verb },
            },
        };
        let answer: AccessAnswer = self.ask(&ACCESS_REVIEWS, &review).await?;
        Ok((
            answer.status.allowed && !answer.status.denied,
            answer.status.reason,
        ))
    }

    async fn ask<A: serde::de::DeserializeOwned>(
        &self,
        resource: &ResourceType,
        review: &impl Serialize,
    ) -> Result<A, String> {
        let body = Bytes::from(serde_json::to_vec(review).map_err(|error| error.to_string())?);
        let answer = retried(|| self.send(resource, body.clone()));
        let answer = match tokio::time::timeout(REVIEW_TIMEOUT, answer).await {
            Ok(answer) => answer.map_err(|error| client::describe(&error))?,
            Err(_) => {
                return Err(format!(
                    "the API server did not answer a {} in time",
                    resource.kind
                ));
            }
        };
        serde_json::from_slice(&answer).map_err(|error| error.to_string())
    }
}

impl Reviews {
    async fn send(&self, resource: &ResourceType, body: Bytes) -> Result<Bytes, client::Error> {
        let started = Instant::now();
        let answer = self.client.create(resource, "", body).await;
        if let Some(metrics) = &self.metrics {
            let code = match &answer {
                Ok(_) => "201".to_owned(),
                // UPSTREAM: how a request without an answer is counted.
                Err(error) => error
                    .status()
                    .map_or("<error>".to_owned(), |status| status.code.to_string()),
            };
            metrics.observe(&code, started.elapsed());
        }
        answer
    }
}

async fn retried<F: Future<Output = Result<Bytes, client::Error>>>(
    ask: impl Fn() -> F,
) -> Result<Bytes, client::Error> {
    let mut pause = FIRST_PAUSE;
    for _ in 1..ATTEMPTS {
        match ask().await {
            Err(error) if error.should_retry() || error.is_transport() => {}
            answer => return answer,
        }
        tokio::time::sleep(pause).await;
        pause = pause.mul_f64(PAUSE_FACTOR);
    }
    ask().await
}
