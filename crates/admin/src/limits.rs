//! Limits on the memory and work for operators' requests, each with its unit and reason.

use std::time::Duration;

/// Maximum number of concurrent queries of the change history. Further queries wait. Each answer
/// may use about 20 MiB while it is written.
pub(crate) const HISTORY_QUESTIONS_MAX: usize = 4;

/// Maximum number of concurrent feeds of the change history: half of the requests that the admin
/// server answers at a time, so that it can still answer other requests.
pub(crate) const FEEDS_MAX: usize = HTTP_CONNECTIONS_MAX / 2;

/// Maximum number of pages of a feed that wait for a slow reader. Each contains about 256 KiB of
/// changes.
pub(crate) const FEED_PAGES_MAX: usize = 2;

/// Interval of a feed's progress reports while there are no changes, and maximum time for which its
/// reader may pause reading.
pub(crate) const FEED_PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// Maximum number of requests that an HTTP port executes or answers at a time. Probes, scrapers and
/// a few people need only a handful.
pub(crate) const HTTP_CONNECTIONS_MAX: usize = 64;

/// Maximum number of requests that wait for a slot of an HTTP port. Further requests are refused.
pub(crate) const HTTP_QUEUED_MAX: usize = 64;

/// Maximum number of connections to an HTTP port that have not sent the head of a request. Above
/// this number, the oldest is closed.
pub(crate) const HTTP_WAITING_MAX: usize = 256;

/// Time for a client to read an answer while other requests wait for a slot. One second is added
/// for each MiB of the answer.
pub(crate) const HTTP_PATIENCE: Duration = Duration::from_secs(10);

/// Maximum of [`HTTP_PATIENCE`], including the additions for long answers.
pub(crate) const HTTP_PATIENCE_MAX: Duration = Duration::from_secs(60);

/// Maximum number of listings longer than [`HTTP_PIECE_BYTES`] that are being written or wait for
/// their turn. Further listings are refused, so that other requests find a slot.
pub(crate) const LISTINGS_MAX: usize = HTTP_CONNECTIONS_MAX / 4;

/// Time after which a long listing may be ended if others wait for their turn.
pub(crate) const LISTING_PATIENCE: Duration = Duration::from_secs(10);

/// Number of bytes of a listing that the client must accept within [`LISTING_PATIENCE`] if others
/// wait.
pub(crate) const LISTING_PACE_BYTES: usize = 1 << 20;

/// Number of bytes of an answer that are written at a time.
pub(crate) const HTTP_PIECE_BYTES: usize = 64 << 10;

/// Number of threads for the work of all HTTP ports: four for queries of the change history, one
/// for a long listing, and two for other requests.
pub(crate) const ADMIN_THREADS: usize = 7;

/// Maximum time for reading a page of the change history. After this time, the page ends and
/// contains the position at which to continue.
pub(crate) const HISTORY_PAGE_TIME: Duration = Duration::from_millis(250);

/// Maximum time for a page of a search in the tree. After this time, the page ends and contains the
/// position at which to continue.
pub(crate) const SEARCH_PAGE_TIME: Duration = Duration::from_millis(250);

/// Maximum number of search results in a page.
pub(crate) const SEARCH_PAGE: usize = 100;

/// Total length of the paths in a page of a search after which the page ends, in bytes.
pub(crate) const SEARCH_PATH_BYTES: usize = 1 << 20;

/// Maximum length of a searched text, in bytes.
pub(crate) const SEARCH_TEXT_BYTES_MAX: usize = 256;

/// Maximum number of concurrent TLS handshakes at an HTTP port. Above this number, the oldest is
/// closed, because an honest client finishes within milliseconds.
pub const HTTP_HANDSHAKES_MAX: usize = 256;

/// Maximum size of the head of an HTTP request in bytes, like Jetty's `requestHeaderSize`.
pub(crate) const HTTP_HEAD_BYTES_MAX: usize = 8 << 10;

/// Maximum number of headers of an HTTP request.
pub(crate) const HTTP_HEADERS_MAX: usize = 64;

/// Maximum number of parts of an answer that wait for a slow client.
pub(crate) const HTTP_PIECES_MAX: usize = 4;

/// Maximum wait for the name resolution of the address of a port.
pub(crate) const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Time within which another member must answer a query for the console. A slower member counts as
/// unreachable, but its query continues.
pub(crate) const MEMBER_REPORT_TIME: Duration = Duration::from_millis(1_500);

