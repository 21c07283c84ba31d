//! Random bytes that nobody can guess.

use std::io;

/// As many as fit.
///
/// # Errors
/// If the system has none.
pub(crate) fn bytes<const COUNT: usize>() -> io::Result<[u8; COUNT]> {
    let mut bytes = [0; COUNT];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes)
}
