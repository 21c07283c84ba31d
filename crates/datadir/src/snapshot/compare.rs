//! Differences between two snapshots.

use std::cmp::Ordering;

use super::sizes::{Subtree, order};

/// Znode in one of the two snapshots, or in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compared<'a> {
    /// Only the left snapshot contains the znode.
    Left(&'a Subtree),
    /// Only the right snapshot contains the znode.
    Right(&'a Subtree),
    /// Both snapshots contain the znode. The left snapshot's znode comes first.
    Both(&'a Subtree, &'a Subtree),
}

impl Compared<'_> {
    /// Returns the znode, from the left snapshot if both contain it.
    pub fn one(&self) -> &Subtree {
        match self {
            Self::Left(one) | Self::Right(one) | Self::Both(one, _) => one,
        }
    }

    /// Returns the differences in the numbers of bytes and descendants, right minus left. For a
    /// znode in only one snapshot, returns the numbers of its subtree.
    pub fn difference(&self) -> (i64, i64) {
        match self {
            Self::Left(one) | Self::Right(one) => (signed(one.bytes), signed(one.below)),
            Self::Both(left, right) => (
                signed(right.bytes) - signed(left.bytes),
                signed(right.below) - signed(left.below),
            ),
        }
    }

    /// Returns `left`, `right` or `both`.
    pub fn side(&self) -> &'static str {
        match self {
            Self::Left(_) => "left",
            Self::Right(_) => "right",
            Self::Both(..) => "both",
        }
    }
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Returns the znodes of two snapshots, each once. Both inputs have the order of
/// [`subtrees`](super::subtrees).
pub fn compare<'a>(
    left: &'a [Subtree],
    right: &'a [Subtree],
) -> impl Iterator<Item = Compared<'a>> {
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    std::iter::from_fn(move || {
        let which = match (left.peek(), right.peek()) {
            (Some(one), Some(other)) => order(&one.path, &other.path),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return None,
        };
        match which {
            Ordering::Less => left.next().map(Compared::Left),
            Ordering::Greater => right.next().map(Compared::Right),
            Ordering::Equal => left
                .next()
                .zip(right.next())
                .map(|(one, other)| Compared::Both(one, other)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::sizes::tree;
    use super::*;

    #[test]
    fn each_znode_is_returned_once_with_the_difference_of_its_subtree() {
        let left = tree(&[("/", 0), ("/a", 3), ("/a/x", 1), ("/b", 2)]);
        let right = tree(&[("/", 0), ("/a", 3), ("/a/x", 4), ("/a/y", 1), ("/c", 9)]);
        let found: Vec<_> = compare(&left, &right)
            .map(|found| {
                (
                    found.one().path.to_string(),
                    found.side(),
                    found.difference(),
                )
            })
            .collect();
        let wanted = [
            ("/", "both", (11, 1)),
            ("/a", "both", (4, 1)),
            ("/a/x", "both", (3, 0)),
            ("/a/y", "right", (1, 0)),
            ("/b", "left", (2, 0)),
            ("/c", "right", (9, 0)),
        ];
        let wanted = wanted.map(|(path, side, by)| (path.to_owned(), side, by));
        assert_eq!(found, wanted);
    }
}
