//! PKCS #12 stores, as keytool and openssl write them.

use p12_keystore::error::Error;
use p12_keystore::{Certificate, KeyStore, KeyStoreEntry, Pkcs12ImportPolicy};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use super::KeyMaterial;
use crate::tls::error::StoreFault;

const KIND: &str = "PKCS12";

/// Hint for a store without trusted certificates. Java requires that certificates are marked as
/// trusted, and openssl does not write this mark.
const UNMARKED: &str = ": certificates in a PKCS12 store are trusted only if they are marked as \
                        trusted, for example with keytool -importcert";

pub(super) fn key(bytes: &[u8], password: &str) -> Result<KeyMaterial, StoreFault> {
    let store = open(bytes, password)?;
    let (_, entry) = store.private_key_chain().ok_or(StoreFault::NoKey)?;
    let chain: Vec<_> = entry.certs().iter().map(der).collect();
    if chain.is_empty() {
        return Err(StoreFault::NoKey);
    }
    let key = PrivatePkcs8KeyDer::from(entry.key().as_der().to_vec()).into();
    Ok(KeyMaterial { key, chain })
}

/// Returns the certificates marked as trusted, and each key's own certificate, which Java also
/// trusts.
pub(super) fn certificates(
    bytes: &[u8],
    password: &str,
) -> Result<Vec<CertificateDer<'static>>, StoreFault> {
    let store = open(bytes, password)?;
    let trusted = store.entries().filter_map(|(_, entry)| match entry {
        KeyStoreEntry::Certificate(certificate) => Some(der(certificate)),
        KeyStoreEntry::PrivateKeyChain(chain) => chain.certs().first().map(der),
        KeyStoreEntry::Secret(_) => None,
    });
    let trusted: Vec<_> = trusted.collect();
    if trusted.is_empty() {
        return Err(StoreFault::NoCertificates { hint: UNMARKED });
    }
    Ok(trusted)
}

fn open(bytes: &[u8], password: &str) -> Result<KeyStore, StoreFault> {
    KeyStore::from_pkcs12(bytes, password, Pkcs12ImportPolicy::Strict).map_err(
        |error| match error {
            Error::MacError(_) | Error::Pkcs5Error(_) => StoreFault::Password,
            other => StoreFault::malformed(KIND, other.to_string()),
        },
    )
}

fn der(certificate: &Certificate) -> CertificateDer<'static> {
    certificate.as_der().to_vec().into()
}
