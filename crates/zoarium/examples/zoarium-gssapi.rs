//! The executable with Kerberos support, under a separate name. Tests of Kerberos build it next to
//! the executable without Kerberos.

use std::process::ExitCode;

fn main() -> ExitCode {
    zoarium::run(std::env::args_os())
}
