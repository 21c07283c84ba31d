//! What a leader knows of one learner.

use proto::{Sid, Zxid};

use crate::learner::LearnerKind;

/// One connection.
#[derive(Debug)]
pub(crate) struct Link {
    /// Who it is, once it has said so.
    pub(crate) sid: Option<Sid>,
    pub(crate) kind: LearnerKind,
    pub(crate) state: LinkState,
    pub(crate) heard_ms: i64,
    pub(crate) slot: Option<Slot>,
    pub(crate) lag: AckLag,
    /// Whether it knows the packets by which members of Zoarium compare digests.
    pub(crate) reports_digests: bool,
    /// Whether its tree is a copy of this server's, which it was sent as a snapshot.
    pub(crate) has_copy: bool,
}

/// Where a learner is.
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
    /// Has said nothing.
    Connected,
    /// Has introduced itself; the epoch is open.
    AwaitingEpoch,
    /// LEADERINFO is sent.
    AwaitingAckEpoch,
    /// Has accepted; a quorum has not.
    AwaitingEpochAcks {
        /// Its last transaction.
        last_logged: Zxid,
    },
    /// Is being caught up from the log files.
    ReadingLog {
        /// What it has, or has been sent.
        reached: Zxid,
        /// Whether the opening packet is sent.
        is_opened: bool,
    },
    /// Is being sent a snapshot; what follows is queued behind it.
    SendingSnapshot,
    /// NEWLEADER is sent.
    Syncing,
    /// NEWLEADER is acknowledged; a quorum has not.
    AwaitingActivation,
    /// UPTODATE is sent.
    Broadcasting,
}

impl Link {
    pub(crate) fn new(now_ms: i64) -> Self {
        Self {
            sid: None,
            kind: LearnerKind::Follower,
            state: LinkState::Connected,
            heard_ms: now_ms,
            slot: None,
            lag: AckLag::default(),
            reports_digests: false,
            has_copy: false,
        }
    }

    /// Whether it is sent what is proposed and committed. It is from the moment its catch-up is
    /// decided, so that nothing falls between the two.
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

    /// How long it may be silent, ms; `None` while it waits for this side.
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

/// A place among those that are synchronised at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    Snap,
    Diff,
}

/// How long a learner owes an acknowledgement.
///
/// Two proposals are watched: the oldest that is not acknowledged, and the newest sent since. Once
/// the first is acknowledged the second takes its place, so each learner costs two positions
/// however many proposals are under way (LearnerHandler.SyncLimitCheck).
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

    /// The time that counts begins now: before it has acknowledged NEWLEADER, a learner owes
    /// nothing.
    pub(crate) fn restart(&mut self, now_ms: i64) {
        for (_, since) in self.oldest.iter_mut().chain(&mut self.newest) {
            *since = now_ms;
        }
    }

    /// The oldest proposal that is owed, and for how long.
    pub(crate) fn owed(&self, now_ms: i64) -> Option<(Zxid, i64)> {
        self.oldest
            .map(|(zxid, since)| (zxid, now_ms.saturating_sub(since)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_owed_is_that_of_the_oldest_or_of_the_newest_at_its_acknowledgement() {
        let mut lag = AckLag::default();
        assert_eq!(lag.owed(9), None);
        lag.sent(Zxid(1), 10);
        lag.sent(Zxid(2), 20);
        lag.sent(Zxid(3), 30);
        assert_eq!(lag.owed(50), Some((Zxid(1), 40)));
        lag.acknowledged(Zxid(1));
        assert_eq!(lag.owed(50), Some((Zxid(3), 20)));
        lag.sent(Zxid(4), 40);
        lag.acknowledged(Zxid(4));
        assert_eq!(lag.owed(50), None);
    }
}
