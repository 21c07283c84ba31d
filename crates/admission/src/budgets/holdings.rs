//! Watches and ephemerals held by the connections that share a budget.
//!
//! A connection updates its own count when it requests more watches or ephemerals. The counts of
//! other connections are refreshed periodically, because watches fire, ephemerals are deleted, and
//! sessions end without a message.

use std::collections::{HashMap, HashSet, VecDeque};

use config::Budget;
use proto::SessionId;
use replica::connection::Holding;
use tree::WatcherId;

/// Maximum age of the counts when a connection requests more.
const COUNTED_EVERY_MS: u64 = 100;

/// Maximum number of disconnected sessions, per address or identity, whose ephemerals are counted.
/// Above this number, the session that disconnected first is no longer counted.
const DEPARTED_MAX: usize = 10_000;

/// Watches and ephemerals held for one address or identity.
#[derive(Debug, Default)]
pub(super) struct HeldBy {
    by_connection: HashMap<WatcherId, Holding>,
    /// Sum over all connections.
    sum: Holding,
    /// Sessions whose connections have ended, with the time until which they may exist, oldest
    /// first. A client must not be able to exceed its budget by reconnecting.
    departed: VecDeque<(SessionId, u64)>,
    /// Number of ephemerals of these disconnected sessions.
    pub(super) of_departed: usize,
    counted_ms: u64,
}

/// Bound that a request would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Beyond {
    pub(super) bound: &'static str,
    pub(super) value: u32,
}

impl HeldBy {
    /// Adds a connection that uses this share.
    pub(super) fn join(&mut self, connection: WatcherId) {
        self.by_connection.entry(connection).or_default();
    }

    /// Removes a connection.
    pub(super) fn leave(&mut self, connection: WatcherId) {
        self.set(connection, Holding::default());
        self.by_connection.remove(&connection);
    }

    /// Records that the connection of a session ends. The session may exist until the given time.
    pub(super) fn depart(&mut self, connection: WatcherId, session: SessionId, until_ms: u64) {
        // This value is an estimate until the next count.
        let held = self.by_connection.get(&connection);
        self.of_departed += held.map_or(0, |held| held.ephemerals);
        self.departed.push_back((session, until_ms));
        if self.departed.len() > DEPARTED_MAX {
            self.departed.pop_front();
        }
    }

    /// Returns whether sessions without a connection may still be alive.
    pub(super) fn has_left(&self, now_ms: u64) -> bool {
        let last = self.departed.back();
        last.is_some_and(|(_, until_ms)| *until_ms > now_ms)
    }

    pub(super) fn set(&mut self, connection: WatcherId, holding: Holding) {
        let Some(before) = self.by_connection.get_mut(&connection) else {
            return;
        };
        let before = std::mem::replace(before, holding);
        self.sum.watches = self.sum.watches + holding.watches - before.watches;
        self.sum.watch_bytes = self.sum.watch_bytes + holding.watch_bytes - before.watch_bytes;
        self.sum.ephemerals = self.sum.ephemerals + holding.ephemerals - before.ephemerals;
    }

    /// Admits a connection's request for more watches or ephemerals. Returns the bound that the
    /// request would exceed, if any.
    pub(super) fn judge(
        &mut self,
        connection: WatcherId,
        held: Holding,
        more: Holding,
        budget: &Budget,
    ) -> Option<Beyond> {
        self.set(connection, held);
        let ephemerals = self.sum.ephemerals + self.of_departed;
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
        let beyond = figures.find_map(|(bound, most, held, more)| {
            let value = most?;
            (more > 0 && held + more > value as usize).then_some(Beyond { bound, value })
        });
        if beyond.is_none() {
            // Counts the request before it is applied. Otherwise other requests could use the same
            // remainder.
            let soon = Holding {
                watches: held.watches + more.watches,
                watch_bytes: held.watch_bytes + more.watch_bytes,
                ephemerals: held.ephemerals + more.ephemerals,
            };
            self.set(connection, soon);
        }
        beyond
    }

    /// Returns whether the counts of the other connections must be refreshed. Marks them as
    /// refreshed.
    pub(super) fn is_due(&mut self, now_ms: u64) -> bool {
        let is_due = now_ms.saturating_sub(self.counted_ms) >= COUNTED_EVERY_MS;
        if is_due {
            self.counted_ms = now_ms;
        }
        is_due
    }

