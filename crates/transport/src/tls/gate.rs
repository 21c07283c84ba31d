//! Limits on concurrent handshakes.
//!
//! The peer is unknown until its handshake is complete. A peer that only begins handshakes must
//! therefore cost little and must not block others. Above the limit, the oldest handshake is closed
//! in favour of a new one, because an honest peer finishes within milliseconds.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use log_limiter::LogLimiter;

/// Maximum number of concurrent handshakes at a port. Each uses up to about ten kilobytes.
pub const HANDSHAKES_MAX: usize = 1024;

/// Maximum duration of a handshake from its first byte, as in Netty's SslHandler.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Limiter of a port's concurrent handshakes.
#[derive(Debug)]
pub struct Gate {
    /// Number of handshakes above which a new one is refused
    /// (`netty.server.outstandingHandshake.limit`).
    limit: Option<usize>,
    /// Number of handshakes above which the oldest is closed.
    max: usize,
    /// Limiter for the log lines about renegotiations.
    pub(super) log_limiter: LogLimiter,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    last: u64,
    oldest_first: VecDeque<(u64, oneshot::Sender<()>)>,
}

/// A handshake in progress, which ends when this value is dropped.
#[derive(Debug)]
pub(super) struct HandshakePermit {
    gate: Arc<Gate>,
    number: u64,
    /// Signal that a newer handshake needs the slot.
    pub(super) evicted: oneshot::Receiver<()>,
}

impl Gate {
    /// Creates the gate for a port. `limit` is the value of
    /// `netty.server.outstandingHandshake.limit`. If it is not set, only [`HANDSHAKES_MAX`]
    /// applies.
    pub fn new(limit: Option<usize>) -> Arc<Self> {
        Arc::new(Self {
            limit,
            max: HANDSHAKES_MAX,
            log_limiter: LogLimiter::of("second TLS handshakes"),
            inner: Mutex::default(),
        })
    }

    /// Creates the gate for a port with few connections. Above `max`, the oldest handshake is
    /// closed.
    pub fn small(max: usize) -> Arc<Self> {
        Arc::new(Self {
            limit: None,
            max,
            log_limiter: LogLimiter::of("second TLS handshakes"),
            inner: Mutex::default(),
        })
    }

    /// Returns the number of handshakes in progress.
    pub fn in_progress(&self) -> usize {
        self.inner.lock().oldest_first.len()
    }

    /// Adds a handshake. Returns `None` if `limit` is reached. If `max` is reached, signals the
    /// oldest handshake to end.
    pub(super) fn enter(self: &Arc<Self>) -> Option<HandshakePermit> {
        let (sender, evicted) = oneshot::channel();
        let inner = &mut *self.inner.lock();
        let count = inner.oldest_first.len();
        if self.limit.is_some_and(|limit| count >= limit) {
            return None;
        }
        if count >= self.max
            && let Some((_, oldest)) = inner.oldest_first.pop_front()
        {
            // Fails only if the handshake has just ended.
            let _ = oldest.send(());
        }
        inner.last += 1;
        let number = inner.last;
        inner.oldest_first.push_back((number, sender));
        Some(HandshakePermit {
            gate: self.clone(),
            number,
            evicted,
        })
    }
}

impl Drop for HandshakePermit {
    fn drop(&mut self) {
        let waiting = &mut self.gate.inner.lock().oldest_first;
        if let Ok(at) = waiting.binary_search_by_key(&self.number, |(number, _)| *number) {
            waiting.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_over_the_limit_is_refused() {
        let gate = Gate::new(Some(2));
        let first = gate.enter().unwrap();
        let _second = gate.enter().unwrap();
        assert!(gate.enter().is_none());
        drop(first);
        assert_eq!(gate.in_progress(), 1);
        assert!(gate.enter().is_some());
    }

    #[test]
    fn without_a_limit_the_oldest_handshake_is_closed() {
        let gate = Gate::new(None);
        let mut passes: Vec<_> = (0..HANDSHAKES_MAX).map(|_| gate.enter().unwrap()).collect();
        let newcomer = gate.enter().unwrap();
        assert_eq!(passes[0].evicted.try_recv(), Ok(()));
        assert!(passes[1].evicted.try_recv().is_err());
        assert_eq!(gate.in_progress(), HANDSHAKES_MAX);
        drop(passes);
        assert_eq!(gate.in_progress(), 1);
        drop(newcomer);
        assert_eq!(gate.in_progress(), 0);
    }
}
