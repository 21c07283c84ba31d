//! Figures shown by `srvr`: packets of this server, and their latency.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::replies::Replies;
use super::shards::Counter;
use super::summary::{BufferSizes, BufferStats, Moments};
use crate::table::rows::Metrics;

/// Counters of a serving server. Source: ServerStats.
///
/// The latency of requests is not stored here but in `readlatency` and `updatelatency` of
/// [`Metrics`], which [`Self::reset`] also resets.
#[derive(Debug)]
pub struct ServerStats {
    metrics: Arc<Metrics>,
    started_ms: AtomicU64,
    packets_received: Counter,
    packets_sent: Counter,
    response_sizes: BufferStats,
    auth_failed: AtomicU64,
    non_mtls_local: AtomicU64,
    non_mtls_remote: AtomicU64,
    slow_fsyncs: AtomicU64,
}

/// Values of [`ServerStats`] at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerFigures {
    /// Number of requests and four-letter words.
    pub packets_received: u64,
    /// Number of replies, events and answers to four-letter words.
    pub packets_sent: u64,
    /// Latency from a request to its reply, ms.
    pub latency: Moments,
    /// Sizes of replies and events.
    pub response_sizes: BufferSizes,
    /// Number of refused credentials.
    pub auth_failed: u64,
    /// Number of connections from this machine without a client certificate.
    pub non_mtls_local: u64,
    /// Number of connections from other machines without a client certificate.
    pub non_mtls_remote: u64,
    /// Number of fsyncs longer than `fsync.warningthresholdms`.
    pub slow_fsyncs: u64,
    /// Time since the server started to serve, ms.
    pub uptime_ms: u64,
}

