//! Validation and splitting of paths.
//!
//! Source: PathUtils.validatePath, PrepRequestProcessor.

use jute::Str;
use proto::ErrorCode;

/// Path of the root.
pub const ROOT: &str = "/";
/// Path of the parent of the server's own znodes.
pub const ZOOKEEPER: &str = "/zookeeper";
/// Path below which the limits and the usage of quotas are stored.
pub const QUOTA: &str = "/zookeeper/quota";
/// Path of the znode with the ensemble's configuration.
pub const CONFIG: &str = "/zookeeper/config";

/// Returns whether this is the path of one of the four system znodes, which cannot be deleted.
pub fn is_system(path: &str) -> bool {
    matches!(path, ROOT | ZOOKEEPER | QUOTA | CONFIG)
}

/// Validates the whole path, as required by create (including the sequence number), setData, setACL
/// and check.
///
/// # Errors
/// BadArguments if the path is not absolute, ends in `/` (except the root), has an empty, `.` or
/// `..` component, or contains a refused character.
pub fn validate(path: &str) -> Result<(), ErrorCode> {
    if is_plain(path.as_bytes()) {
        return Ok(());
    }
    let refused = Err(ErrorCode::BadArguments);
    let Some(rest) = path.strip_prefix('/') else {
        return refused;
    };
    if rest.is_empty() {
        return Ok(());
    }
    let mut component_start = 0;
    let bytes = rest.as_bytes();
    for (at, &byte) in bytes.iter().enumerate() {
        if byte == b'/' {
            if is_bad_component(&bytes[component_start..at]) {
                return refused;
            }
            component_start = at + 1;
        } else if byte < 0x20 || byte == 0x7f {
            return refused;
        }
    }
    if is_bad_component(&bytes[component_start..]) {
        return refused;
    }
    if !path.is_ascii() && path.chars().any(is_refused) {
        return refused;
    }
    Ok(())
}

/// Returns whether a path is certainly valid because it is printable ASCII and no component begins
/// with a dot. Most paths are plain, and this check is one pass without branches that covers many
/// bytes at a time.
fn is_plain(path: &[u8]) -> bool {
    let [b'/', .., last] = path else {
        return false;
    };
    let pairs = path.iter().zip(&path[1..]);
    let is_suspect = pairs.fold(false, |is_suspect, (byte, next)| {
        let is_character = (0x20..0x7f).contains(byte);
        let is_component = (*byte != b'/') | ((*next != b'/') & (*next != b'.'));
        is_suspect | !is_character | !is_component
    });
    !is_suspect && (0x20..0x7f).contains(last) && *last != b'/'
}

/// Returns the end of the name at the start of `path`, which is the first `/` or the end of the
/// path. Names are short, so this loop is faster than a search for long strings, which has a higher
/// start-up cost.
pub(crate) fn name_end(path: &[u8]) -> usize {
    const LOW: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    const SLASHES: u64 = u64::from_ne_bytes([b'/'; 8]);
    let (words, rest) = path.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        // The XOR turns each slash into a zero byte. The lowest marked byte is the first slash.
        let word = u64::from_le_bytes(*word) ^ SLASHES;
        let marks = word.wrapping_sub(LOW) & !word & HIGH;
        if marks != 0 {
            return at * 8 + (marks.trailing_zeros() / 8) as usize;
        }
    }
    let end = rest.iter().position(|byte| *byte == b'/');
    path.len() - rest.len() + end.unwrap_or(rest.len())
}

fn is_bad_component(component: &[u8]) -> bool {
    matches!(component, b"" | b"." | b"..")
}

/// Returns whether a path must not contain this character. This applies to control characters,
/// private use, the last sixteen characters of the basic plane, and all characters above that plane
/// (which are surrogates in Java).
fn is_refused(character: char) -> bool {
    matches!(character,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..)
}

/// A path that is split at its last `/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Split<'a> {
    /// Part before the last `/`; empty for the root and its children.
    pub(crate) parent: &'a str,
    /// Part after the last `/`, possibly empty.
    pub(crate) name: &'a str,
}

/// Splits a path that need not be valid. Returns `None` if it contains no `/`.
pub(crate) fn split(path: &str) -> Option<Split<'_>> {
    let (parent, name) = path.rsplit_once('/')?;
    Some(Split { parent, name })
}

