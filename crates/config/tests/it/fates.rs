//! Effect of every setting: it works, has no effect with one warning, or is refused.

use zoarium_config::registry::{self, Effect, Key, Scope, ValueKind, ValueSet};
use zoarium_config::{Config, exit_code};

use crate::support::{Machine, another_value, warnings};

/// Returns a value of the setting that matches the condition.
fn asking_value(key: &Key, asks: ValueSet) -> String {
    match asks {
        ValueSet::True => "true".to_owned(),
        ValueSet::False => "false".to_owned(),
        ValueSet::OneOf(words) => words[0].to_owned(),
        ValueSet::OtherThan(_) | ValueSet::ListsOtherThan(_) => "unheard-of".to_owned(),
        ValueSet::Any if key.kind == ValueKind::Class => "com.example.Unheard".to_owned(),
        ValueSet::Any => another_value(key).unwrap().to_owned(),
    }
}

/// Returns a standalone server with this setting and all other settings that make the server read
/// it.
fn with(key: &Key, value: &str) -> Machine {
    let name = key.name.replace('*', "more");
    let mut lines = match key.name {
        "secureClientPortAddress" => "secureClientPort=2281\n".to_owned(),
        "quorum.auth.learnerRequireSasl" => {
            "quorum.auth.enableSasl=true\nfips-mode=false\n".to_owned()
        }
        "quorum.auth.serverRequireSasl" => {
            "quorum.auth.enableSasl=true\nquorum.auth.learnerRequireSasl=true\nfips-mode=false\n"
                .to_owned()
        }
        "sessionRequireClientSASLAuth" => {
            format!("authProvider.1={SASL}\n")
        }
        "enforce.auth.schemes" => format!("authProvider.1={ENSEMBLE}\nenforce.auth.enabled=true\n"),
        _ => String::new(),
    };
    match key.scope {
        // The file has another section, which SASL does not use.
        Scope::Property if key.name == JAAS_KEY => {
            let flag = format!("{JAAS_KEY}={value}");
            Machine::alone(&lines).file(value, "Other { };").flag(&flag)
        }
        Scope::Property => Machine::alone(&lines).flag(&format!("{name}={value}")),
        _ => {
            lines.push_str(&format!("{name}={value}\n"));
            let needs_jaas = lines.contains("quorum.auth.enableSasl=true") || lines.contains(SASL);
            if needs_jaas {
                Machine::alone(&lines).jaas()
            } else {
                Machine::alone(&lines)
            }
        }
    }
}

fn is_about(written: Option<&str>, key: &Key) -> bool {
    let written = written.unwrap_or_default();
    let written = written.strip_prefix("-D").unwrap_or(written);
    written == key.name.replace('*', "more")
}

#[test]
fn every_refused_case_is_refused_with_its_line_and_a_hint() {
    let mut checked = 0;
    for key in registry::all() {
        for case in key.effect.cases() {
            let Effect::Refused(asks, refusal) = case else {
                continue;
            };
            let value = match key.name {
                "enforce.auth.schemes" => "ensemble".to_owned(),
                _ => asking_value(key, *asks),
            };
            let config = with(key, &value).config();
            let refused = config
                .refusals
                .iter()
                .find(|refused| is_about(refused.key.as_deref(), key));
            let refused = refused.unwrap_or_else(|| panic!("{}={value} starts", key.name));
            assert_eq!(refused.reason, refusal.reason, "{}", key.name);
            assert_eq!(refused.hint.as_deref(), Some(refusal.way_out));
            assert!(refused.origin.is_some(), "{}", key.name);
            let error = config.check_supported().unwrap_err();
            assert_eq!(error.exit_code, exit_code::INVALID_INVOCATION);
            checked += 1;
        }
    }
    assert!(checked > 15, "{checked}");
}

#[test]
fn every_case_without_effect_is_warned_about_once_and_starts() {
    let mut checked = 0;
    for key in registry::all() {
        for case in key.effect.cases() {
            let Effect::NoEffect(asks, why) = case else {
                continue;
            };
            let config = with(key, &asking_value(key, *asks)).config();
            config.check_supported().unwrap();
            let text = format!("no effect: {why}");
            let told = config.notices.iter().filter(|notice| notice.text == text);
            let told: Vec<_> = told.collect();
            assert_eq!(told.len(), 1, "{}: {:#?}", key.name, config.notices);
            assert!(is_about(told[0].key.as_deref(), key), "{}", key.name);
            checked += 1;
        }
    }
    assert!(checked > 30, "{checked}");
}

