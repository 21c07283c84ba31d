//! The newest slow requests, and the log lines of slow requests.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::Mutex;
use proto::{OpCode, SessionId, Xid, Zxid};

/// Maximum number of requests to keep.
const KEPT_MAX: usize = 200;

/// Maximum number of log lines per second. Further lines are only counted.
const LINES_PER_SECOND: u32 = 20;

/// Length at which a path is truncated, bytes.
const PATH_BYTES_MAX: usize = 512;

/// A slow request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowRequest {
    /// Time of the answer by the wall clock, ms.
    pub at_ms: i64,
    /// Time from arrival to reply, ms.
    pub took_ms: u64,
    /// Address of the client.
    pub peer: SocketAddr,
    /// Session of the client.
    pub session: SessionId,
    /// Requested operation.
    pub op: OpCode,
    /// Path of the first znode; `None` without a znode, or if the request failed.
    pub path: Option<String>,
    /// Xid of the request.
    pub xid: Xid,
    /// Zxid of the reply.
    pub zxid: Zxid,
}

/// Buffer of the newest slow requests.
#[derive(Debug)]
pub struct SlowRequests {
    /// Minimum duration of a slow request, ms. [`u64::MAX`] disables the recording.
    threshold_ms: u64,
    has_unwritten: AtomicBool,
    slowest: Mutex<SlowestRequests>,
}

#[derive(Debug, Default)]
struct SlowestRequests {
    newest: VecDeque<SlowRequest>,
    count: u64,
    /// Requests whose log lines are pending.
    due: Vec<SlowRequest>,
    /// Number of requests that were not logged since the last [`SlowRequests::write`].
    left_out: u64,
    second: i64,
    lines: u32,
}

impl SlowRequests {
    /// Creates a buffer for requests of at least this duration. Without a duration, the buffer
    /// stays empty.
    pub fn new(threshold_ms: Option<u32>) -> Self {
        Self {
            threshold_ms: threshold_ms.map_or(u64::MAX, u64::from),
            has_unwritten: AtomicBool::new(false),
            slowest: Mutex::default(),
        }
    }

    /// Returns the minimum duration of a slow request, ms, or `None` if recording is disabled.
    pub fn threshold_ms(&self) -> Option<u64> {
        (self.threshold_ms < u64::MAX).then_some(self.threshold_ms)
    }

    /// Returns whether a request is slow.
    pub fn is_slow(&self, took_ms: u64) -> bool {
        took_ms >= self.threshold_ms
    }

    /// Keeps a slow request. The request is logged by the next call to [`Self::write`] and not by
    /// this function, because its caller may hold locks.
    pub fn note(&self, mut request: SlowRequest) {
        if let Some(path) = request
            .path
            .as_mut()
            .filter(|path| path.len() > PATH_BYTES_MAX)
        {
            let fits = |place: &usize| path.is_char_boundary(*place);
            let end = (0..=PATH_BYTES_MAX).rev().find(fits).unwrap_or(0);
            path.truncate(end);
            path.push('…');
        }
        let mut slowest = self.slowest.lock();
        slowest.count += 1;
        let second = request.at_ms.div_euclid(1000);
        if slowest.second != second {
            (slowest.second, slowest.lines) = (second, 0);
        }
        if slowest.lines < LINES_PER_SECOND {
            slowest.lines += 1;
            slowest.due.push(request.clone());
        } else {
            slowest.left_out += 1;
        }
        slowest.newest.push_front(request);
        slowest.newest.truncate(KEPT_MAX);
        self.has_unwritten.store(true, Relaxed);
    }

    /// Logs the pending lines. The caller must not hold locks.
    pub fn write(&self) {
        if !self.has_unwritten.load(Relaxed) {
            return;
        }
        let (due, left_out) = {
            let mut slowest = self.slowest.lock();
            self.has_unwritten.store(false, Relaxed);
            let due = std::mem::take(&mut slowest.due);
            (due, std::mem::take(&mut slowest.left_out))
        };
        for request in due {
            let SlowRequest {
                took_ms,
                peer,
                session,
                path,
                xid,
                zxid,
                ..
            } = &request;
            let (op, xid) = (request.op.name(), xid.0);
            tracing::warn!(took_ms, op, path = path.as_deref(), %peer, %session, xid, %zxid, "slow request");
        }
        if left_out > 0 {
            tracing::warn!(
                left_out,
                "more slow requests within one second are not logged"
            );
        }
    }

    /// Returns the newest slow requests, newest first, and the total number of slow requests so
    /// far.
    pub fn newest(&self) -> (Vec<SlowRequest>, u64) {
        let slowest = self.slowest.lock();
        (slowest.newest.iter().cloned().collect(), slowest.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(took_ms: u64, at_ms: i64, path: &str) -> SlowRequest {
        SlowRequest {
            at_ms,
            took_ms,
            peer: ([127, 0, 0, 1], 1).into(),
            session: SessionId(7),
            op: OpCode::GetData,
            path: Some(path.to_owned()),
            xid: Xid(1),
            zxid: Zxid(2),
        }
    }

    #[test]
    fn none_is_slow_without_a_threshold() {
        assert!(!SlowRequests::new(None).is_slow(u64::MAX - 1));
        let slow = SlowRequests::new(Some(5));
        assert_eq!((slow.is_slow(4), slow.is_slow(5)), (false, true));
    }

    #[test]
    fn the_newest_are_kept_and_lines_are_few() {
        let slow = SlowRequests::new(Some(1));
        let count = i64::try_from(KEPT_MAX).expect("small") + 50;
        for number in 0..count {
            slow.note(request(10, number, "/a"));
        }
        let due = slow.slowest.lock().due.len();
        assert_eq!(due, LINES_PER_SECOND as usize);
        slow.write();
        // The next second has its own limit on lines.
        slow.note(request(10, 1500, "/b"));
        assert_eq!(slow.slowest.lock().due.len(), 1);
        let (newest, all) = slow.newest();
        assert_eq!((newest.len(), all), (KEPT_MAX, count.unsigned_abs() + 1));
        assert_eq!(newest[0].path.as_deref(), Some("/b"));
    }

    #[test]
    fn long_paths_are_cut_between_characters() {
        let slow = SlowRequests::new(Some(1));
        slow.note(request(10, 0, &format!("/a{}", "é".repeat(PATH_BYTES_MAX))));
        let (newest, _) = slow.newest();
        let path = newest[0].path.as_deref().unwrap_or_default();
        assert!(
            path.len() <= PATH_BYTES_MAX + 3 && path.ends_with("é…"),
            "{path}"
        );
    }
}
