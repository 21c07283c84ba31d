//! Tests of the transfer of a tree from a leader to a learner.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use bytes::Bytes;
use jute::{Decode, Encode, Reader, put_str};
use proto::leader::{LeaderPacket, SNAPSHOT_SIGNATURE};
use proto::txn::{CreateTxn, SetDataTxn, Txn, TxnHeader, TxnRecord};
use proto::{Acl, Epoch, Id, SessionId, Zxid};
use tree::Watches;
use zab::leader::{LinkFault, LinkId};

use replica::{Input, LeaderEvent, LearnerEvent, Port, State};

use super::support::{
    Content, TestMember, bytes_of, grown_tree, is_closed, of_leader, raw_leader, raw_learner,
    write_packet,
};
use crate::peer::LearnerPort;

const ZXID: Zxid = Zxid(0x5_0000_1234);

fn new_leader() -> LeaderPacket {
    let zxid = Zxid::new(Epoch(6), 0);
    LeaderPacket::NewLeader { zxid, config: None }
}

fn body_of(tree: &tree::Tree) -> Vec<u8> {
    let (mut cursor, mut bytes) = (tree.start_snapshot(), Vec::new());
    while tree.snapshot_chunk(&mut cursor, 1 << 20, &mut bytes) {}
    bytes
}

fn signature() -> Vec<u8> {
    let mut bytes = Vec::new();
    put_str(Some(SNAPSHOT_SIGNATURE), &mut bytes);
    bytes
}

#[test]
fn a_tree_arrives_equal_and_in_packet_order() {
    let site = TestMember::new();
    site.state.replace_tree(grown_tree(ZXID, 5000, 200));
    let (port, address) = site.open_port();
    let connection = site.dial(1, &[address]);
    let link = site.learner_connected();
    site.leader_connected();
    port.send(link, LeaderPacket::leader_info(Epoch(6)));
    port.send_snapshot(link, ZXID);
    let behind = [new_leader(), LeaderPacket::UpToDate];
    for packet in &behind {
        port.send(link, packet.clone());
    }
    port.flush();
    let expected = [
        LeaderPacket::leader_info(Epoch(6)),
        LeaderPacket::Snap { zxid: ZXID },
    ];
    assert_eq!(site.leader_packets(2), expected);
    connection.receive_snapshot();
    let tree = site.snapshot_received();
    assert_eq!(site.leader_packets(2), behind);
    let told = site.at_leader().input;
    let Input::Learner(Port::Learners, LearnerEvent::SnapshotSent { link: sent }) = told else {
        panic!("{told:?}");
    };
    assert_eq!(sent, link);

    let sent = site.state.tree.read();
    assert!(sent.node_count() > 5000 && sent.sessions().len() == 50);
    assert!(sent.ephemerals_count() > 0);
    assert_eq!(tree.last_zxid(), ZXID);
    assert_eq!(tree.digest(), sent.digest());
    assert_eq!(Content::of_tree(&tree), Content::of_tree(&sent));
}

/// Returns a transaction that changes a tree from [`grown_tree`]. `number` determines its zxid.
fn change(number: i64) -> TxnRecord {
    let znode = |at: i64| jute::Str::from(format!("/top-{:06}/n-{at}", at - at % 10));
    let txn = match number % 3 {
        0 => Txn::Create(CreateTxn {
            path: format!("/new-{number}").into(),
            data: Some(Bytes::from_static(b"new")),
            acl: vec![Acl {
                perms: number as i32 % 31,
                id: Id {
                    scheme: "world".into(),
                    id: "anyone".into(),
                },
            }],
            ephemeral: false,
            parent_cversion: number as i32,
        }),
        1 => Txn::Delete {
            path: znode(10 * number + 1),
        },
        _ => Txn::SetData(SetDataTxn {
            path: znode(10 * number + 2),
            data: None,
            version: 4,
        }),
    };
    let header = TxnHeader {
        session: SessionId(1),
        cxid: 0,
        zxid: Zxid(ZXID.0 + 1 + number),
        time_ms: 1_700_000_000_000 + number,
        op: txn.op().number(),
    };
    TxnRecord {
        header,
        txn,
        digest: None,
    }
}

