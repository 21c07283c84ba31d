//! Packets in flight between a leader and a learner, as values of the model.

use config::membership::Membership;
use jute::{Decode as _, Reader};
use proto::leader::LeaderPacket;
use proto::learner::LearnerPacket;
use proto::packet::{Extent, QuorumPacket};
use proto::txn::{Txn, TxnRecord};
use proto::{Epoch, Zxid};
use simulation::network::{Connection, Message};

use super::value::{NOTHING, Value};

/// Factor of the epoch in the model's zxids. The counter is added.
const EPOCH: i64 = 100_000;

/// End of a connection that belongs to the learner, which has dialled.
pub(super) const LEARNER: usize = 0;

/// End of a connection that belongs to the leader.
pub(super) const LEADER: usize = 1;

/// An item in flight.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Item {
    /// A packet with this length, bytes. The model does not contain a packet without a value.
    Packet(Option<Value>, usize),
    /// Part of a tree.
    Tree,
    /// The end of the connection.
    End,
}

/// Returns a zxid of the model.
pub(super) fn zxid_of(zxid: Zxid) -> i64 {
    if zxid.0 < 0 {
        zxid.0
    } else {
        zxid.epoch().0 * EPOCH + i64::from(zxid.counter())
    }
}

/// Returns the zxid that has this number in the model.
pub(super) fn zxid_in_code(zxid: i64) -> Zxid {
    let counter = u32::try_from(zxid % EPOCH).unwrap_or(0);
    Zxid::new(Epoch(zxid / EPOCH), counter)
}

/// Returns a transaction of the model: its zxid, its number, which is its session, and the voters
/// that it installs.
pub(super) fn transaction(txn: &TxnRecord) -> Value {
    let voters = match &txn.txn {
        Txn::Reconfig(set) => configuration(set.data.as_deref().unwrap_or_default())
            .field("voters")
            .clone(),
        _ => Value::Set(Vec::new()),
    };
    Value::Sequence(vec![
        Value::Number(zxid_of(txn.header.zxid)),
        Value::Number(txn.header.session.0),
        voters,
    ])
}

/// Returns a configuration of the model.
pub(super) fn configuration_of(list: &Membership) -> Value {
    let voters = list
        .participants()
        .map(|member| Value::Number(member.sid.0));
    Value::record([
        ("version", Value::Number(zxid_of(Zxid(list.version.0)))),
        ("voters", Value::set(voters.collect())),
    ])
}

/// Returns the configuration with this text, or [`NOTHING`] for any other text.
fn configuration(text: &[u8]) -> Value {
    let list = Membership::parse(&String::from_utf8_lossy(text), false);
    list.map_or(NOTHING.clone(), |list| configuration_of(&list))
}

/// Returns what has been sent from one end of a connection and not received.
pub(super) fn in_flight(connection: &Connection, from_end: usize) -> Vec<Item> {
    let (mut items, mut bytes) = (Vec::new(), Vec::new());
    for message in connection.in_flight(from_end) {
        match message {
            Message::Packets(more) => bytes.extend_from_slice(more),
            Message::Tree(..) => items.push(Item::Tree),
            Message::End => items.push(Item::End),
            _ => {}
        }
        while let Ok(Some(Extent::Whole(len))) = QuorumPacket::extent(&bytes, testkit::LIMITS) {
            let packet: Vec<u8> = bytes.drain(..len).collect();
            let value = QuorumPacket::decode(&mut Reader::new(packet)).ok();
            let value = value.and_then(|packet| match from_end {
                LEADER => of_leader(LeaderPacket::try_from(packet).ok()?),
                _ => of_learner(LearnerPacket::try_from(packet).ok()?),
            });
            items.push(Item::Packet(value, len));
        }
    }
    items
}

fn packet(kind: &str, content: impl IntoIterator<Item = Value>) -> Option<Value> {
    let kind = Value::Word(kind.to_owned());
    Some(Value::Sequence([kind].into_iter().chain(content).collect()))
}

fn of_leader(of: LeaderPacket) -> Option<Value> {
    let zxid_of = |zxid| Value::Number(zxid_of(zxid));
    match of {
        LeaderPacket::LeaderInfo { epoch, .. } => packet("LEADERINFO", [Value::Number(epoch.0)]),
        // The zxid is informative.
        LeaderPacket::Diff { .. } => packet("DIFF", []),
        LeaderPacket::Trunc { zxid } => packet("TRUNC", [zxid_of(zxid)]),
        LeaderPacket::Snap { zxid } => packet("SNAP", [zxid_of(zxid)]),
        LeaderPacket::Proposal { zxid, txn } => {
            let txn = TxnRecord::decode(&mut Reader::new(txn)).ok();
            let txn = txn.filter(|txn| txn.header.zxid == zxid);
            packet("PROPOSAL", txn.map(|txn| transaction(&txn)))
        }
        LeaderPacket::Commit { zxid } => packet("COMMIT", [zxid_of(zxid)]),
        LeaderPacket::CommitAndActivate {
            zxid,
            designated_leader,
        } => packet(
            "COMMITANDACTIVATE",
            [zxid_of(zxid), Value::Number(designated_leader.0)],
        ),
        LeaderPacket::NewLeader { zxid, config } => {
            let epoch = Value::Number(zxid.epoch().0);
            packet(
                "NEWLEADER",
                [epoch, configuration(&config.unwrap_or_default())],
            )
        }
        LeaderPacket::UpToDate => packet("UPTODATE", []),
        _ => None,
    }
}

fn of_learner(of: LearnerPacket) -> Option<Value> {
    match of {
        LearnerPacket::FollowerInfo {
            accepted_epoch,
            info,
        } => {
            let version = info.and_then(|info| info.config_version).map(Zxid);
            let version = version.map(|version| Value::Number(zxid_of(version)));
            let accepted = Value::Number(accepted_epoch.0);
            packet("FOLLOWERINFO", [accepted].into_iter().chain(version))
        }
        LearnerPacket::AckEpoch {
            last_logged,
            current_epoch,
        } => {
            let current = current_epoch.map_or(-1, |epoch| epoch.0);
            let last = Value::Number(zxid_of(last_logged));
            packet("ACKEPOCH", [last, Value::Number(current)])
        }
        LearnerPacket::Ack { zxid } => packet("ACK", [Value::Number(zxid_of(zxid))]),
        _ => None,
    }
}

/// Returns a packet of the model without the content that is not compared: the zxid of DIFF, and the
/// tree of SNAP.
pub(super) fn compared(packet: &Value) -> Value {
    let compared = match packet.of(0).word() {
        "DIFF" => 1,
        "SNAP" => 2,
        _ => usize::MAX,
    };
    Value::Sequence(packet.items().iter().take(compared).cloned().collect())
}

/// Returns whether a packet from a learner to its leader is the second acknowledgement of an epoch,
/// in a state of the model. A follower repeats the acknowledgement after UPTODATE, and its leader
/// ignores it. The model omits it.
pub(super) fn repeats_ack(state: &Value, learner: usize, leader: usize) -> impl Fn(&Value) -> bool {
    let link = state.field("leader").of(leader).field("link").of(learner);
    let is_second = link.word() == "BROADCAST";
    move |packet| is_second && packet.of(0).word() == "ACK" && packet.of(1).number() % EPOCH == 0
}
