//! The order in which the identities of a connection are shown.

use hashbrown::HashSet;
use proto::Id;

/// Initial number of buckets of a set in Java.
const BUCKETS_START: usize = 16;

/// Returns the distinct identities in the order in which Java iterates over them.
///
/// In Java, a connection's identities form a hash set. whoAmI and the audit log show them in the
/// order of its buckets and, within a bucket, oldest first. Source: ServerCnxn.authInfo (a
/// ConcurrentHashMap), and the hashCode of the record Id.
pub fn in_java_order(identities: &[Id]) -> Vec<&Id> {
    let mut seen = HashSet::new();
    let mut distinct: Vec<&Id> = identities.iter().filter(|id| seen.insert(*id)).collect();
    let mut buckets = BUCKETS_START;
    while distinct.len() >= buckets - buckets / 4 {
        buckets *= 2;
    }
    let last = u32::try_from(buckets - 1).unwrap_or(u32::MAX);
    distinct.sort_by_key(|id| {
        let hash = hash_code(id);
        (hash ^ (hash >> 16)) & last
    });
    distinct
}

fn hash_code(id: &Id) -> u32 {
    [&id.scheme, &id.id].iter().fold(17, |hash: u32, text| {
        hash.wrapping_mul(37).wrapping_add(text_hash(text))
    })
}

/// Computes the hash of a string. Source: String.hashCode.
fn text_hash(text: &str) -> u32 {
    text.encode_utf16().fold(0, |hash: u32, unit| {
        hash.wrapping_mul(31).wrapping_add(unit.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(scheme: &str, id: &str) -> Id {
        Id {
            scheme: scheme.into(),
            id: id.into(),
        }
    }

    /// Recorded from Apache ZooKeeper 3.9.5: `bob,carol,127.0.0.1` and `super,127.0.0.1`, with the
    /// address added first.
    #[test]
    fn users_are_printed_as_in_java() {
        let ip = id("ip", "127.0.0.1");
        let bob = id("digest", "bob:ikIaKsbtGweaHnb/jKn7OHqbunM=");
        let carol = id("digest", "carol:RffyCdXXV1Js0ywLAoP5/l25yKs=");
        let held = [ip.clone(), carol.clone(), bob.clone()];
        assert_eq!(in_java_order(&held), [&bob, &carol, &ip]);
        let (sup, digest) = (
            id("super", ""),
            id("digest", "super:lK75jTNcA+U9vtVEw5vB51mj/w4="),
        );
        let held = [ip.clone(), sup.clone(), digest.clone(), sup.clone()];
        assert_eq!(in_java_order(&held), [&sup, &digest, &ip]);
        let sasl = id("sasl", "bob");
        assert_eq!(in_java_order(&[ip.clone(), sasl.clone()]), [&sasl, &ip]);
    }

    #[test]
    fn hashes_are_java_strings() {
        assert_eq!(text_hash(""), 0);
        assert_eq!(text_hash("hello"), 99_162_322);
        // The character consists of two UTF-16 units.
        assert_eq!(text_hash("\u{1F600}"), 1_772_899);
    }
}
