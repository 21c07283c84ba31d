//! Random changes to bytes, as caused by a faulty disk.

use crate::Random;

/// Makes one random change.
fn alter(bytes: &mut Vec<u8>, random: &mut Random) {
    if bytes.is_empty() {
        return;
    }
    let at = random.below(bytes.len());
    let end = random.below(64) + at + 1;
    let end = end.min(bytes.len());
    match random.below(7) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at..end]
            .iter_mut()
            .for_each(|byte| *byte = random.byte()),
        2 => drop(bytes.drain(at..end)),
        3 => {
            let new: Vec<u8> = (at..end).map(|_| random.byte()).collect();
            bytes.splice(at..at, new);
        }
        4 => bytes[at..end].fill(0),
        5 => bytes.truncate(at),
        _ => {
            // Writes a number that would be plausible as a length or count.
            let number = [
                0u32,
                1,
                0x42,
                0x7fff_ffff,
                0xffff_ffff,
                0x001f_fffe,
                0x0200_0000,
            ];
            let number = number[random.below(7)];
            for (byte, new) in bytes[at..].iter_mut().zip(number.to_be_bytes()) {
                *byte = new;
            }
        }
    }
}

/// Returns a copy of the bytes with one to three random changes. A change flips a bit, overwrites,
/// zeroes, removes or inserts some bytes, writes a plausible length, or truncates the copy.
pub fn altered(original: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = original.to_vec();
    for _ in 0..=random.below(3) {
        alter(&mut bytes, random);
    }
    bytes
}
