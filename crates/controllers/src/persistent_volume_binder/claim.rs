//! What becomes of a claim. Pure.

use std::sync::Arc;

use api::decision::{Line, reasons};
use api::kinds::{PersistentVolume, PersistentVolumeClaim, StorageClass, migrated_to};
use api::{Gate, Gates, Istr, Quantity};
use runtime::events::EventType;

use super::annotations::{BIND_COMPLETED, BOUND_BY_CONTROLLER, PRE_RESIZE_CAPACITY, SELECTED_NODE};
use super::class;
use super::matching::{is_bound_to, mismatch};
use super::reclaim::HOST_PATH;

/// What is done about a claim.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    Nothing,
    /// Both sides are told of each other, as far as they are not.
    Bind(Arc<PersistentVolume>),
    /// Its phase is Pending.
    Pending,
    /// Its phase is Lost; the event is emitted when that is news.
    Lose,
    /// It names no class, and there is a default one now.
    AssignClass(Istr),
    /// Somebody outside is told to make a volume.
    AskProvisioner(String),
    /// Nothing can be done, which is tried again.
    Fail(String),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub action: Action,
    pub event: Option<Event>,
    pub line: Option<Line>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub event_type: EventType,
    pub reason: &'static str,
    pub message: String,
}

impl Event {
    pub fn normal(reason: &'static str, message: impl Into<String>) -> Event {
        Event {
            event_type: EventType::Normal,
            reason,
            message: message.into(),
        }
    }

    pub fn warning(reason: &'static str, message: impl Into<String>) -> Event {
        Event {
            event_type: EventType::Warning,
            ..Event::normal(reason, message)
        }
    }
}

/// What the caches say of everything that a claim's plan depends on.
pub struct Snapshot<'a> {
    /// The class that it asks for, if there is one of that name.
    pub class: Option<Arc<StorageClass>>,
    pub default_class: &'a dyn Fn() -> Option<Istr>,
    /// The volume of a name.
    pub volume: &'a dyn Fn(&str) -> Option<Arc<PersistentVolume>>,
    /// The volume that suits best; the argument says whether only the scheduler chooses.
    pub find: &'a dyn Fn(bool) -> Result<Option<Arc<PersistentVolume>>, String>,
    /// Pods that use the claim, are not over, and have no node.
    pub unscheduled: &'a dyn Fn() -> Vec<String>,
    /// --enable-dynamic-provisioning
    pub is_dynamic: bool,
    pub gates: Gates,
}

pub fn plan(claim: &PersistentVolumeClaim, snapshot: &Snapshot<'_>) -> Plan {
    let is_completed = claim.metadata.annotation(BIND_COMPLETED).is_some();
    match (is_completed, claim.spec.volume_name.as_str()) {
        (false, "") => plan_unbound(claim, snapshot),
        (false, name) => plan_named(claim, name, snapshot),
        (true, name) => plan_bound(claim, name, snapshot),
    }
}

fn plan_unbound(claim: &PersistentVolumeClaim, snapshot: &Snapshot<'_>) -> Plan {
    let is_delayed = match is_delayed(claim, snapshot.class.as_deref()) {
        Ok(is_delayed) => is_delayed,
        Err(message) => return fail(message),
    };
    match (snapshot.find)(is_delayed) {
        Ok(Some(volume)) => return bind(volume),
        Ok(None) => {}
        Err(error) => {
            let key = claim.metadata.key();
            return fail(format!("error finding PV for claim \"{key}\": {error}"));
        }
    }
    if !class::is_chosen(claim)
        && let Some(class) = (snapshot.default_class)()
    {
        let line = Line::acts("AssignsClass", format!("gives it class {class}"))
            .because("it names none, and that is the default now");
        return Plan {
            action: Action::AssignClass(class),
            event: None,
            line: Some(line),
        };
    }
    if is_delayed && claim.metadata.annotation(SELECTED_NODE).is_none() {
        return wait_for_consumer(&(snapshot.unscheduled)());
    }
    match class::of_claim(claim) {
        "" => Plan {
            action: Action::Pending,
            event: Some(Event::normal(
                "FailedBinding",
                "no persistent volumes available for this claim and no storage class is set",
            )),
            line: Some(
                Line::waits(reasons::NO_VOLUME, "waits for a volume that suits it")
                    .because("none does, and it has no class that could make one")
                    .hint("create a volume that suits, or a default StorageClass"),
            ),
        },
        name => provision(name, snapshot),
    }
}

