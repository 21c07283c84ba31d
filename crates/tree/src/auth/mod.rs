//! Authentication of clients, and permissions by ACLs.
//!
//! * [`authenticate`] converts an auth packet to identities.
//! * [`permits`] checks identities against a znode's ACL.
//! * [`normalise`] converts a client's ACL list to the stored list.
//!
//! Other crates create the sasl and x509 identities (by a SASL exchange or a TLS handshake). This
//! module only matches them. Source: AuthenticationProvider and its implementations.

mod acl;
mod digest;
mod identities;
mod ip;
mod permission;
mod principal;

pub use acl::normalise;
pub use digest::{DigestAlgorithm, digest_id};
pub use identities::in_java_order;
pub use ip::host_address;
pub use permission::{is_named, is_super, permits};
pub use principal::is_valid_sasl as is_sasl_name;
use proto::{ErrorCode, Id, LateSecret, Secret};

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

/// Maximum number of characters in the [`name_of`] an identity.
const NAME_CHARS_MAX: usize = 128;

/// Schemes that exist in addition to world, auth and ip.
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
    /// Id that becomes super user (`zookeeper.DigestAuthenticationProvider.superDigest`).
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
    /// Returns whether ACL entries may use this scheme, provided that their id is valid.
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

/// Returns the identities for an auth packet of this scheme.
///
/// `peer_ip` is the client's address as text.
///
/// # Errors
/// AuthFailed if the credentials are refused. The server sends it before it closes the connection.
/// Source: ZooKeeperServer.processPacket.
pub fn authenticate(
    settings: &AuthSettings,
    scheme: Option<&str>,
    data: Option<&[u8]>,
    peer_ip: &str,
) -> Result<Vec<Id>, ErrorCode> {
    let failed = Err(ErrorCode::AuthFailed);
    match scheme {
        Some(IP) => Ok(vec![ip_id(peer_ip)]),
        Some(DIGEST) if settings.digest.enabled => match data {
            Some(data) => Ok(digest::identities(&settings.digest, data)),
            None => failed,
        },
        Some(ENSEMBLE) => match &settings.ensemble {
            Some(ensemble) if ensemble.accepts(data.unwrap_or_default()) => Ok(Vec::new()),
            _ => failed,
        },
        _ => failed,
    }
}

impl EnsembleSettings {
    fn accepts(&self, name: &[u8]) -> bool {
        name.is_empty()
            || self.names.is_empty()
            || self.names.iter().any(|known| known.as_bytes() == name)
    }
}

/// Returns the identity that a connection has because of its peer's address.
pub fn ip_id(peer_ip: &str) -> Id {
    Id {
        scheme: IP.into(),
        id: peer_ip.into(),
    }
}

/// Returns the form in which whoAmI shows an identity.
pub fn user_name(id: &Id) -> &str {
    match &*id.scheme {
        DIGEST => id.id.split(':').next().unwrap_or_default(),
        IP | SASL | X509 => &id.id,
        _ => "",
    }
}

/// Returns the name of an identity as `scheme:user`, without a password hash and with a bounded
/// length.
pub fn name_of(id: &Id) -> String {
    let (scheme, user) = (&*id.scheme, user_name(id));
    let full = scheme.chars().chain(":".chars()).chain(user.chars());
    full.take(NAME_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests;
