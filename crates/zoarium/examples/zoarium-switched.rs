//! The executable with one rule switched off, for checkers that must notice this. It is never
//! shipped: a release build does not compile with the feature that it requires.

use std::process::ExitCode;

use proto::mutant::{Mutant, choose_for_process};

/// Environment variable with the name of the switched-off rule in `proto::mutant`. Without the
/// variable, all rules are on.
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
