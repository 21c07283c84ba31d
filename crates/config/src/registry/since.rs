//! The releases of Apache ZooKeeper that first read each setting.
//!
//! A search in the sources of every release from 3.4.0 to 3.9.5 found these releases. If a setting
//! was also added to older release lines, the table contains the first release of each line.

/// Releases, and the settings that they introduced.
const CAME_WITH: &[(&str, &[&str])] = &[
    (
        "3.4.0 or before",
        &[
            "DigestAuthenticationProvider.superDigest",
            "SASLAuthenticationProvider.superPassword",
            "allowSaslFailedClients",
            "authProvider.*",
            "autopurge.purgeInterval",
            "autopurge.snapRetainCount",
            "clientPort",
            "clientPortAddress",
            "cnxTimeout",
            "dataDir",
            "dataLogDir",
            "electionAlg",
            "follower.nodelay",
            "forceSync",
            "fsync.warningthresholdms",
            "globalOutstandingLimit",
            "group*",
            "initLimit",
            "java.security.auth.login.config",
            "jute.maxbuffer",
            "kerberos.removeHostFromPrincipal",
            "kerberos.removeRealmFromPrincipal",
            "kinit",
            "leader.nodelay",
            "leaderServes",
            "maxClientCnxns",
            "maxSessionTimeout",
            "minSessionTimeout",
            "peerType",
            "preAllocSize",
            "readonlymode.enabled",
            "requireKerberosConfig",
            "security.auth_to_local",
            "server.*",
            "serverCnxnFactory",
            "skipACL",
            "snapCount",
            "superUser",
            "syncLimit",
            "tickTime",
            "weight*",
        ],
    ),
    ("3.4.4", &["sasl.serverconfig"]),
    (
        "3.4.6",
        &[
            "observer.syncEnabled",
            "quorumListenOnAllIPs",
            "syncEnabled",
        ],
    ),
    ("3.4.10, 3.5.3", &["4lw.commands.whitelist"]),
    (
        "3.4.10, 3.5.4",
        &[
            "quorum.auth.enableSasl",
            "quorum.auth.kerberos.servicePrincipal",
            "quorum.auth.learner.saslLoginContext",
            "quorum.auth.learnerRequireSasl",
            "quorum.auth.server.saslLoginContext",
            "quorum.auth.serverRequireSasl",
            "quorum.cnxn.threads.size",
        ],
    ),
    ("3.4.11, 3.5.4", &["tcpKeepAlive"]),
    (
        "3.5.0",
        &[
            "admin.commandURL",
            "admin.enableServer",
            "admin.serverPort",
            "commitProcessor.*",
            "datadir.autocreate",
            "dynamicConfigFile",
            "forceSnapshotSync",
            "letAnySaslUserDoX",
            "localSessionsEnabled",
            "localSessionsUpgradingEnabled",
            "nio.*",
            "nio.sessionlessCnxnTimeout",
            "snapshotSizeFactor",
            "standaloneEnabled",
        ],
    ),
    (
        "3.5.1",
        &[
            "X509AuthenticationProvider.superUser",
            "admin.serverAddress",
            "client.secure",
            "secureClientPort",
            "secureClientPortAddress",
            "ssl.authProvider",
            "ssl.keyStore.location",
            "ssl.keyStore.password",
            "ssl.trustStore.location",
            "ssl.trustStore.password",
            "znode.container.checkIntervalMs",
            "znode.container.maxPerMinute",
        ],
    ),
    ("3.5.3", &["admin.idleTimeout", "reconfigEnabled"]),
    ("3.5.4", &["emulate353TTLNodes", "extendedTypesEnabled"]),
    (
        "3.5.5",
        &[
            "portUnification",
            "ssl.ciphersuites",
            "ssl.clientAuth",
            "ssl.crl",
            "ssl.enabledProtocols",
            "ssl.handshakeDetectionTimeoutMillis",
            "ssl.hostnameVerification",
            "ssl.keyStore.type",
            "ssl.ocsp",
            "ssl.protocol",
            "ssl.quorum.ciphersuites",
            "ssl.quorum.clientAuth",
            "ssl.quorum.crl",
            "ssl.quorum.enabledProtocols",
            "ssl.quorum.handshakeDetectionTimeoutMillis",
            "ssl.quorum.hostnameVerification",
            "ssl.quorum.keyStore.location",
            "ssl.quorum.keyStore.password",
            "ssl.quorum.keyStore.type",
            "ssl.quorum.ocsp",
            "ssl.quorum.protocol",
            "ssl.quorum.trustStore.location",
            "ssl.quorum.trustStore.password",
            "ssl.quorum.trustStore.type",
            "ssl.trustStore.type",
            "sslQuorum",
            "sslQuorumReloadCertFiles",
        ],
    ),
    ("3.5.6", &["electionPortBindRetry", "snapshot.trust.empty"]),
    (
        "3.5.7",
        &["client.portUnification", "jute.maxbuffer.extrasize"],
    ),
    ("3.5.9", &["sessionRequireClientSASLAuth"]),
    (
        "3.5.10",
        &[
            "jvm.pause.info-threshold.ms",
            "jvm.pause.monitor",
            "jvm.pause.sleep.time.ms",
            "jvm.pause.warn-threshold.ms",
        ],
    ),
    (
        "3.5.10, 3.6.4, 3.7.1, 3.8.1",
        &["kerberos.minReLoginTimeMs"],
    ),
    (
        "3.6.0",
        &[
            "admin.httpVersion",
            "admin.portUnification",
            "audit.enable",
            "audit.impl.class",
            "bitHashCacheSize",
            "clientPortListenBacklog",
            "closeSessionTxn.enabled",
            "commitLogCount",
            "connectToLearnerMasterLimit",
            "connection_throttle_decrease_ratio",
            "connection_throttle_drop_decrease",
            "connection_throttle_drop_increase",
            "connection_throttle_fill_count",
            "connection_throttle_fill_time",
            "connection_throttle_freeze_time",
            "connection_throttle_global_session_weight",
            "connection_throttle_local_session_weight",
            "connection_throttle_renew_session_weight",
            "connection_throttle_tokens",
            "connection_throttle_weight_enabled",
            "db.autocreate",
            "digest.enabled",
            "enableEagerACLCheck",
            "ensembleAuthName",
            "fastleader.maxNotificationInterval",
            "fastleader.minNotificationInterval",
            "flushDelay",
            "intBufferStartingSizeBytes",
            "largeRequestMaxBytes",
            "largeRequestThreshold",
            "leader.ackLoggingFrequency",
            "leader.maxConcurrentDiffSyncs",
            "leader.maxConcurrentSnapSyncs",
            "leader.maxTimeToWaitForEpoch",
            "leaderConnectDelayDuringRetryMs",
            "maxBatchSize",
            "maxCnxns",
            "maxGetChildrenResponseCacheSize",
            "maxInProcessingDeadWatchers",
            "maxResponseCacheSize",
            "maxWriteQueuePollTime",
            "messageTracker.*",
            "metricsProvider.*",
            "metricsProvider.className",
            "metricsProvider.exportJvmInfo",
            "metricsProvider.httpPort",
            "multiAddress.enabled",
            "multiAddress.reachabilityCheckEnabled",
            "multiAddress.reachabilityCheckTimeoutMs",
            "netty.advancedFlowControl.enabled",
            "netty.server.outstandingHandshake.limit",
            "observer.election.DelayMs",
            "observer.reconnectDelayMs",
            "observerMaster.sizeLimit",
            "observerMasterPort",
            "pathStats.*",
            "quorumCnxnTimeoutMs",
            "request_stale_connection_check",
            "request_stale_latency_check",
            "request_throttle_drop_stale",
            "request_throttle_max_requests",
            "request_throttle_stall_time",
            "request_throttler.shutdownTimeout",
            "snapSizeLimitInKb",
            "snapshot.compression.method",
            "ssl.context.supplier.class",
            "ssl.quorum.context.supplier.class",
            "txnLogSizeLimitInKb",
            "watchManagerName",
            "watcherCleanIntervalInSeconds",
            "watcherCleanThreadsNum",
            "watcherCleanThreshold",
            "znode.container.maxNeverUsedIntervalMs",
        ],
    ),
    ("3.6.3", &["learner.asyncSending"]),
    ("3.6.3, 3.7.1", &["admin.forceHttps"]),
    (
        "3.7.0",
        &[
            "DigestAuthenticationProvider.digestAlg",
            "DigestAuthenticationProvider.enabled",
            "clientTcpKeepAlive",
            "controllerPort",
            "enforce.auth.enabled",
            "enforce.auth.schemes",
            "enforceQuota",
            "follower.skipLearnerRequestToNextProcessor",
            "forward_learner_requests_to_commit_processor_disabled",
            "kerberos.canonicalizeHostNames",
            "leader.closeSocketAsync",
            "learner.closeSocketAsync",
            "throttled_op_wait_time",
        ],
    ),
    (
        "3.7.1",
        &["netty.server.earlyDropSecureConnectionHandshakes"],
    ),
    ("3.7.2, 3.8.5", &["client.certReload"]),
    (
        "3.8.0",
        &[
            "metricsProvider.httpHost",
            "metricsProvider.maxQueueSize",
            "metricsProvider.numWorkerThreads",
            "metricsProvider.workerShutdownTimeoutMs",
            "oraclePath",
            "ssl.keyStore.passwordPath",
            "ssl.quorum.keyStore.passwordPath",
            "ssl.quorum.trustStore.passwordPath",
            "ssl.trustStore.passwordPath",
        ],
    ),
    ("3.8.2", &["fips-mode"]),
    (
        "3.8.6, 3.9.5",
        &[
            "ssl.allowReverseDnsLookup",
            "ssl.quorum.allowReverseDnsLookup",
        ],
    ),
    (
        "3.9.0",
        &[
            "admin.needClientAuth",
            "admin.rateLimiterIntervalInMS",
            "admin.restore.enabled",
            "admin.snapshot.enabled",
            "serializeLastProcessedZxid.enabled",
            "ssl.sslProvider",
        ],
    ),
    ("3.9.3", &["IPAuthenticationProvider.usexforwardedfor"]),
    (
        "3.9.4",
        &[
            "ssl.clientHostnameVerification",
            "ssl.quorum.clientHostnameVerification",
        ],
    ),
];

