//! Settings of the transaction log, the snapshots and the limits on requests and connections.

use super::key::ValueKind::{Choice, Flag, Int, Long, Ratio, Text, Word};
use super::key::{Key, OutOfRange};
use super::keys;

keys! {
    PRE_ALLOC_SIZE = Key::prefixed("preAllocSize", Long, "Size by which a log file is extended when it is full.").decimal().default("65536").unit("KiB").between(0, 1 << 31, OutOfRange::Default);
    SNAP_COUNT = Key::prefixed("snapCount", Int, "Maximum number of transactions between two snapshots; the actual number is random, and at least half of the maximum.").default("100000").unit("transactions").at_least(2, OutOfRange::Nearest);
    SNAP_SIZE_LIMIT = Key::prefixed("snapSizeLimitInKb", Long, "Log size at which a snapshot is written; 0 or less disables the limit.").default("4194304").unit("KiB").should();
    TXN_LOG_SIZE_LIMIT = Key::prefixed("txnLogSizeLimitInKb", Long, "Size of a log file at which a new file begins; 0 or less disables the limit.").default("-1").unit("KiB").should();
    COMMIT_LOG_COUNT = Key::prefixed("commitLogCount", Int, "Number of the newest transactions that are kept in memory for learners that lack some of them.").decimal().default("500").unit("transactions").at_least(500, OutOfRange::Nearest).should();
    SNAPSHOT_SIZE_FACTOR = Key::prefixed("snapshotSizeFactor", Ratio, "The leader sends missing transactions from the log if their size is at most this share of a snapshot's size, and otherwise sends a snapshot. A negative value disables the use of the log.").default("0.33").should();
    SNAP_RETAIN_COUNT = Key::file("autopurge.snapRetainCount", Int, "Number of snapshots that a purge keeps, with the logs that they need.").default("3").unit("snapshots").at_least(3, OutOfRange::Nearest);
    PURGE_INTERVAL = Key::file("autopurge.purgeInterval", Int, "Time between two purges; the first purge runs when the server starts. 0 or less disables purges.").default("0").unit("hours");
    ON_DIGEST_MISMATCH = Key::file_or_property("zoarium.onDigestMismatch", "zoarium.onDigestMismatch", Choice(&["log", "stop", "repair"]), "Reaction of a server whose data differs from the data of the leader and a quorum. `stop` ends the server with exit code 20. `repair` stores the server's tree in `diverged-<zxid>` and receives a snapshot from the leader, or ends the server if a repair is not safe. `repair` needs an ensemble. In an ensemble with Java members, a server only logs. Zoarium only.").default("log").strict();
    SNAPSHOT_COMPRESSION = Key::prefixed("snapshot.compression.method", Choice(&["gz", "snappy", ""]), "Compression of new snapshots.").default("").should();
    SNAPSHOT_TRUST_EMPTY = Key::prefixed("snapshot.trust.empty", Flag, "Whether logs without a snapshot are accepted. ZooKeeper 3.4 could leave such logs.").default("false").should();
    SERIALIZE_LAST_PROCESSED_ZXID = Key::prefixed("serializeLastProcessedZxid.enabled", Flag, "Whether a snapshot contains its last zxid at the end.").default("true").should();
    DIGEST_ENABLED = Key::prefixed("digest.enabled", Flag, "Whether the digest of the tree is calculated, logged and checked.").default("true").should();
    CLOSE_SESSION_TXN_ENABLED = Key::prefixed("closeSessionTxn.enabled", Flag, "Whether the end of a session is logged together with the ephemerals that it deletes.").default("true").should();
    FSYNC_WARNING_THRESHOLD = Key::prefixed("fsync.warningthresholdms", Long, "Duration from which an fsync is logged as slow.").also(&["fsync.warningthresholdms"]).default("1000").unit("ms");
    FORCE_SYNC = Key::prefixed("forceSync", Word { special: "no", other: "yes" }, "With `no`, the server acknowledges writes before they are on disk. A crash of the machine loses these writes.").default("yes");
    FILE_MODE = Key::file_or_property("zoarium.fileMode", "zoarium.fileMode", Choice(&["0640", "0600", "0644", "0660", "0664"]), "Mode of new files with data: snapshots, logs, the change history, epochs and member lists. Users that can read the files can also search new directories. The umask is applied to files and directories. Existing files, log output and files with secrets (0600) keep their modes. Zoarium only.").default("0640").strict().should();
    DATADIR_AUTOCREATE = Key::prefixed("datadir.autocreate", Flag, "Whether missing data directories are created.").default("true").should();
    DB_AUTOCREATE = Key::prefixed("db.autocreate", Flag, "Whether a server may create a new database in an empty data directory. Otherwise it requires the file `initialize`.").default("true").should();
    FLUSH_DELAY = Key::prefixed("flushDelay", Long, "Time for which writes are collected before they are synced together.").default("0").unit("ms").at_least(0, OutOfRange::Default).should();
    MAX_WRITE_QUEUE_POLL_TIME = Key::prefixed("maxWriteQueuePollTime", Long, "Time to wait for a further write that can be synced together with the collected writes.").derived("`flushDelay` / 3").unit("ms").at_least(0, OutOfRange::Default).should();
    MAX_BATCH_SIZE = Key::prefixed("maxBatchSize", Int, "Maximum number of writes that are synced together.").default("1000").unit("transactions").at_least(1, OutOfRange::Default).should();
    INT_BUFFER_STARTING_SIZE = Key::prefixed("intBufferStartingSizeBytes", Int, "Initial size of Java's reply buffers.").default("1024").unit("bytes").internal("replies are written into the connection's own buffer");

    REQUEST_THROTTLE_MAX_REQUESTS = Key::prefixed("request_throttle_max_requests", Int, "Number of requests in the pipeline above which new requests wait, including reads; 0 disables the limit.").default("0").unit("requests").should();
    REQUEST_THROTTLE_STALL_TIME = Key::prefixed("request_throttle_stall_time", Int, "Interval at which waiting requests are checked for staleness. They continue as soon as `request_throttle_max_requests` permits.").default("100").unit("ms").at_least(1, OutOfRange::Default).should();
    REQUEST_THROTTLE_DROP_STALE = Key::prefixed("request_throttle_drop_stale", Flag, "Whether stale requests are dropped.").default("true").should();
    REQUEST_STALE_CONNECTION_CHECK = Key::prefixed("request_stale_connection_check", Flag, "Whether a request is stale when its connection is closed.").default("true").should();
    REQUEST_STALE_LATENCY_CHECK = Key::prefixed("request_stale_latency_check", Flag, "Whether a request is stale when it has waited longer than its session's timeout.").default("false").should();
    THROTTLED_OP_WAIT_TIME = Key::prefixed("throttled_op_wait_time", Int, "Waiting time after which a request is refused with ThrottledOp; 0 disables the refusal.").default("0").unit("ms").should();
    LARGE_REQUEST_MAX_BYTES = Key::prefixed("largeRequestMaxBytes", Int, "Maximum total size of the large requests in progress. A connection is closed if its request would make the total exceed the limit.").default("104857600").unit("bytes").at_least(1, OutOfRange::Default).should();
    LARGE_REQUEST_THRESHOLD = Key::prefixed("largeRequestThreshold", Int, "Size above which a request is large; -1 disables the limit for large requests.").default("-1").unit("bytes").at_least(-1, OutOfRange::Default).should();
    MAX_WATCH_BYTES = Key::file_or_property("zoarium.maxWatchBytes", "zoarium.maxWatchBytes", Int, "Maximum total size of the paths that one connection watches. A read whose watch would exceed the limit is refused with ThrottledOp. Watches that a client restores after a reconnect are never refused. Zoarium only.").default("67108864").unit("bytes").at_least(1, OutOfRange::Refused).strict();
    BUDGET = Key::file("budget.*", Text, "Limits for each address or identity. `budget.<name>.who` selects the addresses or identities (`ip:10.0.0.0/8`, `ip:*`, `sasl:alice`, `digest:*`, `x509:CN=bob`, `anyone`). The limits are `.requestsPerSecond`, `.bytesPerSecond`, `.watches`, `.watchBytes` and `.ephemerals`. Requests above a rate wait; further watches and ephemerals are refused with ThrottledOp. Zoarium only.").should();
    THROTTLE_TOKENS = Key::prefixed("connection_throttle_tokens", Int, "Size of the token bucket from which new sessions take tokens; 0 disables connection throttling.").default("0").unit("tokens").should();
    THROTTLE_FILL_TIME = Key::prefixed("connection_throttle_fill_time", Int, "Time between two refills of the bucket.").default("1").unit("ms").at_least(1, OutOfRange::Default).should();
    THROTTLE_FILL_COUNT = Key::prefixed("connection_throttle_fill_count", Int, "Number of tokens that a refill adds.").default("1").unit("tokens").at_least(0, OutOfRange::Default).should();
    THROTTLE_FREEZE_TIME = Key::prefixed("connection_throttle_freeze_time", Int, "Time between two changes of the probability that a new session is dropped; -1 disables the changes.").default("-1").unit("ms").should();
    THROTTLE_DROP_INCREASE = Key::prefixed("connection_throttle_drop_increase", Ratio, "Increase of the drop probability while the bucket is empty.").default("0.02").strict().should();
    THROTTLE_DROP_DECREASE = Key::prefixed("connection_throttle_drop_decrease", Ratio, "Decrease of the drop probability when the bucket is full again.").default("0.002").strict().should();
    THROTTLE_DECREASE_RATIO = Key::prefixed("connection_throttle_decrease_ratio", Ratio, "Share of missing tokens up to which the bucket counts as full again.").default("0").strict().should();
    THROTTLE_WEIGHT_ENABLED = Key::prefixed("connection_throttle_weight_enabled", Flag, "Whether the number of tokens depends on the kind of the session.").default("false").should();
    THROTTLE_GLOBAL_WEIGHT = Key::prefixed("connection_throttle_global_session_weight", Int, "Number of tokens that a global session takes.").default("3").unit("tokens").at_least(1, OutOfRange::Default).should();
    THROTTLE_LOCAL_WEIGHT = Key::prefixed("connection_throttle_local_session_weight", Int, "Number of tokens that a local session takes.").default("1").unit("tokens").at_least(1, OutOfRange::Default).should();
    THROTTLE_RENEW_WEIGHT = Key::prefixed("connection_throttle_renew_session_weight", Int, "Number of tokens that a renewed session takes.").default("2").unit("tokens").at_least(1, OutOfRange::Default).should();
    OUTSTANDING_HANDSHAKE_LIMIT = Key::prefixed("netty.server.outstandingHandshake.limit", Int, "Maximum number of TLS handshakes in progress; 0 or less disables the limit.").default("-1").unit("handshakes").should();
    EARLY_DROP_HANDSHAKES = Key::prefixed("netty.server.earlyDropSecureConnectionHandshakes", Flag, "Whether TLS connections are closed while the server does not serve.").default("false").should();
    ADVANCED_FLOW_CONTROL = Key::prefixed("netty.advancedFlowControl.enabled", Flag, "Whether Java limits the reads of Netty.").default("false").internal("the server always stops reading from a client with too many requests in progress");
}
