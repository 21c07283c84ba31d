//! Refusals in Apache ZooKeeper's words, beyond the rows of the checklist.

use zoarium_config::{NoticeLevel, exit_code};

use crate::support::{MEMBER, Machine, has_notice, warnings};

fn reason(lines: &str) -> String {
    let error = Machine::alone(lines).refusal();
    assert_eq!(error.exit_code, exit_code::INVALID_INVOCATION, "{error}");
    error.reason
}

#[test]
fn a_missing_file_is_named() {
    let error = Machine::default().refusal();
    assert_eq!(error.to_string(), "/conf/zoo.cfg file is missing");
    assert_eq!(error.exit_code, 2);
}

#[test]
fn legacy_arguments_make_a_standalone_server() {
    let config = Machine::default()
        .arguments(&["2182", "/data", "500", "9"])
        .unwrap();
    assert_eq!(config.client.plain.as_ref().unwrap().port, 2182);
    assert_eq!(
        (config.tick_time_ms, config.limits.max_client_cnxns),
        (500, Some(9))
    );
    assert_eq!((config.source, config.ensemble), (None, None));
    let config = Machine::default().arguments(&["2182", "/data"]).unwrap();
    assert_eq!(
        (config.tick_time_ms, config.limits.max_client_cnxns),
        (3000, None)
    );
}

#[test]
fn other_arguments_get_the_usage_line() {
    for arguments in [&[][..], &["a"], &["1", "2", "3", "4", "5"]] {
        let error = Machine::default().arguments(arguments).unwrap_err();
        assert_eq!(
            error.to_string(),
            "Usage: ZooKeeperServerMain configfile | port datadir [ticktime] [maxcnxns]"
        );
        assert_eq!(error.exit_code, 2);
    }
    let error = Machine::default().arguments(&["x", "/data"]).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("the command line: clientPort: For input string: \"x\"")
    );
}

#[test]
fn an_unknown_peer_type_is_refused() {
    assert_eq!(reason("peerType=foo"), "Unrecognised peertype: foo");
    assert_eq!(reason("peerType="), "Unrecognised peertype: ");
}

#[test]
fn quorum_sasl_cannot_be_required_without_being_enabled() {
    assert_eq!(
        reason("quorum.auth.serverRequireSasl=true\nquorum.auth.learnerRequireSasl=true"),
        "quorum.auth.enableSasl is disabled, so cannot enable quorum.auth.serverRequireSasl"
    );
    assert_eq!(
        reason("quorum.auth.learnerRequireSasl=true"),
        "quorum.auth.enableSasl is disabled, so cannot enable quorum.auth.learnerRequireSasl"
    );
    assert_eq!(
        reason("quorum.auth.enableSasl=true\nquorum.auth.serverRequireSasl=true"),
        "quorum.auth.learnerRequireSasl is disabled, so cannot enable \
         quorum.auth.serverRequireSasl"
    );
}

#[test]
fn a_secure_address_needs_its_port() {
    assert_eq!(
        reason("secureClientPortAddress=127.0.0.1"),
        "secureClientPortAddress is set but secureClientPort is not set"
    );
}

#[test]
fn ports_and_hosts_are_checked() {
    let error = Machine::with("dataDir=/data\nclientPort=70000").refusal();
    assert_eq!(
        error.to_string(),
        "/conf/zoo.cfg:2: clientPort: port out of range:70000 (write a port from 0 to 65535)"
    );
    let lines = "clientPortAddress=zoo.example";
    assert_eq!(reason(lines), "zoo.example: Name or service not known");
    let machine = Machine::alone(lines).host("zoo.example", "10.1.2.3");
    let client = machine.config().client.plain.unwrap();
    assert_eq!(
        (client.host.as_str(), client.ip.to_string().as_str()),
        ("zoo.example", "10.1.2.3")
    );
    assert_eq!(reason("admin.serverPort=99999"), "port out of range:99999");
}

#[test]
fn the_secure_port_needs_a_provider_for_its_scheme() {
    assert_eq!(
        reason("secureClientPort=2281\nssl.authProvider=corp"),
        "No auth provider configured for the SSL authentication scheme 'corp'."
    );
    let config = Machine::alone("secureClientPort=2281").config();
    assert_eq!(
        config.properties.get("zookeeper.authProvider.x509"),
        Some("org.apache.zookeeper.server.auth.X509AuthenticationProvider")
    );
    assert_eq!(
        config.auth.providers["x509"],
        zoarium_config::AuthProvider::X509
    );
}

