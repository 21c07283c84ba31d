//! The switch for deliberate bugs, in the copy of the sources that contains them.
//!
//! `tests/src/mutants` adds this module to each crate that is changed by a patch in this folder.

use std::sync::LazyLock;

/// Name of the only mutant that this process contains, if any.
static CHOSEN: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("ZOARIUM_SWITCH").ok());

/// Returns whether this process contains the mutant.
pub(crate) fn is(mutant: &str) -> bool {
    CHOSEN.as_deref() == Some(mutant)
}