/// Prefixes of the settings that Apache ZooKeeper lacks.
const OWN: &[&str] = &["budget.", "history.", "ssl.quorum.members", "zoarium."];

/// Result of [`since`] for a setting that only Zoarium has.
const ONLY_HERE: &str = "Zoarium only";

/// Returns the first releases with a setting, by its name in the registry. Returns `None` if they
/// are unknown, for example for settings that only a JVM or its logging reads.
pub fn since(name: &str) -> Option<&'static str> {
    if OWN.iter().any(|beginning| name.starts_with(beginning)) {
        return Some(ONLY_HERE);
    }
    let row = CAME_WITH.iter().find(|(_, names)| names.contains(&name))?;
    Some(row.0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::registry;

    #[test]
    fn every_name_is_a_setting_and_stands_once() {
        let known: BTreeSet<_> = registry::all().map(|key| key.name).collect();
        let mut seen = BTreeSet::new();
        for name in CAME_WITH.iter().flat_map(|(_, names)| names.iter()) {
            assert!(known.contains(name), "{name} is no setting");
            assert!(seen.insert(name), "{name} twice");
        }
    }

    #[test]
    fn nearly_every_setting_that_works_has_its_release() {
        let works = registry::all().filter(|key| key.effect == registry::Effect::Works);
        let unknown: Vec<_> = works
            .filter(|key| since(key.name).is_none())
            .map(|key| key.name)
            .collect();
        assert!(unknown.len() <= 15, "{unknown:?}");
    }
}
