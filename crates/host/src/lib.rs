//! The work of every host of a replica, without threads.
//!
//! A host has sockets, threads and clocks, real or simulated. This crate contains the work that
//! does not depend on them, so the simulator runs the shipped code:
//!
//! - [`StartFiles`]: the start of a server.
//! - [`ServerState`]: the state that the replica borrows and that connections read.
//! - [`Registry`], [`begin_session`] and [`deliver`]: clients.
//! - [`carry_out`]: work on the files.
//! - [`SnapshotWork`]: snapshots, written in the background.
//! - [`read_log`]: the log for the synchronisation of a learner.
//! - [`PacketQueue`], [`LinkWriter`] and [`LinkReader`]: packets that wait for another member,
//!   their order on the wire, and packets from another member.
//! - `Recorder`: input of the change history (feature `history`).
//! - [`ModelTrace`]: traces for the formal model.
//! - [`Schedule`]: the thread and the time for each piece of work.
//!
//! Apart from file operations, this crate waits only for locks that are held briefly. The current
//! time is passed as an argument.

mod clients;
mod disk;
mod learners;
mod model_trace;
mod packets;
#[cfg(feature = "history")]
mod recorder;
mod schedule;
mod snapshot;
mod start;
mod state;

pub use clients::{
    AnswerOutcome, Connection, ConnectionStatus, DeliveryHost, LockedState, PendingAnswer,
    Registry, SessionCell, SessionStep, SharedConnection, answer_handshake, answer_renewal,
    answer_sync, begin_session, deliver, judge_handshake,
};
pub use disk::{
    DiskCommand, DiskFailure, DiskQueue, LogGroup, OrderResults, carry_out, sync, write_group,
};
pub use learners::read_log;
pub use model_trace::{Fact, ModelTrace, ReplicaTrace, Traced, content_of};
pub use packets::{
    LinkName, LinkReader, LinkWriter, NextWrite, PacketBatch, PacketBuffer, PacketFault,
    PacketQueue, Piece, QueueBounds, ReceivedTree, TooSlow,
};
#[cfg(feature = "history")]
pub use recorder::{FillError, Recorder};
pub use schedule::{
    CLIENT_BYTES_WRITTEN_BY_CORE_MAX, FlushAt, FlushOrder, Runner, Schedule, ScheduleSettings,
    Syncer, WaitingGroup, WaitingWork, Writer,
};
pub use snapshot::work::{DueSnapshots, SnapshotReason, SnapshotWork};
pub use snapshot::{SNAPSHOT_CHUNK_BYTES, StateSnapshot, WrittenSnapshot};
pub use start::{Recover, StartFiles, StartSettings, Started};
pub use state::ServerState;
