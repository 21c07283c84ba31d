//! Open files that connections leave to the rest of the server.
//!
//! Each connection is an open file, and the system allows a process so many. Without one left a server
//! could begin no log and no snapshot, and would have to end: a log that cannot be written is a failed
//! disk. So connections are turned away a little before that.

use std::os::fd::AsRawFd;

use rustix::process::{Resource, getrlimit};

/// How many files connections leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilesKept {
    /// Clients leave some to members, too.
    ByClients,
    /// Members leave some to logs, snapshots, and connections that this server makes itself.
    ByMembers,
}

/// Files that are left at least.
const KEPT_BY_CLIENTS: u64 = 64;
const KEPT_BY_MEMBERS: u64 = 32;

impl FilesKept {
    /// Whether this connection has one of the files that are to be left.
    ///
    /// The system gives each new file the lowest number that is free, so a high number says that
    /// nearly all below are taken.
    pub(crate) fn has(self, stream: &impl AsRawFd, limit: Option<u64>) -> bool {
        let number = u64::try_from(stream.as_raw_fd()).unwrap_or(0);
        limit.is_some_and(|limit| number >= self.first(limit))
    }

    /// The first of them. Where few are allowed, few are left.
    fn first(self, limit: u64) -> u64 {
        let (kept, share) = match self {
            Self::ByClients => (KEPT_BY_CLIENTS, 4),
            Self::ByMembers => (KEPT_BY_MEMBERS, 8),
        };
        limit - kept.min(limit / share)
    }
}

/// How many files this process may have open; `None` without a limit.
pub(crate) fn limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of this number.
    struct Numbered(i32);

    impl AsRawFd for Numbered {
        fn as_raw_fd(&self) -> i32 {
            self.0
        }
    }

    #[test]
    fn members_may_take_what_clients_leave_and_nobody_takes_all() {
        let (clients, members) = (FilesKept::ByClients, FilesKept::ByMembers);
        let has = |kept: FilesKept, number, limit| kept.has(&Numbered(number), limit);
        assert!(!has(clients, 1024 - 65, Some(1024)) && has(clients, 1024 - 64, Some(1024)));
        assert!(!has(members, 1024 - 33, Some(1024)) && has(members, 1024 - 32, Some(1024)));
        assert!(!has(clients, 59, Some(80)) && has(clients, 60, Some(80)));
        assert!(!has(members, 69, Some(80)) && has(members, 70, Some(80)));
        assert!(!has(clients, i32::MAX, None));
    }
}
