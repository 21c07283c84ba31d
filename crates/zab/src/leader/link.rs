//! State of a learner's connection, kept by its leader.

use proto::{Sid, Zxid};

use crate::learner::LearnerKind;

/// One learner's connection.
#[derive(Debug)]
pub(crate) struct LearnerLink {
    /// Sid of the learner; `None` before its introduction.
    pub(crate) sid: Option<Sid>,
    pub(crate) kind: LearnerKind,
    pub(crate) state: LinkState,
    pub(crate) last_received_ms: i64,
    pub(crate) slot: Option<Slot>,
    pub(crate) lag: AckLag,
    /// Whether the learner supports Zoarium's packets for comparing digests.
    pub(crate) reports_digests: bool,
    /// Whether the learner's tree is a copy of this server's tree, received as a snapshot.
    pub(crate) has_copy: bool,
}

/// Step of a learner in discovery and synchronisation.
///
/// ```text
///  Connected -> AwaitingEpoch -> AwaitingAckEpoch -> AwaitingEpochAcks
///                                                          |
///             +--------------+--------------+--------------+
///             v              v              |
///        ReadingLog   SendingSnapshot       |
///             |              |              v
///             +--------------+--------> Syncing -> AwaitingActivation -> Broadcasting
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkState {
    /// No packet has arrived yet.
    Connected,
    /// The learner has introduced itself. The epoch is not fixed yet.
    AwaitingEpoch,
    /// LEADERINFO has been sent.
    AwaitingAckEpoch,
    /// The learner has accepted the epoch. A quorum has not accepted it yet.
    AwaitingEpochAcks {
        /// Last transaction in the learner's log.
        last_logged: Zxid,
    },
    /// The learner is being synchronised from the log files.
    ReadingLog {
        /// Last transaction that the learner has or that was sent to it.
        reached: Zxid,
        /// Whether the opening packet has been sent.
        is_opened: bool,
    },
    /// A snapshot is being sent. Later packets wait in the queue.
    SendingSnapshot,
    /// NEWLEADER has been sent.
    Syncing,
    /// The learner has acknowledged NEWLEADER. A quorum has not acknowledged it yet.
    AwaitingActivation,
    /// UPTODATE has been sent.
    Broadcasting,
}

impl LearnerLink {
    pub(crate) fn new(now_ms: i64) -> Self {
        Self {
            sid: None,
            kind: LearnerKind::Follower,
            state: LinkState::Connected,
            last_received_ms: now_ms,
            slot: None,
            lag: AckLag::default(),
            reports_digests: false,
            has_copy: false,
        }
    }

    /// Returns whether the learner receives proposals and commits. It receives them from the moment
    /// at which the rest of its sync plan is sent, so it misses no transaction.
    pub(crate) fn is_forwarding(&self) -> bool {
        match self.state {
            LinkState::Connected
            | LinkState::AwaitingEpoch
            | LinkState::AwaitingAckEpoch
            | LinkState::AwaitingEpochAcks { .. }
            | LinkState::ReadingLog { .. } => false,
            LinkState::SendingSnapshot
            | LinkState::Syncing
            | LinkState::AwaitingActivation
            | LinkState::Broadcasting => true,
        }
    }

    /// Returns the maximum silence of the learner, ms; `None` while the learner waits for this
    /// server.
    pub(crate) fn silence_ms(&self, init_ms: i64, sync_ms: i64) -> Option<i64> {
        match self.state {
            LinkState::AwaitingEpoch
            | LinkState::AwaitingEpochAcks { .. }
            | LinkState::ReadingLog { .. }
            | LinkState::SendingSnapshot
            | LinkState::AwaitingActivation => None,
            LinkState::Connected | LinkState::AwaitingAckEpoch | LinkState::Syncing => {
                Some(init_ms)
            }
            LinkState::Broadcasting => Some(sync_ms),
        }
    }
}

/// Slot for one of the learners that are synchronised concurrently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    Snap,
    Diff,
}

/// Measurement of the time for which a learner has owed an acknowledgement.
///
/// Two proposals are tracked: the oldest one not acknowledged, and the newest one sent since. Once
/// the learner acknowledges the first, the second replaces it. Each learner therefore needs only
/// two positions for any number of outstanding proposals (LearnerHandler.SyncLimitCheck).
#[derive(Debug, Default)]
pub(crate) struct AckLag {
    oldest: Option<(Zxid, i64)>,
    newest: Option<(Zxid, i64)>,
}

impl AckLag {
    pub(crate) fn sent(&mut self, zxid: Zxid, now_ms: i64) {
        let place = match self.oldest {
            None => &mut self.oldest,
            Some(_) => &mut self.newest,
        };
        *place = Some((zxid, now_ms));
    }

    pub(crate) fn acknowledged(&mut self, upto: Zxid) {
        if self.oldest.is_some_and(|(zxid, _)| zxid <= upto) {
            self.oldest = self.newest.take().filter(|(zxid, _)| *zxid > upto);
        }
    }

    /// Restarts the measurement. A learner owes no acknowledgement before it has acknowledged
    /// NEWLEADER.
    pub(crate) fn restart(&mut self, now_ms: i64) {
        for (_, since) in self.oldest.iter_mut().chain(&mut self.newest) {
            *since = now_ms;
        }
    }

    /// Returns the zxid of the oldest owed acknowledgement, and the time for which it has been
    /// owed, ms.
    pub(crate) fn oldest_owed_ack(&self, now_ms: i64) -> Option<(Zxid, i64)> {
        self.oldest
            .map(|(zxid, since)| (zxid, now_ms.saturating_sub(since)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lag_is_measured_from_the_oldest_or_the_then_newest_proposal() {
        let mut lag = AckLag::default();
        assert_eq!(lag.oldest_owed_ack(9), None);
        lag.sent(Zxid(1), 10);
        lag.sent(Zxid(2), 20);
        lag.sent(Zxid(3), 30);
        assert_eq!(lag.oldest_owed_ack(50), Some((Zxid(1), 40)));
        lag.acknowledged(Zxid(1));
        assert_eq!(lag.oldest_owed_ack(50), Some((Zxid(3), 20)));
        lag.sent(Zxid(4), 40);
        lag.acknowledged(Zxid(4));
        assert_eq!(lag.oldest_owed_ack(50), None);
    }
}
