//! Types for data that must not be logged: passwords, digests, credentials, tokens.
//!
//! The types do not implement `Display`, and `Debug` hides their content. The time of a comparison
//! does not depend on the length of an equal prefix.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use jute::{Decode, DecodeError, Encode, Reader};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Text that `Debug` prints instead of a secret.
const HIDDEN: &str = "(hidden)";

/// A password, or a string that may contain one. It is overwritten when it is dropped.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

/// A field of a record that contains a password, credentials or a token. It shares the bytes of the
/// received frame, so the bytes are not overwritten when it is dropped.
#[derive(Clone)]
pub struct Hidden<T>(T);

impl Secret {
    /// Wraps a string.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// Returns the string. Do not log it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns whether the secret equals this string.
    pub fn is(&self, text: &str) -> bool {
        self.0.as_bytes().ct_eq(text.as_bytes()).into()
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.is(other.expose())
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

/// A secret that may be set or removed while the process runs. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct LateSecret(Arc<RwLock<Option<Secret>>>);

impl LateSecret {
    /// Sets the secret, or removes it if `secret` is `None`.
    pub fn set(&self, secret: Option<Secret>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = secret;
    }

    /// Returns whether a secret is set and equals this string.
    pub fn is(&self, text: &str) -> bool {
        let secret = self.0.read().unwrap_or_else(PoisonError::into_inner);
        secret.as_ref().is_some_and(|secret| secret.is(text))
    }
}

impl PartialEq for LateSecret {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for LateSecret {}

impl<T> Hidden<T> {
    /// Returns the field. Do not log it.
    pub fn expose(&self) -> &T {
        &self.0
    }

    /// Returns the field by value. Do not log it.
    pub fn into_exposed(self) -> T {
        self.0
    }
}

impl<T> From<T> for Hidden<T> {
    fn from(field: T) -> Self {
        Self(field)
    }
}

impl PartialEq for Hidden<Bytes> {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl PartialEq for Hidden<Option<Bytes>> {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(own), Some(other)) => own.ct_eq(other).into(),
            (own, other) => own.is_none() && other.is_none(),
        }
    }
}

impl Eq for Hidden<Bytes> {}

impl Eq for Hidden<Option<Bytes>> {}

impl<T> fmt::Debug for Hidden<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl<T: Decode> Decode for Hidden<T> {
    const MIN_BYTES: usize = T::MIN_BYTES;

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        T::decode(input).map(Self)
    }
}

impl<T: Encode> Encode for Hidden<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::connect::{AuthPacket, ConnectRequest, ConnectResponse, SaslToken};
    use crate::peers::hello::QuorumAuthPacket;
    use crate::{SessionId, Zxid};

    #[test]
    fn whole_texts_are_compared() {
        let secret = Secret::new("hunter2");
        assert!(secret.is("hunter2"));
        for other in ["", "hunter", "hunter22", "Hunter2"] {
            assert!(!secret.is(other), "{other}");
            assert_ne!(secret, Secret::new(other));
        }
        let field = |text: Option<&'static str>| Hidden::from(text.map(Bytes::from));
        assert_eq!(field(Some("ab")), field(Some("ab")));
        assert_eq!(field(None), field(None));
        for other in [None, Some(""), Some("ac"), Some("abc")] {
            assert_ne!(field(Some("ab")), field(other));
        }
    }

    #[test]
    fn no_record_shows_a_secret() {
        let secret = || Hidden::from(Some(Bytes::from("hunter2")));
        let shown = [
            format!("{:?}", Secret::new("hunter2")),
            format!("{:?}", SaslToken { token: secret() }),
            format!(
                "{:?}",
                QuorumAuthPacket {
                    magic: 0,
                    status: 0,
                    token: secret()
                }
            ),
            format!(
                "{:?}",
                AuthPacket {
                    auth_type: 0,
                    scheme: None,
                    auth: secret()
                }
            ),
            format!(
                "{:?}",
                ConnectRequest {
                    protocol_version: 0,
                    last_zxid_seen: Zxid::ZERO,
                    timeout_ms: 0,
                    session_id: SessionId::NONE,
                    password: secret(),
                    read_only: None,
                }
            ),
            format!(
                "{:?}",
                ConnectResponse {
                    protocol_version: 0,
                    timeout_ms: 0,
                    session_id: SessionId::NONE,
                    password: Bytes::from("hunter2").into(),
                    read_only: None,
                }
            ),
        ];
        for shown in shown {
            assert!(shown.contains(HIDDEN), "{shown}");
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }
}