#[test]
fn a_setting_that_works_is_neither_refused_nor_reported() {
    let mut checked = 0;
    for key in registry::all().filter(|key| key.effect == Effect::Works) {
        let Some(value) = another_value(key) else {
            continue;
        };
        let Ok(config) = with(key, value).load() else {
            continue;
        };
        config.check_supported().unwrap();
        assert!(!tells_no_effect(&config), "{}", key.name);
        checked += 1;
    }
    assert!(checked > 70, "{checked}");
}

fn tells_no_effect(config: &Config) -> bool {
    let told = warnings(config);
    told.iter().any(|text| text.contains(": no effect: "))
}

/// Neither empty values nor these values request anything.
#[test]
fn values_without_a_request_start_without_notices() {
    let lines = "audit.enable=false\nsslQuorum=false\nportUnification=false\n\
                 sslQuorumReloadCertFiles=false\nclient.portUnification=false\n\
                 client.certReload=false\nquorum.auth.enableSasl=false\n\
                 quorum.auth.learnerRequireSasl=false\nquorum.auth.serverRequireSasl=false\n\
                 sessionRequireClientSASLAuth=false\nenforce.auth.enabled=false\n\
                 enforce.auth.schemes=sasl\nssl.clientAuth=none\nssl.quorum.clientAuth=none\n\
                 ssl.crl=false\nssl.ocsp=false\nssl.keyStore.location=\n\
                 ssl.quorum.keyStore.password=\nadmin.enableServer=false\n\
                 admin.forceHttps=true\nadmin.needClientAuth=true\n\
                 admin.portUnification=true\nenableEagerACLCheck=false\njvm.pause.monitor=false\n\
                 kerberos.removeHostFromPrincipal=false\nsuperUser=\n\
                 security.auth_to_local=DEFAULT\nrequest_stale_latency_check=false\n\
                 request_throttle_drop_stale=true\nrequest_stale_connection_check=true\n\
                 allowSaslFailedClients=false\nsyncEnabled=true\n\
                 metricsProvider.className=org.apache.zookeeper.metrics.impl.DefaultMetricsProvider\n\
                 IPAuthenticationProvider.usexforwardedfor=false\n\
                 netty.server.earlyDropSecureConnectionHandshakes=false\n";
    let config = Machine::alone(lines).config();
    config.check_supported().unwrap();
    let told = warnings(&config);
    assert!(told.is_empty(), "{told:#?}");
}

#[test]
fn one_refusal_names_all_others_in_the_order_of_the_lines() {
    let machine =
        Machine::alone("ssl.crl=true\nssl.ocsp=true\nkerberos.removeRealmFromPrincipal=true");
    let config = machine
        .flag("zookeeper.kerberos.removeHostFromPrincipal=true")
        .config();
    let error = config.check_supported().unwrap_err();
    assert_eq!(
        error.to_string(),
        "/conf/zoo.cfg:3: ssl.crl: enables revocation checks over the network, which this release \
         does not support (remove the setting, and set ssl.crl.location or \
         ssl.quorum.crl.location to a file with revocation lists; also refused: /conf/zoo.cfg:4: ssl.ocsp, \
         /conf/zoo.cfg:5: kerberos.removeRealmFromPrincipal, the command line: \
         -Dzookeeper.kerberos.removeHostFromPrincipal)"
    );
    assert_eq!((error.line(), error.exit_code), (Some(3), 2));
}

#[test]
fn another_error_does_not_hide_missing_features() {
    let error = Machine::alone("tickTime=often\nssl.crl=true").refusal();
    let told: Vec<String> = error.notices().iter().map(ToString::to_string).collect();
    let refusal = "/conf/zoo.cfg:4: ssl.crl: enables revocation checks";
    assert!(
        told.iter().any(|text| text.starts_with(refusal)),
        "{told:#?}"
    );
}

