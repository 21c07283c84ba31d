//! Who a client is, as far as its connection has shown.

use std::sync::Arc;

use proto::Id;

/// The identities of a connection; replaced as a whole when a client authenticates.
pub type Identities = Arc<[Id]>;

/// Identities of a connection: clients prove a handful. Each is compared with each ACL entry.
pub const IDENTITIES_MAX: usize = 128;

/// Bytes of a connection's identities. They go with each of its requests to the leader: together
/// they stay far below what may wait for a member, and each string far below what a Java leader reads.
pub const IDENTITY_BYTES_MAX: usize = 16 << 10;

/// A connection may not have so many identities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many identities for one connection")]
pub struct TooManyIdentities;

/// These identities and those of `added` that are not among them.
pub(super) fn joined(held: &[Id], added: Vec<Id>) -> Result<Identities, TooManyIdentities> {
    let mut identities = held.to_vec();
    for id in added {
        if !identities.contains(&id) {
            identities.push(id);
        }
    }
    let bytes = identities.iter().map(|id| id.scheme.len() + id.id.len());
    match identities.len() <= IDENTITIES_MAX && bytes.sum::<usize>() <= IDENTITY_BYTES_MAX {
        true => Ok(identities.into()),
        false => Err(TooManyIdentities),
    }
}
