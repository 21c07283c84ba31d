//! A client's connection without a socket: which request waits for which, and in which order replies
//! and events leave.
//!
//! ```text
//!   frames -> decode -> [requests without a reply] <---- committed writes, in zxid order
//!                         |  a read with nothing in front: answered at once
//!                         v  a read behind a write: answered right after that write
//!                       [outbox] -> what leaves, in order
//! ```
//!
//! Replies leave in the order of the requests. Four kinds of requests do not wait for their turn:
//! credentials and SASL tokens, which count for what comes behind them; an operation that does not
//! exist, which ends the connection; and a write that `enableEagerACLCheck` refuses. A request whose
//! turn comes while too much is in the outbox is left over: whoever has the tree next goes on with it,
//! and in any case before the next write of this connection is applied
//! ([`Host::applying`](crate::Host::applying)).
//!
//! A host has a [`ClientConnection`] for each client. With the tree held, it hands over what has come
//! in ([`Responder::take`]), what was left over ([`Responder::drain`]), a transaction that was applied
//! ([`Responder::answer_write`]) or a sync that is answered ([`Responder::answer_sync`]). Replies and
//! events are encoded into the outbox under that hold, so an event always precedes the reply that would
//! reveal its change. Budgets, sockets and figures are the host's, which is told by [`Replying`] and
//! [`Taking`] as it goes.

mod answering;
mod frames;
mod holding;
mod identities;
mod queue;
mod request;
mod taking;
#[cfg(test)]
mod tests;

pub use answering::{Drained, Pace, Replying, Responder, WriteAnswer};
pub use frames::{CONNECT_RESPONSE_BYTES, REPLY_BYTES_MAX, push_event_frame};
pub use holding::Holding;
pub use identities::{IDENTITIES_MAX, IDENTITY_BYTES_MAX, Identities, TooManyIdentities};
pub use queue::{Asked, ClientConnection, Queued, REPLIES_BEFORE_WRITE_BYTES, WaitingRead, Work};
pub use request::{FrameFault, Incoming, LIST_SHORT, RequestKind, decode_into};
pub use taking::{ConnectionNote, ConnectionRules, Next, SaslAnswer, Taking};