#[test]
fn a_tick_time_of_zero_is_refused() {
    assert_eq!(reason("tickTime=0"), "tickTime is not set");
    assert_eq!(reason("tickTime=-5"), "-5 is not a valid duration");
}

#[test]
fn member_lines_are_refused_with_their_place() {
    let error = Machine::alone("server.one=a:1:2").refusal();
    assert_eq!(
        error.to_string(),
        "/conf/zoo.cfg:3: server.one: For input string: \"one\""
    );
    assert!(reason("server.1=zoo1").starts_with("zoo1 does not have the form server_config or"));
    assert_eq!(reason("server.1=zoo1:2888:x"), "Address unresolved: zoo1:x");
    assert_eq!(
        reason("group.1=1\nserver.1=a:1:2\nserver.2=b:1:2"),
        "Server 2 is not in a group"
    );
}

#[test]
fn observers_need_participants() {
    let observer = "server.9=o:1:2:observer";
    assert_eq!(
        reason(observer),
        "Observers w/o participants is an invalid configuration"
    );
    assert_eq!(
        reason(&format!("server.1=a:1:2\n{observer}")),
        "Observers w/o quorum is an invalid configuration"
    );
    assert_eq!(
        reason("standaloneEnabled=false"),
        "standaloneEnabled = false then number of participants should be >0"
    );
}

#[test]
fn a_client_address_in_two_places_must_be_the_same() {
    let member = |lines: &str, client: &str| {
        let list = MEMBER.replace("clientPort=2181\n", lines).replace(
            "server.1=zoo1:2888:3888",
            &format!("server.1=zoo1:2888:3888;{client}"),
        );
        Machine::with(&list)
            .file("/data/myid", "1")
            .host("zoo1", "10.0.0.1")
    };
    let error = member("clientPort=2182\n", "2181").refusal();
    assert_eq!(
        error.reason,
        "client address for this server (id = 1) in static config file is 0.0.0.0/0.0.0.0:2182 is \
         different from client address found in dynamic file: /0.0.0.0:2181"
    );
    let own = "clientPort=2181\nclientPortAddress=10.0.0.2\n";
    let error = member(own, "zoo1:2181").refusal();
    assert!(
        error.reason.contains(" is /10.0.0.2:2181 is different"),
        "{error}"
    );
    assert!(error.reason.ends_with(": zoo1/10.0.0.1:2181"), "{error}");

    let config = member("clientPort=2181\n", "zoo1:2181").config();
    assert_eq!(config.client.plain.unwrap().to_string(), "zoo1:2181");
    let config = member("", "2181").config();
    assert_eq!(config.client.plain.unwrap().to_string(), "0.0.0.0:2181");
}

#[test]
fn a_client_host_of_the_own_line_must_be_known() {
    let list = MEMBER
        .replace("clientPort=2181\n", "")
        .replace("zoo1:2888:3888", "zoo1:1:2;zoo1:3");
    let error = Machine::with(&list).file("/data/myid", "1").refusal();
    assert_eq!(
        (error.reason.as_str(), error.exit_code),
        ("Address unresolved: zoo1:3", 1)
    );
}

#[test]
fn a_large_id_is_reported_where_ttl_nodes_are_allowed() {
    let list = MEMBER.replace("server.1=", "server.300=");
    let list = Machine::with(&format!("{list}extendedTypesEnabled=true")).file("/data/myid", "300");
    let text = "server id 300 is too large: with extendedTypesEnabled the maximum is 254";
    assert!(has_notice(&list.config(), NoticeLevel::Error, text));
}

#[test]
fn invalid_numbers_of_flags_are_refused_as_in_java() {
    let error = Machine::member("")
        .flag("zookeeper.cnxTimeout=5s")
        .refusal();
    assert!(
        error
            .to_string()
            .starts_with("the command line: -Dzookeeper.cnxTimeout: For input string: \"5s\""),
        "{error}"
    );
    assert_eq!(
        reason("connection_throttle_drop_increase=much"),
        "For input string: \"much\""
    );
    assert_eq!(
        reason("admin.rateLimiterIntervalInMS=1m"),
        "For input string: \"1m\""
    );
}

#[test]
fn an_unknown_digest_algorithm_is_refused() {
    assert_eq!(
        reason("DigestAuthenticationProvider.digestAlg=RipeMD160"),
        "don't support this ACL digest algorithm: RipeMD160 in the current environment"
    );
}

#[test]
fn a_dynamic_file_that_cannot_be_read_is_named() {
    let error = Machine::alone("dynamicConfigFile=/conf/d").refusal();
    assert!(
        error.reason.starts_with("Error processing /conf/d: "),
        "{error}"
    );
    assert_eq!((error.line(), error.exit_code), (Some(3), 2));
}

