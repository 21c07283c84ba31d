//! Line of the member list, which describes one server of an ensemble.
//!
//! ```text
//! server.N = addr ( "|" addr )* [ ";" client ]
//! addr     = host ":" quorumPort ":" electionPort [ ":" ( "participant" | "observer" ) ]
//! client   = [ host ":" ] port            # host defaults to 0.0.0.0
//! host     = name | IPv4 | "[" IPv6 "]"
//! ```
//!
//! This module handles only text. It does not resolve names, so an unknown name of a member can be
//! looked up again later.
//!
//! Source: Java's QuorumPeer.QuorumServer, ConfigUtils.getHostAndPort.

use std::collections::BTreeSet;
use std::fmt;
use std::net::Ipv6Addr;

use proto::Sid;
use thiserror::Error;

use crate::formats::java;

/// Role of a server in its ensemble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum MemberRole {
    /// Votes and may lead.
    #[default]
    Participant,
    /// Follows without a vote.
    Observer,
}

/// Host, as a name or an address, and TCP port. Prints as `host:port`, with an IPv6 address in
/// brackets.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// Name or address. An IPv6 address is without brackets and is written out in full, as in Java.
    pub host: String,
    /// Port number.
    pub port: u16,
}

/// Address at which the other members reach a server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberAddress {
    /// Name or address, as in [`HostPort`].
    pub host: String,
    /// Port for learners.
    pub quorum_port: u16,
    /// Port for elections.
    pub election_port: u16,
}

/// Server of the ensemble. Prints as the value of its `server.N` line, in canonical form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// N of `server.N`.
    pub sid: Sid,
    /// Addresses, at least one. There are more only if several addresses per server are enabled.
    pub addresses: Vec<MemberAddress>,
    /// Role of the server.
    pub role: MemberRole,
    /// Address for clients, if the line contains it.
    pub client: Option<HostPort>,
}

/// Error for an invalid value of `server.N`. The messages equal Java's messages.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MemberError {
    /// The value does not have the required form.
    #[error(
        "{value} does not have the form server_config or server_config;client_config where \
         server_config is the pipe separated list of host:port:port or host:port:port:type and \
         client_config is port or host:port"
    )]
    WrongForm {
        /// Whole value.
        value: String,
    },
    /// The port is not a number.
    #[error("Address unresolved: {host}:{port}")]
    PortNotANumber {
        /// Host before the port.
        host: String,
        /// Text in place of the port.
        port: String,
    },
    /// The port is outside the range of TCP ports.
    #[error("port out of range:{port}")]
    PortOutOfRange {
        /// Port number.
        port: i64,
    },
    /// The quorum port and the election port are equal.
    #[error(
        "Client and election port must be different! Please update the configuration file on \
         server.{sid}"
    )]
    SamePorts {
        /// Id of the server.
        sid: Sid,
    },
    /// The server has several addresses, which are not enabled.
    #[error(
        "Multiple address feature is disabled, but multiple addresses were specified for sid {sid}"
    )]
    MultipleAddresses {
        /// Id of the server.
        sid: Sid,
    },
    /// The role is unknown.
    #[error("Unrecognised peertype: {role}")]
    UnknownRole {
        /// Text in place of the role.
        role: String,
    },
    /// The addresses of one server have different roles.
    #[error("Multiple addresses should have similar roles: {} vs {}", .first.java_name(), .other.java_name())]
    DifferentRoles {
        /// Role of the first address that has a role.
        first: MemberRole,
        /// A different role.
        other: MemberRole,
    },
    /// A bracket is not closed.
    #[error("{text} starts with '[' but has no matching ']:'")]
    OpenBracket {
        /// Text of the address.
        text: String,
    },
    /// The text after the colon of a bracketed host is missing.
    #[error("{text} doesn't have a port after colon")]
    NoPort {
        /// Text of the address.
        text: String,
    },
}

