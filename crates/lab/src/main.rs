//! `zoarium-lab`: measurements of Zoarium itself.
//!
//! Users compare servers with `zoarium bench`. This program is not published, and `zoarium` does
//! not contain its code.

mod error;
mod growth;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use self::growth::GrowthArgs;

/// Same allocator as `zoarium bench`, so that the figures of both programs are comparable.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures Zoarium itself
#[derive(Debug, Parser)]
#[command(version)]
struct Lab {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measures how costs grow with znodes, children, sessions, watches, data and members, and draws charts
    Growth(GrowthArgs),
}

fn main() -> ExitCode {
    let Command::Growth(args) = Lab::parse().command;
    growth::run(&args).unwrap_or_else(|error| {
        terminal::complain!("zoarium-lab: {error}");
        ExitCode::FAILURE
    })
}
