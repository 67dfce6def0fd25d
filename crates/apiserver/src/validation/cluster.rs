//! Certificate requests, ingress classes, service ranges, devices, flow control: kinds of cluster administrators.

use std::collections::BTreeSet;

use api::syntax;
use serde_json::Value;

use super::addresses::canonical_cidr;
use super::certificate_signature;
use super::place::{Errors, Place};
use super::resources::not_negative;
use crate::resources::quantity;
use api::Cidr;

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// An address is taken by someone.
pub(super) fn ip_address(errors: &mut Errors, root: &Place<'_>) {
    let spec = root.field("spec");
    let parent = spec.field("parentRef");
    if !parent.is_set() {
        errors.required(&parent, "");
        return;
    }
    errors.need(&parent.field("resource"));
    errors.need(&parent.field("name"));
}

/// An APIService is named after what it serves.
pub(super) fn api_service(errors: &mut Errors, root: &Place<'_>) {
    let spec = root.field("spec");
    let (group, version) = (spec.field("group"), spec.field("version"));
    let metadata = root.field("metadata");
    let name = metadata.field("name");
    let wanted = format!("{}.{}", version.text(), group.text());
    if name.text() != wanted {
        let why = format!("must be `spec.version+\".\"+spec.group`: \"{wanted}\"");
        errors.invalid(&name, &why);
    }
    if group.is_empty() && version.text() != "v1" {
        let why = "only v1 may have an empty group and it better be legacy kube";
        errors.required(&group, why);
    }
    if !group.is_empty() {
        errors.syntax(&group, syntax::validate_dns1123_subdomain);
    }
    errors.syntax(&version, syntax::validate_dns1035_label);
    for (name, most) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1_000)] {
        let zero = Value::from(0);
        let place = spec.field(name);
        let place = if place.is_set() {
            place
        } else {
            place.showing(&zero)
        };
        if !(1..=most).contains(&place.integer().unwrap_or_default()) {
            errors.invalid(&place, &format!("must be positive and less than {most}"));
        }
    }
    let (service, bundle) = (spec.field("service"), spec.field("caBundle"));
    let unchecked = spec.field("insecureSkipTLSVerify");
    if !service.is_set() {
        if unchecked.flag() {
            errors.invalid(
                &unchecked,
                "local APIServices may not have insecureSkipTLSVerify",
            );
        }
        return;
    }
    errors.need(&service.field("namespace"));
    errors.need(&service.field("name"));
    let port = service.field("port");
    let is_port = |port: i64| (1..=65_535).contains(&port);
    if port.integer().is_some_and(|port| !is_port(port)) {
        errors.invalid(
            &port,
            "port is not valid: must be between 1 and 65535, inclusive",
        );
    }
    if unchecked.flag() && !bundle.is_empty() {
        errors.invalid(&unchecked, "may not be true if caBundle is present");
    }
}

pub(super) fn certificate_request(errors: &mut Errors, root: &Place<'_>) {
    let spec = root.field("spec");
    let request = spec.field("request");
    if let Err(fault) = certificate_signature::verify(request.text()) {
        errors.invalid(&request, &fault);
    }
    let usages = spec.field("usages");
    errors.need(&usages);
    let mut seen = BTreeSet::new();
    for usage in usages.items() {
        errors.one_of(&usage, &USAGES);
        if !seen.insert(usage.text().to_owned()) {
            errors.duplicate(&usage);
        }
    }
    let signer = spec.field("signerName");
    if signer.text() == "kubernetes.io/legacy-unknown" {
        errors.invalid(
            &signer,
            "the legacy signerName is not allowed via this API version",
        );
    } else {
        signer_name(errors, &signer);
    }
    let seconds = spec.field("expirationSeconds");
    if seconds.integer().is_some_and(|seconds| seconds < 600) {
        errors.invalid(
            &seconds,
            "may not specify a duration less than 600 seconds (10 minutes)",
        );
    }
}

/// The longest domain of a signer.
const SUBDOMAIN_MAX: usize = 253;

/// A domain, and a path that has room for the name of a namespace's object: `namespace.name`.
const SIGNER_NAME_MAX: usize = SUBDOMAIN_MAX + 1 + SUBDOMAIN_MAX + 1 + 63;

