//! The election mesh: this server's part in elections, over real sockets and clocks.
//!
//! ```text
//!   role driver --orders--> +-------+ <--Input-- listener (one task an own address)
//!                           | actor |              \__ greetings: who is there?
//!               <-MeshEvent-|       | <--Input-- links (one task a connection)
//!                           +-------+ --newest message--> links
//!                               \---- dials (one task each)
//! ```
//!
//! One task owns [`election::Election`] and [`election::links::Links`], which decide everything;
//! the tasks around it move bytes. The way in is bounded, and the way out to a server is one
//! message that newer ones replace, so that no server can fill the memory of another.
//!
//! Source: ensemble-protocol.md 4 to 6 (QuorumCnxManager, FastLeaderElection).

mod actor;
mod complaints;
mod connections;
mod dial;
mod electorate;
mod limits;
mod link;
mod listener;
mod oracle;
mod refusal;
mod settings;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use config::members::MemberRole;
use config::membership::Membership;
use election::{Candidate, Vote};
use proto::notification::PeerState;
use proto::{ElectionRound, Epoch, Sid};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

pub(crate) use electorate::ElectorateError;
pub(crate) use listener::BindError;
pub(crate) use oracle::OracleFile;
pub(crate) use settings::MeshSettings;

use crate::metrics::Metrics;
use actor::{Actor, Order};

/// What the mesh tells.
#[derive(Debug)]
pub(crate) enum MeshEvent {
    /// The election is over.
    Elected {
        /// The role: leading, following or observing.
        state: PeerState,
        /// For whom; with the zxid and epoch that it was elected with.
        vote: Vote,
        /// In which round.
        round: ElectionRound,
    },
    /// Another server has committed a newer member list, and this one looked. The mesh has taken
    /// it over already; the rest of the server is to install it.
    ConfigSeen {
        /// Who.
        from: Sid,
        /// The list.
        membership: Membership,
    },
    /// A server whose vote made this one the leader looks again.
    SupporterLooks {
        /// Who.
        sid: Sid,
    },
    /// No address of this server can be listened on: the server must end.
    Failed {
        /// The last reason.
        error: BindError,
    },
}

/// Takes events. Called from the mesh's task, so it must not wait.
pub(crate) type EventSink = Box<dyn Fn(MeshEvent) + Send + Sync>;

/// What a mesh begins with.
pub(crate) struct MeshStart {
    pub(crate) settings: MeshSettings,
    /// The configuration in effect.
    pub(crate) committed: Membership,
    /// The last one seen; it counts if it is newer.
    pub(crate) proposed: Option<Membership>,
    /// What was recovered: told to servers that ask before the first round.
    pub(crate) candidate: Candidate,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) sink: EventSink,
}

/// A mesh that listens, dials and answers. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Mesh {
    orders: mpsc::UnboundedSender<Order>,
    task: JoinHandle<()>,
}

impl Mesh {
    /// Begins to listen and to answer; looks for a leader when told to. Within a tokio runtime.
    ///
    /// # Errors
    /// If nobody can be elected by the configurations.
    pub(crate) fn start(start: MeshStart) -> Result<Self, ElectorateError> {
        let (orders, received) = mpsc::unbounded_channel();
        let actor = Actor::new(start, received)?;
        let task = tokio::spawn(actor.run());
        Ok(Self { orders, task })
    }

    /// Begins a round: the server has started, or its role has ended. Answered by
    /// [`MeshEvent::Elected`], in time. `candidate` says what is in the log now.
    pub(crate) fn look(&self, candidate: Candidate) {
        self.order(Order::Look(candidate));
    }

    /// The epoch of the leader is established.
    pub(crate) fn epoch_active(&self, epoch: Epoch) {
        self.order(Order::EpochActive(epoch));
    }

    /// The role is over; [`look`](Self::look) follows when the log is on disk.
    pub(crate) fn end_role(&self) {
        self.order(Order::EndRole);
    }

    /// Gives the server a role without an election, as a reconfiguration can order.
    pub(crate) fn appoint(&self, state: PeerState, vote: Vote) {
        self.order(Order::Appoint(state, vote));
    }

    /// Other configurations apply: the one in effect, and the last one seen, which counts if it is
    /// newer. `role` is this server's part in the first. A round under way goes on, unless this
    /// server changes between having a vote and having none: then it begins anew.
    ///
    /// If nobody can be elected by them, that is logged, and the earlier ones stay.
    pub(crate) fn configure(
        &self,
        committed: Membership,
        proposed: Option<Membership>,
        role: MemberRole,
    ) {
        self.order(Order::Configure {
            committed,
            proposed,
            role,
        });
    }

    /// Whether the oracle of an ensemble of two is asked: at first it is, and on a leader for as
    /// long as no follower has joined it.
    pub(crate) fn set_oracle_needed(&self, is_needed: bool) {
        self.order(Order::OracleNeeded(is_needed));
    }

    /// From any thread; what a mesh is told after its end is lost.
    fn order(&self, order: Order) {
        let _ = self.orders.send(order);
    }

    /// Closes all connections and the port, and waits until they are closed. A server drops its
    /// mesh; a test that starts the next one at the same port has to know when it is gone.
    #[cfg(test)]
    pub(crate) async fn stop(mut self) {
        self.order(Order::Stop);
        if let Err(error) = (&mut self.task).await {
            tracing::error!(err = %error, "the election mesh ended by a panic");
        }
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        self.task.abort();
    }
}
