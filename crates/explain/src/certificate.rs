//! Certificate signing requests: who may approve them, why they were not approved or signed, and when they are deleted.

use api::Time;
use api::decision::{Line, reasons};
use serde_json::Value;

use crate::facts::Facts;
use crate::help::Help;
use crate::json::{condition, list, text, time};
use crate::time::relative;
use crate::{Draft, Obstacle, State};

/// How long requests stay, in seconds: those that were dealt with, and those that wait to be.
const DECIDED: i64 = 60 * 60;
const WAITING: i64 = 24 * 60 * 60;

/// The signers of Kubernetes itself.
const SIGNERS: [&str; 4] = [
    "kubernetes.io/kubelet-serving",
    "kubernetes.io/kube-apiserver-client-kubelet",
    "kubernetes.io/kube-apiserver-client",
    "kubernetes.io/legacy-unknown",
];

/// The controller that signs for them.
const SIGNING: &str = "certificatesigningrequest-signing-controller";

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
    if let Some((at, why)) = deleted_at(request) {
        let when = relative(at, facts.now);
        draft.sees(format!(
            "is deleted at {at} ({when}) or within an hour after: {why}"
        ));
    }
    let is_issued = !text(request, "/status/certificate").is_empty();
    if let Some(denied) = condition(request, "Denied") {
        draft.in_the_way(obstacle(facts, denied));
        draft.offer(another());
        draft.conclude(State::Stuck, format!("was denied: {}", reason(denied)));
    } else if is_issued {
        draft.conclude(State::Settled, "is approved, and the certificate is issued");
    } else if let Some(failed) = condition(request, "Failed") {
        draft.in_the_way(obstacle(facts, failed));
        let why = text(failed, "/message");
        draft.offer(another());
        draft.conclude(State::Stuck, format!("was refused by its signer: {why}"));
    } else if condition(request, "Approved").is_some() {
        unsigned(facts, signer, draft);
    } else {
        pending(facts, signer, draft);
    }
}

/// A request is decided once.
fn another() -> Option<Help> {
    crate::help::hint("create another request: what was decided about this one stays".to_owned())
}

fn unsigned(facts: &Facts, signer: &str, draft: &mut Draft<'_>) {
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
    let approvers = approvers(facts, signer);
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
    draft.conclude(State::Stuck, "waits for somebody to approve it");
}

/// Users, groups and service accounts that a cluster role lets approve for this signer.
fn approvers(facts: &Facts, signer: &str) -> Vec<String> {
    let domain = signer.split('/').next().unwrap_or_default();
    let all_of_domain = format!("{domain}/*");
    let allows = |rule: &Value| {
        let has = |field: &str, wanted: &str| {
            let mut held = list(rule, field).iter().filter_map(Value::as_str);
            held.any(|held| held == wanted || held == "*")
        };
        let mut names = list(rule, "/resourceNames")
            .iter()
            .filter_map(Value::as_str);
        let is_named = list(rule, "/resourceNames").is_empty()
            || names.any(|name| name == signer || name == all_of_domain);
        has("/verbs", "approve")
            && has("/apiGroups", "certificates.k8s.io")
            && has("/resources", "signers")
            && is_named
    };
    let roles = facts.of_kind("ClusterRole");
    let roles = roles.filter(|role| list(role, "/rules").iter().any(allows));
    let roles: Vec<&str> = roles.map(|role| text(role, "/metadata/name")).collect();
    let bindings = facts.of_kind("ClusterRoleBinding");
    let bindings = bindings.filter(|binding| roles.contains(&text(binding, "/roleRef/name")));
    let mut subjects: Vec<String> = bindings
        .flat_map(|binding| list(binding, "/subjects"))
        .map(subject)
        .filter(|subject| subject != "group system:masters")
        .collect();
    subjects.sort();
    subjects.dedup();
    subjects
}

fn subject(subject: &Value) -> String {
    let (kind, name) = (text(subject, "/kind"), text(subject, "/name"));
    match kind {
        "ServiceAccount" => format!("service account {}/{name}", text(subject, "/namespace")),
        kind => format!("{} {name}", kind.to_lowercase()),
    }
}

/// When the cleaner finds it old, and why.
fn deleted_at(request: &Value) -> Option<(Time, &'static str)> {
    let after = |since: Option<Time>, age: i64| since.map(|at| Time::from_unix(at.unix() + age));
    let of = |type_: &str| condition(request, type_).map(|held| time(held, "/lastUpdateTime"));
    let is_issued = !text(request, "/status/certificate").is_empty();
    let (at, why) = match (of("Denied"), of("Failed"), of("Approved")) {
        (Some(since), _, _) => (after(since, DECIDED), "it was denied"),
        (_, Some(since), _) => (after(since, DECIDED), "it has failed"),
        (_, _, Some(since)) if is_issued => (after(since, DECIDED), "it was issued"),
        (_, _, Some(since)) => (after(since, WAITING), "it is approved and not signed"),
        _ => {
            let since = time(request, "/metadata/creationTimestamp");
            (after(since, WAITING), "nobody has decided about it")
        }
    };
    at.map(|at| (at, why))
}

fn obstacle(facts: &Facts, condition: &Value) -> Obstacle {
    Obstacle {
        object: facts.name_of(&facts.object),
        more: 0,
        why: format!("{}: {}", text(condition, "/type"), reason(condition)),
        since: time(condition, "/lastUpdateTime"),
        passing: false,
    }
}

fn reason(condition: &Value) -> String {
    match (text(condition, "/reason"), text(condition, "/message")) {
        (reason, "") => reason.to_owned(),
        (reason, message) => format!("{message} ({reason})"),
    }
}
