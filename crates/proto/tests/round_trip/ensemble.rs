//! Messages between servers.

use jute::Encode;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use zoarium_proto::hello::{Endpoint, Hello, HelloAddresses, QuorumAuthPacket};
use zoarium_proto::leader::LeaderPacket;
use zoarium_proto::learner::{LearnerInfo, LearnerPacket, LearnerRequest, Touch};
use zoarium_proto::notification::{Form, Notification, PeerState};
use zoarium_proto::packet::{Extent, QuorumPacket};
use zoarium_proto::{ElectionRound, Zxid};

use crate::check;
use crate::parts::*;

fn packet() -> impl Strategy<Value = QuorumPacket> {
    let authinfo = option::of(vec(id(), 0..3));
    (0..25i32, zxid(), nullable_bytes(), authinfo).prop_map(
        |(packet_type, zxid, data, authinfo)| QuorumPacket {
            packet_type,
            zxid,
            data,
            authinfo,
        },
    )
}

fn touch() -> impl Strategy<Value = Touch> {
    (session(), any::<i32>()).prop_map(|(session, timeout_ms)| Touch {
        session,
        timeout_ms,
    })
}

fn learner_info() -> impl Strategy<Value = LearnerInfo> {
    let versions = option::of((any::<i32>(), option::of(any::<i64>())));
    (sid(), versions).prop_map(|(sid, versions)| LearnerInfo {
        sid,
        protocol_version: versions.map(|(protocol, _)| protocol),
        config_version: versions.and_then(|(_, config)| config),
    })
}

fn learner_request() -> impl Strategy<Value = LearnerRequest> {
    let authinfo = option::of(vec(id(), 0..3));
    (session(), any::<i32>(), any::<i32>(), bytes(), authinfo).prop_map(
        |(session, cxid, op, body, authinfo)| LearnerRequest {
            session,
            cxid,
            op,
            body,
            authinfo,
        },
    )
}

fn learner_packet() -> impl Strategy<Value = LearnerPacket> {
    use LearnerPacket as P;
    let info = || option::of(learner_info());
    let current_epoch =
        option::of((0..i32::MAX).prop_map(|epoch| zoarium_proto::Epoch(epoch.into())));
    prop_oneof![
        (epoch(), info()).prop_map(|(accepted_epoch, info)| P::FollowerInfo {
            accepted_epoch,
            info
        }),
        (epoch(), info()).prop_map(|(accepted_epoch, info)| P::ObserverInfo {
            accepted_epoch,
            info
        }),
        (zxid(), current_epoch).prop_map(|(last_logged, current_epoch)| P::AckEpoch {
            last_logged,
            current_epoch
        }),
        zxid().prop_map(|zxid| P::Ack { zxid }),
        (zxid(), vec(touch(), 0..5)).prop_map(|(zxid, touched)| P::Ping { zxid, touched }),
        touch().prop_map(P::Revalidate),
        learner_request().prop_map(P::Request),
        (zxid(), any::<u64>()).prop_map(|(zxid, digest)| P::DigestDiffers { zxid, digest }),
        (zxid(), any::<u64>()).prop_map(|(zxid, digest)| P::Digest { zxid, digest }),
        (20..99i32).prop_map(|packet_type| P::Other { packet_type }),
    ]
}

fn leader_packet() -> impl Strategy<Value = LeaderPacket> {
    use LeaderPacket as P;
    prop_oneof![
        (epoch(), any::<i32>()).prop_map(|(epoch, protocol_version)| P::LeaderInfo {
            epoch,
            protocol_version
        }),
        zxid().prop_map(|zxid| P::Diff { zxid }),
        zxid().prop_map(|zxid| P::Trunc { zxid }),
        zxid().prop_map(|zxid| P::Snap { zxid }),
        (zxid(), nullable_bytes()).prop_map(|(zxid, config)| P::NewLeader { zxid, config }),
        Just(P::UpToDate),
        (zxid(), bytes()).prop_map(|(zxid, txn)| P::Proposal { zxid, txn }),
        zxid().prop_map(|zxid| P::Commit { zxid }),
        (zxid(), bytes()).prop_map(|(zxid, txn)| P::Inform { zxid, txn }),
        (zxid(), sid()).prop_map(|(zxid, designated_leader)| P::CommitAndActivate {
            zxid,
            designated_leader
        }),
        (zxid(), sid(), bytes()).prop_map(|(zxid, designated_leader, txn)| {
            P::InformAndActivate {
                zxid,
                designated_leader,
                txn,
            }
        }),
        zxid().prop_map(|zxid| P::Ping { zxid }),
        (session(), any::<bool>())
            .prop_map(|(session, is_valid)| P::Revalidate { session, is_valid }),
        Just(P::Sync),
        zxid().prop_map(|zxid| P::DigestAsked { zxid }),
        (zxid(), any::<Option<u64>>()).prop_map(|(zxid, agreed)| P::DigestJudged { zxid, agreed }),
        (20..99i32).prop_map(|packet_type| P::Other { packet_type }),
    ]
}

