//! Limits for the memory and the requests of the console.

use std::time::Duration;

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
pub(crate) const QUESTIONS_MAX: usize = 4;

/// Maximum time to receive a body.
pub(crate) const BODY_PATIENCE: Duration = Duration::from_secs(30);

/// Requested session timeout.
pub(crate) const SESSION_TIMEOUT_MS: i32 = 30_000;

/// Idle time after which a session is closed; the next request opens another one.
pub(crate) const SESSION_IDLE: Duration = Duration::from_secs(12);

/// Maximum time to wait for a reply of the member, which may be electing a leader.
pub(crate) const REPLY_PATIENCE: Duration = Duration::from_secs(15);
