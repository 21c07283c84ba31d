//! The hash that proves a password. Source: RFC 2831, 2.1.2.1; DigestMD5Base.generateResponseValue.

use md5::{Digest, Md5};
use zeroize::Zeroizing;

/// Input of the hash.
pub(super) struct Proof<'a> {
    pub(super) user: &'a str,
    pub(super) realm: &'a str,
    pub(super) password: &'a str,
    pub(super) nonce: &'a [u8],
    pub(super) cnonce: &'a [u8],
    pub(super) uri: &'a [u8],
    pub(super) authzid: Option<&'a [u8]>,
}

/// Number of uses of a nonce. Each nonce is used once.
pub(super) const NONCE_COUNT: &[u8] = b"00000001";
/// The only supported quality of protection: authentication without a security layer.
pub(super) const QOP: &[u8] = b"auth";

impl Proof<'_> {
    /// Returns the client's response.
    pub(super) fn of_client(&self) -> [u8; 32] {
        self.hash(b"AUTHENTICATE:")
    }

    /// Returns the server's response, which proves that the server also knows the password.
    pub(super) fn of_server(&self) -> [u8; 32] {
        self.hash(b":")
    }

    fn hash(&self, method: &[u8]) -> [u8; 32] {
        let secret = Md5::new()
            .chain_update(latin1(self.user))
            .chain_update(b":")
            .chain_update(latin1(self.realm))
            .chain_update(b":")
            .chain_update(latin1(self.password))
            .finalize();
        let mut first = Md5::new()
            .chain_update(Zeroizing::new(<[u8; 16]>::from(secret)))
            .chain_update(b":")
            .chain_update(self.nonce)
            .chain_update(b":")
            .chain_update(self.cnonce);
        if let Some(authzid) = self.authzid {
            first.update(b":");
            first.update(authzid);
        }
        let second = Md5::new().chain_update(method).chain_update(self.uri);
        let whole = Md5::new()
            .chain_update(hex(first.finalize().into()))
            .chain_update(b":")
            .chain_update(self.nonce)
            .chain_update(b":")
            .chain_update(NONCE_COUNT)
            .chain_update(b":")
            .chain_update(self.cnonce)
            .chain_update(b":")
            .chain_update(QOP)
            .chain_update(b":")
            .chain_update(hex(second.finalize().into()));
        hex(whole.finalize().into())
    }
}

/// Encodes a string in ISO 8859-1 if this encoding contains all characters of the string, otherwise
/// in UTF-8.
fn latin1(text: &str) -> Zeroizing<Vec<u8>> {
    let bytes: Result<Vec<u8>, _> = text.chars().map(u8::try_from).collect();
    Zeroizing::new(bytes.unwrap_or_else(|_| text.as_bytes().to_vec()))
}

fn hex(hash: [u8; 16]) -> [u8; 32] {
    let digits = hash.into_iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let mut text = [0; 32];
    for (place, digit) in text.iter_mut().zip(digits) {
        *place = match digit {
            0..10 => b'0' + digit,
            _ => b'a' + digit - 10,
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example in RFC 2831, section 4.
    #[test]
    fn the_example_of_the_rfc_is_reproduced() {
        let proof = Proof {
            user: "chris",
            realm: "elwood.innosoft.com",
            password: "secret",
            nonce: b"OA6MG9tEQGm2hh",
            cnonce: b"OA6MHXh6VqTrRk",
            uri: b"imap/elwood.innosoft.com",
            authzid: None,
        };
        assert_eq!(&proof.of_client(), b"d388dad90d4bbd760a152321f2143af7");
        assert_eq!(&proof.of_server(), b"ea40f60335c427b5527b84dbabcdfffd");
    }

    #[test]
    fn latin1_letters_take_one_byte() {
        assert_eq!(**latin1("\u{fc}"), [0xfc]);
        assert_eq!(**latin1("\u{4e2d}"), *"\u{4e2d}".as_bytes());
    }
}
