//! Search for the known name that is most similar to a misspelt one.

use crate::registry::{self, Scope};

/// Returns the most similar name in the spelling of zoo.cfg, or `None` if all names differ too
/// much.
pub(crate) fn nearest(written: &str) -> Option<String> {
    let letters = written.chars().count();
    if letters > LETTERS_MAX {
        return None;
    }
    // At most one letter in three may be wrong, because the name would otherwise be unrecognisable.
    let allowed = (letters / 3).clamp(1, 5);
    let candidates = registry::all()
        .filter(|key| key.scope != Scope::Members)
        .map(|key| match (key.family(), written.split_once('.')) {
            (Some(beginning), Some((_, rest))) => format!("{beginning}{rest}"),
            (Some(beginning), None) => beginning.to_owned(),
            (None, _) => key.name.to_owned(),
        });
    let written = written.to_lowercase();
    candidates
        .filter(|name| name.chars().count().abs_diff(letters) <= allowed)
        .map(|name| {
            // A swap of neighbouring letters is one error.
            let distance = strsim::osa_distance(&written, &name.to_lowercase());
            (distance, name)
        })
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Number of letters above which a name is not compared. The comparison takes quadratic time, and
/// such a name is not a spelling error.
const LETTERS_MAX: usize = 100;

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
    fn a_very_long_name_is_not_compared() {
        let endless = format!("authProvder.{}", "x".repeat(60_000));
        assert_eq!(nearest(&endless), None);
        assert!(registry::all().all(|key| key.name.chars().count() < LETTERS_MAX));
    }
}
