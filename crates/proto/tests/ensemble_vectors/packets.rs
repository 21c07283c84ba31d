//! Recordings of quorum connections.

use bytes::Bytes;
use jute::{Decode, DecodeError, Encode, Reader};
use serde_json::Value;
use zoarium_proto::leader::LeaderPacket;
use zoarium_proto::learner::{LearnerPacket, LearnerRequest, Touch};
use zoarium_proto::packet::{Extent, PacketType, QuorumPacket};
use zoarium_proto::request::Request;
use zoarium_proto::txn::TxnRecord;
use zoarium_proto::{OpCode, OpKind};

use crate::record::{Record, hex_long, unhex};

pub(crate) fn check(record: &Record) {
    let (bytes, place) = (record.bytes(), record.place());
    let len = QuorumPacket::extent(&bytes, testkit::LIMITS);
    assert_eq!(len, Ok(Some(Extent::Whole(bytes.len()))), "{place}");
    let packet = QuorumPacket::decode(&mut Reader::new(bytes.clone())).unwrap();
    assert_eq!(packet.to_bytes(), bytes, "{place}");

    assert_eq!(packet.zxid.0, record.zxid(), "{place}");
    let name = PacketType::from_i32(packet.packet_type).map_or("UNKNOWN", PacketType::name);
    assert_eq!(name, record.text("type"), "{place}");
    check_authinfo(record, &packet);
    if record.get("data").is_string() {
        let data = unhex(record.text("data"));
        assert_eq!(packet.data.as_deref(), Some(&data[..]), "{place}");
    }
    if record.is_from_leader() {
        check_leader(record, packet);
    } else {
        check_learner(record, packet);
    }
}

fn check_authinfo(record: &Record, packet: &QuorumPacket) {
    let ids = packet.authinfo.as_ref().map(|ids| {
        let pairs = ids
            .iter()
            .map(|id| (Some(&id.scheme[..]), Some(&id.id[..])));
        pairs.collect::<Vec<_>>()
    });
    let expected = record.get("authinfo").as_array().map(|ids| {
        let pairs = ids
            .iter()
            .map(|id| (id["scheme"].as_str(), id["id"].as_str()));
        pairs.collect::<Vec<_>>()
    });
    assert_eq!(ids, expected, "{}", record.place());
}

fn check_leader(record: &Record, packet: QuorumPacket) {
    let place = record.place();
    let understood = match LeaderPacket::try_from(packet.clone()) {
        Ok(understood) => understood,
        Err(error) => {
            assert_sent_on_purpose(record, &packet, &error);
            return;
        }
    };
    match &understood {
        LeaderPacket::Proposal { txn, .. } | LeaderPacket::Inform { txn, .. } => {
            check_txn(record, txn);
        }
        LeaderPacket::InformAndActivate {
            txn,
            designated_leader,
            ..
        } => {
            let sid = record.get("designatedLeader").as_i64();
            assert_eq!(Some(designated_leader.0), sid, "{place}");
            check_txn(record, txn);
        }
        LeaderPacket::CommitAndActivate {
            designated_leader, ..
        } => {
            let sid = record.get("designatedLeader").as_i64();
            assert_eq!(Some(designated_leader.0), sid, "{place}");
        }
        LeaderPacket::LeaderInfo {
            epoch,
            protocol_version,
        } => {
            assert_eq!(epoch.0, record.zxid() >> 32, "{place}");
            let version = record.get("protocolVersion").as_i64();
            assert_eq!(Some(i64::from(*protocol_version)), version, "{place}");
        }
        LeaderPacket::NewLeader { config, .. } => {
            let text = record.get("config").as_str().map(str::as_bytes);
            assert_eq!(config.as_deref(), text, "{place}");
        }
        LeaderPacket::Revalidate { session, is_valid } => {
            assert_eq!(session.0, hex_long(record.get("session")), "{place}");
            assert_eq!(Some(*is_valid), record.get("valid").as_bool(), "{place}");
        }
        LeaderPacket::Other { packet_type } => {
            assert_eq!(PacketType::from_i32(*packet_type), None, "{place}");
            return;
        }
        LeaderPacket::DigestAsked { .. } | LeaderPacket::DigestJudged { .. } => {
            panic!("{place}: a packet that only Zoarium knows")
        }
        LeaderPacket::Diff { .. }
        | LeaderPacket::Trunc { .. }
        | LeaderPacket::Snap { .. }
        | LeaderPacket::UpToDate
        | LeaderPacket::Commit { .. }
        | LeaderPacket::Ping { .. }
        | LeaderPacket::Sync => assert_eq!(packet.data, None, "{place}"),
    }
    assert_eq!(QuorumPacket::from(understood), packet, "{place}");
}

