//! What is to be done about one range. Pure.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use api::decision::{Explain, Line};
use api::kinds::{SERVICE_CIDR_FINALIZER, ServiceCidr};
use api::{MicroTime, Time, conditions};
use runtime::Next;

/// For so long an API server may not have heard of a deletion, and give out addresses of the range.
const DELETION_GRACE: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub finalizer: Option<Finalizer>,
    /// The condition to write, if it is another one.
    pub ready: Option<Readiness>,
    pub next: Next,
    reason: Reason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finalizer {
    Add,
    Remove,
}

/// The condition `Ready`, of which there are two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readiness {
    pub is_true: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Reason {
    Ready,
    /// The address is in this range alone.
    Blocked(IpAddr),
    /// It goes then.
    Grace(Time),
    Goes,
}

impl Readiness {
    pub fn status(&self) -> &'static str {
        if self.is_true { "True" } else { "False" }
    }

    pub fn reason(&self) -> &'static str {
        if self.is_true { "" } else { "Terminating" }
    }

    pub fn message(&self) -> &'static str {
        match self.is_true {
            true => "Kubernetes Service CIDR is ready",
            false => {
                "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR"
            }
        }
    }

    /// This condition, unless the range has it.
    fn unless_held(self, cidr: &ServiceCidr) -> Option<Readiness> {
        let held = conditions::find(&cidr.status.conditions, "Ready");
        let is_held = held.is_some_and(|held| {
            held.status.as_str() == self.status()
                && &*held.reason == self.reason()
                && &*held.message == self.message()
        });
        (!is_held).then_some(self)
    }
}

/// `all` are all ranges there are, `allocated` the addresses that Services have.
pub fn plan(
    cidr: &ServiceCidr,
    all: &[Arc<ServiceCidr>],
    allocated: impl Iterator<Item = IpAddr>,
    now: MicroTime,
) -> Plan {
    let is_held = cidr.metadata.has_finalizer(SERVICE_CIDR_FINALIZER);
    let none = |reason| Plan {
        finalizer: None,
        ready: None,
        next: Next::AwaitChange,
        reason,
    };
    let Some(deleted_at) = cidr.metadata.deleted_at else {
        return Plan {
            finalizer: (!is_held).then_some(Finalizer::Add),
            ready: Readiness { is_true: true }.unless_held(cidr),
            ..none(Reason::Ready)
        };
    };
    if let Err(orphan) = can_go(cidr, all, allocated) {
        return Plan {
            ready: Readiness { is_true: false }.unless_held(cidr),
            ..none(Reason::Blocked(orphan))
        };
    }
    let goes_at = deleted_at.micro().plus(DELETION_GRACE);
    if now < goes_at {
        return Plan {
            next: Next::After(goes_at.since(now)),
            ..none(Reason::Grace(goes_at.time()))
        };
    }
    Plan {
        finalizer: is_held.then_some(Finalizer::Remove),
        ..none(Reason::Goes)
    }
}

/// Would every address that a Service has still lie in some range that stays? If not, one that would not.
pub fn can_go(
    cidr: &ServiceCidr,
    all: &[Arc<ServiceCidr>],
    mut allocated: impl Iterator<Item = IpAddr>,
) -> Result<(), IpAddr> {
    // Of ranges that are to go together the last one stays for as long as it is needed.
    let order = |cidr: &ServiceCidr| (cidr.metadata.deleted_at, cidr.metadata.name.clone());
    let own = order(cidr);
    let others = || {
        all.iter().filter(|other| {
            let stays = !other.metadata.is_terminating() || order(other) > own;
            stays && other.metadata.name != cidr.metadata.name
        })
    };
    let is_covered = |range| others().any(|other| other.ranges().any(|it| it.covers(&range)));
    if cidr.ranges().all(is_covered) {
        return Ok(());
    }
    let is_orphan =
        |address: &IpAddr| cidr.assigns(address) && !others().any(|other| other.assigns(address));
    match allocated.find(is_orphan) {
        Some(orphan) => Err(orphan),
        None => Ok(()),
    }
}

/// The ranges that share addresses with this one.
pub(super) fn overlapping<'a>(
    cidr: &ServiceCidr,
    all: &'a [Arc<ServiceCidr>],
) -> impl Iterator<Item = &'a Arc<ServiceCidr>> {
    let own: Vec<_> = cidr.ranges().collect();
    all.iter().filter(move |other| {
        let mut ranges = other.ranges();
        ranges.any(|range| own.iter().any(|own| own.overlaps(&range)))
    })
}

/// The ranges that give out this address.
pub(super) fn containing(
    address: IpAddr,
    all: &[Arc<ServiceCidr>],
) -> impl Iterator<Item = &Arc<ServiceCidr>> {
    all.iter().filter(move |cidr| cidr.assigns(&address))
}

impl Explain for Plan {
    fn explain(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        match self.finalizer {
            Some(Finalizer::Add) => lines.push(
                Line::acts("AddsFinalizer", "adds its finalizer")
                    .because("it must not be deleted while Services have addresses of it"),
            ),
            Some(Finalizer::Remove) => lines.push(
                Line::acts("RemovesFinalizer", "removes its finalizer")
                    .because("no Service has an address that only it gives out"),
            ),
            None => {}
        }
        if let Some(ready) = &self.ready {
            lines.push(Line::acts(
                "SetsReady",
                format!("sets Ready to {}", ready.status()),
            ));
        }
        match &self.reason {
            Reason::Blocked(address) => lines.push(
                Line::waits(
                    "Blocked",
                    format!("waits until IPAddress {address} is deleted"),
                )
                .because("no other ServiceCIDR that stays gives it out")
                .hint("delete the Services in this range, or create a ServiceCIDR that covers it"),
            ),
            Reason::Grace(at) => lines.push(
                Line::waits("Grace", "is deleted")
                    .because("API servers may not have heard of the deletion yet")
                    .until(*at),
            ),
            Reason::Ready | Reason::Goes => {}
        }
        lines
    }
}
