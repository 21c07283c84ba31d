//! Reactions to wrong input that deliberately differ from Java's. docs/COMPATIBILITY.md gives the
//! reasons.

use proto::learner::LearnerPacket;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Differs {
    /// Leaves where Java continues.
    Leaves,
    /// Acknowledges a repeated proposal only once.
    SaysLess,
    /// The host handles bytes that are not a packet, and transactions that do not decode.
    InHost,
}

const FOLLOWER: &str = "reactions-follower";
const REPEATED_ZXID: &str = "reactions-undecodable-request";

pub(crate) const DIFFERS: &[(&str, u64, Differs)] = &[
    (FOLLOWER, 8, Differs::InHost),
    (FOLLOWER, 9, Differs::InHost),
    (FOLLOWER, 34, Differs::InHost),
    (FOLLOWER, 35, Differs::InHost),
    // During synchronisation: a commit that does not match a proposal, and UPTODATE without
    // NEWLEADER.
    (FOLLOWER, 21, Differs::Leaves),
    (FOLLOWER, 25, Differs::Leaves),
    // A hole inside an epoch.
    (FOLLOWER, 31, Differs::Leaves),
    (FOLLOWER, 32, Differs::SaysLess),
    // For a request that it cannot decode, a Java leader proposes another transaction under the
    // previous zxid.
    (REPEATED_ZXID, 19, Differs::SaysLess),
    (REPEATED_ZXID, 20, Differs::SaysLess),
];

pub(crate) fn differs(file: &str, conn: u64) -> Option<Differs> {
    let mut known = DIFFERS.iter();
    let known = known.find(|(in_file, on, _)| *in_file == file && *on == conn);
    known.map(|(_, _, differs)| *differs)
}

/// Removes the second acknowledgement of the repeated transaction, which must exist.
pub(crate) fn acknowledge_once(said: &mut Vec<LearnerPacket>) {
    let len = said.len();
    said.dedup_by(|next, last| next == last && is_transaction(next));
    assert_eq!(said.len() + 1, len, "acknowledged twice, one of them");
}

fn is_transaction(packet: &LearnerPacket) -> bool {
    matches!(packet, LearnerPacket::Ack { zxid } if zxid.counter() != 0)
}
