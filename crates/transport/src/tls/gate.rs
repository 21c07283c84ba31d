//! How many handshakes may be under way.
//!
//! Before its handshake is through nobody is known, so whoever only begins one must cost little and
//! keep nobody out: with too many under way the oldest gives way to a newcomer, since an honest one is
//! through in milliseconds.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use log_limiter::LogLimiter;

/// Handshakes under way at a port, with up to some ten kilobytes each.
pub const HANDSHAKES_MAX: usize = 1024;

/// Counts the handshakes of a port.
#[derive(Debug)]
pub struct Gate {
    /// Beyond so many a newcomer is refused (`netty.server.outstandingHandshake.limit`).
    limit: Option<usize>,
    /// Beyond so many the oldest gives way.
    max: usize,
    /// For those who want a second one.
    pub(super) log_limiter: LogLimiter,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    last: u64,
    oldest_first: VecDeque<(u64, oneshot::Sender<()>)>,
}

/// A handshake that is under way; dropping it ends it.
#[derive(Debug)]
pub(super) struct Pass {
    gate: Arc<Gate>,
    number: u64,
    /// Resolves when another needs the place.
    pub(super) evicted: oneshot::Receiver<()>,
}

impl Gate {
    /// `limit` is what Java's setting says; absent is none but [`HANDSHAKES_MAX`].
    pub fn new(limit: Option<usize>) -> Arc<Self> {
        Arc::new(Self {
            limit,
            max: HANDSHAKES_MAX,
            log_limiter: LogLimiter::of("second TLS handshakes"),
            inner: Mutex::default(),
        })
    }

    /// Of a port that few come to: beyond `max` the oldest gives way.
    pub fn small(max: usize) -> Arc<Self> {
        Arc::new(Self {
            limit: None,
            max,
            log_limiter: LogLimiter::of("second TLS handshakes"),
            inner: Mutex::default(),
        })
    }

    /// How many are under way.
    pub fn under_way(&self) -> usize {
        self.inner.lock().oldest_first.len()
    }

    /// `None` beyond the limit.
    pub(super) fn enter(self: &Arc<Self>) -> Option<Pass> {
        let (sender, evicted) = oneshot::channel();
        let inner = &mut *self.inner.lock();
        let count = inner.oldest_first.len();
        if self.limit.is_some_and(|limit| count >= limit) {
            return None;
        }
        if count >= self.max
            && let Some((_, oldest)) = inner.oldest_first.pop_front()
        {
            // It may have ended this moment.
            let _ = oldest.send(());
        }
        inner.last += 1;
        let number = inner.last;
        inner.oldest_first.push_back((number, sender));
        Some(Pass {
            gate: self.clone(),
            number,
            evicted,
        })
    }
}

impl Drop for Pass {
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
    fn beyond_the_limit_a_newcomer_is_refused() {
        let gate = Gate::new(Some(2));
        let first = gate.enter().unwrap();
        let _second = gate.enter().unwrap();
        assert!(gate.enter().is_none());
        drop(first);
        assert_eq!(gate.under_way(), 1);
        assert!(gate.enter().is_some());
    }

    #[test]
    fn without_one_the_oldest_gives_way() {
        let gate = Gate::new(None);
        let mut passes: Vec<_> = (0..HANDSHAKES_MAX).map(|_| gate.enter().unwrap()).collect();
        let newcomer = gate.enter().unwrap();
        assert_eq!(passes[0].evicted.try_recv(), Ok(()));
        assert!(passes[1].evicted.try_recv().is_err());
        assert_eq!(gate.under_way(), HANDSHAKES_MAX);
        drop(passes);
        assert_eq!(gate.under_way(), 1);
        drop(newcomer);
        assert_eq!(gate.under_way(), 0);
    }
}
