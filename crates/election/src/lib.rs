//! Leader election: ZooKeeper's FastLeaderElection as a state machine.
//!
//! Each voter votes for the server with the newest log that it knows, initially itself, and sends
//! its vote to the others. A server that sees a quorum agree with it waits a moment for a better
//! vote, then enters its role. Zab, not the election, makes the result safe: a wrong leader finds
//! no quorum of followers, and all servers look for a leader again. The election makes it *likely*
//! that the server with the newest log leads, and that servers that start later find the leader.
//!
//! ```text
//!                 start: round + 1, own vote sent to all voters
//!   idle ------------------------------------------+
//!                                                  v
//!            better vote, or newer round     +-----------+   silence: send again,
//!            (forget the votes): adopt it,   |           |   pause doubles
//!            send to all voters         +--->|  looking  |----+
//!                                       |    |           |    |
//!                                       +----|           |<---+
//!                                            +-----------+
//!     a quorum votes as we do |   ^               |  a quorum follows one leader,
//!                             v   | better vote   |  and it confirms this
//!                        +------------+           |
//!        guard refuses:  |  settling  |           |
//!      query, wait again |   200 ms   |           |
//!                   +----|            |           |
//!                   +--->+------------+           v
//!                             |          +-----------------------------------+
//!                             +--------->| settled: leading, following or    |
//!                                        | observing; answers looking voters |
//!     start: the role ended <------------+-----------------------------------+
//! ```
//!
//! [`Election`] is the machine above. [`links::Links`] decides which connections between servers
//! are kept and when one is dialled. Both receive time as a number of milliseconds and append
//! actions as values. They do not access clocks or sockets.
//!
//! # Driving it
//!
//! ```
//! use bytes::Bytes;
//! use zoarium_election::{Action, Candidate, Election, Electorate, Role, Settings};
//! use proto::quorum::Majority;
//! use proto::{Epoch, Sid, Zxid};
//!
//! // An ensemble of one: its own vote is a quorum.
//! let electorate = Electorate::new(Majority::new([Sid(1)]), Default::default(), Bytes::new());
//! let candidate = Candidate { zxid: Some(Zxid(7)), peer_epoch: Epoch(0) };
//! let mut election = Election::new(Sid(1), Role::Participant, Settings::default(), electorate, candidate);
//! let mut out = Vec::new();
//! election.start(candidate, 0, &mut out);
//! // A message from a server to itself arrives like any other message.
//! let Some(Action::Send { to: Sid(1), notification }) = out.pop() else { panic!() };
//! election.handle_notification(Sid(1), &notification.into(), 0, &mut out);
//! assert_eq!(election.next_deadline(), Some(200));
//! election.handle_deadline(200, &mut out);
//! assert_eq!(out[0].to_string(), "elected: LEADING 1 (0x0, 0x7, 1) round 1");
//! ```
//!
//! Source: FastLeaderElection, QuorumCnxManager.

mod action;
mod answers;
mod election;
mod electorate;
mod guard;
pub mod limits;
pub mod links;
mod looking;
mod vote;

pub use action::Action;
pub use election::{Candidate, Election, ReceivedNotification, Role, Settings};
pub use electorate::{Electorate, MemberList, Oracle};
pub use vote::{Ballot, Vote};
