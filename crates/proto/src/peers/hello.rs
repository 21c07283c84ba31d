//! The beginning of connections between servers: the hello of an election connection, and quorum
//! SASL.
//!
//! ```text
//! version 1, 2   protocol i64 (-65536, -65535) | sid i64 | length i32 | addresses
//! before 3.5     sid i64 (not negative)
//! ```
//!
//! The addresses are `host:port`, joined with `|` in version 2. The hello is not answered.
//!
//! Source: QuorumCnxManager.InitialMessage, QuorumAuthPacket.

use std::fmt;

use bytes::Bytes;
use jute::{DecodeRecord, EncodeRecord};

use crate::{Hidden, Sid};

/// A host and a port. An IPv6 address is printed in brackets.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    /// Name or numeric address, without brackets.
    pub host: String,
    /// Port number.
    pub port: u16,
}

impl Endpoint {
    /// Parses `host:port` or `[v6]:port`. Returns `None` if the port is missing or is not a number,
    /// or if the host begins with a second bracket, because such a host cannot be printed
    /// unambiguously.
    pub fn parse(text: &str) -> Option<Self> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => rest.split_once("]:")?,
            None => text.split_once(':')?,
        };
        let port = port.parse().ok()?;
        let host = host.to_owned();
        (!host.starts_with('[')).then_some(Self { host, port })
    }

    /// Returns whether the host is a wildcard address, which means all addresses of its server and
    /// cannot be dialled.
    pub fn is_wildcard(&self) -> bool {
        let parsed: Result<std::net::IpAddr, _> = self.host.parse();
        parsed.is_ok_and(|address| address.is_unspecified())
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') {
            write!(f, "[{host}]:{port}")
        } else {
            write!(f, "{host}:{port}")
        }
    }
}

/// First message that the dialler sends on an election connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Id of the dialler. See [`Hello::is_anonymous`].
    pub sid: Sid,
    /// Addresses at which the dialler can be dialled, with their form.
    pub addresses: HelloAddresses,
}

/// Form of a hello.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HelloAddresses {
    /// No addresses, as sent before 3.5.
    Legacy,
    /// Version 1, with one address, although receivers accept several.
    One(Vec<Endpoint>),
    /// Version 2, sent since 3.6 if `multiAddress.enabled` is true.
    Many(Vec<Endpoint>),
}

/// Reason why a hello cannot be decoded or encoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HelloFault {
    /// The version is neither 1 nor 2.
    #[error("election hello has the unknown version {version}")]
    Version {
        /// Received version.
        version: i64,
    },
    /// The length is not between 1 and [`Hello::ADDRESS_BYTES_MAX`].
    #[error("election hello declares an address list of {len} bytes, which is out of range")]
    Length {
        /// Received length, bytes.
        len: i32,
    },
    /// An address is not accepted by [`Endpoint::parse`].
    #[error("election hello contains the malformed address {address:?}")]
    Address {
        /// Address that is invalid.
        address: String,
    },
}

impl Hello {
    /// Maximum length of a list of addresses, bytes.
    pub const ADDRESS_BYTES_MAX: usize = 2048;
    /// Maximum length of a hello, bytes.
    pub const BYTES_MAX: usize = HEAD_BYTES + Self::ADDRESS_BYTES_MAX;

    /// Returns whether the dialler is an observer without its own id (which sends 2^63-1).
    pub fn is_anonymous(&self) -> bool {
        self.sid == Sid(i64::MAX)
    }

    /// Returns the addresses at which the dialler can be dialled. Wildcards are omitted, so the
    /// result may be empty.
    pub fn dial_back(&self) -> impl Iterator<Item = &Endpoint> {
        let all = match &self.addresses {
            HelloAddresses::Legacy => &[],
            HelloAddresses::One(all) | HelloAddresses::Many(all) => all.as_slice(),
        };
        all.iter().filter(|endpoint| !endpoint.is_wildcard())
    }

