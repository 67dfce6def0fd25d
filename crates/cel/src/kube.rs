//! Kubernetes' own values: quantities, addresses, networks, URLs, versions, named formats, and authorization checks.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use api::cidr::Cidr;
use api::quantity::Quantity;

use crate::authorizer::Check;
use crate::formats::Format;
use crate::semver::Semver;
use crate::url::Url;

#[derive(Debug, Clone, PartialEq)]
pub enum Kube {
    Quantity(Quantity),
    Ip(IpAddr),
    Cidr(Cidr),
    Url(Url),
    Semver(Semver),
    Format(&'static Format),
    Check(Arc<Check>),
}

impl Kube {
    pub fn type_name(&self) -> &'static str {
        match self {
            Kube::Quantity(_) => "kubernetes.Quantity",
            Kube::Ip(_) => "net.IP",
            Kube::Cidr(_) => "net.CIDR",
            Kube::Url(_) => "kubernetes.URL",
            Kube::Semver(_) => "kubernetes.Semver",
            Kube::Format(_) => "kubernetes.NamedFormat",
            Kube::Check(check) => check.type_name(),
        }
    }

    pub fn size(&self) -> Option<u64> {
        match self {
            Kube::Ip(address) => Some(if address.is_ipv4() { 4 } else { 16 }),
            Kube::Cidr(network) => Some(if network.is_ipv4() { 4 } else { 16 }),
            _ => None,
        }
    }

    /// What `string(…)` makes of it.
    pub fn as_text(&self) -> Option<String> {
        match self {
            Kube::Ip(address) => Some(address.to_string()),
            Kube::Cidr(network) => Some(network.to_string()),
            _ => None,
        }
    }
}

impl fmt::Display for Kube {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kube::Quantity(quantity) => write!(f, "{quantity}"),
            Kube::Ip(address) => write!(f, "{address}"),
            Kube::Cidr(network) => write!(f, "{network}"),
            Kube::Url(url) => f.write_str(&url.text),
            Kube::Semver(version) => write!(f, "{version}"),
            Kube::Format(format) => f.write_str(format.name),
            Kube::Check(check) => f.write_str(check.type_name()),
        }
    }
}
