//! The command line of `zoarium bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, Args, Subcommand, ValueEnum};

use crate::suite::args::SuiteArgs;
use crate::target::access::AccessArgs;

/// Puts load on a server, and measures throughput and latency
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  zoarium bench mixed -s localhost:2181 --duration 10s")]
pub struct BenchArgs {
    #[command(subcommand)]
    pub(crate) command: BenchCommand,
}

/// Commands of `zoarium bench`.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Reads the data of random znodes (getData)
    Get(LoadArgs),
    /// Checks whether random znodes exist (exists)
    Exists(LoadArgs),
    /// Replaces the data of random znodes (setData)
    Set(LoadArgs),
    /// Creates znodes, and deletes them after the measurement
    Create(LoadArgs),
    /// Reads and replaces the data of random znodes (getData and setData)
    Mixed(MixedArgs),
    /// Replaces the data of several znodes with each multi
    Multi(MultiArgs),
    /// Watch fan-out: znodes change while every session watches them
    #[command(mut_arg("keys", unused), mut_arg("pipeline", unused))]
    Watch(WatchArgs),
    /// Connect storm: opens and closes sessions as fast as the server allows
    #[command(mut_arg("keys", unused), mut_arg("pipeline", unused))]
    Connect(LoadArgs),
    /// Handshakes: each connection requests an unknown session, which the server refuses; nothing is written
    #[command(mut_arg("keys", unused), mut_arg("pipeline", unused))]
    Handshake(LoadArgs),
    /// Locks: each session acquires a lock with an ephemeral sequential znode, releases it, and repeats this
    #[command(mut_arg("keys", unused), mut_arg("pipeline", unused))]
    Lock(LockArgs),
    /// Opens idle sessions, keeps them alive and measures their cost
    #[command(mut_arg("keys", unused), mut_arg("pipeline", unused))]
    Idle(LoadArgs),
    /// Creates a tree of znodes and does not delete it
    Fill(FillArgs),
    /// Deletes the znodes of `fill` or of an interrupted run
    Clean(CleanArgs),
    /// Runs the fastest possible server: every request gets the same answer. A load on this
    /// server measures the limit of the generator and the sockets
    Echo(EchoArgs),
    /// Measures fdatasync of groups of records, which limits durable writes
    Fsync(FsyncArgs),
    /// Runs several loads in sequence and reports them in one table, as Markdown and JSON
    Suite(SuiteArgs),
}

/// Hides an option that all loads share and this load ignores.
fn unused(option: Arg) -> Arg {
    option.hide(true)
}

/// Returns the server in `ZOARIUM_SERVER`, or a server on this machine if the variable is unset or
/// empty.
fn default_server() -> String {
    let named = std::env::var("ZOARIUM_SERVER").ok();
    let named = named.filter(|server| !server.is_empty());
    named.unwrap_or_else(|| "127.0.0.1:2181".to_owned())
}

/// Servers under load.
#[derive(Debug, Clone, Args)]
pub struct ServersArgs {
    /// Client port of the server; ZOARIUM_SERVER sets the default. To divide the sessions among several
    /// servers, repeat the option or write `a,b`
    #[arg(short, long, default_values_t = [default_server()], value_name = "HOST:PORT")]
    pub server: Vec<String>,
    /// Second server for a comparison, loaded alternately with the first
    #[arg(long, value_name = "HOST:PORT")]
    pub versus: Vec<String>,
    /// Process id of the server, to measure its CPU time and memory (Linux, same machine). With several ids
    /// (`1,2`), the figures of the processes are added up
    #[arg(long, value_delimiter = ',')]
    pub(crate) pid: Vec<u32>,
    /// Process id of the second server
    #[arg(long, value_name = "PID", value_delimiter = ',', requires = "versus")]
    pub(crate) versus_pid: Vec<u32>,
    #[command(flatten)]
    pub(crate) access: AccessArgs,
}

/// Load on the servers.
#[derive(Debug, Clone, Args)]
pub(crate) struct LoadArgs {
    #[command(flatten)]
    pub(crate) servers: ServersArgs,
    /// Number of rounds for each server in a comparison
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
    /// Number of sessions, each with its own connection
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) sessions: u32,
    /// Number of requests in flight per session
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) pipeline: u32,
    /// Bytes of data per znode
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub(crate) payload: u32,
    /// Number of znodes to read and write
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) keys: u32,
    /// Duration of the measurement, such as `10s`, `500ms`, `2m` (without a unit: seconds)
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub(crate) duration: Duration,
    /// Number of operations to measure, instead of a duration
    #[arg(long, conflicts_with = "duration")]
    pub(crate) ops: Option<u64>,
    /// Time under load before the measurement in every round
    #[arg(long, default_value = "2s", value_parser = duration)]
    pub(crate) warmup: Duration,
    /// Number of threads of the generator
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) threads: u32,
    /// Requested session timeout
    #[arg(long, default_value = "30s", value_parser = duration)]
    pub(crate) session_timeout: Duration,
    /// Parent of the run's znodes, instead of a new znode with a unique name
    #[arg(long, value_parser = root_path)]
    pub(crate) root: Option<String>,
    /// Does not delete the znodes of the run
    #[arg(long)]
    pub(crate) keep: bool,
    /// Prints the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct MixedArgs {
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// Percentage of reads
    #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) read_percent: u32,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct MultiArgs {
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// Number of setData operations in one multi
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) size: u32,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct LockArgs {
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// Number of locks that the sessions share
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) locks: u32,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// Number of znodes that each session watches
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) watches: u32,
}

