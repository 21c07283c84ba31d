//! Formatting of packets as one line, for traces and scripts.

use std::fmt;

use proto::leader::LeaderPacket;
use proto::learner::LearnerPacket;
use proto::{Epoch, Sid};

/// Text form of a packet from a leader.
pub struct LeaderPacketText<'a>(pub &'a LeaderPacket);

/// Text form of a packet from a learner.
pub struct LearnerPacketText<'a>(pub &'a LearnerPacket);

impl fmt::Display for LeaderPacketText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use LeaderPacket as P;
        match self.0 {
            P::LeaderInfo { epoch, .. } => write!(f, "LEADERINFO epoch={epoch}"),
            P::Diff { zxid } => write!(f, "DIFF {zxid}"),
            P::Trunc { zxid } => write!(f, "TRUNC {zxid}"),
            P::Snap { zxid } => write!(f, "SNAP {zxid}"),
            P::NewLeader { zxid, .. } => write!(f, "NEWLEADER {zxid}"),
            P::UpToDate => f.write_str("UPTODATE"),
            P::Proposal { zxid, txn } => write!(f, "PROPOSAL {zxid} len={}", txn.len()),
            P::Commit { zxid } => write!(f, "COMMIT {zxid}"),
            P::Inform { zxid, txn } => write!(f, "INFORM {zxid} len={}", txn.len()),
            P::CommitAndActivate {
                zxid,
                designated_leader,
            } => write!(f, "COMMITANDACTIVATE {zxid} sid={designated_leader}"),
            P::InformAndActivate {
                zxid,
                designated_leader,
                txn,
            } => {
                let len = txn.len();
                write!(
                    f,
                    "INFORMANDACTIVATE {zxid} sid={designated_leader} len={len}"
                )
            }
            P::Ping { zxid } => write!(f, "PING {zxid}"),
            P::Revalidate { session, is_valid } => {
                write!(f, "REVALIDATE session={session} valid={is_valid}")
            }
            P::Sync => f.write_str("SYNC"),
            P::DigestAsked { zxid } => write!(f, "DIGESTASKED {zxid}"),
            P::DigestJudged {
                zxid,
                agreed: Some(digest),
            } => write!(f, "DIGESTJUDGED {zxid} digest={digest:#x}"),
            P::DigestJudged { zxid, agreed: None } => write!(f, "DIGESTJUDGED {zxid} no quorum"),
            P::Other { packet_type } => write!(f, "type {packet_type}"),
        }
    }
}

impl fmt::Display for LearnerPacketText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use LearnerPacket as P;
        let info = |f: &mut fmt::Formatter<'_>, name, accepted: Epoch, sid: Option<Sid>| {
            write!(f, "{name} epoch={accepted}")?;
            sid.map_or(Ok(()), |sid| write!(f, " sid={sid}"))
        };
        match self.0 {
            P::FollowerInfo {
                accepted_epoch,
                info: who,
            } => info(f, "FOLLOWERINFO", *accepted_epoch, who.map(|who| who.sid)),
            P::ObserverInfo {
                accepted_epoch,
                info: who,
            } => info(f, "OBSERVERINFO", *accepted_epoch, who.map(|who| who.sid)),
            P::AckEpoch {
                last_logged,
                current_epoch: Some(current),
            } => write!(f, "ACKEPOCH {last_logged} epoch={current}"),
            P::AckEpoch {
                last_logged,
                current_epoch: None,
            } => write!(f, "ACKEPOCH {last_logged} promised before"),
            P::Ack { zxid } => write!(f, "ACK {zxid}"),
            P::Ping { zxid, touched } => write!(f, "PING {zxid} touched={}", touched.len()),
            P::Revalidate(touch) => write!(f, "REVALIDATE session={}", touch.session),
            P::Request(request) => {
                let (session, cxid, op) = (request.session, request.cxid, request.op);
                write!(f, "REQUEST session={session} cxid={cxid} op={op}")
            }
            P::DigestDiffers { zxid, digest } => {
                write!(f, "DIGESTDIFFERS {zxid} digest={digest:#x}")
            }
            P::Digest { zxid, digest } => write!(f, "DIGEST {zxid} digest={digest:#x}"),
            P::Other { packet_type } => write!(f, "type {packet_type}"),
        }
    }
}
