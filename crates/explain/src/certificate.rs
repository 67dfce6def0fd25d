//! Certificate signing requests: who may approve them, why they were not approved or signed, and when they are deleted.

mod approvers;
mod cleaning;

use api::Resource;
use api::decision::Line;
use api::decision::controllers::{CSR_APPROVING, CSR_CLEANER, CSR_SIGNING};
use api::decision::reasons::{CANNOT_SIGN, FORBIDDEN, MALFORMED, NO_AUTHORITY};
use api::kinds::{CertificateSigningRequest, ClusterRole};
use serde_json::Value;

use crate::facts::{Facts, Off};
use crate::help::Help;
use crate::json::{condition, list, text, time};
use crate::kinds::{Kind, Need};
use crate::time::relative;
use crate::{Draft, Obstacle, State};

/// The signers of Kubernetes itself.
const SIGNERS: [&str; 4] = [
    "kubernetes.io/kubelet-serving",
    "kubernetes.io/kube-apiserver-client-kubelet",
    "kubernetes.io/kube-apiserver-client",
    "kubernetes.io/legacy-unknown",
];

const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";

/// More subjects than this need not be named.
const SUBJECTS_MAX: usize = 5;

pub(crate) const KIND: Kind = Kind {
    resource: CertificateSigningRequest::TYPE,
    inputs: &[],
    // Who may approve it.
    needs: &[
        Need::All(ClusterRole::TYPE),
        Need::All(approvers::CLUSTER_ROLE_BINDING),
    ],
    explain,
    tells_deletion: false,
};

pub(crate) fn explain(facts: &Facts, draft: &mut Draft<'_>) {
    let request = &facts.object;
    let signer = text(request, "/spec/signerName");
    let usages: Vec<&str> = list(request, "/spec/usages")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    draft.wants(format!(
        "a certificate of {signer} for {}",
        usages.join(", ")
    ));
    draft.sees(format!("asked by {}", text(request, "/spec/username")));
    if let Some((at, why)) = cleaning::deleted_at(request) {
        let when = relative(at, facts.now);
        draft.sees(match facts.off(CSR_CLEANER) {
            Some(off) => format!(
                "is old from {at} on ({when}; {why}), and no controller that deletes it runs here: {}",
                off.why(CSR_CLEANER)
            ),
            None => format!("is deleted at {at} ({when}) or within an hour after: {why}"),
        });
    }
    let has_certificate = !text(request, "/status/certificate").is_empty();
    if let Some(denied) = condition(request, "Denied") {
        draft.in_the_way(obstacle(facts, denied));
        draft.offer(another());
        draft.conclude(State::Stuck, with_reason("was denied", &reason(denied)));
        return;
    }
    match condition(request, "Approved") {
        Some(_) if has_certificate => {
            draft.conclude(State::Settled, "is approved, and the certificate is issued");
        }
        _ if let Some(failed) = condition(request, "Failed") => {
            draft.in_the_way(obstacle(facts, failed));
            let why = match text(failed, "/message") {
                "" => text(failed, "/reason"),
                message => message,
            };
            draft.offer(another());
            draft.conclude(State::Stuck, with_reason("was refused by its signer", why));
        }
        Some(_) => unsigned(facts, signer, draft),
        None if has_certificate => foreign(facts, draft),
        None => pending(facts, signer, draft),
    }
}

/// A request is decided once.
fn another() -> Option<Help> {
    crate::help::hint("create another request: what was decided about this one stays".to_owned())
}

fn unsigned(facts: &Facts, signer: &str, draft: &mut Draft<'_>) {
    let (why, verdict, help) = if !SIGNERS.contains(&signer) {
        let why = format!("signer {signer} is not a built-in one; another controller has to sign");
        let verdict = format!("is approved, and not signed yet for {signer}");
        (why, verdict, None)
    } else if let Some(line) = decided(facts, &[NO_AUTHORITY, CANNOT_SIGN, MALFORMED]) {
        let verdict = format!("is approved, and {}", sentence(&line));
        (line.why.to_string(), verdict, hint(&line))
    } else if let Some(off) = facts.off(CSR_SIGNING) {
        let verdict = "is approved, and no controller that signs runs here".to_owned();
        (off.why(CSR_SIGNING), verdict, starts(off))
    } else {
        see_whether_signs(facts, draft);
        return draft.conclude(State::Progressing, "is approved, and waits to be signed");
    };
    draft.offer(help);
    stuck(facts, why, verdict, draft);
}

fn stuck(facts: &Facts, why: String, verdict: String, draft: &mut Draft<'_>) {
    draft.in_the_way(Obstacle::of(&facts.object, why));
    draft.conclude(State::Stuck, verdict);
}

/// Where nobody says what runs, nothing is to be expected of it.
fn see_whether_signs(facts: &Facts, draft: &mut Draft<'_>) {
    if facts.started.is_none() {
        draft.sees(format!(
            "whether {CSR_SIGNING} runs, and can sign it, is not known"
        ));
    }
}

