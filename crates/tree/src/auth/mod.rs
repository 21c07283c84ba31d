//! Who somebody is, and what an ACL lets them do.
//!
//! * [`authenticate`] turns an auth packet into identities.
//! * [`permits`] checks identities against a znode's ACL.
//! * [`normalise`] makes the list to store from the one a client sent.
//!
//! sasl and x509 identities are made elsewhere (SASL exchange, TLS handshake); here is what they
//! match. Source: AuthenticationProvider and those that implement it.

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

/// Scheme of the one identity that everybody has.
pub const WORLD: &str = "world";
/// The id of [`WORLD`].
pub const ANYONE: &str = "anyone";
/// Stands in an ACL for the caller's own identities.
pub const AUTH: &str = "auth";
/// Holders may do everything.
pub const SUPER: &str = "super";
/// The peer's address.
pub const IP: &str = "ip";
/// User and password.
pub const DIGEST: &str = "digest";
/// SASL.
pub const SASL: &str = "sasl";
/// TLS client certificates.
pub const X509: &str = "x509";
/// Names of ensembles.
pub const ENSEMBLE: &str = "ensemble";

/// Which schemes there are besides world, auth and ip.
#[derive(Debug, Clone, Default)]
pub struct AuthSettings {
    /// digest, on unless `zookeeper.DigestAuthenticationProvider.enabled=false`.
    pub digest: DigestSettings,
    /// sasl, if a provider is configured.
    pub sasl: Option<SaslSettings>,
    /// x509, if a provider is configured.
    pub x509: Option<X509Settings>,
    /// ensemble, if a provider is configured.
    pub ensemble: Option<EnsembleSettings>,
}

/// The digest scheme.
#[derive(Debug, Clone)]
pub struct DigestSettings {
    /// Whether the scheme is registered.
    pub enabled: bool,
    /// `zookeeper.DigestAuthenticationProvider.digestAlg`.
    pub algorithm: DigestAlgorithm,
    /// `zookeeper.DigestAuthenticationProvider.superDigest`: the id that becomes super user.
    pub super_digest: Option<Secret>,
    /// `user:password` that is the super user's as well, if the server has such a credential.
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

/// The sasl scheme.
#[derive(Debug, Clone, Default)]
pub struct SaslSettings {
    /// `zookeeper.letAnySaslUserDoX`: an ACL id that every SASL user matches.
    pub any_user_id: Option<String>,
}

/// The x509 scheme.
#[derive(Debug, Clone, Default)]
pub struct X509Settings {
    /// `zookeeper.X509AuthenticationProvider.superUser`: matches every x509 entry.
    pub super_user: Option<String>,
}

/// The ensemble scheme.
#[derive(Debug, Clone, Default)]
pub struct EnsembleSettings {
    /// `zookeeper.ensembleAuthName`: the names that are accepted; empty accepts all.
    pub names: Vec<String>,
}

impl AuthSettings {
    /// Whether ACL entries may name this scheme, their id permitting.
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

    /// Whether an ACL entry may have this id.
    pub(crate) fn is_valid_id(&self, scheme: &str, id: &str) -> bool {
        match scheme {
            IP => ip::is_valid(id),
            DIGEST => digest::is_valid(id),
            SASL => principal::is_valid_sasl(id),
            X509 => principal::is_valid_x509(id),
            _ => false,
        }
    }

    /// Whether identities of this scheme stand behind an `auth` entry.
    pub(crate) fn is_authenticated(&self, scheme: &str) -> bool {
        matches!(scheme, DIGEST | SASL | X509) && self.is_registered(scheme)
    }

    /// Whether the holder of `held` is meant by an ACL entry's `id`.
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

/// The identities that an auth packet of this scheme brings.
///
/// `peer_ip` is the client's address as text.
///
/// # Errors
/// AuthFailed: the server sends it and closes the connection. Source: ZooKeeperServer.processPacket.
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

/// The identity that a connection has from its peer's address.
pub fn ip_id(peer_ip: &str) -> Id {
    Id {
        scheme: IP.into(),
        id: peer_ip.into(),
    }
}

/// What whoAmI shows of an identity.
pub fn user_name(id: &Id) -> &str {
    match &*id.scheme {
        DIGEST => id.id.split(':').next().unwrap_or_default(),
        IP | SASL | X509 => &id.id,
        _ => "",
    }
}

#[cfg(test)]
mod tests;
