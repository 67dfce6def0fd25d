//! What came of drains. Pure.

use api::decision::{agree, counted};
use serde::Serialize;

use crate::drain::{Draining, Leaving};
use crate::report::seconds;
use crate::run::Run;
use crate::text::duration;
use crate::timeline::Entry;
use crate::warnings::{Warning, WarningKind};

/// How the drain of one node goes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Drain {
    /// `node/node-1`
    pub object: String,
    pub completes: bool,
    /// When it begins: once the manifests are applied and what they ask for is there.
    pub begins: f64,
    /// When nothing is left on it, if that happens.
    pub seconds: Option<f64>,
    pub pods: Vec<Evicted>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Evicted {
    pub pod: String,
    pub namespace: String,
    /// When it is evicted, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<f64>,
    /// Since when and by what it is held, if it has to wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_at: Option<f64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub refused: String,
    /// Who would put it back at once, so that it stays.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stays_for: String,
    /// Nothing recreates it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub bare: bool,
    /// What manages it, if that is not simulated: `rollout/web`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub managed_by: String,
    /// It has data in emptyDir volumes, which is lost.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub loses_data: bool,
}

pub(crate) fn drains(run: &Run) -> Vec<Drain> {
    run.drains.all().iter().map(|one| drain(run, one)).collect()
}

fn drain(run: &Run, one: &Draining) -> Drain {
    let managed_by = |key: &api::Key| run.world.managed_elsewhere(key).unwrap_or_default();
    let pod = |(key, leaving): (&api::Key, &Leaving)| Evicted {
        pod: format!("pod/{}", key.name),
        namespace: key.namespace.to_string(),
        at: leaving.evicted.map(|at| seconds(run.start, at)),
        refused_at: leaving
            .refused
            .as_ref()
            .map(|(at, _)| seconds(run.start, *at)),
        refused: leaving
            .refused
            .as_ref()
            .map_or(String::new(), |(_, why)| why.clone()),
        stays_for: leaving.stays_for.clone().unwrap_or_default(),
        bare: leaving.is_bare && managed_by(key).is_empty(),
        managed_by: managed_by(key),
        loses_data: leaving.loses_data && leaving.stays_for.is_none(),
    };
    Drain {
        object: format!("node/{}", one.node),
        completes: one.done.is_some(),
        begins: seconds(run.start, one.began),
        seconds: one.done.map(|at| seconds(run.start, at)),
        pods: one.pods.iter().map(pod).collect(),
    }
}

impl Drain {
    /// `node/node-1 is drained after 35s, 15s after the drain began`
    pub(crate) fn verdict(&self, given_seconds: f64) -> String {
        let own = |seconds: f64| match self.begins > 0.0 {
            true => format!(
                ", {} after the drain began",
                duration(seconds - self.begins)
            ),
            false => String::new(),
        };
        match self.seconds {
            Some(seconds) => {
                let (object, after) = (&self.object, duration(seconds));
                format!("{object} is drained after {after}{}", own(seconds))
            }
            None => format!(
                "{} is not drained within {}",
                self.object,
                duration(given_seconds)
            ),
        }
    }

    /// `node/node-1: 4 pods evicted, 1 waits for a budget, 1 stays`
    pub(crate) fn summary(&self) -> String {
        let evicted = self.pods.iter().filter(|pod| pod.at.is_some()).count();
        let mut parts = vec![format!("{} evicted", counted(evicted, "pod"))];
        let waited = self
            .pods
            .iter()
            .filter(|pod| pod.refused_at.is_some() && pod.at.is_some());
        match waited.count() {
            0 => {}
            count => parts.push(format!("{count} of them after waiting for a budget")),
        }
        let held = self.pods.iter().filter(|pod| pod.is_held()).count();
        if held > 0 {
            parts.push(format!("{held} never {} evicted", agree(held, "is", "are")));
        }
        let stays = self
            .pods
            .iter()
            .filter(|pod| !pod.stays_for.is_empty())
            .count();
        if stays > 0 {
            let verb = agree(stays, "stays", "stay");
            parts.push(format!("{stays} of DaemonSets {verb}"));
        }
        format!("{}: {}", self.object, parts.join(", "))
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        let mut entries = vec![Entry {
            at: self.begins,
            object: self.object.clone(),
            what: "you drain it".to_owned(),
            why: "it is cordoned, and its pods are evicted".to_owned(),
        }];
        for pod in &self.pods {
            let of = |at: f64, what: String, why: String| Entry {
                at,
                object: pod.pod.clone(),
                what,
                why,
            };
            if !pod.stays_for.is_empty() {
                let why = format!("{} would put it back at once", pod.stays_for);
                entries.push(of(self.begins, "stays".to_owned(), why));
            }
            if let Some(at) = pod.refused_at {
                let what = "may not be evicted yet".to_owned();
                entries.push(of(at, what, pod.refused.clone()));
            }
            if let Some(at) = pod.at {
                let what = match pod.refused_at {
                    Some(since) => format!("is evicted after waiting {}", duration(at - since)),
                    None => "is evicted".to_owned(),
                };
                let why = match (pod.bare, &*pod.managed_by) {
                    (true, _) => "not managed by a controller; nothing will recreate it".to_owned(),
                    (false, "") => String::new(),
                    (false, by) => format!("managed by {by}, which is not simulated"),
                };
                entries.push(of(at, what, why));
            }
        }
        if let Some(at) = self.seconds {
            entries.push(Entry {
                at,
                object: self.object.clone(),
                what: "is drained".to_owned(),
                why: String::new(),
            });
        }
        entries
    }

    pub(crate) fn warnings(&self, given_seconds: f64) -> Vec<Warning> {
        let of = |kind, pod: &Evicted, text: String, at| Warning {
            kind,
            object: pod.pod.clone(),
            text,
            at,
        };
        let mut found = Vec::new();
        for pod in &self.pods {
            if pod.is_held() {
                let text = format!(
                    "is not evicted within {}: {}",
                    duration(given_seconds),
                    pod.refused
                );
                found.push(of(WarningKind::DrainBlocked, pod, text, pod.refused_at));
            }
            if pod.bare {
                let text = "is not managed by a controller: nothing recreates it, and kubectl drain asks for --force";
                found.push(of(WarningKind::NotRecreated, pod, text.to_owned(), pod.at));
            }
            if !pod.managed_by.is_empty() {
                let by = &pod.managed_by;
                let text = format!(
                    "is managed by {by}, which is not simulated: nothing recreates it here"
                );
                found.push(of(WarningKind::NotRecreated, pod, text, pod.at));
            }
            if pod.loses_data {
                let text = "loses what it has in emptyDir volumes, and kubectl drain asks for --delete-emptydir-data";
                found.push(of(WarningKind::NotRecreated, pod, text.to_owned(), pod.at));
            }
        }
        found
    }
}

impl Evicted {
    fn is_held(&self) -> bool {
        self.at.is_none() && self.refused_at.is_some()
    }
}