fn is_delayed(claim: &PersistentVolumeClaim, class: Option<&StorageClass>) -> Result<bool, String> {
    let name = class::of_claim(claim);
    match class.map(|class| class.volume_binding_mode.as_deref()) {
        _ if name.is_empty() => Ok(false),
        None => Ok(false),
        Some(None) => Err(format!(
            "VolumeBindingMode not set for StorageClass {name:?}"
        )),
        Some(Some(mode)) => Ok(mode == "WaitForFirstConsumer"),
    }
}

fn wait_for_consumer(pods: &[String]) -> Plan {
    let (reason, message) = match pods {
        [] => (
            "WaitForFirstConsumer",
            "waiting for first consumer to be created before binding".to_owned(),
        ),
        [only] => (
            "WaitForPodScheduled",
            format!("waiting for pod {only} to be scheduled"),
        ),
        several => (
            "WaitForPodScheduled",
            format!("waiting for pods {} to be scheduled", several.join(",")),
        ),
    };
    let what = match pods {
        [] => "waits for the first pod that uses it".to_owned(),
        pods => format!("waits until {} has a node", pods.join(" or ")),
    };
    Plan {
        action: Action::Pending,
        event: Some(Event::normal(reason, message)),
        line: Some(
            Line::waits(reason, what).because("its class binds where the first consumer runs"),
        ),
    }
}

/// Asks for a volume of this class.
fn provision(name: &str, snapshot: &Snapshot<'_>) -> Plan {
    if !snapshot.is_dynamic {
        return Plan {
            action: Action::Nothing,
            event: None,
            line: Some(
                Line::waits(reasons::NO_VOLUME, "waits for a volume that suits it")
                    .because("none does, and --enable-dynamic-provisioning is off"),
            ),
        };
    }
    let Some(class) = &snapshot.class else {
        let message = format!("storageclass.storage.k8s.io \"{name}\" not found");
        let why = format!("no volume suits, and class {name} does not exist");
        return cannot_provision(message, why, "create the class, or another claim");
    };
    let provisioner = class.provisioner.as_str();
    if let Err(message) = external(provisioner) {
        let why = format!("no volume suits, and class {name} cannot make one: {message}");
        return cannot_provision(message, why, "create a volume that suits");
    }
    let provisioner = migrated_to(provisioner).unwrap_or(provisioner).to_owned();
    let message = format!(
        "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered."
    );
    let line = Line::waits(
        reasons::WAITS_FOR_PROVISIONER,
        format!("waits until {provisioner} has provisioned a volume"),
    );
    Plan {
        event: Some(Event::normal("ExternalProvisioning", message)),
        line: Some(line.hint(format!("see whether the provisioner {provisioner} runs"))),
        action: Action::AskProvisioner(provisioner),
    }
}

/// Is it somebody outside who makes the volumes of this provisioner?
fn external(provisioner: &str) -> Result<(), String> {
    match provisioner {
        _ if migrated_to(provisioner).is_some() => Ok(()),
        // Folders on the machine of the manager are no volumes for pods elsewhere.
        HOST_PATH => Err(format!(
            "Failed to create provisioner: provisioning in volume plugin \"{HOST_PATH}\" is disabled"
        )),
        "kubernetes.io/nfs" => Err("no provisionable volume plugin matched".to_owned()),
        name if name.starts_with("kubernetes.io/") => {
            Err(format!("no volume plugin matched name: {name}"))
        }
        _ => Ok(()),
    }
}

fn cannot_provision(message: String, why: String, hint: &'static str) -> Plan {
    Plan {
        action: Action::Nothing,
        event: Some(Event::warning("ProvisioningFailed", message)),
        line: Some(
            Line::waits(reasons::NO_VOLUME, "waits for a volume that suits it")
                .because(why)
                .hint(hint),
        ),
    }
}

