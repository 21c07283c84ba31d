//! Settings for operators, and for internals of the Java server.

use super::effect::{Effect, METRICS_TLS, ValueSet};
use super::key::ValueKind::{Choice, Class, Flag, Host, Int, List, Long, Path, Port, Text, Word};
use super::key::{Key, OutOfRange};
use super::keys;

const NO_EXPORTER: &str = "Zoarium's exporter does not have this setting";
const SAMPLES_INLINE: &str = "Zoarium counts samples without a queue";
const NO_RING: &str = "packets between members are logged at level debug instead";
const NO_PATH_STATS: &str = "requests are logged at level debug instead";
const NO_THREAD_POOLS: &str = "Zoarium does not have these thread pools";
const NO_BUFFERS: &str = "Zoarium does not use Netty";
const NO_CACHE: &str = "replies are encoded straight from the tree, without a cache";
const ONE_WATCH_TABLE: &str = "Zoarium has only one kind of watch table";
const NO_DEAD_WATCHES: &str = "watches of a closed connection are removed immediately";
const NO_JMX: &str = "this server does not have JMX; the four-letter word mntr prints the metrics";
const NO_JVM: &str = "this server is not a JVM";
const OF_CLIENTS: &str =
    "only clients read this setting; a server has TLS if `secureClientPort` is set";
const NO_TRACE_FILES: &str = "no release of ZooKeeper since 3.5 reads this setting; `zoarium.traces.endpoint` exports traces of writes";
const NO_LOGBACK: &str = "this server does not read settings of Java's logging; the variable RUST_LOG sets the log levels";

/// Java's classes of metrics providers.
pub(crate) const DEFAULT_CLASS: &str = "org.apache.zookeeper.metrics.impl.DefaultMetricsProvider";
pub(crate) const NULL_CLASS: &str = "org.apache.zookeeper.metrics.impl.NullMetricsProvider";
pub(crate) const PROMETHEUS_CLASS: &str =
    "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider";

