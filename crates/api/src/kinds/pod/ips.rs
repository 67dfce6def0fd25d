//! The addresses of a pod in as few bytes as possible: nearly all pods have one, of IPv4.

use std::net::{IpAddr, Ipv4Addr};

/// What `status.podIPs` says.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum PodIps {
    #[default]
    None,
    V4(Ipv4Addr),
    Several(Box<Several>),
}

/// Any other list, also of one. What is no address is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Several(Box<[Option<IpAddr>]>);

impl FromIterator<IpAddr> for PodIps {
    fn from_iter<T: IntoIterator<Item = IpAddr>>(addresses: T) -> PodIps {
        PodIps::new(addresses.into_iter().map(Some))
    }
}

impl PodIps {
    pub(super) fn new(addresses: impl Iterator<Item = Option<IpAddr>>) -> PodIps {
        let all: Box<[Option<IpAddr>]> = addresses.collect();
        match &*all {
            [] => PodIps::None,
            [Some(IpAddr::V4(only))] => PodIps::V4(*only),
            _ => PodIps::Several(Box::new(Several(all))),
        }
    }

    pub fn is_empty(&self) -> bool {
        matches!(self, PodIps::None)
    }

    /// In the order of the status; malformed ones are left out.
    pub fn iter(&self) -> impl Iterator<Item = IpAddr> {
        let (one, several) = match self {
            PodIps::None => (None, None),
            PodIps::V4(only) => (Some(IpAddr::V4(*only)), None),
            PodIps::Several(list) => (None, Some(list.0.iter().copied().flatten())),
        };
        one.into_iter().chain(several.into_iter().flatten())
    }

    /// Is there text in the status that is no address?
    pub fn has_malformed(&self) -> bool {
        matches!(self, PodIps::Several(list) if list.0.iter().any(Option::is_none))
    }
}
