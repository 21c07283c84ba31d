//! `budget.<name>.*`: limits on the resources of an address or identity.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::error::ConfigError;
use crate::formats::java;
use crate::registry::storage::BUDGET;
use crate::settings::{FoundSetting, WrittenSettings};

/// Limits on the resources of each matching address or identity. All connections of one address or
/// identity share its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// Name of the budget in the file.
    pub name: String,
    /// Addresses or identities to which the budget applies.
    pub who: BudgetClients,
    /// Maximum number of requests per second. Absent if unlimited.
    pub requests_per_second: Option<u32>,
    /// Maximum number of request bytes per second. Absent if unlimited.
    pub bytes_per_second: Option<u32>,
    /// Maximum number of watches. Absent if unlimited.
    pub watches: Option<u32>,
    /// Maximum number of bytes of watched paths. Absent if unlimited.
    pub watch_bytes: Option<u32>,
    /// Maximum number of ephemeral znodes. Absent if unlimited.
    pub ephemerals: Option<u32>,
}

impl Budget {
    /// Creates a budget without limits.
    pub fn unlimited(name: &str, who: BudgetClients) -> Self {
        Self {
            name: name.to_owned(),
            who,
            requests_per_second: None,
            bytes_per_second: None,
            watches: None,
            watch_bytes: None,
            ephemerals: None,
        }
    }
}

/// Addresses or identities to which a budget applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BudgetClients {
    /// Each address of a network.
    Network(Network),
    /// Each address.
    AnyAddress,
    /// An authenticated user of a scheme.
    User {
        /// Name of the scheme.
        scheme: String,
        /// Name of the user.
        user: String,
    },
    /// Each user of a scheme.
    AnyUser {
        /// Name of the scheme.
        scheme: String,
    },
    /// All unauthenticated clients together.
    Anyone,
}

/// Addresses with a common prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u32,
}

impl Network {
    fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let bits = match bits {
            Some(text) => text.parse().ok().filter(|_| is_number(text))?,
            None => most,
        };
        (bits <= most).then_some(Self { address, bits })
    }

    /// Returns whether an address belongs to the network. An IPv4-mapped IPv6 address does not
    /// belong to an IPv4 network.
    pub fn contains(&self, address: IpAddr) -> bool {
        let differ = match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                u128::from(own.to_bits() ^ other.to_bits()) << 96
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => own.to_bits() ^ other.to_bits(),
            _ => return false,
        };
        differ.leading_zeros() >= self.bits
    }
}

/// Schemes whose identities contain a user.
const SCHEMES: [&str; 3] = ["digest", "sasl", "x509"];

const WHO: &str = "who";
const REQUESTS: &str = "requestsPerSecond";
const BYTES: &str = "bytesPerSecond";
const WATCHES: &str = "watches";
const WATCH_BYTES: &str = "watchBytes";
const EPHEMERALS: &str = "ephemerals";
/// Fields that bound a resource.
const BOUNDS: [&str; 5] = [REQUESTS, BYTES, WATCHES, WATCH_BYTES, EPHEMERALS];

impl BudgetClients {
    fn parse(text: &str) -> Option<Self> {
        if text == "anyone" {
            return Some(Self::Anyone);
        }
        let (scheme, user) = text.split_once(':')?;
        match (scheme, user) {
            ("ip", "*") => Some(Self::AnyAddress),
            ("ip", network) => Network::parse(network).map(Self::Network),
            (_, "") => None,
            _ if !SCHEMES.contains(&scheme) => None,
            (_, "*") => Some(Self::AnyUser {
                scheme: scheme.to_owned(),
            }),
            _ => Some(Self::User {
                scheme: scheme.to_owned(),
                user: user.to_owned(),
            }),
        }
    }
}

/// Reads all budgets, in the order of their names.
pub(super) fn read(settings: &WrittenSettings) -> Result<Vec<Budget>, ConfigError> {
    let beginning = BUDGET.family().unwrap_or_default();
    let mut by_name: BTreeMap<String, BTreeMap<&'static str, FoundSetting>> = BTreeMap::new();
    for found in settings.find_family(beginning, BUDGET.scope) {
        let rest = found.key.strip_prefix(beginning).unwrap_or_default();
        let (name, field) = rest.split_once('.').unwrap_or((rest, ""));
        let known = BOUNDS.into_iter().chain([WHO]);
        let Some(field) = known.into_iter().find(|known| *known == field) else {
            let reason = "this is not a setting of a budget";
            let hint = format!(
                "write budget.<name>.{WHO}, and at least one of {}; a name must not contain a dot",
                BOUNDS
                    .map(|bound| format!("budget.<name>.{bound}"))
                    .join(", ")
            );
            return Err(found.refused(reason).hint(hint));
        };
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        if name.is_empty() || !name.chars().all(is_plain) {
            let reason = format!("`{name}` is not a valid name of a budget");
            return Err(found.refused(reason).hint("use letters, digits, - and _"));
        }
        by_name
            .entry(name.to_owned())
            .or_default()
            .insert(field, found);
    }
    let named = by_name.into_iter();
    named.map(|(name, fields)| budget(name, fields)).collect()
}

