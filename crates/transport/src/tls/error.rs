//! Errors of the TLS configuration.

use std::io;
use std::path::PathBuf;

/// Error for a store or a rule that cannot be used. It names files but does not reveal their
/// contents.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// No key store is configured.
    #[error("{prefix}keyStore.location is missing: TLS needs a key and its certificate")]
    NoKeyStore {
        /// Prefix of the settings: `ssl.` or `ssl.quorum.`.
        prefix: &'static str,
    },
    /// No trust store is configured, and the platform's roots must not replace it.
    #[error("{prefix}trustStore.location is missing: TLS of the admin port needs it")]
    NoTrustStore {
        /// Prefix of the settings: `ssl.quorum.`.
        prefix: &'static str,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error returned by the system.
        source: io::Error,
    },
    /// A store, a revocation list or a password file exceeds its maximum size.
    #[error("{} is larger than {max} bytes, the limit for this kind of file", path.display())]
    TooLarge {
        /// Path of the file.
        path: PathBuf,
        /// Maximum size, bytes.
        max: u64,
    },
    /// The type of a store is neither configured nor evident from the file name.
    #[error(
        "{}: the type of the store is unknown (name the file .jks, .p12 or .pem, or set {prefix}{store}.type)", path.display()
    )]
    UnknownType {
        /// Path of the file.
        path: PathBuf,
        /// Prefix of the settings: `ssl.` or `ssl.quorum.`.
        prefix: &'static str,
        /// Kind of store: `keyStore` or `trustStore`.
        store: &'static str,
    },
    /// The content is not a valid store of that type, or the password is wrong.
    #[error("{}: {fault}", path.display())]
    Store {
        /// Path of the file.
        path: PathBuf,
        /// Fault in the content.
        fault: StoreFault,
    },
    /// The platform lacks trusted certificates.
    #[error(
        "no certificate is trusted: {prefix}trustStore.location is missing, and the platform has no trusted certificates ({reason})"
    )]
    NoPlatformRoots {
        /// Prefix of the settings: `ssl.` or `ssl.quorum.`.
        prefix: &'static str,
        /// Reason given by the platform.
        reason: String,
    },
    /// A configured protocol or cipher suite is not supported.
    #[error("{key}: {reason}")]
    Rule {
        /// Configuration key of the rule.
        key: String,
        /// Reason why the rule is not supported.
        reason: String,
    },
    /// Key and certificate do not match, or the library rejects them.
    #[error("{}: {reason}", path.display())]
    Unusable {
        /// Path of the key store.
        path: PathBuf,
        /// Message from the library.
        reason: String,
    },
}

/// Fault in the content of a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreFault {
    /// The bytes are truncated or invalid.
    #[error("the file is not a {kind} store, or is damaged: {reason}")]
    Malformed {
        /// Expected type.
        kind: &'static str,
        /// Description of the fault.
        reason: String,
    },
    /// The checksum of the content, which depends on the password, is wrong.
    #[error("the password is wrong, or the file is damaged")]
    Password,
    /// A private key is encrypted with another password, or corrupt.
    #[error(
        "the private key cannot be decrypted: its password differs from the store's password, or the key is damaged"
    )]
    KeyPassword,
    /// The store does not contain a private key with a certificate.
    #[error("the store does not contain a private key with a certificate")]
    NoKey,
    /// The store does not contain trusted certificates.
    #[error("the store does not contain a trusted certificate{hint}")]
    NoCertificates {
        /// Reason and remedy. May be empty.
        hint: &'static str,
    },
    /// The file does not contain valid lists of revoked certificates.
    #[error("the file is not a valid list of revoked certificates: {reason}")]
    NoRevocations {
        /// Reason why the file is not accepted.
        reason: &'static str,
    },
    /// This build does not support this kind of store.
    #[error("this build reads only PEM stores without passwords (feature `keystores`)")]
    NotBuiltIn,
    /// The store is in Bouncy Castle's own format.
    #[error(
        "BCFKS stores are not supported: convert the store, for example with keytool -importkeystore -srcstoretype BCFKS -deststoretype PKCS12"
    )]
    Bcfks,
}

impl StoreFault {
    pub(super) fn malformed(kind: &'static str, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Malformed { kind, reason }
    }
}
