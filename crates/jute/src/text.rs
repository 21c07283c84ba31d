//! Strings as Java reads and writes them.

use bytes::Bytes;

use crate::Str;

/// Decodes bytes that should be UTF-8. Malformed parts become U+FFFD, as in Java's decoder.
pub fn decode(bytes: Bytes) -> Str {
    // The conversion checks the bytes again. This is cheaper than another reference to the frame,
    // whose reference count other threads also change.
    match std::str::from_utf8(&bytes) {
        Ok(_) => Str::try_from(bytes).unwrap_or_default(),
        Err(_) => decode_lossy(&bytes).into(),
    }
}

/// Decodes malformed UTF-8. Java replaces an encoded surrogate (`ED A0..BF xx`) with one U+FFFD,
/// and Rust with three. The server itself writes encoded surrogate pairs for characters above
/// U+FFFF, which must be decoded to two U+FFFD, as in Java. A surrogate that is truncated after two
/// bytes also becomes one U+FFFD.
fn decode_lossy(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((before, surrogate)) = split_at_surrogate(rest) {
        out.push_str(&String::from_utf8_lossy(before));
        out.push(char::REPLACEMENT_CHARACTER);
        rest = match surrogate {
            [_, _, 0x80..=0xbf, after @ ..] | [_, _, after @ ..] => after,
            _ => &[],
        };
    }
    out.push_str(&String::from_utf8_lossy(rest));
    out
}

/// Splits the bytes at the start of the first encoded surrogate. Returns `None` without a
/// surrogate.
fn split_at_surrogate(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = bytes.windows(2).position(begins_surrogate)?;
    bytes.split_at_checked(at)
}

fn begins_surrogate(window: &[u8]) -> bool {
    matches!(window, [0xed, 0xa0..=0xbf])
}

/// Appends `text` in the encoding of Java's server, which encodes each UTF-16 unit separately
/// (CESU-8).
pub(crate) fn encode(text: &str, out: &mut Vec<u8>) {
    // Only characters above U+FFFF start with a byte of 0xf0 or more.
    if text.bytes().all(|byte| byte < 0xf0) {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    for character in text.chars() {
        let mut units = [0u16; 2];
        for unit in character.encode_utf16(&mut units) {
            encode_unit(*unit, out);
        }
    }
}

fn encode_unit(unit: u16, out: &mut Vec<u8>) {
    let [high, low] = unit.to_be_bytes();
    match unit {
        0..0x80 => out.push(low),
        0x80..0x800 => {
            out.extend_from_slice(&[0xc0 | (high << 2) | (low >> 6), 0x80 | (low & 0x3f)]);
        }
        _ => out.extend_from_slice(&[
            0xe0 | (high >> 4),
            0x80 | ((high & 0x0f) << 2) | (low >> 6),
            0x80 | (low & 0x3f),
        ]),
    }
}

/// Returns the number of bytes that `encode` appends for `text`.
pub fn encoded_len(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    text.len() + 2 * text.bytes().filter(|byte| *byte >= 0xf0).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_above_the_basic_plane_are_written_as_two_surrogates() {
        let mut out = Vec::new();
        encode("a\u{1F600}\u{e9}\u{20ac}", &mut out);
        assert_eq!(out, b"a\xed\xa0\xbd\xed\xb8\x80\xc3\xa9\xe2\x82\xac");
        assert_eq!(out.len(), encoded_len("a\u{1F600}\u{e9}\u{20ac}"));
    }

    #[test]
    fn an_encoded_surrogate_reads_as_one_replacement_character() {
        let read = decode(Bytes::from_static(b"a\xed\xa0\xbd\xed\xb8\x80b"));
        assert_eq!(&read[..], "a\u{fffd}\u{fffd}b");
        assert_eq!(
            &decode(Bytes::from_static(b"\xff\xfe"))[..],
            "\u{fffd}\u{fffd}"
        );
        // In a recorded log, Java decodes `ED B7` as one truncated character.
        let cut = decode(Bytes::from_static(b"W\xed\xb7\xc2^\xed\xb7"));
        assert_eq!(&cut[..], "W\u{fffd}\u{fffd}^\u{fffd}");
    }
}
