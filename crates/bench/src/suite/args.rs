//! The options of `zoarium bench suite`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::args::{ServersArgs, TurnsArgs, duration};

/// Options of the events that are measured in addition to loads.
#[derive(Debug, Clone, Args)]
pub(crate) struct EventsArgs {
    /// Command that runs a server in the foreground. Use the option once for each --server, in the same
    /// order. The suite starts, measures, kills and stops the servers
    #[arg(long, value_name = "COMMAND", conflicts_with = "pid")]
    pub(crate) start: Vec<String>,
    /// Command for the second server; use the option once for each --versus
    #[arg(
        long,
        value_name = "COMMAND",
        requires = "versus",
        conflicts_with = "versus_pid"
    )]
    pub(crate) versus_start: Vec<String>,
    /// Number of restarts of each filled server
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) restarts: u32,
    /// Number of times that the leader of each ensemble is killed
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) trials: u32,
    /// Maximum time to wait for enough answers during a snapshot, and for enough answers without a snapshot
    #[arg(long, default_value = "60s", value_parser = duration)]
    pub(crate) snapshot_time: Duration,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct SuiteArgs {
    #[command(flatten)]
    pub(crate) servers: ServersArgs,
    #[command(flatten)]
    pub(crate) turns: TurnsArgs,
    #[command(flatten)]
    pub(crate) events: EventsArgs,
    /// Measures only rows whose names contain one of these words, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "WORD")]
    pub(crate) only: Vec<String>,
    /// Number of znodes that the suite creates after the loads, to measure bytes per znode, restarts and
    /// snapshots; 0 omits these measurements
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=99_999_999))]
    pub(crate) znodes: u32,
    /// Directory on the disk of the servers' logs; the suite measures this disk, and stores the output of the
    /// servers in the directory. Without this option, it does neither
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// Directory to write report.md and report.json to
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
    /// Prints the report as JSON instead of Markdown
    #[arg(long)]
    pub(crate) json: bool,
}
