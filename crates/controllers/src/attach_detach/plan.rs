//! What becomes of a volume on each node, and why. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::kinds::{PersistentVolume, Pod, VolumeAttachment};
use api::{Istr, Key, MicroTime};

use super::memory::Entry;

/// How long a volume that is in use is waited for on a node that is not healthy: upstream's
/// `ReconcilerMaxWaitForUnmountDuration`.
pub const UNMOUNT_MAX: Duration = Duration::from_mins(6);

/// Everything that is known of one volume.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// What lists of attached volumes call it.
    pub volume: Istr,
    /// What users call it.
    pub name: String,
    /// The PersistentVolume, if it is one.
    pub object: Option<Arc<PersistentVolume>>,
    /// May several nodes have it?
    pub is_shared: bool,
    pub attacher: Attacher,
    /// By node: where it is, or should be.
    pub places: BTreeMap<Istr, Place>,
}

/// Who makes a volume available to a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Attacher {
    /// A CSI driver, which is asked by a VolumeAttachment.
    #[default]
    Driver,
    /// A CSI driver that does not attach.
    Needless,
    /// The kubelet itself; the node's list says so and is all there is.
    Kubelet,
    /// A program of this name, which is not called.
    Program(Istr),
}

/// One node, as far as the volume is concerned.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// Is there such a node, and does its kubelet leave attaching to the controller?
    pub is_managed: bool,
    pub is_ready: bool,
    pub is_out_of_service: bool,
    /// Does the kubelet use the volume, as far as anybody knows?
    pub is_in_use: bool,
    /// Is it in the node's list of attached volumes?
    pub is_listed: bool,
    pub attachment: Option<Arc<VolumeAttachment>>,
    /// Those that need it here, by namespace and name.
    pub pods: Vec<Arc<Pod>>,
    pub source: Option<Source>,
    pub memory: Entry,
}

/// What a new attachment refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Volume(Istr),
    /// A volume of this name in this pod.
    Inline(Key, Istr),
}

/// What is to be done about a volume on a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// It is wanted and attached.
    Keep,
    Attach,
    /// The driver has not attached it yet, or says why it cannot.
    AwaitAttach {
        error: Option<Box<str>>,
    },
    /// Nobody has to attach it: the node's list says that it may be used.
    List,
    /// It was to be detached, and is wanted again only now.
    AwaitDeletion,
    /// Others have it.
    Blocked {
        by: Vec<Istr>,
    },
    /// The kubelet has it mounted still. It is waited for until then; for ever if that is none.
    AwaitUnmount {
        until: Option<MicroTime>,
    },
    /// The kubelet must know first that it is no longer to be used.
    Unlist,
    Detach {
        force: Option<Force>,
    },
    AwaitDetach {
        error: Option<Box<str>>,
    },
    /// Only a program that is not called could attach it.
    Refuse {
        driver: Istr,
    },
}

/// Why a volume is detached without asking the kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    Timeout,
    OutOfService,
}

impl Force {
    /// Upstream's label of the counter.
    pub fn label(self) -> &'static str {
        match self {
            Force::Timeout => "timeout",
            Force::OutOfService => "out-of-service",
        }
    }
}

impl Step {
    pub fn is_unwanted(&self) -> bool {
        matches!(
            self,
            Step::AwaitUnmount { .. }
                | Step::Unlist
                | Step::Detach { .. }
                | Step::AwaitDetach { .. }
        )
    }

