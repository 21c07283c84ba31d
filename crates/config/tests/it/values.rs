//! Resulting values: defaults, and values from the configurations of images and operators.

use zoarium_config::members::MemberRole;
use zoarium_config::{
    AdminScheme, AuthProvider, ClientAuth, DigestAlgorithm, FourLetterWords, MetricsExporter,
    NoticeLevel, SaslAcceptor, SaslInitiator, Secret, SnapshotCompression, StoreFormat,
};

use crate::support::{JAAS, JAAS_FILE, Machine, has_notice, warnings};
use proto::ConfigVersion;

#[test]
fn the_embedded_configuration_serves_2181_from_a_local_directory() {
    let config = Machine::default().embedded();
    assert_eq!(
        config.client.plain.as_ref().unwrap().to_string(),
        "0.0.0.0:2181"
    );
    assert_eq!(config.data_dir.to_str(), Some("./zoarium-data"));
    assert_eq!(config.data_log_dir, config.data_dir);
    assert_eq!(config.source, None);
    assert!(warnings(&config).is_empty(), "{:?}", warnings(&config));
    assert_eq!(
        Machine::default()
            .flag("zookeeper.snapCount=9")
            .embedded()
            .storage
            .snap_count,
        9
    );
}

#[test]
fn defaults_equal_apache_zookeepers() {
    let config = Machine::alone("").config();
    assert_eq!(config.limits.max_client_cnxns, Some(60));
    assert_eq!(config.limits.max_cnxns, None);
    assert_eq!(config.limits.global_outstanding_limit, 1000);
    assert_eq!(config.limits.jute_max_buffer, 1_048_575);
    assert_eq!(config.limits.large_requests.threshold_bytes, None);
    assert_eq!(config.limits.connection_throttle.tokens, None);
    assert_eq!(config.client.backlog, None);
    assert_eq!(config.sessions.sessionless_connection_timeout_ms, 10_000);
    assert_eq!(config.storage.prealloc_kb, 65_536);
    assert_eq!(config.storage.snap_count, 100_000);
    assert_eq!(config.storage.snap_size_limit_kb, Some(4_194_304));
    assert_eq!(config.storage.txn_log_size_limit_kb, None);
    assert_eq!(config.storage.snapshot_size_factor, Some(0.33));
    assert_eq!(
        config.storage.snapshot_compression,
        SnapshotCompression::None
    );
    assert!(config.storage.force_sync && config.storage.digest_enabled);
    assert_eq!(
        (config.purge.retain, config.purge.interval_hours),
        (3, None)
    );
    assert_eq!(config.containers.check_interval_ms, 60_000);
    assert_eq!(config.containers.max_never_used_interval_ms, None);
    assert_eq!(config.auth.digest_algorithm, DigestAlgorithm::Sha1);
    assert!(config.auth.digest_enabled && config.auth.enforced_schemes.is_none());
    assert!(config.four_letter_words.allows("srvr"));
    assert!(!config.four_letter_words.allows("mntr") && !config.four_letter_words.allows("isro"));
    assert_eq!(config.admin.command_url, "/commands");
    assert_eq!(config.admin.scheme, AdminScheme::Http);
    assert_eq!(config.metrics.exporter, MetricsExporter::Default);
    assert!(config.fips_mode && config.audit.is_none() && config.pause_monitor.is_none());
    assert_eq!(config.client_tls.tls.client_auth, ClientAuth::Need);
}

