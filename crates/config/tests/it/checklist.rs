//! Checklist that specifies how this crate reads a configuration. C1 to C3, C22, and C24 to C26
//! also have tests next to the code that they check. C33 and C34 concern ports and directories.
//! This file checks only the settings for them, because the exit codes belong to the server.

use crate::support::{Machine, ZOO_CFG, has_notice, warnings};
use proto::ConfigVersion;
use zoarium_config::{Config, NoticeLevel};

fn refused(machine: Machine) -> String {
    let error = machine.refusal();
    assert_eq!(error.exit_code, 2, "{error}");
    assert_eq!(error.sentence(), "Invalid config, exiting abnormally");
    error.reason
}

fn port(config: &Config) -> u16 {
    config.client.plain.as_ref().unwrap().port
}

#[test]
fn c1_separators_and_continuations_are_all_the_same() {
    for line in [
        "clientPort=2182",
        "clientPort: 2182",
        "clientPort 2182",
        "clientPort=\\\n 2182",
    ] {
        assert_eq!(
            port(&Machine::with(&format!("dataDir=/data\n{line}")).config()),
            2182
        );
    }
}

#[test]
fn c2_a_hash_inside_a_value_is_data() {
    assert_eq!(
        refused(Machine::alone("tickTime=2000 # x")),
        "For input string: \"2000 # x\""
    );
}

#[test]
fn c3_the_last_of_a_duplicate_wins() {
    let config = Machine::alone("tickTime=1000\ntickTime=4000").config();
    assert_eq!(config.tick_time_ms, 4000);
    assert!(warnings(&config).is_empty());
}

#[test]
fn c4_an_unknown_key_is_accepted_and_becomes_a_property() {
    let config = Machine::alone("my.own.key = 7 ").config();
    assert_eq!(config.properties.get("zookeeper.my.own.key"), Some("7"));
    assert_eq!(config.properties.get("zookeeper.tickTime"), None);
}

#[test]
fn c5_the_file_beats_a_flag_for_settings_that_become_properties() {
    let machine = Machine::alone("snapCount=500").flag("zookeeper.snapCount=700");
    let config = machine.config();
    assert_eq!(config.storage.snap_count, 500);
    assert_eq!(config.properties.get("zookeeper.snapCount"), Some("500"));
    assert_eq!(
        warnings(&config),
        ["-Dzookeeper.snapCount: /conf/zoo.cfg:3 overrides this property"]
    );
}

#[test]
fn c6_a_number_that_is_none_is_refused_with_its_place() {
    let error = Machine::alone("tickTime=2s").refusal();
    assert_eq!(
        (error.line(), error.key.as_deref(), error.exit_code),
        (Some(3), Some("tickTime"), 2)
    );
    assert_eq!(error.file().unwrap().to_str(), Some(ZOO_CFG));
    assert_eq!(
        error.to_string(),
        "/conf/zoo.cfg:3: tickTime: For input string: \"2s\" (write a whole number of ms such as \
         3000, without other characters)"
    );
}

#[test]
fn c7_standalone_enabled_takes_true_or_false_only() {
    assert_eq!(
        refused(Machine::alone("standaloneEnabled=yes")),
        "Invalid option yes for standaloneEnabled. Choose 'true' or 'false.'"
    );
    assert!(
        Machine::alone("standaloneEnabled=TRUE")
            .config()
            .features
            .standalone_enabled
    );
}

#[test]
fn c8_there_is_only_one_election_algorithm() {
    let reason = "Invalid electionAlg value. Only 3 is supported.";
    assert_eq!(refused(Machine::alone("electionAlg=1")), reason);
    Machine::alone("electionAlg=3").config();
}

#[test]
fn c9_data_dir_must_be_set() {
    assert_eq!(
        refused(Machine::with("clientPort=2181")),
        "dataDir is not set"
    );
}

#[test]
fn c10_an_address_needs_its_port() {
    assert_eq!(
        refused(Machine::with("dataDir=/data\nclientPortAddress=127.0.0.1")),
        "clientPortAddress is set but clientPort is not set"
    );
}

#[test]
fn c11_a_configuration_without_a_client_port_is_valid() {
    let config = Machine::with("dataDir=/data").config();
    assert_eq!(
        (config.client.plain.as_ref(), config.client.secure.as_ref()),
        (None, None)
    );
    assert!(has_notice(
        &config,
        NoticeLevel::Info,
        "clientPort is not set"
    ));
}

#[test]
fn c12_one_member_line_is_standalone_with_an_error_in_the_log() {
    let config = Machine::alone("server.1=localhost:2888:3888").config();
    assert!(config.ensemble.is_none());
    let text = "Invalid configuration, only one server specified (ignoring)";
    assert!(has_notice(&config, NoticeLevel::Error, text));
}

#[test]
fn c13_one_member_without_standalone_is_a_quorum_of_one() {
    let lines = "standaloneEnabled=false\ninitLimit=5\nsyncLimit=2\nserver.1=localhost:2888:3888";
    let config = Machine::alone(lines).file("/data/myid", "1").config();
    assert_eq!(config.ensemble.unwrap().membership.members.len(), 1);
}

