//! The queue of audit lines between the serving threads and the thread that writes the file.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

use config::AuditSettings;
use executor::sync::{Condvar, Mutex};
use log_limiter::LogLimiter;
use tokio::sync::Notify;

use super::group::LineGroup;
use super::line::{server_start, server_stop};

/// Memory of audit lines above which further lines are dropped, bytes. The memory includes the
/// lines that are being written. Their number is also bounded, by `auditlog.queueSize`. With
/// `auditlog.neverBlock=false`, requests wait at half of this value.
pub const QUEUE_BYTES_MAX: usize = 16 << 20;

/// Queue of the audit log. Lines are queued before the reply is written, outside the tree's lock.
///
/// The lines of one request are queued together or not at all. A queue that has not reached a bound
/// accepts them, even if they then exceed it. A long multi therefore fits if other lines do.
///
/// With `auditlog.neverBlock=true`, lines are dropped and counted at either bound.
///
/// With `false`, lines of requests are never dropped. Instead, further requests wait in
/// [`has_room`](Self::has_room) before they are admitted. The queue then exceeds the bound of
/// `has_room` only by the lines of requests that were already admitted. Admission bounds the bytes
/// of these requests, and the memory of a [`LineGroup`] is proportional to its request. Lines of
/// ended sessions are dropped at [`QUEUE_BYTES_MAX`], because this server does not admit the end of
/// another server's session.
#[derive(Debug)]
pub struct AuditLog {
    failures_only: bool,
    /// Name of the user that runs the server.
    server_user: Arc<str>,
    /// Clock for the dates of the lines, ms since 1970.
    wall_ms: fn() -> i64,
    queue: Queue,
}

impl AuditLog {
    /// Creates the log of a server run by `server_user`. `wall_ms` returns the time since 1970, ms.
    pub fn new(settings: &AuditSettings, server_user: &str, wall_ms: fn() -> i64) -> Self {
        Self {
            failures_only: settings.failures_only,
            server_user: server_user.into(),
            wall_ms,
            queue: Queue::new(settings.queue_lines, settings.never_blocks),
        }
    }

    /// Returns the name of the user that runs the server.
    pub fn server_user(&self) -> &Arc<str> {
        &self.server_user
    }

