//! Keys of zoo.cfg that change the behaviour of a server, and valid values of them.

use testkit::Random;

/// Text that is replaced by the directory of the member.
pub(super) const DIR: &str = "{dir}";

/// Keys that all members share, each with the values that a seed draws from.
const KEYS: &[(&str, &[&str])] = &[
    ("autopurge.purgeInterval", &["1"]),
    ("autopurge.snapRetainCount", &["3", "5"]),
    ("clientPortListenBacklog", &["1", "50"]),
    ("clientTcpKeepAlive", &["true"]),
    ("closeSessionTxn.enabled", &["false"]),
    ("cnxTimeout", &["500", "2000"]),
    ("commitLogCount", &["500", "700"]),
    ("connectToLearnerMasterLimit", &["5", "20"]),
    ("dataLogDir", &["{dir}/logs"]),
    ("digest.enabled", &["false"]),
    ("electionPortBindRetry", &["0", "1", "10"]),
    ("enableEagerACLCheck", &["true"]),
    ("enforceQuota", &["true"]),
    ("fastleader.maxNotificationInterval", &["1000", "5000"]),
    ("fastleader.minNotificationInterval", &["20", "500"]),
    ("flushDelay", &["1", "20", "100"]),
    ("forceSnapshotSync", &["true"]),
    ("forceSync", &["no"]),
    ("fsync.warningthresholdms", &["1"]),
    ("globalOutstandingLimit", &["1", "10"]),
    ("jvm.pause.monitor", &["true"]),
    ("largeRequestMaxBytes", &["100000", "1000000"]),
    ("largeRequestThreshold", &["100", "5000"]),
    ("leader.ackLoggingFrequency", &["1"]),
    ("leader.maxConcurrentDiffSyncs", &["1"]),
    ("leader.maxConcurrentSnapSyncs", &["1"]),
    ("leader.maxTimeToWaitForEpoch", &["5000"]),
    ("leaderConnectDelayDuringRetryMs", &["0", "1000"]),
    ("localSessionsEnabled", &["true"]),
    ("localSessionsUpgradingEnabled", &["true"]),
    ("maxBatchSize", &["1", "10"]),
    ("maxClientCnxns", &["0", "100"]),
    ("maxCnxns", &["200"]),
    ("maxWriteQueuePollTime", &["1", "10"]),
    ("nio.sessionlessCnxnTimeout", &["1000", "60000"]),
    ("observer.election.DelayMs", &["0", "1000"]),
    ("observer.reconnectDelayMs", &["10", "2000"]),
    ("preAllocSize", &["0", "1", "64"]),
    ("quorumCnxnTimeoutMs", &["3000", "20000"]),
    ("request_stale_latency_check", &["true"]),
    ("request_throttle_drop_stale", &["false"]),
    ("request_throttle_max_requests", &["1", "5", "50"]),
    ("request_throttle_stall_time", &["1", "1000"]),
    ("snapSizeLimitInKb", &["1", "20"]),
    ("snapshot.compression.method", &["gz", "snappy"]),
    ("snapshotSizeFactor", &["-1", "0.01", "5"]),
    ("tcpKeepAlive", &["true"]),
    ("throttled_op_wait_time", &["100", "5000"]),
    ("txnLogSizeLimitInKb", &["1", "20"]),
    ("znode.container.maxNeverUsedIntervalMs", &["2000"]),
    ("znode.container.maxPerMinute", &["1000"]),
    ("zoarium.fileMode", &["0600", "0664"]),
    ("zoarium.maxWatchBytes", &["500", "100000"]),
    ("zoarium.membershipGuard", &["false"]),
    ("zoarium.onDigestMismatch", &["stop", "repair"]),
];

/// Keys that belong together.
const GROUPS: &[&[(&str, &str)]] = &[
    &[
        ("budget.all.who", "ip:*"),
        ("budget.all.requestsPerSecond", "50"),
        ("budget.all.bytesPerSecond", "100000"),
        ("budget.all.watches", "100"),
        ("budget.all.watchBytes", "10000"),
        ("budget.all.ephemerals", "50"),
    ],
    &[
        ("connection_throttle_tokens", "20"),
        ("connection_throttle_fill_time", "100"),
        ("connection_throttle_fill_count", "2"),
        ("connection_throttle_weight_enabled", "true"),
    ],
    &[
        ("connection_throttle_tokens", "10"),
        ("connection_throttle_fill_time", "50"),
        ("connection_throttle_freeze_time", "1000"),
        ("connection_throttle_drop_increase", "0.1"),
        ("connection_throttle_drop_decrease", "0.05"),
        ("connection_throttle_decrease_ratio", "0.5"),
    ],
    &[("zoarium.sessionSecretFile", "{dir}/../session-secret")],
];

/// System properties that cannot be written in zoo.cfg.
const PROPERTIES: &[(&str, &[&str])] = &[
    ("jute.maxbuffer", &["50000", "4000000"]),
    ("readonlymode.enabled", &["true"]),
];

/// Draws lines of zoo.cfg. With `percent` 0, all keys have their defaults.
pub(super) fn draw(random: &mut Random, percent: usize) -> Vec<(String, String)> {
    let mut drawn = Vec::new();
    for (key, values) in KEYS {
        // One program of the clients needs this key.
        let percent = if *key == "enforceQuota" { 50 } else { percent };
        if random.percent(percent) {
            let value = random.pick(values).expect("a value");
            drawn.push(((*key).to_owned(), value.to_owned()));
        }
    }
    if random.percent(percent)
        && let Some(group) = random.pick(GROUPS)
    {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        drawn.extend(group.iter().map(owned));
    }
    drawn
}

/// Draws system properties as `name=value`.
pub(super) fn draw_properties(random: &mut Random, percent: usize) -> Vec<String> {
    let mut drawn = Vec::new();
    for (name, values) in PROPERTIES {
        if random.percent(percent) {
            let value = random.pick(values).expect("a value");
            drawn.push(format!("{name}={value}"));
        }
    }
    drawn
}
