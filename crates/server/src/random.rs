//! Unpredictable random bytes.

use std::io;

/// Returns `COUNT` random bytes.
///
/// # Errors
/// If the system does not provide random bytes.
pub(crate) fn bytes<const COUNT: usize>() -> io::Result<[u8; COUNT]> {
    let mut bytes = [0; COUNT];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes)
}
