//! Base64, in which answers contain data of znodes.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let padded = [group.first(), group.get(1), group.get(2)];
        let padded = padded.map(|byte| u32::from(byte.copied().unwrap_or_default()));
        let bits = padded[0] << 16 | padded[1] << 8 | padded[2];
        for digit in 0..4 {
            if digit > group.len() {
                text.push('=');
            } else {
                let index = (bits >> (18 - 6 * digit)) & 63;
                text.push(char::from(DIGITS[index as usize]));
            }
        }
    }
    text
}

/// Decodes a string.
pub(crate) fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    for group in text.as_bytes().chunks(4) {
        let mut bits = 0;
        let digits: Vec<usize> = group
            .iter()
            .filter_map(|digit| DIGITS.iter().position(|known| known == digit))
            .collect();
        for digit in 0..4 {
            bits = bits << 6 | digits.get(digit).copied().unwrap_or_default();
        }
        let whole = u32::try_from(bits).ok()?.to_be_bytes();
        bytes.extend_from_slice(whole.get(1..digits.len())?);
    }
    String::from_utf8(bytes).ok()
}
