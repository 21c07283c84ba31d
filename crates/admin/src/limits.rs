//! Bounds on the memory and the work of requests by operators, each with its unit and reason.

use std::time::Duration;

/// Queries of the change history that are answered at a time; others wait. Each answer may use
/// about 20 MiB while it is written.
pub(crate) const HISTORY_QUESTIONS_MAX: usize = 4;

/// Concurrent feeds of the change history: half of the connections of the admin server, so that it
/// can still answer queries.
pub(crate) const FEEDS_MAX: usize = HTTP_CONNECTIONS_MAX / 2;

/// Pages of a feed that wait for a slow reader, about 256 KiB of changes each.
pub(crate) const FEED_PAGES_MAX: usize = 2;

/// Interval of a feed's progress reports while changes do not arrive, and maximum time that its
/// reader may accept no bytes.
pub(crate) const FEED_PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// Requests that an HTTP port executes or answers at a time. Probes, scrapers and a few people need
/// only a handful.
pub(crate) const HTTP_CONNECTIONS_MAX: usize = 64;

/// Requests that wait until an HTTP port has finished another one. Further ones are refused.
pub(crate) const HTTP_QUEUED_MAX: usize = 64;

/// Connections of an HTTP port that have not sent the head of a request. Above this number, the
/// oldest is closed.
pub(crate) const HTTP_WAITING_MAX: usize = 256;

/// Time that a client may take to read an answer while others wait. One second is added for each
/// MiB.
pub(crate) const HTTP_PATIENCE: Duration = Duration::from_secs(10);

/// Maximum of [`HTTP_PATIENCE`] with the additions for long answers.
pub(crate) const HTTP_PATIENCE_MAX: Duration = Duration::from_secs(60);

/// Listings of the admin server that wait for their turn after their first [`HTTP_PIECE_BYTES`].
/// Further ones are refused, so that other requests find a slot.
pub(crate) const LISTINGS_MAX: usize = HTTP_CONNECTIONS_MAX / 4;

/// Time after which a long listing may be ended, if others wait for their turn.
pub(crate) const LISTING_PATIENCE: Duration = Duration::from_secs(10);

/// Bytes of a listing that the client must accept within [`LISTING_PATIENCE`], if others wait.
pub(crate) const LISTING_PACE_BYTES: usize = 1 << 20;

/// Bytes of an answer that are written at a time.
pub(crate) const HTTP_PIECE_BYTES: usize = 64 << 10;

/// Threads for the work of all HTTP ports: four for queries of the change history, one for a long
/// listing, and two for other requests.
pub(crate) const ADMIN_THREADS: usize = 7;

/// Maximum time for a page of the change history. The page then contains the position at which to
/// continue.
pub(crate) const HISTORY_PAGE_TIME: Duration = Duration::from_millis(250);

/// Maximum time for a page of a search in the tree. The page then contains the position at which to
/// continue.
pub(crate) const SEARCH_PAGE_TIME: Duration = Duration::from_millis(250);

/// Results of a search in a page.
pub(crate) const SEARCH_PAGE: usize = 100;

/// Bytes of the paths in a page of a search, above which the page ends.
pub(crate) const SEARCH_PATH_BYTES: usize = 1 << 20;

/// Bytes of a searched text.
pub(crate) const SEARCH_TEXT_BYTES_MAX: usize = 256;

/// Concurrent TLS handshakes of an HTTP port. Above this number, the oldest is closed: an honest
/// client finishes within milliseconds.
pub const HTTP_HANDSHAKES_MAX: usize = 256;

/// Bytes of the head of an HTTP request, as Jetty's `requestHeaderSize`.
pub(crate) const HTTP_HEAD_BYTES_MAX: usize = 8 << 10;

/// Headers of an HTTP request.
pub(crate) const HTTP_HEADERS_MAX: usize = 64;

/// Parts of an answer that wait for a slow client.
pub(crate) const HTTP_PIECES_MAX: usize = 4;

/// Maximum wait for the name resolution of the address of a port.
pub(crate) const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum time of a query of another member for the console. A slower member counts as unreachable.
pub(crate) const MEMBER_REPORT_TIME: Duration = Duration::from_millis(1_500);

/// Time after which a query of another member is ended, twice: for the connection, and for the
/// answer.
pub(crate) const MEMBER_ANSWER_TIME: Duration = Duration::from_secs(5);

/// Bytes of the head, and of the body, of another member's answer.
pub(crate) const MEMBER_ANSWER_BYTES_MAX: usize = 16 << 10;

/// Events in the timeline of the ensemble.
pub(crate) const ENSEMBLE_EVENTS_MAX: usize = 64;

/// Observed transactions of the leader from which the lag of members follows: one for each query.
pub(crate) const LEADER_ZXIDS_MAX: usize = 64;

