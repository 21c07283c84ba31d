//! Filter for the recorded paths.

use crate::error::{HistoryError, Result};

/// Path patterns. A path is recorded if a pattern in `include` matches the path or one of its
/// ancestors, unless a pattern in `exclude` also does.
///
/// In a pattern `*` matches any characters of one component, and a component `**` matches any
/// number of components.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathFilter {
    include: Vec<String>,
    exclude: Vec<String>,
    takes_all: bool,
}

impl Default for PathFilter {
    fn default() -> Self {
        Self::new(Vec::new(), Vec::new()).expect("an empty list of patterns is valid")
    }
}

impl PathFilter {
    /// Creates a filter. If `include` is empty, all paths are recorded except excluded ones.
    ///
    /// # Errors
    /// [`HistoryError::BadPath`] if a pattern is not an absolute path.
    pub fn new(include: Vec<String>, exclude: Vec<String>) -> Result<Self> {
        for pattern in include.iter().chain(&exclude) {
            check(pattern)?;
        }
        let is_everything = |patterns: &[String]| {
            patterns.is_empty() || patterns.iter().any(|pattern| pattern == "/")
        };
        Ok(Self {
            takes_all: is_everything(&include) && exclude.is_empty(),
            include,
            exclude,
        })
    }

    /// Returns whether changes to this path are recorded.
    pub fn is_recorded(&self, path: &str) -> bool {
        if self.takes_all {
            return true;
        }
        let is_included = self.include.is_empty() || any_matches(&self.include, path);
        is_included && !any_matches(&self.exclude, path)
    }

    /// Returns the patterns of recorded paths.
    pub fn include(&self) -> &[String] {
        &self.include
    }

    /// Returns the patterns of excluded paths.
    pub fn exclude(&self) -> &[String] {
        &self.exclude
    }
}

/// Validates a path or a pattern. It must be absolute, and must not contain an empty component, a
/// final slash or a NUL.
pub(crate) fn check(path: &str) -> Result<()> {
    let refuse = |reason| {
        Err(HistoryError::BadPath {
            text: path.to_owned(),
            reason,
        })
    };
    let Some(rest) = path.strip_prefix('/') else {
        return refuse("the path does not begin with /");
    };
    if rest.is_empty() {
        return Ok(());
    }
    if rest.split('/').any(str::is_empty) {
        return refuse("the path has an empty component");
    }
    if rest.contains('\0') {
        return refuse("the path contains a NUL");
    }
    Ok(())
}

fn any_matches(patterns: &[String], path: &str) -> bool {
    patterns.iter().any(|pattern| {
        let pattern: Vec<&str> = components(pattern).collect();
        let path: Vec<&str> = components(path).collect();
        matches(&pattern, &path)
    })
}

fn components(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|component| !component.is_empty())
}

/// Returns whether the pattern matches the path or one of its ancestors.
///
/// A `**` is first matched with zero components, and then with more until the rest matches. Only
/// the last `**` needs backtracking, so the work is bounded by the product of the lengths.
fn matches(pattern: &[&str], path: &[&str]) -> bool {
    let (mut p, mut at) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        if p == pattern.len() {
            return true;
        }
        if pattern[p] == "**" {
            star = Some((p + 1, at));
            p += 1;
        } else if at < path.len() && matches_component(pattern[p].as_bytes(), path[at].as_bytes()) {
            p += 1;
            at += 1;
        } else if let Some((behind, from)) = star.filter(|(_, from)| *from < path.len()) {
            star = Some((behind, from + 1));
            (p, at) = (behind, from + 1);
        } else {
            return false;
        }
    }
}

fn matches_component(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut at) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while at < text.len() {
        if p < pattern.len() && pattern[p] == b'*' {
            star = Some((p + 1, at));
            p += 1;
        } else if p < pattern.len() && pattern[p] == text[at] {
            p += 1;
            at += 1;
        } else if let Some((behind, from)) = star {
            star = Some((behind, from + 1));
            (p, at) = (behind, from + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(include: &[&str], exclude: &[&str]) -> PathFilter {
        let owned = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
        PathFilter::new(owned(include), owned(exclude)).unwrap()
    }

    #[test]
    fn a_pattern_selects_the_subtree() {
        let some = filter(
            &["/kafka", "/app/*/config"],
            &["/kafka/*/tmp-*", "/**/secret"],
        );
        for path in ["/kafka", "/kafka/brokers/ids/1", "/app/a/config/x"] {
            assert!(some.is_recorded(path), "{path}");
        }
        for path in [
            "/",
            "/kafkas",
            "/app/a",
            "/app/config",
            "/kafka/a/tmp-1",
            "/kafka/a/tmp-1/deep",
            "/kafka/a/b/secret",
            "/kafka/secret/x",
        ] {
            assert!(!some.is_recorded(path), "{path}");
        }
    }

    #[test]
    fn without_patterns_everything_is_recorded() {
        assert!(PathFilter::default().is_recorded("/"));
        assert!(filter(&["/"], &[]).is_recorded("/a"));
        assert!(!filter(&[], &["/a"]).is_recorded("/a/b"));
        assert!(filter(&[], &["/a"]).is_recorded("/"));
    }

    #[test]
    fn invalid_patterns_are_refused() {
        for pattern in ["", "a", "/a/", "//", "/a//b"] {
            let refused = PathFilter::new(vec![pattern.to_owned()], Vec::new());
            assert!(refused.is_err(), "{pattern:?}");
        }
    }

    #[test]
    fn stars_match_any_part_of_a_component() {
        let matched =
            |pattern: &str, text: &str| matches_component(pattern.as_bytes(), text.as_bytes());
        assert!(matched("a*b*c", "a-b-b-c"));
        assert!(matched("*", ""));
        assert!(!matched("a*b", "a-c"));
        assert!(!matched("a", "ab"));
        // Backtracking to every star would not finish in a reasonable time.
        assert!(!matched(&"*a".repeat(40), &"a".repeat(39)));
    }
}
