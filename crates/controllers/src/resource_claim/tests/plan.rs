//! Plans. Upstream: the rows of TestSyncHandler, as far as they decide.
//!
//! Pods: `gpu<t` takes its claim from template `t`, `gpu<t:x` has got `x`, `gpu<t:-` needs none, `gpu=x` names one, `gpu?`
//! makes no sense; `@` is bound, `!` leaves, `%g` is scheduled with a group, which has the claims after `group:`.
//! Claims: `x/u` is controlled by uid `u` for the entry `gpu`, `+` is allocated, `[u g:v]` reserved.

use api::kinds::{Pod, PodGroup, ResourceClaim, ResourceClaimTemplate};
use api::{Gate, Gates, Resource, Uid};
use runtime::Store;
use runtime::triggers::by_controller;
use serde_json::{Value, json};

use crate::resource_claim::plan::{Known, Requester, Step, plan};
use crate::resource_claim::release;

fn entry(text: &str) -> (Value, Option<Value>) {
    if let Some((name, claim)) = text.split_once('=') {
        return (json!({"name": name, "resourceClaimName": claim}), None);
    }
    let Some((name, template)) = text.split_once('<') else {
        return (json!({"name": text.trim_end_matches('?')}), None);
    };
    let (template, generated) = match template.split_once(':') {
        Some((template, generated)) => (template, Some(generated)),
        None => (template, None),
    };
    let status = generated.map(|generated| match generated {
        "-" => json!({"name": name}),
        _ => json!({"name": name, "resourceClaimName": generated}),
    });
    let spec = json!({"name": name, "resourceClaimTemplateName": template});
    (spec, status)
}

fn entries<'a>(words: impl Iterator<Item = &'a str>) -> (Vec<Value>, Vec<Value>) {
    let (specs, statuses): (Vec<Value>, Vec<Option<Value>>) = words.map(entry).unzip();
    (specs, statuses.into_iter().flatten().collect())
}

fn pod(text: &str) -> Pod {
    let is_entry = |word: &&str| !matches!(word.chars().next(), Some('@' | '!' | '%'));
    let (specs, statuses) = entries(text.split_whitespace().filter(is_entry));
    let mut pod = json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "u"},
        "spec": {"resourceClaims": specs}, "status": {"resourceClaimStatuses": statuses},
    });
    for word in text.split_whitespace() {
        if word == "@" {
            pod["spec"]["nodeName"] = json!("n1");
        } else if word == "!" {
            pod["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
        } else if let Some(group) = word.strip_prefix('%') {
            pod["spec"]["schedulingGroup"] = json!({"podGroupName": group});
        }
    }
    Pod::decode(pod.to_string().as_bytes()).unwrap()
}

fn group(text: &str) -> PodGroup {
    let (specs, statuses) = entries(text.split_whitespace());
    let group = json!({
        "metadata": {"name": "g", "namespace": "default", "uid": "v"},
        "spec": {"resourceClaims": specs}, "status": {"resourceClaimStatuses": statuses},
    });
    PodGroup::decode(group.to_string().as_bytes()).unwrap()
}

pub(super) fn claim(text: &str) -> ResourceClaim {
    let (head, reserved) = text.split_once('[').unwrap_or((text, ""));
    let is_allocated = head.ends_with('+');
    let (name, owner) = head
        .trim_end_matches('+')
        .split_once('/')
        .unwrap_or((head.trim_end_matches('+'), ""));
    let (kind, version) = match owner {
        "v" => ("PodGroup", "scheduling.k8s.io/v1alpha2"),
        _ => ("Pod", "v1"),
    };
    let owner_name = if owner == "v" { "g" } else { "web" };
    let reserved: Vec<Value> = reserved
        .trim_end_matches(']')
        .split(',')
        .filter(|uid| !uid.is_empty())
        .map(|uid| match uid.strip_prefix("g:") {
            Some(uid) => json!({"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": uid}),
            None => json!({"resource": "pods", "name": uid, "uid": uid}),
        })
        .collect();
    let mut claim = json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
        "status": {"reservedFor": reserved},
    });
    if !owner.is_empty() {
        claim["metadata"]["annotations"] = json!({"resource.kubernetes.io/pod-claim-name": "gpu"});
        claim["metadata"]["ownerReferences"] = json!([{
            "apiVersion": version, "kind": kind, "name": owner_name, "uid": owner, "controller": true,
        }]);
    }
    if is_allocated {
        claim["status"]["allocation"] = json!({});
    }
    ResourceClaim::decode(claim.to_string().as_bytes()).unwrap()
}

