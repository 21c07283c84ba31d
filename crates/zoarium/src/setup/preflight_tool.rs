//! The command `zoarium preflight`, which checks whether a server can start on an installation.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

use clap::Args;
use preflight::Question;

use crate::embedded::ThisMachine;
use crate::setup::findings::{self, DefinitionArgs, environment};
use crate::tool::ToolError;
use crate::tool::output::{Output, write_stdout};

/// Checks whether a server can start on this machine with a zoo.cfg and its data
///
/// Preflight changes nothing, does not listen on a port, and can run while the server is running. Exit code 0
/// means go, 1 means warnings with --strict, and 3 means no-go.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  zoarium preflight conf/zoo.cfg")]
pub(crate) struct PreflightArgs {
    /// The zoo.cfg; preflight also reads flags from java.env and zookeeper-env.sh in the same directory, and
    /// from SERVER_JVMFLAGS and JVMFLAGS
    #[arg(value_name = "ZOO.CFG")]
    config: PathBuf,
    #[command(flatten)]
    definitions: DefinitionArgs,
    /// Form of the output
    #[arg(long, value_enum, default_value = "table")]
    output: Output,
    /// Also checks and prints the points of the checklist in docs/SECURITY.md; each open point is a warning
    #[arg(long)]
    security: bool,
    /// Exits with code 1 if there are warnings
    #[arg(long)]
    strict: bool,
}

/// Prints the findings and the verdict.
pub(crate) fn run(args: &PreflightArgs) -> ExitCode {
    let question = Question {
        config: &args.config,
        definitions: &args.definitions.definitions,
        environment: &environment,
        now: SystemTime::now(),
        security: args.security,
    };
    let report = preflight::examine(&question, &mut ThisMachine);
    let printed = write_stdout(|out| match args.output {
        Output::Table => findings::write_text(&report, out),
        form => {
            let value = findings::as_json(&report);
            form.write_object(&value, format_args!("{value:#}"), out)
        }
    });
    match printed {
        Ok(()) => findings::exit_code(report.verdict, args.strict),
        Err(error) => ToolError::from(error).report("preflight"),
    }
}
