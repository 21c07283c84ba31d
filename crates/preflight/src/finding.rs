//! Findings outside the configuration, with names on which scripts may rely. The findings of the
//! configuration are in [`config::finding`]. docs/TROUBLESHOOTING.md lists all of them.

/// Declares names with their descriptions, and the list of all names.
macro_rules! findings {
    ($(#[doc = $doc:literal] $name:ident = $id:literal;)+) => {
        $(#[doc = $doc] pub const $name: &str = $id;)+

        /// All names with their descriptions.
        pub const ALL: &[(&str, &str)] = &[$(($id, $doc)),+];
    };
}

findings! {
    /// A line of `java.env` or `zookeeper-env.sh` is a command, which preflight does not run.
    ENV_LINE = "env-line";
    /// `java.env` or `zookeeper-env.sh` contains flags, which only `zkServer.sh` uses.
    ENV_FILE = "env-file";
    /// The directory of zoo.cfg is not writable, so a reconfiguration cannot update its files.
    CONFIG_DIRECTORY = "config-directory";
    /// Content of the data directories.
    SUMMARY = "data-summary";
    /// The data directory is empty: the server would create a new database.
    NEW = "data-new";
    /// A data directory contains files of another program.
    FOREIGN = "data-foreign";
    /// A data directory contains files that do not belong to ZooKeeper.
    STRAY = "data-stray";
    /// The user lacks a permission that the server needs.
    PERMISSIONS = "data-permissions";
    /// Files have different owners, or belong to a user other than the current user.
    OWNER = "data-owner";
    /// Every user can write to a data directory.
    OPEN = "data-open";
    /// A log is in the directory of snapshots, or a snapshot is in the directory of logs.
    MISPLACED = "data-misplaced";
    /// A file is unreadable.
    UNREADABLE = "data-unreadable";
    /// The files were set aside as damaged at an earlier start.
    UNTRUSTED = "data-untrusted";
    /// A process other than the server of this zoo.cfg has opened the data directory.
    IN_USE = "data-in-use";
    /// The audit log is not writable.
    AUDIT_LOG = "audit-log";
    /// A log has damage that a crash cannot explain.
    LOG_DAMAGED = "log-damaged";
    /// A file has the name of a log, but is not a log.
    LOG_FOREIGN = "log-foreign";
    /// Transactions are missing in the logs.
    LOG_GAP = "log-gap";
    /// The newest log ends like a log after a crash, or a server is writing it.
    LOG_TORN = "log-torn";
    /// A snapshot is damaged.
    SNAPSHOT_DAMAGED = "snapshot-damaged";
    /// A snapshot is damaged, and the logs do not replace it.
    SNAPSHOT_LOST = "snapshot-lost";
    /// There are logs, but no snapshot.
    SNAPSHOT_MISSING = "snapshot-missing";
    /// `currentEpoch` or `acceptedEpoch` does not contain a number, or contradicts the data.
    EPOCH_FILES = "epoch-files";
    /// The data contains TTL znodes, and `extendedTypesEnabled` is off.
    TTL = "ttl-unrecognised";
    /// The tree does not match its recorded digest.
    DIGEST = "digest-differs";
    /// Ephemerals belong to sessions that no longer exist. The server deletes them at its start.
    ORPHANS = "sessions-gone";
    /// The disk is full, or nearly full.
    SPACE = "space-low";
    /// The server of this zoo.cfg is running.
    RUNNING = "server-running";
    /// Another program listens on a port.
    PORT_TAKEN = "port-taken";
    /// Two settings use the same port.
    PORT_TWICE = "port-twice";
    /// A port is below the range that every user may use.
    PORT_PRIVILEGED = "port-privileged";
    /// This machine does not have the configured address.
    PORT_ADDRESS = "port-address";
    /// The address of this server in the member list does not belong to this machine.
    MEMBER_ADDRESS = "member-address";
    /// The server would listen on a loopback address, which other members cannot reach.
    MEMBER_LOOPBACK = "member-loopback";
    /// Two members have the same address.
    MEMBER_TWICE = "member-twice";
    /// The clock shows a time before the newest transaction, or a time that is obviously wrong.
    CLOCK = "clock";
    /// The limit of open files is lower than the number that the server may need.
    FILES = "limit-files";
    /// The memory may be too small for the data.
    MEMORY = "limit-memory";
    /// A key store or trust store is unusable.
    TLS_STORES = "tls-stores";
    /// A certificate of this server has expired, or expires within a month.
    TLS_CERTIFICATE = "tls-certificate";
    /// The ACL of `/` permits everything to everybody.
    ROOT_OPEN = "root-open";
    /// The admin port listens on every address without TLS.
    ADMIN_EVERYWHERE = "admin-everywhere";
    /// Administrators do not have a credential.
    ADMIN_NO_CREDENTIAL = "admin-no-credential";
    /// The credential of administrators is unusable, for example because other users can read it.
    TOKEN_READABLE = "token-readable";
    /// `clientPort` accepts plain connections from other machines.
    PLAIN_CLIENTS = "plain-clients";
    /// Members accept plain connections from each other without a login.
    PLAIN_MEMBERS = "plain-members";
    /// Every peer with a certificate that the members' trust store trusts may join.
    ANY_CERTIFICATE = "any-certificate";
    /// Members lack a common secret for session passwords.
    SESSION_SECRETS = "session-secrets";
    /// The number of failed logins is not limited.
    GUESSING = "guessing";
    /// The audit log is off.
    NO_AUDIT = "no-audit";
    /// Admin commands that only read data accept any host name in the header `Host`.
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
