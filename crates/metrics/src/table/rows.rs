//! Table of metrics. Storage, `mntr`, the documentation and all other views derive from it.
//!
//! Names and kinds are ZooKeeper's (ServerMetrics), because dashboards use them. Names of Zoarium's
//! own metrics start with `zoarium_`. A metric of a stage that this server does not have stays at
//! zero instead of being absent.

use std::collections::BTreeMap;

use super::gauges::{Gauges, Number, shown};
use crate::counters::keyed::{CounterSet, PercentilesSet, SummarySet};
use crate::counters::percentiles::{Distribution, Percentiles};
use crate::counters::shards::Counter;
use crate::counters::summary::{Moments, Summary};

/// Description of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Name without the prefix `zk_` that `mntr` adds.
    pub name: &'static str,
    /// Kind of the values.
    pub kind: Kind,
    /// Servers that show the metric.
    pub shown_by: ShownBy,
    /// Meaning of the metric, with its unit.
    pub help: &'static str,
}

/// Kind of a metric's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A number that is computed when it is requested.
    Gauge,
    /// Several gauges, one per key.
    GaugeSet,
    /// A number that only increases.
    Counter,
    /// Several counters, one per key.
    CounterSet,
    /// Average, minimum, maximum, count and sum.
    Summary,
    /// A summary with percentiles.
    Percentiles,
    /// Several summaries, one per key.
    SummarySet,
    /// Several summaries with percentiles, one per key.
    PercentilesSet,
}

/// Servers that show a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShownBy {
    /// All servers.
    Every,
    /// Members of an ensemble, except read-only ones.
    Member,
    /// Only the leader.
    Leader,
    /// The leader, and a follower that serves observers.
    ServesObservers,
}

/// Value of a metric at one time.
#[derive(Debug, Clone, PartialEq)]
pub enum Reading {
    /// Value of a gauge or a counter.
    Number(Number),
    /// Values of a set of gauges or counters.
    Numbers(BTreeMap<String, Number>),
    /// Value of a basic summary.
    Summary(Moments),
    /// Value of an advanced summary.
    Percentiles(Distribution),
    /// Values of a set of basic summaries.
    Summaries(BTreeMap<String, Moments>),
    /// Values of a set of advanced summaries.
    PercentilesPerKey(BTreeMap<String, Distribution>),
}

