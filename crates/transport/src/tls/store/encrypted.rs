//! Private keys in PEM that are encrypted with a password.

use pkcs8::EncryptedPrivateKeyInfoRef;
use pkcs8::pkcs5::EncryptionScheme;
use pkcs8::pkcs5::pbes2::Kdf;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::pem::KIND;
use crate::tls::error::StoreFault;

pub(super) fn decrypt(der: &[u8], password: &str) -> Result<PrivateKeyDer<'static>, StoreFault> {
    let encrypted = EncryptedPrivateKeyInfoRef::try_from(der)
        .map_err(|_| StoreFault::malformed(KIND, "the encrypted key is not PKCS #8"))?;
    if !has_bounded_cost(&encrypted.encryption_algorithm) {
        let reason = "the key's encryption is unknown, or its iteration count is too high";
        return Err(StoreFault::malformed(KIND, reason));
    }
    let key = encrypted
        .decrypt(password)
        .map_err(|_| StoreFault::KeyPassword)?;
    Ok(PrivatePkcs8KeyDer::from(key.as_bytes().to_vec()).into())
}

/// Maximum number of rounds of the key derivation function. The number that keytool and openssl use
/// is hundreds of times lower.
const ROUNDS_MAX: u32 = 1_000_000;

/// Returns whether decryption takes a reasonable amount of time and memory.
fn has_bounded_cost(scheme: &EncryptionScheme) -> bool {
    match scheme {
        EncryptionScheme::Pbes2(parameters) => match &parameters.kdf {
            Kdf::Pbkdf2(pbkdf2) => pbkdf2.iteration_count <= ROUNDS_MAX,
            _ => false,
        },
        _ => false,
    }
}
