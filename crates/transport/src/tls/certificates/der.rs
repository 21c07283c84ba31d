//! DER elements, for the few structures that no library parses.

/// An element of DER.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Element<'a> {
    /// Tag of the element, one byte.
    pub(crate) tag: u8,
    /// Content without tag and length.
    pub(crate) content: &'a [u8],
    /// Tag, length and content together.
    pub(crate) raw: &'a [u8],
}

/// Tag of an INTEGER.
pub(crate) const INTEGER: u8 = 0x02;
/// Tag of a BIT STRING.
pub(crate) const BIT_STRING: u8 = 0x03;
/// Tag of a SEQUENCE.
pub(crate) const SEQUENCE: u8 = 0x30;

/// Reads the next element of `rest`. Returns `None` if the bytes are not DER, or if the tag has
/// several bytes.
pub(crate) fn next<'a>(rest: &mut &'a [u8]) -> Option<Element<'a>> {
    let bytes = *rest;
    let (&tag, after) = bytes.split_first()?;
    if tag & 0x1F == 0x1F {
        return None;
    }
    let (&first, mut after) = after.split_first()?;
    let len = match first {
        0..=0x7F => usize::from(first),
        0x81..=0x84 => {
            let (digits, content) = after.split_at_checked(usize::from(first & 0x7F))?;
            after = content;
            let len = digits
                .iter()
                .fold(0, |len, &digit| len << 8 | usize::from(digit));
            // Only the shortest form is valid.
            let is_shortest = len > 0x7F && digits.first() != Some(&0);
            is_shortest.then_some(len)?
        }
        _ => return None,
    };
    let (content, left) = after.split_at_checked(len)?;
    *rest = left;
    let raw = bytes.get(..bytes.len() - left.len())?;
    Some(Element { tag, content, raw })
}

/// Reads the next element, which must have this tag.
pub(crate) fn expect<'a>(rest: &mut &'a [u8], tag: u8) -> Option<Element<'a>> {
    next(rest).filter(|element| element.tag == tag)
}

/// Reads the only element of `bytes`, which must have this tag.
pub(crate) fn only(mut bytes: &[u8], tag: u8) -> Option<Element<'_>> {
    let element = expect(&mut bytes, tag)?;
    bytes.is_empty().then_some(element)
}

/// Returns the bytes of a BIT STRING, or `None` if its last byte contains unused bits.
pub(crate) fn bits<'a>(element: &Element<'a>) -> Option<&'a [u8]> {
    let (&unused, bits) = element.content.split_first()?;
    (unused == 0).then_some(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_one_form_only() {
        let long = [&[SEQUENCE, 0x81, 0x80][..], &[0; 128]].concat();
        let element = only(&long, SEQUENCE).expect("an element");
        assert_eq!((element.content.len(), element.raw), (128, &long[..]));
        for wrong in [
            &[SEQUENCE, 0x80][..],
            &[SEQUENCE, 0x81, 0x01, 0x00],
            &[SEQUENCE, 0x82, 0x00, 0x80],
            &[SEQUENCE, 0x02, 0x00],
            &[SEQUENCE, 0x00, 0x00],
            &[0x3F, 0x21, 0x00],
            &[SEQUENCE],
            &[],
        ] {
            assert_eq!(only(wrong, SEQUENCE), None, "{wrong:02x?}");
        }
    }
}