/// Time after which a query to another member is ended. It applies separately to the connection and
/// to the answer.
pub(crate) const MEMBER_ANSWER_TIME: Duration = Duration::from_secs(5);

/// Maximum size in bytes of the head, and of the body, of another member's answer.
pub(crate) const MEMBER_ANSWER_BYTES_MAX: usize = 16 << 10;

/// Maximum number of events in the timeline of the ensemble.
pub(crate) const ENSEMBLE_EVENTS_MAX: usize = 64;

/// Maximum number of observed zxids of the leader from which the lag of members is computed. Each
/// report from the leader adds at most one zxid.
pub(crate) const LEADER_ZXIDS_MAX: usize = 64;

/// Number of series of figures that the console keeps. Each has a value for every step.
pub(crate) const SERIES: usize = 28;

/// Interval of the figures for the last hour.
pub(crate) const FIGURES_STEP: Duration = Duration::from_secs(2);

/// Interval of the figures for the last day.
pub(crate) const FIGURES_MINUTE: Duration = Duration::from_secs(60);

/// Number of steps in a minute.
pub(crate) const FIGURES_PER_MINUTE: usize = 30;

/// Number of steps in the last hour. All series together take 400 KiB.
pub(crate) const FIGURES_HOUR: usize = 60 * FIGURES_PER_MINUTE;

/// Number of minutes in the last day. All series together take 320 KiB.
pub(crate) const FIGURES_DAY: usize = 24 * 60;

/// Maximum size in bytes of another member's answer to a visitor's query.
pub(crate) const VISITOR_ANSWER_BYTES_MAX: usize = 1 << 20;

/// Maximum number of concurrent queries to other members for visitors. Further queries wait.
pub(crate) const VISITOR_QUERIES_MAX: usize = 4;

/// Maximum number of visits (open pages of the console) per member.
pub(crate) const VISITS_MAX: usize = 128;

/// Maximum number of visits per client address, so that one address cannot use all of them.
pub(crate) const VISITS_OF_ADDRESS_MAX: usize = VISITS_MAX / 2;

/// Idle time in ms after which a visit expires. A background tab sends a request every minute.
pub(crate) const VISIT_IDLE_MS: u64 = 10 * 60_000;

/// Idle time in ms after which a visit can be replaced if there are too many visits.
pub(crate) const VISIT_YIELDS_MS: u64 = 90_000;

/// Number of data bytes that are sent with a znode. Further data is requested in pieces.
pub(crate) const DATA_BYTES_SHOWN: usize = 64 << 10;

/// Maximum length of each further piece of a znode's data, in bytes.
pub(crate) const DATA_BYTES_PIECE: usize = 1 << 20;

/// Number of children in a page.
pub(crate) const CHILDREN_PAGE: usize = 200;

/// Maximum number of long lists of children that sessions keep for requests for further pages. A
/// list of a million children takes about 50 MiB.
pub(crate) const CHILDREN_LISTS_MAX: usize = 2;

/// Number of sessions in a page.
pub(crate) const SESSIONS_PAGE: usize = 100;

/// Number of paths of ephemerals, and of watches, that are shown for each session.
pub(crate) const SESSION_PATHS_SHOWN: usize = 50;

/// Maximum body size, in bytes, of a request that does not contain the data of a znode.
pub(crate) const FORM_BYTES_MAX: usize = 16 << 10;

/// Largest accepted reply from the member, in bytes. A list of a million children takes about 20
/// MiB.
pub(crate) const REPLY_BYTES_MAX: usize = 32 << 20;

/// Maximum number of concurrent requests to the tree. Each may hold a reply of [`REPLY_BYTES_MAX`].
pub(crate) const ZNODE_REQUESTS_MAX: usize = 4;

/// Maximum time for receiving the body of a request to the console.
pub(crate) const BODY_PATIENCE: Duration = Duration::from_secs(30);

/// Session timeout that the console requests for its sessions.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(30);

/// Idle time after which a session is closed. The next request opens another session.
pub(crate) const SESSION_IDLE: Duration = Duration::from_secs(12);

/// Maximum wait for a reply from the member, which may be electing a leader.
pub(crate) const REPLY_PATIENCE: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the subject and the bound of each row that `docs/LIMITS.md` must contain.
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
