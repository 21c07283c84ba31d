//! How old transactions are when they reach a stage of the ensemble.
//!
//! The age runs from the leader's stamp, so it goes by the wall clocks of two machines: one that is
//! negative says nothing and is left out. Source: Request.logLatency, Follower.processPacket.

use std::collections::VecDeque;

use proto::{Sid, Zxid};

use super::Metrics;
use super::replies::Values;

/// Ages gathered in one turn of the core, and the stamps of what is on its way to the disk.
#[derive(Debug, Default)]
pub struct Ages {
    /// The wall clock, read once a turn.
    now_ms: i64,
    /// Appended and not yet on disk: position and stamp, oldest first.
    unsynced: VecDeque<(Zxid, i64)>,
    /// Few: the others are sampled by position.
    acknowledged: Vec<(Sid, u64)>,
    proposed: Values,
    synced: Values,
    committed: Values,
}

impl Ages {
    /// A turn begins.
    pub fn begin(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
    }

    /// A proposal is here and goes to the log: a follower's.
    pub fn received(&mut self, zxid: Zxid, stamp_ms: i64) {
        self.proposed.record_age(stamp_ms, self.now_ms);
        self.appended(zxid, stamp_ms);
    }

    /// A proposal goes to the log.
    pub fn appended(&mut self, zxid: Zxid, stamp_ms: i64) {
        self.unsynced.push_back((zxid, stamp_ms));
    }

    /// The log is on disk up to `upto`, which is what this server acknowledges. Gives the last of
    /// those positions that are a multiple of `sampled`, with its stamp.
    pub fn synced(&mut self, upto: Zxid, sampled: i64) -> Option<(Zxid, i64)> {
        let end = self.unsynced.partition_point(|(zxid, _)| *zxid <= upto);
        let mut sample = None;
        for (zxid, stamp_ms) in self.unsynced.drain(..end) {
            self.synced.record_age(stamp_ms, self.now_ms);
            if is_sampled(zxid, sampled) {
                sample = Some((zxid, stamp_ms));
            }
        }
        sample
    }

    /// A server has acknowledged a proposal that is not committed yet.
    pub fn acknowledged(&mut self, sid: Sid, stamp_ms: i64) {
        if let Some(age_ms) = age(stamp_ms, self.now_ms) {
            self.acknowledged.push((sid, age_ms));
        }
    }

    /// It is committed.
    pub fn committed(&mut self, stamp_ms: i64) {
        self.committed.record_age(stamp_ms, self.now_ms);
    }

    /// The turn of a leader ends.
    pub fn of_leader(&mut self, metrics: &Metrics) {
        let hand_over = [
            (&mut self.synced, &metrics.proposal_ack_creation_latency),
            (&mut self.committed, &metrics.quorum_ack_latency),
        ];
        for (ages, metric) in hand_over {
            ages.hand_over(metric);
        }
        for (sid, age_ms) in self.acknowledged.drain(..) {
            metrics.ack_latency.record(&sid.to_string(), age_ms);
        }
    }

    /// The turn of a learner ends.
    pub fn of_learner(&mut self, metrics: &Metrics) {
        let hand_over = [
            (&mut self.proposed, &metrics.proposal_latency),
            (&mut self.synced, &metrics.proposal_ack_creation_latency),
            (&mut self.committed, &metrics.commit_propagation_latency),
        ];
        for (ages, metric) in hand_over {
            ages.hand_over(metric);
        }
    }
}

/// Whether the acknowledgements of this position are measured: one in `sampled`, none below 1.
/// Source: Leader.processAck (`leader.ackLoggingFrequency`).
pub fn is_sampled(zxid: Zxid, sampled: i64) -> bool {
    sampled > 0 && zxid.0 % sampled == 0
}

pub(super) fn age(stamp_ms: i64, now_ms: i64) -> Option<u64> {
    u64::try_from(now_ms.saturating_sub(stamp_ms)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_go_to_the_metrics_of_the_role() {
        let metrics = Metrics::default();
        let mut ages = Ages::default();
        ages.begin(1000);
        ages.received(Zxid(1), 990);
        ages.received(Zxid(2), 1001);
        assert_eq!(ages.synced(Zxid(1), 0), None);
        ages.committed(700);
        ages.of_learner(&metrics);
        let count = |metric: &super::super::Percentiles| {
            let moments = *metric.get().moments();
            (moments.count, moments.sum)
        };
        assert_eq!(count(&metrics.proposal_latency), (1, 10));
        assert_eq!(count(&metrics.proposal_ack_creation_latency), (1, 10));
        assert_eq!(count(&metrics.commit_propagation_latency), (1, 300));
        ages.begin(1005);
        assert_eq!(ages.synced(Zxid(2), 2), Some((Zxid(2), 1001)));
        ages.acknowledged(Sid(3), 1001);
        ages.committed(1001);
        ages.of_leader(&metrics);
        ages.of_leader(&metrics);
        assert_eq!(count(&metrics.proposal_ack_creation_latency), (2, 14));
        assert_eq!(count(&metrics.quorum_ack_latency), (1, 4));
        let acks = metrics.ack_latency.get();
        assert_eq!(acks["3"].moments().sum, 4);
    }

    #[test]
    fn one_position_in_so_many_is_sampled() {
        let sampled = |every| (1..=6).filter(|at| is_sampled(Zxid(*at), every)).count();
        assert_eq!(
            [sampled(1), sampled(3), sampled(0), sampled(-1)],
            [6, 2, 0, 0]
        );
    }
}
