//! Settings of the server itself: directories, ports, time, sessions, features.

use super::effect::ValueSet;
use super::key::ValueKind::{Class, Flag, Host, Int, Path, Port, Secret, Word};
use super::key::{Key, OutOfRange};
use super::keys;

keys! {
    DATA_DIR = Key::file("dataDir", Path, "Directory with `myid`, and with the snapshots in its subdirectory `version-2`.");
    DATA_LOG_DIR = Key::file("dataLogDir", Path, "Directory whose subdirectory `version-2` contains the transaction logs. A separate disk is best.").derived("`dataDir`");
    TICK_TIME = Key::file("tickTime", Int, "Unit of time for session timeouts, `initLimit` and `syncLimit`.").default("3000").unit("ms");
    CLIENT_PORT = Key::file("clientPort", Port, "Port for clients without TLS.");
    CLIENT_PORT_ADDRESS = Key::file("clientPortAddress", Host, "Address that `clientPort` is bound to.").derived("all addresses");
    SECURE_CLIENT_PORT = Key::file("secureClientPort", Port, "Port for clients with TLS.");
    SECURE_CLIENT_PORT_ADDRESS = Key::file("secureClientPortAddress", Host, "Address that `secureClientPort` is bound to.").derived("all addresses");
    CLIENT_PORT_LISTEN_BACKLOG = Key::file("clientPortListenBacklog", Int, "Number of connections that may wait to be accepted; -1 lets the server choose the number.").default("-1").unit("connections").between(-1, i32::MAX as i64, OutOfRange::Refused).should();
    MAX_CLIENT_CNXNS = Key::file("maxClientCnxns", Int, "Maximum number of connections from one address; 0 disables the limit. Further connections are closed.").default("60").unit("connections");
    MAX_CNXNS = Key::prefixed("maxCnxns", Int, "Maximum number of connections from all clients; 0 disables the limit.").default("0").unit("connections").at_least(0, OutOfRange::Default);
    SERVER_CNXN_FACTORY = Key::prefixed("serverCnxnFactory", Class, "Java's choice between its NIO and Netty networking.").no_effect(ValueSet::Any, "Zoarium has only one network layer");
    CLIENT_TCP_KEEP_ALIVE = Key::prefixed("clientTcpKeepAlive", Flag, "Whether client connections use TCP keep-alive.").default("false").should();
    GLOBAL_OUTSTANDING_LIMIT = Key::prefixed("globalOutstandingLimit", Int, "Number of requests in progress above which the server stops reading from clients that have a request in progress.").default("1000").unit("requests");
    CORE_DUMPS = Key::file_or_property("zoarium.coreDumps", "zoarium.coreDumps", Flag, "Whether a crash may write a core dump, which contains data and secrets. With `true`, the core limit of the process (`ulimit -c`) applies. Zoarium only.").default("false").strict().should();
    SLOW_REQUEST_THRESHOLD = Key::file_or_property("zoarium.slowRequestThresholdMs", "zoarium.slowRequestThresholdMs", Int, "Response time from which a request counts as slow. The log and the admin command `slow_requests` list slow requests; with 0, no request counts as slow. Zoarium only.").default("0").unit("ms").at_least(0, OutOfRange::Refused).strict().should();
    JUTE_MAXBUFFER = Key::property("jute.maxbuffer", Int, "Maximum size of a client's packet; a larger packet ends the connection.").default("1048575").unit("bytes").at_least(1, OutOfRange::Default);
    JUTE_MAXBUFFER_EXTRASIZE = Key::prefixed("jute.maxbuffer.extrasize", Int, "Bytes that a stored transaction may have in addition to `jute.maxbuffer`.").derived("`jute.maxbuffer`").unit("bytes").at_least(1024, OutOfRange::Nearest).should();
    STANDALONE_ENABLED = Key::file("standaloneEnabled", Flag, "Whether a single participant runs as a standalone server. Otherwise it runs as an ensemble of one member.").default("true");
    RECONFIG_ENABLED = Key::file("reconfigEnabled", Flag, "Whether clients may change the member list.").default("false");
    EXTENDED_TYPES_ENABLED = Key::prefixed("extendedTypesEnabled", Flag, "Whether znodes with a TTL can be created.").default("false");
    EMULATE_353_TTL_NODES = Key::prefixed("emulate353TTLNodes", Flag, "Whether TTLs are read in the format of ZooKeeper 3.5.3.").default("false").should();
    SKIP_ACL = Key::prefixed("skipACL", Word { special: "yes", other: "no" }, "`yes` switches all ACL checks off.").default("no").should();
    ENFORCE_QUOTA = Key::prefixed("enforceQuota", Flag, "Whether a write that exceeds a hard quota is refused.").default("false").should();
    ENABLE_EAGER_ACL_CHECK = Key::prefixed("enableEagerACLCheck", Flag, "Whether a member checks ACLs with its local tree, and refuses a write before the leader orders it.").default("false").should();
    READ_ONLY_MODE_ENABLED = Key::property("readonlymode.enabled", Flag, "Whether clients that permit read-only mode can read without a quorum.").default("false").should();

    MIN_SESSION_TIMEOUT = Key::file("minSessionTimeout", Int, "Smallest session timeout of a client; -1 selects the default.").derived("2 x `tickTime`").unit("ms").between(-1, i32::MAX as i64, OutOfRange::Refused);
    MAX_SESSION_TIMEOUT = Key::file("maxSessionTimeout", Int, "Largest session timeout of a client; -1 selects the default.").derived("20 x `tickTime`").unit("ms").between(-1, i32::MAX as i64, OutOfRange::Refused);
    LOCAL_SESSIONS_ENABLED = Key::file("localSessionsEnabled", Flag, "Whether new sessions are local: only the server of the client knows them.").default("false").should();
    LOCAL_SESSIONS_UPGRADING_ENABLED = Key::file("localSessionsUpgradingEnabled", Flag, "Whether a local session becomes a global one when it creates an ephemeral.").default("false").should();
    CONTAINER_CHECK_INTERVAL = Key::property_or_file("znode.container.checkIntervalMs", Int, "Time between two searches for containers and TTL znodes to delete.").default("60000").unit("ms").at_least(1, OutOfRange::Default);
    CONTAINER_MAX_PER_MINUTE = Key::property_or_file("znode.container.maxPerMinute", Int, "Maximum number of containers and TTL znodes that are deleted per minute.").default("10000").unit("znodes").at_least(1, OutOfRange::Default).should();
    CONTAINER_MAX_NEVER_USED_INTERVAL = Key::property_or_file("znode.container.maxNeverUsedIntervalMs", super::key::ValueKind::Long, "Age at which a container that never had a child is deleted; 0 disables the deletion.").default("0").unit("ms").should();
    SESSION_SECRET_FILE = Key::file_or_property("zoarium.sessionSecretFile", "zoarium.sessionSecretFile", Path, "File with the secrets from which session passwords are derived. All members need the same file. New passwords are derived from the first line, and passwords derived from any line are accepted. The line `legacy` selects the public formula of Apache ZooKeeper, which is the default. Zoarium only.").should();
    SESSIONLESS_CNXN_TIMEOUT = Key::prefixed("nio.sessionlessCnxnTimeout", Int, "Time after which a connection without a session is closed.").default("10000").unit("ms").at_least(1, OutOfRange::Default).should();
    REQUEST_THROTTLER_SHUTDOWN_TIMEOUT = Key::prefixed("request_throttler.shutdownTimeout", Int, "Time that a stopping server waits for requests that are delayed by `request_throttle_max_requests`.").default("10000").unit("ms").at_least(0, OutOfRange::Default).should();

    CONTROLLER_PORT = Key::prefixed("controllerPort", Port, "Port of Java's test controller.").no_effect(ValueSet::Any, "only a test tool of Java reads this setting");
    TESTING_ONLY = Key::prefixed("testingonly.*", Secret, "Switches of Java's own tests.").no_effect(ValueSet::Any, "only Java's tests read this setting");
    TEST = Key::prefixed("test.*", Secret, "Switches of Java's own tests.").no_effect(ValueSet::Any, "only Java's tests read this setting");
}
