//! A client's connection without a socket: which requests wait for which, and the order of replies
//! and events.
//!
//! ```text
//!   frames -> decode -> [requests without a reply] <---- committed writes, in zxid order
//!                         |  a read with an empty queue: answered immediately
//!                         v  a read after a write: answered right after that write
//!                       [outbox] -> sent in order
//! ```
//!
//! Replies are sent in the order of the requests. Five kinds of requests do not wait for their
//! turn: credentials, SASL tokens, an operation that does not exist, a request without the required
//! authentication, and a write that `enableEagerACLCheck` refuses. Credentials and tokens apply to
//! later requests. An unknown operation or missing authentication ends the connection. A request
//! whose turn comes while the outbox is too large is deferred. The next holder of the tree
//! continues with it, and must do so before the next write of this connection is applied
//! ([`Host::applying`](crate::Host::applying)).
//!
//! A host keeps a [`ClientConnection`] for each client. While it holds the tree, it passes new
//! requests ([`Responder::take`]), deferred requests ([`Responder::drain`]), an applied transaction
//! ([`Responder::answer_write`]) or an answered sync ([`Responder::answer_sync`]). Replies and
//! events are encoded into the outbox during this hold, so an event always precedes the reply that
//! would reveal its change. Budgets, sockets and metrics belong to the host, which receives reports
//! through [`ReplyHost`] and [`RequestHost`].

mod answering;
mod frames;
mod identities;
mod queue;
mod request;
mod request_host;
mod resource_counts;
#[cfg(test)]
mod tests;
pub(crate) mod unordered;

pub use answering::{DrainOutcome, Pace, ReplyHost, Responder, WriteAnswer};
pub use frames::{CONNECT_RESPONSE_BYTES, REPLY_BYTES_MAX, push_event_frame};
pub use identities::{IDENTITIES_MAX, IDENTITY_BYTES_MAX, Identities, TooManyIdentities};
pub use queue::{
    ClientConnection, Queued, QueuedWork, REPLIES_BEFORE_WRITE_BYTES, RequestHead, WaitingRead,
};
pub use request::{FrameFault, IncomingRequest, LIST_SHORT, RequestKind, decode_into};
pub use request_host::{ConnectionNote, ConnectionRules, RequestHost, Resume, SaslAnswer};
pub use resource_counts::ResourceCounts;
