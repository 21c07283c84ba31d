//! The executable with Kerberos under a name of its own: tests of it build this beside the executable without.

use std::process::ExitCode;

fn main() -> ExitCode {
    zoarium::run(std::env::args_os())
}
