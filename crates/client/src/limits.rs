//! Bounds of everything that a server, or a hasty caller, could make grow.

use transport::sasl::gssapi::TOKEN_BYTES_MAX;

/// Bytes of one incoming frame, inclusive, unless [`crate::Handshake`] or [`crate::Options`] say
/// otherwise. Servers do not limit what they send, so this is well above `jute.maxbuffer`: a
/// getChildren of a million names still fits.
pub const FRAME_BYTES_MAX: usize = 64 << 20;

/// Bytes of one outgoing request that a server with default settings takes, inclusive.
///
/// Source: `jute.maxbuffer`, BinaryInputArchive.checkLength.
pub const REQUEST_BYTES_MAX: usize = 0xf_ffff;

/// Bytes of one incoming frame while a login is under way, inclusive: more than any of its tokens.
pub(crate) const LOGIN_FRAME_BYTES_MAX: usize = 8 << 10;

/// The same where the token may be one of Kerberos.
pub(crate) const TICKET_FRAME_BYTES_MAX: usize = TOKEN_BYTES_MAX + 64;

/// Space that every read from the socket has at least.
pub(crate) const READ_BYTES: usize = 16 << 10;

/// A buffer that grew beyond this for one large frame is given back afterwards.
pub(crate) const BUFFER_BYTES_KEPT: usize = 1 << 20;

/// Requests of one [`crate::Client`] that may wait for their answers on the wire.
pub(crate) const IN_FLIGHT_MAX: usize = 1024;

/// Requests of one [`crate::Client`] that may wait to be sent; callers wait beyond it.
pub(crate) const COMMANDS_MAX: usize = 1024;

/// Unsent bytes at which a [`crate::Client`] takes no more requests until the socket drains.
pub(crate) const OUTBOUND_BYTES_MAX: usize = 4 << 20;

/// Watch events that one listener of all events may fall behind before it is told that it lagged.
pub(crate) const EVENTS_MAX: usize = 4096;

/// Watch events that the reader of one [`crate::WatchStream`] may fall behind before it has to read
/// everything again.
pub(crate) const STREAM_EVENTS_MAX: usize = 1024;

/// Path bytes in one setWatches packet. Source: ClientCnxn.SET_WATCHES_MAX_LENGTH.
pub(crate) const SET_WATCHES_BYTES_MAX: usize = 128 << 10;

/// Auth packets that a [`crate::Client`] remembers for its next connection.
pub(crate) const AUTHS_MAX: usize = 128;

/// Bytes of an answer of an admin server that are taken.
#[cfg(feature = "admin")]
pub(crate) const ANSWER_BYTES_MAX: usize = 256 << 20;

/// Bytes of one line of a feed: more than a change has whose data and the data before and after it are
/// each as long as a server may be told to take.
#[cfg(feature = "admin")]
pub(crate) const LINE_BYTES_MAX: usize = 64 << 20;

const _: () = assert!(READ_BYTES <= BUFFER_BYTES_KEPT);
const _: () = assert!(SET_WATCHES_BYTES_MAX < REQUEST_BYTES_MAX / 2);
const _: () = assert!(REQUEST_BYTES_MAX < OUTBOUND_BYTES_MAX);