impl MemberRole {
    /// Parses a role. Ignores the case and surrounding blanks.
    ///
    /// # Errors
    /// [`MemberError::UnknownRole`] if the text is not `participant` or `observer`.
    pub fn parse(text: &str) -> Result<Self, MemberError> {
        match java::trim(text).to_lowercase().as_str() {
            "participant" => Ok(Self::Participant),
            "observer" => Ok(Self::Observer),
            _ => Err(MemberError::UnknownRole {
                role: text.to_owned(),
            }),
        }
    }

    /// Returns the name in log messages: `PARTICIPANT` or `OBSERVER`.
    pub fn java_name(self) -> &'static str {
        match self {
            Self::Participant => "PARTICIPANT",
            Self::Observer => "OBSERVER",
        }
    }
}

impl fmt::Display for MemberRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Participant => "participant",
            Self::Observer => "observer",
        })
    }
}

impl HostPort {
    /// Creates an address from a host, which it converts to canonical form, and a port.
    pub fn new(host: &str, port: u16) -> Self {
        Self {
            host: canonical_host(host),
            port,
        }
    }

    /// Parses `host:port`, with an IPv6 address in brackets. Returns `None` for other text.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let parts = host_and_ports(java::trim(text)).ok()?;
        let [host, port] = parts.as_slice() else {
            return None;
        };
        let is_host = !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c == '/');
        let port = parse_port(host, port).ok().filter(|port| *port > 0)?;
        is_host.then(|| Self::new(host, port))
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", bracketed(&self.host), self.port)
    }
}

impl Member {
    /// Parses the value of a `server.N` line.
    ///
    /// # Errors
    /// [`MemberError`] if the value is invalid. Returns the fault that Java would find first.
    pub fn parse(sid: Sid, value: &str, multi_address_enabled: bool) -> Result<Self, MemberError> {
        // A value in a properties file includes the blanks at the end of its line. Java refuses
        // them, which does not help users.
        let value = java::trim(value);
        let wrong_form = || MemberError::WrongForm {
            value: value.to_owned(),
        };
        let parts = java::split(value, ';');
        let (server, client) = match parts.as_slice() {
            [server] => (*server, None),
            [server, client] => (*server, Some(parse_client(client, wrong_form)?)),
            _ => return Err(wrong_form()),
        };
        let texts = java::split(server, '|');
        if texts.is_empty() {
            return Err(wrong_form());
        }
        if texts.len() > 1 && !multi_address_enabled {
            return Err(MemberError::MultipleAddresses { sid });
        }
        let mut addresses = Vec::with_capacity(texts.len());
        let mut role = None;
        for text in texts {
            let (address, its_role) = parse_address(sid, text, wrong_form)?;
            if !addresses.contains(&address) {
                addresses.push(address);
            }
            match (role, its_role) {
                (Some(first), Some(other)) if first != other => {
                    return Err(MemberError::DifferentRoles { first, other });
                }
                _ => role = role.or(its_role),
            }
        }
        Ok(Self {
            sid,
            addresses,
            role: role.unwrap_or_default(),
            client,
        })
    }

    /// Returns whether both servers have the same id, role, addresses (in any order) and client
    /// address.
    pub fn is_same(&self, other: &Self) -> bool {
        let sorted = |member: &Self| {
            let mut addresses = member.addresses.clone();
            addresses.sort_unstable();
            addresses
        };
        self.sid == other.sid
            && self.role == other.role
            && self.client == other.client
            && sorted(self) == sorted(other)
    }

    /// Returns the addresses for learners.
    pub fn quorum_addresses(&self) -> BTreeSet<HostPort> {
        let addresses = self.addresses.iter();
        addresses
            .map(|address| HostPort {
                host: address.host.clone(),
                port: address.quorum_port,
            })
            .collect()
    }

