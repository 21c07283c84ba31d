//! Facts about the inputs and the effects of a replica.

use config::members::HostPort;
use config::membership::Membership;
use jute::{Decode as _, Reader};
use proto::leader::LeaderPacket;
use proto::learner::LearnerPacket;
use proto::notification::PeerState;
use proto::txn::{Txn, TxnRecord};
use proto::{Sid, Zxid};
use replica::elections::ElectionInput;
use replica::{DiskOrder, Effect, Input, LeaderEvent, LearnerEvent, MemberFile, Note, Port};
use zab::leader::{LinkFault, LinkId};
use zab::learner::Fault;

use super::Fact;

/// Largest sid in the number of a reconfiguration. TLC computes with 32 bits.
const VOTER_MAX: i64 = 30;

/// Returns a number for the content of a transaction, small enough for TLC. It is negative for a
/// reconfiguration: the sum of the powers of two that belong to its voters. Voters with a sid above
/// 30 are left out.
pub fn content_of(txn: &[u8]) -> i64 {
    let voters = voters_in(txn).map(|list| {
        let voters = list.participants().map(|member| member.sid.0);
        let voters = voters.filter(|sid| (0..=VOTER_MAX).contains(sid));
        -voters.map(|sid| 1_i64 << sid).sum::<i64>()
    });
    voters.unwrap_or_else(|| i64::from(crc32fast::hash(txn) >> 1))
}

/// Returns the member list in a reconfiguration.
fn voters_in(txn: &[u8]) -> Option<Membership> {
    let record = TxnRecord::decode(&mut Reader::new(txn.to_vec())).ok()?;
    let Txn::Reconfig(set) = record.txn else {
        return None;
    };
    let text = String::from_utf8(set.data?.to_vec()).ok()?;
    Membership::parse(&text, true).ok()
}

impl Fact {
    /// Reports the facts about an input, in their order. `sender` returns the server at the other
    /// end of an election connection.
    pub fn of_input(
        input: &Input,
        sender: impl FnOnce(u64) -> Option<Sid>,
        report: impl FnMut(Self),
    ) {
        let fact = match input {
            Input::Election(ElectionInput::ReceivedNotification {
                connection,
                notification,
            }) => sender(connection.0).map(|from| Self::Voted {
                from,
                leader: notification.leader,
                zxid: notification.zxid,
                epoch: notification.peer_epoch,
                is_looking: notification.state == PeerState::Looking,
            }),
            Input::Learner(Port::Learners, LearnerEvent::Packets { link, packets }) => {
                let facts = packets
                    .iter()
                    .filter_map(|packet| of_learner(*link, packet));
                return facts.for_each(report);
            }
            Input::Learner(Port::Learners, LearnerEvent::Closed { link }) => {
                Some(Self::LostLearner { link: *link })
            }
            Input::Leader {
                attempt,
                event: LeaderEvent::SnapshotReceived(_),
            } => Some(Self::ReceivedTree { attempt: *attempt }),
            Input::Synced(upto) => Some(Self::Synced { upto: *upto }),
            Input::AcceptedEpochSaved(epoch) => Some(Self::SavedAccepted { epoch: *epoch }),
            Input::CurrentEpochSaved(epoch) => Some(Self::SavedCurrent { epoch: *epoch }),
            Input::Reloaded { tree, end } => Some(Self::Reloaded {
                has_tree: tree.is_some(),
                end: *end,
            }),
            Input::SnapshotWritten { .. } => Some(Self::TookOver {}),
            _ => None,
        };
        fact.into_iter().for_each(report);
    }