#[test]
fn of_several_wrong_lines_the_first_is_reported() {
    let error = Machine::alone("initLimit=a\ntickTime=b\nelectionAlg=1").refusal();
    assert_eq!(error.line(), Some(3));
}

#[test]
fn a_path_that_is_relative_is_warned_of() {
    let config = Machine::with("dataDir=data\nclientPort=2181").config();
    assert_eq!(
        warnings(&config),
        ["/conf/zoo.cfg:1: dataDir: data is relative. Prepend ./ to indicate that you're sure!"]
    );
    assert!(warnings(&Machine::with("dataDir=./data\nclientPort=1").config()).is_empty());
    assert_eq!(
        Machine::with("dataDir=\nclientPort=1").refusal().reason,
        "dataDir is not set"
    );
}

/// Returns a member of an ensemble of three whose list was reconfigured, with these two files.
fn reconfigured(list: &str, next: Option<&str>) -> Machine {
    let lines = "dataDir=/data\ninitLimit=5\nsyncLimit=2\nreconfigEnabled=true\n\
                 dynamicConfigFile=/conf/zoo.cfg.dynamic.100000000";
    let machine = Machine::with(lines)
        .file("/conf/zoo.cfg.dynamic.100000000", list)
        .file("/data/myid", "2");
    match next {
        Some(next) => machine.file("/conf/zoo.cfg.dynamic.next", next),
        None => machine,
    }
}

const LIST: &str = "server.1=a:1:2;2181\nserver.2=b:1:2;2181\nserver.3=c:1:2;2181\n";

/// Servers write these files completely, so an incomplete file is damaged. A server that accepted
/// an empty list would run standalone with the history of its ensemble.
#[test]
fn a_corrupt_committed_list_is_refused_with_its_name_and_a_hint() {
    for list in [
        "",
        "\n\n",
        "\0\0\0\0\0\0\0\0",
        "server.1=a:1:2:observer;2181\nserver.2=b:1:2:observer;2181",
        "server.1=a:1:2;2181\nser\u{7f}er.2=b:1:2;2181\nserver.3=c:1:2;2181",
        "server.1=a:1:2;2181\nserver.2=b:1;2181\nserver.3=c:1:2;2181",
    ] {
        let error = reconfigured(list, None).refusal();
        let text = error.to_string();
        assert!(text.contains("/conf/zoo.cfg.dynamic.100000000"), "{text}");
        assert!(text.contains("another member"), "{text}");
    }
}

/// The list affects elections, because the server may have acknowledged it.
#[test]
fn a_corrupt_proposed_list_is_refused_with_its_name_and_a_hint() {
    let with_version = format!("{LIST}version=200000003");
    assert!(reconfigured(LIST, Some(&with_version)).load().is_ok());
    let unknown = with_version.replace("server.3", "serwer.3");
    let no_version = with_version.replace("version", "versioo");
    for next in ["", LIST, &unknown, &no_version, "version=200000003"] {
        let error = reconfigured(LIST, Some(next)).refusal();
        let text = error.to_string();
        assert!(text.contains("/conf/zoo.cfg.dynamic.next"), "{text}");
        assert!(text.contains("no reconfiguration is in progress"), "{text}");
    }
}

/// The settings request protection, but the answers at `/metrics` would be sent in plain text.
#[test]
fn tls_of_the_exporter_of_later_releases_is_refused() {
    let class = "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider";
    for line in [
        "metricsProvider.httpsPort=7443",
        "metricsProvider.ssl.need.client.auth=true",
        "metricsProvider.ssl.keyStore.location=/etc/zookeeper/zk1.pem",
    ] {
        let config = Machine::alone(&format!("{class}\n{line}\n")).config();
        let refusals: Vec<String> = config.refusals.iter().map(ToString::to_string).collect();
        let is_it = |text: &String| text.contains("supports only plain HTTP");
        assert!(refusals.iter().any(is_it), "{line}: {refusals:?}");
    }
}

#[test]
fn a_super_user_by_certificate_without_a_port_for_it_is_a_warning() {
    let super_user = "X509AuthenticationProvider.superUser=CN=ops\n";
    let warned = |more: &str| {
        let config = Machine::alone(&format!("{super_user}{more}")).config();
        let warnings = warnings(&config);
        warnings
            .iter()
            .any(|text| text.contains("X509AuthenticationProvider.superUser: no port accepts TLS"))
    };
    assert!(warned(""));
    assert!(!warned(
        "client.portUnification=true\nssl.keyStore.location=/k.pem\n"
    ));
}
