//! One line of the member list: who a server is to its ensemble.
//!
//! ```text
//! server.N = addr ( "|" addr )* [ ";" client ]
//! addr     = host ":" quorumPort ":" electionPort [ ":" ( "participant" | "observer" ) ]
//! client   = [ host ":" ] port            # host defaults to 0.0.0.0
//! host     = name | IPv4 | "[" IPv6 "]"
//! ```
//!
//! Everything here is about text: names are not resolved, so that a member whose name is not known
//! yet can be looked up again later.
//!
//! Source: Java's QuorumPeer.QuorumServer, ConfigUtils.getHostAndPort.

use std::collections::BTreeSet;
use std::fmt;
use std::net::Ipv6Addr;

use proto::Sid;
use thiserror::Error;

use crate::java;

/// What a server is in its ensemble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum MemberRole {
    /// It votes and may lead.
    #[default]
    Participant,
    /// It only follows.
    Observer,
}

/// A host, as a name or an address, and a TCP port. Prints as `host:port`, IPv6 in brackets.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// Name or address; an IPv6 address is without brackets and written out in full, as Java does.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// One address at which the other members reach a server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberAddress {
    /// As in [`HostPort`].
    pub host: String,
    /// Port for learners.
    pub quorum_port: u16,
    /// Port for elections.
    pub election_port: u16,
}

/// A server of the ensemble. Prints as the value of its `server.N` line, in canonical form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The N of `server.N`.
    pub sid: Sid,
    /// At least one; more only if several addresses are enabled.
    pub addresses: Vec<MemberAddress>,
    /// Whether it votes.
    pub role: MemberRole,
    /// Where it serves clients, if its line says so.
    pub client: Option<HostPort>,
}

/// A value of `server.N` that is refused. The texts are Java's.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MemberError {
    /// Not the form above.
    #[error(
        "{value} does not have the form server_config or server_config;client_config where \
         server_config is the pipe separated list of host:port:port or host:port:port:type and \
         client_config is port or host:port"
    )]
    WrongForm {
        /// The whole value.
        value: String,
    },
    /// A port that is no number.
    #[error("Address unresolved: {host}:{port}")]
    PortNotANumber {
        /// The host before it.
        host: String,
        /// The text in the place of the port.
        port: String,
    },
    /// A port that no TCP port can be.
    #[error("port out of range:{port}")]
    PortOutOfRange {
        /// The number.
        port: i64,
    },
    /// Quorum and election port are the same.
    #[error(
        "Client and election port must be different! Please update the configuration file on \
         server.{sid}"
    )]
    SamePorts {
        /// The server.
        sid: Sid,
    },
    /// Several addresses, which are not enabled.
    #[error(
        "Multiple address feature is disabled, but multiple addresses were specified for sid {sid}"
    )]
    MultipleAddresses {
        /// The server.
        sid: Sid,
    },
    /// A role that there is not.
    #[error("Unrecognised peertype: {role}")]
    UnknownRole {
        /// The text in its place.
        role: String,
    },
    /// Addresses of one server with different roles.
    #[error("Multiple addresses should have similar roles: {} vs {}", .first.java_name(), .other.java_name())]
    DifferentRoles {
        /// The role of the first address that has one.
        first: MemberRole,
        /// Another one.
        other: MemberRole,
    },
    /// A bracket that is not closed.
    #[error("{text} starts with '[' but has no matching ']:'")]
    OpenBracket {
        /// The address.
        text: String,
    },
    /// Nothing after the colon of a bracketed host.
    #[error("{text} doesn't have a port after colon")]
    NoPort {
        /// The address.
        text: String,
    },
}

impl MemberRole {
    /// The role in any case, blanks around it allowed.
    ///
    /// # Errors
    /// [`MemberError::UnknownRole`] for anything but `participant` and `observer`.
    pub fn parse(text: &str) -> Result<Self, MemberError> {
        match java::trim(text).to_lowercase().as_str() {
            "participant" => Ok(Self::Participant),
            "observer" => Ok(Self::Observer),
            _ => Err(MemberError::UnknownRole {
                role: text.to_owned(),
            }),
        }
    }

    /// The name in log texts: `PARTICIPANT` or `OBSERVER`.
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
    /// Puts a host into canonical form and a port to it.
    pub fn new(host: &str, port: u16) -> Self {
        Self {
            host: canonical_host(host),
            port,
        }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", bracketed(&self.host), self.port)
    }
}

impl Member {
    /// Reads the value of a `server.N` line.
    ///
    /// # Errors
    /// Every [`MemberError`]; the first one that Java would find.
    pub fn parse(sid: Sid, value: &str, multi_address_enabled: bool) -> Result<Self, MemberError> {
        // The blanks that java-properties leaves at the end of a line make Java refuse it; nobody
        // is served by that.
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

    /// Whether it is the same server in the same role at the same addresses, in any order.
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

    /// Where learners reach it.
    pub fn quorum_addresses(&self) -> BTreeSet<HostPort> {
        let addresses = self.addresses.iter();
        addresses
            .map(|address| HostPort {
                host: address.host.clone(),
                port: address.quorum_port,
            })
            .collect()
    }

    /// Where its peers reach it in elections.
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

/// A host as Java's `InetSocketAddress.getHostString` gives it back: a name as it is, an IPv6
/// address written out in full, one that stands for an IPv4 address as that one, and no host at all
/// as the loopback interface.
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

/// Splits at colons, except in the brackets that a text may begin with.
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
#[path = "members_tests.rs"]
mod tests;