#[test]
fn changes_during_the_transfer_follow_the_tree() {
    let site = TestMember::new();
    site.state.replace_tree(grown_tree(ZXID, 3000, 16 << 10));
    let (port, address) = site.open_port();
    let connection = site.dial(1, &[address]);
    let link = site.learner_connected();
    port.send_snapshot(link, ZXID);
    let (mut watches, mut events) = (Watches::default(), Vec::new());
    let changes: Vec<_> = (0..290).map(change).collect();
    // The learner does not read yet, so most of the tree is still unread.
    site.leader_connected();
    site.leader_packets(1);
    for record in &changes {
        let mut tree = site.state.tree.write();
        tree.apply(record, &mut watches, &mut events);
        drop(tree);
        let (zxid, txn) = (record.header.zxid, record.to_bytes());
        port.send(link, LeaderPacket::Proposal { zxid, txn });
        port.flush();
    }
    connection.receive_snapshot();
    let mut tree = site.snapshot_received();
    assert_eq!(tree.last_zxid(), ZXID);
    for packet in site.leader_packets(changes.len()) {
        let LeaderPacket::Proposal { txn, .. } = packet else {
            panic!("{packet:?}");
        };
        let record = TxnRecord::decode(&mut Reader::new(txn)).unwrap();
        tree.apply(&record, &mut watches, &mut events);
    }
    let sent = site.state.tree.read();
    assert_eq!(tree.digest(), sent.digest());
    assert_eq!(Content::of_tree(&tree), Content::of_tree(&sent));
}

#[test]
fn the_bytes_equal_a_java_leaders() {
    let site = TestMember::new();
    site.state.replace_tree(grown_tree(ZXID, 30, 10));
    let (port, address) = site.open_port();
    let mut learner = raw_learner(address);
    let link = site.learner_connected();
    port.send_snapshot(link, ZXID);
    port.send(link, new_leader());
    port.flush();
    // SNAP, sessions, ACL map, znodes, "/", "BenWasHere", in this order and without other data.
    let expected = [
        bytes_of(LeaderPacket::Snap { zxid: ZXID }),
        body_of(&site.state.tree.read()),
        signature(),
        bytes_of(new_leader()),
    ]
    .concat();
    let mut read = vec![0; expected.len()];
    learner.read_exact(&mut read).unwrap();
    assert_eq!(read, expected);
}

/// Returns a learner that has read the first bytes of a snapshot. The snapshot is larger than all
/// socket buffers.
fn within_a_snapshot(site: &TestMember) -> (LearnerPort, LinkId, TcpStream) {
    site.state.replace_tree(grown_tree(ZXID, 400, 128 << 10));
    let (port, address) = site.open_port();
    let mut learner = raw_learner(address);
    let link = site.learner_connected();
    port.send_snapshot(link, ZXID);
    learner.read_exact(&mut [0; 1000]).unwrap();
    (port, link, learner)
}

#[test]
fn a_link_is_closed_while_its_snapshot_is_sent() {
    let site = TestMember::new();
    let (port, link, learner) = within_a_snapshot(&site);
    port.close(link, &LinkFault::Throttled);
    assert!(is_closed(&learner));
    drop(port);
    let (port, _, learner) = within_a_snapshot(&site);
    port.close_all();
    assert!(is_closed(&learner));
    drop(port);
    let (port, link, learner) = within_a_snapshot(&site);
    port.send(link, new_leader());
    port.hand_over();
    assert!(is_closed(&learner));
    drop(port);
    site.wait_for_silence();
    // The snapshot was not sent completely, so its end is not reported.
    assert!(site.at_leader_within(Duration::ZERO).is_none());
}

#[test]
fn a_learner_disconnects_during_its_snapshot() {
    let site = TestMember::new();
    let (_port, link, learner) = within_a_snapshot(&site);
    drop(learner);
    site.learner_closed(link);
}

