//! Addresses and networks as Go's `net/netip` reads them, less what Kubernetes does not take.

use std::net::IpAddr;

use api::cidr::Cidr;
use api::syntax::go_quote;

use crate::value::Value;

pub(crate) fn ip(text: &str) -> Result<IpAddr, String> {
    let shown = go_quote(text);
    if text.contains('%') {
        return Err(format!("IP address {shown} with zone value is not allowed"));
    }
    match text.parse() {
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {shown} is not allowed"))
        }
        Ok(address) => Ok(address),
        Err(_) => {
            let why = why_no_address(text);
            Err(format!(
                "IP Address {shown} parse error during conversion from string: ParseAddr({shown}): {why}"
            ))
        }
    }
}

/// What Go says of the commonest mistakes.
fn why_no_address(text: &str) -> &'static str {
    if text.is_empty() {
        return "unable to parse IP";
    }
    if text.contains(':') {
        return "each colon-separated field must have at least one digit";
    }
    if !text.contains('.') {
        return "unable to parse IP";
    }
    let fields: Vec<&str> = text.split('.').collect();
    if text
        .bytes()
        .any(|byte| !byte.is_ascii_digit() && byte != b'.')
    {
        return "unexpected character";
    }
    if fields.iter().any(|field| field.is_empty()) {
        return "IPv4 field must have at least one digit";
    }
    if fields
        .iter()
        .any(|field| field.len() > 1 && field.starts_with('0'))
    {
        return "IPv4 field has octet with leading zero";
    }
    if fields.iter().any(|field| field.parse::<u8>().is_err()) {
        return "IPv4 field has value >255";
    }
    if fields.len() > 4 {
        return "IPv4 address too long";
    }
    "IPv4 address too short"
}

pub(crate) fn cidr(text: &str) -> Result<Cidr, String> {
    let shown = go_quote(text);
    let wrong = |why: &str| {
        format!(
            "network address parse error during conversion from string: netip.ParsePrefix({shown}): {why}"
        )
    };
    let Some((address, bits)) = text.rsplit_once('/') else {
        return Err(wrong("no '/'"));
    };
    let Ok(address) = address.parse::<IpAddr>() else {
        let inner = go_quote(address);
        let why = format!("ParseAddr({inner}): {}", why_no_address(address));
        return Err(wrong(&why));
    };
    let digits = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
    let bad = || wrong(&format!("bad bits after slash: {}", go_quote(bits)));
    if !digits || bits.len() > 1 && bits.starts_with('0') {
        return Err(bad());
    }
    if let IpAddr::V6(six) = address
        && six.to_ipv4_mapped().is_some()
    {
        return Err(format!("IPv4-mapped IPv6 address {shown} is not allowed"));
    }
    let prefix: u8 = bits
        .parse()
        .map_err(|_| wrong("prefix length out of range"))?;
    Cidr::new(address, prefix).ok_or_else(|| wrong("prefix length out of range"))
}

/// The address that a network was written with, host bits and all.
pub(crate) fn address(network: &Cidr) -> IpAddr {
    let text = network.to_string();
    let address = text.split('/').next().unwrap_or_default();
    address
        .parse()
        .unwrap_or(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED))
}

pub(crate) fn ip_method<'a>(name: &str, address: &IpAddr) -> Option<Value<'a>> {
    let link_local = match address {
        IpAddr::V4(four) => four.is_link_local(),
        IpAddr::V6(six) => six.is_unicast_link_local(),
    };
    Some(match name {
        "family" => Value::Int(if address.is_ipv4() { 4 } else { 6 }),
        "isUnspecified" => Value::Bool(address.is_unspecified()),
        "isLoopback" => Value::Bool(address.is_loopback()),
        "isLinkLocalUnicast" => Value::Bool(link_local),
        "isLinkLocalMulticast" => Value::Bool(match address {
            IpAddr::V4(four) => four.octets()[..3] == [224, 0, 0],
            IpAddr::V6(six) => six.segments()[0] & 0xff0f == 0xff02,
        }),
        "isGlobalUnicast" => {
            let broadcast = matches!(address, IpAddr::V4(four) if four.is_broadcast());
            Value::Bool(
                !broadcast
                    && !address.is_unspecified()
                    && !address.is_loopback()
                    && !address.is_multicast()
                    && !link_local,
            )
        }
        _ => return None,
    })
}
