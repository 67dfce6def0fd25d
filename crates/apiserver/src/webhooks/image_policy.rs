//! ImagePolicyWebhook: a server of the cluster's is asked whether a pod may use its images.
//!
//! Mirrors `plugin/pkg/admission/imagepolicy`. It is asked after the plugins that are built in, so not about a pod that
//! one of them refuses anyway, and before the webhooks that users configure. Its answers are kept for a while.

use super::call::{self, CallFailure};
use crate::fields::{at, list, text};
use crate::outbound::Backend;
use crate::rest::Context;
use crate::status::Status;
use api::{GoDuration, Lru, MicroTime, syntax};
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

const VERSION: &str = "imagepolicy.k8s.io/v1alpha1";

/// UPSTREAM: what its keys for the audit log begin with.
const AUDIT_PREFIX: &str = "imagepolicywebhook.image-policy.k8s.io/";

/// UPSTREAM: how many answers are kept.
const ANSWERS_MAX: usize = 1024;

/// Longer answers are not kept: reasons are a sentence, and this one comes from a stranger.
const KEPT_BYTES_MAX: usize = 16 * 1024;

/// UPSTREAM: how long a call may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// UPSTREAM: how often it is asked while it fails in passing, and how the time in between grows.
const ATTEMPTS: u32 = 5;
const BACKOFF_FACTOR: f64 = 1.5;
const BACKOFF_JITTER: f64 = 0.2;

pub(crate) struct ImagePolicy {
    backend: Backend,
    allow_ttl: Duration,
    deny_ttl: Duration,
    retry_backoff: Duration,
    default_allow: bool,
    /// By the digest of what was asked.
    answers: Mutex<Lru<[u8; 32], Kept>>,
}