macro_rules! metrics {
    (
        gauges { $( $gauge:ident $shown_by:ident $gauge_help:literal = $value:expr; )+ }
        gauge_sets { $( $gauge_set:ident $gauge_set_help:literal = $values:expr; )+ }
        counters { $( $counter:ident $counter_help:literal; )+ }
        counter_sets { $( $counter_set:ident $counter_set_help:literal; )+ }
        summaries { $( $summary:ident $summary_help:literal; )+ }
        percentiles { $( $percentiles:ident $percentiles_help:literal; )+ }
        summary_sets { $( $summary_set:ident $summary_set_help:literal; )+ }
        percentiles_sets { $( $percentiles_set:ident $percentiles_set_help:literal; )+ }
    ) => {
        /// Storage of the metrics, with one field for each metric that is not computed from the
        /// server's state. An update takes a few nanoseconds. Only metrics with keys use locks.
        #[derive(Debug)]
        pub struct Metrics {
            $( #[doc = $counter_help] pub $counter: Counter, )+
            $( #[doc = $counter_set_help] pub $counter_set: CounterSet, )+
            $( #[doc = $summary_help] pub $summary: Summary, )+
            $( #[doc = $percentiles_help] pub $percentiles: Percentiles, )+
            $( #[doc = $summary_set_help] pub $summary_set: SummarySet, )+
            $( #[doc = $percentiles_set_help] pub $percentiles_set: PercentilesSet, )+
        }

        /// All metrics, sorted by kind.
        pub const TABLE: &[Metric] = &[
            $( row(stringify!($gauge), Kind::Gauge, ShownBy::$shown_by, $gauge_help), )+
            $( row(stringify!($gauge_set), Kind::GaugeSet, ShownBy::Every, $gauge_set_help), )+
            $( row(stringify!($counter), Kind::Counter, ShownBy::Every, $counter_help), )+
            $( row(stringify!($counter_set), Kind::CounterSet, ShownBy::Every, $counter_set_help), )+
            $( row(stringify!($summary), Kind::Summary, ShownBy::Every, $summary_help), )+
            $( row(stringify!($percentiles), Kind::Percentiles, ShownBy::Every, $percentiles_help), )+
            $( row(stringify!($summary_set), Kind::SummarySet, ShownBy::Every, $summary_set_help), )+
            $( row(
                stringify!($percentiles_set), Kind::PercentilesSet, ShownBy::Every,
                $percentiles_set_help,
            ), )+
        ];

        impl Metrics {
            /// Creates metrics with value zero for about `shards` writing threads.
            pub fn with_shards(shards: usize) -> Self {
                Self {
                    $( $counter: Counter::new(shards), )+
                    $( $counter_set: CounterSet::new(shards), )+
                    $( $summary: Summary::new(shards), )+
                    $( $percentiles: Percentiles::new(shards), )+
                    $( $summary_set: SummarySet::new(shards), )+
                    $( $percentiles_set: PercentilesSet::new(shards), )+
                }
            }

            /// Resets all metrics, like `srst`.
            pub fn reset(&self) {
                $( self.$counter.reset(); )+
                $( self.$counter_set.reset(); )+
                $( self.$summary.reset(); )+
                $( self.$percentiles.reset(); )+
                $( self.$summary_set.reset(); )+
                $( self.$percentiles_set.reset(); )+
            }

            /// Returns every metric that a server in this state shows, in the order of [`TABLE`].
            /// Zoarium's own metrics are shown only after a value has been recorded.
            pub fn read(&self, gauges: &Gauges<'_>) -> Vec<(&'static Metric, Reading)> {
                let gauge: fn(fn(&Gauges<'_>) -> Option<Number>, &Gauges<'_>) -> Option<Reading> =
                    |value, gauges| value(gauges).map(Reading::Number);
                let gauge_set: fn(fn(&Gauges<'_>) -> BTreeMap<String, Number>, &Gauges<'_>) -> _ =
                    |values, gauges| Some(Reading::Numbers(values(gauges)));
                let readings = [
                    $( gauge($value, gauges), )+
                    $( gauge_set($values, gauges), )+
                    $( Some(Reading::Number(self.$counter.get().into())), )+
                    $( Some(Reading::Numbers(numbers(self.$counter_set.get()))), )+
                    $( Some(Reading::Summary(self.$summary.get())), )+
                    $( Some(Reading::Percentiles(self.$percentiles.get())), )+
                    $( Some(Reading::Summaries(self.$summary_set.get())), )+
                    $( Some(Reading::PercentilesPerKey(self.$percentiles_set.get())), )+
                ];
                let shown = TABLE.iter().zip(readings);
                let shown = shown.filter_map(|(metric, reading)| Some((metric, reading?)));
                shown.filter(|(metric, reading)| !metric.is_own() || reading.has_values()).collect()
            }
        }
    };
}

impl Metric {
    /// Returns whether the metric is Zoarium's own.
    pub fn is_own(&self) -> bool {
        self.name.starts_with("zoarium_")
    }
}

impl Reading {
    /// Returns false for a gauge or counter with value 0 and for an empty advanced summary.
    fn has_values(&self) -> bool {
        match self {
            Self::Number(number) => *number != Number::Integer(0),
            Self::Percentiles(distribution) => distribution.moments().count > 0,
            _ => true,
        }
    }
}

const fn row(name: &'static str, kind: Kind, shown_by: ShownBy, help: &'static str) -> Metric {
    Metric {
        name,
        kind,
        shown_by,
        help,
    }
}

fn numbers(counts: BTreeMap<String, u64>) -> BTreeMap<String, Number> {
    counts
        .into_iter()
        .map(|(key, count)| (key, count.into()))
        .collect()
}

metrics! {
    gauges {
        approximate_data_size Every "Bytes of all paths and data in the tree."
            = |g| shown(g.state.approximate_data_size);
        auth_failed_count Every "Refused credentials."
            = |g| shown(g.server.auth_failed);
        avg_latency Every "Mean time from a request to its reply, ms."
            = |g| shown(g.server.latency.average());
        connection_drop_probability Every
            "Probability that connection throttling refuses a new session, 0 to 1."
            = |g| shown(g.state.connection_drop_probability);
        ephemerals_count Every "Ephemeral znodes."
            = |g| shown(g.state.ephemerals_count);
        global_sessions Every "Sessions that the whole ensemble knows."
            = |g| shown(g.state.global_sessions);
        last_client_response_size Every "Bytes of the latest reply or event, -1 before the first."
            = |g| shown(g.server.response_sizes.last);
        local_sessions Every "Sessions that only this server knows."
            = |g| shown(g.state.local_sessions);
        max_client_response_size Every "Bytes of the largest reply or event, -1 before the first."
            = |g| shown(g.server.response_sizes.max);
        max_file_descriptor_count Every "File descriptors that the process may open."
            = |g| shown(g.descriptors.max);
        max_latency Every "Longest time from a request to its reply, ms."
            = |g| shown(g.server.latency.max());
        min_client_response_size Every "Bytes of the smallest reply or event, -1 before the first."
            = |g| shown(g.server.response_sizes.min);
        min_latency Every "Shortest time from a request to its reply, ms."
            = |g| shown(g.server.latency.min());
        non_mtls_local_conn_count Every
            "Connections from this machine without a client certificate since the start."
            = |g| shown(g.server.non_mtls_local);
        non_mtls_remote_conn_count Every
            "Connections from other machines without a client certificate since the start."
            = |g| shown(g.server.non_mtls_remote);
        num_alive_connections Every "Open client connections."
            = |g| shown(g.state.connections);
        open_file_descriptor_count Every "File descriptors that the process has opened."
            = |g| shown(g.descriptors.open);
        outstanding_requests Every "Requests in progress."
            = |g| shown(g.state.outstanding_requests);
        outstanding_tls_handshake Every "TLS handshakes in progress."
            = |g| shown(g.state.outstanding_tls_handshakes);
        packets_received Every "Requests and four-letter words received."
            = |g| shown(g.server.packets_received);
        packets_sent Every "Replies and events sent."
            = |g| shown(g.server.packets_sent);
        uptime Every "Time since this server began to serve, ms."
            = |g| shown(g.server.uptime_ms);
        watch_count Every "Watches that clients have set."
            = |g| shown(g.state.watch_count);
        znode_count Every "Znodes, including the root and the reserved znodes."
            = |g| shown(g.state.znode_count);
        zoarium_blocking_work_on_workers Every
            "File operations and name lookups that ran on a network thread; a value above 0 is a bug in Zoarium."
            = |_| Some(blocking::on_workers()).filter(|times| *times > 0).and_then(shown);
        quorum_size Member "Voting members of the ensemble."
            = |g| g.role.quorum_size().and_then(shown);
        learners Leader "Followers and observers connected to the leader."
            = |g| g.leader.and_then(|l| shown(l.learners.connected));
        synced_followers Leader
            "Followers, with and without a vote, that are up to date with the leader."
            = |g| g.leader.and_then(|l| shown(l.learners.synced_followers));
        synced_non_voting_followers Leader
            "Followers without a vote that are up to date with the leader."
            = |g| g.leader.and_then(|l| shown(l.learners.synced_non_voting_followers));
        synced_observers ServesObservers "Observers that are up to date with this server."
            = |g| g.role.mode.synced_observers().and_then(shown);
        pending_syncs Leader "Uncommitted transactions that sync requests wait for."
            = |g| g.leader.and_then(|l| shown(l.pending_syncs));
        leader_uptime Leader "Time since this leader began to accept writes, ms."
            = |g| g.leader.and_then(|l| shown(l.uptime_ms));
        last_proposal_size Leader "Bytes of the latest proposal, -1 before the first."
            = |g| g.leader.and_then(|l| shown(l.proposal_sizes.last));
        max_proposal_size Leader "Bytes of the largest proposal, -1 before the first."
            = |g| g.leader.and_then(|l| shown(l.proposal_sizes.max));
        min_proposal_size Leader "Bytes of the smallest proposal, -1 before the first."
            = |g| g.leader.and_then(|l| shown(l.proposal_sizes.min));
    }
    gauge_sets {
        quota_count_limit_per_namespace "Znodes that the quota permits."
            = |g| g.quota(|q| q.count_limit);
        quota_bytes_limit_per_namespace "Bytes that the quota permits."
            = |g| g.quota(|q| q.bytes_limit);
        quota_count_usage_per_namespace "Znodes that the quota counts."
            = |g| g.quota(|q| q.count_usage);
        quota_bytes_usage_per_namespace "Bytes that the quota counts."
            = |g| g.quota(|q| q.bytes_usage);
    }
    counters {
        add_dead_watcher_stall_time
            "Time that closed connections waited for the watch cleaner, ms.";
        bytes_received_count "Bytes of requests and four-letter words received.";
        cnxn_closed_without_zk_server_running
            "Connections closed because the server was not serving.";
        commit_count "Transactions committed by this leader.";
        connection_drop_count "Connections that clients ended without closing their session.";
        connection_rejected
            "Connections that a limit on connections or connection throttling refused.";
        connection_request_count "Requests to create or resume a session.";
        connection_revalidate_count "Sessions that reconnected.";
        dead_watchers_cleared "Closed connections whose watches were removed by the watch cleaner.";
        dead_watchers_queued "Closed connections that were passed to the watch cleaner.";
        diff_count "Learners that this leader brought up to date with a diff.";
        digest_mismatches_count
            "Transactions after which the tree's digest differed from the recorded digest.";
        ensemble_auth_fail "Connections refused because the client named another ensemble.";
        ensemble_auth_skip "Connections whose client did not name an ensemble.";
        ensemble_auth_success "Connections whose client named this ensemble.";
        insecure_admin_count "Plain HTTP connections to an admin port that also accepts HTTPS.";
        large_requests_rejected "Requests refused because too many large requests were in progress.";
        learner_commit_received_count "Commits received from the leader.";
        learner_proposal_received_count "Proposals received from the leader.";
        looking_count "Number of times that this server began to search for a leader.";
        outstanding_changes_queued "Transactions that were prepared.";
        outstanding_changes_removed "Prepared transactions that were applied.";
        prep_processor_request_queued "Requests that were queued for preparation.";
        proposal_count "Transactions proposed by this leader.";
        quit_leading_due_to_disloyal_voter
            "Number of times that this leader stepped down because a voter had joined another leader.";
        request_commit_queued "Commits that were queued to be applied.";
        request_throttle_wait_count "Number of times that requests waited because too many requests were in progress.";
        requests_not_forwarded_to_commit_processor
            "Requests that were answered without waiting for commits.";
        response_bytes "Bytes of replies sent.";
        response_packet_cache_hits "Replies to getData from a cache.";
        response_packet_cache_misses "Replies to getData that were not from a cache. These are all replies, because no cache exists.";
        response_packet_get_children_cache_hits "Replies to getChildren2 from a cache.";
        response_packet_get_children_cache_misses "Replies to getChildren2 that were not from a cache. These are all replies, because no cache exists.";
        restore_error_count "Restores over the admin server that failed.";
        restore_rate_limited_count "Restores over the admin server that were refused because they were too frequent.";
        revalidate_count "Sessions that learners asked this leader to confirm.";
        sessionless_connections_expired "Connections closed because they did not request a session in time.";
        skip_learner_request_to_next_processor_count
            "Requests of learners that skipped a stage.";
        snap_count "Learners that this leader brought up to date with a snapshot.";
        snapshot_error_count "Snapshots over the admin server that failed.";
        snapshot_rate_limited_count "Snapshots over the admin server that were refused because they were too frequent.";
        stale_replies "Replies dropped because their connection was closed.";
        stale_requests "Requests that waited longer than their session's timeout.";
        stale_requests_dropped "Requests dropped because their connection was closed, or because they waited too long.";
        stale_sessions_expired "Sessions that expired.";
        sync_processor_request_queued "Transactions that were queued for the log.";
        throttled_ops "Requests that were answered with a throttling error.";
        tls_handshake_exceeded
            "Connections refused because too many TLS handshakes were in progress.";
        unrecoverable_error_count "Errors that ended the server.";
        unsuccessful_handshake "TLS handshakes that failed.";
        watch_bytes "Bytes of watch events sent.";
        zoarium_budget_requests_delayed "Requests that had to wait because of a budget.";
        zoarium_budget_requests_refused "Requests refused because of a budget.";
        zoarium_session_secrets_differ "Comparisons that found a different `zoarium.sessionSecretFile` at another member.";
    }
    counter_sets {
        quota_exceeded_error_per_namespace "Requests refused because of a quota.";
    }
    summaries {
        commit_commit_proc_req_queued "Commits that wait to be applied.";
        commit_process_time "Time that the leader takes to commit a transaction (mean of a group of transactions), ms.";
        concurrent_request_processing_in_commit_processor
            "Requests in progress while another request is processed.";
        connection_token_deficit "Tokens that a new session lacked in connection throttling.";
        dbinittime "Time to load the snapshot and replay the log, ms.";
        election_time "Duration of a successful election, ms.";
        follower_sync_time "Time to bring this follower up to date, ms.";
        fsynctime "Duration of an fsync of the transaction log, ms.";
        inflight_diff_count "Diffs that are being sent to learners.";
        inflight_snap_count "Snapshots that are being sent to learners.";
        leader_unavailable_time "Time from the start of the search for a leader until this server serves as leader, ms.";
        learner_request_processor_queue_size "Messages that wait while requests are forwarded to the leader.";
        netty_queued_buffer_capacity
            "Bytes of unfinished requests in Netty; always empty in Zoarium.";
        node_changed_watch_count "Watches that a change of data triggered.";
        node_children_watch_count "Watches that a change of children triggered.";
        node_created_watch_count "Watches that a creation triggered.";
        node_deleted_watch_count "Watches that a deletion triggered.";
        observer_sync_time "Time to bring this observer up to date, ms.";
        pending_session_queue_size "Sessions with a request that waits for a write.";
        prep_process_time "Time to prepare a transaction, ms.";
        prep_processor_queue_size "Requests that wait for preparation.";
        proposal_process_time "Time to propose a transaction (mean of a group of transactions), ms.";
        read_commit_proc_issued "Reads of one connection that were answered together.";
        read_commit_proc_req_queued "Same value as `read_commit_proc_issued`.";
        reads_after_write_in_session_queue "Reads of a session that wait for its write.";
        reads_issued_from_session_queue "Reads of a session that continued after its write.";
        requests_in_session_queue "Requests of a session that wait for its write.";
        restore_time "Duration of a restore over the admin server, ms.";
        session_queues_drained "Sessions whose reads continued after a write; always 1.";
        snapshottime "Time to write a snapshot, ms.";
        socket_closing_time "Time to close a socket, ms.";
        startup_snap_load_time "Time to load the snapshot, ms.";
        startup_txns_load_time "Time to replay the log, ms.";
        startup_txns_loaded "Transactions replayed from the log.";
        sync_process_time "Time to append a transaction to the log, ms.";
        sync_processor_batch_size "Transactions that share an fsync.";
        sync_processor_queue_size "Transactions that wait for the log.";
        time_waiting_empty_pool_in_commit_processor_read_ms
            "Time that writes waited for reads in progress, ms.";
        unavailable_time "Time from the start of the search for a leader until this server serves, ms.";
        write_batch_time_in_commit_processor "Time to apply a group of writes, ms.";
        write_commit_proc_issued "Writes applied in one group.";
        write_commit_proc_req_queued "Requests in progress of this server's clients.";
    }
    percentiles {
        close_session_prep_time "Time to prepare the end of a session, ms.";
        commit_propagation_latency "Time from a commit at the leader to its arrival at this server, ms.";
        dead_watchers_cleaner_latency "Duration of a round of the watch cleaner, ms.";
        jvm_pause_time_ms "Pauses of the process, ms (`jvm.pause.monitor`).";
        local_write_committed_time_ms "Time that the commit of a write by a client of this server waits to be applied, ms.";
        om_commit_process_time_ms "Time to forward a commit to observers (mean of a group of commits), ms.";
        om_proposal_process_time_ms "Time to forward a proposal to observers (mean of a group of proposals), ms.";
        prep_processor_queue_time_ms "Time that a request waits for preparation, ms.";
        propagation_latency
            "Time from the leader's time stamp of a transaction to its change at this server, by the wall clocks of both servers, ms.";
        proposal_ack_creation_latency "Time from a proposal to this server's acknowledgement, ms.";
        proposal_latency "Time from a request at the leader to the arrival of its proposal at this server, ms.";
        quorum_ack_latency "Time from a proposal to the acknowledgements of a quorum, ms.";
        read_commitproc_time_ms "Time that a read waits for writes, ms.";
        read_final_proc_time_ms "Time to answer a read, ms.";
        readlatency "Time from a read to its reply, ms.";
        request_throttle_queue_time_ms "Time that a request waits because too many requests are in progress, ms.";
        server_write_committed_time_ms
            "Time that the commit of a write by a client of another server waits to be applied, ms.";
        sync_processor_queue_and_flush_time_ms "Time that a transaction spends in the log's queue and in the sync, ms.";
        sync_processor_queue_flush_time_ms "Time that a group of transactions waits for its fsync, ms.";
        sync_processor_queue_time_ms "Time that a transaction waits for the log, ms.";
        updatelatency "Time from a write to its reply, ms.";
        write_commitproc_time_ms "Time from the arrival of a write to its commit, ms.";
        write_final_proc_time_ms "Time to apply and answer a write, ms.";
        zoarium_budget_delay_ms "Time that a request waits because of a budget, ms.";
    }
    summary_sets {
        write_per_namespace "Bytes of path and data of a write, per namespace.";
        read_per_namespace "Bytes of path, data and stat of a read, per namespace.";
        learner_handler_qp_size "Packets that wait to be sent, per learner.";
    }
    percentiles_sets {
        learner_handler_qp_time_ms "Time that a packet waits to be sent, per learner, ms.";
        ack_latency "Time from a proposal to its acknowledgement, per server, ms.";
    }
}

impl Default for Metrics {
    /// Creates metrics with value zero for one writing thread per processor.
    fn default() -> Self {
        Self::with_shards(std::thread::available_parallelism().map_or(1, usize::from))
    }
}
