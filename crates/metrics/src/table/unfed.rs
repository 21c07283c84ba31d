//! Metrics that are never written, each with the reason. A test checks that all others are written.

/// Names of the metrics, with the reason why each stays constant.
pub const UNFED: &[(&str, &str)] = &[
    ("add_dead_watcher_stall_time", NO_CLEANER),
    ("dead_watchers_cleaner_latency", NO_CLEANER),
    ("dead_watchers_cleared", NO_CLEANER),
    ("dead_watchers_queued", NO_CLEANER),
    ("response_packet_cache_hits", NO_CACHE),
    ("response_packet_get_children_cache_hits", NO_CACHE),
    ("requests_not_forwarded_to_commit_processor", NO_SHORT_CUT),
    ("skip_learner_request_to_next_processor_count", NO_SHORT_CUT),
    ("netty_queued_buffer_capacity", "Netty is not used."),
    (
        "concurrent_request_processing_in_commit_processor",
        "Reads are answered by the task of their connection, without a pool of threads.",
    ),
];

const NO_CLEANER: &str =
    "Watches of a closed connection are removed immediately, without a cleaner.";
const NO_CACHE: &str = "Replies are encoded straight from the tree, without a cache.";
const NO_SHORT_CUT: &str =
    "Zoarium does not have the setting that omits requests of learners from a queue.";