fn check_txn(record: &Record, txn: &Bytes) {
    let place = record.place();
    if record.is_undecodable() {
        assert!(TxnRecord::decode(&mut Reader::new(txn.clone())).is_err());
        return;
    }
    let mut input = Reader::new(txn.clone());
    let decoded = TxnRecord::decode(&mut input).unwrap();
    assert!(input.is_empty(), "{place}");
    assert_eq!(decoded.to_bytes(), txn, "{place}");
    let header = record.get("header");
    assert_eq!(
        decoded.header.session.0,
        hex_long(&header["session"]),
        "{place}"
    );
    assert_eq!(decoded.header.zxid.0, hex_long(&header["zxid"]), "{place}");
    assert_eq!(
        Some(decoded.header.op.into()),
        header["type"].as_i64(),
        "{place}"
    );
    assert_eq!(
        Some(decoded.header.time_ms),
        header["time"].as_i64(),
        "{place}"
    );
    let digest = record.get("digest").get("treeDigest").map(hex_long);
    assert_eq!(decoded.digest.map(|d| d.digest), digest, "{place}");
}

/// Checks that a payload is missing or wrong only if the script sent it on purpose.
fn assert_sent_on_purpose(record: &Record, packet: &QuorumPacket, error: &DecodeError) {
    let is_wrong = record.is_undecodable() || packet.data.is_none();
    assert!(
        is_wrong && record.is_reaction(),
        "{}: {error}",
        record.place()
    );
}

fn check_learner(record: &Record, packet: QuorumPacket) {
    let place = record.place();
    let understood = match LearnerPacket::try_from(packet.clone()) {
        Ok(understood) => understood,
        Err(error) => {
            assert_sent_on_purpose(record, &packet, &error);
            return;
        }
    };
    match &understood {
        LearnerPacket::FollowerInfo { info, .. } | LearnerPacket::ObserverInfo { info, .. } => {
            let long = |key: &str| record.get(key).as_i64();
            assert_eq!(info.map(|info| info.sid.0), long("serverid"), "{place}");
            let version = info.and_then(|info| info.protocol_version);
            assert_eq!(version.map(i64::from), long("protocolVersion"), "{place}");
            let config = record.get("configVersion");
            let config = config.is_string().then(|| hex_long(config));
            assert_eq!(info.and_then(|info| info.config_version), config, "{place}");
        }
        LearnerPacket::AckEpoch { current_epoch, .. } => {
            let epoch = current_epoch.map_or(-1, |epoch| epoch.0);
            assert_eq!(Some(epoch), record.get("currentEpoch").as_i64(), "{place}");
        }
        LearnerPacket::Ping { touched, .. } => {
            // An empty payload is recorded as data instead of a list.
            let expected = record
                .get("touches")
                .as_array()
                .cloned()
                .unwrap_or_default();
            assert_eq!(touched.len(), expected.len(), "{place}");
            for (touch, expected) in touched.iter().zip(&expected) {
                check_touch(touch, expected, &place);
            }
        }
        LearnerPacket::Revalidate(touch) => check_touch(touch, record.fields(), &place),
        LearnerPacket::Request(request) => check_request(record, request),
        LearnerPacket::DigestDiffers { .. } | LearnerPacket::Digest { .. } => {
            panic!("{place}: a packet that only Zoarium knows")
        }
        LearnerPacket::Ack { .. } => assert_eq!(packet.data, None, "{place}"),
        LearnerPacket::Other { packet_type } => {
            // The script sent a proposal to a leader on purpose.
            let known = PacketType::from_i32(*packet_type);
            assert!(
                matches!(known, None | Some(PacketType::Proposal)),
                "{place}"
            );
            return;
        }
    }
    assert_eq!(QuorumPacket::from(understood), packet, "{place}");
}

fn check_touch(touch: &Touch, expected: &Value, place: &str) {
    assert_eq!(touch.session.0, hex_long(&expected["session"]), "{place}");
    assert_eq!(
        Some(touch.timeout_ms.into()),
        expected["timeout"].as_i64(),
        "{place}"
    );
}

fn check_request(record: &Record, request: &LearnerRequest) {
    let place = record.place();
    if record.is_undecodable() {
        let body = &mut Reader::new(request.body.clone());
        let op = request.op().unwrap();
        assert!(Request::decode(op, body).is_err(), "{place}");
        return;
    }
    assert_eq!(
        request.session.0,
        hex_long(record.get("session")),
        "{place}"
    );
    assert_eq!(
        Some(request.cxid.into()),
        record.get("cxid").as_i64(),
        "{place}"
    );
    assert_eq!(
        Some(request.op.into()),
        record.get("op").as_i64(),
        "{place}"
    );
    let Some(op) = request.op().filter(|op| op.kind() != OpKind::Internal) else {
        let is_session_or_wrong =
            request.op == OpCode::CreateSession.number() || request.op().is_none();
        assert!(is_session_or_wrong, "{place}");
        return;
    };
    let mut body = Reader::new(request.body.clone());
    Request::decode(op, &mut body).unwrap_or_else(|error| panic!("{place}: {error}"));
    assert!(body.is_empty(), "{place}");
}
