//! CertificateApproval, CertificateSigning, CertificateSubjectRestriction, ClusterTrustBundleAttest, and who made a
//! request.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use x509_parser::x509::X509Name;

use super::{Context, Operation, Plugin, Request};
use crate::fields::{at, remove, set, text};
use crate::kinds::Subresource;
use crate::status::{Cause, Status};

/// Certificates for clients of the API server.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

/// What stands in the first line of a request in PEM.
const REQUEST: &str = "CERTIFICATE REQUEST";

/// The server says who asks; what the client claims is dropped.
pub(super) fn record_user(context: &Context<'_>, request: &mut Value) {
    let user = context.user;
    for name in ["spec.uid", "spec.groups", "spec.extra"] {
        remove(request, name);
    }
    set(request, "spec.username", user.user.as_str());
    if !user.uid.is_empty() {
        set(request, "spec.uid", user.uid.as_str());
    }
    if !user.groups.is_empty() {
        set(request, "spec.groups", user.groups.clone());
    }
    if !user.extra.is_empty() {
        set(request, "spec.extra", json!(user.extra));
    }
}

pub(super) fn check(
    context: &Context<'_>,
    request: &Request<'_>,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let on = |plugin| context.settings.plugins.has(plugin);
    if request.is("certificates.k8s.io", "ClusterTrustBundle")
        && on(Plugin::ClusterTrustBundleAttest)
    {
        return check_attest(context, request, new, old);
    }
    if request.is("certificates.k8s.io", "PodCertificateRequest") {
        return check_pod_request(context, request, new, old);
    }
    if !request.is("certificates.k8s.io", "CertificateSigningRequest") {
        return Ok(());
    }
    match (request.operation, request.subresource, old) {
        (Operation::Create, None, _) if on(Plugin::CertificateSubjectRestriction) => {
            check_subject(request, new)
        }
        (Operation::Update, Some(Subresource::Approval), Some(old))
            if on(Plugin::CertificateApproval) =>
        {
            may(context, request, old, "approve")
        }
        (Operation::Update, Some(Subresource::Status), Some(old))
            if on(Plugin::CertificateSigning) && is_signing(new, old) =>
        {
            may(context, request, old, "sign")
        }
        _ => Ok(()),
    }
}

/// Whoever writes a signer's bundle must be allowed to attest for it, unless only what garbage collection changes is
/// another.
fn check_attest(
    context: &Context<'_>,
    request: &Request<'_>,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    // The signer cannot change: validation has seen to that.
    let signer = text(new, "spec.signerName");
    if signer.is_empty() || old.is_some_and(|old| is_same_but_for_collection(new, old)) {
        return Ok(());
    }
    match may_act_for(context, "attest", signer) {
        true => Ok(()),
        false => Err(request.forbidden(&format!(
            "user not permitted to attest for signerName \"{signer}\""
        ))),
    }
}

/// UPSTREAM: the registry asks this, so it is no plugin that could be off, and the refusal is a cause.
fn check_pod_request(
    context: &Context<'_>,
    request: &Request<'_>,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let Some(old) = old.filter(|_| request.subresource == Some(Subresource::Status)) else {
        return Ok(());
    };
    let signer = text(old, "spec.signerName");
    if at(new, "status") == at(old, "status") || may_act_for(context, "sign", signer) {
        return Ok(());
    }
    let user = &context.user.user;
    let message =
        format!("Forbidden: User \"{user}\" is not permitted to \"sign\" for signer \"{signer}\"");
    let cause = Cause::new("spec.signerName".to_owned(), "FieldValueForbidden", message);
    let kind = request.kind;
    Err(Status::invalid(
        &kind.group,
        &kind.kind,
        request.name,
        vec![cause],
    ))
}

fn is_same_but_for_collection(new: &Value, old: &Value) -> bool {
    let without = |object: &Value| {
        let mut object = object.clone();
        for path in [
            "metadata.ownerReferences",
            "metadata.finalizers",
            "metadata.managedFields",
        ] {
            remove(&mut object, path);
        }
        object
    };
    without(new) == without(old)
}

fn may(
    context: &Context<'_>,
    request: &Request<'_>,
    old: &Value,
    verb: &str,
) -> Result<(), Status> {
    let signer = text(old, "spec.signerName");
    match may_act_for(context, verb, signer) {
        true => Ok(()),
        false => Err(request.forbidden(&format!(
            "user not permitted to {verb} requests with signerName \"{signer}\""
        ))),
    }
}

/// The permission may be given for one signer or for all of a domain.
fn may_act_for(context: &Context<'_>, verb: &str, signer: &str) -> bool {
    let domain = signer.split('/').next().unwrap_or_default();
    [signer.to_owned(), format!("{domain}/*")]
        .iter()
        .any(|name| context.cluster.may(context.user, verb, "signers", name))
}

fn is_signing(new: &Value, old: &Value) -> bool {
    let failed = |request: &Value| {
        let conditions = crate::fields::list(request, "status.conditions").iter();
        conditions
            .filter(|condition| text(condition, "type") == "Failed")
            .count()
    };
    at(new, "status.certificate") != at(old, "status.certificate") || failed(new) != failed(old)
}

/// Nobody gets a certificate for `system:masters` this way: it could never be taken back.
fn check_subject(request: &Request<'_>, new: &Value) -> Result<(), Status> {
    if text(new, "spec.signerName") != CLIENT_SIGNER {
        return Ok(());
    }
    let organizations = organizations(text(new, "spec.request")).ok_or_else(|| {
        request.forbidden("failed to parse CSR: PEM block type must be CERTIFICATE REQUEST")
    })?;
    if organizations.iter().any(|name| name == "system:masters") {
        return Err(request.forbidden(&format!(
            "use of {CLIENT_SIGNER} signer with system:masters group is not allowed"
        )));
    }
    Ok(())
}

fn organizations(encoded: &str) -> Option<Vec<String>> {
    with_subject(encoded, |subject| {
        let names = subject.iter_organization();
        names
            .filter_map(|name| name.as_str().ok().map(str::to_owned))
            .collect()
    })
}

/// The common name that a request (PEM, in base64) asks for.
pub(super) fn common_name(encoded: &str) -> Option<String> {
    with_subject(encoded, |subject| {
        // Of several names the last one counts, here as in the certificate.
        let name = subject.iter_common_name().last()?;
        name.as_str().ok().map(str::to_owned)
    })?
}

fn with_subject<T>(encoded: &str, read: impl FnOnce(&X509Name<'_>) -> T) -> Option<T> {
    use x509_parser::prelude::FromDer as _;
    let pem = STANDARD.decode(encoded).ok()?;
    let pem = String::from_utf8_lossy(&pem);
    let blocks = keys::pem::blocks(&pem);
    let block = blocks.first().filter(|block| block.label == REQUEST)?;
    let (_, request) =
        x509_parser::certification_request::X509CertificationRequest::from_der(&block.der).ok()?;
    Some(read(&request.certification_request_info.subject))
}
