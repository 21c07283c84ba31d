//! Precedence of the places where a setting may be written, and notices about names.

use zoarium_config::registry::Section;

use crate::support::{Machine, warnings};

fn told(lines: &str) -> Vec<String> {
    let place = "/conf/zoo.cfg:3: ";
    let told = warnings(&Machine::alone(lines).config());
    told.iter()
        .map(|line| line.strip_prefix(place).unwrap_or(line).to_owned())
        .collect()
}

fn told_of_flag(definition: &str) -> Vec<String> {
    let told = warnings(&Machine::alone("").flag(definition).config());
    let place = "the command line: ";
    told.iter()
        .map(|line| line.strip_prefix(place).unwrap_or(line).to_owned())
        .collect()
}

#[test]
fn an_unknown_key_gets_the_nearest_name() {
    assert_eq!(
        told("tikcTime=2000"),
        ["tikcTime: unknown setting; did you mean tickTime?"]
    );
    assert_eq!(
        told("something.else.entirely=1"),
        ["something.else.entirely: unknown setting"]
    );
}

#[test]
fn misnamed_settings_get_the_real_name() {
    assert_eq!(
        told("requestThrottleLimit=5"),
        ["requestThrottleLimit: no effect; this setting is called request_throttle_max_requests"]
    );
    assert_eq!(
        told("zookeeper.superUser=ann"),
        ["zookeeper.superUser: no effect; in a file this setting is called superUser"]
    );
    assert_eq!(
        told("zookeeper.jute.maxbuffer=5"),
        [
            "zookeeper.jute.maxbuffer: no effect in a file; set the system property -Djute.maxbuffer=VALUE"
        ]
    );
    for name in [
        "readonlymode.enabled",
        "leader.nodelay",
        "follower.nodelay",
        "jute.maxbuffer",
    ] {
        let told = told(&format!("{name}=1"));
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("no effect"), "{told:?}");
    }
}

#[test]
fn a_name_without_effect_is_kept_as_java_keeps_it() {
    let config = Machine::alone("zookeeper.superUser=ann\nreadonlymode.enabled=true").config();
    assert_eq!(
        config.properties.get("zookeeper.zookeeper.superUser"),
        Some("ann")
    );
    assert!(config.auth.super_users.is_empty());
    assert!(!config.features.read_only_mode_enabled);
}

#[test]
fn containers_are_read_from_the_file_unless_a_flag_says_otherwise() {
    let lines = "znode.container.checkIntervalMs=500\nznode.container.maxPerMinute=7";
    let config = Machine::alone(lines).config();
    assert_eq!(config.containers.check_interval_ms, 500);
    assert_eq!(config.containers.max_per_minute, 7);
    assert_eq!(
        warnings(&config)[0],
        "/conf/zoo.cfg:3: znode.container.checkIntervalMs: this line works, but Apache \
         ZooKeeper reads the setting only from -Dznode.container.checkIntervalMs"
    );
    let config = Machine::alone(lines)
        .flag("znode.container.checkIntervalMs=900")
        .config();
    assert_eq!(
        (
            config.containers.check_interval_ms,
            config.containers.max_per_minute
        ),
        (900, 7)
    );
}

#[test]
fn settings_of_the_file_only_are_not_taken_from_flags() {
    let config = Machine::alone("").flag("zookeeper.tickTime=7").config();
    assert_eq!(config.tick_time_ms, 3000);
    assert_eq!(
        warnings(&config),
        [
            "the command line: -Dzookeeper.tickTime: no effect; tickTime is read only from the \
          configuration file"
        ]
    );
}

#[test]
fn unknown_flags_get_the_nearest_name() {
    assert_eq!(
        told_of_flag("zookeeper.snapCont=5"),
        ["-Dzookeeper.snapCont: unknown property; did you mean zookeeper.snapCount?"]
    );
    assert_eq!(
        told_of_flag("snapCount=5"),
        ["-DsnapCount: no effect; this property is called zookeeper.snapCount"]
    );
    assert_eq!(
        told_of_flag("zookeeper.jute.maxbuffer=5"),
        ["-Dzookeeper.jute.maxbuffer: no effect; this property is called jute.maxbuffer"]
    );
    assert!(told_of_flag("user.timezone=UTC").is_empty());
    assert_eq!(
        told_of_flag("zookeeper.log.file=zk.log"),
        [
            "-Dzookeeper.log.file: no effect: this server does not read settings of Java's logging; \
          the variable RUST_LOG sets the log levels"
        ]
    );
}

