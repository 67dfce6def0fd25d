//! What goes wrong with watches: cut, frozen, late, expired, told twice.

use std::time::Duration;

use bytes::Bytes;
use client::{Body, BoxError};
use futures_util::stream::{self, BoxStream, StreamExt};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tokio::time::Instant;

use super::FaultInjector;
use crate::bell::Listener;

/// The plural of a request for many objects; none for a request for one.
pub(super) fn listed(request: &Request<Bytes>) -> Option<String> {
    let path = request.uri().path().trim_start_matches('/');
    let mut parts = path.split('/');
    let group_parts = match parts.next()? {
        "api" => 1,
        "apis" => 2,
        _ => return None,
    };
    let rest: Vec<&str> = parts.skip(group_parts).collect();
    match rest.as_slice() {
        ["namespaces", _, plural] | [plural] => Some((*plural).to_owned()),
        _ => None,
    }
}

pub(super) fn is_watch(request: &Request<Bytes>) -> bool {
    let query = request.uri().query();
    query.is_some_and(|query| query.contains("watch="))
}

/// One watch, on its way to a manager.
struct Spoiled {
    injector: FaultInjector,
    plural: String,
    manager: usize,
    events: BoxStream<'static, Result<Bytes, BoxError>>,
    cuts: Listener,
    expiries: Listener,
    /// What the seed holds for this watch: after so many events.
    cut: Option<usize>,
    expire: Option<usize>,
    freeze: Option<(usize, Duration)>,
    seen: usize,
    again: Option<Bytes>,
    ended: bool,
}

impl FaultInjector {
    pub(super) fn spoil(
        &self,
        response: Response<Body>,
        plural: String,
        manager: usize,
    ) -> Response<Body> {
        let (faults, rng) = (&self.0.faults, &self.0.rng);
        let some = |strikes: bool| strikes.then(|| rng.below(30));
        let cut = some(self.strikes("watch-cut", faults.watch_cut));
        let expire = some(self.strikes("watch-expired", faults.watch_expired));
        let freeze = some(self.strikes("watch-frozen", faults.watch_frozen))
            .map(|index| (index, Duration::from_millis(rng.below(20_000) as u64)));
        let (head, body) = response.into_parts();
        let spoiled = Spoiled {
            injector: self.clone(),
            plural,
            manager,
            events: body.into_data_stream().boxed(),
            cuts: self.0.cuts.listen(),
            expiries: self.0.expiries.listen(),
            cut,
            expire,
            freeze,
            seen: 0,
            again: None,
            ended: false,
        };
        let events = stream::unfold(spoiled, |mut spoiled| async move {
            let event = spoiled.next().await?;
            Some((event.map(Frame::data), spoiled))
        });
        Response::from_parts(head, StreamBody::new(events).boxed_unsync())
    }

    /// Until when watches of this kind stand still for this manager.
    fn frozen(&self, plural: &str, manager: usize) -> Option<Instant> {
        let isolated = self.is_isolated(manager);
        let frozen = self.lock().frozen.get(plural).copied();
        isolated.max(frozen).filter(|until| Instant::now() < *until)
    }

    fn delayed(&self, plural: &str) -> Option<Duration> {
        let state = self.lock();
        let (until, by) = state.delayed.get(plural)?;
        (Instant::now() < *until).then_some(*by)
    }
}

impl Spoiled {
    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        if self.ended {
            return None;
        }
        if let Some(again) = self.again.take() {
            return Some(Ok(again));
        }
        if self.cut == Some(self.seen) {
            return None;
        }
        if self.expire == Some(self.seen) {
            return self.expired();
        }
        let event = tokio::select! {
            biased;
            () = self.cuts.heard() => return None,
            () = self.expiries.heard() => None,
            event = self.events.next() => Some(event?),
        };
        let Some(event) = event else {
            return self.expired();
        };
        if let Some((_, lasts)) = self.freeze.filter(|(index, _)| *index == self.seen) {
            tokio::time::sleep(lasts).await;
        }
        while let Some(until) = self.injector.frozen(&self.plural, self.manager) {
            tokio::time::sleep_until(until).await;
        }
        if let Some(by) = self.injector.delayed(&self.plural) {
            tokio::time::sleep(by).await;
        }
        self.seen += 1;
        if let Ok(line) = &event
            && line.iter().filter(|byte| **byte == b'\n').count() == 1
            && self
                .injector
                .strikes("duplicate", self.injector.0.faults.duplicate)
        {
            self.again = Some(line.clone());
        }
        Some(event)
    }

    fn expired(&mut self) -> Option<Result<Bytes, BoxError>> {
        self.ended = true;
        let status = serde_json::json!({"type": "ERROR", "object": {
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410,
            "message": "too old resource version: the injector has compacted it",
        }});
        Some(Ok(Bytes::from(format!("{status}\n"))))
    }
}
