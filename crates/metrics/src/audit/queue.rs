//! The queue of audit lines between the serving threads and the thread that writes the file.

use std::collections::VecDeque;

use config::AuditSettings;
use executor::sync::{Condvar, Mutex};
use log_limiter::LogLimiter;
use tokio::sync::Notify;

use super::{Level, Line, server_start, server_stop};

/// Tracing target under which the lines also appear, at level debug.
const TARGET: &str = "audit";

/// Maximum size of audit lines that wait for their file, bytes. Their number is also bounded by
/// `auditlog.queueSize`. With `auditlog.neverBlock=false`, requests wait at half of this value, so
/// that the lines of requests in progress fit.
pub const QUEUE_BYTES_MAX: usize = 16 << 20;

/// Queue of the audit log. Lines are queued before the reply is written, outside the tree's lock.
#[derive(Debug)]
pub struct AuditLog {
    failures_only: bool,
    /// Name of the user that runs the server.
    server_user: String,
    /// Clock for the dates of the lines, ms since 1970.
    wall_ms: fn() -> i64,
    queue: Queue,
}

impl AuditLog {
    /// Creates the log of a server run by `server_user`. `wall_ms` returns the time since 1970, ms.
    pub fn new(settings: &AuditSettings, server_user: &str, wall_ms: fn() -> i64) -> Self {
        Self {
            failures_only: settings.failures_only,
            server_user: server_user.to_owned(),
            wall_ms,
            queue: Queue::new(settings.queue_lines, settings.never_blocks),
        }
    }

    /// Returns the name of the user that runs the server.
    pub fn server_user(&self) -> &str {
        &self.server_user
    }

    /// Queues lines without waiting, because a wait would also block a connection or all work of
    /// the core. If the queue is full, lines are lost and counted. With
    /// `auditlog.neverBlock=false`, the queue has space for the lines of requests in progress,
    /// because further requests wait at their connections, in [`has_room`](Self::has_room).
    pub fn write(&self, lines: impl IntoIterator<Item = Line>) {
        let wall_ms = (self.wall_ms)();
        for line in lines {
            if line.level == Level::Info && self.failures_only {
                continue;
            }
            tracing::debug!(target: TARGET, "{}", line.text);
            self.queue.push(DatedLine { wall_ms, line });
        }
    }

    /// Waits until audited requests may be accepted. Returns immediately unless
    /// `auditlog.neverBlock=false` and the queue is full (see [`QUEUE_BYTES_MAX`]).
    pub async fn has_room(&self) {
        self.queue.has_room().await;
    }

    /// Returns whether [`has_room`](Self::has_room) would return immediately.
    pub fn has_room_now(&self) -> bool {
        self.queue.has_room_now()
    }

    /// Records that the server has started, or has failed to start.
    pub fn server_started(&self, has_failed: bool) {
        self.write([server_start(&self.server_user, has_failed)]);
    }

    /// Records that the server stops, by request or because of a failure.
    pub fn server_stops(&self) {
        self.write([server_stop(&self.server_user)]);
    }

    /// Waits for lines. Called on the thread that writes the file. Returns all queued lines and the
    /// number of lines lost so far. The lines are empty only after [`end`](Self::end).
    pub fn take(&self) -> (VecDeque<DatedLine>, u64) {
        self.queue.take()
    }

    /// Closes the queue. Queued lines remain, and further lines are lost.
    pub fn end(&self) {
        self.queue.end();
    }
}

/// A line and the time at which it was queued.
#[derive(Debug)]
pub struct DatedLine {
    /// Time at which the line was queued, ms since 1970.
    pub wall_ms: i64,
    /// Level and text of the line.
    pub line: Line,
}

/// Queued lines, bounded in number and size.
#[derive(Debug)]
struct Queue {
    lines_max: usize,
    never_blocks: bool,
    state: Mutex<QueueState>,
    /// Signal for a new line or for the end of the queue.
    arrived: Condvar,
    /// Signal for free space.
    emptied: Notify,
    log_limiter: LogLimiter,
}

#[derive(Debug, Default)]
struct QueueState {
    lines: VecDeque<DatedLine>,
    bytes: usize,
    /// Number of lines that were dropped because the queue was full or closed.
    lost: u64,
    is_over: bool,
}

impl QueueState {
    fn has_room(&self, lines_max: usize, bytes_max: usize) -> bool {
        self.lines.len() < lines_max && self.bytes < bytes_max
    }
}

impl Queue {
    fn new(lines_max: usize, never_blocks: bool) -> Self {
        Self {
            lines_max,
            never_blocks,
            state: Mutex::default(),
            arrived: Condvar::new(),
            emptied: Notify::new(),
            log_limiter: LogLimiter::of("audit log"),
        }
    }

    fn push(&self, dated: DatedLine) {
        let mut state = self.state.lock();
        // With `auditlog.neverBlock=false`, the requests in the pipeline bound the number of lines.
        let lines_max = if self.never_blocks {
            self.lines_max
        } else {
            usize::MAX
        };
        if state.is_over || !state.has_room(lines_max, QUEUE_BYTES_MAX) {
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
            log_limiter::limited!(in self.log_limiter => warn, "the queue of the audit log is full, so requests wait for the disk (auditlog.neverBlock=false)");
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
        state.is_over || state.has_room(self.lines_max, QUEUE_BYTES_MAX / 2)
    }

    /// Waits for lines. Returns all queued lines and the number of lines lost so far. The lines are
    /// empty only after [`end`](Self::end).
    fn take(&self) -> (VecDeque<DatedLine>, u64) {
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

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn line(text: &str) -> DatedLine {
        DatedLine {
            wall_ms: 0,
            line: Line {
                level: Level::Info,
                text: text.to_owned(),
            },
        }
    }

    fn texts(taken: &VecDeque<DatedLine>) -> Vec<&str> {
        taken.iter().map(|dated| &*dated.line.text).collect()
    }

    #[test]
    fn a_full_queue_that_never_blocks_counts_lost_lines() {
        let queue = Queue::new(2, true);
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
        let queue = Queue::new(100, true);
        let long = "x".repeat(QUEUE_BYTES_MAX);
        queue.push(line(&long));
        queue.push(line("more"));
        let (taken, lost) = queue.take();
        assert_eq!((taken.len(), lost), (1, 1));
    }

    /// The core does not wait. Instead, connections wait before they submit requests that need a
    /// line.
    #[tokio::test]
    async fn requests_wait_for_a_full_queue_that_loses_nothing() {
        let queue = Queue::new(1, false);
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
    async fn requests_that_wait_for_space_continue_at_the_end() {
        let queue = Queue::new(1, false);
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