#[test]
fn the_effective_setting_is_judged() {
    let in_file = Machine::alone("ssl.crl=false").flag("zookeeper.ssl.crl=true");
    in_file.config().check_supported().unwrap();
    let in_flag = Machine::alone("").flag("zookeeper.ssl.crl=true");
    let error = in_flag.config().check_supported().unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("the command line: -Dzookeeper.ssl.crl: enables revocation checks"),
        "{error}"
    );
}

/// Names of the settings that Apache ZooKeeper 3.9.5 reads, one per line. `1` or `other` is a
/// placeholder for any label.
#[test]
fn every_setting_of_apache_zookeeper_has_its_fate() {
    let names: Vec<&str> = include_str!("../golden/settings.txt").lines().collect();
    for name in &names {
        let property = format!("zookeeper.{name}");
        let known = registry::find(name)
            .or_else(|| registry::find_property(&property))
            .or_else(|| registry::find_property(name));
        assert!(known.is_some(), "{name}");
    }
    assert!(names.len() > 200, "{}", names.len());
}

/// Effect of a setting. Some settings work only with certain values.
#[derive(Debug, PartialEq, Eq)]
enum Now {
    Works,
    HasNoEffect,
    IsRefused,
}
use Now::{HasNoEffect, IsRefused, Works};

/// Settings that were formerly accepted silently without an effect.
/// `the_server_reads_exactly_the_working_settings` checks that the working ones are read.
const ONCE_INERT: &[(&str, &[Now])] = &[
    ("audit.enable", &[Works]),
    ("enableEagerACLCheck", &[Works]),
    ("authProvider.sasl", &[Works, IsRefused]),
    ("authProvider.x509", &[Works, IsRefused]),
    ("authProvider.key", &[Works, IsRefused]),
    ("superUser", &[Works]),
    ("superUser.1", &[Works]),
    ("X509AuthenticationProvider.superUser", &[Works]),
    ("letAnySaslUserDoX", &[Works]),
    ("allowSaslFailedClients", &[Works]),
    ("SASLAuthenticationProvider.superPassword", &[Works]),
    ("java.security.auth.login.config", &[Works]),
    ("sasl.serverconfig", &[Works]),
    ("kerberos.removeHostFromPrincipal", &[Works, IsRefused]),
    ("kerberos.removeRealmFromPrincipal", &[Works, IsRefused]),
    ("kerberos.canonicalizeHostNames", &[Works, IsRefused]),
    ("security.auth_to_local", &[Works, IsRefused]),
    ("ssl.allowReverseDnsLookup", &[Works]),
    ("ssl.ciphersuites", &[Works]),
    ("ssl.clientAuth", &[Works]),
    ("ssl.clientHostnameVerification", &[Works]),
    ("ssl.context.supplier.class", &[IsRefused]),
    ("ssl.crl", &[IsRefused]),
    ("ssl.enabledProtocols", &[Works]),
    ("ssl.handshakeDetectionTimeoutMillis", &[Works]),
    ("ssl.hostnameVerification", &[Works]),
    ("ssl.keyStore.location", &[Works]),
    ("ssl.keyStore.password", &[Works]),
    ("ssl.keyStore.passwordPath", &[Works]),
    ("ssl.keyStore.type", &[Works, IsRefused]),
    ("ssl.ocsp", &[IsRefused]),
    ("ssl.protocol", &[Works]),
    ("ssl.trustStore.location", &[Works]),
    ("ssl.trustStore.password", &[Works]),
    ("ssl.trustStore.passwordPath", &[Works]),
    ("ssl.trustStore.type", &[Works, IsRefused]),
    ("ssl.quorum.allowReverseDnsLookup", &[Works]),
    ("ssl.quorum.ciphersuites", &[Works]),
    ("ssl.quorum.clientAuth", &[Works]),
    ("ssl.quorum.clientHostnameVerification", &[Works]),
    ("ssl.quorum.context.supplier.class", &[IsRefused]),
    ("ssl.quorum.crl", &[IsRefused]),
    ("ssl.quorum.enabledProtocols", &[Works]),
    ("ssl.quorum.handshakeDetectionTimeoutMillis", &[Works]),
    ("ssl.quorum.hostnameVerification", &[Works]),
    ("ssl.quorum.keyStore.location", &[Works]),
    ("ssl.quorum.keyStore.password", &[Works]),
    ("ssl.quorum.keyStore.passwordPath", &[Works]),
    ("ssl.quorum.keyStore.type", &[Works, IsRefused]),
    ("ssl.quorum.ocsp", &[IsRefused]),
    ("ssl.quorum.protocol", &[Works]),
    ("ssl.quorum.trustStore.location", &[Works]),
    ("ssl.quorum.trustStore.password", &[Works]),
    ("ssl.quorum.trustStore.passwordPath", &[Works]),
    ("ssl.quorum.trustStore.type", &[Works, IsRefused]),
    ("ssl.authProvider", &[Works, IsRefused]),
    ("client.certReload", &[Works]),
    ("sslQuorumReloadCertFiles", &[Works]),
    ("fips-mode", &[Works]),
    ("admin.serverAddress", &[Works]),
    ("admin.serverPort", &[Works]),
    ("admin.commandURL", &[Works]),
    ("admin.idleTimeout", &[Works]),
    ("admin.httpVersion", &[HasNoEffect]),
    ("admin.portUnification", &[Works]),
    ("admin.forceHttps", &[Works]),
    ("admin.needClientAuth", &[Works]),
    ("admin.snapshot.enabled", &[Works]),
    ("admin.restore.enabled", &[Works]),
    ("admin.rateLimiterIntervalInMS", &[Works]),
    ("IPAuthenticationProvider.usexforwardedfor", &[Works]),
    ("metricsProvider.className", &[Works, HasNoEffect]),
    ("metricsProvider.httpHost", &[Works]),
    ("metricsProvider.httpPort", &[Works]),
    ("metricsProvider.exportJvmInfo", &[Works]),
    ("jvm.pause.monitor", &[Works]),
    ("jvm.pause.warn-threshold.ms", &[Works]),
    ("jvm.pause.info-threshold.ms", &[Works]),
    ("jvm.pause.sleep.time.ms", &[Works]),
    ("request_throttle_stall_time", &[Works]),
    ("request_throttle_drop_stale", &[Works]),
    ("request_stale_connection_check", &[Works]),
    ("request_stale_latency_check", &[Works]),
    ("request_throttler.shutdownTimeout", &[Works]),
    ("multiAddress.reachabilityCheckEnabled", &[HasNoEffect]),
    ("multiAddress.reachabilityCheckTimeoutMs", &[HasNoEffect]),
    ("netty.server.outstandingHandshake.limit", &[Works]),
    ("netty.server.earlyDropSecureConnectionHandshakes", &[Works]),
];

