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
//! reply that would reveal its change. A slow operation (a disk, a network, a resolver) is an
//! effect, and its end is an input. The crate does not contain a thread, socket, file, clock,
//! channel or async code. Time and randomness are arguments.
//!
//! There are two hosts: `server` with threads, sockets and files, and `simulator` with a queue and
//! a seed. A host does not make decisions.
//!
//! Connections also read the tree, the watches and the table of sessions, to answer reads
//! themselves. These belong to the host, which lends them through [`State`]. The server guards them
//! by locks. The replica holds the tree shared while it prepares and exclusively while it applies,
//! so it blocks readers only while it applies.
//!
//! A standalone server is a leader of one, and follows the code path of every leader.

mod applying;
pub mod connection;
mod containers;
mod digests;
mod effect;
mod election_results;
pub mod elections;
mod expiry;
mod forwarded;
mod handshake;
mod host;
mod input;
mod large_bytes;
mod leading;
mod learner_requests;
mod learning;
mod limits;
mod local_sessions;
mod long_requests;
mod master_choice;
mod member_state;
pub mod members;
mod note;
mod observer_master;
mod ordering;
mod read_only;
mod reconfiguring;
mod refusal;
mod replica;
mod requests;
mod requests_to_leader;
mod restoring;
mod revalidation;
mod role;
pub mod session;
pub mod sessions;
mod settings;
mod transitions;
mod view;
mod voting_lists;

pub use effect::{Applied, DiskOrder, Effect, MemberFile, Port, Service, Synchronised};
pub use handshake::{
    ComingBack, Handshake, HandshakeKind, HandshakeRefusal, HandshakeRules, NewSession, RenewalStep,
};
pub use host::{Host, Now, State, Turn};
pub use input::{ClientRequest, Input, LeaderEvent, LearnerEvent, Renewal, SyncRequest, Ticket};
pub use large_bytes::LargeBytes;
pub use local_sessions::{SessionRules, WriteStep, write_step};
pub use member_state::{Epochs, MemberStart};
pub use note::{Note, Stage};
pub use replica::{Replica, Start};
pub use requests::{SyncStep, UNDECODABLE, is_authenticated, refusal_of_undecodable, sync_step};
pub use settings::{
    ContainerSettings, EnsembleSettings, ObserverSettings, ReplicaSettings, field_limits,
};
pub use view::{Learners, Phase, RoleView, View};
pub use voting_lists::ElectorateError;
