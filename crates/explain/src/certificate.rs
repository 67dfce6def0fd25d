//! Certificate signing requests: who may approve them, why they were not approved or signed, and when they are deleted.

mod approvers;
mod cleaning;

use api::Time;
use api::decision::{Line, reasons};
use serde_json::Value;

use crate::facts::{Facts, Source};
use crate::help::Help;
use crate::json::{condition, list, text, time};
use crate::time::relative;
use crate::{Draft, Obstacle, State};

/// The signers of Kubernetes itself.
const SIGNERS: [&str; 4] = [
    "kubernetes.io/kubelet-serving",
    "kubernetes.io/kube-apiserver-client-kubelet",
    "kubernetes.io/kube-apiserver-client",
    "kubernetes.io/legacy-unknown",
];

/// The controller that signs for them, and the one that approves what kubelets ask for.
const SIGNING: &str = "certificatesigningrequest-signing-controller";
const APPROVING: &str = "certificatesigningrequest-approving-controller";
const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";

/// Controllers take less than a second, in seconds: one that has said nothing for longer does not run.
const ANSWER_MAX: i64 = 10;

/// More subjects than this need not be named.
const SUBJECTS_MAX: usize = 5;

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
        draft.sees(format!(
            "is deleted at {at} ({when}) or within an hour after: {why}"
        ));
    }
    let is_issued = !text(request, "/status/certificate").is_empty();
    let is_approved = condition(request, "Approved").is_some();
    if let Some(denied) = condition(request, "Denied") {
        draft.in_the_way(obstacle(facts, denied));
        draft.offer(another());
        draft.conclude(State::Stuck, with_reason("was denied", &reason(denied)));
    } else if is_issued && is_approved {
        draft.conclude(State::Settled, "is approved, and the certificate is issued");
    } else if let Some(failed) = condition(request, "Failed") {
        draft.in_the_way(obstacle(facts, failed));
        let why = match text(failed, "/message") {
            "" => text(failed, "/reason"),
            message => message,
        };
        draft.offer(another());
        draft.conclude(State::Stuck, with_reason("was refused by its signer", why));
    } else if let Some(approved) = condition(request, "Approved") {
        unsigned(facts, signer, approved, draft);
    } else {
        pending(facts, signer, draft);
        draft.conclude(
            State::Stuck,
            match is_issued {
                true => {
                    "has a certificate that somebody put into its status, and was never approved"
                }
                false => "waits for somebody to approve it",
            },
        );
    }
}

/// A request is decided once.
fn another() -> Option<Help> {
    crate::help::hint("create another request: what was decided about this one stays".to_owned())
}

fn unsigned(facts: &Facts, signer: &str, approved: &Value, draft: &mut Draft<'_>) {
    let (why, verdict) = if !SIGNERS.contains(&signer) {
        let why = format!("signer {signer} is none of Kubernetes' own; somebody else has to sign");
        let verdict = format!("is approved, and nobody has signed it for {signer}");
        (why, verdict)
    } else if let Some(refusal) = unsignable(facts) {
        if &*refusal.reason == reasons::MALFORMED {
            draft.offer(another());
        }
        let why = refusal.why.to_string();
        (
            why.clone(),
            format!("is approved, and cannot be signed: {why}"),
        )
    } else if is_ignored(facts, SIGNING, time(approved, "/lastUpdateTime")) {
        draft.offer(crate::help::hint(format!(
            "run {SIGNING}: keep it in --controllers, and give it a CA by --cluster-signing-cert-file and --cluster-signing-key-file"
        )));
        (
            format!("{SIGNING} has decided nothing about it"),
            "is approved, and no controller that signs runs here".to_owned(),
        )
    } else {
        return draft.conclude(State::Progressing, "is approved, and waits to be signed");
    };
    draft.in_the_way(Obstacle {
        object: facts.name_of(&facts.object),
        more: 0,
        why,
        since: None,
        passing: false,
    });
    draft.conclude(State::Stuck, verdict);
}

/// Has a controller that says something about each request said nothing about this one, though it had the time?
fn is_ignored(facts: &Facts, controller: &str, since: Option<Time>) -> bool {
    let had_time = since.is_none_or(|since| facts.now.unix() - since.unix() > ANSWER_MAX);
    let decided = facts.decisions_about(&facts.object);
    let is_silent = decided.iter().all(|one| one.controller != controller);
    matches!(facts.source, Source::Manager(_)) && had_time && is_silent
}

/// What the signing controller said last, if that is why it cannot sign.
fn unsignable(facts: &Facts) -> Option<Line> {
    let decided = facts.decisions_about(&facts.object);
    let signing = decided.iter().find(|decided| decided.controller == SIGNING);
    let last = signing?.decisions.last()?;
    let mut lines = last.lines.iter();
    let found = lines.find(|line| {
        [
            reasons::NO_AUTHORITY,
            reasons::CANNOT_SIGN,
            reasons::MALFORMED,
        ]
        .contains(&&*line.reason)
    });
    found.cloned()
}

fn pending(facts: &Facts, signer: &str, draft: &mut Draft<'_>) {
    let name = text(&facts.object, "/metadata/name");
    let created = time(&facts.object, "/metadata/creationTimestamp");
    if signer == KUBELET_CLIENT && is_ignored(facts, APPROVING, created) {
        draft.sees(format!(
            "no controller that approves what kubelets ask for runs here: {APPROVING} has decided nothing about it"
        ));
    }
    let approvers = approvers::of(facts, signer, name);
    draft.sees(match approvers.as_slice() {
        [] if facts.unread.contains("ClusterRole")
            || facts.unread.contains("ClusterRoleBinding") =>
        {
            "who may approve it is unknown: the roles could not be read".to_owned()
        }
        [] => "members of system:masters may approve it, and nobody else".to_owned(),
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
    Obstacle {
        object: facts.name_of(&facts.object),
        more: 0,
        why: with_reason(text(condition, "/type"), &reason(condition)),
        since: time(condition, "/lastUpdateTime"),
        passing: false,
    }
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
