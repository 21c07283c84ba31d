//! What is found beyond the configuration, by names that scripts may rely on; those of the configuration are in
//! [`config::finding`]. docs/OPERATIONS.md lists all of them.

/// Declares names with what they stand for, and the list of them.
macro_rules! findings {
    ($(#[doc = $doc:literal] $name:ident = $id:literal;)+) => {
        $(#[doc = $doc] pub const $name: &str = $id;)+

        /// All names, each with what it stands for.
        pub const ALL: &[(&str, &str)] = &[$(($id, $doc)),+];
    };
}

findings! {
    /// A line of `java.env` or `zookeeper-env.sh` is a command, which is not run here.
    ENV_LINE = "env-line";
    /// `java.env` or `zookeeper-env.sh` holds flags, which only `zkServer.sh` takes over.
    ENV_FILE = "env-file";
    /// Directory of zoo.cfg: reconfigurations rewrite files there, and nothing can be written.
    CONFIG_DIRECTORY = "config-directory";
    /// What is in the data directories.
    SUMMARY = "data-summary";
    /// There is no data: a new database would begin.
    NEW = "data-new";
    /// A data directory with files of another program.
    FOREIGN = "data-foreign";
    /// Files in a data directory that are not ZooKeeper's.
    STRAY = "data-stray";
    /// Somebody may not read or write what he has to.
    PERMISSIONS = "data-permissions";
    /// Files of different owners, or of another one than who asks.
    OWNER = "data-owner";
    /// Everybody may write there.
    OPEN = "data-open";
    /// A log in the directory of the snapshots, or the other way round.
    MISPLACED = "data-misplaced";
    /// A file cannot be read.
    UNREADABLE = "data-unreadable";
    /// The files were set aside as damaged at an earlier start.
    UNTRUSTED = "data-untrusted";
    /// A server that is not the one of this zoo.cfg has the data directory open.
    IN_USE = "data-in-use";
    /// The audit log cannot be written.
    AUDIT_LOG = "audit-log";
    /// A log is damaged as no crash explains it.
    LOG_DAMAGED = "log-damaged";
    /// A file by the name of a log is none.
    LOG_FOREIGN = "log-foreign";
    /// Transactions are missing in the logs.
    LOG_GAP = "log-gap";
    /// The newest log ends as a crash leaves it, or is being written.
    LOG_TORN = "log-torn";
    /// A snapshot is damaged.
    SNAPSHOT_DAMAGED = "snapshot-damaged";
    /// A snapshot is damaged, and the logs do not make up for it.
    SNAPSHOT_LOST = "snapshot-lost";
    /// There are logs and no snapshot.
    SNAPSHOT_MISSING = "snapshot-missing";
    /// `currentEpoch` or `acceptedEpoch` holds no number, or contradicts the data.
    EPOCH_FILES = "epoch-files";
    /// There are TTL znodes, and `extendedTypesEnabled` is off.
    TTL = "ttl-unrecognised";
    /// The tree is not the one whose digest was recorded.
    DIGEST = "digest-differs";
    /// Ephemerals of sessions that are gone: they are deleted at the start.
    ORPHANS = "sessions-gone";
    /// Little or no space is left on the disk.
    SPACE = "space-low";
    /// The server of this zoo.cfg runs now.
    RUNNING = "server-running";
    /// Another program listens at a port.
    PORT_TAKEN = "port-taken";
    /// Two settings ask for the same port.
    PORT_TWICE = "port-twice";
    /// A port below those that everybody may use.
    PORT_PRIVILEGED = "port-privileged";
    /// An address that this machine does not have.
    PORT_ADDRESS = "port-address";
    /// This server's own address in the member list is not one of this machine.
    MEMBER_ADDRESS = "member-address";
    /// Others reach this machine by a loopback address only.
    MEMBER_LOOPBACK = "member-loopback";
    /// Two members with one address.
    MEMBER_TWICE = "member-twice";
    /// The clock is behind the data, or cannot be right.
    CLOCK = "clock";
    /// Fewer open files are allowed than clients.
    FILES = "limit-files";
    /// There may be too little memory for the data.
    MEMORY = "limit-memory";
    /// A key or trust store cannot be used.
    TLS_STORES = "tls-stores";
    /// An own certificate has ended, or ends within a month.
    TLS_CERTIFICATE = "tls-certificate";
    /// The ACL of `/` permits everybody everything.
    ROOT_OPEN = "root-open";
    /// The admin port listens on every address without TLS.
    ADMIN_EVERYWHERE = "admin-everywhere";
    /// There is no credential of an administrator.
    ADMIN_NO_CREDENTIAL = "admin-no-credential";
    /// The credential of administrators cannot be used, for example since others may read it.
    TOKEN_READABLE = "token-readable";
    /// `clientPort` takes plain connections from other machines.
    PLAIN_CLIENTS = "plain-clients";
    /// Members take plain connections from each other, and need not log in.
    PLAIN_MEMBERS = "plain-members";
    /// Every certificate that the trust store of the members trusts may join.
    ANY_CERTIFICATE = "any-certificate";
    /// Members have no common secret for session passwords.
    SESSION_SECRETS = "session-secrets";
    /// Logins may fail as often as a peer likes.
    GUESSING = "guessing";
    /// There is no audit log.
    NO_AUDIT = "no-audit";
    /// Commands that change nothing are answered under any name in `Host`.
    ANY_HOST = "any-host";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_name_stands_for_one_kind_of_finding() {
        let all = ALL.iter().chain(config::finding::ALL);
        let names: BTreeSet<_> = all.clone().map(|(id, _)| id).collect();
        assert_eq!(names.len(), all.count());
    }
}
