//! The executable with one duty switched off, for checkers that are to notice. It never ships: a build for use does
//! not compile with the feature that it takes.

use std::process::ExitCode;

use proto::mutant::{Mutant, choose_for_process};

/// Names what is switched off, by its name in `proto::mutant`; without it nothing is.
const SWITCH: &str = "ZOARIUM_SWITCH";

fn main() -> ExitCode {
    if let Some(name) = std::env::var_os(SWITCH) {
        let mutant = name.to_str().and_then(Mutant::by_name);
        if !mutant.is_some_and(choose_for_process) {
            eprintln!("{SWITCH}: there is no {}", name.display());
            return ExitCode::FAILURE;
        }
    }
    zoarium::run(std::env::args_os())
}
