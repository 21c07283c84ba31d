//! Wrong input to the ports of an ensemble's members: the link it came on is dropped, with a line
//! in the log, and the ensemble goes on.

mod clients;
mod peers;
mod words;

use tests::Flavour;

/// Writes of each writer that show that writing goes on.
const PROGRESS: u64 = 10;

/// Zoarium, unless the scenarios themselves are tested.
fn ours() -> Flavour {
    Flavour::under_test()
}