#[test]
fn settings_formerly_without_effect_work_or_are_reported() {
    for (name, now) in ONCE_INERT {
        let key = registry::find(name).or_else(|| registry::find_property(name));
        let key = key.unwrap_or_else(|| panic!("{name} is not known"));
        let mut fates = match key.effect {
            Effect::Partly(_) => vec![Works],
            _ => Vec::new(),
        };
        fates.extend(key.effect.cases().iter().map(|case| match case {
            Effect::NoEffect(..) => HasNoEffect,
            Effect::Refused(..) => IsRefused,
            Effect::Works | Effect::Partly(_) => Works,
        }));
        fates.dedup();
        assert_eq!(fates, *now, "{name}");
    }
}

/// Java accepts the setting silently and does not request certificates.
#[test]
fn certificates_of_admin_clients_need_tls() {
    let error = Machine::alone("admin.needClientAuth=true").refusal();
    assert_eq!((error.line(), error.exit_code), (Some(3), 2));
    let text = error.to_string();
    assert!(
        text.contains("admin.needClientAuth: requires certificates"),
        "{text}"
    );
    assert!(text.contains("add admin.forceHttps=true"), "{text}");
    let config = Machine::alone("admin.needClientAuth=true\nadmin.forceHttps=true").config();
    assert!(config.admin.need_client_auth && config.quorum_tls.is_some());
    assert!(Machine::alone("").config().quorum_tls.is_none());
}

const JAAS_KEY: &str = "java.security.auth.login.config";
const SASL: &str = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider";
const ENSEMBLE: &str = "org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider";
