//! Settings of an ensemble.

use super::effect::{Effect, KERBEROS, ValueSet};
use super::key::ValueKind::{Choice, Flag, Int, List, Long, Path, Text, Word};
use super::key::{Key, OutOfRange};
use super::keys;

const CLOSES_WITHOUT_WAITING: &str = "closing a connection never blocks this server";
const ALL_DIALLED: &str =
    "this server dials all addresses of a member and uses the first address that answers";
const OBSERVERS_WRITE: &str = "observers of Zoarium always write logs and snapshots, and keep their data when they restart or become voters";
const NO_THREADS: &str = "this server does not use thread pools for connections";

keys! {
    SERVER = Key::member("server.*", "A member: `host:quorumPort:electionPort[:role][;[clientHost:]clientPort]`.");
    GROUP = Key::member("group*", "Servers of a group of a hierarchical quorum, separated by colons.").should();
    WEIGHT = Key::member("weight*", "Weight of a server's vote in its group; the default is 1.").should();
    DYNAMIC_CONFIG_FILE = Key::file("dynamicConfigFile", Path, "File that contains the member list instead of zoo.cfg.");
    PEER_TYPE = Key::file("peerType", Choice(&["participant", "observer"]), "Role of this server; the role in the member list overrides it.").default("participant");
    INIT_LIMIT = Key::file("initLimit", Int, "Time in which a learner must connect to the leader and synchronise.").unit("ticks");
    SYNC_LIMIT = Key::file("syncLimit", Int, "Time that a follower may lag before the leader disconnects it.").unit("ticks");
    CONNECT_TO_LEARNER_MASTER_LIMIT = Key::file("connectToLearnerMasterLimit", Int, "Time in which a learner must connect to the leader or an observer master; 0 means `initLimit`.").default("0").unit("ticks").should();
    ELECTION_ALG = Key::file("electionAlg", Int, "Election algorithm; only 3 is valid.").default("3");
    QUORUM_LISTEN_ON_ALL_IPS = Key::file("quorumListenOnAllIPs", Flag, "Whether the quorum and election ports listen on every address.").default("false");
    LEADER_SERVES = Key::prefixed("leaderServes", Word { special: "no", other: "yes" }, "With `no`, the leader does not serve clients.").default("yes");
    CNX_TIMEOUT = Key::prefixed("cnxTimeout", Int, "Maximum time to open an election connection.").default("5000").unit("ms").at_least(1, OutOfRange::Refused).strict().should();
    QUORUM_CNXN_TIMEOUT = Key::prefixed("quorumCnxnTimeoutMs", Int, "Time for which an election connection may be silent; -1 means `syncLimit`.").default("-1").unit("ms").should();
    TCP_KEEP_ALIVE = Key::prefixed("tcpKeepAlive", Flag, "Whether election connections use TCP keep-alive.").default("false").should();
    ELECTION_PORT_BIND_RETRY = Key::prefixed("electionPortBindRetry", Int, "Maximum number of attempts to bind the election port, one per second; 0 disables the limit.").default("3").unit("attempts").at_least(0, OutOfRange::Default);
    MIN_NOTIFICATION_INTERVAL = Key::prefixed("fastleader.minNotificationInterval", Int, "First pause before a vote is sent again; the pause doubles each time.").default("200").unit("ms").at_least(1, OutOfRange::Default).should();
    MAX_NOTIFICATION_INTERVAL = Key::prefixed("fastleader.maxNotificationInterval", Int, "Longest pause before a vote is sent again.").default("60000").unit("ms").at_least(1, OutOfRange::Default).should();
    MAX_TIME_TO_WAIT_FOR_EPOCH = Key::prefixed("leader.maxTimeToWaitForEpoch", Int, "Time in which a new leader must find its followers; -1 means `initLimit`.").default("-1").unit("ms").should();
    MAX_CONCURRENT_SNAP_SYNCS = Key::prefixed("leader.maxConcurrentSnapSyncs", Int, "Maximum number of learners to which a leader sends snapshots at the same time.").default("10").unit("learners").at_least(1, OutOfRange::Default).should();
    MAX_CONCURRENT_DIFF_SYNCS = Key::prefixed("leader.maxConcurrentDiffSyncs", Int, "Maximum number of learners to which a leader sends missing transactions at the same time.").default("100").unit("learners").at_least(1, OutOfRange::Default).should();
    LEADER_CLOSE_SOCKET_ASYNC = Key::prefixed("leader.closeSocketAsync", Flag, "Whether Java's leader closes sockets on another thread.").also(&["leader.closeSocketAsync"]).default("false").should().no_effect(ValueSet::Any, CLOSES_WITHOUT_WAITING);
    LEARNER_CLOSE_SOCKET_ASYNC = Key::prefixed("learner.closeSocketAsync", Flag, "Whether Java's learner closes sockets on another thread.").also(&["learner.closeSocketAsync"]).default("false").should().no_effect(ValueSet::Any, CLOSES_WITHOUT_WAITING);
    LEARNER_ASYNC_SENDING = Key::prefixed("learner.asyncSending", Flag, "Whether Java's learner sends on another thread.").also(&["learner.asyncSending"]).default("false").should().no_effect(ValueSet::Any, "a learner of Zoarium never waits for its leader's socket");
    ACK_LOGGING_FREQUENCY = Key::prefixed("leader.ackLoggingFrequency", Int, "The leader measures `ack_latency` for one in this number of transactions; 0 disables the measurement.").default("1000").unit("transactions").should();
    LEADER_CONNECT_DELAY = Key::prefixed("leaderConnectDelayDuringRetryMs", Int, "Pause between a learner's attempts to connect.").default("100").unit("ms").at_least(0, OutOfRange::Default).should();
    LEADER_NODELAY = Key::property("leader.nodelay", Flag, "Whether the leader's sockets use TCP_NODELAY.").default("true").internal("packets between members are always sent without delay");
    FOLLOWER_NODELAY = Key::property("follower.nodelay", Flag, "Whether a learner's sockets use TCP_NODELAY.").default("true").internal("packets between members are always sent without delay");
    FORCE_SNAPSHOT_SYNC = Key::prefixed("forceSnapshotSync", Flag, "Whether the leader sends every learner a snapshot, even if the missing transactions would be sufficient.").default("false").should();
    OBSERVER_MASTER_PORT = Key::file("observerMasterPort", Int, "Port on which followers serve observers; 0 disables the port.").default("0").between(i32::MIN as i64, 65535, OutOfRange::Refused).should();
    OBSERVER_MASTER_SIZE_LIMIT = Key::prefixed("observerMaster.sizeLimit", Int, "Bytes of proposals that a follower keeps for its observers.").internal("a follower keeps the newest `commitLogCount` transactions for its observers instead");
    OBSERVER_RECONNECT_DELAY = Key::prefixed("observer.reconnectDelayMs", Long, "Pause before an observer connects again.").default("0").unit("ms").at_least(0, OutOfRange::Default).should();
    OBSERVER_ELECTION_DELAY = Key::prefixed("observer.election.DelayMs", Long, "Pause before an observer searches for a leader again.").default("200").unit("ms").at_least(0, OutOfRange::Default).should();
    SYNC_ENABLED = Key::file_under_property("syncEnabled", "zookeeper.observer.syncEnabled", Flag, "Whether Java's observers write logs and snapshots.").default("true").should().no_effect(ValueSet::False, OBSERVERS_WRITE);
    OBSERVER_SYNC_ENABLED = Key::prefixed("observer.syncEnabled", Flag, "Same meaning as `syncEnabled`; this setting overrides `syncEnabled`.").derived("`syncEnabled`").should().no_effect(ValueSet::False, OBSERVERS_WRITE);
    MULTI_ADDRESS_ENABLED = Key::file_or_property("multiAddress.enabled", "zookeeper.multiAddress.enabled", Flag, "Whether members may have several addresses.").default("false").should();
    MULTI_ADDRESS_REACHABILITY_CHECK = Key::file_or_property("multiAddress.reachabilityCheckEnabled", "zookeeper.multiAddress.reachabilityCheckEnabled", Flag, "Whether Java checks that an address of a member is reachable before it uses the address.").default("true").should().no_effect(ValueSet::Any, ALL_DIALLED);
    MULTI_ADDRESS_REACHABILITY_TIMEOUT = Key::file_or_property("multiAddress.reachabilityCheckTimeoutMs", "zookeeper.multiAddress.reachabilityCheckTimeoutMs", Int, "Time limit for Java's check of an address.").default("1000").unit("ms").at_least(1, OutOfRange::Refused).strict().should().no_effect(ValueSet::Any, ALL_DIALLED);
    MEMBERSHIP_GUARD = Key::file_or_property("zoarium.membershipGuard", "zoarium.membershipGuard", Flag, "Whether a server, before it elects a leader, searches for a running leader with another member list. Zoarium only.").default("true").strict().should();
    ORACLE_PATH = Key::file("oraclePath", Path, "File of the oracle for an ensemble of two. A tool of the operator writes `0` or `1` into this file.").should();
    QUORUM_CNXN_THREADS = Key::file("quorum.cnxn.threads.size", Int, "Number of Java's threads for election connections.").default("20").unit("threads").internal(NO_THREADS);
    SKIP_LEARNER_REQUEST = Key::prefixed("follower.skipLearnerRequestToNextProcessor", Flag, "Whether Java's follower omits forwarded requests from its queue.").default("false").internal("Zoarium does not have this queue");
    FORWARD_LEARNER_REQUESTS = Key::prefixed("forward_learner_requests_to_commit_processor_disabled", Flag, "Whether Java's leader omits forwarded requests from its commit queue.").default("false").internal("Zoarium does not have this queue");

    SSL_QUORUM = Key::file("sslQuorum", Flag, "Whether TLS is enabled between members.").default("false");
    PORT_UNIFICATION = Key::file("portUnification", Flag, "Whether the quorum ports accept both plain and TLS connections, for a rolling upgrade.").default("false");
    SSL_QUORUM_MEMBERS = Key::prefixed("ssl.quorum.members", List, "Patterns for certificates of members that the member list does not name, such as new members and unlisted observers. A pattern matches a name or an address of the certificate, or its common name; `*` matches any characters. Zoarium only.").should();
    SSL_QUORUM_MEMBER_CHECK = Key::file_or_property("zoarium.ssl.quorum.memberCheck", "zoarium.ssl.quorum.memberCheck", Choice(&["warn", "refuse", "off"]), "Reaction to a certificate that does not belong to a member, on the quorum, election or observer master port. A member's certificate names a host of the member list, is this server's own certificate, or matches `ssl.quorum.members`. `warn` accepts other certificates and writes a line to the log. Zoarium only.").default("warn").strict().should();
    SSL_QUORUM_RELOAD = Key::file("sslQuorumReloadCertFiles", Flag, "Whether changed key and trust stores of the quorum are loaded while the server runs.").default("false").should();
    QUORUM_SASL_ENABLE = Key::file("quorum.auth.enableSasl", Flag, "Whether SASL is enabled between members.").default("false");
    QUORUM_SASL_LEARNER = Key::file("quorum.auth.learnerRequireSasl", Flag, "Whether this server, as a learner, logs in to other members with SASL.").default("false");
    QUORUM_SASL_SERVER = Key::file("quorum.auth.serverRequireSasl", Flag, "Whether this server requires that other members log in with SASL.").default("false");
    QUORUM_SASL_LEARNER_CONTEXT = Key::file("quorum.auth.learner.saslLoginContext", Text, "Section of the JAAS file for connections to other members.").default("QuorumLearner");
    QUORUM_SASL_SERVER_CONTEXT = Key::file("quorum.auth.server.saslLoginContext", Text, "Section of the JAAS file for connections from other members.").default("QuorumServer");
    QUORUM_SASL_PRINCIPAL = Key::file("quorum.auth.kerberos.servicePrincipal", Text, "Kerberos name of the members; `_HOST` is replaced by the member's host.").default("zkquorum/localhost").should().partly(&[Effect::Refused(ValueSet::Any, &KERBEROS)]);
}
