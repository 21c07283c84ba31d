//! Invalid input to the ports of an ensemble's members. The member closes the link with a log line,
//! and the ensemble continues.

mod clients;
mod peers;
mod words;

use tests::Flavour;

/// Writes of each writer that prove progress.
const PROGRESS: u64 = 10;

/// Returns Zoarium, unless the scenarios themselves are tested.
fn ours() -> Flavour {
    Flavour::under_test()
}
