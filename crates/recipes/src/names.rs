//! Names of contenders, the order of contenders, and the contender for which each one waits.
//!
//! A name ends with a word and the number from the server: `_c_…-lock-0000000004`. The number is
//! signed, has 32 bits, and continues after 2147483647 with -2147483648. This module compares
//! numbers by their distance from an existing number, so the order remains correct at that point.
//! Curator and kazoo compare text and fail there, so replace a shared directory before its numbers
//! reach that point.
//!
//! Source: StandardLockInternalsDriver, InterProcessReadWriteLock; kazoo.recipe.lock.

use client::Protection;

/// Library that determines the names of contenders. A contender recognises all names of the recipe
/// in both layouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layout {
    /// `_c_<uuid>-lock-<number>`: names for which stock Curator waits.
    #[default]
    Curator,
    /// `<hex>__lock__<number>`: names for which stock kazoo waits.
    Kazoo,
}

impl Layout {
    pub(crate) fn protection(self) -> Protection {
        match self {
            Self::Curator => Protection::Curator,
            Self::Kazoo => Protection::Kazoo,
        }
    }
}

/// Word before the number. It determines whether its contender excludes all others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NamePrefix {
    text: &'static str,
    is_exclusive: bool,
}

pub(crate) const fn exclusive(text: &'static str) -> NamePrefix {
    NamePrefix {
        text,
        is_exclusive: true,
    }
}

const fn shared(text: &'static str) -> NamePrefix {
    NamePrefix {
        text,
        is_exclusive: false,
    }
}

/// Words of locks and LeaderSelector. They include kazoo's readers, for which an exclusive
/// contender waits.
pub(crate) const LOCKS: &[NamePrefix] = &[
    exclusive("lock-"),
    exclusive("__lock__"),
    shared("__rlock__"),
];
/// Words of LeaderLatch.
pub(crate) const LATCHES: &[NamePrefix] = &[exclusive("latch-")];
/// Words of all elections.
pub(crate) const ELECTIONS: &[NamePrefix] = &[
    exclusive("latch-"),
    exclusive("lock-"),
    exclusive("__lock__"),
];
/// Words of ReadWriteLock.
pub(crate) const READERS_AND_WRITERS: &[NamePrefix] = &[
    exclusive("__WRIT__"),
    shared("__READ__"),
    exclusive("__lock__"),
    shared("__rlock__"),
];

/// Position of a contender among the children of its directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueStanding<'a> {
    /// The contender's znode is missing, because its session ended or another client deleted it.
    Gone,
    /// The contender holds the lock.
    Granted,
    /// The contender waits for the deletion of this znode.
    Behind(&'a str),
}

/// Returns the position of `own` among `children`.
///
/// An exclusive contender waits for the contender with the next lower number. A shared contender
/// waits for the exclusive contender with the next lower number. Other children are ignored.
pub(crate) fn standing<'a>(
    children: impl IntoIterator<Item = &'a str>,
    own: &str,
    words: &[NamePrefix],
) -> QueueStanding<'a> {
    let Some((number, is_exclusive)) = parse(own, words) else {
        return QueueStanding::Gone;
    };
    let mut is_there = false;
    let mut next_below: Option<(i32, &str)> = None;
    for child in children {
        is_there |= child == own;
        let Some((other, other_excludes)) = parse(child, words) else {
            continue;
        };
        let distance = other.wrapping_sub(number);
        let is_in_the_way = distance < 0 && (is_exclusive || other_excludes);
        if is_in_the_way && next_below.is_none_or(|(nearest, _)| distance > nearest) {
            next_below = Some((distance, child));
        }
    }
    match next_below {
        _ if !is_there => QueueStanding::Gone,
        Some((_, name)) => QueueStanding::Behind(name),
        None => QueueStanding::Granted,
    }
}

/// Returns the contenders in the order of the queue.
pub(crate) fn ordered<'a>(
    children: impl IntoIterator<Item = &'a str>,
    words: &[NamePrefix],
) -> Vec<&'a str> {
    let numbered = children.into_iter();
    let mut numbered: Vec<_> = numbered
        .filter_map(|child| Some((parse(child, words)?.0, child)))
        .collect();
    let Some(&(first, _)) = numbered.first() else {
        return Vec::new();
    };
    numbered.sort_by_key(|(number, _)| number.wrapping_sub(first));
    numbered.into_iter().map(|(_, child)| child).collect()
}

/// Returns children that a stock Curator peer treats as contenders before all others and therefore
/// waits for indefinitely. Curator compares the whole name if it does not contain the word.
pub(crate) fn curator_blockers<'a>(
    children: impl IntoIterator<Item = &'a str>,
    words: &[NamePrefix],
) -> Vec<&'a str> {
    let is_foreign = |child: &&str| !words.iter().any(|word| child.contains(word.text));
    let children = children.into_iter().filter(is_foreign);
    // Numbers have ten digits and start with 0 to 2.
    children.filter(|child| *child < "0000000001").collect()
}