#[test]
fn members_have_defaults_too() {
    let config = Machine::member("").config();
    let ensemble = config.ensemble.unwrap();
    assert_eq!(
        (ensemble.my_id.0, ensemble.role),
        (1, MemberRole::Participant)
    );
    assert_eq!(
        (ensemble.init_limit_ticks, ensemble.connect_limit_ticks),
        (10, 10)
    );
    assert_eq!(ensemble.election.connect_timeout_ms, 5000);
    assert_eq!(ensemble.election.read_timeout_ms, None);
    assert_eq!(ensemble.election.bind_attempts, Some(3));
    assert!(ensemble.election.membership_guard);
    assert!(ensemble.leader.serves_clients);
    assert_eq!(ensemble.learner.observer_master_port, None);
    assert!(ensemble.learner.observer_sync_enabled);
    assert!(config.quorum_tls.unwrap().tls.client_hostname_verification);
    assert!(ensemble.sasl.learner.is_none() && ensemble.sasl.may_join.is_none());
    let retries = |value: &str| {
        let machine = Machine::member("").flag(&format!("zookeeper.electionPortBindRetry={value}"));
        machine.config().ensemble.unwrap().election.bind_attempts
    };
    assert_eq!(
        (retries("0"), retries("-4"), retries("9")),
        (None, Some(3), Some(9))
    );
}

#[test]
fn a_proposed_member_list_is_read_from_its_file() {
    let members = "server.1=a:1:2;2181\nserver.2=b:1:2;2181\nserver.3=c:1:2;2181";
    let machine = Machine::with(
        "dataDir=/data\ninitLimit=5\nsyncLimit=2\ndynamicConfigFile=/conf/zoo.cfg.dynamic.100000000",
    )
    .file("/conf/zoo.cfg.dynamic.100000000", members)
    .file("/data/myid", "2");
    assert_eq!(machine.clone().config().ensemble.unwrap().last_seen, None);
    let next = format!("{members}\nserver.4=d:1:2:observer;2181\nversion=200000003");
    let ensemble = machine
        .file("/conf/zoo.cfg.dynamic.next", &next)
        .config()
        .ensemble
        .unwrap();
    assert_eq!(ensemble.membership.version, ConfigVersion(0x1_0000_0000));
    let last_seen = ensemble.last_seen.unwrap();
    assert_eq!(last_seen.version, ConfigVersion(0x2_0000_0003));
    assert_eq!(last_seen.observers().count(), 1);
}

#[test]
fn throttles_follow_from_weights() {
    let lines = "connection_throttle_tokens=10\nconnection_throttle_weight_enabled=true\n\
                 connection_throttle_local_session_weight=2\n\
                 connection_throttle_renew_session_weight=1\nconnection_throttle_freeze_time=100";
    let throttle = Machine::alone(lines).config().limits.connection_throttle;
    let weights = throttle.weights.as_ref().unwrap();
    assert_eq!((weights.global, weights.local, weights.renew), (3, 2, 2));
    assert_eq!((throttle.tokens, throttle.fill_count), (Some(30), 3));
    assert_eq!(throttle.freeze_time_ms, Some(100));
}

#[test]
fn four_letter_words_are_trimmed_and_a_star_is_all() {
    let words = |lines: &str| Machine::alone(lines).config().four_letter_words;
    assert_eq!(
        words("4lw.commands.whitelist=stat, *"),
        FourLetterWords::All
    );
    let some = words("4lw.commands.whitelist=stat, ruok ,,mntr");
    assert!(
        ["stat", "ruok", "mntr", "srvr"]
            .iter()
            .all(|word| some.allows(word))
    );
    assert!(!some.allows("conf"));
    let config = Machine::alone("")
        .flag("readonlymode.enabled=true")
        .config();
    assert!(config.four_letter_words.allows("isro"));
}

#[test]
fn the_file_of_the_official_image_starts_and_missing_features_are_reported() {
    let config = Machine::with(
        "dataDir=/data\ndataLogDir=/datalog\ntickTime=2000\ninitLimit=5\nsyncLimit=2\n\
         autopurge.snapRetainCount=3\nautopurge.purgeInterval=0\nmaxClientCnxns=60\n\
         standaloneEnabled=true\nadmin.enableServer=true\nserver.1=localhost:2888:3888;2181\n",
    )
    .file("/data/myid", "1")
    .config();
    // Java logs the image's list of one server at level error.
    assert_eq!(
        warnings(&config),
        ["Invalid configuration, only one server specified (ignoring)"]
    );
    config.check_supported().unwrap();
    assert_eq!(config.client.plain.unwrap().port, 2181);
    assert_eq!(config.data_log_dir.to_str(), Some("/datalog"));
}