fn budget(
    name: String,
    fields: BTreeMap<&'static str, FoundSetting>,
) -> Result<Budget, ConfigError> {
    let Some(who) = fields.get(WHO) else {
        let reason = format!("the budget {name} does not name any clients");
        let error = match fields.into_values().next() {
            Some(found) => found.refused(reason),
            None => ConfigError::new(reason),
        };
        let hint =
            format!("add budget.{name}.{WHO} with a value such as ip:10.0.0.0/8 or sasl:alice");
        return Err(error.hint(hint));
    };
    // With a rate of zero, clients could never continue.
    let rate = |field| number(fields.get(field), 1);
    let held = |field| number(fields.get(field), 0);
    let limits = Budget {
        requests_per_second: rate(REQUESTS)?,
        bytes_per_second: rate(BYTES)?,
        watches: held(WATCHES)?,
        watch_bytes: held(WATCH_BYTES)?,
        ephemerals: held(EPHEMERALS)?,
        ..Budget::unlimited(&name, BudgetClients::Anyone)
    };
    let budget = Budget {
        who: BudgetClients::parse(&who.text).ok_or_else(|| {
            let reason = format!("`{}` does not name any clients", who.text);
            who.refused(reason).hint(format!(
                "write anyone, ip:*, an address or network such as ip:10.0.0.0/8, or SCHEME:USER or \
                 SCHEME:* (schemes: {}), such as sasl:alice",
                SCHEMES.join(", ")
            ))
        })?,
        ..limits
    };
    if fields.len() == 1 {
        let reason = format!("the budget {} does not contain a limit", budget.name);
        let hint = format!("add budget.{}.{REQUESTS} or another limit", budget.name);
        return Err(who.refused(reason).hint(hint));
    }
    Ok(budget)
}

fn number(found: Option<&FoundSetting>, least: u32) -> Result<Option<u32>, ConfigError> {
    let Some(found) = found else {
        return Ok(None);
    };
    let Some(number) = java::parse_decimal(&found.text) else {
        let error = found.refused(java::bad_number(&found.text));
        return Err(error.hint("write a whole number, without other characters"));
    };
    match u32::try_from(number) {
        Ok(number) if number >= least => Ok(Some(number)),
        _ => {
            let reason = format!("{number} is out of range ({least} to {})", u32::MAX);
            Err(found
                .refused(reason)
                .hint("remove the line to disable the limit"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(network: &str, address: &str) -> bool {
        let network = Network::parse(network).unwrap();
        network.contains(address.parse().unwrap())
    }

    #[test]
    fn a_network_contains_the_addresses_with_its_prefix() {
        assert!(contains("10.0.0.0/8", "10.255.1.2"));
        assert!(!contains("10.0.0.0/8", "11.0.0.0"));
        assert!(contains("10.1.2.3", "10.1.2.3") && !contains("10.1.2.3", "10.1.2.2"));
        assert!(contains("0.0.0.0/0", "192.0.2.1"));
        assert!(!contains("0.0.0.0/0", "::1"));
        assert!(contains("2001:db8::/32", "2001:db8:1::1"));
        assert!(!contains("2001:db8::/32", "2001:db9::1"));
        assert!(contains("::/0", "::1") && !contains("::1", "::2"));
    }

    #[test]
    fn an_unknown_form_names_no_clients() {
        for text in [
            "",
            "alice",
            "ip",
            "ip:",
            "ip:10.0.0",
            "ip:10.0.0.0/33",
            "ip:10.0.0.0/",
            "ip:10.0.0.0/+8",
            "ip:::/129",
            "sasl:",
            "world:anyone",
            "anyone:*",
            "super:*",
        ] {
            assert_eq!(BudgetClients::parse(text), None, "{text}");
        }
        let user = |scheme: &str, user: &str| BudgetClients::User {
            scheme: scheme.to_owned(),
            user: user.to_owned(),
        };
        assert_eq!(
            BudgetClients::parse("x509:CN=bob"),
            Some(user("x509", "CN=bob"))
        );
        assert_eq!(
            BudgetClients::parse("sasl:zk/host@A"),
            Some(user("sasl", "zk/host@A"))
        );
        let scheme = "digest".to_owned();
        assert_eq!(
            BudgetClients::parse("digest:*"),
            Some(BudgetClients::AnyUser { scheme })
        );
        assert_eq!(
            BudgetClients::parse("ip:*"),
            Some(BudgetClients::AnyAddress)
        );
        assert_eq!(BudgetClients::parse("anyone"), Some(BudgetClients::Anyone));
    }
}
