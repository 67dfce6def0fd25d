//! Why a certificate signing request has no certificate.

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
        waits for somebody to approve it
        kubectl certificate approve jane"#]],
    );
    check_request(
        client,
        "{conditions: [{type: Approved}]}",
        expect!["is approved, and waits to be signed"],
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
            is approved, and nobody has signed it for kubernetes.io/nobody
            kubectl describe certificatesigningrequest/jane"#]],
    );
    check_request(
        "example.com/x",
        "{conditions: [{type: Approved}]}",
        expect![[r#"
            is approved, and nobody has signed it for example.com/x
            kubectl describe certificatesigningrequest/jane"#]],
    );
}

/// Verdict and advice, where this is the last that the signing controller has said of an approved request.
fn check_unsigned(line: &str, expected: Expect) {
    let yaml = format!(
        "
kind: CertificateSigningRequest
metadata: {{name: jane, uid: u, creationTimestamp: '2026-01-01T11:00:00Z'}}
spec: {{signerName: kubernetes.io/kube-apiserver-client, usages: [client auth], username: admin}}
status: {{conditions: [{{type: Approved}}]}}
---
controller: certificatesigningrequest-signing-controller
object: {{group: certificates.k8s.io, kind: CertificateSigningRequest, name: jane, uid: u}}
lines: [{{what: cannot be signed, {line}}}]"
    );
    let explanation = crate::explain(&facts(&yaml));
    let advice = explanation.help.map_or(String::new(), |help| help.why);
    expected.assert_eq(&format!("{}\n{advice}", explanation.verdict));
}

#[test]
fn what_cannot_be_signed_says_why_and_what_helps() {
    check_unsigned(
        "class: waits, reason: NoAuthority, why: no CA is given, hint: --cluster-signing-cert-file gives one",
        expect![[r#"
            is approved, and cannot be signed: no CA is given
            --cluster-signing-cert-file gives one"#]],
    );
    check_unsigned(
        "class: waits, reason: CannotSign, why: the signer has expired, hint: see to the CA of this signer",
        expect![[r#"
            is approved, and cannot be signed: the signer has expired
            see to the CA of this signer"#]],
    );
    check_unsigned(
        "class: states, reason: Malformed, why: PEM block type must be CERTIFICATE REQUEST",
        expect![[r#"
            is approved, and cannot be signed: PEM block type must be CERTIFICATE REQUEST
            create another request: what was decided about this one stays"#]],
    );
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
- {verbs: [approve], apiGroups: [certificates.k8s.io], resources: [signers], resourceNames: [kubernetes.io/*]}
---
kind: ClusterRole
metadata: {name: other}
rules:
- {verbs: [approve], apiGroups: [certificates.k8s.io], resources: [signers], resourceNames: [example.com/x]}
---
kind: ClusterRoleBinding
metadata: {name: approvers}
roleRef: {name: approver}
subjects:
- {kind: Group, name: security}
- {kind: ServiceAccount, namespace: ops, name: bot}
---
kind: ClusterRoleBinding
metadata: {name: others}
roleRef: {name: other}
subjects:
- {kind: User, name: mallory}
---
controller: certificatesigningrequest-signing-controller
object: {group: certificates.k8s.io, kind: CertificateSigningRequest, name: jane, uid: u}
lines: [{class: waits, reason: Pending, what: waits to be approved, why: nothing is signed that is not approved}]
",
        expect![[r#"
            certificatesigningrequest/jane: waits for somebody to approve it

            wants       a certificate of kubernetes.io/kube-apiserver-client for client auth

            sees        asked by jane
                        is deleted at 2026-01-02T11:00:00Z (in 23h) or within an hour after: nobody has decided about it
                        members of system:masters may approve it, and group security, service account ops/bot

            waits       to be approved: nothing is signed that is not approved

            would help  kubectl certificate approve jane
                        if the request is what it should be; deny refuses it

            Source: the controllers themselves, at https://here.
        "#]],
    );
}