/// Splits the path in a request, which must contain a `/` and no NUL.
///
/// # Errors
/// MarshallingError if the path is null, BadArguments if it contains no `/` or contains a NUL.
pub(crate) fn split_request(path: Option<&Str>) -> Result<(&Str, Split<'_>), ErrorCode> {
    let path = path.ok_or(ErrorCode::MarshallingError)?;
    match split(path) {
        Some(split) if !path.contains('\0') => Ok((path, split)),
        _ => Err(ErrorCode::BadArguments),
    }
}

/// Returns the path of the parent, where `parent` is [`Split::parent`] of `path`. The result is `/`
/// if `parent` is empty, and otherwise shares the bytes of `path`.
pub(crate) fn parent_key(path: &Str, parent: &str) -> Str {
    if parent.is_empty() {
        Str::from_static(ROOT)
    } else {
        path.slice_ref(parent)
    }
}

/// Returns the length of a string in UTF-16 code units, as in Java.
pub(crate) fn utf16_len(text: &str) -> usize {
    if text.is_ascii() {
        text.len()
    } else {
        text.chars().map(char::len_utf16).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_paths_are_accepted() {
        for path in [
            "/",
            "/a",
            "/a/b",
            "/.x",
            "/...",
            "/a.b/c d",
            "/\u{e9}\u{20ac}",
            "/a\u{d7ff}",
        ] {
            assert_eq!(validate(path), Ok(()), "{path:?}");
        }
    }

    #[test]
    fn invalid_paths_are_refused() {
        for path in [
            "",
            "a",
            "a/b",
            "/a/",
            "//",
            "//a",
            "/a//b",
            "/.",
            "/..",
            "/a/./b",
            "/a/../b",
            "/a/..",
            "/\u{1}",
            "/\u{7f}",
            "/a\0",
            "/\u{9f}",
            "/\u{e000}",
            "/\u{f8ff}",
            "/\u{fffd}",
            "/\u{1f600}",
        ] {
            assert_eq!(validate(path), Err(ErrorCode::BadArguments), "{path:?}");
        }
    }

    #[test]
    fn a_plain_path_is_valid_and_most_are_plain() {
        for path in ["/a", "/zookeeper/config", "/a.b/c d", "/a/b..", "/~/-"] {
            assert!(is_plain(path.as_bytes()), "{path:?}");
        }
        // Every pair of ASCII characters is tested in the middle and at the end of a path.
        for (first, second) in
            (0..=0x7fu8).flat_map(|first| (0..=0x7fu8).map(move |second| (first, second)))
        {
            for end in ["", "x", "/x"] {
                let pair = String::from_utf8(vec![first, second]).unwrap();
                let path = format!("/pad/{pair}{end}");
                assert!(
                    !is_plain(path.as_bytes()) || is_valid_by_component(&path),
                    "{path:?}"
                );
                assert_eq!(
                    validate(&path).is_ok(),
                    is_valid_by_component(&path),
                    "{path:?}"
                );
            }
        }
    }

    /// Reference implementation that validates a path component by component.
    fn is_valid_by_component(path: &str) -> bool {
        let is_refused = path.bytes().any(|byte| byte < 0x20 || byte == 0x7f);
        let mut names = path.split('/').skip(1);
        !is_refused && names.all(|name| !matches!(name, "" | "." | ".."))
    }

    #[test]
    fn a_name_ends_at_the_first_slash() {
        for name in 0..20 {
            let name = "n".repeat(name);
            for behind in ["", "/", "/b", "/bbbbbbbbbbbbbbbbbb/c", "/////////"] {
                let path = format!("{name}{behind}");
                assert_eq!(name_end(path.as_bytes()), name.len(), "{path:?}");
            }
        }
        // The characters next to the slash in ASCII are not slashes.
        assert_eq!(name_end(b".0.0.0.0\xaf\x2e\xb0\x30/"), 12);
    }

    #[test]
    fn java_counts_two_units_above_the_basic_plane() {
        assert_eq!(utf16_len("/a"), 2);
        assert_eq!(utf16_len("/\u{fc}\u{1f600}"), 4);
    }
}