    /// Queues lines without waiting, because a wait would also block a connection or all work of
    /// the core. The lines may be dropped (see [`AuditLog`]).
    pub fn write(&self, mut lines: LineGroup) {
        if self.failures_only {
            lines.retain_failures();
        }
        if lines.len() > 0 {
            let wall_ms = (self.wall_ms)();
            self.queue.push(DatedLines { wall_ms, lines });
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
        self.write(server_start(&self.server_user, has_failed));
    }

    /// Records that the server stops, by request or because of a failure.
    pub fn server_stops(&self) {
        self.write(server_stop(&self.server_user));
    }

    /// Waits for lines. Called on the thread that writes the file, after it has written the lines of
    /// the previous call. Returns all queued lines and the number of lines lost so far. The lines
    /// are empty only after [`end`](Self::end).
    pub fn take(&self) -> (VecDeque<DatedLines>, u64) {
        self.queue.take()
    }

    /// Closes the queue. Queued lines remain, and further lines are lost.
    pub fn end(&self) {
        self.queue.end();
    }
}

/// Lines of one request, and the time at which they were queued.
#[derive(Debug)]
pub struct DatedLines {
    /// Time at which the lines were queued, ms since 1970.
    pub wall_ms: i64,
    /// Lines of the request.
    pub lines: LineGroup,
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
    groups: VecDeque<DatedLines>,
    /// Size of the groups.
    waiting: Size,
    /// Size of the groups that the writing thread has taken.
    writing: Size,
    /// Number of lines that were dropped because the queue was full or closed.
    lost: u64,
    is_over: bool,
}

#[derive(Debug, Default)]
struct Size {
    lines: usize,
    bytes: usize,
}

impl QueueState {
    fn has_room(&self, lines_max: usize, bytes_max: usize) -> bool {
        self.waiting.lines + self.writing.lines < lines_max
            && self.waiting.bytes + self.writing.bytes < bytes_max
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

    fn push(&self, dated: DatedLines) {
        let (lines, bytes) = (dated.lines.len(), dated.lines.bytes());
        let mut state = self.state.lock();
        let has_room = if self.never_blocks {
            state.has_room(self.lines_max, QUEUE_BYTES_MAX)
        } else {
            dated.lines.is_of_request() || state.has_room(usize::MAX, QUEUE_BYTES_MAX)
        };
        if state.is_over || !has_room {
            state.lost += lines as u64;
            return;
        }
        state.waiting.lines += lines;
        state.waiting.bytes += bytes;
        state.groups.push_back(dated);
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

    /// Frees the space of the lines that the previous call returned. Then waits for lines, and
    /// returns all queued lines and the number of lines lost so far. The lines are empty only after
    /// [`end`](Self::end).
    fn take(&self) -> (VecDeque<DatedLines>, u64) {
        self.state.lock().writing = Size::default();
        self.emptied.notify_waiters();
        let mut state = self.state.lock();
        self.arrived.wait_while(&mut state, |state| {
            state.groups.is_empty() && !state.is_over
        });
        state.writing = mem::take(&mut state.waiting);
        (mem::take(&mut state.groups), state.lost)
    }

    fn end(&self) {
        self.state.lock().is_over = true;
        self.arrived.notify_all();
        self.emptied.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use proto::{Id, OpCode, SessionId};

    use super::*;
    use crate::audit::{Caller, line_of_undecodable};

    /// Returns the line of a request of this user.
    fn of_user(name: &str) -> DatedLines {
        let id = Id {
            scheme: "ip".into(),
            id: name.into(),
        };
        let caller = Caller {
            session: SessionId(1),
            identities: Arc::from([id]),
            ip: Ipv4Addr::LOCALHOST.into(),
        };
        let lines = line_of_undecodable(caller, OpCode::Multi).unwrap();
        DatedLines { wall_ms: 0, lines }
    }

    fn users(taken: &VecDeque<DatedLines>) -> Vec<String> {
        let mut users = Vec::new();
        for dated in taken {
            dated.lines.write_lines(|_, text| {
                let user = text
                    .split('\t')
                    .find_map(|field| field.strip_prefix("user="));
                users.push(user.unwrap().to_owned());
            });
        }
        users
    }

    #[test]
    fn a_full_queue_that_never_blocks_counts_lost_lines() {
        let queue = Queue::new(2, true);
        for user in ["a", "b", "c", "d"] {
            queue.push(of_user(user));
        }
        let (taken, lost) = queue.take();
        assert_eq!((users(&taken), lost), (vec!["a".into(), "b".into()], 2));
        // The taken lines are being written.
        queue.push(of_user("e"));
        queue.end();
        let (taken, lost) = queue.take();
        assert_eq!((taken.len(), lost), (0, 3));
    }

    #[test]
    fn written_lines_free_their_space() {
        let queue = Queue::new(2, true);
        for user in ["a", "b", "c", "d"] {
            queue.push(of_user(user));
            let (taken, lost) = queue.take();
            assert_eq!((users(&taken), lost), (vec![user.into()], 0));
        }
    }

    #[test]
    fn bytes_are_bounded_as_well() {
        let queue = Queue::new(100, true);
        queue.push(of_user(&"x".repeat(QUEUE_BYTES_MAX)));
        queue.push(of_user("more"));
        let (taken, lost) = queue.take();
        assert_eq!((taken.len(), lost), (1, 1));
    }

    /// Requests have waited before they were admitted. The ends of other servers' sessions have
    /// not.
    #[test]
    fn only_lines_of_ended_sessions_are_lost_if_requests_wait() {
        let queue = Queue::new(1, false);
        let long = "x".repeat(QUEUE_BYTES_MAX);
        for user in [&*long, "a", "b"] {
            queue.push(of_user(user));
        }
        let lines = server_stop(&"zk".into());
        queue.push(DatedLines { wall_ms: 0, lines });
        let (taken, lost) = queue.take();
        assert_eq!((taken.len(), lost), (3, 1));
    }

    /// The core does not wait. Instead, connections wait before they submit requests that need a
    /// line.
    #[tokio::test]
    async fn requests_wait_until_the_lines_are_written() {
        let queue = Queue::new(2, false);
        assert!(queue.has_room_now());
        for user in ["a", "b", "c"] {
            queue.push(of_user(user));
        }
        let mut waits = pin!(queue.has_room());
        let mut context = Context::from_waker(Waker::noop());
        assert!(waits.as_mut().poll(&mut context).is_pending());
        let (taken, lost) = queue.take();
        assert_eq!((taken.len(), lost), (3, 0));
        assert!(waits.as_mut().poll(&mut context).is_pending());
        queue.push(of_user("d"));
        let (taken, lost) = queue.take();
        assert_eq!((taken.len(), lost), (1, 0));
        waits.await;
    }

    #[tokio::test]
    async fn requests_that_wait_for_space_continue_at_the_end() {
        let queue = Queue::new(1, false);
        queue.push(of_user("a"));
        let mut waits = pin!(queue.has_room());
        let mut context = Context::from_waker(Waker::noop());
        assert!(waits.as_mut().poll(&mut context).is_pending());
        queue.end();
        waits.await;
        let (taken, _) = queue.take();
        assert_eq!(users(&taken), ["a"]);
    }
}
