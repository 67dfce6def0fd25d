//! Ingresses and network policies.

use std::net::IpAddr;

use api::Cidr;
use api::syntax;
use serde_json::{Value, json};

use super::addresses::cidr;
use super::place::{Errors, Place, port_name};
use super::selectors;

pub(super) fn ingress(errors: &mut Errors, root: &Place<'_>) {
    let spec = root.field("spec");
    let (rules, backend) = (spec.field("rules"), spec.field("defaultBackend"));
    if rules.is_empty() && !backend.is_set() {
        let shown = json!([]);
        errors.invalid(
            &spec.showing(&shown),
            "either `defaultBackend` or `rules` must be specified",
        );
    }
    if backend.is_set() {
        ingress_backend(errors, &backend);
    }
    for rule in rules.items() {
        let host = rule.field("host");
        if !host.text().is_empty() {
            if host.text().parse::<IpAddr>().is_ok() {
                errors.invalid(&host, "must be a DNS name, not an IP address");
            }
            host_name(errors, &host);
        }
        let http = rule.field("http");
        let paths = http.field("paths");
        if http.is_set() && paths.is_empty() {
            errors.required(&paths, "");
        }
        for path in paths.items() {
            ingress_path(errors, &path);
        }
    }
    let tls = spec.field("tls");
    for entry in tls.items() {
        let hosts = entry.field("hosts");
        for host in hosts.items() {
            host_name(errors, &host);
        }
        let secret = entry.field("secretName");
        if !secret.text().is_empty() {
            errors.syntax(&secret, syntax::validate_dns1123_subdomain);
        }
    }
    let class = spec.field("ingressClassName");
    if class.is_set() {
        errors.syntax(&class, syntax::validate_dns1123_subdomain);
    }
}

fn host_name(errors: &mut Errors, host: &Place<'_>) {
    if !host.text().contains('*') {
        return errors.syntax(host, syntax::validate_dns1123_subdomain);
    }
    let rest = host.text().strip_prefix("*.").unwrap_or_default();
    if rest.is_empty() || !syntax::validate_dns1123_subdomain(rest).is_empty() {
        errors.invalid(host, r"a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')");
    }
}

/// Of the annotation and the field for the class, which a new Ingress may have both of, both must say the same.
pub(super) fn new_ingress(errors: &mut Errors, root: &Place<'_>) {
    const ANNOTATION: &str = "kubernetes.io/ingress.class";
    ingress(errors, root);
    let given = crate::fields::entry(root.value, "metadata.annotations", ANNOTATION);
    let class = crate::fields::text(root.value, "spec.ingressClassName");
    if let Some(given) = given
        && !class.is_empty()
        && given != class
    {
        let shown = Value::from(given);
        // UPSTREAM: the path leaves out the metadata.
        let annotations = root.field("annotations");
        let place = annotations.field(ANNOTATION);
        let why = "must match `ingressClassName` when both are specified";
        errors.invalid(&place.showing(&shown), why);
    }
}

fn ingress_path(errors: &mut Errors, path: &Place<'_>) {
    let (kind, text) = (path.field("pathType"), path.field("path"));
    if !kind.is_set() {
        errors.required(&kind, "pathType must be specified");
    }
    match kind.text() {
        "Exact" | "Prefix" => {
            if !text.text().starts_with('/') {
                errors.invalid(&text, "must be an absolute path");
            }
            for bad in ["//", "/./", "/../", "%2f", "%2F"] {
                if text.text().contains(bad) {
                    errors.invalid(&text, &format!("must not contain '{bad}'"));
                }
            }
            for bad in ["/..", "/."] {
                if text.text().ends_with(bad) {
                    errors.invalid(&text, &format!("cannot end with '{bad}'"));
                }
            }
        }
        "ImplementationSpecific" => {
            if !text.text().is_empty() && !text.text().starts_with('/') {
                errors.invalid(&text, "must be an absolute path");
            }
        }
        "" => {}
        _ => errors.not_supported(&kind, &["Exact", "ImplementationSpecific", "Prefix"]),
    }
    let backend = path.field("backend");
    ingress_backend(errors, &backend);
}