#[test]
fn a_replaced_tree_is_not_sent() {
    let site = TestMember::new();
    let (_port, link, learner) = within_a_snapshot(&site);
    site.state.replace_tree(grown_tree(ZXID, 3, 1));
    assert!(is_closed(&learner));
    let reason = site.learner_closed(link);
    assert!(reason.contains("replaced"), "{reason}");
}

/// Sends these bytes to a learner that has received a SNAP packet. Returns the error.
fn receive(site: &TestMember, attempt: u64, bytes: &[u8]) -> String {
    let (listener, leader) = raw_leader();
    let connection = site.dial(attempt, &[leader]);
    let (mut stream, _) = listener.accept().unwrap();
    site.leader_connected();
    write_packet(&stream, LeaderPacket::Snap { zxid: ZXID });
    assert_eq!(site.leader_packets(1), [LeaderPacket::Snap { zxid: ZXID }]);
    connection.receive_snapshot();
    // A learner that has detected the fault closes the connection.
    let _ = stream.write_all(bytes);
    drop(stream);
    site.snapshot_damaged()
}

#[test]
fn a_corrupt_snapshot_is_reported() {
    let site = TestMember::new();
    let body = body_of(&grown_tree(ZXID, 100, 10));
    let cut = receive(&site, 1, &body[..body.len() / 2]);
    assert!(cut.contains("ends early"), "{cut}");
    let unsigned = receive(&site, 2, &body);
    assert!(unsigned.contains("ended within"), "{unsigned}");
    for wrong in [&b"BenWasThere"[..], b"BenWasGone", b""] {
        let mut signed = body.clone();
        (wrong.len() as i32).encode(&mut signed);
        signed.extend_from_slice(wrong);
        let reason = receive(&site, 3, &signed);
        assert!(reason.contains("signature"), "{reason}");
    }
    let mut twice = body.clone();
    // A second root znode replaces the end marker.
    twice.truncate(body.len() - 5);
    twice.extend_from_slice(&[0; 4 + 4 + 8 + 60]);
    let reason = receive(&site, 4, &twice);
    assert!(reason.contains("twice"), "{reason}");
    let long = receive(&site, 5, &[&[0; 8][..], &i32::MAX.to_be_bytes()].concat());
    assert!(long.contains("unreasonable length"), "{long}");
    let many = receive(&site, 6, &i32::MAX.to_be_bytes());
    assert!(many.contains("ends early"), "{many}");
}

#[test]
fn a_slow_snapshot_reports_progress_and_can_be_abandoned() {
    let site = TestMember::new();
    let (listener, leader) = raw_leader();
    let connection = site.dial(1, &[leader]);
    let (mut stream, _) = listener.accept().unwrap();
    site.leader_connected();
    write_packet(&stream, LeaderPacket::Snap { zxid: ZXID });
    site.leader_packets(1);
    // The learner does not read before the core is ready.
    let body = body_of(&grown_tree(ZXID, 1000, 100));
    stream.write_all(&body[..100]).unwrap();
    assert!(site.at_learner_within(Duration::from_millis(20)).is_none());
    connection.receive_snapshot();
    let mut pieces = body[100..].chunks(10);
    let event = loop {
        stream.write_all(pieces.next().unwrap()).unwrap();
        if let Some(event) = site.at_learner_within(Duration::from_millis(5)) {
            break event;
        }
    };
    let (attempt, event) = of_leader(event.input);
    assert!(
        matches!((attempt, &event), (1, LeaderEvent::SnapshotProgress)),
        "{event:?}"
    );
    drop(connection);
    assert!(is_closed(&stream));
    // The thread that loaded the snapshot has also ended.
    site.wait_for_silence();
    while let Some(event) = site.at_learner_within(Duration::ZERO) {
        let (_, event) = of_leader(event.input);
        assert!(matches!(event, LeaderEvent::SnapshotProgress), "{event:?}");
    }
}