#[derive(Default)]
struct Kept {
    answer: Answer,
    until: MicroTime,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Answer {
    allowed: bool,
    #[serde(deserialize_with = "api::meta::or_default")]
    reason: String,
    #[serde(deserialize_with = "api::meta::or_default")]
    audit_annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Configuration {
    #[serde(default, deserialize_with = "api::meta::or_default")]
    image_policy: Policy,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Policy {
    #[serde(rename = "kubeConfigFile")]
    kubeconfig: String,
    #[serde(rename = "allowTTL")]
    allow_ttl: i64,
    #[serde(rename = "denyTTL")]
    deny_ttl: i64,
    #[serde(rename = "retryBackoff")]
    retry_backoff: i64,
    #[serde(rename = "defaultAllow")]
    default_allow: bool,
}

/// A number of units: -1 turns off what it is for, 0 leaves it at its default.
struct Span {
    unit: i64,
    least: i64,
    most: i64,
    default: i64,
}

const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;

const RETRY_BACKOFF: Span = Span {
    unit: SECOND / 1000,
    least: 1,
    most: 5 * MINUTE,
    default: SECOND / 2,
};
const ALLOW_TTL: Span = Span {
    unit: SECOND,
    least: SECOND,
    most: 30 * MINUTE,
    default: 5 * MINUTE,
};
const DENY_TTL: Span = Span {
    default: 30 * SECOND,
    ..ALLOW_TTL
};

impl Span {
    fn read(&self, value: i64) -> Result<Duration, String> {
        let nanos = match value {
            -1 => 0,
            0 => self.default,
            value => {
                let nanos = value.saturating_mul(self.unit);
                if !(self.least..=self.most).contains(&nanos) {
                    let [least, most, got] =
                        [self.least, self.most, nanos].map(GoDuration::from_nanos);
                    return Err(format!(
                        "valid value is between {least} and {most}, got {got}"
                    ));
                }
                nanos
            }
        };
        Ok(GoDuration::from_nanos(nanos).to_std())
    }
}

impl ImagePolicy {
    /// From the plugin's configuration, if there is one, and what `load` makes of a kubeconfig.
    pub(crate) fn read(
        configuration: Option<&Value>,
        load: impl FnOnce(&str) -> Result<Backend, String>,
    ) -> Result<ImagePolicy, String> {
        let Some(configuration) = configuration.filter(|given| !given.is_null()) else {
            return Err("no config specified".to_owned());
        };
        let read = Configuration::deserialize(configuration).map_err(|why| why.to_string())?;
        let policy = read.image_policy;
        let named = |name: &'static str| move |why: String| format!("imagePolicy.{name}: {why}");
        let retry_backoff = RETRY_BACKOFF.read(policy.retry_backoff);
        Ok(ImagePolicy {
            retry_backoff: retry_backoff.map_err(named("retryBackoff"))?,
            allow_ttl: ALLOW_TTL
                .read(policy.allow_ttl)
                .map_err(named("allowTTL"))?,
            deny_ttl: DENY_TTL.read(policy.deny_ttl).map_err(named("denyTTL"))?,
            default_allow: policy.default_allow,
            backend: load(&policy.kubeconfig).map_err(named("kubeConfigFile"))?,
            answers: Mutex::new(Lru::new(ANSWERS_MAX)),
        })
    }

    fn kept(&self, key: &[u8; 32], now: MicroTime) -> Option<Answer> {
        let mut answers = self.answers.lock();
        let kept = answers.get(key)?;
        (now < kept.until).then(|| kept.answer.clone())
    }

    fn keep(&self, key: [u8; 32], answer: &Answer, now: MicroTime) {
        let annotations = answer.audit_annotations.iter();
        let bytes: usize = annotations
            .map(|(key, value)| key.len() + value.len())
            .sum();
        if bytes + answer.reason.len() > KEPT_BYTES_MAX {
            return;
        }
        let ttl = match answer.allowed {
            true => self.allow_ttl,
            false => self.deny_ttl,
        };
        let until = now.plus(ttl);
        let answer = answer.clone();
        let mut answers = self.answers.lock();
        *answers.get_or_insert(key, Kept::default) = Kept { answer, until };
    }
}

impl Context {
    /// Whether the server for images has a say in what is written.
    pub(crate) fn asks_about_images(&self) -> bool {
        let is_on = self.shared.settings.plugin_settings.image_policy.is_some();
        let subresource = self.info.subresource.as_str();
        is_on && self.kind.is("", "Pod") && matches!(subresource, "" | "ephemeralcontainers")
    }

    /// Asks it about a pod that is to be stored.
    pub(crate) async fn review_images(&mut self, pod: &Value) -> Result<(), Status> {
        let Some(policy) = self.shared.settings.plugin_settings.image_policy.clone() else {
            return Ok(());
        };
        let subject = self.subject_named(text(pod, "metadata.name"));
        let forbidden = |why: &str| Status::forbidden(subject, why);
        let spec = self.images(pod);
        let asked = digest(&SHA256, spec.to_string().as_bytes());
        let mut key = [0; 32];
        key.copy_from_slice(asked.as_ref());
        let held = policy.kept(&key, self.shared.clock.now());
        let answer = match held {
            Some(answer) => answer,
            None => match self.ask_about_images(&policy, &spec).await {
                Ok(answer) => {
                    policy.keep(key, &answer, self.shared.clock.now());
                    answer
                }
                // UPSTREAM: the annotation alpha.image-policy.k8s.io/failed-open is put on a copy of the pod that
                // nobody stores.
                Err(why) if policy.default_allow => {
                    tracing::warn!(%why, "a pod is allowed although nobody could be asked about its images");
                    let key = format!("{AUDIT_PREFIX}failed-open");
                    self.audit_annotations.push((key, "true".to_owned()));
                    return Ok(());
                }
                Err(why) => return Err(forbidden(&why)),
            },
        };
        let refused = match answer.reason.as_str() {
            _ if answer.allowed => Ok(()),
            "" => Err(forbidden("one or more images rejected by webhook backend")),
            why => Err(forbidden(&format!(
                "image policy webhook backend denied one or more images: {why}"
            ))),
        };
        let annotations = answer.audit_annotations.into_iter();
        let named = annotations.map(|(key, value)| (format!("{AUDIT_PREFIX}{key}"), value));
        let valid = named.filter(|(key, _)| syntax::validate_qualified_name(key).is_empty());
        self.audit_annotations.extend(valid);
        refused
    }

    /// What is asked about a pod.
    fn images(&self, pod: &Value) -> Value {
        let lists: &[&str] = match self.info.subresource.as_str() {
            "" => &["spec.containers", "spec.initContainers"],
            _ => &["spec.ephemeralContainers"],
        };
        let containers = lists.iter().flat_map(|path| list(pod, path));
        let images: Vec<Value> = containers
            .map(|container| match text(container, "image") {
                "" => json!({}),
                image => json!({"image": image}),
            })
            .collect();
        let mut spec = json!({});
        if !images.is_empty() {
            spec["containers"] = images.into();
        }
        let annotations = at(pod, "metadata.annotations").as_object();
        let annotations = annotations.into_iter().flatten();
        let annotations: serde_json::Map<String, Value> = annotations
            .filter(|(key, _)| key.contains(".image-policy.k8s.io/"))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        if !annotations.is_empty() {
            spec["annotations"] = annotations.into();
        }
        spec["namespace"] = json!(self.info.namespace);
        spec
    }

    async fn ask_about_images(&self, policy: &ImagePolicy, spec: &Value) -> Result<Answer, String> {
        let review = json!({"kind": "ImageReview", "apiVersion": VERSION, "metadata": {}, "spec": spec,
            "status": {"allowed": false}});
        let mut wait = policy.retry_backoff;
        let mut attempt = 1;
        let answer = loop {
            let answered = call::post_to(&self.shared, &policy.backend, &review, TIMEOUT).await;
            match answered {
                Ok(answer) => break answer,
                Err(failure) if attempt < ATTEMPTS && is_passing(&failure) => {
                    let jitter = 1.0 + self.shared.rng.unit() * BACKOFF_JITTER;
                    tokio::time::sleep(wait.mul_f64(jitter)).await;
                    wait = wait.mul_f64(BACKOFF_FACTOR);
                    attempt += 1;
                }
                Err(
                    CallFailure::NoClient(why)
                    | CallFailure::Refused(_, why)
                    | CallFailure::Failed(why),
                ) => return Err(why),
            }
        };
        let (kind, version) = (&answer["kind"], &answer["apiVersion"]);
        if kind != "ImageReview" || version != VERSION {
            return Err(format!(
                "no kind {kind} is registered for version {version}; the answer must be an ImageReview of {VERSION}"
            ));
        }
        let status = &answer["status"];
        match status {
            Value::Null => Ok(Answer::default()),
            status => Answer::deserialize(status).map_err(|why| format!("status: {why}")),
        }
    }
}

/// UPSTREAM: whether asking again may help.
fn is_passing(failure: &CallFailure) -> bool {
    match failure {
        CallFailure::NoClient(_) => false,
        CallFailure::Refused(code, _) => matches!(code, 429 | 500 | 504),
        CallFailure::Failed(why) => why.contains("connection reset by peer"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// UPSTREAM: TestConfigNormalization.
    #[test]
    fn times_are_within_bounds_or_left_out() {
        let read = |span: &Span, value| span.read(value).map(|read| read.as_millis());
        assert_eq!(read(&ALLOW_TTL, 900), Ok(900_000));
        assert_eq!(read(&DENY_TTL, 900), Ok(900_000));
        assert_eq!(read(&RETRY_BACKOFF, 150_000), Ok(150_000));
        assert_eq!(read(&ALLOW_TTL, 0), Ok(300_000));
        assert_eq!(read(&DENY_TTL, 0), Ok(30_000));
        assert_eq!(read(&RETRY_BACKOFF, 0), Ok(500));
        for span in [&ALLOW_TTL, &DENY_TTL, &RETRY_BACKOFF] {
            assert_eq!(read(span, -1), Ok(0));
            assert!(read(span, -2).is_err() && read(span, i64::MAX).is_err());
        }
        assert_eq!(read(&ALLOW_TTL, 1), Ok(1000));
        assert_eq!(read(&ALLOW_TTL, 1800), Ok(1_800_000));
        assert_eq!(read(&RETRY_BACKOFF, 300_000), Ok(300_000));
        assert_eq!(
            read(&DENY_TTL, 1801).unwrap_err(),
            "valid value is between 1s and 30m0s, got 30m1s"
        );
        assert_eq!(
            read(&RETRY_BACKOFF, 300_001).unwrap_err(),
            "valid value is between 1ns and 5m0s, got 5m0.001s"
        );
    }

    #[test]
    fn what_is_wrong_with_the_configuration_is_said() {
        let refused = |configuration: Option<Value>| {
            let load = |path: &str| match path {
                "good" => Ok(Backend::default()),
                _ => Err(format!("cannot read {path}")),
            };
            ImagePolicy::read(configuration.as_ref(), load)
                .err()
                .unwrap_or_default()
        };
        assert_eq!(refused(None), "no config specified");
        assert_eq!(
            refused(Some(json!({"imagePolicy": {"kubeConfigFile": "good"}}))),
            ""
        );
        assert_eq!(
            refused(Some(json!({"imagePolicy": {"kubeConfigFile": "bad"}}))),
            "imagePolicy.kubeConfigFile: cannot read bad"
        );
        let span = json!({"imagePolicy": {"kubeConfigFile": "good", "allowTTL": 3600}});
        assert_eq!(
            refused(Some(span)),
            "imagePolicy.allowTTL: valid value is between 1s and 30m0s, got 1h0m0s"
        );
    }
}
