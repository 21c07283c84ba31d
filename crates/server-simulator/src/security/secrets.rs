//! Secrets that only the ensemble and its clients know.

use crate::security::PASSWORDS;

/// Beginning of all contents of the vault.
pub(crate) const MARKER: &str = "the secret content of the vault";

/// Returns the secret that the bytes contain, if any.
pub(crate) fn secret_in(bytes: &[u8]) -> Option<&'static str> {
    let contains = |secret: &&str| {
        let secret = secret.as_bytes();
        bytes.windows(secret.len()).any(|part| part == secret)
    };
    PASSWORDS.into_iter().chain([MARKER]).find(contains)
}