    /// Returns the fact about an effect. `server` returns the server with this address.
    pub fn of_effect(
        effect: &Effect,
        server: impl FnOnce(&HostPort) -> Option<Sid>,
    ) -> Option<Self> {
        let learners = Port::Learners;
        Some(match effect {
            Effect::Listen { port, .. } if *port == learners => Self::Leads {},
            Effect::Dial {
                attempt, addresses, ..
            } => Self::Follows {
                leader: server(addresses.first()?)?,
                attempt: *attempt,
            },
            Effect::HangUp => Self::HungUp {},
            Effect::StopListening { port, hands_over } if *port == learners => {
                Self::StoppedListening {
                    hands_over: *hands_over,
                }
            }
            Effect::SendToLeader(packet) => to_leader(packet)?,
            Effect::Send { port, to, packet } if *port == learners => to_learner(*to, packet)?,
            Effect::SendSnapshot { port, to, zxid } if *port == learners => Self::SentSnap {
                link: *to,
                zxid: *zxid,
            },
            Effect::CloseLink { port, link, fault } if *port == learners => Self::ClosedLink {
                link: *link,
                is_ahead: matches!(
                    fault,
                    LinkFault::HistoryAhead { .. } | LinkFault::ConfigAhead { .. }
                ),
            },
            Effect::Append(record) => Self::Appended {
                zxid: record.zxid,
                content: content_of(&record.txn),
            },
            Effect::Disk(DiskOrder::TakeOver { last, .. }) => Self::TakesOver { last: *last },
            Effect::Disk(DiskOrder::SaveMembers {
                file: MemberFile::Committed { list, .. },
                ..
            }) => Self::InstalledConfig {
                version: Zxid(list.version.0),
            },
            Effect::Disk(DiskOrder::SaveAcceptedEpoch(epoch)) => {
                Self::SavesAccepted { epoch: *epoch }
            }
            Effect::Disk(DiskOrder::SaveCurrentEpoch(epoch)) => {
                Self::SavesCurrent { epoch: *epoch }
            }
            _ => return None,
        })
    }

    /// Returns the fact about an event that the replica reports.
    pub fn of_note(note: &Note<'_>) -> Option<Self> {
        Some(match note {
            Note::ReceivedByLearner(packet) => from_leader(packet)?,
            Note::LeaderLeft(Fault::Unexpected { .. }) => Self::RefusedSync {},
            Note::LeadingBegins => Self::Established {},
            _ => return None,
        })
    }
}

/// Returns the fact about a packet from a learner.
fn of_learner(link: LinkId, packet: &LearnerPacket) -> Option<Fact> {
    Some(match packet {
        LearnerPacket::FollowerInfo {
            accepted_epoch,
            info: Some(info),
        } => Fact::MetLearner {
            link,
            sid: info.sid,
            accepted: *accepted_epoch,
        },
        LearnerPacket::AckEpoch { .. } => Fact::ReceivedAckEpoch { link },
        LearnerPacket::Ack { zxid } => Fact::ReceivedAck { link, zxid: *zxid },
        _ => return None,
    })
}

/// Returns the fact about a packet to the leader.
fn to_leader(packet: &LearnerPacket) -> Option<Fact> {
    Some(match packet {
        LearnerPacket::FollowerInfo { accepted_epoch, .. } => Fact::SentFollowerInfo {
            accepted: *accepted_epoch,
        },
        LearnerPacket::AckEpoch {
            last_logged,
            current_epoch,
        } => Fact::SentAckEpoch {
            last: *last_logged,
            current: *current_epoch,
        },
        _ => return None,
    })
}

/// Returns the fact about a packet to a learner.
fn to_learner(link: LinkId, packet: &LeaderPacket) -> Option<Fact> {
    Some(match packet {
        LeaderPacket::Diff { zxid } => Fact::SentDiff { link, zxid: *zxid },
        LeaderPacket::Trunc { zxid } => Fact::SentTrunc { link, zxid: *zxid },
        LeaderPacket::NewLeader { .. } => Fact::SentNewLeader { link },
        _ => return None,
    })
}

/// Returns the fact about a packet from the leader.
fn from_leader(packet: &LeaderPacket) -> Option<Fact> {
    Some(match packet {
        LeaderPacket::Diff { zxid } => Fact::ReceivedDiff { zxid: *zxid },
        LeaderPacket::Trunc { zxid } => Fact::ReceivedTrunc { zxid: *zxid },
        LeaderPacket::Snap { zxid } => Fact::ReceivedSnap { zxid: *zxid },
        LeaderPacket::Proposal { zxid, txn } => Fact::ReceivedProposal {
            zxid: *zxid,
            content: content_of(txn),
        },
        LeaderPacket::Commit { zxid } => Fact::ReceivedCommit { zxid: *zxid },
        LeaderPacket::CommitAndActivate {
            zxid,
            designated_leader,
        } => Fact::ReceivedCommitAndActivate {
            zxid: *zxid,
            designated: *designated_leader,
        },
        LeaderPacket::NewLeader { zxid, .. } => Fact::ReceivedNewLeader {
            epoch: zxid.epoch(),
        },
        LeaderPacket::UpToDate => Fact::ReceivedUpToDate {},
        _ => return None,
    })
}
