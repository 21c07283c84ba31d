//! Measurements whose results are values, for programs that compare or draw them.
//!
//! A [`Load`] runs on a [`Target`], and its result is a [`Side`]:
//!
//! ```no_run
//! use zoarium_bench::measure::{self, Load, MeasureSettings, Mix, Progress, ServersArgs, TurnsArgs};
//! use clap::Parser;
//!
//! #[derive(Parser)]
//! struct Options {
//!     #[command(flatten)]
//!     servers: ServersArgs,
//!     #[command(flatten)]
//!     turns: TurnsArgs,
//! }
//!
//! let options = Options::parse();
//! let settings = MeasureSettings {
//!     servers: &options.servers,
//!     turns: &options.turns,
//!     root: None,
//! };
//! let load = Load::requests("get 16 x 16", Mix::Get, 16, 16);
//! for target in measure::targets(&options.servers)? {
//!     let progress = Progress::within(load.name);
//!     let side = measure::run(&load, &target, settings, &progress)?;
//!     measure::print(&format!("{}: {:.0} ops/s\n", target.name(), side.ops_per_second()));
//! }
//! # Ok::<(), zoarium_bench::measure::MeasureError>(())
//! ```

use std::path::Path;
use std::slice;

pub use crate::args::{ServersArgs, TurnsArgs};
pub use crate::report::output::print;
pub use crate::report::progress::Progress;
pub use crate::rounds::compare::Side;
pub use crate::rounds::load::Load;
pub use crate::rounds::round::SessionWork;
pub use crate::session::workload::Mix;
pub use crate::target::{Target, new_root};

use crate::error::{BenchError, Result};
use crate::report::output;
use crate::rounds::compare::{self, Schedule};
use crate::rounds::load;
use crate::rounds::threads::runtime;

/// Functions for tables in Markdown.
pub mod table {
    pub use crate::report::table::{head, line, number, percentile};
}

/// Reason why a measurement ended without a result.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct MeasureError(Box<BenchError>);

impl From<BenchError> for MeasureError {
    fn from(error: BenchError) -> Self {
        Self(Box::new(error))
    }
}

/// Settings that all loads of a program share.
#[derive(Debug, Clone, Copy)]
pub struct MeasureSettings<'a> {
    /// Arguments with the TLS settings and the login of all connections.
    pub servers: &'a ServersArgs,
    /// Number of rounds and their duration. A load with a fixed number of operations or znodes has
    /// one round, without a duration.
    pub turns: &'a TurnsArgs,
    /// Znode whose descendants the loads use and do not delete. If `None`, each load creates a new
    /// root znode and deletes it afterwards.
    pub root: Option<&'a str>,
}

/// Returns the target of `--server` and, if `--versus` is given, the target of `--versus`.
///
/// # Errors
/// If no server is named, a process does not exist, or a file of the TLS settings or the login
/// cannot be used.
pub fn targets(servers: &ServersArgs) -> Result<Vec<Target>, MeasureError> {
    Ok(load::targets(servers)?)
}

/// Returns a target with other addresses (`a:2181,b:2181`), and the TLS settings and login of
/// `servers`. Its processes are not measured.
///
/// # Errors
/// If no server is named, or a file of the TLS settings or the login cannot be used.
pub fn target_at(addresses: &str, servers: &ServersArgs) -> Result<Target, MeasureError> {
    let access = servers.access.open()?;
    Ok(Target::new(&[addresses.to_owned()], &[], access)?)
}

/// Runs a load on one target.
///
/// # Errors
/// If a server cannot be reached, refuses the znodes of the load, or stops answering. Refused
/// operations and lost sessions of the load itself are part of the result.
pub fn run(
    load: &Load,
    target: &Target,
    settings: MeasureSettings<'_>,
    progress: &Progress,
) -> Result<Side, MeasureError> {
    let MeasureSettings {
        servers,
        turns,
        root,
    } = settings;
    let is_once = load.ops.is_some() || matches!(load.mix, Mix::Fill { .. });
    let schedule = Schedule {
        rounds: if is_once { 1 } else { turns.rounds },
        keep: root.is_some(),
    };
    let job = load.job(servers, turns, root)?;
    let mut sides = compare::run(&job, slice::from_ref(target), schedule, progress)?;
    Ok(sides.pop().expect("one target has one side"))
}

/// Deletes a root znode with all its descendants, and returns the number of deleted znodes.
///
/// # Errors
/// If the server cannot be reached, or refuses to delete a znode.
pub fn clean(target: &Target, root: &str) -> Result<u64, MeasureError> {
    let progress = Progress::new();
    progress.stage(&format!("{}: clean up", target.name()));
    Ok(runtime()?.block_on(target.clean(root))?)
}

/// Writes a file of a report. Creates its directory if it is missing.
///
/// # Errors
/// If the directory or the file cannot be written.
pub fn write(dir: &Path, name: &str, text: &str) -> Result<(), MeasureError> {
    Ok(output::write(dir, name, text)?)
}