    /// Returns the addresses for elections.
    pub fn election_addresses(&self) -> BTreeSet<HostPort> {
        let addresses = self.addresses.iter();
        addresses
            .map(|address| HostPort {
                host: address.host.clone(),
                port: address.election_port,
            })
            .collect()
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut addresses: Vec<&MemberAddress> = self.addresses.iter().collect();
        addresses.sort_by(|a, b| a.host.cmp(&b.host));
        for (index, address) in addresses.into_iter().enumerate() {
            let separator = if index == 0 { "" } else { "|" };
            let host = bracketed(&address.host);
            write!(
                f,
                "{separator}{host}:{}:{}",
                address.quorum_port, address.election_port
            )?;
        }
        write!(f, ":{}", self.role)?;
        match &self.client {
            Some(client) => write!(f, ";{client}"),
            None => Ok(()),
        }
    }
}

/// Returns a host like Java's `InetSocketAddress.getHostString`. A name stays unchanged, an IPv6
/// address is written out in full, an IPv4-mapped address becomes the IPv4 address, and an empty
/// host becomes `localhost`.
pub fn canonical_host(host: &str) -> String {
    if host.is_empty() {
        return "localhost".to_owned();
    }
    match host.parse::<Ipv6Addr>() {
        Ok(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => v4.to_string(),
            None => v6
                .segments()
                .map(|segment| format!("{segment:x}"))
                .join(":"),
        },
        Err(_) => host.to_owned(),
    }
}

fn bracketed(host: &str) -> String {
    if host.contains(':') {
        format!("[{host}]")
    } else {
        host.to_owned()
    }
}

fn parse_client(text: &str, wrong_form: impl Fn() -> MemberError) -> Result<HostPort, MemberError> {
    match host_and_ports(text)?.as_slice() {
        [port] => Ok(HostPort::new("0.0.0.0", parse_port("0.0.0.0", port)?)),
        [host, port] => Ok(HostPort::new(host, parse_port(host, port)?)),
        _ => Err(wrong_form()),
    }
}

fn parse_address(
    sid: Sid,
    text: &str,
    wrong_form: impl Fn() -> MemberError,
) -> Result<(MemberAddress, Option<MemberRole>), MemberError> {
    let parts = host_and_ports(text)?;
    let (host, quorum, election, role) = match parts.as_slice() {
        [host, quorum, election] => (*host, *quorum, *election, None),
        [host, quorum, election, role] => (*host, *quorum, *election, Some(*role)),
        _ => return Err(wrong_form()),
    };
    let quorum_port = parse_port(host, quorum)?;
    let election_port = parse_port(host, election)?;
    if quorum_port == election_port {
        return Err(MemberError::SamePorts { sid });
    }
    let role = role.map(MemberRole::parse).transpose()?;
    Ok((
        MemberAddress {
            host: canonical_host(host),
            quorum_port,
            election_port,
        },
        role,
    ))
}

/// Splits the text at colons, but not inside brackets at its start.
fn host_and_ports(text: &str) -> Result<Vec<&str>, MemberError> {
    let Some(inside) = text.strip_prefix('[') else {
        return Ok(java::split(text, ':'));
    };
    let Some((host, rest)) = inside.split_once(']') else {
        return Err(MemberError::OpenBracket {
            text: text.to_owned(),
        });
    };
    let mut parts = vec![host];
    let mut after = rest.chars();
    match (after.next(), after.as_str()) {
        (None, _) => {}
        (Some(_), "") => {
            return Err(MemberError::NoPort {
                text: text.to_owned(),
            });
        }
        (Some(_), ports) => parts.extend(java::split(ports, ':')),
    }
    Ok(parts)
}

fn parse_port(host: &str, text: &str) -> Result<u16, MemberError> {
    let not_a_number = || MemberError::PortNotANumber {
        host: host.to_owned(),
        port: text.to_owned(),
    };
    let port = java::parse_decimal(text)
        .filter(|&port| i32::try_from(port).is_ok())
        .ok_or_else(not_a_number)?;
    u16::try_from(port).map_err(|_| MemberError::PortOutOfRange { port })
}

#[cfg(test)]
mod tests;
