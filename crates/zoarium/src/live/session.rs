//! Sessions that run one command each, and the words of shell commands.

use std::process::ExitCode;

use ::cli::{ClientSettings, Direct, Target};
use clap::Args;

use super::address::AddressArgs;
use super::client_flags;
use crate::tool::ToolError;
use crate::tool::output::Output;

/// Servers of a session, and the form of the output.
#[derive(Debug, Clone, Args)]
pub(crate) struct SessionArgs {
    #[command(flatten)]
    pub(super) address: AddressArgs,
    /// Form of the output
    #[arg(long, value_enum, default_value = "table")]
    pub(super) output: Output,
}

impl SessionArgs {
    /// Runs a command in a session.
    pub(super) fn run(&self, name: &str, direct: Direct) -> ExitCode {
        run(name, &self.address, self.output, direct)
    }
}

/// Runs a command in a session with the servers named on the command line.
pub(crate) fn run(name: &str, address: &AddressArgs, output: Output, direct: Direct) -> ExitCode {
    match target(address, output) {
        Ok(target) => ExitCode::from(::cli::run_direct(name, target, direct)),
        Err(error) => error.report(name),
    }
}

fn target(address: &AddressArgs, output: Output) -> Result<Target, ToolError> {
    // A credential found on this machine is for admin ports only, because a session should not have
    // more rights than the user requested.
    let identity = address.authorization(&[])?;
    let identity = identity.map(|identity| match identity.split_once(' ') {
        Some((scheme, data)) => (scheme.to_owned(), data.to_owned()),
        None => (identity, String::new()),
    });
    Ok(Target {
        servers: address.client_servers()?,
        format: output.format(),
        connector: if address.has_tls() {
            Some(address.connector()?)
        } else {
            None
        },
        settings: settings(),
        identity,
    })
}

fn settings() -> ClientSettings {
    client_flags::of_cli()
}

/// Returns the first word of a shell command, to which options are added.
pub(super) fn words(name: &str) -> Vec<String> {
    vec![name.to_owned()]
}

/// Adds an option of the shell if it is set.
pub(super) fn flag(words: &mut Vec<String>, name: &str, is_set: bool) {
    if is_set {
        words.push(name.to_owned());
    }
}

/// Adds an option of the shell with its value, if there is a value.
pub(super) fn option(words: &mut Vec<String>, name: &str, value: Option<impl ToString>) {
    if let Some(value) = value {
        words.push(name.to_owned());
        words.push(value.to_string());
    }
}
