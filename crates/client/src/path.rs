//! Rules for the paths of znodes.
//!
//! Source: PathUtils.validatePath.

/// Reason why a path is invalid. An index counts UTF-16 units from 0, as in Java.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathFault {
    /// The path is empty.
    #[error("it is empty")]
    Empty,
    /// The path does not begin with a slash.
    #[error("it does not begin with a slash")]
    Relative,
    /// The path ends with a slash.
    #[error("it ends with a slash")]
    EndsWithSlash,
    /// A name is empty. Contains its index.
    #[error("the name at index {0} is empty")]
    EmptyName(usize),
    /// A name is `.` or `..`. Contains the index of its last dot.
    #[error("the name that ends at index {0} is \".\" or \"..\"")]
    DotName(usize),
    /// The path is the root, which the operation cannot change.
    #[error("it is the root")]
    Root,
    /// The path contains NUL. Contains its index.
    #[error("it contains NUL at index {0}")]
    Nul(usize),
    /// The path contains a control character, a character of the private use area, or a character
    /// above U+FFEF. Contains its index.
    #[error("the character at index {0} is not allowed")]
    Character(usize),
}

/// Checks the path of a znode, such as `/app/config`.
///
/// # Errors
/// If a server would refuse the path.
pub fn check_path(path: &str) -> Result<(), PathFault> {
    if path.len() > 1 && path.starts_with('/') && path.ends_with('/') {
        return Err(PathFault::EndsWithSlash);
    }
    check_names(path, true)
}

/// Checks a prefix of paths, such as a path to which the server appends a number. The last name may
/// be empty, `.` or `..`.
pub(crate) fn check_prefix(path: &str) -> Result<(), PathFault> {
    check_names(path, false)
}

fn check_names(path: &str, is_whole: bool) -> Result<(), PathFault> {
    let Some(names) = path.strip_prefix('/') else {
        return Err(match path {
            "" => PathFault::Empty,
            _ => PathFault::Relative,
        });
    };
    if names.is_empty() {
        return Ok(());
    }
    let mut names = names.split('/').peekable();
    let mut at = 1;
    while let Some(name) = names.next() {
        let is_whole = is_whole || names.peek().is_some();
        match name {
            "" if is_whole => return Err(PathFault::EmptyName(at)),
            "." | ".." if is_whole => return Err(PathFault::DotName(at + name.len() - 1)),
            _ => {}
        }
        for character in name.chars() {
            match character {
                '\0' => return Err(PathFault::Nul(at)),
                '\u{1}'..='\u{1f}'
                | '\u{7f}'..='\u{9f}'
                | '\u{e000}'..='\u{f8ff}'
                | '\u{fff0}'..=char::MAX => return Err(PathFault::Character(at)),
                _ => at += character.len_utf16(),
            }
        }
        at += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_has_a_reason_and_an_index() {
        for (path, fault) in [
            ("", PathFault::Empty),
            ("x", PathFault::Relative),
            ("x/", PathFault::Relative),
            ("/a/", PathFault::EndsWithSlash),
            ("//", PathFault::EndsWithSlash),
            ("/a//b", PathFault::EmptyName(3)),
            ("//b", PathFault::EmptyName(1)),
            ("/a/./b", PathFault::DotName(3)),
            ("/a/..", PathFault::DotName(4)),
            ("/.", PathFault::DotName(1)),
            ("/ü/a\0", PathFault::Nul(4)),
            ("/a\u{1}", PathFault::Character(2)),
            ("/a\u{7f}", PathFault::Character(2)),
            ("/a\u{9f}", PathFault::Character(2)),
            ("/\u{e000}", PathFault::Character(1)),
            ("/\u{fff0}", PathFault::Character(1)),
            ("/\u{1f600}", PathFault::Character(1)),
        ] {
            assert_eq!(check_path(path), Err(fault), "{path:?}");
        }
        for path in ["/", "/a", "/a/...b/.c/d..", "/ü/\u{ffef}/\u{a0}/ "] {
            assert_eq!(check_path(path), Ok(()), "{path:?}");
        }
    }

    #[test]
    fn a_number_completes_the_last_name() {
        for prefix in ["/", "/a", "/a/", "/a/.", "/a/.."] {
            assert_eq!(check_prefix(prefix), Ok(()), "{prefix:?}");
        }
        for (prefix, fault) in [
            ("", PathFault::Empty),
            ("a", PathFault::Relative),
            ("//", PathFault::EmptyName(1)),
            ("/a/../", PathFault::DotName(4)),
            ("/a/\0", PathFault::Nul(3)),
        ] {
            assert_eq!(check_prefix(prefix), Err(fault), "{prefix:?}");
        }
    }
}
