//! `zoarium preflight`: checks whether a server can start on an installation.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

use clap::Args;
use preflight::Question;

use crate::findings::{self, DefinitionArgs, environment};
use crate::output::{Output, write_stdout};
use crate::server_cmd::ThisMachine;
use crate::tool::ToolError;

/// Looks whether a server can start on a zoo.cfg, its data and this machine
///
/// Changes nothing, listens at no port, and can run beside the server that is to be replaced. Exit code 0 for go, 1 for
/// warnings with --strict, 3 for no-go.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  zoarium preflight conf/zoo.cfg")]
pub(crate) struct PreflightArgs {
    /// The configuration; flags of java.env and zookeeper-env.sh beside it, and of SERVER_JVMFLAGS and JVMFLAGS, count
    #[arg(value_name = "ZOO.CFG")]
    config: PathBuf,
    #[command(flatten)]
    definitions: DefinitionArgs,
    /// How the answer looks
    #[arg(long, value_enum, default_value = "table")]
    output: Output,
    /// Checks and prints the points of the checklist in docs/SECURITY.md as well; each open point is a warning
    #[arg(long)]
    security: bool,
    /// Warnings count: exit code 1
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
