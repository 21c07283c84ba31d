//! Facts about a member, each with its text form.

use std::fmt;

use proto::{Epoch, Sid, Zxid};
use zab::leader::LinkId;

/// Value of a fact, which is written as a number.
trait Number: Copy {
    fn number(self) -> i64;
    fn from_number(number: i64) -> Self;
}

impl Number for i64 {
    fn number(self) -> i64 {
        self
    }

    fn from_number(number: i64) -> Self {
        number
    }
}

impl Number for u64 {
    fn number(self) -> i64 {
        self.cast_signed()
    }

    fn from_number(number: i64) -> Self {
        number.cast_unsigned()
    }
}

impl Number for bool {
    fn number(self) -> i64 {
        i64::from(self)
    }

    fn from_number(number: i64) -> Self {
        number != 0
    }
}

impl Number for Zxid {
    fn number(self) -> i64 {
        self.0
    }

    fn from_number(number: i64) -> Self {
        Self(number)
    }
}

impl Number for Epoch {
    fn number(self) -> i64 {
        self.0
    }

    fn from_number(number: i64) -> Self {
        Self(number)
    }
}

impl Number for Sid {
    fn number(self) -> i64 {
        self.0
    }

    fn from_number(number: i64) -> Self {
        Self(number)
    }
}

impl Number for LinkId {
    fn number(self) -> i64 {
        self.0.number()
    }

    fn from_number(number: i64) -> Self {
        Self(u64::from_number(number))
    }
}

/// An epoch is never negative.
impl Number for Option<Epoch> {
    fn number(self) -> i64 {
        self.map_or(i64::MIN, |epoch| epoch.0)
    }

    fn from_number(number: i64) -> Self {
        (number != i64::MIN).then_some(Epoch(number))
    }
}