/// What makes the signing controller run.
fn starts(off: Off) -> Option<Help> {
    crate::help::hint(match off {
        Off::Standby => "name the manager that leads by --manager".to_owned(),
        Off::LeftOut => format!("start the controllers with {CSR_SIGNING} among --controllers"),
        // A stand-in for kube-apiserver has no such flags, and no key of its clients' authority.
        Off::Skipped => "run `steersman controller-manager` with the CA of --cluster-signing-cert-file and --cluster-signing-key-file".to_owned(),
    })
}

/// What the signing controller said last, if it is one of these.
fn decided(facts: &Facts, reasons: &[&str]) -> Option<Line> {
    let decided = facts.decisions_about(&facts.object);
    let signing = decided
        .iter()
        .find(|decided| decided.controller == CSR_SIGNING);
    let last = signing?.decisions.last()?;
    let mut lines = last.lines.iter();
    lines.find(|line| reasons.contains(&&*line.reason)).cloned()
}

/// `cannot be signed: the signer has expired`
fn sentence(line: &Line) -> String {
    format!("{}: {}", line.what, line.why)
}

fn hint(line: &Line) -> Option<Help> {
    crate::help::hint(line.hint.to_string())
}

/// Somebody signed it, or pretended to, without asking anybody. Controllers leave it alone.
fn foreign(facts: &Facts, draft: &mut Draft<'_>) {
    let name = text(&facts.object, "/metadata/name");
    draft.offer(Some(Help {
        command: format!(
            "kubectl get csr {name} -o jsonpath='{{.status.certificate}}' | base64 -d | openssl x509 -noout -subject -issuer"
        ),
        why: "shows who signed it; it stays, so create another request if it is not what it should be"
            .to_owned(),
    }));
    draft.conclude(
        State::Stuck,
        "has a certificate in its status, and was never approved",
    );
}

fn pending(facts: &Facts, signer: &str, draft: &mut Draft<'_>) {
    if let Some(line) = decided(facts, &[MALFORMED, FORBIDDEN]) {
        draft.offer(hint(&line));
        return stuck(facts, line.why.to_string(), sentence(&line), draft);
    }
    draft.conclude(State::Stuck, "waits to be approved");
    // What helps beyond the approval is told first: it takes longer.
    if let Some(line) = decided(facts, &[NO_AUTHORITY, CANNOT_SIGN]) {
        let verdict = format!("waits to be approved, and {}", sentence(&line));
        draft.conclude(State::Stuck, verdict);
        draft.offer(hint(&line));
    }
    let name = text(&facts.object, "/metadata/name");
    if signer == KUBELET_CLIENT
        && let Some(off) = facts.off(CSR_APPROVING)
    {
        draft.sees(format!(
            "no controller that approves what kubelets ask for runs here: {}",
            off.why(CSR_APPROVING)
        ));
    }
    if !SIGNERS.contains(&signer) {
        draft.sees(format!(
            "signer {signer} is not a built-in one: another controller has to sign it then"
        ));
    } else if let Some(off) = facts.off(CSR_SIGNING) {
        draft.sees(format!(
            "no controller that signs it then runs here: {}",
            off.why(CSR_SIGNING)
        ));
    } else {
        see_whether_signs(facts, draft);
    }
    let approvers = approvers::of(facts, signer, name);
    draft.sees(match approvers.as_slice() {
        [] if facts.unread.contains("ClusterRole")
            || facts.unread.contains("ClusterRoleBinding") =>
        {
            "who may approve it is unknown: the roles could not be read".to_owned()
        }
        [] => "only members of system:masters may approve it".to_owned(),
        found => {
            let more = found.len().saturating_sub(SUBJECTS_MAX);
            let named = found[..found.len() - more].join(", ");
            let more = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            format!("members of system:masters may approve it, and {named}{more}")
        }
    });
    draft.offer(Some(Help {
        command: format!("kubectl certificate approve {name}"),
        why: "if the request is what it should be; deny refuses it".to_owned(),
    }));
}

fn obstacle(facts: &Facts, condition: &Value) -> Obstacle {
    Obstacle::of(
        &facts.object,
        with_reason(text(condition, "/type"), &reason(condition)),
    )
    .since(time(condition, "/lastUpdateTime"))
}

fn reason(condition: &Value) -> String {
    match (text(condition, "/reason"), text(condition, "/message")) {
        (reason, "") => reason.to_owned(),
        ("", message) => message.to_owned(),
        (reason, message) => format!("{message} ({reason})"),
    }
}

/// What happened, and why if that is known.
fn with_reason(what: &str, why: &str) -> String {
    match why {
        "" => format!("{what}, without a reason"),
        why => format!("{what}: {why}"),
    }
}
