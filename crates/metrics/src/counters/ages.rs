//! Ages of transactions at the stages of their replication.
//!
//! An age is the time since the leader's timestamp. At other members, it therefore depends on the
//! wall clocks of two machines. Negative ages are meaningless and are ignored. Source:
//! Request.logLatency, Follower.processPacket.

use std::collections::VecDeque;

use proto::{Sid, Zxid};

use super::values::{Values, age};
use crate::table::rows::Metrics;

/// Ages that were collected in one turn of the core, and the timestamps of transactions that are
/// not on disk yet.
#[derive(Debug, Default)]
pub struct Ages {
    /// Wall-clock time, read once per turn.
    now_ms: i64,
    /// Positions and timestamps of transactions that were appended and are not on disk yet, oldest
    /// first.
    unsynced: VecDeque<(Zxid, i64)>,
    /// Ages at acknowledgements, by server. The list is short, because only acknowledgements of
    /// sampled positions are recorded.
    acknowledged: Vec<(Sid, u64)>,
    proposed: Values,
    synced: Values,
    committed: Values,
}

impl Ages {
    /// Starts a turn.
    pub fn begin(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
    }

    /// Records a proposal that a follower received and passes to the log.
    pub fn received(&mut self, zxid: Zxid, stamp_ms: i64) {
        self.proposed.record_age(stamp_ms, self.now_ms);
        self.appended(zxid, stamp_ms);
    }

    /// Records a proposal that is passed to the log.
    pub fn appended(&mut self, zxid: Zxid, stamp_ms: i64) {
        self.unsynced.push_back((zxid, stamp_ms));
    }

    /// Records that the log is on disk up to and including `upto`. Returns the last sampled
    /// position (see [`is_sampled`]) that was not on disk before, with the transaction's timestamp.
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

    /// Records that a server has acknowledged an uncommitted proposal.
    pub fn acknowledged(&mut self, sid: Sid, stamp_ms: i64) {
        if let Some(age_ms) = age(stamp_ms, self.now_ms) {
            self.acknowledged.push((sid, age_ms));
        }
    }

    /// Records that a transaction is committed.
    pub fn committed(&mut self, stamp_ms: i64) {
        self.committed.record_age(stamp_ms, self.now_ms);
    }

    /// Transfers the ages to the metrics at the end of a leader's turn.
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

    /// Transfers the ages to the metrics at the end of a learner's turn.
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

/// Returns whether the acknowledgements of this position are measured: one in `sampled` positions,
/// or none if `sampled` is below 1. Source: Leader.processAck (`leader.ackLoggingFrequency`).
pub fn is_sampled(zxid: Zxid, sampled: i64) -> bool {
    sampled > 0 && zxid.0 % sampled == 0
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
    fn one_position_in_n_is_sampled() {
        let sampled = |every| (1..=6).filter(|at| is_sampled(Zxid(*at), every)).count();
        assert_eq!(
            [sampled(1), sampled(3), sampled(0), sampled(-1)],
            [6, 2, 0, 0]
        );
    }
}