/// A claim that asks for this very volume.
fn plan_named(claim: &PersistentVolumeClaim, name: &str, snapshot: &Snapshot<'_>) -> Plan {
    let Some(volume) = (snapshot.volume)(name) else {
        return Plan {
            action: Action::Pending,
            event: None,
            line: Some(
                Line::waits("VolumeMissing", format!("waits for volume {name}"))
                    .because("it asks for that one, and it does not exist"),
            ),
        };
    };
    let Some(held) = &volume.spec.claim_ref else {
        return match mismatch(&volume, claim, snapshot.gates) {
            None => bind(volume),
            Some(why) => {
                let message = format!("Cannot bind to requested volume \"{name}\": {why}");
                Plan {
                    action: Action::Pending,
                    event: Some(Event::warning("VolumeMismatch", message)),
                    line: Some(
                        Line::waits(
                            "VolumeMismatch",
                            format!("waits for volume {name} to suit it"),
                        )
                        .because(why),
                    ),
                }
            }
        };
    };
    if is_bound_to(&volume, claim) {
        return bind(volume);
    }
    let other = format!("{}/{}", held.namespace, held.name);
    let message = format!("volume \"{name}\" already bound to a different claim.");
    let event = Some(Event::warning("FailedBinding", message));
    let line = Line::waits("VolumeTaken", format!("waits until volume {name} is free"))
        .because(format!("it is bound to claim {other}"));
    let action = match claim.metadata.annotation(BOUND_BY_CONTROLLER) {
        None => Action::Pending,
        Some(_) => Action::Fail(format!(
            "invalid binding of claim \"{}\" to volume \"{name}\": volume already claimed by \"{other}\"",
            claim.metadata.key()
        )),
    };
    Plan {
        action,
        event,
        line: Some(line),
    }
}

/// A claim that was bound: it keeps its volume, or has lost it.
fn plan_bound(claim: &PersistentVolumeClaim, name: &str, snapshot: &Snapshot<'_>) -> Plan {
    if name.is_empty() {
        return lose(
            claim,
            "ClaimLost",
            "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
        );
    }
    let Some(volume) = (snapshot.volume)(name) else {
        return lose(
            claim,
            "ClaimLost",
            "Bound claim has lost its PersistentVolume. Data on the volume is lost!",
        );
    };
    match &volume.spec.claim_ref {
        Some(held) if held.uid != claim.metadata.uid => lose(
            claim,
            "ClaimMisbound",
            "Two claims are bound to the same volume, this one is bound incorrectly",
        ),
        _ => bind(volume),
    }
}

fn bind(volume: Arc<PersistentVolume>) -> Plan {
    Plan {
        action: Action::Bind(volume),
        event: None,
        line: None,
    }
}

fn lose(claim: &PersistentVolumeClaim, reason: &'static str, message: &'static str) -> Plan {
    let is_news = claim.status.phase != "Lost";
    Plan {
        action: if is_news {
            Action::Lose
        } else {
            Action::Nothing
        },
        event: is_news.then(|| Event::warning(reason, message)),
        line: is_news.then(|| Line::acts(reason, "notes that it has lost its volume")),
    }
}

fn fail(message: String) -> Plan {
    Plan {
        action: Action::Fail(message),
        event: None,
        line: None,
    }
}

/// What is to be changed in the status of a claim; `None` within says that the field goes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatusChange {
    pub phase: Option<&'static str>,
    pub access_modes: Option<Option<Vec<Istr>>>,
    pub storage: Option<Option<Quantity>>,
    pub attributes_class: Option<Option<Istr>>,
}

impl StatusChange {
    pub fn is_empty(&self) -> bool {
        *self == StatusChange::default()
    }
}

/// What the status of a claim lacks to be in this phase, with this volume.
pub fn status_change(
    claim: &PersistentVolumeClaim,
    phase: &'static str,
    volume: Option<&PersistentVolume>,
    gates: Gates,
) -> Result<StatusChange, String> {
    let status = &claim.status;
    let is_news = status.phase != phase;
    let mut change = StatusChange {
        phase: is_news.then_some(phase),
        ..StatusChange::default()
    };
    let Some(volume) = volume else {
        change.access_modes = (!status.access_modes.is_empty()).then_some(None);
        change.storage = status.storage.is_some().then_some(None);
        let current = &status.current_volume_attributes_class_name;
        change.attributes_class = current.is_some().then_some(None);
        return Ok(change);
    };
    if status.access_modes != volume.spec.access_modes {
        change.access_modes = Some(Some(volume.spec.access_modes.to_vec()));
    }
    if is_news {
        let name = &volume.metadata.name;
        let Some(size) = &volume.spec.storage else {
            return Err(format!(
                "PersistentVolume {name:?} is without a storage capacity"
            ));
        };
        let before = volume.metadata.annotation(PRE_RESIZE_CAPACITY);
        if let Some(before) = before {
            let before = Quantity::parse(before).unwrap_or_else(|_| size.clone());
            change.storage = Some(Some(before));
        } else if status.storage.as_ref() != Some(size) {
            change.storage = Some(Some(size.clone()));
        }
    }
    let class = &volume.spec.volume_attributes_class_name;
    let has_classes = gates.enabled(Gate::VolumeAttributesClass);
    if has_classes
        && status.phase == "Pending"
        && *class != status.current_volume_attributes_class_name
    {
        change.attributes_class = Some(class.clone());
    }
    Ok(change)
}
