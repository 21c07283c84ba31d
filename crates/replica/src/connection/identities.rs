//! Authenticated identities of a client's connection.

use std::sync::Arc;

use proto::Id;

/// Identities of a connection. Replaced as a whole when a client authenticates.
pub type Identities = Arc<[Id]>;

/// Maximum number of identities per connection. A client usually has a few. Each identity is
/// compared with each entry of an ACL.
pub const IDENTITIES_MAX: usize = 128;

/// Maximum total size of a connection's identities, bytes. Every request that is forwarded to the
/// leader contains them. The bound is far below the total size of a learner's requests that may
/// wait at its leader, and below the limit of a Java leader on a string.
pub const IDENTITY_BYTES_MAX: usize = 16 << 10;

/// The identities exceed a limit of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many identities for one connection")]
pub struct TooManyIdentities;

/// Returns `held` plus the identities in `added` that it does not contain.
pub(super) fn merge_identities(
    held: &[Id],
    added: Vec<Id>,
) -> Result<Identities, TooManyIdentities> {
    let mut identities = held.to_vec();
    for id in added {
        if !identities.contains(&id) {
            identities.push(id);
        }
    }
    let bytes = identities.iter().map(|id| id.scheme.len() + id.id.len());
    if identities.len() <= IDENTITIES_MAX && bytes.sum::<usize>() <= IDENTITY_BYTES_MAX {
        Ok(identities.into())
    } else {
        Err(TooManyIdentities)
    }
}
