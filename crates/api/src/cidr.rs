//! Networks in CIDR notation.

use std::fmt;
use std::net::IpAddr;

/// A network such as `10.0.0.0/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr {
    address: IpAddr,
    prefix: u8,
}

impl Cidr {
    pub fn parse(text: &str) -> Option<Cidr> {
        let (address, prefix) = text.split_once('/')?;
        Cidr::new(address.parse().ok()?, prefix.parse().ok()?)
    }

    pub fn new(address: IpAddr, prefix: u8) -> Option<Cidr> {
        (prefix <= width(&address)).then_some(Cidr { address, prefix })
    }

    /// `IPv4` or `IPv6`.
    pub fn family(&self) -> &'static str {
        family(&self.address)
    }

    pub fn is_ipv4(&self) -> bool {
        self.address.is_ipv4()
    }

    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    /// How many bits tell its addresses apart.
    pub fn host_bits(&self) -> u8 {
        width(&self.address) - self.prefix
    }

    /// How many addresses there are; what does not fit saturates.
    pub fn size(&self) -> u128 {
        1_u128
            .checked_shl(self.host_bits().into())
            .unwrap_or(u128::MAX)
    }

    /// The same network, by its first address.
    #[must_use]
    pub fn masked(&self) -> Cidr {
        Cidr {
            address: self.nth(0),
            prefix: self.prefix,
        }
    }

    pub fn contains(&self, address: &IpAddr) -> bool {
        family(address) == self.family() && number(address) & self.mask() == self.first()
    }

    /// Does another network lie within this one, or is the same?
    pub fn covers(&self, other: &Cidr) -> bool {
        self.contains(&other.address) && self.prefix <= other.prefix
    }

    pub fn overlaps(&self, other: &Cidr) -> bool {
        self.contains(&other.nth(0)) || other.contains(&self.nth(0))
    }

    /// Can a Service have the address? Nobody has a network's own, nor, in IPv4, the broadcast address.
    pub fn assigns(&self, address: &IpAddr) -> bool {
        let last = self.first() | !self.mask();
        let is_broadcast = self.is_ipv4() && number(address) == last & u128::from(u32::MAX);
        self.contains(address) && number(address) != self.first() && !is_broadcast
    }

    /// The `index`th address.
    pub fn nth(&self, index: u128) -> IpAddr {
        let value = self.first().saturating_add(index);
        match self.address {
            IpAddr::V4(_) => {
                let value = u32::try_from(value & u128::from(u32::MAX));
                IpAddr::V4(value.unwrap_or_default().into())
            }
            IpAddr::V6(_) => IpAddr::V6(value.into()),
        }
    }

    /// The `index`th part of it that has `host_bits`, if there is one.
    pub fn part(&self, index: u128, host_bits: u8) -> Option<Cidr> {
        let bits = self.host_bits().checked_sub(host_bits)?;
        let count = 1_u128.checked_shl(bits.into());
        if count.is_some_and(|count| index >= count) {
            return None;
        }
        let offset = index.checked_shl(host_bits.into()).unwrap_or_default();
        Cidr::new(self.nth(offset), width(&self.address) - host_bits)
    }

    /// Which address of the network this is; none if it is not in it.
    pub fn index_of(&self, address: &IpAddr) -> Option<u128> {
        self.contains(address)
            .then(|| number(address) - self.first())
    }

    fn mask(&self) -> u128 {
        u128::MAX
            .checked_shl(self.host_bits().into())
            .unwrap_or_default()
    }

    fn first(&self) -> u128 {
        number(&self.address) & self.mask()
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// `IPv4` or `IPv6`.
pub fn family(address: &IpAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}

fn width(address: &IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn number(address: &IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(*address)),
        IpAddr::V6(address) => u128::from(*address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        Cidr::parse(text).unwrap()
    }

    #[test]
    fn reads_networks_and_nothing_else() {
        for bad in [
            "",
            "10.0.0.0",
            "10.0.0.0/33",
            "10.0.0/8",
            "::/129",
            "10.0.0.0/-1",
            "x/8",
        ] {
            assert_eq!(Cidr::parse(bad), None, "{bad}");
        }
        assert_eq!(cidr("10.0.0.7/24").to_string(), "10.0.0.7/24");
        assert_eq!(cidr("10.0.0.7/24").masked().to_string(), "10.0.0.0/24");
        assert_eq!(
            cidr("fd00:1:2:3::9/48").masked().to_string(),
            "fd00:1:2::/48"
        );
        assert_eq!(
            (cidr("0.0.0.0/0").size(), cidr("::/0").size()),
            (1 << 32, u128::MAX)
        );
    }

    #[test]
    fn knows_what_lies_within() {
        let wide = cidr("10.0.0.0/16");
        assert!(wide.covers(&cidr("10.0.5.0/24")) && wide.covers(&wide));
        assert!(!cidr("10.0.5.0/24").covers(&wide) && cidr("10.0.5.0/24").overlaps(&wide));
        assert!(!wide.overlaps(&cidr("10.1.0.0/16")) && !wide.overlaps(&cidr("fd00::/8")));
        assert!(cidr("::/0").covers(&cidr("fd00::/8")) && !cidr("::/0").overlaps(&wide));
        assert_eq!(wide.index_of(&"10.0.1.2".parse().unwrap()), Some(258));
        assert_eq!(wide.index_of(&"10.1.0.0".parse().unwrap()), None);
    }

    // Upstream: TestPrefixContainsIP.
    #[test]
    fn nobody_gets_the_first_address_nor_the_broadcast_one() {
        let assigns =
            |network: &str, address: &str| cidr(network).assigns(&address.parse().unwrap());
        assert!(assigns("10.0.0.0/24", "10.0.0.1") && assigns("10.0.0.0/24", "10.0.0.254"));
        assert!(!assigns("10.0.0.0/24", "10.0.0.0") && !assigns("10.0.0.0/24", "10.0.0.255"));
        assert!(assigns("fd00::/120", "fd00::ff") && !assigns("fd00::/120", "fd00::"));
        assert!(!assigns("10.0.0.0/24", "10.0.1.1") && !assigns("10.0.0.0/32", "10.0.0.0"));
    }
}
