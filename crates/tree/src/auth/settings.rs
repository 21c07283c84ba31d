//! Schemes of identities, and their settings.

use proto::{LateSecret, Secret};

use super::digest::{self, DigestAlgorithm};
use super::{ip, principal};

/// Scheme of the single identity that every client has.
pub const WORLD: &str = "world";
/// Id in the scheme [`WORLD`].
pub const ANYONE: &str = "anyone";
/// Scheme of ACL entries that expand to the caller's own identities.
pub const AUTH: &str = "auth";
/// Scheme of identities with all permissions.
pub const SUPER: &str = "super";
/// Scheme of peers' addresses.
pub const IP: &str = "ip";
/// Scheme of users and passwords.
pub const DIGEST: &str = "digest";
/// Scheme of SASL users.
pub const SASL: &str = "sasl";
/// Scheme of TLS client certificates.
pub const X509: &str = "x509";
/// Scheme of ensemble names.
pub const ENSEMBLE: &str = "ensemble";

/// Settings of the schemes. The schemes world, auth and ip always exist, without settings.
#[derive(Debug, Clone, Default)]
pub struct AuthSettings {
    /// Settings of digest, which is enabled unless
    /// `zookeeper.DigestAuthenticationProvider.enabled=false`.
    pub digest: DigestSettings,
    /// Settings of sasl; `None` if no provider is configured.
    pub sasl: Option<SaslSettings>,
    /// Settings of x509; `None` if no provider is configured.
    pub x509: Option<X509Settings>,
    /// Settings of ensemble; `None` if no provider is configured.
    pub ensemble: Option<EnsembleSettings>,
}

/// Settings of the digest scheme.
#[derive(Debug, Clone)]
pub struct DigestSettings {
    /// Whether the scheme is registered.
    pub enabled: bool,
    /// Hash function for passwords (`zookeeper.DigestAuthenticationProvider.digestAlg`).
    pub algorithm: DigestAlgorithm,
    /// Digest id whose owner is also a super user
    /// (`zookeeper.DigestAuthenticationProvider.superDigest`).
    pub super_digest: Option<Secret>,
    /// Credential `user:password` of a further super user, if the server has one.
    pub admin_token: LateSecret,
}

impl Default for DigestSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            algorithm: DigestAlgorithm::Sha1,
            super_digest: None,
            admin_token: LateSecret::default(),
        }
    }
}

/// Settings of the sasl scheme.
#[derive(Debug, Clone, Default)]
pub struct SaslSettings {
    /// ACL id that every SASL user matches (`zookeeper.letAnySaslUserDoX`).
    pub any_user_id: Option<String>,
}

/// Settings of the x509 scheme.
#[derive(Debug, Clone, Default)]
pub struct X509Settings {
    /// Subject that matches every x509 entry (`zookeeper.X509AuthenticationProvider.superUser`).
    pub super_user: Option<String>,
}

/// Settings of the ensemble scheme.
#[derive(Debug, Clone, Default)]
pub struct EnsembleSettings {
    /// Accepted names (`zookeeper.ensembleAuthName`). If empty, all names are accepted.
    pub names: Vec<String>,
}

impl AuthSettings {
    /// Returns whether a provider exists for this scheme. In addition to such schemes, ACL entries
    /// may use `world` and `auth`.
    pub fn is_registered(&self, scheme: &str) -> bool {
        match scheme {
            IP => true,
            DIGEST => self.digest.enabled,
            SASL => self.sasl.is_some(),
            X509 => self.x509.is_some(),
            ENSEMBLE => self.ensemble.is_some(),
            _ => false,
        }
    }

    /// Returns whether the id is valid in an ACL entry with this scheme.
    pub(crate) fn is_valid_id(&self, scheme: &str, id: &str) -> bool {
        match scheme {
            IP => ip::is_valid(id),
            DIGEST => digest::is_valid(id),
            SASL => principal::is_valid_sasl(id),
            X509 => principal::is_valid_x509(id),
            _ => false,
        }
    }

    /// Returns whether an `auth` entry expands to identities with this scheme.
    pub(crate) fn is_authenticated(&self, scheme: &str) -> bool {
        matches!(scheme, DIGEST | SASL | X509) && self.is_registered(scheme)
    }

    /// Returns whether the identity `held` matches an ACL entry's `id`.
    pub(crate) fn matches(&self, scheme: &str, held: &str, id: &str) -> bool {
        match scheme {
            IP => ip::matches(held, id),
            DIGEST => self.digest.enabled && held == id,
            SASL => self.sasl.as_ref().is_some_and(|sasl| {
                held == SUPER || held == id || sasl.any_user_id.as_deref() == Some(id)
            }),
            X509 => self
                .x509
                .as_ref()
                .is_some_and(|x509| held == id || x509.super_user.as_deref() == Some(held)),
            _ => false,
        }
    }
}

impl EnsembleSettings {
    /// Returns whether this name is accepted. An empty name is always accepted.
    pub(super) fn accepts(&self, name: &[u8]) -> bool {
        name.is_empty()
            || self.names.is_empty()
            || self.names.iter().any(|known| known.as_bytes() == name)
    }
}
