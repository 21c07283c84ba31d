//! Addresses in ACLs: `address` or `address/bits`.
//!
//! Source: IPAuthenticationProvider.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns whether an expression is valid in an ACL.
pub(super) fn is_valid(expression: &str) -> bool {
    parse_expression(expression).is_some()
}

/// Returns whether the address `held` matches an expression.
pub(super) fn matches(held: &str, expression: &str) -> bool {
    let (Some(held), Some((wanted, bits))) = (parse_peer(held), parse_expression(expression))
    else {
        return false;
    };
    match (held, wanted) {
        (IpAddr::V4(held), IpAddr::V4(wanted)) => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            held.to_bits() & mask == wanted.to_bits() & mask
        }
        (IpAddr::V6(held), IpAddr::V6(wanted)) => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            held.to_bits() & mask == wanted.to_bits() & mask
        }
        _ => false,
    }
}

/// Formats a peer's address as Java does: IPv6 without compression, and mapped IPv4 as IPv4.
/// Source: InetAddress.getHostAddress.
pub fn host_address(ip: IpAddr) -> String {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => {
            let groups = ip.segments().map(|group| format!("{group:x}"));
            groups.join(":")
        }
    }
}

/// Parses the address of a peer, which may contain a zone.
fn parse_peer(text: &str) -> Option<IpAddr> {
    parse(text.split('%').next().unwrap_or(text))
}

fn parse_expression(expression: &str) -> Option<(IpAddr, u32)> {
    let (address, bits) = match expression.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (expression, None),
    };
    let address = parse(address)?;
    let bits_max = if address.is_ipv4() { 32 } else { 128 };
    match bits {
        None => Some((address, bits_max)),
        Some(bits) => {
            let bits = parse_decimal(bits).filter(|bits| *bits <= bits_max)?;
            Some((address, bits))
        }
    }
}

fn parse(text: &str) -> Option<IpAddr> {
    // IPv4 notation in the last groups of an IPv6 address is refused.
    if text.contains(':') {
        if text.contains('.') {
            return None;
        }
        return text.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    }
    let mut parts = text.split('.');
    let mut octets = [0; 4];
    for octet in &mut octets {
        *octet = parse_decimal(parts.next()?).and_then(|part| u8::try_from(part).ok())?;
    }
    parts
        .next()
        .is_none()
        .then(|| Ipv4Addr::from(octets).into())
}

/// Parses a non-negative number as Java does. A plus sign and leading zeros are accepted.
fn parse_decimal(text: &str) -> Option<u32> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_java_does_and_read_back() {
        for (address, text) in [
            ("127.0.0.1", "127.0.0.1"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
            ("::1", "0:0:0:0:0:0:0:1"),
            ("2001:db8::ff00:42", "2001:db8:0:0:0:0:ff00:42"),
        ] {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(host_address(address), text);
            assert!(matches(text, text), "{text}");
        }
        assert!(matches("2001:db8:0:0:0:0:ff00:42", "2001:db8::/32"));
        assert!(!matches("2001:db9:0:0:0:0:0:1", "2001:db8::/32"));
    }
}
