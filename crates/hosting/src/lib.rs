//! What every host of a replica does with what the replica decides.
//!
//! A host has the sockets, threads and clocks, or simulated ones. What is the same whatever it has them
//! of is here, so that what ships is what is simulated: [`StartFiles`] is how a server begins, [`ServerState`] the state that the
//! replica is lent and connections read, [`carry_out_effect`] which part of a host carries out which effect,
//! [`Registry`], [`begin_session`] and [`deliver`] what becomes of clients,
//! [`carry_out`] what is done to the files, [`SnapshotWork`] the snapshots that are written meanwhile,
//! [`read_log`] what a learner is brought up to date with, [`PacketQueue`] what waits for another
//! member, [`LinkWriter`] in which order it leaves, [`LinkReader`] what comes from one, [`Recorder`] what the
//! change history is fed with, [`Schedule`] which thread does which work and when. Nothing here waits for anything but short locks, and time is an argument.

mod clients;
mod disk;
mod effects;
mod kept_tree;
mod learners;
mod packets;
mod recorder;
mod schedule;
mod snapshot;
mod snapshot_work;
mod start;
mod state;

pub use clients::{
    Answered, Begun, Connected, Connection, Delivering, Guarded, Registry, Serving, ToAnswer,
    answer_handshake, answer_sync, begin_session, deliver, judge_handshake,
};
pub use disk::{Beside, DiskFailure, DiskQueue, Done, Group, ToDisk, carry_out, sync, write_group};
pub use effects::{CarryingOut, MemberLinks, carry_out_effect};
pub use learners::read_log;
pub use packets::{
    LinkName, LinkReader, LinkWriter, NextWrite, PacketBatch, PacketBuffer, PacketFault,
    PacketQueue, Piece, QueueBounds, ReceivedTree, TooSlow,
};
pub use recorder::{FillError, Recorder};
pub use schedule::{
    CLIENT_BYTES_WRITTEN_BY_CORE_MAX, FlushAt, Place, Runner, Schedule, ScheduleSettings, Syncer,
    WaitingGroup, WaitingWork, Writer,
};
pub use snapshot::{StateSnapshot, Written};
pub use snapshot_work::{DueSnapshots, SnapshotWork, Wanted};
pub use start::{Recover, StartFiles, StartSettings, Started};
pub use state::ServerState;
