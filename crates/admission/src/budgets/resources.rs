//! Watches and ephemerals held by the connections that share a budget.
//!
//! A connection updates its own count when it requests more watches or ephemerals. The counts of
//! other connections are refreshed periodically, because watches fire, ephemerals are deleted, and
//! sessions end without a message.

use std::collections::{HashMap, HashSet, VecDeque};

use config::Budget;
use proto::SessionId;
use replica::connection::ResourceCounts;
use tree::WatcherId;

/// Maximum age of the counts, in ms, when a connection requests more watches or ephemerals.
const COUNTED_EVERY_MS: u64 = 100;

/// Maximum number of disconnected sessions, per address or identity, whose ephemerals are counted.
/// Above this number, the session that disconnected first is no longer counted.
const DISCONNECTED_MAX: usize = 10_000;

/// Watches and ephemerals held for one address or identity.
#[derive(Debug, Default)]
pub(super) struct ShareResources {
    by_connection: HashMap<WatcherId, ResourceCounts>,
    /// Sum over all connections.
    sum: ResourceCounts,
    /// Sessions whose connections have ended, with the time until which they may exist, oldest
    /// first. A client must not be able to exceed its budget by reconnecting.
    disconnected: VecDeque<(SessionId, u64)>,
    /// Number of ephemerals of these disconnected sessions.
    of_disconnected: usize,
    /// Number of these sessions that have disconnected since the last count began, and an estimate
    /// of their ephemerals. The count may have found their connections.
    disconnected_lately: usize,
    of_disconnected_lately: usize,
    counted_ms: u64,
}

/// Bound that a request would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ExceededBound {
    pub(super) bound: &'static str,
    pub(super) value: u32,
}

impl ShareResources {
    /// Adds a connection that uses this share.
    pub(super) fn join(&mut self, connection: WatcherId) {
        self.by_connection.entry(connection).or_default();
    }

    /// Removes a connection.
    pub(super) fn leave(&mut self, connection: WatcherId) {
        self.set(connection, ResourceCounts::default());
        self.by_connection.remove(&connection);
    }

    /// Records that the connection of a session ends. The session may exist until the given time.
    pub(super) fn disconnect(&mut self, connection: WatcherId, session: SessionId, until_ms: u64) {
        // The ephemerals are an estimate until the next count.
        let held = self.by_connection.get(&connection);
        let ephemerals = held.map_or(0, |held| held.ephemerals);
        self.of_disconnected += ephemerals;
        self.of_disconnected_lately += ephemerals;
        self.disconnected.push_back((session, until_ms));
        self.disconnected_lately += 1;
        if self.disconnected.len() > DISCONNECTED_MAX {
            self.disconnected.pop_front();
        }
    }

    /// Returns whether sessions without a connection may still be alive.
    pub(super) fn has_disconnected(&self, now_ms: u64) -> bool {
        let last = self.disconnected.back();
        last.is_some_and(|(_, until_ms)| *until_ms > now_ms)
    }

    pub(super) fn set(&mut self, connection: WatcherId, resources: ResourceCounts) {
        let Some(before) = self.by_connection.get_mut(&connection) else {
            return;
        };
        let before = std::mem::replace(before, resources);
        self.sum.watches = self.sum.watches + resources.watches - before.watches;
        self.sum.watch_bytes = self.sum.watch_bytes + resources.watch_bytes - before.watch_bytes;
        self.sum.ephemerals = self.sum.ephemerals + resources.ephemerals - before.ephemerals;
    }

    /// Counts a connection's request for more watches or ephemerals and returns `None`. If the
    /// request would exceed a bound, returns the bound and does not count the request.
    pub(super) fn judge(
        &mut self,
        connection: WatcherId,
        held: ResourceCounts,
        more: ResourceCounts,
        budget: &Budget,
    ) -> Option<ExceededBound> {
        self.set(connection, held);
        let ephemerals = self.sum.ephemerals + self.of_disconnected;
        let figures = [
            ("watches", budget.watches, self.sum.watches, more.watches),
            (
                "watchBytes",
                budget.watch_bytes,
                self.sum.watch_bytes,
                more.watch_bytes,
            ),
            ("ephemerals", budget.ephemerals, ephemerals, more.ephemerals),
        ];
        let mut figures = figures.into_iter();
        let exceeded = figures.find_map(|(bound, most, held, more)| {
            let value = most?;
            (more > 0 && held + more > value as usize).then_some(ExceededBound { bound, value })
        });
        if exceeded.is_none() {
            // Counts the request before it is applied. Otherwise other requests could use the same
            // remainder.
            let soon = ResourceCounts {
                watches: held.watches + more.watches,
                watch_bytes: held.watch_bytes + more.watch_bytes,
                ephemerals: held.ephemerals + more.ephemerals,
            };
            self.set(connection, soon);
        }
        exceeded
    }

    /// Returns whether the counts of the other connections must be refreshed. Marks them as
    /// refreshed.
    pub(super) fn is_due(&mut self, now_ms: u64) -> bool {
        let is_due = now_ms.saturating_sub(self.counted_ms) >= COUNTED_EVERY_MS;
        if is_due {
            self.counted_ms = now_ms;
            self.begin_count();
        }
        is_due
    }

    fn begin_count(&mut self) {
        (self.disconnected_lately, self.of_disconnected_lately) = (0, 0);
    }

    pub(super) fn connections(&self) -> Vec<WatcherId> {
        self.by_connection.keys().copied().collect()
    }