#[test]
fn a_charts_file_without_tls_and_logins_starts() {
    let config = Machine::member(
        "preAllocSize=65536\nsnapCount=100000\nmaxCnxns=0\nreconfigEnabled=false\n\
         quorumListenOnAllIPs=false\nautopurge.purgeInterval=0\nautopurge.snapRetainCount=3\n\
         4lw.commands.whitelist=srvr, mntr, ruok\nadmin.enableServer=true\n\
         admin.serverAddress=0.0.0.0\nadmin.serverPort=8080\npeerType=participant\n\
         sslQuorum=false\nquorum.auth.enableSasl=false\nsessionRequireClientSASLAuth=false\n",
    )
    .variable(
        "JVMFLAGS",
        "-Dzookeeper.electionPortBindRetry=0 -Dzookeeper.fips-mode=true",
    )
    .config();
    config.check_supported().unwrap();
}

#[test]
fn a_charts_file_is_read_as_java_reads_it() {
    let auth = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider";
    let config = Machine::member(&format!(
        "preAllocSize=65536\nsnapCount=100000\nmaxCnxns=0\nreconfigEnabled=false\n\
         quorumListenOnAllIPs=false\nmaxSessionTimeout=40000\nautopurge.purgeInterval=1\n\
         4lw.commands.whitelist=srvr, mntr, ruok\nadmin.serverAddress=0.0.0.0\n\
         admin.serverPort=8080\npeerType=participant\n\
         metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider\n\
         metricsProvider.httpPort=9141\nmetricsProvider.exportJvmInfo=true\n\
         secureClientPort=3181\nclient.secure=true\n\
         serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n\
         ssl.keyStore.location=/tls/k.jks\nssl.keyStore.password=p\nssl.keyStore.type=jks\n\
         ssl.trustStore.location=/tls/t.p12\nssl.clientAuth=want\nsslQuorum=true\n\
         ssl.quorum.keyStore.location=/tls/q.pem\nssl.quorum.clientAuth=need\n\
         authProvider.1={auth}\nsessionRequireClientSASLAuth=true\nquorum.auth.enableSasl=true\n\
         quorum.auth.learnerRequireSasl=true\nquorum.auth.serverRequireSasl=true\n\
         quorum.cnxn.threads.size=20\n"
    ))
    .variable("JVMFLAGS", "-Dzookeeper.electionPortBindRetry=0 -Dzookeeper.fips-mode=false")
    .variable("SERVER_JVMFLAGS", "-Djava.security.auth.login.config=/conf/jaas.conf")
    .file(JAAS_FILE, JAAS)
    .config();
    let told = warnings(&config);
    assert!(
        told.iter().all(|text| text.contains(": no effect: ")),
        "{told:#?}"
    );
    config.check_supported().unwrap();
    assert_eq!(
        config.metrics.exporter,
        MetricsExporter::Prometheus {
            host: "0.0.0.0".to_owned(),
            port: 9141,
            export_process_info: true
        }
    );
    assert_eq!(
        config.client_tls.tls.key_store.format,
        Some(StoreFormat::Jks)
    );
    assert_eq!(config.client_tls.tls.client_auth, ClientAuth::Want);
    assert_eq!(config.auth.providers["1"], AuthProvider::Sasl);
    let Some(SaslAcceptor::DigestMd5(users)) = config.auth.sasl.acceptor else {
        panic!("no users");
    };
    assert_eq!(users.password("bob"), Some(&Secret::new("two")));
    assert!(users.password("nobody").is_none());
    assert!(!config.fips_mode);
    let ensemble = config.ensemble.unwrap();
    assert!(config.quorum_tls.unwrap().is_enabled && ensemble.sasl.server_requires);
    let (Some(SaslInitiator::DigestMd5(login)), Some(SaslAcceptor::DigestMd5(users))) =
        (ensemble.sasl.learner, ensemble.sasl.may_join)
    else {
        panic!("no logins between members");
    };
    assert_eq!(login.user, "zk");
    assert!(users.password("zk").is_some());
    assert_eq!(ensemble.election.bind_attempts, None);
}

