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
mod settings;

pub use acl::normalise;
pub use digest::{DigestAlgorithm, digest_id};
pub use identities::in_java_order;
pub use ip::host_address;
pub use permission::{is_authenticated, is_named, is_super, permits};
pub use principal::is_valid_sasl as is_sasl_name;
use proto::{ErrorCode, Id};
pub use settings::{
    ANYONE, AUTH, AuthSettings, DIGEST, DigestSettings, ENSEMBLE, EnsembleSettings, IP, SASL,
    SUPER, SaslSettings, WORLD, X509, X509Settings,
};

/// Maximum number of characters in a result of [`name_of`].
const NAME_CHARS_MAX: usize = 128;

/// Returns the identities that a connection receives for an auth packet with this scheme and data.
///
/// `peer_ip` is the client's address as text.
///
/// # Errors
/// AuthFailed if the scheme or the credentials are refused. The server sends this error before it
/// closes the connection. Source: ZooKeeperServer.processPacket.
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

/// Returns the identity that every connection from this address has.
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