/// Series of the figures that the console keeps. Each has a value for every step.
pub(crate) const SERIES: usize = 28;

/// Interval of the figures of the last hour.
pub(crate) const FIGURES_STEP: Duration = Duration::from_secs(2);

/// Interval of the figures of the last day.
pub(crate) const FIGURES_MINUTE: Duration = Duration::from_secs(60);

/// Steps in a minute.
pub(crate) const FIGURES_PER_MINUTE: usize = 30;

/// Steps of the last hour: 400 KiB for all series.
pub(crate) const FIGURES_HOUR: usize = 60 * FIGURES_PER_MINUTE;

/// Minutes of the last day: 320 KiB for all series.
pub(crate) const FIGURES_DAY: usize = 24 * 60;

/// Maximum number of open pages at a member.
pub(crate) const VISITS_MAX: usize = 128;

/// Maximum number of open pages of one address, so that one address cannot use all of them.
pub(crate) const VISITS_OF_ADDRESS_MAX: usize = VISITS_MAX / 2;

/// Idle time in ms after which a visit expires. A tab in the background sends a request every
/// minute.
pub(crate) const VISIT_IDLE_MS: u64 = 10 * 60_000;

/// Idle time in ms after which a visit can be replaced if there are too many.
pub(crate) const VISIT_YIELDS_MS: u64 = 90_000;

/// Bytes of data that are sent with a znode; further data is requested in pieces.
pub(crate) const DATA_BYTES_SHOWN: usize = 64 << 10;

/// Length of a further piece in bytes.
pub(crate) const DATA_BYTES_PIECE: usize = 1 << 20;

/// Number of children in a page.
pub(crate) const CHILDREN_PAGE: usize = 200;

/// Number of sessions in a page.
pub(crate) const SESSIONS_PAGE: usize = 100;

/// Number of paths shown for each session, for ephemerals and for watches.
pub(crate) const SESSION_PATHS_SHOWN: usize = 50;

/// Maximum bytes of a request that does not contain data.
pub(crate) const FORM_BYTES_MAX: usize = 16 << 10;

/// Largest accepted reply of the member: a list of a million children has about 20 MiB.
pub(crate) const REPLY_BYTES_MAX: usize = 32 << 20;

/// Maximum number of concurrent requests to the tree, each of which may hold such a reply.
pub(crate) const ZNODE_REQUESTS_MAX: usize = 4;

/// Maximum time to receive a body.
pub(crate) const BODY_PATIENCE: Duration = Duration::from_secs(30);

/// Requested session timeout.
pub(crate) const SESSION_TIMEOUT_MS: i32 = 30_000;

/// Idle time after which a session is closed; the next request opens another one.
pub(crate) const SESSION_IDLE: Duration = Duration::from_secs(12);

/// Maximum time to wait for a reply of the member, which may be electing a leader.
pub(crate) const REPLY_PATIENCE: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the rows of the documentation page.
    fn rows() -> Vec<(&'static str, String)> {
        let head_kib = HTTP_HEAD_BYTES_MAX >> 10;
        let patience_s = FEED_PROGRESS_EVERY.as_secs();
        let steps = FIGURES_HOUR + FIGURES_PER_MINUTE + FIGURES_DAY;
        let kib = (steps * SERIES * size_of::<f64>()).div_ceil(1 << 10);
        vec![
            (
                "requests that the admin server executes or answers",
                HTTP_CONNECTIONS_MAX.to_string(),
            ),
            (
                "requests that wait for the admin server",
                HTTP_QUEUED_MAX.to_string(),
            ),
            (
                "connections to the admin server without a request",
                HTTP_WAITING_MAX.to_string(),
            ),
            (
                "long listings of the admin server that wait for their turn",
                LISTINGS_MAX.to_string(),
            ),
            (
                "TLS handshakes with the admin server",
                HTTP_HANDSHAKES_MAX.to_string(),
            ),
            (
                "bytes of the headers of a request",
                format!("{head_kib} KiB"),
            ),
            ("headers of a request", HTTP_HEADERS_MAX.to_string()),
            ("feeds of the change history", FEEDS_MAX.to_string()),
            ("figures of the console (28 series)", format!("{kib} KiB")),
            ("events of the console", ENSEMBLE_EVENTS_MAX.to_string()),
            (
                "time during which the reader of a feed accepts no data",
                format!("{patience_s} s"),
            ),
            (
                "concurrent queries of the change history",
                HISTORY_QUESTIONS_MAX.to_string(),
            ),
        ]
    }

    #[test]
    fn the_page_of_limits_contains_the_bounds() {
        let page = include_str!("../../../docs/LIMITS.md");
        for (subject, bound) in rows() {
            let row = format!("\n| {subject} | {bound} |");
            assert!(page.contains(&row), "docs/LIMITS.md lacks {row}");
        }
    }
}
