//! The executable with Kerberos support, under a separate name. Kerberos tests build it in addition
//! to the executable without Kerberos.

use std::process::ExitCode;

fn main() -> ExitCode {
    zoarium::run_process()
}
