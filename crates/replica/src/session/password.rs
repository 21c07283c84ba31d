//! The password of a session id.

use std::fmt;
use std::sync::Arc;

use config::{Config, SessionSecret};
use hmac::{Hmac, Mac};
use proto::{Secret, SessionId};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Size of a password, bytes.
pub const PASSWORD_BYTES: usize = 16;

const SALT: i64 = 0xb341_5c00;
const MULTIPLIER: u64 = 0x5_deec_e66d;
const INCREMENT: u64 = 0xb;
const MASK: u64 = (1 << 48) - 1;

/// Derivation of a session's password from the session's id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PasswordRule {
    /// The public formula of Apache ZooKeeper. Anyone who knows an id can compute its password.
    Legacy,
    /// An HMAC of the id with this secret.
    Secret(Secret),
}

/// Rules for session passwords. The first rule creates passwords, and the passwords of all rules
/// are accepted.
///
/// All members of an ensemble must have the same rules. Otherwise a session does not survive a
/// move.
#[derive(Clone)]
pub struct Passwords(Arc<[PasswordRule]>);

impl Default for Passwords {
    /// Creates rules that contain only Apache ZooKeeper's formula.
    fn default() -> Self {
        Self(Arc::new([PasswordRule::Legacy]))
    }
}

impl fmt::Debug for Passwords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Passwords({} rules)", self.0.len())
    }
}

impl Passwords {
    /// Creates the rules of a configuration.
    pub fn configured(config: &Config) -> Self {
        let secrets = config.sessions.secrets.iter();
        Self::new(secrets.map(|secret| match secret {
            SessionSecret::Legacy => PasswordRule::Legacy,
            SessionSecret::Secret(secret) => PasswordRule::Secret(secret.clone()),
        }))
    }

    /// Creates the rules in this order. If the list is empty, only Apache ZooKeeper's formula
    /// applies.
    pub fn new(rules: impl IntoIterator<Item = PasswordRule>) -> Self {
        let rules: Arc<[PasswordRule]> = rules.into_iter().collect();
        if rules.is_empty() {
            Self::default()
        } else {
            Self(rules)
        }
    }

    /// Computes the password of a session.
    pub fn password(&self, id: SessionId) -> [u8; PASSWORD_BYTES] {
        self.0
            .first()
            .map_or_else(|| password(id), |rule| rule.password(id))
    }

    /// Returns whether `given` is a password of `id` by any of the rules. Null, a wrong length and
    /// session 0 never match. The comparison takes the same time whatever the bytes are.
    pub fn matches(&self, id: SessionId, given: Option<&[u8]>) -> bool {
        let given = given.unwrap_or_default();
        let is_right = self.0.iter().fold(false, |is_right, rule| {
            let matches: bool = rule.password(id)[..].ct_eq(given).into();
            is_right | matches
        });
        id != SessionId::NONE && is_right
    }