#[test]
fn c14_two_members_and_an_even_number_are_warned_of() {
    let members = |count: u8| {
        let mut lines = "initLimit=5\nsyncLimit=2\n".to_owned();
        for sid in 1..=count {
            lines.push_str(&format!("server.{sid}=zoo{sid}:2888:3888\n"));
        }
        warnings(&Machine::alone(&lines).file("/data/myid", "1").config())
    };
    assert_eq!(
        members(2),
        ["No server failure will be tolerated. You need at least 3 servers."]
    );
    assert!(members(3).is_empty());
    assert_eq!(
        members(4),
        ["Non-optimal configuration, consider an odd number of servers."]
    );
}

#[test]
fn c15_a_quorum_needs_init_limit_sync_limit_and_myid_in_this_order() {
    let servers = "server.1=a:2888:3888\nserver.2=b:2888:3888\n";
    let refused = |lines: &str| refused(Machine::alone(&format!("{servers}{lines}")));
    assert_eq!(refused(""), "initLimit is not set");
    assert_eq!(refused("initLimit=0\nsyncLimit=1"), "initLimit is not set");
    assert_eq!(refused("initLimit=5"), "syncLimit is not set");
    assert_eq!(refused("initLimit=5\nsyncLimit=2"), "myid file is missing");
}

#[test]
fn c16_an_own_id_that_is_not_listed_ends_with_code_1() {
    let error = Machine::member("").file("/data/myid", "9").refusal();
    assert_eq!(
        (error.reason.as_str(), error.exit_code),
        ("My id 9 not in the peer list", 1)
    );
    assert_eq!(
        error.to_string(),
        "/data/myid: My id 9 not in the peer list (the member list contains 1, 2, 3)"
    );
    assert_eq!(error.sentence(), "Unexpected exception, exiting abnormally");
}

#[test]
fn c17_myid_contains_only_a_number() {
    for (text, shown) in [("1 \n", "1 "), ("one", "one"), ("", "null"), ("\n1", "")] {
        let reason = refused(Machine::member("").file("/data/myid", text));
        assert_eq!(reason, format!("serverid {shown} is not a number"));
    }
    for text in ["1\r\n", "1", "+1\nanything", "001"] {
        Machine::member("").file("/data/myid", text).config();
    }
}

#[test]
fn c18_the_member_list_wins_over_peer_type() {
    let config = Machine::member("peerType=observer").config();
    let text = "Peer type from servers list (PARTICIPANT) doesn't match peerType (OBSERVER). \
                Defaulting to servers list.";
    assert_eq!(warnings(&config), [text]);
    assert_eq!(
        config.ensemble.unwrap().role,
        zoarium_config::members::MemberRole::Participant
    );
}

#[test]
fn c19_members_and_a_dynamic_file_exclude_each_other() {
    for key in ["server.1", "group.1", "weight.1"] {
        let lines = format!("dynamicConfigFile=/conf/d\n{key}=1");
        assert_eq!(
            refused(Machine::alone(&lines)),
            format!("parameter: {key} must be in a separate dynamic config file")
        );
    }
}

#[test]
fn c20_a_dynamic_file_holds_members_only() {
    let refused = |text| {
        let machine = Machine::alone("dynamicConfigFile=/conf/d").file("/conf/d", text);
        let error = machine.refusal();
        assert_eq!(error.file().unwrap().to_str(), Some("/conf/d"));
        error.reason
    };
    assert_eq!(
        refused("server.1=a:1:2\nclientPort=1"),
        "Unrecognised parameter: clientPort"
    );
    assert_eq!(
        refused("version=1"),
        "dynamic file shouldn't have version inside"
    );
}

#[test]
fn c21_the_version_is_in_the_name_of_the_dynamic_file() {
    let static_file = "dataDir=/data\ninitLimit=5\nsyncLimit=2\ndynamicConfigFile=";
    let members = "server.1=a:1:2;2181\nserver.2=b:1:2;2181\nserver.3=c:1:2;2181";
    for (name, version) in [
        ("/c/d.20000000e", 0x2_0000_000e),
        ("/c/dynamic", 0),
        ("/c/d.xyz", 0),
    ] {
        let machine = Machine::with(&format!("{static_file}{name}")).file(name, members);
        let ensemble = machine.file("/data/myid", "2").config().ensemble.unwrap();
        assert_eq!(ensemble.membership.version, ConfigVersion(version));
        assert_eq!(ensemble.dynamic_file.unwrap().to_str(), Some(name));
    }
}

#[test]
fn c23_whether_the_file_is_rewritten_follows_from_reconfig_enabled() {
    assert!(!Machine::member("").config().features.reconfig_enabled);
    let config = Machine::member("reconfigEnabled=true").config();
    assert!(config.features.reconfig_enabled);
    assert_eq!(config.ensemble.unwrap().dynamic_file, None);
}

