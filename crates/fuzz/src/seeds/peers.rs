//! Messages between servers.

use bytes::Bytes;
use jute::Encode;
use proto::hello::{Endpoint, Hello, HelloAddresses};
use proto::leader::LeaderPacket;
use proto::learner::{LearnerInfo, LearnerPacket, LearnerRequest, Touch};
use proto::notification::{Form, Notification, PeerState};
use proto::packet::QuorumPacket;
use proto::{ElectionRound, Epoch, Id, OpCode, Sid, Zxid};

use super::history::{SESSION, history};

/// Configuration with each kind of line.
pub(crate) const CONFIG: &str = "\
server.1=127.0.0.1:2888:3888:participant;0.0.0.0:2181
server.2=[::1]:2888:3888:participant;[::1]:2181
server.3=host.example:2888:3888|other.example:2889:3889:observer;2181
group.1=1:2
group.2=3
weight.1=1
weight.3=0
version=100000003";

fn learner_packets() -> Vec<LearnerPacket> {
    let touch = Touch {
        session: SESSION,
        timeout_ms: 30_000,
    };
    let info = Some(LearnerInfo::new(Sid(3), 0x1_0000_0003));
    let accepted_epoch = Epoch(5);
    let zxid = Zxid(0x5_0000_0009);
    let authinfo = vec![
        Id {
            scheme: "ip".into(),
            id: "127.0.0.1".into(),
        },
        Id {
            scheme: "super".into(),
            id: "".into(),
        },
    ];
    vec![
        LearnerPacket::FollowerInfo {
            accepted_epoch,
            info,
        },
        LearnerPacket::ObserverInfo {
            accepted_epoch,
            info,
        },
        LearnerPacket::AckEpoch {
            last_logged: zxid,
            current_epoch: Some(Epoch(4)),
        },
        LearnerPacket::Ack { zxid },
        LearnerPacket::Ping {
            zxid,
            touched: vec![touch; 3],
        },
        LearnerPacket::Revalidate(touch),
        LearnerPacket::Request(LearnerRequest {
            session: SESSION,
            cxid: 1,
            op: OpCode::Sync.number(),
            body: Bytes::from_static(b"\0\0\0\x02/a"),
            authinfo: Some(authinfo),
        }),
    ]
}

fn leader_packets() -> Vec<LeaderPacket> {
    let zxid = Zxid(0x5_0000_0009);
    let (records, _) = history();
    let mut packets: Vec<_> = records
        .iter()
        .map(|record| LeaderPacket::Proposal {
            zxid: record.header.zxid,
            txn: record.to_bytes(),
        })
        .collect();
    let txn = records.first().map(Encode::to_bytes).unwrap_or_default();
    packets.extend([
        LeaderPacket::leader_info(Epoch(5)),
        LeaderPacket::Diff { zxid },
        LeaderPacket::NewLeader {
            zxid,
            config: Some(Bytes::from_static(CONFIG.as_bytes())),
        },
        LeaderPacket::UpToDate,
        LeaderPacket::Commit { zxid },
        LeaderPacket::CommitAndActivate {
            zxid,
            designated_leader: Sid(2),
        },
        LeaderPacket::InformAndActivate {
            zxid,
            designated_leader: Sid(2),
            txn: txn.clone(),
        },
        LeaderPacket::Inform { zxid, txn },
        LeaderPacket::Revalidate {
            session: SESSION,
            is_valid: true,
        },
    ]);
    packets
}

/// Returns valid packets of learners and of leaders.
pub(crate) fn packets() -> Vec<Vec<u8>> {
    let learner = learner_packets().into_iter().map(QuorumPacket::from);
    let leader = leader_packets().into_iter().map(QuorumPacket::from);
    let all = learner.chain(leader);
    all.map(|packet| packet.to_bytes().to_vec()).collect()
}

/// Returns the first bytes of election connections.
pub(crate) fn hellos() -> Vec<Vec<u8>> {
    let endpoint = |host: &str| Endpoint {
        host: host.to_owned(),
        port: 3888,
    };
    let several = vec![
        endpoint("host.example"),
        endpoint("::1"),
        endpoint("0.0.0.0"),
    ];
    let forms = [
        HelloAddresses::Legacy,
        HelloAddresses::One(vec![endpoint("127.0.0.1")]),
        HelloAddresses::Many(several),
    ];
    let encoded = forms.into_iter().filter_map(|addresses| {
        let sid = Sid(3);
        let mut out = Vec::new();
        Hello { sid, addresses }.encode(&mut out).ok()?;
        Some(out)
    });
    encoded.collect()
}

/// Returns notifications without their lengths.
pub(crate) fn notifications() -> Vec<Vec<u8>> {
    let forms = [
        Form::WithoutEpoch,
        Form::WithoutConfig { unread: 1 },
        Form::Versioned {
            version: Notification::VERSION,
            config: Some(Bytes::from_static(CONFIG.as_bytes())),
        },
    ];
    let encoded = forms.into_iter().map(|form| {
        let notification = Notification {
            state: PeerState::Looking,
            leader: Sid(3),
            zxid: Zxid(0x5_0000_0009),
            round: ElectionRound(1),
            peer_epoch: Epoch(5),
            form,
        };
        let mut out = Vec::new();
        notification.encode_frame(&mut out);
        out.split_off(4)
    });
    encoded.collect()
}
