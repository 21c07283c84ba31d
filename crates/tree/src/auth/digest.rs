//! Ids in the digest scheme: `user:base64(hash(user:password))`.
//!
//! Source: DigestAuthenticationProvider.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use proto::Id;
use sha1::Sha1;
use sha2::digest::{Digest, DynDigest};
use sha2::{Sha224, Sha256, Sha384, Sha512};
use sha3::{Sha3_224, Sha3_256, Sha3_384, Sha3_512};

use super::settings::{DIGEST, DigestSettings, SUPER};

macro_rules! algorithms {
    ($( $name:ident $type:ty, $java:literal $(, $other:literal)*; )+) => {
        /// Hash functions, by their Java names.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum DigestAlgorithm { $( #[doc = $java] $name, )+ }

        impl DigestAlgorithm {
            /// Returns the algorithm with this name (in any case); `None` if it is unknown. MD2 and
            /// MD5, which Java also supports, are refused.
            pub fn from_name(name: &str) -> Option<Self> {
                match name.to_ascii_uppercase().as_str() {
                    $( $java $(| $other)* => Some(Self::$name), )+
                    _ => None,
                }
            }

            fn hasher(self) -> Box<dyn DynDigest> {
                match self { $( Self::$name => Box::new(<$type>::new()), )+ }
            }
        }
    };
}

algorithms! {
    Sha1 Sha1, "SHA1", "SHA-1", "SHA";
    Sha224 Sha224, "SHA-224", "SHA224";
    Sha256 Sha256, "SHA-256", "SHA256";
    Sha384 Sha384, "SHA-384", "SHA384";
    Sha512 Sha512, "SHA-512", "SHA512";
    Sha3_224 Sha3_224, "SHA3-224";
    Sha3_256 Sha3_256, "SHA3-256";
    Sha3_384 Sha3_384, "SHA3-384";
    Sha3_512 Sha3_512, "SHA3-512";
}

/// Returns the id for `user:password`. Without a colon, the whole string is the user.
pub fn digest_id(algorithm: DigestAlgorithm, user_and_password: &[u8]) -> String {
    let text = String::from_utf8_lossy(user_and_password);
    let mut hasher = algorithm.hasher();
    hasher.update(text.as_bytes());
    let user = text.split(':').next().unwrap_or_default();
    format!("{user}:{}", BASE64_STANDARD.encode(hasher.finalize()))
}

/// Returns the identities for an auth packet with this data.
pub(super) fn identities(settings: &DigestSettings, data: &[u8]) -> Vec<Id> {
    let digest = digest_id(settings.algorithm, data);
    let super_digest = settings.super_digest.as_ref();
    let has_token = std::str::from_utf8(data).is_ok_and(|data| settings.admin_token.is(data));
    let is_super = has_token || super_digest.is_some_and(|secret| secret.is(&digest));
    let super_id = is_super.then(|| Id {
        scheme: SUPER.into(),
        id: "".into(),
    });
    let own_id = Id {
        scheme: DIGEST.into(),
        id: digest.into(),
    };
    super_id.into_iter().chain([own_id]).collect()
}

/// Returns whether the id is a pair separated by a colon. Empty parts at the end are ignored.
pub(super) fn is_valid(id: &str) -> bool {
    id.trim_end_matches(':').matches(':').count() == 1
}
