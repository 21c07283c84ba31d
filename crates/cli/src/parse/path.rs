//! Path checks of a client, and the chroot of a session.
//!
//! Source: PathUtils.validatePath (messages), ZooKeeper.prependChroot.

use client::{PathFault, check_path};

use crate::exit;
use crate::failure::Failure;

/// Checks a path before it is sent.
///
/// # Errors
/// If the path is invalid. The error contains Java's message.
pub(crate) fn validate(path: &str) -> Result<(), Failure> {
    let Err(fault) = check_path(path) else {
        return Ok(());
    };
    let caused_by = |reason: &str, at: usize| {
        format!("Invalid path string \"{path}\" caused by {reason} @{at}")
    };
    let text = match fault {
        PathFault::Empty => "Path length must be > 0".to_owned(),
        PathFault::Relative => "Path must start with / character".to_owned(),
        PathFault::EndsWithSlash => "Path must not end with / character".to_owned(),
        PathFault::EmptyName(at) => caused_by("empty node name specified", at),
        PathFault::DotName(at) => caused_by("relative paths not allowed", at),
        PathFault::Nul(at) => caused_by("null character not allowed", at),
        PathFault::Character(at) => caused_by("invalid character", at),
        _ => format!("Invalid path string \"{path}\": {fault}"),
    };
    Err(Failure::new(text).with_exit(exit::USAGE))
}

/// Path in the ensemble that is the root of all paths of a session. Empty for the ensemble's root.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Chroot(String);

impl Chroot {
    /// Splits the chroot from a connect string: `a:2181,b:2181/app`.
    ///
    /// # Errors
    /// If the chroot is not a path.
    pub(crate) fn split(connect: &str) -> Result<(&str, Self), Failure> {
        let Some(at) = connect.find('/') else {
            return Ok((connect, Self::default()));
        };
        let (servers, chroot) = connect.split_at(at);
        if chroot == "/" {
            return Ok((servers, Self::default()));
        }
        validate(chroot)?;
        Ok((servers, Self(chroot.to_owned())))
    }

    /// Returns the path as the server knows it.
    pub(crate) fn with_chroot(&self, path: &str) -> String {
        match (self.0.as_str(), path) {
            ("", path) => path.to_owned(),
            (chroot, "/") => chroot.to_owned(),
            (chroot, path) => format!("{chroot}{path}"),
        }
    }

    /// Returns the path as the session knows it.
    pub(crate) fn without_chroot<'a>(&self, path: &'a str) -> &'a str {
        match path.strip_prefix(self.0.as_str()) {
            Some("") => "/",
            Some(inside) if inside.starts_with('/') => inside,
            _ => path,
        }
    }
}

/// Returns the path of a child.
pub(crate) fn child(path: &str, name: &str) -> String {
    match path {
        "/" => format!("/{name}"),
        path => format!("{path}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_refused_in_javas_words() {
        let text = |path: &str| validate(path).unwrap_err().text;
        assert_eq!(text("app"), "Path must start with / character");
        assert_eq!(text("/app/"), "Path must not end with / character");
        assert_eq!(text("//"), "Path must not end with / character");
        let invalid = |path: &str, reason: &str| {
            assert_eq!(
                text(path),
                format!("Invalid path string \"{path}\" caused by {reason}")
            );
        };
        invalid("/a//b", "empty node name specified @3");
        invalid("/a/./b", "relative paths not allowed @3");
        invalid("/a/..", "relative paths not allowed @4");
        invalid("/a\u{1}", "invalid character @2");
        for good in ["/", "/a", "/a/...b/.c/d..", "/ü"] {
            assert_eq!(validate(good), Ok(()), "{good}");
        }
    }

    #[test]
    fn a_chroot_is_added_to_requests_and_removed_from_replies() {
        let (servers, chroot) = Chroot::split("a:1,b:2/app").unwrap();
        assert_eq!(servers, "a:1,b:2");
        assert_eq!(chroot.with_chroot("/"), "/app");
        assert_eq!(chroot.with_chroot("/x"), "/app/x");
        assert_eq!(chroot.without_chroot("/app"), "/");
        assert_eq!(chroot.without_chroot("/app/x"), "/x");
        let (_, root) = Chroot::split("a:1/").unwrap();
        assert_eq!(
            (root.with_chroot("/x"), root.without_chroot("/x")),
            ("/x".to_owned(), "/x")
        );
        assert!(Chroot::split("a:1/x/").is_err());
    }
}
