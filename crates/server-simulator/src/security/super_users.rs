//! Users that have all permissions, whatever the ACL of a znode is.

use client::{Options, digest_id};
use testkit::Random;

use super::schemes::Scheme;

/// Password of the super user.
pub(crate) const PASSWORD: &str = "the password of the super user";
/// Name of the super user in logins and certificates.
pub(super) const NAME: &str = "root";

/// Settings that make a super user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SuperUser {
    Digest,
    Sasl,
    X509,
}

/// A connection of the super user.
#[derive(Debug)]
pub(crate) struct SuperClient {
    pub(crate) options: Options,
    /// Credentials of the scheme `digest`.
    pub(crate) digest: Option<String>,
}

impl SuperUser {
    /// Draws a super user with a scheme that the servers use.
    pub(super) fn draw(random: &mut Random, scheme: Scheme) -> Option<Self> {
        match (random.below(3), scheme) {
            (0, _) => None,
            (1, Scheme::Sasl) => Some(Self::Sasl),
            (1, Scheme::X509) => Some(Self::X509),
            _ => Some(Self::Digest),
        }
    }

    /// Returns the setting of zoo.cfg.
    pub(super) fn line(self) -> String {
        match self {
            Self::Digest => {
                let id = digest_id("super", PASSWORD).id;
                format!("DigestAuthenticationProvider.superDigest={}\n", &*id)
            }
            Self::Sasl => format!("superUser={NAME}\n"),
            Self::X509 => {
                format!("X509AuthenticationProvider.superUser=CN={NAME},OU=Ops,O=Test\n")
            }
        }
    }
}
