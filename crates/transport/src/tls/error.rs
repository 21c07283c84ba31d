//! Why TLS cannot be had as configured.

use std::io;
use std::path::PathBuf;

/// A store, or a rule, that is of no use. Names files and never what is in them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// No key store is configured.
    #[error("{prefix}keyStore.location is missing: TLS needs a key and its certificate")]
    NoKeyStore {
        /// `ssl.` or `ssl.quorum.`.
        prefix: &'static str,
    },
    /// No trust store is configured where the platform's roots must not stand in.
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
        /// The system's answer.
        source: io::Error,
    },
    /// A file is larger than any key store, or list of revoked certificates.
    #[error("{} is larger than {max} bytes, which nothing of its kind is", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The bound.
        max: u64,
    },
    /// Neither a type is given nor does the name of the file tell one.
    #[error(
        "{}: the type of the store is not known (name the file .jks, .p12 or .pem, or set {prefix}{store}.type)", path.display()
    )]
    UnknownType {
        /// The file.
        path: PathBuf,
        /// `ssl.` or `ssl.quorum.`.
        prefix: &'static str,
        /// `keyStore` or `trustStore`.
        store: &'static str,
    },
    /// The content is no store of that type, or the password is wrong.
    #[error("{}: {fault}", path.display())]
    Store {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        fault: StoreFault,
    },
    /// The platform has no certificates that could be trusted.
    #[error(
        "no certificate is trusted: {prefix}trustStore.location is missing, and the platform has none ({reason})"
    )]
    NoPlatformRoots {
        /// `ssl.` or `ssl.quorum.`.
        prefix: &'static str,
        /// What was found instead.
        reason: String,
    },
    /// A protocol or cipher suite that is not there.
    #[error("{key}: {reason}")]
    Rule {
        /// The setting.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Key and certificate do not go together, or the library does not take them.
    #[error("{}: {reason}", path.display())]
    Unusable {
        /// The key store.
        path: PathBuf,
        /// What the library says.
        reason: String,
    },
}

/// What is wrong with the content of a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreFault {
    /// The bytes break off or make no sense.
    #[error("it is no {kind} store, or it is damaged: {reason}")]
    Malformed {
        /// Which type it should be.
        kind: &'static str,
        /// Where it went wrong.
        reason: String,
    },
    /// The checksum over the content, which hangs on the password, is wrong.
    #[error("the password is wrong, or the file is damaged")]
    Password,
    /// A private key is encrypted by another password, or damaged.
    #[error(
        "the private key cannot be decrypted: its password differs from the store's, or it is damaged"
    )]
    KeyPassword,
    /// There is no private key in it.
    #[error("it holds no private key with a certificate")]
    NoKey,
    /// There is nothing in it that could be trusted.
    #[error("it holds no certificate that is trusted{hint}")]
    NoCertificates {
        /// Why not, and what to do.
        hint: &'static str,
    },
    /// It holds no list of revoked certificates.
    #[error("it holds no list of revoked certificates: {reason}")]
    NoRevocations {
        /// What it is instead.
        reason: &'static str,
    },
    /// Bouncy Castle's own format.
    #[error(
        "BCFKS stores are not read here: convert it, e.g. keytool -importkeystore -srcstoretype BCFKS -deststoretype PKCS12"
    )]
    Bcfks,
}

impl StoreFault {
    pub(super) fn malformed(kind: &'static str, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Malformed { kind, reason }
    }
}
