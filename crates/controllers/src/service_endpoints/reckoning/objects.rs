//! Slices and Endpoints with all that they say: what controllers cache of them is a digest.

use api::Meta;
use api::kinds::{EndpointSlice, Endpoints, MANAGED_BY, SERVICE_NAME};
use serde::Deserialize;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FullSlice {
    pub metadata: Meta,
    pub address_type: String,
    endpoints: Option<Vec<FullEndpoint>>,
    ports: Option<Vec<FullPort>>,
}

api::view!(FullSlice, EndpointSlice::TYPE);

/// Hints are left out: they are advice.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FullEndpoint {
    pub addresses: Vec<String>,
    pub conditions: Conditions,
    pub hostname: Option<String>,
    pub target_ref: Option<Target>,
    pub node_name: Option<String>,
    pub zone: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(default)]
pub struct Conditions {
    pub ready: Option<bool>,
    pub serving: Option<bool>,
    pub terminating: Option<bool>,
}

/// The object behind an address. Its resource version does not count.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Target {
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub api_version: String,
    pub field_path: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FullPort {
    pub name: String,
    pub protocol: String,
    pub port: Option<i32>,
    pub app_protocol: Option<String>,
}

impl FullSlice {
    /// The name of the service that it says it is of.
    pub fn service(&self) -> Option<&str> {
        let name = self.metadata.labels.get(SERVICE_NAME);
        name.filter(|name| !name.is_empty())
    }

    pub fn is_managed_by(&self, controller: &str) -> bool {
        self.metadata.labels.get(MANAGED_BY) == Some(controller)
    }

    pub fn endpoints(&self) -> &[FullEndpoint] {
        self.endpoints.as_deref().unwrap_or_default()
    }

    /// Sorted.
    pub fn ports(&self) -> Vec<FullPort> {
        let mut ports = self.ports.clone().unwrap_or_default();
        ports.sort();
        ports
    }

    /// How many addresses traffic may go to.
    pub fn ready(&self) -> usize {
        let endpoints = self.endpoints().iter();
        let ready = endpoints.filter(|endpoint| endpoint.conditions.ready == Some(true));
        ready.count()
    }

    /// The objects behind them.
    pub fn ready_targets(&self) -> impl Iterator<Item = &Target> {
        let endpoints = self.endpoints().iter();
        let ready = endpoints.filter(|endpoint| endpoint.conditions.ready == Some(true));
        ready.filter_map(|endpoint| endpoint.target_ref.as_ref())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct FullEndpoints {
    pub metadata: Meta,
    subsets: Option<Vec<FullSubset>>,
}

api::view!(FullEndpoints, Endpoints::TYPE);

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FullSubset {
    addresses: Option<Vec<FullAddress>>,
    not_ready_addresses: Option<Vec<FullAddress>>,
    ports: Option<Vec<FullPort>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FullAddress {
    pub ip: String,
    pub hostname: String,
    pub node_name: Option<String>,
    pub target_ref: Option<Target>,
}

impl FullEndpoints {
    pub fn subsets(&self) -> &[FullSubset] {
        self.subsets.as_deref().unwrap_or_default()
    }

    /// How many addresses traffic may go to.
    pub fn ready(&self) -> usize {
        let subsets = self.subsets().iter();
        subsets
            .map(|subset| subset.addresses.as_ref().map_or(0, Vec::len))
            .sum()
    }

    /// The objects behind them.
    pub fn ready_targets(&self) -> impl Iterator<Item = &Target> {
        let addresses = self.subsets().iter().flat_map(FullSubset::addresses);
        let ready = addresses.filter(|(_, is_ready)| *is_ready);
        ready.filter_map(|(address, _)| address.target_ref.as_ref())
    }
}

impl FullSubset {
    /// Its addresses, and whether each is ready.
    pub fn addresses(&self) -> impl Iterator<Item = (&FullAddress, bool)> {
        let ready = self.addresses.iter().flatten();
        let others = self.not_ready_addresses.iter().flatten();
        let ready = ready.map(|address| (address, true));
        ready.chain(others.map(|address| (address, false)))
    }

    /// Its ports; where it has none, that.
    pub fn ports(&self) -> Vec<Option<FullPort>> {
        match self.ports.as_deref() {
            None | Some([]) => vec![None],
            Some(ports) => ports.iter().cloned().map(Some).collect(),
        }
    }
}
