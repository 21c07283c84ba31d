//! Iteration over the znodes in a subtree.

use crate::error::Result;
use crate::index::postings::{Posting, key_path, path_key};
use crate::reading::view::{HistoryView, KeyCursor};

/// Returns whether `path` is `top` or one of its descendants.
pub(crate) fn is_below(top: &str, path: &str) -> bool {
    match path.strip_prefix(top) {
        Some(rest) => top == "/" || rest.is_empty() || rest.starts_with('/'),
        None => false,
    }
}

/// Returns the keys of the path and all its descendants as ranges from one key to another
/// (excluded), limited to keys after `after`.
pub(crate) fn ranges_below(path: &str, after: Option<&str>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let own = path_key(path);
    let mut behind_own = own.clone();
    behind_own.push(0);
    let (from, to) = if path == "/" {
        (behind_own.clone(), path_key("0"))
    } else {
        (path_key(&format!("{path}/")), path_key(&format!("{path}0")))
    };
    let mut ranges = vec![(own, behind_own), (from, to)];
    if let Some(after) = after {
        let mut behind = path_key(after);
        behind.push(0);
        let is_done = ranges[0].0 < behind;
        if is_done {
            ranges.remove(0);
        }
        if let Some(last) = ranges.last_mut() {
            last.0 = behind.max(last.0.clone());
        }
    }
    ranges.retain(|(from, to)| from < to);
    ranges
}

/// Iterates over the paths in a subtree, in the order of their bytes and beginning with the top,
/// each with its postings.
pub(crate) struct SubtreeCursor {
    history_view: HistoryView,
    ranges: std::vec::IntoIter<(Vec<u8>, Vec<u8>)>,
    current: Option<KeyCursor>,
}

impl SubtreeCursor {
    pub(crate) fn new(history_view: &HistoryView, path: &str, after: Option<&str>) -> Self {
        Self {
            history_view: history_view.clone(),
            ranges: ranges_below(path, after).into_iter(),
            current: None,
        }
    }

    pub(crate) fn next(&mut self) -> Result<Option<(String, Vec<Posting>)>> {
        loop {
            if let Some(keys) = &mut self.current {
                if let Some((key, postings)) = keys.next()? {
                    match key_path(&key) {
                        Some(path) => return Ok(Some((path.to_owned(), postings))),
                        None => continue,
                    }
                }
                self.current = None;
            }
            let Some((from, to)) = self.ranges.next() else {
                return Ok(None);
            };
            self.current = Some(self.history_view.keys(&from, &to)?);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subtree_contains_the_path_and_its_descendants() {
        assert!(is_below("/a", "/a"));
        assert!(is_below("/a", "/a/b"));
        assert!(!is_below("/a", "/a-b"));
        assert!(is_below("/", "/a"));
        for (top, after, path, is_in) in [
            ("/a", None, "/a", true),
            ("/a", None, "/a/b", true),
            ("/a", None, "/a-b", false),
            ("/a", None, "/a0", false),
            ("/a", Some("/a"), "/a", false),
            ("/a", Some("/a"), "/a/b", true),
            ("/a", Some("/a/b"), "/a/b", false),
            ("/a", Some("/a/b"), "/a/b/c", true),
            ("/", None, "/", true),
            ("/", None, "/zz", true),
            ("/", Some("/"), "/", false),
            ("/", Some("/m"), "/l", false),
        ] {
            let key = path_key(path);
            let ranges = ranges_below(top, after);
            let found = ranges.iter().filter(|(from, to)| *from <= key && key < *to);
            assert_eq!(found.count(), usize::from(is_in), "{top} {after:?} {path}");
        }
    }
}
