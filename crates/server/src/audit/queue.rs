//! The queue of audit lines between the serving threads and the audit thread.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use config::AuditSettings;
use log_limiter::LogLimiter;
use monitoring::audit::{self, Level, Line};
use monitoring::dates::LocalDates;
use monitoring::environment::Environment;
use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;

use super::file::RollingFile;
use crate::{clock, limits};

/// Tracing target under which the lines also appear, at level debug.
const TARGET: &str = "audit";

/// Sending end of the queue.
pub(crate) struct AuditLog {
    settings: AuditSettings,
    /// Name of the user that runs the server.
    server_user: String,
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl AuditLog {
    /// Opens the file and starts the thread that writes it.
    ///
    /// # Errors
    /// If the file cannot be opened or the thread cannot be started.
    pub(crate) fn start(settings: AuditSettings) -> io::Result<Self> {
        let file = RollingFile::open(&settings.file, settings.file_bytes_max, settings.files_kept)?;
        let queue = Arc::new(Queue::new(&settings));
        let mut writer = Writer {
            file,
            queue: queue.clone(),
            dates: LocalDates::of_this_machine(),
            troubles: Troubles::default(),
        };
        let thread = std::thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || writer.run())?;
        tracing::info!(file = %settings.file.display(), "writing changes to the audit log");
        Ok(Self {
            settings,
            server_user: Environment::of_this_process().user_name().to_owned(),
            queue,
            thread: Mutex::new(Some(thread)),
        })
    }

    pub(crate) fn server_user(&self) -> &str {
        &self.server_user
    }

    /// Queues lines without waiting, because a wait would also block the tree, a connection, or all
    /// work of the core. When the queue is full, lines are lost and counted. With
    /// `auditlog.neverBlock=false`, the queue always accepts the lines of requests in progress, and
    /// further requests wait at their connections, in [`has_room`](Self::has_room).
    pub(crate) fn write(&self, lines: impl IntoIterator<Item = Line>) {
        let wall_ms = clock::wall_ms();
        for line in lines {
            if line.level == Level::Info && self.settings.failures_only {
                continue;
            }
            tracing::debug!(target: TARGET, "{}", line.text);
            self.queue.push(Dated { wall_ms, line });
        }
    }

    /// Waits until audited requests may be accepted. Returns immediately unless
    /// `auditlog.neverBlock` is off and the queue is full.
    pub(crate) async fn has_room(&self) {
        self.queue.has_room().await;
    }

    /// Returns whether [`has_room`](Self::has_room) would return immediately.
    pub(crate) fn has_room_now(&self) -> bool {
        self.queue.has_room_now()
    }

    /// Records that the server has started, or has failed to start.
    pub(crate) fn server_started(&self, has_failed: bool) {
        self.write([audit::server_start(&self.server_user, has_failed)]);
    }

    /// Records that the server stops, by request or because of a failure.
    pub(crate) fn server_stops(&self) {
        self.write([audit::server_stop(&self.server_user)]);
    }

    /// Closes the queue, and waits until the queued lines are in the file.
    pub(crate) fn finish(&self) {
        blocking::mark("wait for the audit thread");
        self.queue.end();
        if let Some(thread) = self.thread.lock().take()
            && thread.join().is_err()
        {
            tracing::error!("the audit thread panicked");
        }
    }
}

struct Dated {
    wall_ms: i64,
    line: Line,
}

/// Queued lines, bounded in number and bytes.
struct Queue {
    lines_max: usize,
    never_blocks: bool,
    state: Mutex<QueueState>,
    /// Signal for a new line, or for the end of the queue.
    arrived: Condvar,
    /// Signal for free space.
    emptied: Notify,
    log_limiter: LogLimiter,
}

#[derive(Default)]
struct QueueState {
    lines: VecDeque<Dated>,
    bytes: usize,
    /// Number of lines that were dropped because the queue was full.
    lost: u64,
    is_over: bool,
}

impl QueueState {
    fn has_room(&self, lines_max: usize, bytes_max: usize) -> bool {
        self.lines.len() < lines_max && self.bytes < bytes_max
    }
}

impl Queue {
    fn new(settings: &AuditSettings) -> Self {
        Self {
            lines_max: settings.queue_lines,
            never_blocks: settings.never_blocks,
            state: Mutex::default(),
            arrived: Condvar::new(),
            emptied: Notify::new(),
            log_limiter: LogLimiter::of("audit log"),
        }
    }

    fn push(&self, dated: Dated) {
        let mut state = self.state.lock();
        // Lines that must be accepted are bounded by the number of requests in the pipeline.
        let lines_max = if self.never_blocks {
            self.lines_max
        } else {
            usize::MAX
        };
        if state.is_over || !state.has_room(lines_max, limits::AUDIT_BYTES_MAX) {
            state.lost += 1;
            return;
        }
        state.bytes += dated.line.text.len();
        state.lines.push_back(dated);
        drop(state);
        self.arrived.notify_one();
    }

    async fn has_room(&self) {
        if !self.has_room_now() {
            log_limiter::limited!(in self.log_limiter => warn, "the queue of the audit log is full, requests wait for the disk (auditlog.neverBlock=false)");
        }
        loop {
            let emptied = self.emptied.notified();
            if self.has_room_now() {
                return;
            }
            emptied.await;
        }
    }