    /// Returns a hash of the rules and their order, by which members can compare them. The hash
    /// does not reveal a secret, because secrets are too long to be guessed.
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new_with_prefix("zoarium session passwords");
        for rule in &*self.0 {
            let bytes = match rule {
                PasswordRule::Legacy => &[][..],
                PasswordRule::Secret(secret) => secret.expose().as_bytes(),
            };
            hash.update((bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        }
        let hash = hash.finalize();
        hash.iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

impl PasswordRule {
    fn password(&self, id: SessionId) -> [u8; PASSWORD_BYTES] {
        let Self::Secret(secret) = self else {
            return password(id);
        };
        // Keys of any length are accepted, so this error cannot occur.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes()) else {
            return password(id);
        };
        mac.update(&id.0.to_be_bytes());
        let mut out = [0; PASSWORD_BYTES];
        let code = mac.finalize().into_bytes();
        out.iter_mut().zip(code).for_each(|(out, byte)| *out = byte);
        out
    }
}

/// Returns the password of a session by Apache ZooKeeper's formula.
///
/// It depends only on the id, so it protects against mix-ups but not against attackers. An Apache
/// ZooKeeper server that runs on the same data before or after Zoarium computes the same bytes.
///
/// Source: ZooKeeperServer.generatePasswd over java.util.Random.
pub fn password(id: SessionId) -> [u8; PASSWORD_BYTES] {
    let mut state = ((id.0 ^ SALT).cast_unsigned() ^ MULTIPLIER) & MASK;
    let mut out = [0; PASSWORD_BYTES];
    for word in out.chunks_exact_mut(4) {
        state = state.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT) & MASK;
        // The generator returns the upper 32 of its 48 bits.
        word.copy_from_slice(&(((state >> 16) & 0xffff_ffff) as u32).to_le_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(letter: char) -> PasswordRule {
        PasswordRule::Secret(Secret::new(letter.to_string().repeat(32)))
    }

    fn with<const N: usize>(rules: [PasswordRule; N]) -> Passwords {
        Passwords::new(rules)
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn passwords_are_those_of_apache_zookeeper() {
        for (id, expected) in [
            (0x0000_0000_0000_0001, "054cc74a37327db215e702e20c73f005"),
            (0x0100_0000_0000_0000, "f22acd4a97e69d6d20a49bb638eadb38"),
            (0x0100_0157_d6a5_0000, "b1dc1a86ea2e78f977010b0643d25697"),
            (0x0100_0015_ccec_0000, "f61859444bd6b949c46bcc990c432e0b"),
        ] {
            assert_eq!(hex(&password(SessionId(id))), expected, "{id:#x}");
        }
    }

    #[test]
    fn only_all_sixteen_bytes_match() {
        let id = SessionId(0x0100_0000_0000_0000);
        for passwords in [Passwords::default(), with([secret('a'), secret('b')])] {
            check_bytes(&passwords, id);
        }
    }

    fn check_bytes(passwords: &Passwords, id: SessionId) {
        let right = passwords.password(id);
        assert!(passwords.matches(id, Some(&right)));
        assert!(!passwords.matches(id, None));
        assert!(!passwords.matches(id, Some(&[])));
        assert!(!passwords.matches(id, Some(&right[..15])));
        assert!(!passwords.matches(id, Some(&[&right[..], &[0]].concat())));
        for at in 0..PASSWORD_BYTES {
            let mut wrong = right;
            wrong[at] ^= 1;
            assert!(!passwords.matches(id, Some(&wrong)), "byte {at}");
        }
    }

    #[test]
    fn session_zero_has_no_password() {
        let passwords = with([PasswordRule::Legacy, secret('a')]);
        let zero = password(SessionId::NONE);
        assert!(!passwords.matches(SessionId::NONE, Some(&zero)));
        assert!(!passwords.matches(SessionId::NONE, Some(&[0; 16])));
    }

    #[test]
    fn a_negative_id_has_its_own_password() {
        // The salt is a Java long whose upper half is zero, so the id's sign survives the xor.
        assert_ne!(password(SessionId(-1)), password(SessionId(0xffff_ffff)));
    }

    #[test]
    fn the_first_rule_makes_passwords_and_all_are_accepted() {
        let id = SessionId(0x0100_0157_d6a5_0000);
        let (a, b) = (with([secret('a')]), with([secret('b')]));
        let legacy = Passwords::default();
        assert_eq!(legacy.password(id), password(id));
        // Steps that introduce, rotate and remove a secret. Each step accepts the previous
        // passwords.
        let steps = [
            legacy.clone(),
            with([PasswordRule::Legacy, secret('a')]),
            with([secret('a'), PasswordRule::Legacy]),
            a.clone(),
            with([secret('a'), secret('b')]),
            with([secret('b'), secret('a')]),
            b.clone(),
            with([secret('b'), PasswordRule::Legacy]),
            with([PasswordRule::Legacy, secret('b')]),
            legacy.clone(),
        ];
        let mut fingerprints = std::collections::BTreeSet::new();
        for pair in steps.windows(2) {
            let [before, after] = pair else { continue };
            assert!(after.matches(id, Some(&before.password(id))), "{pair:?}");
            assert!(before.matches(id, Some(&after.password(id))), "{pair:?}");
            fingerprints.insert(after.fingerprint());
        }
        assert_eq!(fingerprints.len(), steps.len() - 1);
        for (one, other) in [(&a, &b), (&a, &legacy), (&legacy, &a)] {
            assert!(!one.matches(id, Some(&other.password(id))));
        }
        assert_ne!(a.password(id), a.password(SessionId(id.0 + 1)));
        let shown = format!("{a:?}");
        assert!(!shown.contains("aaaa"), "{shown}");
    }
}