/// Defines the facts, their text form and its parser.
macro_rules! facts {
    ($($(#[$doc:meta])* $name:ident { $($(#[$of_field:meta])* $field:ident: $kind:ty,)* })*) => {
        /// Fact about a member. The member is named separately.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Fact {
            $($(#[$doc])* $name { $($(#[$of_field])* $field: $kind,)* },)*
        }

        impl fmt::Display for Fact {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match *self {
                    $(Self::$name { $($field,)* } => {
                        f.write_str(stringify!($name))?;
                        $(write!(f, " {}", Number::number($field))?;)*
                        Ok(())
                    })*
                }
            }
        }

        impl Fact {
            /// Parses the text form. Returns `None` for other texts, such as an incomplete line.
            pub fn parse(text: &str) -> Option<Self> {
                let mut words = text.split(' ');
                let fact = match words.next()? {
                    $(stringify!($name) => Self::$name {
                        $($field: Number::from_number(words.next()?.parse().ok()?),)*
                    },)*
                    _ => return None,
                };
                words.next().is_none().then_some(fact)
            }
        }
    };
}

facts! {
    /// Facts are missing from here on, because the file could not be written.
    Lost {}

    // The start of a process.

    /// A starting process has found a snapshot.
    FoundSnapshot {
        /// Transaction in the name of the file.
        zxid: Zxid,
    }
    /// A starting process has found these member lists.
    FoundLists {
        /// Version of the committed list.
        config: Zxid,
        /// Version of the last seen list, or of the committed one.
        seen: Zxid,
    }
    /// A process has started.
    Started {
        /// Last transaction of the log.
        end: Zxid,
        /// Accepted epoch on disk.
        accepted: Epoch,
        /// Current epoch on disk.
        current: Epoch,
    }

    // Inputs of the replica.

    /// A vote has arrived.
    Voted {
        /// Server that sent the vote.
        from: Sid,
        /// Leader in the vote.
        leader: Sid,
        /// Last transaction of the leader in the vote.
        zxid: Zxid,
        /// Epoch of the leader in the vote.
        epoch: Epoch,
        /// Whether the voter was looking for a leader.
        is_looking: bool,
    }
    /// A learner has introduced itself.
    MetLearner {
        /// Connection of the learner.
        link: LinkId,
        /// The learner.
        sid: Sid,
        /// Epoch that the learner has accepted.
        accepted: Epoch,
    }
    /// A learner has acknowledged the epoch.
    ReceivedAckEpoch {
        /// Connection of the learner.
        link: LinkId,
    }
    /// A learner has acknowledged proposals, or the start of the epoch.
    ReceivedAck {
        /// Connection of the learner.
        link: LinkId,
        /// Last acknowledged zxid.
        zxid: Zxid,
    }
    /// A learner's connection has ended.
    LostLearner {
        /// Connection that has ended.
        link: LinkId,
    }
    /// The leader's tree has arrived.
    ReceivedTree {
        /// Number of the connection.
        attempt: u64,
    }
    /// The log is on disk.
    Synced {
        /// Last transaction on disk.
        upto: Zxid,
    }
    /// The accepted epoch is on disk.
    SavedAccepted {
        /// The epoch.
        epoch: Epoch,
    }
    /// The current epoch is on disk.
    SavedCurrent {
        /// The epoch.
        epoch: Epoch,
    }
    /// The log was cut, or could not be cut, and the tree was loaded again.
    Reloaded {
        /// Whether the tree was loaded.
        has_tree: bool,
        /// Last transaction of the log.
        end: Zxid,
    }
    /// The leader's tree has replaced the files.
    TookOver {}

    // Effects of the replica.

    /// The server begins to lead.
    Leads {}
    /// The server begins to follow a leader.
    Follows {
        /// The leader.
        leader: Sid,
        /// Number of the connection.
        attempt: u64,
    }
    /// The server closes the connection to its leader.
    HungUp {}
    /// The leader closes the connections of its learners.
    StoppedListening {
        /// Whether a reconfiguration has designated another leader.
        hands_over: bool,
    }
    /// A committed member list comes into force.
    InstalledConfig {
        /// Version of the list.
        version: Zxid,
    }
    /// The server introduces itself to its leader.
    SentFollowerInfo {
        /// Accepted epoch.
        accepted: Epoch,
    }
    /// The server acknowledges the epoch.
    SentAckEpoch {
        /// Last transaction of the log.
        last: Zxid,
        /// Current epoch; `None` if the epoch was accepted earlier.
        current: Option<Epoch>,
    }
    /// The leader begins a synchronisation with DIFF.
    SentDiff {
        /// Connection of the learner.
        link: LinkId,
        /// Zxid in the packet.
        zxid: Zxid,
    }
    /// The leader begins a synchronisation with TRUNC.
    SentTrunc {
        /// Connection of the learner.
        link: LinkId,
        /// Zxid in the packet.
        zxid: Zxid,
    }
    /// The leader begins a synchronisation with SNAP.
    SentSnap {
        /// Connection of the learner.
        link: LinkId,
        /// Zxid in the packet.
        zxid: Zxid,
    }
    /// The leader completes a synchronisation.
    SentNewLeader {
        /// Connection of the learner.
        link: LinkId,
    }
    /// The leader closes the connection of a learner.
    ClosedLink {
        /// Connection of the learner.
        link: LinkId,
        /// Whether the learner's history or its member list is later than the leader's.
        is_ahead: bool,
    }
    /// A transaction is passed to the log.
    Appended {
        /// Zxid of the transaction.
        zxid: Zxid,
        /// Number of the content.
        content: i64,
    }
    /// The tree is about to replace the files.
    TakesOver {
        /// Last transaction of the tree.
        last: Zxid,
    }
    /// The accepted epoch is about to be written.
    SavesAccepted {
        /// The epoch.
        epoch: Epoch,
    }
    /// The current epoch is about to be written.
    SavesCurrent {
        /// The epoch.
        epoch: Epoch,
    }

    // Events that the replica reports.

    /// A learner has received DIFF.
    ReceivedDiff {
        /// Zxid in the packet.
        zxid: Zxid,
    }
    /// A learner has received TRUNC.
    ReceivedTrunc {
        /// Zxid in the packet.
        zxid: Zxid,
    }
    /// A learner has received SNAP. The tree follows.
    ReceivedSnap {
        /// Zxid in the packet.
        zxid: Zxid,
    }
    /// A learner has received a proposal.
    ReceivedProposal {
        /// Zxid of the transaction.
        zxid: Zxid,
        /// Number of the content.
        content: i64,
    }
    /// A learner has received a commit.
    ReceivedCommit {
        /// Zxid of the transaction.
        zxid: Zxid,
    }
    /// A learner has received the commit of a reconfiguration.
    ReceivedCommitAndActivate {
        /// Zxid of the reconfiguration.
        zxid: Zxid,
        /// Leader from now on.
        designated: Sid,
    }
    /// A learner has received the end of its synchronisation.
    ReceivedNewLeader {
        /// Epoch of the leader.
        epoch: Epoch,
    }
    /// A learner may serve clients.
    ReceivedUpToDate {}
    /// A learner leaves because of the last packet.
    RefusedSync {}
    /// The leader has established its epoch.
    Established {}
    /// A committed transaction has been applied.
    Applied {
        /// End of the tree before the transaction.
        last: Zxid,
        /// Zxid of the transaction.
        zxid: Zxid,
        /// Number of the content.
        content: i64,
    }

    // Snapshots of the server's own tree.

    /// A snapshot begins.
    BeganSnapshot {
        /// Transaction in the name of the file.
        zxid: Zxid,
    }
    /// A complete snapshot is about to get its name.
    NamesSnapshot {
        /// Transaction in the name of the file.
        zxid: Zxid,
        /// Last transaction of which the snapshot may contain a part.
        covers: Zxid,
        /// Last transaction of the log on disk.
        logged: Zxid,
    }
    /// The snapshot has its name.
    NamedSnapshot {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_is_one_line_of_a_name_and_numbers() {
        let (link, zxid) = (LinkId(3), Zxid::new(Epoch(2), 7));
        for (fact, text) in [
            (Fact::Leads {}, "Leads"),
            (Fact::SentDiff { link, zxid }, "SentDiff 3 8589934599"),
            (
                Fact::SentAckEpoch {
                    last: zxid,
                    current: None,
                },
                "SentAckEpoch 8589934599 -9223372036854775808",
            ),
            (
                Fact::ClosedLink {
                    link,
                    is_ahead: true,
                },
                "ClosedLink 3 1",
            ),
        ] {
            assert_eq!(fact.to_string(), text);
            assert_eq!(Fact::parse(text), Some(fact));
        }
        for text in ["", "Lead", "Leads 1", "SentDiff 3", "SentDiff 3 x"] {
            assert_eq!(Fact::parse(text), None, "{text}");
        }
    }
}
