//! IP addresses as pods and services carry them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Reads an address as upstream does: octets of IPv4 may begin with zeros, which the API allowed for years, and an
/// IPv4 address within IPv6 (`::ffff:10.0.0.1`) is IPv4.
pub fn parse(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        let address: Ipv6Addr = text.parse().ok()?;
        return Some(match address.to_ipv4_mapped() {
            Some(mapped) => IpAddr::V4(mapped),
            None => IpAddr::V6(address),
        });
    }
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        *octet = parse_octet(parts.next()?)?;
    }
    parts
        .next()
        .is_none()
        .then(|| IpAddr::V4(Ipv4Addr::from(octets)))
}

/// Decimal, whatever it begins with.
fn parse_octet(digits: &str) -> Option<u8> {
    let is_decimal = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    if !is_decimal {
        return None;
    }
    match digits.trim_start_matches('0') {
        "" => Some(0),
        significant => significant.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_upstream_reads() {
        let shown = |text: &str| parse(text).map(|address| address.to_string());
        for (text, expected) in [
            ("10.0.0.1", Some("10.0.0.1")),
            ("010.000.00.001", Some("10.0.0.1")),
            ("::ffff:1.2.3.4", Some("1.2.3.4")),
            ("2001:DB8:0::1", Some("2001:db8::1")),
            ("::1.2.3.4", Some("::102:304")),
            ("", None),
            ("10.0.0", None),
            ("10.0.0.0.1", None),
            ("10.0.0.256", None),
            ("10.0.0.+1", None),
            ("fe80::1%eth0", None),
            ("web.example.com", None),
        ] {
            assert_eq!(shown(text).as_deref(), expected, "{text}");
        }
    }
}
