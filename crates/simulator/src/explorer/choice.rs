//! Choices of the explorer, and which of them commute.

use std::fmt;

/// One choice. Servers are counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Choice {
    /// The next message on a connection between members arrives.
    Deliver {
        /// Sender.
        from: u8,
        /// Receiver.
        to: u8,
        /// Position of the connection among those with a message on this way, oldest first.
        nth: u8,
    },
    /// A server learns that its oldest broken connection to this peer has ended.
    Notice {
        /// Server that learns of the end.
        at: u8,
        /// Other end of the connection.
        peer: u8,
    },
    /// The first connection that a learner dials to its leader is open, or the dial fails.
    Dial {
        /// Learner.
        from: u8,
        /// Leader.
        to: u8,
    },
    /// The log thread of a server completes its work.
    CompleteLog(u8),
    /// The snapshot thread of a server completes a piece of its work.
    CompleteSnapshot(u8),
    /// The server proposes the next transaction.
    Propose(u8),
    /// The server begins a snapshot.
    StartSnapshot(u8),
    /// These servers elect a leader among them, or find one. Each bit is a server.
    Elect(u8),
    /// A server waits in vain for its peers. Its role ends.
    TimeOut(u8),
    /// A process ends. Its machine keeps what the process has written.
    Kill(u8),
    /// The machine of a server loses power, and with it everything that is not synced.
    LosePower(u8),
    /// A server starts again.
    Restart(u8),
}

impl Choice {
    /// Returns the servers whose states the choice changes, one bit each. The choice may also send
    /// messages to any server, and receive the oldest message on a connection.
    fn places(self) -> u8 {
        match self {
            Self::Deliver { to: at, .. }
            | Self::Notice { at, .. }
            | Self::CompleteLog(at)
            | Self::CompleteSnapshot(at)
            | Self::Propose(at)
            | Self::StartSnapshot(at) => 1 << at,
            Self::Dial { from, to } => 1 << from | 1 << to,
            Self::Elect(_)
            | Self::TimeOut(_)
            | Self::Kill(_)
            | Self::LosePower(_)
            | Self::Restart(_) => u8::MAX,
        }
    }

    /// Returns whether both orders of two choices lead to the same state.
    pub(super) fn commutes_with(self, other: Self) -> bool {
        let shares_budget = matches!(
            (self, other),
            (Self::Propose(_), Self::Propose(_)) | (Self::StartSnapshot(_), Self::StartSnapshot(_))
        );
        self.places() & other.places() == 0 && !shares_budget
    }

    /// Returns a number that [`Choice::of_number`] turns back into the choice.
    pub(super) fn number(self) -> u32 {
        let [kind, a, b, c] = match self {
            Self::Deliver { from, to, nth } => [0, from, to, nth],
            Self::Notice { at, peer } => [1, at, peer, 0],
            Self::Dial { from, to } => [2, from, to, 0],
            Self::CompleteLog(at) => [3, at, 0, 0],
            Self::CompleteSnapshot(at) => [4, at, 0, 0],
            Self::Propose(at) => [5, at, 0, 0],
            Self::StartSnapshot(at) => [6, at, 0, 0],
            Self::Elect(among) => [7, among, 0, 0],
            Self::TimeOut(at) => [8, at, 0, 0],
            Self::Kill(at) => [9, at, 0, 0],
            Self::LosePower(at) => [10, at, 0, 0],
            Self::Restart(at) => [11, at, 0, 0],
        };
        u32::from_be_bytes([kind, a, b, c])
    }

    /// Returns the choice with this number.
    pub(super) fn of_number(number: u32) -> Option<Self> {
        Some(match number.to_be_bytes() {
            [0, from, to, nth] => Self::Deliver { from, to, nth },
            [1, at, peer, 0] => Self::Notice { at, peer },
            [2, from, to, 0] => Self::Dial { from, to },
            [3, at, 0, 0] => Self::CompleteLog(at),
            [4, at, 0, 0] => Self::CompleteSnapshot(at),
            [5, at, 0, 0] => Self::Propose(at),
            [6, at, 0, 0] => Self::StartSnapshot(at),
            [7, among, 0, 0] => Self::Elect(among),
            [8, at, 0, 0] => Self::TimeOut(at),
            [9, at, 0, 0] => Self::Kill(at),
            [10, at, 0, 0] => Self::LosePower(at),
            [11, at, 0, 0] => Self::Restart(at),
            _ => return None,
        })
    }
}

/// A choice in words. Servers are counted from 1, as in the configuration.
impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deliver { from, to, nth: 0 } => {
                write!(f, "server {} receives from {}", to + 1, from + 1)
            }
            Self::Deliver { from, to, nth } => {
                let (to, from) = (to + 1, from + 1);
                write!(f, "server {to} receives from {from}, connection {nth}")
            }
            Self::Notice { at, peer } => {
                write!(f, "server {} loses its connection to {}", at + 1, peer + 1)
            }
            Self::Dial { from, to } => write!(f, "server {} dials {}", from + 1, to + 1),
            Self::CompleteLog(at) => write!(f, "the log thread of {} completes its work", at + 1),
            Self::CompleteSnapshot(at) => {
                write!(f, "the snapshot thread of {} completes a piece", at + 1)
            }
            Self::Propose(at) => write!(f, "server {} proposes a transaction", at + 1),
            Self::StartSnapshot(at) => write!(f, "server {} begins a snapshot", at + 1),
            Self::Elect(among) => {
                let servers = (0..8).filter(|server| among >> server & 1 == 1);
                let servers: Vec<String> = servers.map(|it| (it + 1).to_string()).collect();
                write!(f, "servers {} elect a leader", servers.join(", "))
            }
            Self::TimeOut(at) => write!(f, "server {} waits in vain", at + 1),
            Self::Kill(at) => write!(f, "server {} is killed", at + 1),
            Self::LosePower(at) => write!(f, "server {} loses power", at + 1),
            Self::Restart(at) => write!(f, "server {} starts", at + 1),
        }
    }
}
