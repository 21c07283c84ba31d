//! Methods that update several metrics, or select the metric to update.

use std::time::Duration;

use proto::ErrorCode;
use proto::leader::LeaderPacket;
use proto::request::WriteRequest;
use proto::txn::Txn;
use proto::watch::EventType;

use super::namespaces::namespace;
use super::values::Values;
use crate::table::rows::Metrics;

impl Metrics {
    /// Records that a database was loaded from disk (`dbinittime`, `startup_*`). Source:
    /// ZKDatabase.loadDataBase, FileTxnSnapLog.restore.
    pub fn loaded(&self, load: &DatabaseLoad) {
        let (snapshot, replay) = (load.snapshot_time, load.replay_time);
        self.dbinittime.record(millis(snapshot + replay));
        self.startup_snap_load_time.record(millis(snapshot));
        if load.txns_replayed > 0 {
            self.startup_txns_loaded.record(load.txns_replayed);
            self.startup_txns_load_time.record(millis(replay));
        }
    }

    /// Records a group of committed transactions that was applied and answered in `took_ms`.
    /// `under_way` is the number of requests in progress from this server's clients. Java measures
    /// several stages for each transaction. Zoarium locks the tree once for the group, and
    /// therefore records the same times for all of its transactions. Source: CommitProcessor,
    /// FinalRequestProcessor.
    pub fn group_applied(&self, group: GroupApplied, took_ms: u64, under_way: u64) {
        let transactions = group.of_clients_here + group.of_others;
        self.request_commit_queued.add(transactions);
        self.commit_commit_proc_req_queued.record(transactions);
        self.write_commit_proc_issued.record(transactions);
        self.write_commit_proc_req_queued.record(under_way);
        self.write_batch_time_in_commit_processor.record(took_ms);
        self.write_final_proc_time_ms
            .record_many(took_ms, transactions);
        self.local_write_committed_time_ms
            .record_many(group.waited_ms, group.of_clients_here);
        self.server_write_committed_time_ms
            .record_many(group.waited_ms, group.of_others);
        self.pending_session_queue_size
            .record(group.waiting_sessions);
    }

    /// Records reads that were answered directly after a write of their connection. `waited_ms` is
    /// the latency of the write.
    pub fn reads_behind_write(&self, reads: u64, waited_ms: u64) {
        if reads > 0 {
            self.session_queues_drained.record(1);
            self.reads_after_write_in_session_queue.record(reads);
            self.reads_issued_from_session_queue.record(reads);
            // The reads arrived after the write, so they did not wait longer than the write.
            self.read_commitproc_time_ms.record_many(waited_ms, reads);
        }
    }

    /// Records reads of a connection that were answered without waiting.
    pub fn batch_answered(&self, reads: u64) {
        if reads > 0 {
            self.read_commit_proc_issued.record(reads);
            self.read_commit_proc_req_queued.record(reads);
        }
    }

    /// Records reads on a connection, each with an equal share of their total duration `took_ms`.
    /// Source: FinalRequestProcessor.processRequest.
    pub fn reads_took(&self, reads: u64, took_ms: u64) {
        if let Some(each_ms) = took_ms.checked_div(reads) {
            self.read_final_proc_time_ms.record_many(each_ms, reads);
        }
    }

    /// Records an event and the number of its watchers. Source: WatchManager.triggerWatch.
    pub fn event_fired(&self, event_type: EventType, watchers: usize) {
        let metric = match event_type {
            EventType::NodeCreated => &self.node_created_watch_count,
            EventType::NodeDeleted => &self.node_deleted_watch_count,
            EventType::NodeDataChanged => &self.node_changed_watch_count,
            EventType::NodeChildrenChanged => &self.node_children_watch_count,
        };
        metric.record(watchers as u64);
    }

    /// Records an auth packet with the scheme `ensemble`: whether it was accepted, and whether it
    /// was compared with configured names. Source: EnsembleAuthenticationProvider.
    pub fn ensemble_named(&self, is_accepted: bool, is_compared: bool) {
        match (is_accepted, is_compared) {
            (false, _) => self.ensemble_auth_fail.inc(),
            (true, true) => self.ensemble_auth_success.inc(),
            (true, false) => self.ensemble_auth_skip.inc(),
        }
    }

    /// Counts a packet from this leader if it begins a synchronisation without a snapshot. Source:
    /// LearnerHandler.run.
    pub fn sent_by_leader(&self, packet: &LeaderPacket) {
        if matches!(
            packet,
            LeaderPacket::Diff { .. } | LeaderPacket::Trunc { .. }
        ) {
            self.diff_count.inc();
        }
    }