    fn has_room_now(&self) -> bool {
        if self.never_blocks {
            return true;
        }
        let state = self.state.lock();
        state.is_over || state.has_room(self.lines_max, limits::AUDIT_BYTES_MAX / 2)
    }

    /// Waits for lines. Returns all queued lines and the number of lines lost so far. Returns an
    /// empty queue at the end.
    fn take(&self) -> (VecDeque<Dated>, u64) {
        let mut state = self.state.lock();
        self.arrived
            .wait_while(&mut state, |state| state.lines.is_empty() && !state.is_over);
        let taken = (std::mem::take(&mut state.lines), state.lost);
        state.bytes = 0;
        drop(state);
        self.emptied.notify_waiters();
        taken
    }

    fn end(&self) {
        self.state.lock().is_over = true;
        self.arrived.notify_all();
        self.emptied.notify_waiters();
    }
}

/// State of the audit thread.
struct Writer {
    file: RollingFile,
    queue: Arc<Queue>,
    dates: LocalDates,
    troubles: Troubles,
}

impl Writer {
    fn run(&mut self) {
        loop {
            let (lines, lost) = self.queue.take();
            self.troubles.tell_lost(lost);
            if lines.is_empty() {
                return;
            }
            for dated in &lines {
                let appended = self.file.append(&self.text(dated));
                self.troubles.note(appended);
            }
            let flushed = self.file.flush();
            self.troubles.note(flushed);
        }
    }

    /// Formats a line. Source: the pattern `%d{ISO8601} %p %c{2}: %m%n` of conf/logback.xml.
    fn text(&self, dated: &Dated) -> String {
        let Dated { wall_ms, line } = dated;
        let level = match line.level {
            Level::Info => "INFO",
            Level::Error => "ERROR",
        };
        let date = self.dates.iso8601(*wall_ms);
        format!("{date} {level} {}: {}", audit::LOGGER, line.text)
    }
}

/// Failures, which are logged at intervals.
#[derive(Default)]
struct Troubles {
    told_error: Option<Instant>,
    lost_told: u64,
}

/// Minimum time between two log lines about the file.
const COMPLAINS_EVERY: Duration = Duration::from_secs(10);

impl Troubles {
    fn note(&mut self, outcome: io::Result<()>) {
        let Err(error) = outcome else {
            return;
        };
        let is_due = self
            .told_error
            .is_none_or(|told| told.elapsed() >= COMPLAINS_EVERY);
        if is_due {
            self.told_error = Some(Instant::now());
            tracing::error!(err = %error, "cannot write the audit log, lines may be missing");
        }
    }

    fn tell_lost(&mut self, lost: u64) {
        if lost > self.lost_told {
            tracing::error!(
                lost = lost - self.lost_told,
                lost_in_all = lost,
                "audit lines were dropped because the queue was full; raise auditlog.queueSize, or set auditlog.neverBlock=false so that requests wait"
            );
            self.lost_told = lost;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn queue(lines_max: usize, never_blocks: bool) -> Queue {
        Queue {
            lines_max,
            never_blocks,
            state: Mutex::default(),
            arrived: Condvar::new(),
            emptied: Notify::new(),
            log_limiter: LogLimiter::of("audit log"),
        }
    }

    fn line(text: &str) -> Dated {
        Dated {
            wall_ms: 0,
            line: Line {
                level: Level::Info,
                text: text.to_owned(),
            },
        }
    }

    fn texts(taken: &VecDeque<Dated>) -> Vec<&str> {
        taken.iter().map(|dated| &*dated.line.text).collect()
    }

    #[test]
    fn a_full_queue_that_never_blocks_counts_what_it_loses() {
        let queue = queue(2, true);
        for text in ["a", "b", "c", "d"] {
            queue.push(line(text));
        }
        let (taken, lost) = queue.take();
        assert_eq!((texts(&taken), lost), (vec!["a", "b"], 2));
        queue.push(line("e"));
        let (taken, lost) = queue.take();
        assert_eq!((texts(&taken), lost), (vec!["e"], 2));
    }

    #[test]
    fn bytes_are_bounded_as_well() {
        let queue = queue(100, true);
        let long = "x".repeat(limits::AUDIT_BYTES_MAX);
        queue.push(line(&long));
        queue.push(line("more"));
        let (taken, lost) = queue.take();
        assert_eq!((taken.len(), lost), (1, 1));
    }

    /// The core does not wait. Connections wait before they submit requests that need a line.
    #[tokio::test]
    async fn requests_wait_for_a_full_queue_that_loses_nothing() {
        let queue = queue(1, false);
        assert!(queue.has_room_now());
        for text in ["a", "b"] {
            queue.push(line(text));
        }
        assert!(!queue.has_room_now());
        let mut waits = pin!(queue.has_room());
        let mut context = Context::from_waker(Waker::noop());
        assert!(waits.as_mut().poll(&mut context).is_pending());
        let (taken, lost) = queue.take();
        assert_eq!((texts(&taken), lost), (vec!["a", "b"], 0));
        waits.await;
    }

    #[tokio::test]
    async fn whoever_waits_for_room_goes_on_at_the_end() {
        let queue = queue(1, false);
        queue.push(line("a"));
        let mut waits = pin!(queue.has_room());
        let mut context = Context::from_waker(Waker::noop());
        assert!(waits.as_mut().poll(&mut context).is_pending());
        queue.end();
        waits.await;
        let (taken, _) = queue.take();
        assert_eq!(texts(&taken)[0], "a");
    }
}