fn template(name: &str, request: &Value) -> ResourceClaimTemplate {
    let template = json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    });
    ResourceClaimTemplate::decode(template.to_string().as_bytes()).unwrap()
}

fn word(step: &Step) -> String {
    match step {
        Step::Create {
            claim,
            admin_access: true,
            ..
        } => format!("create {claim} for an admin"),
        Step::Create { claim, .. } => format!("create {claim}"),
        Step::Record { claim, generated } => format!("record {claim}={generated}"),
        Step::Reserve { claim, consumer } => {
            format!(
                "reserve {} for {} {}",
                claim.metadata.name, consumer.resource, consumer.uid
            )
        }
        Step::Refuse { claim, problem } => format!("refuse {claim}: {problem}"),
        Step::Wait(_) => step.line().what.to_string(),
    }
}

fn check_with(gates: Gates, who: &str, claims: &str, expected: &str) {
    let held = Store::new();
    held.add_index(&by_controller());
    for text in claims.split_whitespace() {
        held.put(claim(text).into());
    }
    let templates = Store::new();
    for (name, request) in [
        (
            "t",
            json!({"name": "r", "exactly": {"deviceClassName": "c"}}),
        ),
        (
            "admin",
            json!({"name": "r", "exactly": {"deviceClassName": "c", "adminAccess": true}}),
        ),
        (
            "list",
            json!({"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "c"}]}),
        ),
    ] {
        templates.put(template(name, &request).into());
    }
    let known = Known {
        claims: &held,
        templates: &templates,
        gates,
    };
    let (own, shared) = match who.split_once("group:") {
        Some((own, shared)) => (own, Some(group(shared))),
        None => (who, None),
    };
    let pod = pod(own);
    let requester = match &shared {
        Some(group) if own.trim().is_empty() => Requester::Group(group),
        group => Requester::Pod {
            pod: &pod,
            group: group.as_ref(),
        },
    };
    let steps: Vec<String> = plan(requester, known).iter().map(word).collect();
    assert_eq!(steps.join("; "), expected, "{who} | {claims}");
}

fn check(who: &str, claims: &str, expected: &str) {
    check_with(Gates::default(), who, claims, expected);
}

fn check_groups(who: &str, claims: &str, expected: &str) {
    let gates = Gates::default().with(Gate::DRAWorkloadResourceClaims, true);
    check_with(gates, who, claims, expected);
}

#[test]
fn claims_from_templates_are_created_and_reported() {
    check("", "", "");
    check("gpu<t", "", "create gpu");
    check("gpu<t !", "", "");
    check("gpu<admin", "", "create gpu for an admin");
    check("gpu<list", "", "create gpu");
    check("gpu<t:-", "", "");
    check("gpu<t other<t", "x/u", "record gpu=x; create other");
    check("gpu<t", "x/someone", "create gpu");
    // It was deleted, or taken away.
    check("gpu<t:x", "", "create gpu");
    check("gpu<t:x", "x/u", "");
    check("gpu<t:x", "x/someone", "create gpu");
    check("gpu<t:x", "x/someone y/u", "record gpu=y");
}

#[test]
fn what_cannot_be_created_is_refused() {
    let unknown = r#"refuse gpu: checking for claim before creating it: pod "default/web", spec.resourceClaim "gpu": none of the supported fields are set"#;
    check("gpu?", "", unknown);
    let absent = r#"refuse gpu: resource claim template "no": resourceclaimtemplate.resource.k8s.io "no" not found"#;
    check("gpu<no", "", absent);
    check("a<t gpu<no b<t", "", &format!("create a; {absent}"));
    let off = |gate| Gates::default().with(gate, false);
    check_with(
        off(Gate::DRAAdminAccess),
        "gpu<admin",
        "",
        "refuse gpu: admin access is requested, but the feature is disabled",
    );
    check_with(
        off(Gate::DRAPrioritizedList),
        "gpu<list",
        "",
        "refuse gpu: template includes a prioritized list of subrequests, but the feature is disabled",
    );
}

#[test]
fn claims_are_reserved_for_pods_that_are_bound() {
    check("gpu=x", "x+", "");
    check("gpu=x", "", "waits for ResourceClaim x");
    check("gpu=x @", "x", "");
    check("gpu=x @", "x+", "reserve x for pods u");
    check("gpu=x @", "x+[u]", "");
    check("gpu=x @", "x+[other]", "reserve x for pods u");
    check("gpu<t:x @", "x/u+", "reserve x for pods u");
    // The status comes first: it tells where the claim is.
    check("gpu<t b=y @", "x/u+ y+", "record gpu=x");
    check("gpu=x b=y @", "y+", "waits for ResourceClaim x");
    let full: Vec<String> = (0..256).map(|n| format!("p{n}")).collect();
    check(
        "gpu=x @",
        &format!("x+[{}]", full.join(",")),
        "claim x is not reserved",
    );
}

#[test]
fn groups_have_claims_that_their_pods_share() {
    check_groups("group:gpu<t", "", "create gpu");
    check_groups("group:gpu<t", "x/v", "record gpu=x");
    check_groups("group:gpu<t:x", "x/v", "");
    check_groups("group:gpu<t:x", "x/u", "create gpu");
    check_groups("gpu<t %g", "", "waits for PodGroup g");
    check_groups(
        "gpu<t %g group:gpu<t",
        "",
        "waits for the claim gpu of PodGroup g",
    );
    check_groups("gpu<t %g group:gpu<t", "x/v", "record gpu=x");
    check_groups("gpu<t:x %g group:gpu<t:x", "x/v", "");
    check_groups(
        "gpu<t:x %g @ group:gpu<t:x",
        "x/v+",
        "reserve x for podgroups v",
    );
    check_groups("gpu<t:x %g @ group:gpu<t:x", "x/v+[g:v]", "");
    check_groups("gpu=x %g @ group:gpu=x", "x+", "reserve x for podgroups v");
    // Other words are another claim.
    check_groups("gpu<t %g group:gpu<list", "", "create gpu");
    check_groups("gpu<t %g group:gpu=x", "x+", "create gpu");
    // Without the gate a group is nobody.
    check("gpu<t %g", "", "create gpu");
    check("gpu<t:x %g @", "x/v+", "create gpu");
    check("gpu=x %g @", "x+[g:v]", "reserve x for pods u");
}

/// `*` is the finalizer, `!` leaves; gone are those that do not use it any more; the owner is `done`, `runs` or `other`.
fn check_release(text: &str, gone: &str, owner: &str, expected: &str) {
    let mut claim = claim(text.trim_end_matches(['*', '!']));
    if text.contains('*') {
        claim.metadata.finalizers = [api::kinds::CLAIM_DELETE_PROTECTION.into()].into();
    }
    if text.contains('!') {
        claim.metadata.deleted_at = Some(api::Time::from_unix(0));
    }
    let gone: Vec<Uid> = gone.split_whitespace().map(Uid::from).collect();
    let mut owned = pod("gpu<t");
    match owner {
        "done" => owned.status.phase = api::kinds::Phase::Succeeded,
        "unbound" => owned.metadata.deleted_at = Some(api::Time::from_unix(0)),
        "other" => owned.metadata.uid = Uid::from("w"),
        _ => {}
    }
    let owner = (!owner.is_empty()).then_some(&owned);
    let lines = release::plan(&claim, &gone, owner).lines();
    let lines: Vec<&str> = lines.iter().map(|line| &*line.what).collect();
    assert_eq!(lines.join("; "), expected, "{text} without {gone:?}");
}

#[test]
fn devices_are_deallocated_when_the_last_consumer_is_deleted() {
    check_release("x+[a,b]*", "", "", "");
    check_release("x+[a,b]*", "a", "", "removes 1 consumer");
    let all = "removes 2 consumers; gives its devices back; removes its finalizer";
    check_release("x+[a,b]*", "a b", "", all);
    check_release("x+[a,g:v]*", "a", "", "removes 1 consumer");
    // Somebody else allocated it.
    check_release("x+[a]", "a", "", "removes 1 consumer");
    check_release(
        "x[a]*",
        "a",
        "",
        "removes 1 consumer; removes its finalizer",
    );
    // What nobody has used yet keeps its devices, unless it is to go.
    check_release("x+*", "", "", "");
    check_release(
        "x+*!",
        "",
        "",
        "gives its devices back; removes its finalizer",
    );
    check_release("x*!", "", "", "removes its finalizer");
    check_release("x+[a]*!", "", "", "");
    check_release(
        "x+[a]*!",
        "a",
        "",
        "removes 1 consumer; gives its devices back; removes its finalizer",
    );
    check_release("x!", "", "", "");
}

#[test]
fn claims_that_were_created_for_a_pod_go_when_it_is_done() {
    check_release("x/u", "", "runs", "");
    check_release("x/u", "", "", "");
    check_release("x/u", "", "done", "deletes it");
    check_release("x/u", "", "unbound", "deletes it");
    check_release("x/u", "", "other", "deletes it");
    check_release("x/u!", "", "done", "");
    check_release("x/u+[g:v]*", "", "done", "");
    check_release("x/u[u]", "u", "done", "removes 1 consumer; deletes it");
}
