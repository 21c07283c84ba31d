//! Directory that a client uses as its root.

use std::sync::Arc;

use jute::Str;

use crate::path::{PathFault, check_path};

/// Root directory: empty, or a path without a trailing slash. It is cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Chroot(Option<Arc<str>>);

impl Chroot {
    /// Parses the part of a connection string after the servers. `/` means an empty root.
    pub(crate) fn new(path: &str) -> Self {
        match path {
            "" | "/" => Self(None),
            path => Self(Some(path.into())),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }

    /// Checks that the root is a valid path. Source: ConnectStringParser.
    pub(crate) fn check(&self) -> Result<(), PathFault> {
        self.0.as_deref().map_or(Ok(()), check_path)
    }

    /// Converts a path of the application to a server path.
    pub(crate) fn outside(&self, path: &str) -> Str {
        match &self.0 {
            None => path.into(),
            Some(root) if path == "/" => (&**root).into(),
            Some(root) => format!("{root}{path}").into(),
        }
    }

    /// Converts a prefix of the application's paths, such as `/` for all of them.
    pub(crate) fn outside_prefix(&self, prefix: &str) -> Str {
        format!("{}{prefix}", self.as_str()).into()
    }

    /// Converts a server path to a path of the application. A path outside the root stays
    /// unchanged.
    pub(crate) fn inside(&self, path: Str) -> Str {
        let Some(root) = &self.0 else { return path };
        match path.strip_prefix(&**root) {
            Some("") => "/".into(),
            Some(rest) if rest.starts_with('/') => rest.into(),
            _ => path,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_translated_in_both_directions() {
        let none = Chroot::new("/");
        assert_eq!(none, Chroot::new(""));
        assert_eq!(&*none.outside("/a"), "/a");
        assert_eq!(&*none.inside("/a".into()), "/a");
        let app = Chroot::new("/apps/one");
        for (inside, outside) in [("/", "/apps/one"), ("/a/b", "/apps/one/a/b")] {
            assert_eq!(&*app.outside(inside), outside);
            assert_eq!(&*app.inside(outside.into()), inside);
        }
        assert_eq!(&*app.outside_prefix("/"), "/apps/one/");
        assert_eq!(&*none.outside_prefix("/"), "/");
        assert_eq!(&*app.inside("/apps/oneself".into()), "/apps/oneself");
    }

    #[test]
    fn only_paths_are_valid() {
        for (path, is_valid) in [
            ("", true),
            ("/", true),
            ("/a/b", true),
            ("/a/", false),
            ("/a//b", false),
            ("/a/../b", false),
            ("/.", false),
            ("a", false),
            ("/a\0", false),
        ] {
            assert_eq!(Chroot::new(path).check().is_ok(), is_valid, "{path:?}");
        }
    }
}
