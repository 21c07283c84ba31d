//! Registry of all settings.
//!
//! One [`Key`] per setting contains every fact about it. The loader, the suggestions for misspelt
//! keys, the warnings about settings without effect, the refusals of missing features and
//! docs/CONFIG.md use it. To add a setting, add its line to a section and read it in its struct. To
//! change the effect of a setting, change the [`Effect`] in its line.
//!
//! Source: zookeeperAdmin.md of 3.9.5, QuorumPeerConfig, and the classes that read the properties.

use std::borrow::Cow;

pub(crate) mod cluster;
pub(crate) mod core;
mod effect;
mod key;
pub(crate) mod operations;
pub(crate) mod security;
mod since;
pub(crate) mod storage;

pub(crate) use effect::KERBEROS;
pub use effect::{Condition, Effect, Refusal, ValueSet, Verdict};
pub use key::{DefaultValue, Key, OutOfRange, PREFIX, Range, Scope, Tier, ValueKind};
pub use since::since;

/// Declares settings and their list.
macro_rules! keys {
    ($($name:ident = $key:expr;)+) => {
        $(pub(crate) static $name: super::Key = $key;)+

        pub(crate) static ALL: &[&super::Key] = &[$(&$name),+];
    };
}
use keys;

/// Section of the registry, with its title in docs/CONFIG.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Section {
    /// Directories, ports, time, sessions, features.
    Core,
    /// The ensemble.
    Cluster,
    /// Log, snapshots, limits, throttling.
    StorageAndLimits,
    /// Authentication of clients.
    Authentication,
    /// `ssl.*`.
    ClientTls,
    /// `ssl.quorum.*`.
    QuorumTls,
    /// Admin server, metrics, four-letter words, audit, and internals of the Java server.
    Operations,
}

impl Section {
    /// All sections, in the order of the documentation.
    pub const ALL: [Self; 7] = [
        Self::Core,
        Self::Cluster,
        Self::StorageAndLimits,
        Self::Authentication,
        Self::ClientTls,
        Self::QuorumTls,
        Self::Operations,
    ];

    /// Returns the settings of the section.
    pub fn keys(self) -> &'static [&'static Key] {
        match self {
            Self::Core => core::ALL,
            Self::Cluster => cluster::ALL,
            Self::StorageAndLimits => storage::ALL,
            Self::Authentication => security::ALL,
            Self::ClientTls => security::client_tls::ALL,
            Self::QuorumTls => security::quorum_tls::ALL,
            Self::Operations => operations::ALL,
        }
    }

    /// Returns the heading of the section.
    pub fn title(self) -> &'static str {
        match self {
            Self::Core => "Server, ports, sessions",
            Self::Cluster => "Ensemble",
            Self::StorageAndLimits => "Storage and limits",
            Self::Authentication => "Authentication",
            Self::ClientTls => "TLS for clients",
            Self::QuorumTls => "TLS between members",
            Self::Operations => "Admin server, metrics, observability",
        }
    }
}

/// Returns all settings.
pub fn all() -> impl Iterator<Item = &'static Key> {
    Section::ALL
        .into_iter()
        .flat_map(|section| section.keys().iter().copied())
}

/// Returns the setting, or the family of settings, for a name in zoo.cfg.
pub fn find(name: &str) -> Option<&'static Key> {
    best(name, |key| Some(Cow::Borrowed(key.name)))
}

/// Returns the setting, or the family of settings, for a full system property name.
pub fn find_property(name: &str) -> Option<&'static Key> {
    let known = best(name, |key| key.property_name().map(Cow::Owned));
    known.or_else(|| all().find(|key| key.also.contains(&name)))
}

/// Text that replaces a secret in output.
pub const HIDDEN: &str = "*****";

/// Returns whether the value of a setting is a secret, by its name in the file or its full property
/// name. An unknown setting with a suspicious name is also a secret, because it may be misspelt or
/// belong to another program.
pub fn is_secret(name: &str) -> bool {
    match find(name.strip_prefix(PREFIX).unwrap_or(name)).or_else(|| find_property(name)) {
        Some(key) => key.kind == ValueKind::Secret,
        None => name.to_ascii_lowercase().contains("password"),
    }
}

/// Returns the best match: an exact name before a family, and a longer family before a shorter one.
fn best(
    name: &str,
    known_as: impl Fn(&'static Key) -> Option<Cow<'static, str>>,
) -> Option<&'static Key> {
    let fits = |known: &str| match known.strip_suffix('*') {
        Some(beginning) if name.len() > beginning.len() && name.starts_with(beginning) => {
            Some(beginning.len())
        }
        None if known == name => Some(usize::MAX),
        _ => None,
    };
    all()
        .filter_map(|key| Some((fits(&known_as(key)?)?, key)))
        .max_by_key(|(length, _)| *length)
        .map(|(_, key)| key)
}

