//! Authentication providers.

use crate::registry::security as keys;

/// Authentication provider, which Java loads by the name of its class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AuthProvider {
    /// Scheme `digest`.
    Digest,
    /// Scheme `ip`.
    Ip,
    /// Scheme `sasl`.
    Sasl,
    /// Scheme `x509`.
    X509,
    /// Scheme `ensemble`.
    Ensemble,
    /// Scheme `key`.
    Key,
}

impl AuthProvider {
    /// Returns the provider's scheme.
    pub fn scheme(self) -> &'static str {
        match self {
            Self::Digest => "digest",
            Self::Ip => "ip",
            Self::Sasl => "sasl",
            Self::X509 => "x509",
            Self::Ensemble => "ensemble",
            Self::Key => "key",
        }
    }

    /// Returns the provider of a Java class, by its full name.
    pub fn of_class(class: &str) -> Option<Self> {
        match class {
            keys::DIGEST_CLASS => Some(Self::Digest),
            keys::IP_CLASS => Some(Self::Ip),
            keys::SASL_CLASS => Some(Self::Sasl),
            keys::X509_CLASS => Some(Self::X509),
            keys::ENSEMBLE_CLASS => Some(Self::Ensemble),
            keys::KEY_CLASS => Some(Self::Key),
            _ => None,
        }
    }
}
