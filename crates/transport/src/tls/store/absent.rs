//! Replacement of the key stores for builds without the feature `keystores`.

use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::KeyMaterial;
use crate::tls::error::StoreFault;

/// Magic number of JKS stores.
pub(super) const MAGIC: [u8; 4] = [0xFE, 0xED, 0xFE, 0xED];

pub(super) fn key(_bytes: &[u8], _password: &str) -> Result<KeyMaterial, StoreFault> {
    Err(StoreFault::NotBuiltIn)
}

pub(super) fn certificates(
    _bytes: &[u8],
    _password: &str,
) -> Result<Vec<CertificateDer<'static>>, StoreFault> {
    Err(StoreFault::NotBuiltIn)
}

pub(super) fn decrypt(_der: &[u8], _password: &str) -> Result<PrivateKeyDer<'static>, StoreFault> {
    Err(StoreFault::NotBuiltIn)
}
