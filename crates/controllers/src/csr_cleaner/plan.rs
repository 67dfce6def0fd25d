//! When a request is old, and why. Pure.

use std::time::Duration;

use api::decision::{Line, reasons};
use api::kinds::{
    CERTIFICATE_APPROVED, CERTIFICATE_DENIED, CERTIFICATE_FAILED, CertificateSigningRequest,
};
use api::{MicroTime, Time};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// Upstream's numbers: for what was dealt with, and for what waits to be.
const DECIDED: Duration = Duration::from_secs(60 * 60);
const WAITING: Duration = Duration::from_secs(24 * 60 * 60);

/// After this moment a request is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline {
    pub at: Time,
    pub reason: Reason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    Issued,
    Denied,
    Failed,
    Pending,
    /// Its certificate has ended.
    Expired,
    /// Approved, and never signed.
    Unissued,
}

/// The first of its deadlines; none for a request that never gets old.
pub fn deadline(request: &CertificateSigningRequest) -> Option<Deadline> {
    let mut deadlines: Vec<Deadline> = Vec::new();
    let mut add = |since: Option<Time>, age: Duration, reason: Reason| {
        // UPSTREAM: a condition without a time never gets old.
        deadlines.extend(since.map(|since| Deadline {
            at: since.micro().plus(age).time(),
            reason,
        }));
    };
    let conditions = &request.status.conditions;
    let is_issued = request.is_issued();
    if conditions.is_empty() {
        let created = request.metadata.created_at;
        add(
            (created != Time::default()).then_some(created),
            WAITING,
            Reason::Pending,
        );
    }
    for condition in conditions {
        let since = condition.last_update_time;
        match &*condition.type_ {
            CERTIFICATE_DENIED => add(since, DECIDED, Reason::Denied),
            CERTIFICATE_FAILED => add(since, DECIDED, Reason::Failed),
            CERTIFICATE_APPROVED if is_issued => {
                add(since, DECIDED, Reason::Issued);
                add(certificate_end(request), Duration::ZERO, Reason::Expired);
            }
            CERTIFICATE_APPROVED => add(since, WAITING, Reason::Unissued),
            _ => {}
        }
    }
    deadlines.into_iter().min()
}

/// When the certificate of a request ends; none if that cannot be read.
fn certificate_end(request: &CertificateSigningRequest) -> Option<Time> {
    let pem = BASE64_STANDARD.decode(&*request.status.certificate).ok()?;
    let (_, block) = x509_parser::pem::parse_x509_pem(&pem).ok()?;
    let (_, certificate) = x509_parser::parse_x509_certificate(&block.contents).ok()?;
    Some(Time::from_unix(
        certificate.validity().not_after.timestamp(),
    ))
}

impl Deadline {
    pub fn is_past(&self, now: MicroTime) -> bool {
        now > self.at.micro()
    }
}

impl Reason {
    pub const fn why(self) -> &'static str {
        match self {
            Reason::Issued => "it was approved and issued an hour ago",
            Reason::Denied => "it was denied an hour ago",
            Reason::Failed => "it has failed an hour ago",
            Reason::Pending => "it was neither approved nor denied for a day",
            Reason::Expired => "its certificate has ended",
            Reason::Unissued => "it was approved a day ago and not signed",
        }
    }
}

impl From<&Deadline> for Line {
    fn from(deadline: &Deadline) -> Line {
        let why = match deadline.reason {
            Reason::Issued => "it was issued",
            Reason::Denied => "it was denied",
            Reason::Failed => "it has failed",
            Reason::Pending => "it is neither approved nor denied",
            Reason::Expired => "its certificate ends",
            Reason::Unissued => "it was approved and is not signed",
        };
        Line::waits(reasons::CLEANED_UP, "is due to be deleted")
            .because(why)
            .until(deadline.at)
    }
}
