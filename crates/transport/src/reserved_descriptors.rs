//! File descriptors that connections leave free for the rest of the server.
//!
//! Each connection uses a file descriptor, and the system limits the number of descriptors per
//! process. Without a free descriptor, a server could not create a log or a snapshot. It would have
//! to stop, because a log that cannot be written is treated as a failed disk. Therefore connections
//! are refused shortly before the limit is reached.

use std::os::fd::AsRawFd;

use rustix::process::{Resource, getrlimit};

/// File descriptors that connections leave free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReservedDescriptors {
    /// Clients' connections leave the descriptors of [`Self::ByMembers`] free, and some more for
    /// members.
    ByClients,
    /// Members' connections leave some descriptors free for logs, snapshots and outgoing
    /// connections of this server.
    ByMembers,
}

/// Numbers of reserved file descriptors. If the limit is low, fewer are reserved.
const KEPT_BY_CLIENTS: u64 = 64;
const KEPT_BY_MEMBERS: u64 = 32;

impl ReservedDescriptors {
    /// Returns whether this connection uses one of the reserved file descriptors.
    ///
    /// The system assigns the lowest free number to each new descriptor. A high number therefore
    /// means that nearly all lower ones are in use.
    pub(crate) fn has(self, stream: &impl AsRawFd, limit: Option<u64>) -> bool {
        let number = u64::try_from(stream.as_raw_fd()).unwrap_or(0);
        limit.is_some_and(|limit| number >= self.first(limit))
    }

    /// Returns the number of the first reserved file descriptor.
    fn first(self, limit: u64) -> u64 {
        let (kept, share) = match self {
            Self::ByClients => (KEPT_BY_CLIENTS, 4),
            Self::ByMembers => (KEPT_BY_MEMBERS, 8),
        };
        limit - kept.min(limit / share)
    }
}

/// Returns the maximum number of file descriptors of this process; `None` without a limit.
pub(crate) fn limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file descriptor with this number.
    struct NumberedDescriptor(i32);

    impl AsRawFd for NumberedDescriptor {
        fn as_raw_fd(&self) -> i32 {
            self.0
        }
    }

    #[test]
    fn members_may_use_the_reserved_descriptors() {
        let (clients, members) = (
            ReservedDescriptors::ByClients,
            ReservedDescriptors::ByMembers,
        );
        let has =
            |kept: ReservedDescriptors, number, limit| kept.has(&NumberedDescriptor(number), limit);
        assert!(!has(clients, 1024 - 65, Some(1024)) && has(clients, 1024 - 64, Some(1024)));
        assert!(!has(members, 1024 - 33, Some(1024)) && has(members, 1024 - 32, Some(1024)));
        assert!(!has(clients, 59, Some(80)) && has(clients, 60, Some(80)));
        assert!(!has(members, 69, Some(80)) && has(members, 70, Some(80)));
        assert!(!has(clients, i32::MAX, None));
    }
}
