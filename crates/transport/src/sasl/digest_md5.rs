//! DIGEST-MD5, a mechanism with passwords.
//!
//! ```text
//! client            server
//!   (empty) ------->          content is ignored
//!           <------- challenge: realm, nonce, qop, charset, algorithm
//!   response ------>          username, cnonce, nc=1, digest-uri, response
//!           <------- rspauth
//! ```
//!
//! A nonce is used in one exchange only, and an exchange for one login only, so a token cannot be
//! used again. Source: RFC 2831; DigestMD5Server and DigestMD5Client of the JDK.

pub(super) mod client;
pub(super) mod server;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::names::NONCE_BYTES;

/// Maximum length of a token that a server accepts, bytes. Source:
/// DigestMD5Server.MAX_RESPONSE_LENGTH.
const RESPONSE_BYTES_MAX: usize = 4096;
/// Maximum length of a token that a client accepts, bytes. Source:
/// DigestMD5Client.MAX_CHALLENGE_LENGTH.
const CHALLENGE_BYTES_MAX: usize = 2048;

/// The only supported algorithm.
const ALGORITHM: &[u8] = b"md5-sess";
/// The only supported value of `charset`.
const CHARSET: &[u8] = b"utf-8";

fn nonce_text(random: [u8; NONCE_BYTES]) -> Vec<u8> {
    STANDARD.encode(random).into_bytes()
}

#[cfg(test)]
mod tests;
