//! The nearest known name to a misspelt one.

use crate::registry::{self, Scope};

/// The name, in the spelling of zoo.cfg, that someone most likely meant; `None` if nothing is near.
pub(crate) fn nearest(written: &str) -> Option<String> {
    let letters = written.chars().count();
    if letters > LETTERS_MAX {
        return None;
    }
    // One letter in three may be wrong, as long as something is left to recognise.
    let allowed = (letters / 3).clamp(1, 5);
    let candidates = registry::all()
        .filter(|key| key.scope != Scope::Members)
        .map(|key| match (key.family(), written.split_once('.')) {
            (Some(beginning), Some((_, rest))) => format!("{beginning}{rest}"),
            (Some(beginning), None) => beginning.to_owned(),
            (None, _) => key.name.to_owned(),
        });
    candidates
        .filter(|name| name.chars().count().abs_diff(letters) <= allowed)
        .map(|name| {
            (
                distance(&written.to_lowercase(), &name.to_lowercase()),
                name,
            )
        })
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Nobody misspells a longer name, and the comparison takes the square of it.
const LETTERS_MAX: usize = 100;

/// How many letters are to be put in, taken out, replaced or swapped with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let is_same = a[i - 1] == b[j - 1];
            let mut least = rows[i - 1][j - 1] + usize::from(!is_same);
            least = least.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found_across_typical_slips() {
        let cases = [
            ("tikcTime", "tickTime"),
            ("ticktime", "tickTime"),
            ("clientport", "clientPort"),
            ("maxClientConnxns", "maxClientCnxns"),
            ("autopurge.snapRetain", "autopurge.snapRetainCount"),
            ("authProvder.1", "authProvider.1"),
            ("4lw.commands.whitlist", "4lw.commands.whitelist"),
            ("snapCont", "snapCount"),
        ];
        for (written, meant) in cases {
            assert_eq!(nearest(written).as_deref(), Some(meant), "{written}");
        }
    }

    #[test]
    fn nothing_is_suggested_for_a_name_unlike_all_others() {
        assert_eq!(nearest("kubernetes.namespace"), None);
        assert_eq!(nearest("x"), None);
    }

    #[test]
    fn a_name_without_end_is_not_compared() {
        let endless = format!("authProvder.{}", "x".repeat(60_000));
        assert_eq!(nearest(&endless), None);
        assert!(registry::all().all(|key| key.name.chars().count() < LETTERS_MAX));
    }

    #[test]
    fn distance_counts_a_swap_once() {
        assert_eq!(distance("tikc", "tick"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", "abc"), 0);
    }
}
