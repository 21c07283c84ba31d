//! The sans-I/O core of a member: every decision of a server, without I/O.
//!
//! ```text
//!   Input: requests, packets, elections,            Effect: append, save, cut, send, dial,
//!          synced, time                                     listen, serve, close
//!            |                                                ^
//!            v                                                |
//!      +--------------------------------------------------------------+
//!      | Replica: order, role (looking, leading, learning), member    |
//!      | lists, sessions, forwarding, data to sync before each packet.|
//!      | It contains `zab`, and borrows the tree for a turn.          |
//!      +--------------------------------------------------------------+
//! ```
//!
//! A host passes events to [`Replica::handle`], and calls [`Replica::handle_deadline`] when
//! [`Replica::deadline_ms`] is reached. Both use the [`Host`] while they run. Effects are executed
//! in order. Replies and events are delivered while the tree is held, so an event precedes the
//! reply that would reveal its change. A slow operation (on a disk, a network, a resolver) is an
//! effect, and its end is an input. The crate contains no thread, socket, file, clock, channel or
//! async code. Time and randomness are arguments.
//!
//! There are two hosts: `server` with threads, sockets and files, and `simulation` with a queue and
//! a seed. A host does not make decisions.
//!
//! Connections answer reads themselves, so they also read the tree, the watches and the table of
//! sessions. All three belong to the host, which lends them to the replica through [`State`]. The
//! server guards them with locks. The replica holds the tree shared while it prepares and
//! exclusively while it applies, so it blocks readers only while it applies.
//!
//! A standalone server is a leader of one and uses the same code path as every leader.

pub mod connection;
pub mod elections;
mod forwarding;
mod interface;
mod limits;
pub mod members;
mod order;
mod replica;
mod roles;
pub mod session;

pub use connection::unordered::{SyncStep, UNDECODABLE, refusal_of_undecodable, sync_step};
pub use elections::voting_lists::ElectorateError;
pub use interface::effect::{Applied, DiskOrder, Effect, Service, Synchronised};
pub use interface::host::{Host, Now, State, Turn};
pub use interface::input::{
    ClientRequest, Input, LeaderEvent, LearnerEvent, LoadedTree, Port, Renewal, SyncRequest, Ticket,
};
pub use interface::large_bytes::LargeBytes;
pub use interface::note::{Note, Stage};
pub use interface::settings::{
    ContainerSettings, EnsembleSettings, ObserverSettings, ReplicaSettings, field_limits,
};
pub use interface::view::{Learners, Phase, RoleView, View};
pub use members::files::MemberFile;
pub use replica::{Replica, Start};
pub use roles::member_state::{Epochs, MemberStart};
pub use session::handshake::{
    Handshake, HandshakeKind, HandshakeRefusal, HandshakeRules, NewSession, RenewalStep,
    SessionReconnect,
};
pub use session::local::{SessionRules, WriteStep, write_step};
