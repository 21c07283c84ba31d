//! Errors of the TLS configuration.

use std::io;
use std::path::PathBuf;

/// A store or a rule that cannot be used. The error names files, but does not reveal their
/// contents.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// No key store is configured.
    #[error("{prefix}keyStore.location is missing: TLS needs a key and its certificate")]
    NoKeyStore {
        /// `ssl.` or `ssl.quorum.`.
        prefix: &'static str,
    },
    /// A trust store is not configured, although the platform's roots must not replace it.
    #[error("{prefix}trustStore.location is missing: TLS of the admin port needs it")]
    NoTrustStore {
        /// `ssl.quorum.`.
        prefix: &'static str,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file exceeds the maximum size of a key store or revocation list.
    #[error("{} is larger than {max} bytes, the limit for this kind of file", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Maximum size.
        max: u64,
    },
    /// The type of a store is neither configured nor evident from the file name.
    #[error(
        "{}: the type of the store is unknown (name the file .jks, .p12 or .pem, or set {prefix}{store}.type)", path.display()
    )]
    UnknownType {
        /// The file.
        path: PathBuf,
        /// `ssl.` or `ssl.quorum.`.
        prefix: &'static str,
        /// `keyStore` or `trustStore`.
        store: &'static str,
    },
    /// The content is not a valid store of that type, or the password is wrong.
    #[error("{}: {fault}", path.display())]
    Store {
        /// The file.
        path: PathBuf,
        /// The fault.
        fault: StoreFault,
    },
    /// The platform does not have trusted certificates.
    #[error(
        "no certificate is trusted: {prefix}trustStore.location is missing, and the platform has no trusted certificates ({reason})"
    )]
    NoPlatformRoots {
        /// `ssl.` or `ssl.quorum.`.
        prefix: &'static str,
        /// The reason.
        reason: String,
    },
    /// A protocol or cipher suite that is not supported.
    #[error("{key}: {reason}")]
    Rule {
        /// The configuration key.
        key: String,
        /// The reason.
        reason: String,
    },
    /// Key and certificate do not match, or the library rejects them.
    #[error("{}: {reason}", path.display())]
    Unusable {
        /// The key store.
        path: PathBuf,
        /// The library's message.
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
        /// The expected type.
        kind: &'static str,
        /// Place of the fault.
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
    /// The store does not contain a private key.
    #[error("the store does not contain a private key with a certificate")]
    NoKey,
    /// The store does not contain trusted certificates.
    #[error("the store does not contain a trusted certificate{hint}")]
    NoCertificates {
        /// The reason and a remedy.
        hint: &'static str,
    },
    /// The file does not contain a list of revoked certificates.
    #[error("the file is not a valid list of revoked certificates: {reason}")]
    NoRevocations {
        /// The reason.
        reason: &'static str,
    },
    /// This build does not support this kind of store.
    #[error("this build reads only PEM stores without passwords (feature `keystores`)")]
    NotBuiltIn,
    /// The store has Bouncy Castle's own format.
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
