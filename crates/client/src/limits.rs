//! Limits on memory that a server or a fast caller could otherwise consume without bound.

#[cfg(feature = "sasl")]
use transport::sasl::gssapi::TOKEN_BYTES_MAX;

/// Default size limit of an incoming frame in bytes, inclusive. [`crate::Handshake`] and
/// [`crate::Options`] can change it. Servers do not limit their replies, so the value is well above
/// `jute.maxbuffer`. The reply to a getChildren with a million names still fits.
pub const FRAME_BYTES_MAX: usize = 64 << 20;

/// Largest request in bytes that a server with default settings accepts, inclusive.
///
/// Source: `jute.maxbuffer`, BinaryInputArchive.checkLength.
pub const REQUEST_BYTES_MAX: usize = 0xf_ffff;

/// Size limit of an incoming frame during a login in bytes, inclusive. It exceeds every token of
/// DIGEST-MD5.
#[cfg(feature = "sasl")]
pub(crate) const LOGIN_FRAME_BYTES_MAX: usize = 8 << 10;

/// Size limit of an incoming frame during a login with Kerberos, in bytes.
#[cfg(feature = "sasl")]
pub(crate) const TICKET_FRAME_BYTES_MAX: usize = TOKEN_BYTES_MAX + 64;

/// Minimum space for a read from the socket, in bytes.
pub(crate) const READ_BYTES: usize = 16 << 10;

/// Capacity in bytes above which a buffer is shrunk after a large frame.
pub(crate) const BUFFER_BYTES_KEPT: usize = 1 << 20;

/// Maximum number of unanswered requests of one [`crate::Client`].
pub(crate) const IN_FLIGHT_MAX: usize = 1024;

/// Maximum number of unsent requests of one [`crate::Client`]. Further callers wait.
pub(crate) const COMMANDS_MAX: usize = 1024;

/// Unsent bytes at which a [`crate::Client`] stops accepting requests until the socket drains.
pub(crate) const OUTBOUND_BYTES_MAX: usize = 4 << 20;

/// Maximum number of watch events that wait for one listener of all events. A slower listener
/// receives a lag error.
pub(crate) const EVENTS_MAX: usize = 4096;

/// Maximum number of watch events that wait for the reader of one [`crate::WatchStream`]. A slower
/// reader has to read everything again.
pub(crate) const STREAM_EVENTS_MAX: usize = 1024;

/// Maximum path bytes in one setWatches packet. Source: ClientCnxn.SET_WATCHES_MAX_LENGTH.
pub(crate) const SET_WATCHES_BYTES_MAX: usize = 128 << 10;

/// Maximum number of auth packets that a [`crate::Client`] repeats on its next connection.
pub(crate) const AUTHS_MAX: usize = 128;

/// Size limit of an admin server's answer, in bytes.
#[cfg(feature = "admin")]
pub(crate) const ANSWER_BYTES_MAX: usize = 256 << 20;

/// Size limit of one line of a feed, in bytes. With the default `jute.maxbuffer`, a change with
/// data and both states of the znode is far shorter.
#[cfg(feature = "admin")]
pub(crate) const LINE_BYTES_MAX: usize = 64 << 20;

const _: () = assert!(READ_BYTES <= BUFFER_BYTES_KEPT);
const _: () = assert!(SET_WATCHES_BYTES_MAX < REQUEST_BYTES_MAX / 2);
const _: () = assert!(REQUEST_BYTES_MAX < OUTBOUND_BYTES_MAX);
