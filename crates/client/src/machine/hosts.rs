//! Order of the servers to try, and the pauses between attempts.

use std::sync::Arc;
use std::time::Duration;

/// Servers in the order of attempts, in rounds.
///
/// Within a round, there are no pauses, because the next server is probably healthy. The pause
/// between rounds starts at [`PAUSE_MIN`] and doubles up to [`PAUSE_MAX`]. A random factor between
/// one half and one shortens it, so that the clients of a failed server do not all reconnect at the
/// same time.
#[derive(Debug)]
pub(crate) struct Hosts {
    servers: Vec<Arc<str>>,
    is_shuffled: bool,
    /// Index of the server that is connected, is being tried, or will be tried next.
    at: usize,
    /// Number of failed attempts since a server last served.
    failures: usize,
    pause: Duration,
    random: fastrand::Rng,
}

impl Hosts {
    pub(crate) fn new(servers: &[Arc<str>], is_shuffled: bool, seed: u64) -> Self {
        let mut hosts = Self {
            servers: Vec::new(),
            is_shuffled,
            at: 0,
            failures: 0,
            pause: PAUSE_MIN,
            random: fastrand::Rng::with_seed(seed),
        };
        hosts.replace(servers.to_vec());
        hosts
    }

    /// Replaces the servers. The next attempt begins a round.
    pub(crate) fn replace(&mut self, servers: Vec<Arc<str>>) {
        self.servers = servers;
        if self.is_shuffled {
            self.random.shuffle(&mut self.servers);
        }
        self.at = 0;
        self.handle_served();
    }

    pub(crate) fn len(&self) -> usize {
        self.servers.len()
    }

    pub(crate) fn current(&self) -> Arc<str> {
        self.servers.get(self.at).cloned().unwrap_or_default()
    }

    /// Records that the current server serves.
    pub(crate) fn handle_served(&mut self) {
        self.failures = 0;
        self.pause = PAUSE_MIN;
    }

    /// Records the loss of a serving connection, and selects the next server without a pause.
    pub(crate) fn handle_lost(&mut self) {
        self.turn();
    }

    /// Records that the current server was unreachable or refused the session. Returns the pause
    /// before the next attempt.
    pub(crate) fn handle_failed(&mut self) -> Duration {
        self.turn();
        self.failures += 1;
        if !self.failures.is_multiple_of(self.servers.len().max(1)) {
            return Duration::ZERO;
        }
        let pause = self.pause;
        self.pause = (pause * 2).min(PAUSE_MAX);
        pause.mul_f64(0.5 + self.random.f64() / 2.0)
    }

    fn turn(&mut self) {
        self.at = (self.at + 1) % self.servers.len().max(1);
    }
}

/// Pause after the first round of failures.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<Arc<str>> {
        ["a", "b", "c"].map(Arc::from).to_vec()
    }

    #[test]
    fn every_server_is_tried_before_a_pause() {
        let mut hosts = Hosts::new(&names(), false, 7);
        let mut tried = Vec::new();
        let mut pauses = Vec::new();
        for _ in 0..30 {
            tried.push(hosts.current().to_string());
            let pause = hosts.handle_failed();
            if !pause.is_zero() {
                pauses.push((tried.len(), pause));
            }
        }
        assert_eq!(tried[..4], ["a", "b", "c", "a"]);
        assert_eq!(pauses.len(), 10);
        let mut expected = PAUSE_MIN;
        for (number, (after, pause)) in pauses.into_iter().enumerate() {
            assert_eq!(after, 3 * (number + 1));
            assert!(pause >= expected / 2 && pause <= expected, "{pause:?}");
            expected = (expected * 2).min(PAUSE_MAX);
        }
        hosts.handle_served();
        hosts.handle_lost();
        assert_eq!(&*hosts.current(), "b");
        assert!(hosts.handle_failed().is_zero());
    }

    #[test]
    fn clients_begin_at_different_servers() {
        let first = |seed| Hosts::new(&names(), true, seed).current();
        let mut firsts: Vec<_> = (0..50).map(first).collect();
        firsts.sort();
        firsts.dedup();
        assert_eq!(firsts, names());
        assert_eq!(Hosts::new(&[], true, 1).current(), Arc::from(""));
    }
}
