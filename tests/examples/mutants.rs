//! Builds the simulator with all mutants and the release profile, and prints its path.
//!
//! `cargo run -p tests --example mutants`. The variable `ZOARIUM_SWITCH` of the simulator chooses
//! the mutant (`crates/simulator/mutants/README.md`).

use std::process::ExitCode;

use tests::mutants::SwitchedCopy;

fn main() -> ExitCode {
    match SwitchedCopy::get().and_then(SwitchedCopy::release_simulator) {
        Ok(simulator) => {
            println!("{}", simulator.display());
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
