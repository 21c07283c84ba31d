//! Table of targets.

mod client;
mod config;
mod files;
mod peer;
mod sasl;
mod tls;
mod tree;

use std::fmt::Debug;

use jute::{Decode, Encode, Reader};

use crate::Target;

/// All targets.
pub const TARGETS: &[Target] = &[
    client::HANDSHAKE,
    client::REQUEST,
    client::MULTI,
    client::REPLY,
    peer::TRANSACTION,
    peer::QUORUM_PACKET,
    peer::HELLO,
    peer::NOTIFICATION,
    files::LOG,
    files::SNAPSHOT,
    files::SNAPSHOT_GZIP,
    files::SNAPSHOT_SNAPPY,
    files::SNAPSHOT_BODY,
    files::RECOVERY,
    config::ZOO_CFG,
    config::MEMBERSHIP,
    config::FLAGS,
    tls::JKS,
    tls::PKCS12,
    tls::PEM,
    tls::REVOCATIONS,
    tls::SUBJECT,
    tls::VERSION1,
    config::JAAS,
    sasl::TOKENS,
    tree::REQUESTS,
    tree::TRANSACTIONS,
];

/// Checks that a decoded value can be encoded and decoded to an equal value. Characters above
/// U+FFFF are excluded, because they are written as in Java and are not read back unchanged.
fn assert_reads_back<T: Decode + Encode + PartialEq + Debug>(value: &T) {
    let bytes = value.to_bytes();
    if !holds_surrogates(&bytes) {
        let read = T::decode(&mut Reader::new(bytes));
        assert_eq!(read.as_ref(), Ok(value));
    }
}

/// Returns whether text in these bytes contains an encoded surrogate of a character above U+FFFF.
fn holds_surrogates(bytes: &[u8]) -> bool {
    bytes
        .windows(2)
        .any(|pair| matches!(pair, [0xed, 0xa0..=0xbf]))
}