/// A domain and a path, as in `example.com/signer`.
pub(super) fn signer_name(errors: &mut Errors, signer: &Place<'_>) {
    if signer.text().is_empty() {
        errors.required(signer, "");
        return;
    }
    let Some((domain, path)) = signer
        .text()
        .split_once('/')
        .filter(|(_, path)| !path.contains('/'))
    else {
        errors.invalid(
            signer,
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        );
        return;
    };
    if domain.len() > SUBDOMAIN_MAX {
        errors.too_long(signer, SUBDOMAIN_MAX);
    }
    signer_labels(errors, signer, domain, syntax::validate_dns1123_label);
    if !domain.contains('.') {
        errors.invalid(
            &signer.showing(&Value::from(domain)),
            "should be a domain with at least two segments separated by dots",
        );
    }
    signer_labels(errors, signer, path, syntax::validate_dns1123_subdomain);
    if signer.text().len() > SIGNER_NAME_MAX {
        errors.too_long(signer, SIGNER_NAME_MAX);
    }
}

/// The first label that is wrong stands for all of them.
fn signer_labels(
    errors: &mut Errors,
    signer: &Place<'_>,
    segment: &str,
    check: fn(&str) -> Vec<String>,
) {
    let shown = Value::from(segment);
    let faulty = segment.split('.').find(|label| !check(label).is_empty());
    let Some(label) = faulty else {
        return;
    };
    for fault in check(label) {
        let label = syntax::go_quote(label);
        let why = format!("validating label {label}: {fault}");
        errors.invalid(&signer.showing(&shown), &why);
    }
}

pub(super) fn ingress_class(errors: &mut Errors, root: &Place<'_>) {
    let spec = root.field("spec");
    let controller = spec.field("controller");
    let is_path = controller
        .text()
        .split_once('/')
        .is_some_and(|(domain, path)| {
            !path.is_empty() && syntax::validate_dns1123_subdomain(domain).is_empty()
        });
    if controller.text().is_empty() {
        errors.required(&controller, "");
    } else if !is_path {
        errors.invalid(
            &controller,
            "must be a domain-prefixed path (such as \"acme.io/foo\")",
        );
    }
    let parameters = spec.field("parameters");
    if !parameters.is_set() {
        return;
    }
    errors.need(&parameters.field("kind"));
    errors.need(&parameters.field("name"));
    let (scope, namespace) = (parameters.field("scope"), parameters.field("namespace"));
    match scope.text() {
        "Namespace" if namespace.text().is_empty() => {
            errors.required(&namespace, "`parameters.scope` is set to 'Namespace'")
        }
        "Cluster" if namespace.is_set() => {
            errors.forbidden(&namespace, "`parameters.scope` is set to 'Cluster'")
        }
        _ => errors.one_of_if_set(&scope, &["Cluster", "Namespace"]),
    }
}

pub(super) fn service_cidr(errors: &mut Errors, root: &Place<'_>) {
    let spec = root.field("spec");
    let ranges = spec.field("cidrs");
    match ranges.len() {
        0 => return errors.required(&ranges, "at least one CIDR required"),
        1 | 2 => {}
        // UPSTREAM: the spec as a whole is shown.
        _ => return errors.invalid(&ranges.showing(spec.value), "may only hold up to 2 values"),
    }
    let mut families = BTreeSet::new();
    for range in ranges.items() {
        errors.syntax(&range, canonical_cidr);
        if Cidr::parse(range.text()).is_some() && !families.insert(range.text().contains(':')) {
            errors.invalid(&ranges, "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64");
        }
    }
}

pub(super) fn attributes_class(errors: &mut Errors, root: &Place<'_>) {
    errors.need(&root.field("driverName"));
    let parameters = root.field("parameters");
    if parameters.is_empty() {
        errors.required(&parameters, "must contain at least one key/value pair");
    }
    if parameters.entries().any(|(key, _)| key.is_empty()) {
        let empty = Value::from("");
        errors.invalid(&parameters.showing(&empty), "field can not be empty.");
    }
}

