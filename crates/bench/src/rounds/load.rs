//! Load with a name, such as a row of `suite`.

use std::sync::Arc;
use std::time::Duration;

use client::Options;

use crate::args::{LoadArgs, ServersArgs, TurnsArgs};
use crate::error::Result;
use crate::rounds::round::{Job, SessionWork};
use crate::session::workload::Mix;
use crate::target::Target;
use crate::{FILES_BESIDES, job};

/// Load with the numbers of its sessions, requests and znodes.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Name of the load in reports.
    pub name: &'static str,
    /// Work of each session.
    pub work: SessionWork,
    /// Mix of requests, if the work of the sessions is requests.
    pub mix: Mix,
    /// Number of sessions.
    pub sessions: u32,
    /// Number of requests in flight per session.
    pub pipeline: u32,
    /// Number of data bytes per znode.
    pub payload: u32,
    /// Number of znodes, or of locks.
    pub keys: u32,
    /// Number of children per parent, if the znodes are the leaves of an existing tree.
    pub breadth: Option<u32>,
    /// Number of operations to measure, instead of a duration.
    pub ops: Option<u64>,
}

impl Load {
    /// Returns a load of requests on 1000 znodes of 100 bytes.
    pub const fn requests(name: &'static str, mix: Mix, sessions: u32, pipeline: u32) -> Load {
        Load {
            name,
            work: SessionWork::Requests,
            mix,
            sessions,
            pipeline,
            payload: 100,
            keys: 1000,
            breadth: None,
            ops: None,
        }
    }

    /// Returns a load of sessions with work other than requests.
    pub const fn sessions(name: &'static str, work: SessionWork, sessions: u32) -> Load {
        Load {
            work,
            ..Load::requests(name, Mix::Set, sessions, 1)
        }
    }

    /// Returns the job for the load, below `root`, or below a new root znode if `root` is `None`.
    pub(crate) fn job(
        &self,
        servers: &ServersArgs,
        turns: &TurnsArgs,
        root: Option<&str>,
    ) -> Result<Job> {
        let args = LoadArgs {
            servers: servers.clone(),
            rounds: turns.rounds,
            sessions: self.sessions,
            pipeline: self.pipeline,
            payload: self.payload,
            keys: self.keys,
            duration: turns.duration,
            ops: self.ops,
            warmup: turns.warmup,
            threads: 1,
            session_timeout: SESSION_TIMEOUT,
            root: root.map(str::to_owned),
            keep: false,
            json: false,
        };
        let mut job = job(&args, self.work, self.mix)?;
        Arc::make_mut(&mut job.plan).breadth = self.breadth;
        if let Mix::Fill { .. } = self.mix {
            (job.warmup, job.until_done) = (Duration::ZERO, true);
        }
        if self.work == SessionWork::Idle {
            job.warmup = Duration::ZERO;
        }
        // Every session needs a file descriptor. If the system does not permit enough of them,
        // opening a session fails later.
        let _ = rlimit::increase_nofile_limit(u64::from(self.sessions) + FILES_BESIDES);
        Ok(job)
    }
}

/// Returns the servers that these arguments name.
pub(crate) fn addresses(arguments: &[String]) -> Vec<Arc<str>> {
    Options::new(&arguments.join(",")).servers().to_vec()
}

/// Returns the target of `--server`, and the target of `--versus` if there is one.
pub(crate) fn targets(servers: &ServersArgs) -> Result<Vec<Target>> {
    let access = servers.access.open()?;
    let mut targets = vec![Target::new(&servers.server, &servers.pid, access.clone())?];
    if !servers.versus.is_empty() {
        targets.push(Target::new(&servers.versus, &servers.versus_pid, access)?);
    }
    Ok(targets)
}

const SESSION_TIMEOUT: Duration = Duration::from_secs(30);