    /// Decodes a hello at the start of `bytes`. Returns the hello and its length, or `None` if more
    /// bytes are needed. A hello never needs more than [`Hello::BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// If the bytes are not a hello. The connection must then be closed.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, HelloFault> {
        let Some(version) = field(bytes, 0).map(i64::from_be_bytes) else {
            return Ok(None);
        };
        if version >= 0 {
            let hello = Self {
                sid: Sid(version),
                addresses: HelloAddresses::Legacy,
            };
            return Ok(Some((hello, SID_AT)));
        }
        let form = match version {
            VERSION_1 => HelloAddresses::One,
            VERSION_2 => HelloAddresses::Many,
            _ => return Err(HelloFault::Version { version }),
        };
        let (Some(sid), Some(len)) = (field(bytes, SID_AT), field(bytes, LENGTH_AT)) else {
            return Ok(None);
        };
        let len = i32::from_be_bytes(len);
        let Ok(wanted @ 1..=Self::ADDRESS_BYTES_MAX) = usize::try_from(len) else {
            return Err(HelloFault::Length { len });
        };
        let Some(text) = bytes.get(HEAD_BYTES..HEAD_BYTES + wanted) else {
            return Ok(None);
        };
        let hello = Self {
            sid: Sid(i64::from_be_bytes(sid)),
            addresses: form(endpoints(text)?),
        };
        Ok(Some((hello, HEAD_BYTES + wanted)))
    }

    /// Appends the hello.
    ///
    /// # Errors
    /// If the list of addresses is empty or too long. No receiver would accept it.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), HelloFault> {
        let (version, endpoints) = match &self.addresses {
            HelloAddresses::Legacy => {
                out.extend_from_slice(&self.sid.0.to_be_bytes());
                return Ok(());
            }
            HelloAddresses::One(endpoints) => (VERSION_1, endpoints),
            HelloAddresses::Many(endpoints) => (VERSION_2, endpoints),
        };
        let parts: Vec<String> = endpoints.iter().map(Endpoint::to_string).collect();
        let text = parts.join("|");
        let len = i32::try_from(text.len()).unwrap_or(i32::MAX);
        if text.is_empty() || text.len() > Self::ADDRESS_BYTES_MAX {
            return Err(HelloFault::Length { len });
        }
        out.extend_from_slice(&version.to_be_bytes());
        out.extend_from_slice(&self.sid.0.to_be_bytes());
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

fn endpoints(text: &[u8]) -> Result<Vec<Endpoint>, HelloFault> {
    let text = String::from_utf8_lossy(text);
    // Java drops empty parts at the end.
    text.trim_end_matches('|')
        .split('|')
        .map(|part| {
            Endpoint::parse(part).ok_or_else(|| HelloFault::Address {
                address: part.to_owned(),
            })
        })
        .collect()
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

const VERSION_1: i64 = -65_536;
const VERSION_2: i64 = -65_535;
const SID_AT: usize = 8;
const LENGTH_AT: usize = 16;
const HEAD_BYTES: usize = 20;

/// One step of SASL between servers. The steps precede all packets of a quorum connection, and
/// follow the hello on an election connection.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct QuorumAuthPacket {
    /// Magic number: [`QuorumAuthPacket::MAGIC`]. Any other value means that the peer does not use
    /// SASL.
    pub magic: i64,
    /// Status: 0 in progress, 1 success, -1 error.
    pub status: i32,
    /// Token of the SASL mechanism.
    pub token: Hidden<Option<Bytes>>,
}

impl QuorumAuthPacket {
    /// Value that distinguishes the packet from a hello and from all quorum packets.
    pub const MAGIC: i64 = 0x5f24_3501_3501_edcc;
}

#[cfg(test)]
mod tests {
    use jute::{Decode, Encode, Reader};

    use super::*;

    fn hello(version: i64, sid: i64, text: &[u8]) -> Vec<u8> {
        let len = i32::try_from(text.len()).unwrap();
        [
            &version.to_be_bytes()[..],
            &sid.to_be_bytes(),
            &len.to_be_bytes(),
            text,
        ]
        .concat()
    }

    fn endpoint(host: &str, port: u16) -> Endpoint {
        let host = host.to_owned();
        Endpoint { host, port }
    }

