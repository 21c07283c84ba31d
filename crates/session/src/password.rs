//! The password that goes with a session id.

use proto::SessionId;
use subtle::ConstantTimeEq;

/// Bytes in a password.
pub const PASSWORD_BYTES: usize = 16;

const SALT: i64 = 0xb341_5c00;
const MULTIPLIER: u64 = 0x5_deec_e66d;
const INCREMENT: u64 = 0xb;
const MASK: u64 = (1 << 48) - 1;

/// The password of a session.
///
/// It follows from the id alone, so it guards against mix-ups and not against attackers; but
/// every server of an ensemble, and Apache ZooKeeper before or after us on the same data, must
/// come to the same bytes or no session survives a move.
///
/// Source: ZooKeeperServer.generatePasswd over java.util.Random.
pub fn password(id: SessionId) -> [u8; PASSWORD_BYTES] {
    let mut state = ((id.0 ^ SALT).cast_unsigned() ^ MULTIPLIER) & MASK;
    let mut out = [0; PASSWORD_BYTES];
    for word in out.chunks_exact_mut(4) {
        state = state.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT) & MASK;
        // The generator hands out the upper 32 of its 48 bits.
        word.copy_from_slice(&(((state >> 16) & 0xffff_ffff) as u32).to_le_bytes());
    }
    out
}

/// Whether `given` is the password of `id`. Null, a wrong length and session 0 never match. How long it takes says
/// nothing about the bytes.
pub fn password_matches(id: SessionId, given: Option<&[u8]>) -> bool {
    let is_right = given.is_some_and(|given| password(id)[..].ct_eq(given).into());
    id != SessionId::NONE && is_right
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let right = password(id);
        assert!(password_matches(id, Some(&right)));
        assert!(!password_matches(id, None));
        assert!(!password_matches(id, Some(&[])));
        assert!(!password_matches(id, Some(&right[..15])));
        assert!(!password_matches(id, Some(&[&right[..], &[0]].concat())));
        for at in 0..PASSWORD_BYTES {
            let mut wrong = right;
            wrong[at] ^= 1;
            assert!(!password_matches(id, Some(&wrong)), "byte {at}");
        }
    }

    #[test]
    fn session_zero_has_no_password() {
        let zero = password(SessionId::NONE);
        assert!(!password_matches(SessionId::NONE, Some(&zero)));
        assert!(!password_matches(SessionId::NONE, Some(&[0; 16])));
    }

    #[test]
    fn a_negative_id_has_its_own_password() {
        // The salt is a Java long: its upper half is zero, so the id's sign survives the xor.
        assert_ne!(password(SessionId(-1)), password(SessionId(0xffff_ffff)));
    }
}