    /// Should the node's list have the volume? None where that stays as it is.
    fn lists(&self) -> Option<bool> {
        match self {
            Step::Keep | Step::List => Some(true),
            Step::AwaitUnmount { .. } => None,
            _ => Some(false),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    pub steps: BTreeMap<Istr, Step>,
}

impl Plan {
    /// Should the node's list have the volume?
    pub fn lists(&self, snapshot: &Snapshot, node: &str) -> bool {
        let is_listed = || {
            snapshot
                .places
                .get(node)
                .is_some_and(|place| place.is_listed)
        };
        let step = self.steps.get(node);
        step.is_some_and(|step| step.lists().unwrap_or_else(is_listed))
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Nothing is detached by force because time has passed.
    pub never_by_timeout: bool,
}

pub fn plan(snapshot: &Snapshot, settings: Settings, now: MicroTime) -> Plan {
    let mut plan = Plan::default();
    // What is to be detached comes first: who waits for it should see that it is on its way.
    for (node, place) in &snapshot.places {
        if !snapshot.is_wanted(place)
            && let Some(step) = unwanted(snapshot, place, settings, now)
        {
            plan.steps.insert(node.clone(), step);
        }
    }
    let mut holders: Vec<Istr> = snapshot.holders().cloned().collect();
    for (node, place) in &snapshot.places {
        if !snapshot.is_wanted(place) {
            continue;
        }
        let step = wanted(snapshot, node, place, &holders, now);
        if matches!(step, Step::Attach | Step::List) {
            holders.push(node.clone());
        }
        plan.steps.insert(node.clone(), step);
    }
    plan
}

impl Snapshot {
    /// Nodes that have the volume, or may have it.
    pub fn holders(&self) -> impl Iterator<Item = &Istr> {
        let held = self.places.iter().filter(|(_, place)| self.is_held(place));
        held.map(|(node, _)| node)
    }

    fn is_held(&self, place: &Place) -> bool {
        match self.attacher {
            Attacher::Kubelet => place.is_listed,
            _ => place.attachment.is_some(),
        }
    }

    /// Does a pod want the volume here? On a node that is not managed, or is gone, it keeps what it has and gets no
    /// more.
    fn is_wanted(&self, place: &Place) -> bool {
        let is_possible = self.attacher != Attacher::Needless;
        is_possible && !place.pods.is_empty() && (place.is_managed || self.is_held(place))
    }
}

fn wanted(
    snapshot: &Snapshot,
    node: &Istr,
    place: &Place,
    holders: &[Istr],
    now: MicroTime,
) -> Step {
    if let Attacher::Program(driver) = &snapshot.attacher {
        let driver = driver.clone();
        return Step::Refuse { driver };
    }
    let is_kubelets = snapshot.attacher == Attacher::Kubelet;
    match &place.attachment {
        _ if is_kubelets && place.is_listed => return Step::Keep,
        Some(attachment) if is_deleted(attachment, place, now) => return Step::AwaitDeletion,
        Some(attachment) if attachment.is_attached() => return Step::Keep,
        Some(attachment) => {
            let error = attachment.status.attach_error.as_ref();
            let error = error.map(|error| error.message.clone());
            return Step::AwaitAttach { error };
        }
        None => {}
    }
    let others: Vec<Istr> = holders.iter().filter(|by| *by != node).cloned().collect();
    match (snapshot.is_shared || others.is_empty(), is_kubelets) {
        (false, _) => Step::Blocked { by: others },
        (true, true) => Step::List,
        (true, false) => Step::Attach,
    }
}

/// None where there is nothing that could be detached.
fn unwanted(
    snapshot: &Snapshot,
    place: &Place,
    settings: Settings,
    now: MicroTime,
) -> Option<Step> {
    let attachment = place.attachment.as_ref();
    if attachment.is_none() && !place.is_listed {
        return None;
    }
    if let Some(attachment) = attachment
        && is_deleted(attachment, place, now)
    {
        let error = attachment.status.detach_error.as_ref();
        let error = error.map(|error| error.message.clone());
        return Some(Step::AwaitDetach { error });
    }
    let since = place.memory.unwanted_since.unwrap_or(now);
    let deadline = since.plus(UNMOUNT_MAX);
    let is_expired = now > deadline && !settings.never_by_timeout;
    let is_forced = is_expired && !place.is_ready;
    if place.is_in_use && !is_forced && !place.is_out_of_service {
        let is_bounded = !place.is_ready && !settings.never_by_timeout;
        let until = is_bounded.then_some(deadline);
        return Some(Step::AwaitUnmount { until });
    }
    if place.is_listed || attachment.is_none() || snapshot.attacher == Attacher::Kubelet {
        return Some(Step::Unlist);
    }
    // UPSTREAM: past the deadline the kubelet is not asked, nor is what it says, even if the node is healthy.
    let force = match (place.is_out_of_service, is_expired) {
        (_, true) => Some(Force::Timeout),
        (true, false) => Some(Force::OutOfService),
        (false, false) => None,
    };
    Some(Step::Detach { force })
}

/// Is the attachment on its way out, as far as the cache knows or by our own hand?
fn is_deleted(attachment: &VolumeAttachment, place: &Place, now: MicroTime) -> bool {
    let meta = &attachment.metadata;
    let ours = place.memory.deleted.as_ref();
    meta.is_terminating() || ours.is_some_and(|held| held.uid == meta.uid && now <= held.until)
}