impl ServerStats {
    /// Creates the counters of a server that starts to serve at `started_ms` by the monotonic
    /// clock.
    pub fn new(metrics: Arc<Metrics>, started_ms: u64) -> Self {
        let shards = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            metrics,
            started_ms: AtomicU64::new(started_ms),
            packets_received: Counter::new(shards),
            packets_sent: Counter::new(shards),
            response_sizes: BufferStats::new(shards),
            auth_failed: AtomicU64::new(0),
            non_mtls_local: AtomicU64::new(0),
            non_mtls_remote: AtomicU64::new(0),
            slow_fsyncs: AtomicU64::new(0),
        }
    }

    /// Records `n` requests, or a four-letter word.
    pub fn packets_received(&self, n: u64) {
        self.packets_received.add(n);
    }

    /// Records `n` replies or events, or the answer to a four-letter word.
    pub fn packets_sent(&self, n: u64) {
        self.packets_sent.add(n);
    }

    /// Records the latency of the reply to a request without a transaction.
    pub fn read_answered(&self, latency_ms: u64) {
        self.metrics.readlatency.record(latency_ms);
    }

    /// Records the latency of the reply to a request with a transaction.
    pub fn update_answered(&self, latency_ms: u64) {
        self.metrics.updatelatency.record(latency_ms);
    }

    /// Records the number of bytes in a reply or event, without the length field.
    pub fn response_size(&self, bytes: u32) {
        self.response_sizes.record(bytes);
    }

    /// Records a batch. The number of packets and the sizes are recorded in `self`, and all other
    /// values in [`Metrics`].
    pub fn replied(&self, replies: &Replies) {
        let metrics = &self.metrics;
        for (latency_ms, times) in replies.reads.counts() {
            metrics.readlatency.record_many(latency_ms, times);
        }
        for (latency_ms, times) in replies.updates.counts() {
            metrics.updatelatency.record_many(latency_ms, times);
        }
        for (latency_ms, times) in replies.propagation.counts() {
            metrics.propagation_latency.record_many(latency_ms, times);
        }
        for (waited_ms, times) in replies.committed.counts() {
            metrics
                .write_commitproc_time_ms
                .record_many(waited_ms, times);
        }
        for (waiting, times) in replies.waiting.counts() {
            metrics
                .requests_in_session_queue
                .record_many(waiting, times);
        }
        if replies.data_replies > 0 {
            metrics
                .response_packet_cache_misses
                .add(replies.data_replies);
        }
        if replies.children_replies > 0 {
            metrics
                .response_packet_get_children_cache_misses
                .add(replies.children_replies);
        }
        replies.read_from.hand_over(&metrics.read_per_namespace);
        replies.written_to.hand_over(&metrics.write_per_namespace);
        if let Some(sizes) = replies.sizes {
            self.packets_sent.add(replies.sent);
            metrics.response_bytes.add(replies.reply_bytes);
            if replies.event_bytes > 0 {
                metrics.watch_bytes.add(replies.event_bytes);
            }
            self.response_sizes.record_all(sizes);
        }
    }

    /// Records refused credentials.
    pub fn auth_failed(&self) {
        self.auth_failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Records a connection without a client certificate.
    pub fn non_mtls_connection(&self, from_this_machine: bool) {
        let count = if from_this_machine {
            &self.non_mtls_local
        } else {
            &self.non_mtls_remote
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Records an fsync longer than the warning threshold.
    pub fn slow_fsync(&self) {
        self.slow_fsyncs.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the values at `now_ms` by the monotonic clock.
    pub fn get(&self, now_ms: u64) -> ServerFigures {
        let mut latency = *self.metrics.readlatency.get().moments();
        latency.merge(self.metrics.updatelatency.get().moments());
        ServerFigures {
            packets_received: self.packets_received.get(),
            packets_sent: self.packets_sent.get(),
            latency,
            response_sizes: self.response_sizes.get(),
            auth_failed: self.auth_failed.load(Ordering::Relaxed),
            non_mtls_local: self.non_mtls_local.load(Ordering::Relaxed),
            non_mtls_remote: self.non_mtls_remote.load(Ordering::Relaxed),
            slow_fsyncs: self.slow_fsyncs.load(Ordering::Relaxed),
            uptime_ms: now_ms.saturating_sub(self.started_ms.load(Ordering::Relaxed)),
        }
    }

    /// Resets the counters when a role starts to serve at `now_ms` by the monotonic clock. Java
    /// creates a new server with new counters for each role. The values in [`Metrics`] are not
    /// reset.
    pub fn begin(&self, now_ms: u64) {
        self.started_ms.store(now_ms, Ordering::Relaxed);
        self.packets_received.reset();
        self.packets_sent.reset();
        self.response_sizes.reset();
        let counts = [
            &self.auth_failed,
            &self.non_mtls_local,
            &self.non_mtls_remote,
            &self.slow_fsyncs,
        ];
        counts
            .into_iter()
            .for_each(|count| count.store(0, Ordering::Relaxed));
    }

    /// Resets packets, latency, sizes and all of [`Metrics`], like `srst`. Failed authentications,
    /// connections without certificates, slow fsyncs and the uptime are not reset.
    pub fn reset(&self) {
        self.packets_received.reset();
        self.packets_sent.reset();
        self.response_sizes.reset();
        self.metrics.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_is_that_of_reads_and_updates_together() {
        let stats = ServerStats::new(Arc::new(Metrics::with_shards(1)), 1000);
        [0, 1].into_iter().for_each(|ms| stats.read_answered(ms));
        stats.update_answered(7);
        let figures = stats.get(1500);
        assert_eq!((figures.latency.min(), figures.latency.max()), (0, 7));
        assert_eq!(figures.latency.average().to_string(), "2.6667");
        assert_eq!(figures.uptime_ms, 500);
    }

    #[test]
    fn a_batch_of_replies_counts_as_each_of_them() {
        let metrics = Arc::new(Metrics::with_shards(1));
        let stats = ServerStats::new(metrics.clone(), 0);
        let mut replies = Replies::default();
        [0, 0, 5].into_iter().for_each(|ms| replies.read(ms));
        replies.update(40);
        [16, 300].into_iter().for_each(|bytes| replies.reply(bytes));
        replies.event(20);
        stats.replied(&replies);
        stats.replied(&Replies::default());

        let figures = stats.get(0);
        assert_eq!((figures.latency.count, figures.latency.sum), (4, 45));
        assert_eq!((figures.latency.min(), figures.latency.max()), (0, 40));
        assert_eq!(metrics.readlatency.get().quantile(0.5), 0);
        let bytes = (metrics.response_bytes.get(), metrics.watch_bytes.get());
        assert_eq!((figures.packets_sent, bytes), (3, (316, 20)));
        assert_eq!(
            figures.response_sizes,
            BufferSizes {
                last: 20,
                min: 16,
                max: 300
            }
        );
    }

    #[test]
    fn a_role_begins_at_zero() {
        let stats = ServerStats::new(Arc::new(Metrics::with_shards(1)), 0);
        stats.packets_received(3);
        stats.response_size(100);
        stats.auth_failed();
        stats.read_answered(9);
        stats.begin(700);
        let figures = stats.get(710);
        let counts = (figures.packets_received, figures.auth_failed);
        assert_eq!((counts, figures.uptime_ms), ((0, 0), 10));
        assert_eq!(figures.response_sizes, BufferSizes::NONE);
        assert_eq!(figures.latency.max(), 9);
    }

    #[test]
    fn reset_keeps_the_counters_that_java_keeps() {
        let metrics = Arc::new(Metrics::with_shards(1));
        let stats = ServerStats::new(metrics.clone(), 0);
        stats.packets_received(3);
        stats.packets_sent(2);
        stats.read_answered(9);
        stats.response_size(100);
        stats.auth_failed();
        stats.non_mtls_connection(true);
        metrics.commit_count.inc();

        stats.reset();

        let figures = stats.get(10);
        assert_eq!((figures.packets_received, figures.packets_sent), (0, 0));
        assert_eq!(
            (figures.latency, figures.response_sizes),
            (Moments::default(), BufferSizes::NONE)
        );
        assert_eq!(metrics.commit_count.get(), 0);
        assert_eq!((figures.auth_failed, figures.non_mtls_local), (1, 1));
        assert_eq!(figures.uptime_ms, 10);
    }
}
