//! No setting is in the registry without being read.

use config::registry::{self, DefaultValue, Effect, Key, Kind, Scope};
use config::{Config, Secret, SystemProperties};

use crate::support::Machine;

/// Settings that act only together with others; they have tests of their own.
const TOGETHER: &[&str] = &[
    "dataDir",
    "electionAlg",
    "dynamicConfigFile",
    "peerType",
    "enforce.auth.enabled",
    "enforce.auth.schemes",
    "maxSessionTimeout",
    "clientPortAddress",
    "secureClientPortAddress",
    "quorum.auth.learnerRequireSasl",
    "quorum.auth.serverRequireSasl",
];

/// What makes other settings count.
const BASE: &str = "\
authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider
metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider
jvm.pause.monitor=true
connection_throttle_weight_enabled=true
connection_throttle_tokens=7
";

/// A value unlike the default.
fn another_value(key: &Key) -> Option<&'static str> {
    Some(match (key.kind, key.default) {
        (Kind::Flag, DefaultValue::Value("true") | DefaultValue::Derived(_)) => "false",
        (Kind::Flag, _) if BASE.contains(key.name) => "false",
        (Kind::Flag, _) => "true",
        (Kind::Word { special, .. }, _) => special,
        (Kind::Choice(words), _) => words[1],
        (Kind::Class, _) if key.family().is_some() => {
            "org.apache.zookeeper.server.auth.KeyAuthenticationProvider"
        }
        (Kind::Class | Kind::Member, _) => return None,
        (Kind::Host, _) => "10.9.8.7",
        (Kind::Ratio, _) => "0.7",
        (Kind::Int | Kind::Long | Kind::Port, _) => "2999",
        _ if key.name.ends_with("digestAlg") => "MD5",
        _ => "another",
    })
}

/// The configuration without its record of what was written.
fn meaning(machine: Machine) -> Config {
    let mut config = machine.config();
    config.given.clear();
    config.notices.clear();
    config.properties = SystemProperties::new();
    config.initial_configuration = Secret::new("");
    config
}

#[test]
fn every_setting_with_an_effect_changes_the_configuration() {
    let mut checked = 0;
    for key in registry::all().filter(|key| key.effect == Effect::Used) {
        let Some(value) = another_value(key).filter(|_| !TOGETHER.contains(&key.name)) else {
            continue;
        };
        let name = key.name.replace('*', "more");
        let without = Machine::member(BASE);
        let with = match key.scope {
            Scope::Property => without.clone().flag(&format!("{name}={value}")),
            _ => Machine::member(&format!("{BASE}{name}={value}")),
        };
        assert!(meaning(with) != meaning(without), "{name} is read nowhere");
        checked += 1;
    }
    assert!(checked > 140, "{checked}");
}