    #[test]
    fn both_versions_have_the_recorded_bytes() {
        for (version, text, form) in [
            (
                VERSION_1,
                &b"127.0.0.1:23301"[..],
                HelloAddresses::One(vec![endpoint("127.0.0.1", 23301)]),
            ),
            (
                VERSION_2,
                b"127.0.0.1:24203|127.0.0.2:24203",
                HelloAddresses::Many(vec![
                    endpoint("127.0.0.1", 24203),
                    endpoint("127.0.0.2", 24203),
                ]),
            ),
        ] {
            let bytes = hello(version, 3, text);
            let expected = Hello {
                sid: Sid(3),
                addresses: form,
            };
            for cut in 0..bytes.len() {
                assert_eq!(Hello::decode(&bytes[..cut]), Ok(None), "{cut}");
            }
            let with_more = [&bytes[..], b"more"].concat();
            assert_eq!(
                Hello::decode(&with_more),
                Ok(Some((expected.clone(), bytes.len())))
            );
            let mut out = Vec::new();
            expected.encode(&mut out).unwrap();
            assert_eq!(out, bytes);
        }
    }

    #[test]
    fn a_first_number_that_is_not_negative_is_the_sid() {
        let bytes = 7i64.to_be_bytes();
        let (read, len) = Hello::decode(&bytes).unwrap().unwrap();
        assert_eq!((read.sid, len), (Sid(7), 8));
        assert_eq!(read.dial_back().count(), 0);
        assert!(!read.is_anonymous());
        let mut out = Vec::new();
        read.encode(&mut out).unwrap();
        assert_eq!(out, bytes);
        let (read, _) = Hello::decode(&i64::MAX.to_be_bytes()).unwrap().unwrap();
        assert!(read.is_anonymous());
    }

    #[test]
    fn an_invalid_hello_is_refused_at_its_first_wrong_byte() {
        let head = |version: i64, len: i32| {
            [&version.to_be_bytes()[..], &[0; 8], &len.to_be_bytes()].concat()
        };
        for version in [-65_537, -65_534, -1, i64::MIN] {
            let fault = Hello::decode(&version.to_be_bytes()).unwrap_err();
            assert_eq!(fault, HelloFault::Version { version });
        }
        for len in [0, -1, 2049, i32::MAX] {
            let fault = Hello::decode(&head(VERSION_1, len)).unwrap_err();
            assert_eq!(fault, HelloFault::Length { len });
        }
        assert_eq!(Hello::decode(&head(VERSION_1, 2048)), Ok(None));
        for text in [
            "host",
            "host:",
            "host:x",
            "a:1|b",
            "|",
            "[::1]",
            "h:70000",
            "[[21]:38",
            "[[::1]]:1",
        ] {
            let fault = Hello::decode(&hello(VERSION_2, 1, text.as_bytes())).unwrap_err();
            assert!(matches!(fault, HelloFault::Address { .. }), "{text}");
        }
    }

    #[test]
    fn wildcard_addresses_are_not_dialled() {
        let bytes = hello(VERSION_2, 1, b"0.0.0.0:1|[::]:2|host.example:3|[::1]:4|");
        let (read, _) = Hello::decode(&bytes).unwrap().unwrap();
        let places: Vec<String> = read.dial_back().map(Endpoint::to_string).collect();
        assert_eq!(places, ["host.example:3", "[::1]:4"]);
    }

    #[test]
    fn an_invalid_hello_is_not_encoded() {
        let nowhere = Hello {
            sid: Sid(1),
            addresses: HelloAddresses::One(vec![]),
        };
        let too_long = Hello {
            sid: Sid(1),
            addresses: HelloAddresses::One(vec![endpoint(&"h".repeat(2048), 1)]),
        };
        for hello in [nowhere, too_long] {
            let mut out = Vec::new();
            assert!(matches!(
                hello.encode(&mut out),
                Err(HelloFault::Length { .. })
            ));
            assert!(out.is_empty());
        }
    }

    #[test]
    fn a_sasl_packet_starts_with_its_magic() {
        let packet = QuorumAuthPacket {
            magic: QuorumAuthPacket::MAGIC,
            status: 0,
            token: Some(Bytes::new()).into(),
        };
        let bytes = packet.to_bytes();
        assert_eq!(bytes[..8], [0x5f, 0x24, 0x35, 0x01, 0x35, 0x01, 0xed, 0xcc]);
        assert_eq!(bytes.len(), 16);
        assert_eq!(
            QuorumAuthPacket::decode(&mut Reader::new(bytes)),
            Ok(packet)
        );
    }
}