fn notification() -> impl Strategy<Value = Notification> {
    let form = prop_oneof![
        Just(Form::WithoutEpoch),
        any::<i32>().prop_map(|unread| Form::WithoutConfig { unread }),
        (2..i32::MAX, bytes()).prop_map(|(version, config)| Form::Versioned {
            version,
            config: Some(config)
        }),
    ];
    (any::<i32>(), any::<[i64; 4]>(), form).prop_map(|(state, longs, form)| {
        let [leader, zxid, round, peer_epoch] = longs;
        let zxid = Zxid(zxid);
        Notification {
            state: PeerState::from_i32(state),
            leader: zoarium_proto::Sid(leader),
            zxid,
            round: ElectionRound(round),
            peer_epoch: match form {
                Form::WithoutEpoch => zxid.epoch(),
                _ => zoarium_proto::Epoch(peer_epoch),
            },
            form,
        }
    })
}

fn hello() -> impl Strategy<Value = Hello> {
    let host = prop_oneof!["[a-z0-9.-]{1,20}", "[0-9a-f]{1,4}::[0-9a-f]{1,4}"];
    let endpoint = (host, any::<u16>()).prop_map(|(host, port)| Endpoint { host, port });
    let endpoints = vec(endpoint, 1..4);
    let addresses = prop_oneof![
        Just(HelloAddresses::Legacy),
        endpoints.clone().prop_map(HelloAddresses::One),
        endpoints.prop_map(HelloAddresses::Many),
    ];
    (any::<i64>(), addresses).prop_map(|(sid, addresses)| {
        // Without addresses, only a non-negative number is valid.
        let legacy = addresses == HelloAddresses::Legacy;
        let sid = zoarium_proto::Sid(if legacy { sid & i64::MAX } else { sid });
        Hello { sid, addresses }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn quorum_packets(packet in packet()) {
        check(&packet)?;
        let bytes = packet.to_bytes();
        let len = QuorumPacket::extent(&bytes, testkit::LIMITS);
        prop_assert_eq!(len, Ok(Some(Extent::Whole(bytes.len()))));
    }

    #[test]
    fn packets_of_learners(packet in learner_packet()) {
        let wire = QuorumPacket::from(packet.clone());
        check(&wire)?;
        prop_assert_eq!(LearnerPacket::try_from(wire), Ok(packet));
    }

    #[test]
    fn packets_of_leaders(packet in leader_packet()) {
        let wire = QuorumPacket::from(packet.clone());
        check(&wire)?;
        prop_assert_eq!(LeaderPacket::try_from(wire), Ok(packet));
    }

    #[test]
    fn records_of_packets(touch in touch(), info in learner_info(), token in nullable_bytes()) {
        check(&touch)?;
        check(&info)?;
        check(&QuorumAuthPacket { magic: QuorumAuthPacket::MAGIC, status: 1, token: token.into() })?;
    }

    #[test]
    fn notifications(notification in notification()) {
        let mut out = Vec::new();
        notification.encode_frame(&mut out);
        let frame = out.split_off(4);
        // Only the length determines the form, and this is the length of the form without a
        // configuration.
        prop_assume!(frame.len() != 40 || notification.config().is_none());
        prop_assert_eq!(Notification::decode(frame.into()), Ok(notification));
    }

    #[test]
    fn hellos(hello in hello()) {
        let mut out = Vec::new();
        hello.encode(&mut out).unwrap();
        let len = out.len();
        prop_assert_eq!(Hello::decode(&out), Ok(Some((hello, len))));
    }
}