pub(super) fn storage_capacity(errors: &mut Errors, root: &Place<'_>) {
    errors.syntax(
        &root.field("storageClassName"),
        syntax::validate_dns1123_subdomain,
    );
    let capacity = root.field("capacity");
    if let Some(amount) = quantity(capacity.value) {
        not_negative(errors, &capacity, &amount);
    }
    super::selectors::label_selector(errors, &root.field("nodeTopology"));
}

pub(super) fn flow_schema(errors: &mut Errors, root: &Place<'_>) {
    /// The catch-all comes last.
    const PRECEDENCE_MAX: i64 = 10_000;
    let spec = root.field("spec");
    let precedence = spec.field("matchingPrecedence");
    match precedence.integer().unwrap_or_default() {
        ..=0 => errors.invalid(&precedence, "must be a positive value"),
        number if number > PRECEDENCE_MAX => errors.invalid(
            &precedence,
            &format!("must not be greater than {PRECEDENCE_MAX}"),
        ),
        _ => {}
    }
    let method = spec.field("distinguisherMethod");
    if method.is_set() && !matches!(method.field("type").text(), "ByNamespace" | "ByUser") {
        // UPSTREAM: the method as a whole is shown.
        errors.not_supported(
            &method.field("type").showing(method.value),
            &["ByNamespace", "ByUser"],
        );
    }
    let level = spec.field("priorityLevelConfiguration");
    let name = level.field("name");
    if name.text().is_empty() {
        errors.required(&name, "must reference a priority level");
    } else {
        errors.syntax(&name, syntax::validate_dns1123_subdomain);
    }
}

pub(super) fn priority_level(errors: &mut Errors, root: &Place<'_>) {
    let spec = root.field("spec");
    let (kind, limited) = (spec.field("type"), spec.field("limited"));
    match kind.text() {
        "Exempt" => {
            if limited.is_set() {
                errors.forbidden(&limited, "must be nil if the type is not Limited");
            }
        }
        "Limited" if !limited.is_set() => {
            errors.required(&limited, "must not be empty when type is Limited")
        }
        "Limited" => {
            let exempt = spec.field("exempt");
            if exempt.is_set() {
                errors.forbidden(&exempt, "must be nil if the type is Limited");
            }
            let shares = limited.field("nominalConcurrencyShares");
            if shares.integer().is_some_and(|number| number < 0) {
                errors.invalid(&shares, "must be a non-negative integer");
            }
            let response = limited.field("limitResponse");
            errors.one_of(&response.field("type"), &["Queue", "Reject"]);
            let queuing = response.field("queuing");
            if response.field("type").text() == "Queue" && !queuing.is_set() {
                // UPSTREAM: it says Limited and means Queue.
                let why = "must not be empty if limited.limitResponse.type is Limited";
                errors.required(&queuing, why);
            }
        }
        _ => errors.not_supported(&kind, &["Exempt", "Limited"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Upstream: `TestValidateSignerName`.
    #[test]
    fn names_of_signers_are_refused_in_upstreams_words() {
        let faults = |name: &str| {
            let mut errors = Errors::default();
            signer_name(&mut errors, &Place::root(&Value::from(name)));
            let causes = errors.0.into_iter().map(|cause| cause.message);
            causes.collect::<Vec<String>>()
        };
        let label = "a lowercase RFC 1123 label must consist";
        let subdomain = "a lowercase RFC 1123 subdomain must consist";
        let form =
            "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        let check = |name: &str, shown: &str, why: &str| {
            let [found] = faults(name).try_into().unwrap();
            let wanted = format!("Invalid value: \"{shown}\": {why}");
            assert!(found.starts_with(&wanted), "{found}");
        };
        assert_eq!(faults("example.com/a.b"), [""; 0]);
        check("plain", "plain", form);
        check("example.com/a/b", "example.com/a/b", form);
        check(
            "A.B.com/x",
            "A.B.com",
            &format!("validating label \"A\": {label}"),
        );
        check(
            "example.com/X.Y",
            "X.Y",
            &format!("validating label \"X\": {subdomain}"),
        );
        check(
            "example.com/",
            "",
            &format!("validating label \"\": {subdomain}"),
        );
        let long = format!("{}.com/x", vec!["a".repeat(60); 5].join("."));
        assert_eq!(faults(&long), ["Too long: may not be more than 253 bytes"]);
    }
}
