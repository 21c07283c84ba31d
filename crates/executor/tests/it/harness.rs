//! Runs of a model, with and without an error in it.

use std::cell::Cell;

use executor::Mutant;

thread_local! {
    /// The error in the code that this thread checks. All threads of a model run on the thread that
    /// began the check.
    static MUTANT: Cell<Option<Mutant>> = const { Cell::new(None) };
}

pub(crate) fn has_mutant(mutant: Mutant) -> bool {
    MUTANT.get() == Some(mutant)
}

/// Checks a model with this error. Returns whether the check has failed.
pub(crate) fn catches(mutant: Mutant, check: impl FnOnce() + Send + 'static) -> bool {
    let checked = std::thread::spawn(move || {
        MUTANT.set(Some(mutant));
        check();
    });
    checked.join().is_err()
}
