//! Why a certificate signing request has no certificate.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::{check, check_verdict, facts};
use expect_test::{Expect, expect};

fn check_request(signer: &str, status: &str, expected: Expect) {
    let yaml = format!(
        "
kind: CertificateSigningRequest
metadata: {{name: jane, creationTimestamp: '2026-01-01T11:00:00Z'}}
spec: {{signerName: {signer}, usages: [client auth], username: admin}}
status: {status}"
    );
    check_verdict(&yaml, expected);
}

#[test]
fn requests_in_one_sentence() {
    let client = "kubernetes.io/kube-apiserver-client";
    check_request(
        client,
        "{}",
        expect![[r#"
        waits to be approved
        kubectl certificate approve jane"#]],
    );
    check_request(
        client,
        "{conditions: [{type: Approved, lastUpdateTime: '2026-01-01T11:59:58Z'}]}",
        expect!["is approved, and waits to be signed"],
    );
    check_request(
        client,
        "{certificate: YQ==}",
        expect![[r#"
        has a certificate in its status, and was never approved
        kubectl get csr jane -o jsonpath='{.status.certificate}' | base64 -d | openssl x509 -noout -subject -issuer"#]],
    );
    check_request(
        client,
        "{conditions: [{type: Failed, message: not like this}]}",
        expect![[r#"
            was refused by its signer: not like this
        "#]],
    );
    check_request(
        client,
        "{conditions: [{type: Denied}]}",
        expect![[r#"
        was denied, without a reason
    "#]],
    );
    check_request(
        client,
        "{conditions: [{type: Approved}, {type: Failed}]}",
        expect![[r#"
            was refused by its signer, without a reason
        "#]],
    );
    check_request(
        client,
        "{conditions: [{type: Approved}, {type: Failed, reason: Policy}]}",
        expect![[r#"
            was refused by its signer: Policy
        "#]],
    );
    check_request(
        client,
        "{conditions: [{type: Approved}], certificate: YQ==}",
        expect!["is approved, and the certificate is issued"],
    );
    check_request(
        client,
        "{conditions: [{type: Denied, reason: 'No', message: not today}]}",
        expect![[r#"
            was denied: not today (No)
        "#]],
    );
    check_request(
        client,
        "{conditions: [{type: Approved}, {type: Failed, reason: SignerValidationFailure, message: 'invalid usage for client certificate: server auth'}]}",
        expect![[r#"
            was refused by its signer: invalid usage for client certificate: server auth
        "#]],
    );
    check_request(
        "kubernetes.io/nobody",
        "{conditions: [{type: Approved}]}",
        expect![[r#"
            is approved, and not signed yet for kubernetes.io/nobody
            kubectl describe certificatesigningrequest/jane"#]],
    );
    check_request(
        "example.com/x",
        "{conditions: [{type: Approved}]}",
        expect![[r#"
            is approved, and not signed yet for example.com/x
            kubectl describe certificatesigningrequest/jane"#]],
    );
}

/// Verdict and advice, where this is the last that the signing controller has said of a request in this status.
fn check_unsigned(status: &str, line: &str, expected: Expect) {
    let yaml = format!(
        "
kind: CertificateSigningRequest
metadata: {{name: jane, uid: u, creationTimestamp: '2026-01-01T11:00:00Z'}}
spec: {{signerName: kubernetes.io/kube-apiserver-client, usages: [client auth], username: admin}}
status: {status}
---
controller: certificatesigningrequest-signing-controller
object: {{group: certificates.k8s.io, kind: CertificateSigningRequest, name: jane, uid: u}}
lines: [{{{line}}}]"
    );
    let explanation = crate::explain(&facts(&yaml));
    let advice = explanation.help.map_or(String::new(), |help| help.why);
    expected.assert_eq(&format!("{}\n{advice}", explanation.verdict));
}

#[test]
fn what_cannot_be_signed_says_why_and_what_helps() {
    let approved = "{conditions: [{type: Approved}]}";
    check_unsigned(
        approved,
        "class: waits, reason: NoAuthority, what: cannot be signed, why: no CA is given, hint: a flag names one",
        expect![[r#"
            is approved, and cannot be signed: no CA is given
            a flag names one"#]],
    );
    check_unsigned(
        approved,
        "class: waits, reason: CannotSign, what: cannot be signed, why: the signer has expired, hint: check the CA of this signer",
        expect![[r#"
            is approved, and cannot be signed: the signer has expired
            check the CA of this signer"#]],
    );
    check_unsigned(
        approved,
        "class: states, reason: Malformed, what: can never be signed, why: an unknown algorithm, hint: create another request",
        expect![[r#"
            is approved, and can never be signed: an unknown algorithm
            create another request"#]],
    );
}

/// Who may approve it is still said; what takes longer is advised first.
#[test]
fn what_waits_for_approval_says_that_it_could_not_be_signed() {
    check_unsigned(
        "{}",
        "class: waits, reason: NoAuthority, what: cannot be signed, why: no CA is given, hint: a flag names one",
        expect![[r#"
            waits to be approved, and cannot be signed: no CA is given
            a flag names one"#]],
    );
    check_unsigned(
        "{}",
        "class: waits, reason: CannotSign, what: cannot be signed, why: the signer has expired, hint: check the CA of this signer",
        expect![[r#"
            waits to be approved, and cannot be signed: the signer has expired
            check the CA of this signer"#]],
    );
}

/// To approve it would be in vain.
#[test]
fn a_request_that_no_signer_takes_is_not_suggested_for_approval() {
    check_unsigned(
        "{}",
        "class: states, reason: Malformed, what: can never be signed, why: an unknown algorithm, hint: create another request",
        expect![[r#"
            can never be signed: an unknown algorithm
            create another request"#]],
    );
    check_unsigned(
        "{}",
        "class: states, reason: Forbidden, what: will be refused if it is approved, why: a wrong usage, hint: create another request",
        expect![[r#"
            will be refused if it is approved: a wrong usage
            create another request"#]],
    );
}

/// Verdict, obstacle and advice for an approved request that nobody has said anything about.
fn check_off(started: &str, expected: Expect) {
    let yaml = format!(
        "
kind: CertificateSigningRequest
metadata: {{name: jane, creationTimestamp: '2026-01-01T11:00:00Z'}}
spec: {{signerName: kubernetes.io/kube-apiserver-client, usages: [client auth], username: admin}}
status: {{conditions: [{{type: Approved, lastUpdateTime: '2026-01-01T11:59:59Z'}}]}}
{started}"
    );
    let told = crate::explain(&facts(&yaml));
    let why = told
        .in_the_way
        .iter()
        .map(|obstacle| obstacle.why.to_string());
    let advice = told.help.map(|help| help.why);
    let lines: Vec<String> = std::iter::once(told.verdict)
        .chain(why)
        .chain(advice)
        .collect();
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn where_nobody_signs_it_says_what_runs_that_controller() {
    check_off(
        "---\n{running: [job-controller], skipped: []}",
        expect![[r#"
            is approved, and no controller that signs runs here
            certificatesigningrequest-signing-controller was not started; --controllers chooses which are
            start the controllers with certificatesigningrequest-signing-controller among --controllers"#]],
    );
    check_off(
        "---\n{running: [job-controller], skipped: [certificatesigningrequest-signing-controller]}",
        expect![[r#"
            is approved, and no controller that signs runs here
            the configuration of certificatesigningrequest-signing-controller turns it off
            run `steersman controller-manager` with the CA of --cluster-signing-cert-file and --cluster-signing-key-file"#]],
    );
    check_off(
        "---\n{running: [], skipped: []}",
        expect![[r#"
            is approved, and no controller that signs runs here
            the manager that was asked does not lead
            name the manager that leads by --manager"#]],
    );
    let waits = || expect!["is approved, and waits to be signed"];
    check_off(
        "---\n{running: [certificatesigningrequest-signing-controller], skipped: []}",
        waits(),
    );
    check_off("", waits());
}

#[test]
fn who_may_approve_and_when_it_is_deleted() {
    check(
        "
kind: CertificateSigningRequest
metadata: {name: jane, uid: u, creationTimestamp: '2026-01-01T11:00:00Z'}
spec: {signerName: kubernetes.io/kube-apiserver-client, usages: [client auth], username: jane}
---
kind: ClusterRole
metadata: {name: approver}
rules:
- {verbs: [update], apiGroups: [certificates.k8s.io], resources: [certificatesigningrequests/approval]}
- {verbs: [approve], apiGroups: [certificates.k8s.io], resources: [signers], resourceNames: [kubernetes.io/*]}
---
kind: ClusterRoleBinding
metadata: {name: approvers}
roleRef: {name: approver}
subjects:
- {kind: Group, name: security}
- {kind: ServiceAccount, namespace: ops, name: bot}
---
controller: certificatesigningrequest-signing-controller
object: {group: certificates.k8s.io, kind: CertificateSigningRequest, name: jane, uid: u}
lines: [{class: waits, reason: Pending, what: waits to be approved, why: nothing is signed that is not approved}]
",
        expect![[r#"
            certificatesigningrequest/jane: waits to be approved

            wants       a certificate of kubernetes.io/kube-apiserver-client for client auth

            sees        asked by jane
                        is deleted at 2026-01-02T11:00:00Z (in 23h) or within an hour after: it is neither approved nor denied
                        whether certificatesigningrequest-signing-controller runs, and can sign it, is not known
                        members of system:masters may approve it, and group security, service account ops/bot

            pending     waits to be approved: nothing is signed that is not approved

            would help  kubectl certificate approve jane
                        if the request is what it should be; deny refuses it

            Source: the controllers themselves, at https://here.
        "#]],
    );
}

/// The people who may approve the request `jane`, with these rules for the roles of two bindings.
fn check_approvers(one: &str, of_one: &str, two: &str, of_two: &str, expected: Expect) {
    let signers = |names: &str| {
        format!(
            "{{verbs: [approve], apiGroups: [certificates.k8s.io], resources: [signers], resourceNames: [{names}]}}"
        )
    };
    let approval = |names: &str| {
        format!(
            "{{verbs: [update], apiGroups: ['*'], resources: [certificatesigningrequests/approval], resourceNames: [{names}]}}"
        )
    };
    let rule = |what: &str| match what.split_once(' ') {
        Some(("signers", names)) => signers(names),
        Some((_, names)) => approval(names),
        None => approval(""),
    };
    let yaml = format!(
        "
kind: CertificateSigningRequest
metadata: {{name: jane, uid: u, creationTimestamp: '2026-01-01T11:00:00Z'}}
spec: {{signerName: kubernetes.io/kube-apiserver-client, usages: [client auth], username: jane}}
---
kind: ClusterRole
metadata: {{name: one}}
rules: [{}]
---
kind: ClusterRole
metadata: {{name: two}}
rules: [{}]
---
kind: ClusterRoleBinding
metadata: {{name: one}}
roleRef: {{name: one}}
subjects: [{of_one}]
---
kind: ClusterRoleBinding
metadata: {{name: two}}
roleRef: {{name: two}}
subjects: [{of_two}]",
        rule(one),
        rule(two)
    );
    let sees = crate::explain(&facts(&yaml)).sees;
    let about = sees.iter().find(|line| line.contains("may approve"));
    expected.assert_eq(about.expect("somebody may"));
}

#[test]
fn who_approves_needs_the_approval_and_the_signer() {
    let client = "signers kubernetes.io/kube-apiserver-client";
    let (ann, bea) = ("{kind: User, name: ann}", "{kind: User, name: bea}");
    check_approvers(
        "approval",
        ann,
        client,
        ann,
        expect!["members of system:masters may approve it, and user ann"],
    );
    check_approvers(
        "approval",
        ann,
        client,
        bea,
        expect!["only members of system:masters may approve it"],
    );
    check_approvers(
        "approval",
        ann,
        "signers kubernetes.io/*",
        ann,
        expect!["members of system:masters may approve it, and user ann"],
    );
    check_approvers(
        "approval",
        ann,
        "signers example.com/x",
        ann,
        expect!["only members of system:masters may approve it"],
    );
    check_approvers(
        "approval jane",
        ann,
        client,
        ann,
        expect!["members of system:masters may approve it, and user ann"],
    );
    check_approvers(
        "approval w2",
        ann,
        client,
        ann,
        expect!["only members of system:masters may approve it"],
    );
    let all = "{kind: Group, name: 'system:authenticated'}";
    check_approvers(
        "approval",
        ann,
        client,
        all,
        expect!["members of system:masters may approve it, and user ann"],
    );
    let bot = "{kind: ServiceAccount, namespace: ops, name: bot}";
    let of_ops = "{kind: Group, name: 'system:serviceaccounts:ops'}";
    check_approvers(
        "approval",
        of_ops,
        client,
        bot,
        expect!["members of system:masters may approve it, and service account ops/bot"],
    );
}

/// A certificate that ends at 2026-01-01T11:20:00Z, as requests hold it.
fn short_lived() -> String {
    let mut params = rcgen::CertificateParams::default();
    params.not_after = rcgen::date_time_ymd(2026, 1, 1) + Duration::from_secs(680 * 60);
    let signed = params.self_signed(&rcgen::KeyPair::generate().unwrap());
    BASE64_STANDARD.encode(signed.unwrap().pem())
}

fn check_deletion(status: &str, expected: Expect) {
    let yaml = format!(
        "
kind: CertificateSigningRequest
metadata: {{name: jane, uid: u, creationTimestamp: '2026-01-01T11:00:00Z'}}
spec: {{signerName: kubernetes.io/kube-apiserver-client, usages: [client auth], username: jane}}
status: {status}
---
controller: certificatesigningrequest-cleaner-controller
object: {{group: certificates.k8s.io, kind: CertificateSigningRequest, name: jane, uid: u}}
lines: [{{class: waits, reason: CleanedUp, what: is due to be deleted, why: it was approved and is not signed, until: '2026-01-02T11:00:00Z'}}]"
    );
    let told = crate::explain(&facts(&yaml));
    let about = told.sees.iter().filter(|line| line.contains("is deleted"));
    let about: Vec<&str> = about.chain(&told.waits).map(String::as_str).collect();
    expected.assert_eq(&about.join("\n"));
}

#[test]
fn when_it_is_deleted_is_read_from_the_request_and_not_from_an_old_decision() {
    let approved = "conditions: [{type: Approved, lastUpdateTime: '2026-01-01T11:10:00Z'}]";
    check_deletion(
        &format!("{{{approved}}}"),
        expect![
            "is deleted at 2026-01-02T11:10:00Z (in 23h) or within an hour after: it is approved and not signed"
        ],
    );
    check_deletion(
        &format!("{{{approved}, certificate: YQ==}}"),
        expect![
            "is deleted at 2026-01-01T12:10:00Z (in 10m) or within an hour after: it was issued"
        ],
    );
    check_deletion(
        &format!("{{{approved}, certificate: {}}}", short_lived()),
        expect![
            "is deleted at 2026-01-01T11:20:00Z (40m ago) or within an hour after: its certificate ends then"
        ],
    );
    check_deletion(
        "{certificate: YQ==}",
        expect![
            "is deleted at 2026-01-02T11:00:00Z (in 23h) or within an hour after: it is neither approved nor denied"
        ],
    );
    check_deletion("{conditions: [{type: Other}]}", expect![""]);
}

#[test]
fn a_kubelets_request_says_that_nobody_approves_where_that_controller_is_off() {
    let sees = |running: &str| {
        let yaml = format!(
            "
kind: CertificateSigningRequest
metadata: {{name: csr-1, uid: u, creationTimestamp: '2026-01-01T11:00:00Z'}}
spec: {{signerName: kubernetes.io/kube-apiserver-client-kubelet, usages: [client auth], username: 'system:node:a'}}
---
{{running: [{running}], skipped: []}}"
        );
        let told = crate::explain(&facts(&yaml));
        told.sees
            .iter()
            .any(|line| line.contains("no controller that approves"))
    };
    assert!(sees("job-controller"));
    assert!(!sees("certificatesigningrequest-approving-controller"));
}

#[test]
fn a_pending_request_names_the_signer_and_cleaner_that_do_not_run() {
    let sees = |signer: &str, running: &str| {
        let yaml = format!(
            "
kind: CertificateSigningRequest
metadata: {{name: jane, uid: u, creationTimestamp: '2026-01-01T11:00:00Z'}}
spec: {{signerName: {signer}, usages: [client auth], username: jane}}
---
{{running: [{running}], skipped: []}}"
        );
        crate::explain(&facts(&yaml)).sees.join("\n")
    };
    let client = "kubernetes.io/kube-apiserver-client";
    let nobody = sees(client, "job-controller");
    assert!(!nobody.contains("is not known"));
    assert!(nobody.contains("no controller that signs it then runs here"));
    assert!(nobody.contains("and no controller that deletes it runs here"));
    let signing = "certificatesigningrequest-signing-controller";
    let cleaning = "certificatesigningrequest-cleaner-controller";
    let all = sees(client, &format!("{signing}, {cleaning}"));
    assert!(!all.contains("runs here"), "{all}");
    assert!(sees("example.com/own", signing).contains("another controller has to sign it then"));
}
