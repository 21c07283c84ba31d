//! Where a reaction of ours to wrong input differs from Java's. What is meant stands in
//! docs/COMPATIBILITY.md.

use proto::learner::LearnerPacket;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Differs {
    /// Leaves where Java goes on.
    Leaves,
    /// Acknowledges a proposal that comes twice once.
    SaysLess,
    /// Bytes that are no packet and transactions that do not decode are for the host.
    InHost,
}

const FOLLOWER: &str = "reactions-follower";
const REPEATED_ZXID: &str = "reactions-undecodable-request";

pub(crate) const DIFFERS: &[(&str, u64, Differs)] = &[
    (FOLLOWER, 8, Differs::InHost),
    (FOLLOWER, 9, Differs::InHost),
    (FOLLOWER, 34, Differs::InHost),
    (FOLLOWER, 35, Differs::InHost),
    // A commit that matches no proposal, and UPTODATE without NEWLEADER, in synchronisation.
    (FOLLOWER, 21, Differs::Leaves),
    (FOLLOWER, 25, Differs::Leaves),
    // A hole inside an epoch.
    (FOLLOWER, 31, Differs::Leaves),
    (FOLLOWER, 32, Differs::SaysLess),
    // For a request that it cannot decode, a Java leader proposes something else under the zxid
    // of the transaction before.
    (REPEATED_ZXID, 19, Differs::SaysLess),
    (REPEATED_ZXID, 20, Differs::SaysLess),
];

pub(crate) fn differs(file: &str, conn: u64) -> Option<Differs> {
    let mut known = DIFFERS.iter();
    let known = known.find(|(in_file, on, _)| *in_file == file && *on == conn);
    known.map(|(_, _, differs)| *differs)
}

/// Leaves out the second acknowledgement of the transaction that came twice, which must be there.
pub(crate) fn acknowledge_once(said: &mut Vec<LearnerPacket>) {
    let len = said.len();
    said.dedup_by(|next, last| next == last && is_transaction(next));
    assert_eq!(said.len() + 1, len, "acknowledged twice, one of them");
}

fn is_transaction(packet: &LearnerPacket) -> bool {
    matches!(packet, LearnerPacket::Ack { zxid } if zxid.counter() != 0)
}
