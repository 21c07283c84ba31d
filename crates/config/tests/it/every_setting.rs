//! Check that the configuration reads every setting in the registry.

use zoarium_config::registry::{self, Effect, Key, ValueSet};
use zoarium_config::{Config, Secret, SystemProperties};

use crate::support::{Machine, another_value, machine_with};

/// Settings that are effective only together with others. They have separate tests.
pub(crate) const TOGETHER: &[&str] = &[
    "dataDir",
    "electionAlg",
    "dynamicConfigFile",
    "peerType",
    "enforce.auth.enabled",
    "enforce.auth.schemes",
    "maxSessionTimeout",
    "clientPortAddress",
    "secureClientPortAddress",
    "quorum.auth.enableSasl",
    "quorum.auth.learnerRequireSasl",
    "quorum.auth.serverRequireSasl",
    "quorum.auth.learner.saslLoginContext",
    "quorum.auth.server.saslLoginContext",
    "java.security.auth.login.config",
    "sasl.serverconfig",
    "budget.*",
    "zoarium.admin.*",
];

/// Settings that are refused by their names, without reading their values: Java classes, and TLS of
/// the exporter.
const REFUSED: &[&str] = &[
    "ssl.context.supplier.class",
    "ssl.quorum.context.supplier.class",
    "metricsProvider.httpsPort",
    "metricsProvider.ssl.*",
];

/// Returns the configuration without its record of written settings.
fn meaning(machine: Machine) -> Config {
    let mut config = machine.config();
    config.given.clear();
    config.notices.clear();
    config.refusals.clear();
    config.properties = SystemProperties::new();
    config.initial_configuration = Secret::new("");
    config
}

#[test]
fn every_setting_that_can_have_an_effect_changes_the_configuration() {
    let mut checked = 0;
    let is_idle = |key: &&Key| {
        matches!(key.effect, Effect::NoEffect(ValueSet::Any, _)) || REFUSED.contains(&key.name)
    };
    for key in registry::all().filter(|key| !is_idle(key)) {
        let Some(value) = another_value(key).filter(|_| !TOGETHER.contains(&key.name)) else {
            continue;
        };
        let with = machine_with(key, value);
        let without = Machine::switched_on("");
        assert!(
            meaning(with) != meaning(without),
            "{} is read nowhere",
            key.name
        );
        checked += 1;
    }
    assert!(checked > 140, "{checked}");
}