    /// Forgets the disconnected sessions that have ended or reconnected, and returns the others,
    /// without the sessions that have disconnected since the count began.
    pub(super) fn disconnected(
        &mut self,
        connected: &HashSet<SessionId>,
        now_ms: u64,
    ) -> Vec<SessionId> {
        let mut left = std::mem::take(&mut self.disconnected);
        let mut lately = left.split_off(left.len().saturating_sub(self.disconnected_lately));
        let mut seen = connected.clone();
        seen.extend(lately.iter().map(|(session, _)| *session));
        let left = left.into_iter().rev();
        let left = left.filter(|(session, until_ms)| *until_ms > now_ms && seen.insert(*session));
        self.disconnected = left.collect();
        self.disconnected.make_contiguous().reverse();
        let counted = self.disconnected.iter().map(|(session, _)| *session);
        let counted = counted.collect();
        self.disconnected.append(&mut lately);
        counted
    }

    /// Sets the number of ephemerals of the sessions that [`disconnected`](Self::disconnected) has
    /// returned.
    pub(super) fn note_disconnected(&mut self, ephemerals: usize) {
        self.of_disconnected = ephemerals + self.of_disconnected_lately;
    }
}

#[cfg(test)]
mod tests {
    use config::BudgetClients;

    use super::*;

    fn budget() -> Budget {
        Budget {
            watches: Some(10),
            watch_bytes: Some(100),
            ephemerals: Some(3),
            ..Budget::unlimited("small", BudgetClients::AnyAddress)
        }
    }

    fn resources(watches: usize, ephemerals: usize) -> ResourceCounts {
        ResourceCounts {
            watches,
            watch_bytes: 0,
            ephemerals,
        }
    }

    const ONE: WatcherId = WatcherId(1);
    const OTHER: WatcherId = WatcherId(2);

    #[test]
    fn resources_of_connections_are_summed_and_bounded() {
        let (mut held, budget) = (ShareResources::default(), budget());
        held.join(ONE);
        held.join(OTHER);
        assert!(
            held.judge(ONE, resources(5, 2), resources(1, 1), &budget)
                .is_none()
        );
        // The request is counted before it is applied.
        let more = held.judge(OTHER, resources(0, 0), resources(0, 1), &budget);
        assert!(more.is_some_and(|it| it.bound == "ephemerals"));
        let mut judge = |id, now, more| held.judge(id, now, more, &budget).map(|it| it.bound);
        assert_eq!(judge(ONE, resources(5, 1), resources(1, 0)), None);
        assert_eq!(judge(OTHER, resources(3, 1), resources(1, 1)), None);
        assert_eq!(
            judge(OTHER, resources(4, 2), resources(1, 0)),
            Some("watches")
        );
        assert_eq!(
            judge(OTHER, resources(4, 2), resources(0, 1)),
            Some("ephemerals")
        );
        let long = |watch_bytes| ResourceCounts {
            watch_bytes,
            ..resources(0, 0)
        };
        assert_eq!(judge(OTHER, resources(4, 2), long(100)), None);
        assert_eq!(judge(ONE, resources(6, 1), long(1)), Some("watchBytes"));
        // A request that does not increase the exceeded count is admitted.
        assert_eq!(judge(OTHER, resources(40, 1), resources(0, 1)), None);
        held.leave(OTHER);
        held.leave(OTHER);
        assert_eq!(held.sum, resources(6, 1));
        assert_eq!(held.connections(), [ONE]);
        // The connection is unknown, so its holdings are not counted.
        held.set(OTHER, resources(1, 1));
        assert_eq!(held.sum, resources(6, 1));
        assert!(held.is_due(COUNTED_EVERY_MS) && !held.is_due(2 * COUNTED_EVERY_MS - 1));
    }

    #[test]
    fn disconnected_sessions_count_until_they_end_or_reconnect() {
        let (mut held, budget) = (ShareResources::default(), budget());
        held.join(ONE);
        for session in [5, 6, 5, 7] {
            let until_ms = 1000 + u64::from(session == 7);
            held.disconnect(ONE, SessionId(session), until_ms);
        }
        let none = HashSet::new();
        let ids = |held: &mut ShareResources, connected: &HashSet<_>, now_ms| {
            held.begin_count();
            let found = held.disconnected(connected, now_ms).into_iter();
            found.map(|session| session.0).collect::<Vec<_>>()
        };
        assert_eq!(ids(&mut held, &none, 0), [6, 5, 7]);
        let back = HashSet::from([SessionId(6)]);
        assert_eq!(ids(&mut held, &back, 0), [5, 7]);
        assert_eq!(ids(&mut held, &none, 1000), [7]);
        held.set(ONE, resources(9, 3));
        held.disconnect(ONE, SessionId(8), 2000);
        held.leave(ONE);
        held.join(ONE);
        assert!(held.has_disconnected(1999) && !held.has_disconnected(2000));
        let exceeded = held.judge(ONE, resources(0, 0), resources(0, 1), &budget);
        assert_eq!(
            exceeded,
            Some(ExceededBound {
                bound: "ephemerals",
                value: 3
            })
        );
        for number in 0..2 * i64::try_from(DISCONNECTED_MAX).expect("small") {
            held.disconnect(OTHER, SessionId(number), 9);
        }
        assert_eq!(held.disconnected.len(), DISCONNECTED_MAX);
    }
}
