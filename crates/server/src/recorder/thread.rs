//! The thread that records the change history.

#![allow(clippy::disallowed_methods, reason = "runs on the history thread")]

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use admin::served::Readers;
use config::ChangeHistory;
use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use history::{
    HistoryError, Index, IndexSettings, MaintenanceStep, Origin, PathFilter, YieldHook, set_aside,
};
use host::FillError;
use proto::{Id, Zxid};
use recovery::LogEnd;
use rustix::process::{Pid, setpriority_process};
use storage::RealDisk;

use super::feed::{Client, Feed, Progress, TxnGroup};
use crate::{clock, limits};

/// Files of the member that the thread reads.
pub(crate) type Sources = host::Recorder<RealDisk>;

/// Starts the history thread. Returns the feed for its transactions and the thread.
///
/// # Errors
/// If the path patterns are invalid, or if the thread cannot be started.
pub(crate) fn start(
    keys: &ChangeHistory,
    sources: Sources,
    log_end: Arc<LogEnd>,
    readers: Readers,
) -> Result<(Feed, JoinHandle<()>), StartFailure> {
    let progress = Arc::<Progress>::default();
    let queued = progress.clone();
    let settings = IndexSettings {
        yield_hook: YieldHook::new(move || queued.yield_if_queue_has_space()),
        filter: PathFilter::new(keys.include.clone(), keys.exclude.clone())?,
        content_bytes_max: keys.content_bytes_max,
        bytes_max: keys.bytes_max,
        age_ms_max: keys.age_ms_max,
        ..IndexSettings::new(&keys.dir)
    };
    let (queue, groups) = bounded(limits::HISTORY_GROUPS_MAX);
    let recorder = Recorder {
        settings,
        sources,
        log_end,
        free_bytes_min: keys.free_bytes_min,
        progress: progress.clone(),
        readers,
        index: None,
        next_try: Instant::now(),
        pause: PAUSE_MIN,
        last_checkpoint: Instant::now(),
        looked_at_disk: None,
        is_full: false,
    };
    let builder = std::thread::Builder::new().name("history".to_owned());
    let thread = builder.spawn(move || recorder.run(&groups))?;
    Ok((Feed::new(progress, queue), thread))
}

