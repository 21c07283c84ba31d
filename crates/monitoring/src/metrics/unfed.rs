//! The metrics that nothing writes, and why. All others are fed; a test looks for who does it.

/// Names, and the reason why each stays as it is.
pub const UNFED: &[(&str, &str)] = &[
    ("add_dead_watcher_stall_time", NO_CLEANER),
    ("dead_watchers_cleaner_latency", NO_CLEANER),
    ("dead_watchers_cleared", NO_CLEANER),
    ("dead_watchers_queued", NO_CLEANER),
    ("response_packet_cache_hits", NO_CACHE),
    ("response_packet_cache_misses", NO_CACHE),
    ("response_packet_get_children_cache_hits", NO_CACHE),
    ("response_packet_get_children_cache_misses", NO_CACHE),
    ("requests_not_forwarded_to_commit_processor", NO_SHORT_CUT),
    ("skip_learner_request_to_next_processor_count", NO_SHORT_CUT),
    ("netty_queued_buffer_capacity", "There is no Netty."),
    ("concurrent_request_processing_in_commit_processor", NO_POOL),
    (
        "time_waiting_empty_pool_in_commit_processor_read_ms",
        NO_POOL,
    ),
    ("pending_session_queue_size", NO_POOL),
    ("learner_request_processor_queue_size", NO_QUEUE),
    ("commit_process_time", NO_QUEUE),
    ("proposal_process_time", NO_QUEUE),
    ("local_write_committed_time_ms", NO_QUEUE),
    ("server_write_committed_time_ms", NO_QUEUE),
    ("om_commit_process_time_ms", NO_QUEUE),
    ("om_proposal_process_time_ms", NO_QUEUE),
    (
        "read_final_proc_time_ms",
        "Reads take microseconds; `readlatency` has the time until they are answered.",
    ),
    (
        "socket_closing_time",
        "A socket is handed to the system, which closes it.",
    ),
    (
        "stale_replies",
        "A connection that has ended gets no replies made.",
    ),
    (
        "unrecoverable_error_count",
        "The process ends with such an error.",
    ),
    ("inflight_diff_count", "Not measured yet."),
    ("inflight_snap_count", "Not measured yet."),
    ("insecure_admin_count", NO_TLS),
];

const NO_CLEANER: &str = "Watches of a closed connection are removed at once, without a cleaner.";
const NO_CACHE: &str = "Replies are encoded straight from the tree, without a cache.";
const NO_SHORT_CUT: &str = "No setting leaves requests of learners out of a queue.";
const NO_POOL: &str = "Reads are answered where they come in, without a pool of threads.";
const NO_QUEUE: &str = "It happens in the turn in which its packet is handled, without a queue.";
const NO_TLS: &str = "There is no TLS on the admin port yet.";
