//! Settings of the tree, of the log and of their recovery, derived from the configuration.

use std::sync::Arc;
use std::time::Duration;

use config::{AuthProvider, Config};
use recovery::DurableLogSettings;
use replica::field_limits;
use storage::{LogSettings, RecoverySettings, SnapTrigger};
use tree::TreeSettings;
use tree::auth::{
    AuthSettings, DigestAlgorithm, DigestSettings, EnsembleSettings, SaslSettings, X509Settings,
};

use crate::clock;

/// Returns the settings of the tree.
pub fn tree_settings(config: &Config) -> TreeSettings {
    let features = &config.features;
    TreeSettings {
        extended_types: features.extended_types_enabled,
        emulate_353_ttl: features.emulate_353_ttl_nodes,
        digest_enabled: config.storage.digest_enabled,
        enforce_quota: features.enforce_quota,
        skip_acl: features.skip_acl,
        close_session_paths: config.storage.close_session_txn_enabled,
        record_bytes_max: field_limits(config).field_bytes_max,
        reconfig_enabled: features.reconfig_enabled,
        standalone: config.ensemble.is_none(),
        auth: auth_settings(config),
    }
}

fn auth_settings(config: &Config) -> AuthSettings {
    let auth = &config.auth;
    let has = |wanted| auth.providers.values().any(|provider| *provider == wanted);
    AuthSettings {
        digest: DigestSettings {
            enabled: auth.digest_enabled,
            algorithm: digest_algorithm(auth.digest_algorithm).unwrap_or(DigestAlgorithm::Sha1),
            super_digest: auth.super_digest.clone(),
            admin_token: auth.admin_token.clone(),
        },
        ensemble: has(AuthProvider::Ensemble).then(|| EnsembleSettings {
            names: auth.ensemble_names.clone().unwrap_or_default(),
        }),
        x509: has(AuthProvider::X509).then(|| X509Settings {
            super_user: auth.x509_super_user.clone(),
        }),
        sasl: has(AuthProvider::Sasl).then(|| SaslSettings {
            any_user_id: auth.sasl.any_user_id.clone(),
        }),
    }
}

/// Converts the algorithm. Returns `None` for MD5, which is too weak to protect a password.
fn digest_algorithm(named: config::DigestAlgorithm) -> Option<DigestAlgorithm> {
    use config::DigestAlgorithm as Named;
    Some(match named {
        Named::Md5 => return None,
        Named::Sha1 => DigestAlgorithm::Sha1,
        Named::Sha224 => DigestAlgorithm::Sha224,
        Named::Sha256 => DigestAlgorithm::Sha256,
        Named::Sha384 => DigestAlgorithm::Sha384,
        Named::Sha512 => DigestAlgorithm::Sha512,
        Named::Sha3_224 => DigestAlgorithm::Sha3_224,
        Named::Sha3_256 => DigestAlgorithm::Sha3_256,
        Named::Sha3_384 => DigestAlgorithm::Sha3_384,
        Named::Sha3_512 => DigestAlgorithm::Sha3_512,
    })
}

/// Returns the settings for recovering the tree from its files.
pub fn recovery_settings(config: &Config) -> RecoverySettings {
    let storage = &config.storage;
    RecoverySettings {
        trust_empty: storage.snapshot_trust_empty,
        db_autocreate: storage.db_autocreate,
        limits: field_limits(config),
    }
}

fn log_settings(config: &Config) -> LogSettings {
    let storage = &config.storage;
    LogSettings {
        prealloc_bytes: storage.prealloc_kb * 1024,
        force_sync: storage.force_sync,
        fsync_warning: Duration::from_millis(storage.fsync_warning_threshold_ms),
        log_bytes_max: storage.txn_log_size_limit_kb.map_or(0, |kb| kb * 1024),
        limits: field_limits(config),
    }
}

/// Returns the settings of the log and of its recovery.
pub(crate) fn durable_log_settings(config: &Config) -> DurableLogSettings {
    DurableLogSettings {
        log: log_settings(config),
        recovery: recovery_settings(config),
        tree: Arc::new(tree_settings(config)),
    }
}

/// Returns the trigger for snapshots.
pub(crate) fn snap_trigger(config: &Config) -> SnapTrigger {
    let size_limit = config.storage.snap_size_limit_kb.map_or(0, |kb| kb * 1024);
    SnapTrigger::new(config.storage.snap_count.into(), size_limit, clock::seed())
}