keys! {
    ADMIN_ENABLE_SERVER = Key::prefixed("admin.enableServer", Word { special: "false", other: "true" }, "`false` switches the admin server off.").default("true");
    ADMIN_SERVER_ADDRESS = Key::prefixed("admin.serverAddress", Host, "Address of the admin server.").default("0.0.0.0");
    ADMIN_SERVER_PORT = Key::prefixed("admin.serverPort", Port, "Port of the admin server.").default("8080");
    ADMIN_COMMAND_URL = Key::prefixed("admin.commandURL", Text, "URL path that precedes the names of admin commands.").default("/commands");
    ADMIN_IDLE_TIMEOUT = Key::prefixed("admin.idleTimeout", Int, "Time after which an idle admin connection is closed.").default("30000").unit("ms").at_least(1, OutOfRange::Default).should();
    ADMIN_HTTP_VERSION = Key::prefixed("admin.httpVersion", Int, "Version of HTTP that Jetty uses.").default("11").internal("the client chooses the version of HTTP");
    ADMIN_PORT_UNIFICATION = Key::prefixed("admin.portUnification", Flag, "Whether the admin port accepts both HTTP and HTTPS, with the stores of `ssl.quorum.*`.").default("false").should();
    ADMIN_FORCE_HTTPS = Key::prefixed("admin.forceHttps", Flag, "Whether the admin port accepts HTTPS only, even if `admin.portUnification` is `true`.").default("false").should();
    ADMIN_NEED_CLIENT_AUTH = Key::prefixed("admin.needClientAuth", Flag, "Whether admin clients must send a certificate when they use TLS.").default("false").should();
    ADMIN_SNAPSHOT_ENABLED = Key::prefixed("admin.snapshot.enabled", Flag, "Whether a snapshot can be downloaded from the admin port.").default("true");
    ADMIN_RESTORE_ENABLED = Key::prefixed("admin.restore.enabled", Flag, "Whether a snapshot can be uploaded to the admin port and restored.").default("true");
    ADMIN_CONSOLE_ENABLED = Key::prefixed("admin.console.enabled", Flag, "Whether the path `/` of the admin port is the web console.").default("true");
    ADMIN_CONSOLE_HOSTS = Key::prefixed("admin.console.hosts", List, "Host names under which the console can be opened, in addition to addresses, `localhost`, the machine's name and the host of this server's `server.N` line.");
    ADMIN_STRICT_HOST = Key::prefixed("admin.strictHost", Flag, "Whether every command is refused if the name in the header `Host` is neither in `admin.console.hosts` nor a name of the server. With `false`, only commands that change something are refused. Zoarium only.").default("false");
    ADMIN_OF_MEMBER = Key::file("zoarium.admin.*", Text, "Admin port, as `host:port`, of the member whose id is `<name>`, for commands that query all members. Zoarium only.").derived("the member's host, with `admin.serverPort` of this server");
    HEALTH_PORT = Key::file_or_property("zoarium.health.port", "zoarium.health.port", Port, "Separate port for `/health/live` and `/health/ready`, at `admin.serverAddress`. Zoarium only.");
    ADMIN_RATE_LIMITER_INTERVAL = Key::prefixed("admin.rateLimiterIntervalInMS", Int, "Interval in which one restore is accepted. The interval for snapshots is a thousandth of this value, as in ZooKeeper 3.9.5.").default("300000").unit("ms").at_least(0, OutOfRange::Refused).strict();

    METRICS_CLASS_NAME = Key::file("metricsProvider.className", Class, "Java's class of the metrics exporter: `PrometheusMetricsProvider` serves metrics over HTTP, and `NullMetricsProvider` discards them.").default(DEFAULT_CLASS).partly(&[Effect::NoEffect(ValueSet::OneOf(&[NULL_CLASS]), "Zoarium does not discard metrics")]);
    METRICS_HTTP_HOST = Key::file("metricsProvider.httpHost", Host, "Address of the exporter.").default("0.0.0.0");
    METRICS_HTTP_PORT = Key::file("metricsProvider.httpPort", Port, "Port of the exporter.").default("7000");
    METRICS_EXPORT_JVM_INFO = Key::file("metricsProvider.exportJvmInfo", Text, "Whether metrics of the process are also exported; only the value `true` enables them.").default("true");
    METRICS_WORKER_THREADS = Key::file("metricsProvider.numWorkerThreads", Text, "Number of Java's threads that calculate summaries.").default("1").internal(SAMPLES_INLINE);
    METRICS_QUEUE_SIZE = Key::file("metricsProvider.maxQueueSize", Text, "Length of the queue of Java's threads for summaries.").default("1000000").internal(SAMPLES_INLINE);
    METRICS_SHUTDOWN_TIMEOUT = Key::file("metricsProvider.workerShutdownTimeoutMs", Text, "Time limit for the end of Java's threads for summaries.").default("1000").unit("ms").internal(SAMPLES_INLINE);
    METRICS_HTTPS_PORT = Key::file("metricsProvider.httpsPort", Text, "Port on which the exporter of ZooKeeper 3.10 serves HTTPS.").refused(ValueSet::Any, &METRICS_TLS);
    METRICS_SSL = Key::file("metricsProvider.ssl.*", Text, "TLS settings of the exporter of ZooKeeper 3.10, such as its stores.").refused(ValueSet::Any, &METRICS_TLS);
    METRICS_OTHER = Key::file("metricsProvider.*", Text, "Other settings of Java's metrics exporters.").no_effect(ValueSet::Any, NO_EXPORTER);

    FOUR_LETTER_WORDS = Key::prefixed("4lw.commands.whitelist", List, "Four-letter words that are answered in addition to `srvr`; `*` means all.");
    HISTORY_ENABLED = Key::prefixed("history.enabled", Flag, "Whether the server records all changes of znodes (the change history).").default("false");
    HISTORY_DIR = Key::prefixed("history.dir", Path, "Directory of the change history.").derived("`history` in `dataDir`");
    HISTORY_INCLUDE = Key::prefixed("history.include", List, "Paths whose changes are recorded, with all paths below them; `*` matches any part of a component, and `**` matches any number of components.").derived("all");
    HISTORY_EXCLUDE = Key::prefixed("history.exclude", List, "Paths whose changes are not recorded.");
    HISTORY_KEEP_HOURS = Key::prefixed("history.keepHours", Int, "Age from which recorded changes are removed; 0 disables the removal.").default("0").unit("hours").at_least(0, OutOfRange::Refused);
    HISTORY_MAX_MEGABYTES = Key::prefixed("history.maxMegabytes", Int, "Size of the history from which the oldest changes are removed; 0 disables the removal.").default("8192").unit("MiB").at_least(0, OutOfRange::Refused);
    HISTORY_MAX_CONTENT_KB = Key::prefixed("history.maxContentKb", Int, "Size of data above which the history records only the size and the hash of the data.").default("1024").unit("KiB").at_least(0, OutOfRange::Refused);
    HISTORY_MIN_FREE_MEGABYTES = Key::prefixed("history.minFreeMegabytes", Int, "Free space on the disk below which recording pauses. Below half of this value, the history is removed.").default("512").unit("MiB").at_least(0, OutOfRange::Refused);
    TRACES_ENDPOINT = Key::file_or_property("zoarium.traces.endpoint", "zoarium.traces.endpoint", Text, "URL of the collector to which traces of writes are sent by OTLP over HTTP, such as `http://host:4318/v1/traces`. Zoarium only.");
    MODEL_TRACE = Key::file("zoarium.trace.model", Path, "File to which members append their steps, for the project's formal model. Zoarium only.");
    TRACES_EVERY = Key::file_or_property("zoarium.traces.every", "zoarium.traces.every", Int, "One in this number of writes is traced. Use the same value on all members. Zoarium only.").default("1000").unit("writes").at_least(1, OutOfRange::Refused).strict();
    AUDIT_ENABLE = Key::prefixed("audit.enable", Flag, "Whether clients' changes, including refused changes, are written to the audit log.").default("false");
    AUDIT_FILE = Key::prefixed("auditlog.file", Path, "File of the audit log, in `log.dir` unless the path is absolute.").derived("zookeeper_audit.log").should();
    AUDIT_THRESHOLD = Key::prefixed("auditlog.threshold", Choice(&["INFO", "ERROR"]), "With `ERROR`, only refused changes are written.").default("INFO").should();
    AUDIT_FILE_SIZE = Key::prefixed("auditlog.maxfilesize", Text, "Size from which the audit log's file is renamed to `<file>.1`.").default("10MB").should();
    AUDIT_FILES_KEPT = Key::prefixed("auditlog.maxbackupindex", Int, "Number of older files of the audit log that are kept.").default("10").unit("files").between(1, 10_000, OutOfRange::Nearest).should();
    AUDIT_QUEUE_SIZE = Key::prefixed("auditlog.queueSize", Int, "Maximum number of lines of the audit log that wait to be written.").default("65536").unit("lines").at_least(1, OutOfRange::Nearest).should();
    AUDIT_NEVER_BLOCK = Key::prefixed("auditlog.neverBlock", Flag, "Whether lines of the audit log are dropped, counted and reported when too many lines wait. With `false`, requests wait instead.").default("true").should();
    AUDIT_IMPL_CLASS = Key::prefixed("audit.impl.class", Class, "Java class that writes the audit log.").internal("this server does not load Java classes");
    JVM_PAUSE_MONITOR = Key::file("jvm.pause.monitor", Flag, "Whether the server detects pauses of its process.").default("false").should();
    JVM_PAUSE_WARN = Key::file("jvm.pause.warn-threshold.ms", Long, "Length from which a pause is logged as a warning.").default("10000").unit("ms").should();
    JVM_PAUSE_INFO = Key::file("jvm.pause.info-threshold.ms", Long, "Length from which a pause is logged.").default("1000").unit("ms").should();
    JVM_PAUSE_SLEEP = Key::file("jvm.pause.sleep.time.ms", Long, "Interval at which the server checks the clock for a pause.").default("500").unit("ms").at_least(1, OutOfRange::Refused).should();

    MESSAGE_TRACKER = Key::prefixed("messageTracker.*", Text, "Java's buffer of the last packets between members.").internal(NO_RING);
    PATH_STATS = Key::prefixed("pathStats.*", Text, "Java's log of the busiest paths.").internal(NO_PATH_STATS);
    NIO = Key::prefixed("nio.*", Text, "Java's selector and worker threads and their buffers.").internal(NO_THREAD_POOLS);
    COMMIT_PROCESSOR = Key::prefixed("commitProcessor.*", Text, "Java's threads between commit and reply.").internal(NO_THREAD_POOLS);
    MAX_RESPONSE_CACHE_SIZE = Key::prefixed("maxResponseCacheSize", Int, "Size of Java's cache of getData replies.").default("400").unit("replies").should().no_effect(ValueSet::Any, NO_CACHE);
    MAX_CHILDREN_CACHE_SIZE = Key::prefixed("maxGetChildrenResponseCacheSize", Int, "Size of Java's cache of getChildren replies.").default("400").unit("replies").should().no_effect(ValueSet::Any, NO_CACHE);
    WATCH_MANAGER_NAME = Key::prefixed("watchManagerName", Class, "Java's choice between two watch tables.").should().no_effect(ValueSet::Any, ONE_WATCH_TABLE);
    WATCHER_CLEAN_THREADS = Key::prefixed("watcherCleanThreadsNum", Int, "Number of Java's threads that remove dead watches.").default("2").internal(NO_DEAD_WATCHES);
    WATCHER_CLEAN_THRESHOLD = Key::prefixed("watcherCleanThreshold", Int, "Number of dead watches at which Java's threads start to remove dead watches.").default("1000").internal(NO_DEAD_WATCHES);
    WATCHER_CLEAN_INTERVAL = Key::prefixed("watcherCleanIntervalInSeconds", Int, "Time after which Java's threads start to remove dead watches.").default("600").unit("s").internal(NO_DEAD_WATCHES);
    MAX_DEAD_WATCHERS = Key::prefixed("maxInProcessingDeadWatchers", Int, "Number of dead watches above which Java delays connections.").default("-1").internal(NO_DEAD_WATCHES);
    BIT_HASH_CACHE_SIZE = Key::prefixed("bitHashCacheSize", Int, "Size of a cache in Java's second watch table.").default("10").internal(ONE_WATCH_TABLE);

    JMX_LOG4J = Key::prefixed("jmx.log4j.*", Text, "JMX beans of Java's logging.").no_effect(ValueSet::Any, NO_JMX);
    JMX_REMOTE = Key::property("com.sun.management.*", Text, "JMX settings of the JVM.").no_effect(ValueSet::Any, NO_JMX);
    RMI = Key::property("java.rmi.*", Text, "JMX settings of the JVM.").no_effect(ValueSet::Any, NO_JMX);
    CONSOLE_THRESHOLD = Key::prefixed("console.threshold", Text, "Java's log level on the console.").no_effect(ValueSet::Any, NO_LOGBACK);
    LOG_DIR = Key::prefixed("log.dir", Path, "Directory of the audit log's file.").derived("the working directory").should();
    LOG = Key::prefixed("log.*", Text, "Names and sizes of Java's log files.").no_effect(ValueSet::Any, NO_LOGBACK);
    AUDIT_LOG = Key::prefixed("auditlog.*", Text, "Other properties of Java's audit log.").no_effect(ValueSet::Any, NO_LOGBACK);
    ROOT_LOGGER = Key::prefixed("root.logger", Text, "Java's root logger.").no_effect(ValueSet::Any, NO_LOGBACK);
    TRACE_LOG = Key::prefixed("tracelog.*", Text, "Directory and file of the trace log of old releases.").no_effect(ValueSet::Any, NO_TRACE_FILES);
    REQUEST_TRACE_FILE = Key::property("requestTraceFile", Path, "Trace log of old releases.").no_effect(ValueSet::Any, NO_TRACE_FILES);
    TRACE_FILE = Key::property("traceFile", Path, "Trace log of old releases.").no_effect(ValueSet::Any, NO_TRACE_FILES);
    CLIENT_CNXN_SOCKET = Key::prefixed("clientCnxnSocket", Text, "Class of the connections of Java's client.").no_effect(ValueSet::Any, OF_CLIENTS);
    SSL_CLIENT_ENABLE = Key::prefixed("ssl.client.enable", Flag, "A setting from old guides.").no_effect(ValueSet::True, "no release of ZooKeeper reads this setting; a server has TLS if `secureClientPort` is set");
    LOGBACK = Key::property("logback.*", Text, "Settings of Java's logging.").internal(NO_LOGBACK);
    LOG4J = Key::property("log4j.*", Text, "Settings of Java's logging.").internal(NO_LOGBACK);
    JAVA_SECURITY = Key::property("java.security.*", Text, "Security settings of the JVM.").internal(NO_JVM);
    JGSS = Key::property("sun.security.*", Text, "Security settings of the JVM.").internal(NO_JVM);
    NETTY = Key::property("io.netty.*", Text, "Settings of Netty.").internal(NO_BUFFERS);
}
