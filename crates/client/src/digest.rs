//! Identities of the scheme `digest`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use proto::Id;
use sha1::{Digest, Sha1};

/// Returns the identity of a user with a password, for an ACL. [`Client::add_auth`] adds it to a
/// connection.
///
/// The id contains a SHA-1 hash, as in ZooKeeper. Servers with another
/// `zookeeper.DigestAuthenticationProvider.digestAlg` compute a different id.
///
/// ```
/// use zoarium_client::{Acl, digest_id, perms};
///
/// let id = digest_id("super", "test");
/// assert_eq!(&*id.id, "super:D/InIHSb7yEEbrWz8b9l71RjZJU=");
/// let acl = Acl { perms: perms::ALL, id };
/// ```
///
/// Source: DigestAuthenticationProvider.generateDigest.
///
/// [`Client::add_auth`]: crate::Client::add_auth
pub fn digest_id(user: &str, password: &str) -> Id {
    let hash = Sha1::digest(format!("{user}:{password}"));
    // For a server, the name ends at the first colon.
    let name = user.split(':').next().unwrap_or_default();
    Id {
        scheme: "digest".into(),
        id: format!("{name}:{}", BASE64.encode(hash)).into(),
    }
}