    /// Counts a proposal or commit from this learner's leader. Source: Follower.processPacket,
    /// Observer.processPacket.
    pub fn received_by_learner(&self, packet: &LeaderPacket) {
        match packet {
            LeaderPacket::Proposal { .. } => self.learner_proposal_received_count.inc(),
            LeaderPacket::Commit { .. } | LeaderPacket::Inform { .. } => {
                self.learner_commit_received_count.inc();
            }
            _ => {}
        }
    }

    /// Records requests that are about to be prepared at `now_ms`. `since_ms` contains their
    /// arrival times, and `behind` is the number of messages after them in the queue. Source:
    /// PrepRequestProcessor.run.
    pub fn preparing(&self, now_ms: u64, since_ms: impl Iterator<Item = u64>, behind: usize) {
        let mut waited = Values::default();
        since_ms.for_each(|since_ms| waited.record(now_ms.saturating_sub(since_ms)));
        for (waited_ms, times) in waited.counts() {
            self.prep_processor_queue_time_ms
                .record_many(waited_ms, times);
            self.prep_processor_request_queued.add(times);
        }
        self.prep_processor_queue_size.record(behind as u64);
    }

    /// Records that `count` requests were prepared in `took_ms` together. Source:
    /// PrepRequestProcessor.pRequest.
    pub fn prepared(&self, count: usize, took_ms: u64) {
        let count = count as u64;
        if let Some(each_ms) = took_ms.checked_div(count) {
            self.prep_process_time.record_many(each_ms, count);
        }
    }

    /// Counts the refusals caused by a quota in `txn`, the transaction of `request`, per namespace.
    pub fn note_txn(&self, request: &WriteRequest, txn: &Txn) {
        match (request, txn) {
            // Either all parts are errors or none of them is.
            (WriteRequest::Multi(Ok(requests)), Txn::Multi(parts))
                if matches!(parts.first(), Some(Txn::Error { .. })) =>
            {
                let pairs = requests.iter().zip(parts);
                pairs.for_each(|(request, txn)| self.note_refused_txn(request, txn));
            }
            (_, Txn::Error { .. }) => self.note_refused_txn(request, txn),
            _ => {}
        }
    }

    fn note_refused_txn(&self, request: &WriteRequest, txn: &Txn) {
        let is_quota =
            matches!(txn, Txn::Error { code } if *code == ErrorCode::QuotaExceeded.code());
        let namespace = request.path().and_then(|path| namespace(path));
        if let Some(namespace) = namespace.filter(|_| is_quota) {
            self.quota_exceeded_error_per_namespace.record(namespace, 1);
        }
    }
}

/// Committed transactions that were applied together.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct GroupApplied {
    /// Number of transactions requested by this server's clients.
    pub of_clients_here: u64,
    /// Number of all other transactions.
    pub of_others: u64,
    /// Time from the start of the turn that committed the transactions until they were applied, ms.
    pub waited_ms: u64,
    /// Number of sessions with requests that waited for one of the transactions.
    pub waiting_sessions: u64,
}

/// Measurements of a database load from disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatabaseLoad {
    /// Time spent reading the snapshot.
    pub snapshot_time: Duration,
    /// Time spent replaying the log after the snapshot.
    pub replay_time: Duration,
    /// Number of replayed transactions.
    pub txns_replayed: u64,
}

/// Groups of transactions that were appended to the log and wait for a common fsync. Source:
/// SyncRequestProcessor.
#[derive(Debug, Default)]
pub struct LogTimes {
    /// For each group, the time at which it was queued (ms) and its number of transactions.
    groups: Vec<(u64, u64)>,
}

impl LogTimes {
    /// Records a group of `txns` transactions that had waited since `queued_ms` and was appended
    /// from `begun_ms` to `ended_ms`. The group then waits for its fsync.
    pub fn appended(
        &mut self,
        metrics: &Metrics,
        txns: usize,
        [queued_ms, begun_ms, ended_ms]: [u64; 3],
    ) {
        let txns = txns as u64;
        let waited_ms = begun_ms.saturating_sub(queued_ms);
        let took_ms = ended_ms.saturating_sub(begun_ms);
        if let Some(each_ms) = took_ms.checked_div(txns) {
            metrics.sync_processor_request_queued.add(txns);
            metrics.sync_processor_queue_size.record(txns);
            metrics
                .sync_processor_queue_time_ms
                .record_many(waited_ms, txns);
            metrics.sync_process_time.record_many(each_ms, txns);
            self.groups.push((queued_ms, txns));
        }
    }

    /// Records that all groups are on disk, after an fsync from `begun_ms` to `ended_ms`.
    pub fn synced(self, metrics: &Metrics, [begun_ms, ended_ms]: [u64; 2]) {
        metrics
            .sync_processor_queue_flush_time_ms
            .record(ended_ms.saturating_sub(begun_ms));
        for (queued_ms, txns) in self.groups {
            metrics
                .sync_processor_queue_and_flush_time_ms
                .record_many(ended_ms.saturating_sub(queued_ms), txns);
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