#[test]
fn c24_ipv6_is_in_brackets() {
    let lines = "initLimit=5\nsyncLimit=2\nserver.1=[::1]:2888:3888;[::1]:2181\n\
                 server.2=[::2]:2888:3888;[::2]:2181\nserver.3=[::3]:2888:3888;[::3]:2181";
    let machine = Machine::with(&format!("dataDir=/data\n{lines}")).file("/data/myid", "1");
    let config = machine.config();
    let client = config.client.plain.unwrap();
    assert_eq!((client.ip.to_string().as_str(), client.port), ("::1", 2181));
    assert_eq!(client.to_string(), "[0:0:0:0:0:0:0:1]:2181");
}

#[test]
fn c25_quorum_and_election_port_differ() {
    assert_eq!(
        refused(Machine::alone("server.5=zoo:2888:2888")),
        "Client and election port must be different! Please update the configuration file on \
         server.5"
    );
}

#[test]
fn c26_several_addresses_need_multi_address() {
    let line = "server.1=a:2888:3888|b:2888:3888";
    assert_eq!(
        refused(Machine::alone(line)),
        "Multiple address feature is disabled, but multiple addresses were specified for sid 1"
    );
    Machine::alone(line)
        .flag("zookeeper.multiAddress.enabled=true")
        .config();
    Machine::alone(&format!("{line}\nmultiAddress.enabled=true")).config();
}

#[test]
fn c27_three_snapshots_are_kept_at_least() {
    let config = Machine::alone("autopurge.snapRetainCount=1").config();
    assert_eq!(config.purge.retain, 3);
    let text = "Invalid autopurge.snapRetainCount: 1. Defaulting to 3";
    assert!(has_notice(&config, NoticeLevel::Warn, text));
}

#[test]
fn c28_session_timeouts_follow_from_ticks_and_are_in_order() {
    let sessions = Machine::alone("tickTime=2000").config().sessions;
    assert_eq!(
        (sessions.min_timeout_ms, sessions.max_timeout_ms),
        (4000, 40_000)
    );
    let sessions = Machine::alone("minSessionTimeout=-1\nmaxSessionTimeout=90000")
        .config()
        .sessions;
    assert_eq!(
        (sessions.min_timeout_ms, sessions.max_timeout_ms),
        (6000, 90_000)
    );
    assert_eq!(
        refused(Machine::alone("minSessionTimeout=90000")),
        "minSessionTimeout must not be larger than maxSessionTimeout"
    );
}

#[test]
fn c29_a_tick_is_three_seconds_unless_written() {
    assert_eq!(Machine::alone("").config().tick_time_ms, 3000);
}

#[test]
fn c30_jute_maxbuffer_has_no_effect_in_the_file() {
    let config = Machine::alone("jute.maxbuffer=4194304").config();
    assert_eq!(config.limits.jute_max_buffer, 0xf_ffff);
    assert_eq!(
        warnings(&config),
        [
            "/conf/zoo.cfg:3: jute.maxbuffer: no effect in a file; set the system property \
          -Djute.maxbuffer=..."
        ]
    );
    let config = Machine::alone("").flag("jute.maxbuffer=0x400000").config();
    assert_eq!(
        (config.limits.jute_max_buffer, config.limits.jute_extra_size),
        (1 << 22, 1 << 22)
    );
}

#[test]
fn c31_enforced_authentication_needs_schemes() {
    assert_eq!(
        refused(Machine::alone("enforce.auth.enabled=true")),
        "zookeeper.enforce.auth.enabled is true zookeeper.enforce.auth.schemes must be  configured."
    );
    assert_eq!(
        refused(Machine::alone(
            "enforce.auth.enabled=true\nenforce.auth.schemes=digest, sasl"
        )),
        "Authentication scheme sasl is not available."
    );
    let provider = "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider";
    let lines = format!("{provider}\nsessionRequireClientSASLAuth=true");
    let auth = Machine::alone(&lines).jaas().config().auth;
    assert_eq!(auth.enforced_schemes, Some(vec!["sasl".to_owned()]));
}

#[test]
fn c32_an_unknown_metrics_class_is_refused() {
    let reason = "metrics provider class was not found";
    assert_eq!(
        refused(Machine::alone("metricsProvider.className=com.example.M")),
        reason
    );
}

#[test]
fn c35_the_admin_server_can_be_switched_off() {
    let admin = |lines: &str| Machine::alone(lines).config().admin;
    assert!(!admin("admin.enableServer=false").is_enabled);
    assert!(admin("admin.enableServer=FALSE").is_enabled);
    assert_eq!((admin("").is_enabled, admin("").port), (true, 8080));
}

#[test]
fn c36_settings_without_effect_never_fail_the_start() {
    let lines = "quorum.cnxn.threads.size=abc\nintBufferStartingSizeBytes=1\n\
                 nio.numSelectorThreads=0\ncommitProcessor.maxCommitBatchSize=0\n\
                 metricsProvider.numWorkerThreads=x\nwatcherCleanThreshold=many";
    let config = Machine::alone(lines).flag("leader.nodelay=maybe").config();
    let told = warnings(&config);
    assert_eq!(told.len(), 7, "{told:#?}");
    assert!(
        told.iter().all(|line| line.contains(": no effect: ")),
        "{told:#?}"
    );
}
