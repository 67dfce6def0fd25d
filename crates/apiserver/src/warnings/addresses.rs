//! Addresses that are spelled in another way than upstream prints them. Upstream: `validation.GetWarningsForIP`.

use std::fmt::Arguments;
use std::net::IpAddr;

use serde_json::Value;

use crate::fields::{entry, list, text};
use crate::validation::addresses::is_mapped;

/// The controller spells all addresses as they should be.
pub(super) fn endpoints(endpoints: &Value, said: &mut Vec<String>) {
    let manager = "endpoints.kubernetes.io/managed-by";
    if entry(endpoints, "metadata.labels", manager) == Some("endpoint-controller") {
        return;
    }
    for (index, subset) in list(endpoints, "subsets").iter().enumerate() {
        for name in ["addresses", "notReadyAddresses"] {
            for (inner, address) in list(subset, name).iter().enumerate() {
                let place = format_args!("subsets[{index}].{name}[{inner}].ip");
                said.extend(of(place, text(address, "ip")));
            }
        }
    }
}

/// As [`endpoints`].
pub(super) fn slice(slice: &Value, said: &mut Vec<String>) {
    const MANAGERS: [&str; 2] = [
        "endpointslice-controller.k8s.io",
        "endpointslicemirroring-controller.k8s.io",
    ];
    let manager = "endpointslice.kubernetes.io/managed-by";
    if entry(slice, "metadata.labels", manager).is_some_and(|name| MANAGERS.contains(&name)) {
        return;
    }
    for (index, endpoint) in list(slice, "endpoints").iter().enumerate() {
        for (inner, address) in list(endpoint, "addresses").iter().enumerate() {
            let place = format_args!("endpoints[{index}].addresses[{inner}]");
            said.extend(of(place, address.as_str().unwrap_or_default()));
        }
    }
}

fn of(place: Arguments<'_>, given: &str) -> Option<String> {
    let printed = api::ip::parse(given)?;
    if given.parse::<IpAddr>().is_err() || is_mapped(given, &printed) {
        return Some(format!(
            "{place}: non-standard IP address \"{given}\" is invalid: use \"{printed}\""
        ));
    }
    (printed.is_ipv6() && printed.to_string() != given).then(|| {
        format!("{place}: IPv6 address \"{given}\" should be in RFC 5952 canonical format (\"{printed}\")")
    })
}