fn ingress_backend(errors: &mut Errors, backend: &Place<'_>) {
    let (service, resource) = (backend.field("service"), backend.field("resource"));
    let empty = json!("");
    match (service.is_set(), resource.is_set()) {
        (true, true) => errors.invalid(
            &backend.showing(&empty),
            "cannot set both resource and service backends",
        ),
        (false, false) => errors.invalid(
            &backend.showing(&empty),
            "resource or service backend is required",
        ),
        (false, true) => {
            errors.need(&resource.field("kind"));
            errors.need(&resource.field("name"));
        }
        (true, false) => {
            errors.name(&service.field("name"), syntax::validate_dns1123_label);
            let port = service.field("port");
            let (name, number) = (port.field("name"), port.field("number"));
            match (name.text().is_empty(), number.is_empty()) {
                (true, true) => errors.required(backend, "port name or number is required"),
                (false, false) => errors.invalid(
                    &backend.showing(&empty),
                    "cannot set both port name & port number",
                ),
                (false, true) => errors.syntax(&name, port_name),
                (true, false) => errors.port(&number),
            }
        }
    }
}

pub(super) fn network_policy(errors: &mut Errors, root: &Place<'_>) {
    let spec = root.field("spec");
    let selector = spec.field("podSelector");
    selectors::label_selector(errors, &selector);
    for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
        let rules = spec.field(rules);
        for rule in rules.items() {
            let ports = rule.field("ports");
            for port in ports.items() {
                policy_port(errors, &port);
            }
            let peers = rule.field(peers);
            for peer in peers.items() {
                policy_peer(errors, &peer);
            }
        }
    }
    let types = spec.field("policyTypes");
    if types.len() > 2 {
        errors.invalid(&types, "may not specify more than two policyTypes");
        return;
    }
    for kind in types.items() {
        errors.one_of(&kind, &["Ingress", "Egress"]);
    }
}

fn policy_port(errors: &mut Errors, port: &Place<'_>) {
    let (protocol, number, end) = (
        port.field("protocol"),
        port.field("port"),
        port.field("endPort"),
    );
    errors.one_of_if_set(&protocol, &["TCP", "UDP", "SCTP"]);
    if number.is_set() {
        errors.port_or_name(&number);
    }
    if let Some(last) = end.integer() {
        match number.integer() {
            None if number.is_set() => {
                errors.invalid(&end, "may not be specified when `port` is non-numeric")
            }
            None => errors.required(&end, "must be specified when `endPort` is specified"),
            Some(first) if last < first => errors.invalid(
                &end.showing(number.value),
                "must be greater than or equal to `port`",
            ),
            Some(_) => errors.port(&end),
        }
    }
}

fn policy_peer(errors: &mut Errors, peer: &Place<'_>) {
    let (pods, namespaces, block) = (
        peer.field("podSelector"),
        peer.field("namespaceSelector"),
        peer.field("ipBlock"),
    );
    selectors::label_selector(errors, &pods);
    selectors::label_selector(errors, &namespaces);
    if block.is_set() {
        let range = block.field("cidr");
        if range.text().is_empty() {
            errors.required(&range, "")
        } else {
            errors.syntax(&range, cidr)
        }
        let excepted = block.field("except");
        for except in excepted.items() {
            errors.syntax(&except, cidr);
            if let (Some(outer), Some(inner)) =
                (Cidr::parse(range.text()), Cidr::parse(except.text()))
                && !(outer.covers(&inner) && outer.prefix() < inner.prefix())
            {
                errors.invalid(&except, "must be a strict subset of `cidr`");
            }
        }
    }
    match (pods.is_set() || namespaces.is_set(), block.is_set()) {
        (true, true) => errors.forbidden(peer, "may not specify both ipBlock and another peer"),
        (false, false) => errors.required(peer, "must specify a peer"),
        _ => {}
    }
}