/// Wrong names of settings in the manual, and their real names.
///
/// Source: zookeeperAdmin.md of 3.9.5.
pub(crate) const MISNAMED: &[(&str, &str)] = &[
    ("connectionMaxTokens", "connection_throttle_tokens"),
    ("connectionTokenFillTime", "connection_throttle_fill_time"),
    ("connectionTokenFillCount", "connection_throttle_fill_count"),
    ("connectionFreezeTime", "connection_throttle_freeze_time"),
    (
        "connectionDropIncrease",
        "connection_throttle_drop_increase",
    ),
    (
        "connectionDropDecrease",
        "connection_throttle_drop_decrease",
    ),
    (
        "connectionDecreaseRatio",
        "connection_throttle_decrease_ratio",
    ),
    ("requestThrottleLimit", "request_throttle_max_requests"),
    ("requestThrottleStallTime", "request_throttle_stall_time"),
    ("requestThrottleDropStale", "request_throttle_drop_stale"),
    ("requestStaleLatencyCheck", "request_stale_latency_check"),
    (
        "requestStaleConnectionCheck",
        "request_stale_connection_check",
    ),
    (
        "advancedFlowControlEnabled",
        "netty.advancedFlowControl.enabled",
    ),
    (
        "outstandingHandshake.limit",
        "netty.server.outstandingHandshake.limit",
    ),
    ("throttledOpWaitTime", "throttled_op_wait_time"),
    ("maxConcurrentSnapSyncs", "leader.maxConcurrentSnapSyncs"),
    ("maxConcurrentDiffSyncs", "leader.maxConcurrentDiffSyncs"),
    ("maxTimeToWaitForEpoch", "leader.maxTimeToWaitForEpoch"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::formats::java;

    #[test]
    fn every_name_stands_for_one_setting() {
        let mut names = BTreeSet::new();
        let mut properties = BTreeSet::new();
        for key in all() {
            assert!(names.insert(key.name), "{} twice", key.name);
            // The prefix of a family may match a wider family.
            let found = find(key.name.trim_end_matches('*'));
            assert_eq!(
                found.is_some_and(|found| found.family().is_none()),
                key.family().is_none()
            );
            let property = key.property_name();
            // syncEnabled is the only setting that shares a property with another setting.
            if let Some(property) = property.filter(|_| key.name != "syncEnabled") {
                assert!(properties.insert(property), "{}", key.name);
            }
            assert!(key.doc.ends_with('.'), "{} has no sentence", key.name);
        }
        assert!(names.len() > 200, "{}", names.len());
    }

    #[test]
    fn every_default_is_a_value_of_its_kind_and_in_range() {
        for key in all() {
            let DefaultValue::Value(text) = key.default else {
                continue;
            };
            let is_right = match key.kind {
                ValueKind::Int | ValueKind::Long | ValueKind::Port => {
                    let number = java::parse_decimal(text).unwrap();
                    key.range
                        .is_none_or(|range| (range.min..=range.max).contains(&number))
                }
                ValueKind::Ratio => java::parse_ratio(text).is_some(),
                ValueKind::Flag => ["true", "false"].contains(&text),
                ValueKind::Word { special, other } => [special, other].contains(&text),
                ValueKind::Choice(words) => words.contains(&text),
                ValueKind::Path | ValueKind::Secret | ValueKind::Member => false,
                ValueKind::Host | ValueKind::Text | ValueKind::List | ValueKind::Class => true,
            };
            assert!(is_right, "{}: {text}", key.name);
        }
    }

    #[test]
    fn a_setting_that_belongs_to_another_names_a_real_one() {
        for condition in all().filter_map(|key| key.only_with) {
            assert!(find(condition.name).is_some(), "{}", condition.name);
        }
    }

    #[test]
    fn misnamed_settings_point_to_real_ones() {
        for (written, real) in MISNAMED {
            assert!(find(written).is_none(), "{written}");
            assert!(find(real).is_some(), "{real}");
        }
    }

    #[test]
    fn the_longest_family_and_the_exact_name_win() {
        let name = |key: Option<&'static Key>| key.map(|key| key.name);
        assert_eq!(
            name(find("metricsProvider.httpPort")),
            Some("metricsProvider.httpPort")
        );
        assert_eq!(
            name(find("metricsProvider.other")),
            Some("metricsProvider.*")
        );
        assert_eq!(
            name(find("nio.sessionlessCnxnTimeout")),
            Some("nio.sessionlessCnxnTimeout")
        );
        assert_eq!(name(find("server.1")), Some("server.*"));
        let realm = "zookeeper.server.realm";
        assert_eq!(name(find_property(realm)), Some(realm));
        assert_eq!(
            name(find_property("zookeeper.authProvider.1")),
            Some("authProvider.*")
        );
        assert_eq!(
            name(find_property("fsync.warningthresholdms")),
            Some("fsync.warningthresholdms")
        );
        assert_eq!(name(find_property("zookeeper.tickTime")), None);
    }
}