/// Reasons why the history thread cannot start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartFailure {
    #[error("{0}")]
    Pattern(#[from] HistoryError),
    #[error("{0}")]
    Thread(#[from] io::Error),
}

/// Niceness of the thread. It receives about a tenth of the processor time that other threads
/// receive.
const NICENESS: i32 = 10;
/// Interval between checks for other work while no transactions arrive.
const IDLE: Duration = Duration::from_millis(100);
/// Time for which transactions are collected. A wake-up for each group would cost the serving
/// threads more than recording it.
const GATHER: Duration = Duration::from_millis(4);
/// Number of transactions after which the thread yields the processor. A scheduler lets even a nice
/// thread run for several milliseconds, and a thread that serves a client would have to wait.
const YIELD_EVERY: usize = 32;
/// Time after which recorded changes are durable.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(1);
/// Interval between checks of the free disk space.
const DISK_EVERY: Duration = Duration::from_secs(1);
/// Minimum and maximum time before the history is opened again after a failure. The time doubles
/// with each failure.
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(60);

struct Recorder {
    settings: IndexSettings,
    sources: Sources,
    log_end: Arc<LogEnd>,
    free_bytes_min: u64,
    progress: Arc<Progress>,
    readers: Readers,
    /// The open history; `None` until it is open, and after a failure.
    index: Option<Index>,
    next_try: Instant,
    pause: Duration,
    last_checkpoint: Instant,
    looked_at_disk: Option<Instant>,
    is_full: bool,
}

impl Recorder {
    fn run(mut self, groups: &Receiver<TxnGroup>) {
        lower_priority();
        let (mut wait, mut waiting) = (IDLE, Vec::new());
        loop {
            let group = groups.recv_timeout(wait);
            if matches!(group, Err(RecvTimeoutError::Disconnected)) {
                // The server waits for this thread, so the rest of the log is read after the next
                // start.
                return self.close();
            }
            let (is_idle, is_reading) = (group.is_err(), wait.is_zero());
            waiting.extend(group);
            // While the log is read, groups wait for their turn, because the log lacks their clients.
            if !is_reading && !waiting.is_empty() {
                self.record(&mut waiting, groups);
            }
            let has_time = is_idle || is_reading || self.sources.is_behind();
            self.with_index(|recorder, index| recorder.work(index, has_time));
            // While more of the log can be read, the thread does not wait for groups.
            wait = IDLE * u32::from(!self.sources.is_behind());
        }
    }

    /// Records groups, and the groups that arrive shortly after them.
    fn record(&mut self, gathered: &mut Vec<TxnGroup>, groups: &Receiver<TxnGroup>) {
        if self.progress.has_room() && groups.len() < limits::HISTORY_GROUPS_MAX / 4 {
            std::thread::sleep(GATHER);
        }
        gathered.extend(groups.try_iter());
        let bytes = gathered.iter().map(|group| group.bytes).sum();
        self.with_index(|recorder, index| recorder.take(index, gathered));
        gathered.clear();
        self.progress.release_bytes(bytes);
    }

    /// Calls `what` with the history if it is open or can be opened.
    fn with_index(&mut self, what: impl FnOnce(&mut Self, &mut Index) -> Result<(), FillError>) {
        let result = match self.open() {
            Ok(Some(mut index)) => what(self, &mut index).map(|()| index),
            Ok(None) => return,
            Err(error) => Err(error),
        };
        match result {
            Ok(index) => {
                self.readers.recorded(index.head());
                self.index = Some(index);
                self.pause = PAUSE_MIN;
            }
            Err(error) => self.handle_failure(&error),
        }
    }

    /// Returns the history. Opens it if necessary, or builds a new one from the files. Returns
    /// `None` if the disk lacks space, or if the history cannot be opened yet.
    fn open(&mut self) -> Result<Option<Index>, FillError> {
        let committed = self.progress.committed();
        if !self.has_room() {
            return Ok(None);
        }
        if let Some(index) = self.index.take() {
            return Ok(Some(index));
        }
        if committed <= Zxid::ZERO || Instant::now() < self.next_try {
            return Ok(None);
        }
        let Some(index) = self.sources.open(&self.settings, committed)? else {
            self.next_try = Instant::now() + PAUSE_MIN;
            return Ok(None);
        };
        tracing::info!(dir = %self.settings.dir.display(), head = %index.head(), changes = index.changes(), "the change history is open");
        self.readers.set(Some(index.reader()));
        Ok(Some(index))
    }

    fn handle_failure(&mut self, error: &FillError) {
        self.readers.set(None);
        self.next_try = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        match error {
            FillError::History(lost) if lost.is_unusable() => {
                tracing::error!(err = %error, "the change history is unusable, moving it aside and rebuilding it");
                if let Err(error) = set_aside(&self.settings.dir) {
                    tracing::error!(err = %error, "cannot move the change history aside");
                }
            }
            FillError::History(full) if full.is_disk_full() => self.drop_all(),
            _ => {
                tracing::warn!(err = %error, "the change history failed; the server continues without it and retries later");
            }
        }
    }

    /// Returns whether the disk has space for a history. Below the minimum, the history no longer
    /// grows. Below half of the minimum, it is removed so that the server can use the space.
    fn has_room(&mut self) -> bool {
        let now = Instant::now();
        let is_due = self
            .looked_at_disk
            .is_none_or(|at| now.duration_since(at) >= DISK_EVERY);
        if !is_due {
            return !self.is_full;
        }
        self.looked_at_disk = Some(now);
        self.close_if_removed();
        let Some(free) = free_bytes(&self.settings.dir) else {
            return true;
        };
        let was_full = self.is_full;
        self.is_full = free < self.free_bytes_min;
        if self.is_full && free < self.free_bytes_min / 2 && self.settings.dir.exists() {
            self.drop_all();
        } else if self.is_full && !was_full {
            self.close();
            tracing::error!(
                free,
                least = self.free_bytes_min,
                "the disk is nearly full, pausing the change history (history.minFreeMegabytes)"
            );
        } else if was_full && !self.is_full {
            tracing::info!(
                free,
                "the disk has free space again, continuing the change history"
            );
        }
        !self.is_full
    }

    /// Closes the history if its files were removed. Removed files could still be written but never
    /// be found again.
    fn close_if_removed(&mut self) {
        if self.index.is_some() && !self.settings.exists() {
            tracing::error!(dir = %self.settings.dir.display(), "the directory of the change history was removed, creating it again");
            self.readers.set(None);
            self.index = None;
        }
    }

    fn close(&mut self) {
        self.readers.set(None);
        if let Some(Err(error)) = self.index.take().map(|mut index| index.checkpoint()) {
            tracing::warn!(err = %error, "cannot sync the last changes of the change history");
        }
    }

    fn drop_all(&mut self) {
        self.readers.set(None);
        self.index = None;
        match std::fs::remove_dir_all(&self.settings.dir) {
            Ok(()) => {
                tracing::error!(dir = %self.settings.dir.display(), "no space for the change history, removed it so that the server can continue");
            }
            Err(error) => tracing::error!(err = %error, "cannot remove the change history"),
        }
    }

    /// Records the transactions that follow the last recorded one. Others are read from the log
    /// later.
    fn take(&mut self, index: &mut Index, groups: &mut [TxnGroup]) -> Result<(), FillError> {
        let mut origins = Origins::default();
        let unknown = Arc::<Origin>::default();
        let txns = groups.iter_mut().flat_map(|group| {
            let clients = group.clients.iter().map(|client| origins.of(client));
            let clients: Vec<_> = clients.collect();
            let unknown = unknown.clone();
            group.txns().map(move |(record, client)| {
                let origin = client.map_or(&unknown, |place| &clients[place]);
                (record, origin.clone())
            })
        });
        let progress = self.progress.clone();
        let txns = txns.enumerate().map(move |(at, txn)| {
            if at % YIELD_EVERY == 0 {
                progress.yield_if_queue_has_space();
            }
            txn
        });
        self.sources.take(index, txns)
    }

    /// Performs some of the other work: catching up, maintenance and checkpoints.
    fn work(&mut self, index: &mut Index, is_idle: bool) -> Result<(), FillError> {
        if is_idle {
            let (committed, end) = (self.progress.committed(), self.log_end.get());
            self.sources
                .catch_up(index, &self.settings, committed, end)?;
        }
        index.step(clock::wall_ms())?;
        if self.last_checkpoint.elapsed() >= CHECKPOINT_EVERY {
            index.checkpoint()?;
            self.last_checkpoint = Instant::now();
        }
        while is_idle && index.step(clock::wall_ms())? == MaintenanceStep::Worked {
            if self.last_checkpoint.elapsed() >= CHECKPOINT_EVERY {
                break;
            }
        }
        Ok(())
    }
}

/// Lowers the thread's priority.
fn lower_priority() {
    let thread = Pid::from_raw(rustix::thread::gettid().as_raw_nonzero().get());
    if let Err(error) = setpriority_process(thread, NICENESS) {
        tracing::debug!(%error, "cannot lower the priority of the history thread");
    }
}

fn free_bytes(dir: &Path) -> Option<u64> {
    let there = dir.ancestors().find(|dir| dir.exists())?;
    let stat = rustix::fs::statvfs(there).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Clients in the history's format. The transactions in a group often come from the same few
/// clients.
#[derive(Default)]
struct Origins {
    known: HashMap<SocketAddr, (Arc<[Id]>, Arc<Origin>)>,
}

impl Origins {
    fn of(&mut self, client: &Client) -> Arc<Origin> {
        let (address, ids) = client;
        if let Some((known, origin)) = self.known.get(address)
            && Arc::ptr_eq(known, ids)
        {
            return origin.clone();
        }
        let shown = ids
            .iter()
            .filter(|id| !matches!(&*id.scheme, "world" | "ip"));
        let origin = Arc::new(Origin {
            client: address.to_string(),
            identities: shown
                .map(|id| format!("{}:{}", id.scheme, masked(&id.scheme, &id.id)))
                .collect(),
        });
        let known = (ids.clone(), origin.clone());
        self.known.insert(*address, known);
        origin
    }
}

/// Returns an identity without the password of a digest or super user.
fn masked<'a>(scheme: &str, id: &'a str) -> &'a str {
    match id.split_once(':') {
        Some((user, _)) if scheme == "digest" || scheme == "super" => user,
        _ => id,
    }
}

#[cfg(test)]
#[path = "thread_tests.rs"]
mod tests;