#[test]
fn an_operators_file_is_read_as_java_reads_it() {
    let config = Machine::with(
        "4lw.commands.whitelist=cons, envi, conf, crst, srvr, stat, mntr, ruok\ndataDir=/data\n\
         standaloneEnabled=false\nreconfigEnabled=true\nskipACL=yes\nsnapCount=10000\n\
         metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider\n\
         metricsProvider.httpPort=7000\nmetricsProvider.exportJvmInfo=true\ninitLimit=10\n\
         syncLimit=2\ntickTime=2000\nglobalOutstandingLimit=1000\npreAllocSize=65536\n\
         commitLogCount=500\nsnapSizeLimitInKb=4194304\nmaxCnxns=0\nmaxClientCnxns=60\n\
         minSessionTimeout=4000\nmaxSessionTimeout=40000\nautopurge.snapRetainCount=3\n\
         autopurge.purgeInterval=1\nquorumListenOnAllIPs=false\nadmin.serverPort=8080\n\
         dynamicConfigFile=/data/zoo.cfg.dynamic\n",
    )
    .file("/data/zoo.cfg.dynamic", "server.1=zk-0:2888:3888:participant;0.0.0.0:2181\n")
    .file("/data/myid", "1\n")
    .config();
    let told = warnings(&config);
    let (idle, others): (Vec<_>, Vec<_>) =
        told.iter().partition(|text| text.contains(": no effect: "));
    assert_eq!(
        others,
        ["No server failure will be tolerated. You need at least 3 servers."]
    );
    assert!(idle.is_empty(), "{idle:#?}");
    config.check_supported().unwrap();
    assert!(config.features.skip_acl);
    assert_eq!(
        config.ensemble.unwrap().membership.version,
        ConfigVersion(0)
    );
    assert_eq!(config.client.plain.unwrap().port, 2181);
}

#[test]
fn super_users_and_ensemble_names_are_collected() {
    let lines =
        "superUser=ann\nsuperUser.2=bob\nensembleAuthName=a, b\nauthProvider.x=com.example.X";
    let config = Machine::alone(lines).config();
    assert_eq!(
        config.auth.super_users.iter().collect::<Vec<_>>(),
        ["ann", "bob"]
    );
    assert_eq!(
        config.auth.ensemble_names,
        Some(vec!["a".to_owned(), "b".to_owned()])
    );
    assert!(config.auth.providers.is_empty());
}

#[test]
fn the_text_of_the_file_is_kept_as_it_is() {
    let text = "# mine\ndataDir=/data\n\nclientPort=2181\nssl.keyStore.passwordPath=/p";
    assert_eq!(
        Machine::with(text).config().initial_configuration.expose(),
        text
    );
}

#[test]
fn an_oracle_decides_where_neither_groups_nor_weights_do() {
    let with = |lines: &str| {
        let lines = format!("{lines}\noraclePath=/oracle\n");
        let machine = Machine::member(&lines);
        machine.file("/data/myid", "1").config()
    };
    let of =
        |config: &zoarium_config::Config| config.ensemble.as_ref().unwrap().oracle_path.clone();
    let by_majority = with("");
    assert_eq!(of(&by_majority), Some("/oracle".into()));
    assert!(
        warnings(&by_majority).is_empty(),
        "{:?}",
        warnings(&by_majority)
    );
    let by_weight = with("group.1=1:2:3\nweight.1=2");
    assert_eq!(of(&by_weight), None);
    let said = "no effect in an ensemble with groups or weights";
    assert!(has_notice(&by_weight, NoticeLevel::Warn, said));
}
