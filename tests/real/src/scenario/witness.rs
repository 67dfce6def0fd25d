//! Who sees what a manager writes while scenarios are played side by side: it tells when all is quiet in a
//! scenario's namespace, and what was written there.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::json;

use crate::audit::Entry;
use crate::http::Api;

/// A manager that still writes after this long fights with something.
const QUIET_DEADLINE: Duration = Duration::from_secs(60);
/// Between two looks: short next to the silence that is waited for.
const LOOK: Duration = Duration::from_millis(50);

pub(crate) trait Witness: Sync {
    /// From now on, remembers what is written in this namespace, and to objects that carry it in front of
    /// their names.
    fn attend(&self, namespace: &str);

    /// When something was last written there, as far as is known by now.
    fn last_write(&self, namespace: &str) -> Result<Option<Instant>>;

    /// All that was written there, in the order in which it happened.
    fn writes(&self, namespace: &str) -> Result<Vec<Entry>>;
}

/// On a busy machine everybody is slow. What a manager does next follows from a handful of events and answers, and it
/// writes what it has to tell of all scenarios one after the other: each of that may take as long as a write takes now.
const ANSWERS: u32 = 40;

/// Waits until nothing has been written in a namespace for as long as `quiet`, and nothing was asked of the
/// manager since `acted`: where that is long ago already, there is nothing to wait for.
pub(crate) fn wait_until_idle(
    witness: &dyn Witness,
    api: &Api,
    namespace: &str,
    quiet: Duration,
    acted: Instant,
) -> Result<()> {
    let started = Instant::now();
    let mut slowest = Duration::ZERO;
    loop {
        let last = witness.last_write(namespace)?;
        let quiet_since = last.map_or(acted, |last| last.max(acted));
        if quiet_since.elapsed() >= quiet + slowest * ANSWERS {
            let asked = Instant::now();
            write_elsewhere(api)?;
            if asked.elapsed() <= slowest {
                return Ok(());
            }
            slowest = asked.elapsed();
        }
        if started.elapsed() > QUIET_DEADLINE {
            bail!(
                "the manager still writes in {namespace} after {} s",
                QUIET_DEADLINE.as_secs()
            );
        }
        std::thread::sleep(LOOK);
    }
}

/// One write of the kind that comes last in most scenarios, in a namespace that is part of none.
fn write_elsewhere(api: &Api) -> Result<()> {
    const NAMESPACE: &str = "kube-public";
    let event = json!({
        "metadata": {"generateName": "how-long-"}, "reason": "HowLong", "type": "Normal",
        "message": "how long does a write take?",
        "involvedObject": {"kind": "Pod", "namespace": NAMESPACE, "name": "nobody"},
    });
    let events = format!("/api/v1/namespaces/{NAMESPACE}/events");
    api.create(&events, &event).map(drop)
}

/// The namespaces of the scenarios that are being played.
#[derive(Debug, Default)]
pub(crate) struct Scenarios(BTreeSet<String>);

impl Scenarios {
    pub(crate) fn insert(&mut self, namespace: &str) {
        self.0.insert(namespace.to_owned());
    }

    /// The namespace of the scenario that a write belongs to: whatever begins with one and a dash is part of it.
    pub(crate) fn of(&self, entry: &Entry) -> Option<String> {
        let name = entry.object_ref.as_ref().map(|object| object.name.as_str());
        let place = match (entry.namespace(), name) {
            ("", Some(name)) => name,
            (namespace, _) => namespace,
        };
        let belongs = |known: &&String| {
            let rest = place.strip_prefix(known.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        self.0.iter().find(belongs).cloned()
    }
}
