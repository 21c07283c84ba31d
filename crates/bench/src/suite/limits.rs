//! Limits of this machine: the same loads with a server that only replies or only syncs. This
//! server takes its turns between the turns of the measured servers, so that disturbances of the
//! machine also affect it.

use std::net::TcpListener;
use std::path::Path;

use super::args::SuiteArgs;
use super::rows::{Row, SET, SET_OF_MANY};
use crate::args::{FsyncArgs, Preallocate, ServersArgs};
use crate::error::{BenchError, Result};
use crate::machine::echo::{self, Log, Serving};
use crate::machine::fsync::{self, FsyncResult};
use crate::rounds::compare::Side;
use crate::rounds::load::{self, Load};
use crate::rounds::round::SessionWork;
use crate::rounds::threads::spawn;
use crate::session::workload::Mix;
use crate::target::access::AccessArgs;

/// Loads whose disk limit is measured, each with its number of records per sync.
const SYNCS: [(&str, u32); 2] = [(SET, 256), (SET_OF_MANY, 1000)];
/// Length of the log record of a setData with 100 bytes of data.
const RECORD_BYTES: u32 = 250;
/// Minimum size of an ensemble that survives the loss of one server.
pub(super) const ENSEMBLE: usize = 3;

/// Measured limits, and the logs of the servers that measure them.
#[derive(Debug, Default)]
pub(super) struct Limits {
    /// Results of the loads with a server that only replies or only syncs.
    pub(super) servers: Vec<Row>,
    /// Number of servers that sync each write. An answer waits until a majority of them has synced.
    pub(super) members: usize,
    /// Rates of syncs: the name of the load, the arguments of the measurement, and the result.
    pub(super) syncs: Vec<(&'static str, FsyncArgs, Result<FsyncResult>)>,
    /// Logs for all loads. Their files exist until the process ends.
    logs: Vec<Option<Log>>,
}

impl Limits {
    pub(super) fn new(args: &SuiteArgs) -> Self {
        Self {
            members: members(&args.servers),
            ..Self::default()
        }
    }

    /// Starts the limit servers for a load, and returns their addresses. Returns `None` if they do
    /// not support the load, or if the load writes and `--dir` is missing.
    pub(super) fn serve(&mut self, args: &SuiteArgs, load: &Load) -> Option<Result<ServersArgs>> {
        let logs = match (writes(load), &args.dir) {
            (Some(false), _) => Ok(vec![None; self.members]),
            (Some(true), Some(dir)) => open(dir, self.members, &mut self.logs),
            _ => return None,
        };
        Some(logs.and_then(|logs| serve_all(load, logs)))
    }

    /// Records the result of a load.
    pub(super) fn note(&mut self, load: Load, sides: Result<Vec<Side>>) {
        self.servers.push(Row { load, sides });
    }

    /// Measures the limits of the disk. No load may run at the same time.
    pub(super) fn measure_syncs(&mut self, args: &SuiteArgs, loads: &[Load]) {
        self.syncs = syncs(args, loads);
    }

    /// Describes the servers that measure the limit of this load.
    pub(super) fn server_text(&self, load: &Load) -> String {
        match (writes(load), self.members) {
            (Some(true), 1) => "server that only syncs".to_owned(),
            (Some(true), members) => {
                let followers = members - 1;
                format!("leader and {followers} followers that only sync")
            }
            _ => "server that only replies".to_owned(),
        }
    }
}

/// Returns the number of members of the larger side, or one if neither side is an ensemble.
fn members(servers: &ServersArgs) -> usize {
    let sides = [&servers.server, &servers.versus];
    let sizes = sides.map(|side| load::addresses(side).len());
    let largest = sizes.into_iter().max();
    largest.filter(|size| *size >= ENSEMBLE).unwrap_or(1)
}

fn syncs(args: &SuiteArgs, loads: &[Load]) -> Vec<(&'static str, FsyncArgs, Result<FsyncResult>)> {
    let find = |name| loads.iter().any(|load| load.name == name);
    let syncs = SYNCS.iter().filter(|(name, _)| find(*name));
    let syncs = syncs.filter_map(|(name, group)| {
        let sync = FsyncArgs {
            dir: args.dir.clone()?,
            bytes: RECORD_BYTES,
            group: *group,
            duration: args.turns.duration,
            preallocate: Preallocate::Zeroes,
            json: false,
        };
        let result = fsync::run(&sync);
        Some((*name, sync, result))
    });
    syncs.collect()
}

/// Returns whether requests of the load become transactions, or `None` if the limit servers do not
/// support the load.
fn writes(load: &Load) -> Option<bool> {
    match (load.work, load.mix) {
        (SessionWork::Requests, Mix::Get | Mix::Exists) => Some(false),
        (SessionWork::Requests, Mix::Set | Mix::Create | Mix::Mixed { .. })
        | (SessionWork::Storm | SessionWork::Locks | SessionWork::FanOut, _) => Some(true),
        _ => None,
    }
}

/// Returns the logs of all members, which are opened once. The leader's log is last, because
/// members that start together elect the member with the highest sid.
fn open(dir: &Path, members: usize, logs: &mut Vec<Option<Log>>) -> Result<Vec<Option<Log>>> {
    if logs.is_empty() {
        let (leader, followers) = Log::open(dir, members - 1)?;
        logs.extend(followers.into_iter().chain([leader]).map(Some));
    }
    Ok(logs.clone())
}

/// Starts a member for each of `logs`, and returns the addresses of all members.
fn serve_all(load: &Load, logs: Vec<Option<Log>>) -> Result<ServersArgs> {
    let serving = Serving::new(load.payload, None);
    let members = logs.into_iter().map(|log| serving.with_log(log));
    let servers: Result<Vec<String>> = members.map(serve).collect();
    Ok(ServersArgs {
        server: servers?,
        versus: Vec::new(),
        pid: Vec::new(),
        versus_pid: Vec::new(),
        access: AccessArgs::default(),
    })
}

/// Starts a server in a thread that ends with the process, and returns the server's address.
fn serve(serving: Serving) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(BenchError::io("listen"))?;
    let address = listener.local_addr().map_err(BenchError::io("listen"))?;
    spawn("echo", move || {
        if let Err(error) = echo::serve(listener, &serving, 1) {
            tracing::error!(%error, "cannot serve");
        }
    })?;
    Ok(address.to_string())
}
