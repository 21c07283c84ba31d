//! Key and trust stores: files, formats and contents.
//!
//! Java selects the format from the configured type or the file name's extension. A store named as
//! JKS that is actually PKCS #12 is also read, and vice versa. Java's KeyStore does the same
//! (`keystore.type.compat`), and since Java 9 keytool writes PKCS #12 regardless of the name.
//! Source: FileKeyStoreLoaderBuilderProvider, KeyStoreFileType.

#![allow(
    clippy::disallowed_methods,
    reason = "runs at the start of the server and in `blocking::run`"
)]

#[cfg(not(feature = "keystores"))]
mod absent;
#[cfg(feature = "keystores")]
mod encrypted;
#[cfg(feature = "keystores")]
mod jks;
mod pem;
#[cfg(feature = "keystores")]
mod pkcs12;
mod revocations;
pub(crate) mod source;

#[cfg(not(feature = "keystores"))]
use self::{absent as encrypted, absent as jks, absent as pkcs12};

use std::fs::File;
use std::io::Read;
use std::path::Path;

use config::{Secret, Store, StoreFormat};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use zeroize::Zeroizing;

use super::error::{StoreFault, TlsError};

/// Maximum size of a store, bytes. The roots of a whole platform take half a megabyte.
const STORE_BYTES_MAX: u64 = 16 << 20;

/// Maximum size of revocation lists, bytes. The lists of large authorities take several megabytes.
const REVOCATIONS_BYTES_MAX: u64 = 64 << 20;

/// Maximum size of a password file, which contains one line, bytes.
const PASSWORD_BYTES_MAX: u64 = 64 << 10;

/// A private key and its certificates.
#[derive(Debug)]
pub struct KeyMaterial {
    /// Private key of this process.
    pub key: PrivateKeyDer<'static>,
    /// Certificate for the key, followed by the certificates that lead from it to a root.
    pub chain: Vec<CertificateDer<'static>>,
}

/// Names of the settings for one store of an endpoint.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoreSetting {
    /// Prefix of the settings: `ssl.` or `ssl.quorum.`.
    pub(super) prefix: &'static str,
    /// Kind of store: `keyStore` or `trustStore`.
    pub(super) store: &'static str,
}

/// Loads the key store.
pub(super) fn load_key_store(
    path: &Path,
    store: &Store,
    which: StoreSetting,
) -> Result<KeyMaterial, TlsError> {
    let format = format(path, store, which)?;
    let bytes = read(path, STORE_BYTES_MAX)?;
    let password = password(store)?;
    read_key_store(format, &bytes, password.expose()).map_err(|fault| refused(path, fault))
}

/// Loads the trust store.
pub(super) fn load_trust_store(
    path: &Path,
    store: &Store,
    which: StoreSetting,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let format = format(path, store, which)?;
    let bytes = read(path, STORE_BYTES_MAX)?;
    let password = password(store)?;
    read_trust_store(format, &bytes, password.expose()).map_err(|fault| refused(path, fault))
}

/// Loads the lists of revoked certificates.
pub(super) fn load_revocations(
    path: &Path,
) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let bytes = read(path, REVOCATIONS_BYTES_MAX)?;
    read_revocations(&bytes).map_err(|fault| refused(path, fault))
}

/// Returns the revocation lists in a file.
///
/// # Errors
/// If the file is invalid.
pub fn read_revocations(
    bytes: &[u8],
) -> Result<Vec<CertificateRevocationListDer<'static>>, StoreFault> {
    revocations::lists(bytes)
}

/// Returns the private key of a store and the certificates for this key.
///
/// # Errors
/// If the store is invalid.
pub fn read_key_store(
    format: StoreFormat,
    bytes: &[u8],
    password: &str,
) -> Result<KeyMaterial, StoreFault> {
    match Content::of(format, bytes)? {
        Content::Pem => pem::key(bytes, password),
        Content::Jks => jks::key(bytes, password),
        Content::Pkcs12 => pkcs12::key(bytes, password),
    }
}

/// Returns the trusted certificates of a store.
///
/// # Errors
/// If the store is invalid.
pub fn read_trust_store(
    format: StoreFormat,
    bytes: &[u8],
    password: &str,
) -> Result<Vec<CertificateDer<'static>>, StoreFault> {
    match Content::of(format, bytes)? {
        Content::Pem => pem::certificates(bytes),
        Content::Jks => jks::certificates(bytes, password),
        Content::Pkcs12 => pkcs12::certificates(bytes, password),
    }
}

/// Format of a store's content.
enum Content {
    Pem,
    Jks,
    Pkcs12,
}

impl Content {
    fn of(format: StoreFormat, bytes: &[u8]) -> Result<Self, StoreFault> {
        match format {
            StoreFormat::Pem => Ok(Self::Pem),
            StoreFormat::Jks | StoreFormat::Pkcs12 if bytes.starts_with(&jks::MAGIC) => {
                Ok(Self::Jks)
            }
            // A PKCS #12 store begins with an ASN.1 sequence.
            StoreFormat::Jks if bytes.first() != Some(&0x30) => Err(StoreFault::malformed(
                "JKS",
                "the header of a key store is missing",
            )),
            StoreFormat::Jks | StoreFormat::Pkcs12 => Ok(Self::Pkcs12),
            StoreFormat::Bcfks => Err(StoreFault::Bcfks),
        }
    }
}

/// Returns the configured type, or the type that the file name's extension indicates. The extension
/// must match exactly, as in Java.
fn format(path: &Path, store: &Store, which: StoreSetting) -> Result<StoreFormat, TlsError> {
    let by_name = || match path.extension()?.to_str()? {
        "jks" => Some(StoreFormat::Jks),
        "pem" => Some(StoreFormat::Pem),
        "p12" => Some(StoreFormat::Pkcs12),
        "bcfks" => Some(StoreFormat::Bcfks),
        _ => None,
    };
    store
        .format
        .or_else(by_name)
        .ok_or_else(|| TlsError::UnknownType {
            path: path.to_owned(),
            prefix: which.prefix,
            store: which.store,
        })
}

/// Returns the password. A password file takes precedence. One line end after the password is
/// ignored.
fn password(store: &Store) -> Result<Secret, TlsError> {
    let Some(path) = &store.password_path else {
        return Ok(store.password.clone().unwrap_or_else(|| Secret::new("")));
    };
    let bytes = read(path, PASSWORD_BYTES_MAX)?;
    let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let line = match line.len() {
        len if len < bytes.len() => line.strip_suffix(b"\r").unwrap_or(line),
        _ => line,
    };
    Ok(Secret::new(String::from_utf8_lossy(line)))
}

/// Reads a file. It may contain a key or a password, so the buffer is overwritten when it is
/// dropped.
fn read(path: &Path, max: u64) -> Result<Zeroizing<Vec<u8>>, TlsError> {
    blocking::mark("read a key or trust store");
    let failed = |source| TlsError::Read {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(failed)?;
    let mut bytes = Zeroizing::new(Vec::new());
    file.take(max + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > max {
        return Err(TlsError::TooLarge {
            path: path.to_owned(),
            max,
        });
    }
    Ok(bytes)
}

fn refused(path: &Path, fault: StoreFault) -> TlsError {
    TlsError::Store {
        path: path.to_owned(),
        fault,
    }
}