/// Number and length of the rounds of each load.
#[derive(Debug, Clone, Args)]
pub struct TurnsArgs {
    /// Number of rounds for each server and load
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Duration of each round
    #[arg(long, default_value = "2s", value_parser = duration)]
    pub duration: Duration,
    /// Time under load before each round
    #[arg(long, default_value = "1s", value_parser = duration)]
    pub warmup: Duration,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct FillArgs {
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// Number of znodes to create, without their parents
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=99_999_999))]
    pub(crate) znodes: u32,
    /// Number of children per parent
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) breadth: u32,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct CleanArgs {
    /// Server to clean; ZOARIUM_SERVER sets the default
    #[arg(long, default_value_t = default_server(), value_name = "HOST:PORT")]
    pub(crate) server: String,
    /// Znode to delete with its subtree, instead of every znode `/zoarium-bench-...`
    #[arg(long, value_parser = root_path)]
    pub(crate) root: Option<String>,
    #[command(flatten)]
    pub(crate) access: AccessArgs,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct EchoArgs {
    /// Address to listen on; with port 0, the system selects a port
    #[arg(long, default_value = "127.0.0.1:0", value_name = "HOST:PORT")]
    pub(crate) listen: String,
    /// Bytes of data in every answer
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub(crate) payload: u32,
    /// Number of threads of the server
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) threads: u32,
    /// Directory for a file to which the server syncs each write before it answers. A load then measures the
    /// limit of the generator, the sockets and this disk
    #[arg(long, value_name = "DIR")]
    pub(crate) log: Option<PathBuf>,
    /// Number of followers, each with its own file: the answer waits until a majority has synced the write
    #[arg(long, requires = "log", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) followers: u32,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct FsyncArgs {
    /// Directory for the file to write, which the command removes
    #[arg(long, default_value = ".")]
    pub(crate) dir: PathBuf,
    /// Bytes per record
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) bytes: u32,
    /// Number of records per fdatasync
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) group: u32,
    /// Duration of the measurement
    #[arg(long, default_value = "5s", value_parser = duration)]
    pub(crate) duration: Duration,
    /// Initial content of the file
    #[arg(long, value_enum, default_value_t = Preallocate::Zeroes)]
    pub(crate) preallocate: Preallocate,
    /// Prints the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Initial content of the file, on which the work of the file system for each sync depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Preallocate {
    /// Zeroes: a sync writes only the records
    Zeroes,
    /// A hole, as with Apache ZooKeeper: the file system also allocates blocks
    Sparse,
    /// Nothing: the file system also changes the length of the file
    None,
}

/// Parses a duration such as `10s`, `500ms` or `2m`. A number without a unit is in seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let number_end = text
        .find(|char: char| !char.is_ascii_digit() && char != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(number_end);
    let seconds_per_unit = match unit.trim() {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "m" => 60.0,
        "h" => 3600.0,
        other => return Err(format!("unknown unit {other:?}; use ms, s, m or h")),
    };
    let number: f64 = number.parse().map_err(|_| "not a number".to_owned())?;
    Duration::try_from_secs_f64(number * seconds_per_unit).map_err(|error| error.to_string())
}

fn root_path(text: &str) -> Result<String, String> {
    let path_error =
        || "write the absolute path of a znode other than / and outside /zookeeper".to_owned();
    let names = text.strip_prefix('/').ok_or_else(path_error)?;
    let is_name = |name: &str| {
        !name.is_empty() && name != "." && name != ".." && !name.contains(char::is_control)
    };
    if names.split('/').all(is_name) && names.split('/').next() != Some("zookeeper") {
        Ok(text.to_owned())
    } else {
        Err(path_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        let read = |text| duration(text).map(|duration| duration.as_millis());
        assert_eq!(read("10"), Ok(10_000));
        assert_eq!(read("1.5s"), Ok(1500));
        assert_eq!(read("20ms"), Ok(20));
        assert_eq!(read("2m"), Ok(120_000));
        for wrong in ["", "s", "1d", "-1s", "1.2.3", "1e400"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_root_is_a_znode_that_may_be_deleted() {
        assert!(root_path("/a/b").is_ok());
        for wrong in [
            "",
            "/",
            "a",
            "/a/",
            "//a",
            "/a/../b",
            "/zookeeper",
            "/zookeeper/quota",
        ] {
            assert!(root_path(wrong).is_err(), "{wrong}");
        }
    }
}