/// Returns the number at the end of a contender's name: ten digits, or up to eleven characters with
/// a sign.
pub(crate) fn digits<'a>(name: &'a str, words: &[NamePrefix]) -> Option<&'a str> {
    words.iter().find_map(|word| number_after(name, word.text))
}

fn parse(name: &str, words: &[NamePrefix]) -> Option<(i32, bool)> {
    words.iter().find_map(|word| {
        let number = number_after(name, word.text)?;
        Some((number.parse().ok()?, word.is_exclusive))
    })
}

fn number_after<'a>(name: &'a str, word: &str) -> Option<&'a str> {
    let (_, number) = name.rsplit_once(word)?;
    // The sign replaces one of the ten digits: `-000000001`.
    let (digits, places) = match number.strip_prefix('-') {
        Some(digits) => (digits, 9..=10),
        None => (number, 10..=10),
    };
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && places.contains(&digits.len())).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "_c_7f3c1a2e-0f9d-4c57-9f1a-6f1e6d3b2a10-lock-0000000004";
    const B: &str = "_c_00000000-0f9d-4c57-9f1a-6f1e6d3b2a10-lock-0000000007";
    const KAZOO: &str = "1f9dc0a57f3c4a2e9f1a6f1e6d3b2a10__lock__0000000005";
    const GO: &str = "_c_1f9dc0a57f3c4a2e9f1a6f1e6d3b2a10-lock-0000000006";

    #[test]
    fn a_contender_waits_for_its_predecessor() {
        let children = [B, "config", A, GO, KAZOO];
        assert_eq!(standing(children, A, LOCKS), QueueStanding::Granted);
        assert_eq!(standing(children, KAZOO, LOCKS), QueueStanding::Behind(A));
        assert_eq!(standing(children, GO, LOCKS), QueueStanding::Behind(KAZOO));
        assert_eq!(standing(children, B, LOCKS), QueueStanding::Behind(GO));
        assert_eq!(standing([B, A], KAZOO, LOCKS), QueueStanding::Gone);
        assert_eq!(ordered(children, LOCKS), [A, KAZOO, GO, B]);
    }

    #[test]
    fn foreign_znodes_are_not_contenders() {
        let strangers = [
            "-x",
            "!",
            "0",
            "0000000000",
            "lock-holder",
            "lock-0",
            "lock-00000000000",
            "x-latch-0000000000",
        ];
        let children = strangers.into_iter().chain([A]);
        assert_eq!(standing(children, A, LOCKS), QueueStanding::Granted);
        assert_eq!(
            curator_blockers(strangers.into_iter().chain([A, "a"]), LOCKS),
            ["-x", "!", "0", "0000000000"]
        );
    }

    #[test]
    fn the_order_holds_where_numbers_wrap() {
        let names = [
            "lock-2147483646",
            "lock-2147483647",
            "lock--2147483648",
            "lock--2147483647",
        ];
        for (place, own) in names.iter().enumerate() {
            let expected = match place {
                0 => QueueStanding::Granted,
                _ => QueueStanding::Behind(names[place - 1]),
            };
            assert_eq!(standing(names, own, LOCKS), expected, "{own}");
        }
        let shuffled = [names[2], names[0], names[3], names[1]];
        assert_eq!(ordered(shuffled, LOCKS), names);
        let negative = ["lock--000000002", "lock--000000001", "lock-0000000000"];
        assert_eq!(
            standing(negative, negative[2], LOCKS),
            QueueStanding::Behind(negative[1])
        );
    }

    #[test]
    fn readers_share_and_writers_do_not() {
        let words = READERS_AND_WRITERS;
        let w1 = "a-__WRIT__0000000001";
        let r2 = "a-__READ__0000000002";
        let r3 = "a-__READ__0000000003";
        let w4 = "a-__WRIT__0000000004";
        let r5 = "a-__READ__0000000005";
        let all = [r5, w4, r3, r2, w1];
        assert_eq!(standing(all, r2, words), QueueStanding::Behind(w1));
        assert_eq!(standing(all, r3, words), QueueStanding::Behind(w1));
        assert_eq!(standing(all, w4, words), QueueStanding::Behind(r3));
        assert_eq!(standing(all, r5, words), QueueStanding::Behind(w4));
        assert_eq!(
            standing([r5, w4, r3, r2], r3, words),
            QueueStanding::Granted
        );
        // A reader that was a writer keeps the position of the writer.
        let downgraded = "b-__READ__0000000001";
        let held = [downgraded, r2, w4];
        assert_eq!(standing(held, downgraded, words), QueueStanding::Granted);
        assert_eq!(
            standing([downgraded, w4], w4, words),
            QueueStanding::Behind(downgraded)
        );
        assert_eq!(digits(w4, words), Some("0000000004"));
    }
}