#[test]
fn jvm_variables_precede_the_command_line_and_the_later_value_wins() {
    let machine = Machine::alone("")
        .variable(
            "SERVER_JVMFLAGS",
            "-Xmx1g -Dzookeeper.snapCount=11 -Dzookeeper.maxCnxns=11",
        )
        .variable(
            "JVMFLAGS",
            "-Dzookeeper.snapCount=22 -Dzookeeper.commitLogCount=2200",
        )
        .flag("zookeeper.snapCount=33");
    let config = machine.config();
    assert_eq!(config.storage.snap_count, 33);
    assert_eq!(config.storage.commit_log_count, 2200);
    assert_eq!(config.limits.max_cnxns, Some(11));
    assert_eq!(
        warnings(&config),
        ["SERVER_JVMFLAGS: no effect because this server is not a JVM: -Xmx1g"]
    );
}

#[test]
fn multi_address_of_the_file_beats_the_flag_and_sync_enabled_does_not() {
    let machine = Machine::member("multiAddress.reachabilityCheckTimeoutMs=7\nsyncEnabled=true");
    let config = machine
        .flag("zookeeper.multiAddress.reachabilityCheckTimeoutMs=9")
        .flag("zookeeper.multiAddress.reachabilityCheckEnabled=false")
        .flag("zookeeper.observer.syncEnabled=false")
        .config();
    let ensemble = config.ensemble.as_ref().unwrap();
    assert_eq!(ensemble.multi_address.reachability_timeout_ms, 7);
    assert!(!ensemble.multi_address.reachability_check);
    assert!(!ensemble.learner.observer_sync_enabled);
    let wins = "/conf/zoo.cfg:9: multiAddress.reachabilityCheckTimeoutMs: no effect: ";
    let told = warnings(&config);
    assert_eq!(told.iter().filter(|text| text.starts_with(wins)).count(), 1);
    assert_eq!(told.len(), 5, "{told:#?}");
}

#[test]
fn old_names_of_properties_are_consulted_last() {
    let threshold = |machine: Machine| machine.config().storage.fsync_warning_threshold_ms;
    let old = Machine::alone("").flag("fsync.warningthresholdms=20");
    assert_eq!(threshold(old.clone()), 20);
    assert_eq!(
        threshold(old.flag("zookeeper.fsync.warningthresholdms=30")),
        30
    );
}

#[test]
fn numbers_of_properties_fall_back_to_the_default_and_say_so() {
    let config = Machine::alone("snapCount=many").config();
    assert_eq!(config.storage.snap_count, 100_000);
    assert_eq!(
        warnings(&config),
        ["/conf/zoo.cfg:3: snapCount: `many` is not a valid number; the default 100000 is used"]
    );
    let config = Machine::alone("globalOutstandingLimit=0x10\npreAllocSize=0x10").config();
    assert_eq!(config.limits.global_outstanding_limit, 16);
    assert_eq!(config.storage.prealloc_kb, 65_536);
}

#[test]
fn words_of_properties_are_false_unless_true() {
    let config = Machine::alone("extendedTypesEnabled=yes\nforceSync=NO\nskipACL=true").config();
    assert!(!config.features.extended_types_enabled);
    assert!(config.storage.force_sync);
    assert!(!config.features.skip_acl);
    assert_eq!(warnings(&config).len(), 3);
    let config = Machine::alone("extendedTypesEnabled=True\nforceSync=no\nskipACL=yes").config();
    assert!(config.features.extended_types_enabled && config.features.skip_acl);
    assert!(!config.storage.force_sync);
}

#[test]
fn members_of_a_static_file_are_seen_among_the_properties() {
    let config = Machine::member("").config();
    assert_eq!(
        config.properties.get("zookeeper.server.2"),
        Some("zoo2:2888:3888")
    );
}

#[test]
fn written_settings_are_listed_by_section() {
    let config = Machine::alone("ssl.keyStore.location=/k.jks")
        .flag("jute.maxbuffer=5")
        .config();
    let names = |section| -> Vec<String> {
        config
            .given_in(section)
            .map(|given| given.name.clone())
            .collect()
    };
    assert_eq!(names(Section::ClientTls), ["ssl.keyStore.location"]);
    assert_eq!(
        names(Section::Core),
        ["dataDir", "clientPort", "jute.maxbuffer"]
    );
    assert!(names(Section::QuorumTls).is_empty());
}

#[test]
fn no_password_is_in_a_notice_an_error_or_debug_output() {
    let lines = "ssl.keyStore.password=hunter2\nDigestAuthenticationProvider.superDigest=hunter2\n\
                 SASLAuthenticationProvider.superPassword=hunter2\nssl.keyStor.password=hunter2";
    let machine = Machine::alone(lines).flag("zookeeper.ssl.trustStore.password=hunter2");
    let config = machine.config();
    let mut shown = format!("{config:?}");
    for notice in &config.notices {
        shown.push_str(&notice.to_string());
    }
    assert!(!shown.contains("hunter2"), "{shown}");
    assert_eq!(config.auth.super_digest.unwrap().expose(), "hunter2");
}