    pub(super) fn connections(&self) -> Vec<WatcherId> {
        self.by_connection.keys().copied().collect()
    }

    /// Forgets the disconnected sessions that have ended or reconnected, and returns the others.
    pub(super) fn departed(
        &mut self,
        connected: &HashSet<SessionId>,
        now_ms: u64,
    ) -> Vec<SessionId> {
        let mut seen = connected.clone();
        let left = std::mem::take(&mut self.departed);
        let left = left.into_iter().rev();
        let left = left.filter(|(session, until_ms)| *until_ms > now_ms && seen.insert(*session));
        self.departed = left.collect();
        self.departed.make_contiguous().reverse();
        self.departed.iter().map(|(session, _)| *session).collect()
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

    fn holding(watches: usize, ephemerals: usize) -> Holding {
        Holding {
            watches,
            watch_bytes: 0,
            ephemerals,
        }
    }

    const ONE: WatcherId = WatcherId(1);
    const OTHER: WatcherId = WatcherId(2);

    #[test]
    fn resources_of_connections_are_summed_and_bounded() {
        let (mut held, budget) = (HeldBy::default(), budget());
        held.join(ONE);
        held.join(OTHER);
        assert!(
            held.judge(ONE, holding(5, 2), holding(1, 1), &budget)
                .is_none()
        );
        // The request counts before it is applied.
        let more = held.judge(OTHER, holding(0, 0), holding(0, 1), &budget);
        assert!(more.is_some_and(|it| it.bound == "ephemerals"));
        let mut judge = |id, now, more| held.judge(id, now, more, &budget).map(|it| it.bound);
        assert_eq!(judge(ONE, holding(5, 1), holding(1, 0)), None);
        assert_eq!(judge(OTHER, holding(3, 1), holding(1, 1)), None);
        assert_eq!(judge(OTHER, holding(4, 2), holding(1, 0)), Some("watches"));
        assert_eq!(
            judge(OTHER, holding(4, 2), holding(0, 1)),
            Some("ephemerals")
        );
        let long = |watch_bytes| Holding {
            watch_bytes,
            ..holding(0, 0)
        };
        assert_eq!(judge(OTHER, holding(4, 2), long(100)), None);
        assert_eq!(judge(ONE, holding(6, 1), long(1)), Some("watchBytes"));
        // A request that does not increase the exceeded count is admitted.
        assert_eq!(judge(OTHER, holding(40, 1), holding(0, 1)), None);
        held.leave(OTHER);
        held.leave(OTHER);
        assert_eq!(held.sum, holding(6, 1));
        assert_eq!(held.connections(), [ONE]);
        // The connection is unknown, so its holdings are not counted.
        held.set(OTHER, holding(1, 1));
        assert_eq!(held.sum, holding(6, 1));
        assert!(held.is_due(COUNTED_EVERY_MS) && !held.is_due(2 * COUNTED_EVERY_MS - 1));
    }

    #[test]
    fn disconnected_sessions_count_until_they_end_or_reconnect() {
        let (mut held, budget) = (HeldBy::default(), budget());
        held.join(ONE);
        for session in [5, 6, 5, 7] {
            let until_ms = 1000 + u64::from(session == 7);
            held.depart(ONE, SessionId(session), until_ms);
        }
        let none = HashSet::new();
        let ids = |held: &mut HeldBy, connected: &HashSet<_>, now_ms| {
            let found = held.departed(connected, now_ms).into_iter();
            found.map(|session| session.0).collect::<Vec<_>>()
        };
        assert_eq!(ids(&mut held, &none, 0), [6, 5, 7]);
        let back = HashSet::from([SessionId(6)]);
        assert_eq!(ids(&mut held, &back, 0), [5, 7]);
        assert_eq!(ids(&mut held, &none, 1000), [7]);
        held.set(ONE, holding(9, 3));
        held.depart(ONE, SessionId(8), 2000);
        held.leave(ONE);
        held.join(ONE);
        assert!(held.has_left(1999) && !held.has_left(2000));
        let beyond = held.judge(ONE, holding(0, 0), holding(0, 1), &budget);
        assert_eq!(
            beyond,
            Some(Beyond {
                bound: "ephemerals",
                value: 3
            })
        );
        for number in 0..2 * i64::try_from(DEPARTED_MAX).expect("small") {
            held.depart(OTHER, SessionId(number), 9);
        }
        assert_eq!(held.departed.len(), DEPARTED_MAX);
    }
}
