//! PEM stores: a private key and certificates as text.

use rustls::pki_types::pem::{Error, PemObject, SectionKind};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::KeyMaterial;
use super::encrypted::decrypt;
use crate::tls::error::StoreFault;

pub(super) const KIND: &str = "PEM";

/// PEM label of a private key that is encrypted with a password (RFC 7468, section 11).
const ENCRYPTED: &str = "ENCRYPTED PRIVATE KEY";

pub(super) fn key(bytes: &[u8], password: &str) -> Result<KeyMaterial, StoreFault> {
    let chain = parse_certificates(bytes)?;
    if chain.is_empty() {
        return Err(StoreFault::NoKey);
    }
    let key = match find(bytes, ENCRYPTED)? {
        Some(encrypted) => decrypt(&encrypted, password)?,
        None => match PrivateKeyDer::from_pem_slice(bytes) {
            Ok(key) => key,
            Err(Error::NoItemsFound) => return Err(StoreFault::NoKey),
            Err(error) => return Err(malformed(&error)),
        },
    };
    Ok(KeyMaterial { key, chain })
}

pub(super) fn certificates(bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, StoreFault> {
    let found = parse_certificates(bytes)?;
    if found.is_empty() {
        return Err(StoreFault::NoCertificates { hint: "" });
    }
    Ok(found)
}

fn parse_certificates(bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, StoreFault> {
    let found: Result<_, _> = CertificateDer::pem_slice_iter(bytes).collect();
    found.map_err(|error| malformed(&error))
}

fn malformed(error: &Error) -> StoreFault {
    // The library's message may contain a line of the file, which may be part of the key.
    let reason = match error {
        Error::MissingSectionEnd { .. } => "a section has no end",
        Error::IllegalSectionStart { .. } => "a section has an unknown header",
        Error::Base64Decode(_) => "a section is not base64",
        _ => "the content cannot be parsed",
    };
    StoreFault::malformed(KIND, reason)
}

/// Returns the decoded content of the first section with this label, which the library does not
/// know.
fn find(bytes: &[u8], label: &str) -> Result<Option<Vec<u8>>, StoreFault> {
    let text = String::from_utf8_lossy(bytes);
    let begin = format!("-----BEGIN {label}-----");
    let end = format!("-----END {label}-----");
    let Some((_, rest)) = text.split_once(&begin) else {
        return Ok(None);
    };
    let Some((body, _)) = rest.split_once(&end) else {
        return Err(StoreFault::malformed(KIND, "a section has no end"));
    };
    // Substitutes a label that the library knows, so that the library decodes the base64.
    let plain = format!("-----BEGIN PRIVATE KEY-----{body}-----END PRIVATE KEY-----");
    let decoded = <(SectionKind, Vec<u8>)>::from_pem_slice(plain.as_bytes());
    decoded
        .map(|(_, der)| Some(der))
        .map_err(|error| malformed(&error))
}
