//! What is read of a ServiceCIDR, from which Services get their addresses, and of an IPAddress, which marks one as taken.

use std::net::IpAddr;

use serde::Deserialize;

use crate::cidr::Cidr;
use crate::conditions::Condition;
use crate::intern::Istr;
use crate::meta::{Meta, or_default};
use crate::resource::ResourceType;

/// Keeps a range from going while addresses depend on it.
pub const SERVICE_CIDR_FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";

/// Says who made an IPAddress, and that it was the API server.
pub const ADDRESS_MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";
pub const ADDRESS_ALLOCATOR: &str = "ipallocator.k8s.io";

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct ServiceCidr {
    pub metadata: Meta,
    #[serde(deserialize_with = "or_default")]
    pub spec: ServiceCidrSpec,
    #[serde(deserialize_with = "or_default")]
    pub status: ServiceCidrStatus,
}

crate::view!(
    ServiceCidr,
    ResourceType::cluster("networking.k8s.io", "v1", "servicecidrs", "ServiceCIDR")
);

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct ServiceCidrSpec {
    /// One of each family at most.
    #[serde(deserialize_with = "or_default")]
    pub cidrs: Vec<Istr>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct ServiceCidrStatus {
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}

impl ServiceCidr {
    /// Its ranges; what is none was refused by the API server.
    pub fn ranges(&self) -> impl Iterator<Item = Cidr> {
        self.spec.cidrs.iter().filter_map(|text| Cidr::parse(text))
    }

    /// Does one of its ranges give out this address?
    pub fn assigns(&self, address: &IpAddr) -> bool {
        self.ranges().any(|range| range.assigns(address))
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct IpAddress {
    pub metadata: Meta,
}

crate::view!(
    IpAddress,
    ResourceType::cluster("networking.k8s.io", "v1", "ipaddresses", "IPAddress")
);

impl IpAddress {
    /// The address, if it is one that the API server gave to a Service.
    pub fn allocated(&self) -> Option<IpAddr> {
        let by = self.metadata.labels.get(ADDRESS_MANAGED_BY)?;
        (by == ADDRESS_ALLOCATOR).then(|| self.metadata.name.parse().ok())?
    }
}
