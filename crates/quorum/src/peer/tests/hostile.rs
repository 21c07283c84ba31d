//! Tests of peers that flood, do not read, or send bytes that are not packets.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proto::leader::LeaderPacket;
use proto::learner::{LearnerPacket, LearnerRequest};
use proto::packet::QuorumPacket;
use proto::{Epoch, Id, SessionId, Zxid};
use replica::{Input, LeaderEvent, LearnerEvent};

use zab::leader::LinkId;

use super::support::{
    TestMember, bytes_of, introduction, is_closed, raw_leader, raw_learner, write_packet,
};
use crate::auth::tests::auth;
use crate::limits;

/// Number of bytes that the kernel may buffer for a loopback connection, at both ends together.
const KERNEL_BYTES: usize = 24 << 20;

const FLOOD_BYTES: usize = 64 << 20;

/// Size of a large transaction.
const TXN_BYTES: usize = 1 << 20;

/// Writes `packet` repeatedly until the stream accepts no bytes for a while, or `most` bytes have
/// been written. The last packet may be incomplete. Returns the number of bytes.
fn flood(mut stream: &TcpStream, packet: &[u8], most: usize) -> usize {
    let block = packet.repeat((64 << 10) / packet.len());
    let mut written = 0;
    let mut at = 0;
    while written < most {
        match stream.write(&block[at..]) {
            Ok(len) => {
                written += len;
                at = (at + len) % block.len();
            }
            Err(error) => {
                let kind = error.kind();
                assert!(
                    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut),
                    "{error}"
                );
                break;
            }
        }
    }
    written
}

/// Strangers that only connect must not keep learners out.
#[test]
fn a_learner_is_admitted_although_silent_peers_fill_the_port() {
    let site = TestMember::new();
    let (_port, address) = site.open_port();
    let first = raw_learner(address);
    site.learner_connected();
    write_packet(&first, introduction(3));
    site.learner_packets(1);
    let silent: Vec<TcpStream> = (0..limits::LEARNER_LINKS_MAX)
        .map(|_| raw_learner(address))
        .collect();
    let connected = silent.iter().skip(1).map(|_| site.learner_connected());
    let connected: Vec<LinkId> = connected.collect();
    let reason = site.learner_closed(connected[0]);
    assert!(reason.starts_with("too many connections"), "{reason}");
    assert!(is_closed(&silent[0]));
    for kept in [&silent[1], &first] {
        kept.set_nonblocking(true).unwrap();
        assert!(!is_closed(kept));
    }
}

#[test]
fn a_flood_is_not_read_while_the_core_is_busy() {
    let site = TestMember::new();
    let (_port, address) = site.open_port();
    let learner = raw_learner(address);
    let link = site.learner_connected();
    let timeout = Duration::from_millis(300);
    learner.set_write_timeout(Some(timeout)).unwrap();
    let ack = bytes_of(LearnerPacket::Ack { zxid: Zxid(1) });
    let sender = learner.try_clone().unwrap();
    let written = flood(&sender, &ack, FLOOD_BYTES);
    assert!(written < FLOOD_BYTES, "all of it was taken");
    let ahead = limits::PEER_READ_AHEAD_BYTES as usize;
    assert!(written < KERNEL_BYTES + ahead, "{written}");

    // The core still holds everything that was delivered.
    let mut held = Vec::new();
    let mut delivered = 0;
    while let Some(event) = site.at_leader_within(timeout) {
        match event.input {
            Input::Learner(_, LearnerEvent::Packets { packets, .. }) => {
                delivered += packets.len() * ack.len();
                held.extend(event.permit);
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(delivered <= ahead, "{delivered}");
    assert!(held.len() <= ahead / limits::PEER_BATCH_BYTES_MIN as usize);

    // After the core has handled the delivered packets, the rest arrives.
    drop(held);
    sender.shutdown(Shutdown::Write).unwrap();
    let mut rest = 0;
    loop {
        match site.at_leader().input {
            Input::Learner(_, LearnerEvent::Packets { packets, .. }) => {
                rest += packets.len() * ack.len();
            }
            Input::Learner(_, LearnerEvent::Closed { link: closed }) => {
                assert_eq!(closed, link);
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(delivered + rest, written - written % ack.len());
}

#[test]
fn small_batches_count_enough_to_bound_their_number() {
    let site = TestMember::new();
    let (_port, address) = site.open_port();
    let learner = raw_learner(address);
    learner.set_nodelay(true).unwrap();
    site.learner_connected();
    let most = limits::PEER_READ_AHEAD_BYTES / limits::PEER_BATCH_BYTES_MIN;
    let mut held = Vec::new();
    // Each packet is delivered before the next one is sent, so each is a separate batch.
    for _ in 0..most {
        write_packet(&learner, introduction(1));
        held.push(site.at_leader());
    }
    write_packet(&learner, introduction(1));
    assert!(site.at_leader_within(Duration::from_millis(100)).is_none());
    held.pop();
    assert_eq!(site.learner_packets(1), [introduction(1)]);
}

#[test]
fn a_learner_that_does_not_read_is_dropped_and_no_other() {
    let site = TestMember::new();
    let (port, address) = site.open_port();
    let slow = raw_learner(address);
    let link = site.learner_connected();
    let connection = site.dial(1, &[address]);
    let good = site.learner_connected();
    site.leader_connected();
    let new_leader = LeaderPacket::NewLeader {
        zxid: Zxid::new(Epoch(1), 0),
        config: None,
    };
    port.send(link, new_leader);
    let packet = LeaderPacket::Proposal {
        zxid: Zxid(1),
        txn: Bytes::from(vec![0; TXN_BYTES]),
    };
    let most = (limits::PEER_QUEUE_BYTES_MAX + KERNEL_BYTES) / TXN_BYTES + 1;
    for _ in 0..most {
        port.send(link, packet.clone());
        port.flush();
    }
    let reason = site.learner_closed(link);
    assert!(reason.contains("too slow"), "{reason}");
    port.send(good, LeaderPacket::UpToDate);
    port.flush();
    assert_eq!(site.leader_packets(1), [LeaderPacket::UpToDate]);
    drop((slow, connection));
}

#[test]
fn a_learner_that_reads_nothing_is_dropped_after_a_timeout() {
    let mut site = TestMember::new();
    site.stall = Duration::from_millis(200);
    let (port, address) = site.open_port();
    let learner = raw_learner(address);
    let link = site.learner_connected();
    let packet = LeaderPacket::Proposal {
        zxid: Zxid(1),
        txn: Bytes::from(vec![0; TXN_BYTES]),
    };
    for _ in 0..KERNEL_BYTES / TXN_BYTES {
        port.send(link, packet.clone());
        port.flush();
    }
    let reason = site.learner_closed(link);
    assert!(reason.contains("nothing could be sent"), "{reason}");
    drop(learner);
}

#[test]
fn silent_connections_yield_to_learners_that_log_in() {
    let mut site = TestMember::new();
    site.auth = Arc::new(auth("zk", "secret", true));
    let (_port, address) = site.open_port();
    let crowd: Vec<_> = (0..limits::LOGINS_MAX)
        .map(|_| raw_learner(address))
        .collect();
    let _connection = site.dial(1, &[address]);
    site.learner_connected();
    assert!(is_closed(&crowd[0]));
}

fn closing_reason(site: &TestMember, address: std::net::SocketAddr, bytes: &[u8]) -> String {
    let mut learner = raw_learner(address);
    let link = site.learner_connected();
    learner.write_all(bytes).unwrap();
    // The write fails if the other side has already closed the connection.
    let _ = learner.shutdown(Shutdown::Write);
    site.learner_closed(link)
}

#[test]
fn invalid_packets_end_the_connection_with_a_reason() {
    let site = TestMember::new();
    let (_port, address) = site.open_port();
    let reason = |bytes: &[u8]| closing_reason(&site, address, bytes);
    let good = bytes_of(introduction(1));
    let mut too_long = good.clone();
    too_long[12..16].copy_from_slice(&3_000_000i32.to_be_bytes());
    assert!(reason(&too_long).contains("unreasonable length 3000000"));
    let mut negative = good.clone();
    negative[12..16].copy_from_slice(&(-2i32).to_be_bytes());
    assert!(reason(&negative).contains("unreasonable length -2"));
    let cut = reason(&good[..good.len() - 1]);
    assert!(cut.contains("ended within a packet"), "{cut}");
    // The payload is too short for its type.
    let short = QuorumPacket {
        data: Some(Bytes::from_static(&[1, 2, 3])),
        ..introduction(1).into()
    };
    let reason_of_short = reason(&bytes_of(short));
    assert!(reason_of_short.contains("malformed"), "{reason_of_short}");
    // Valid packets before the invalid one are delivered.
    let learner = raw_learner(address);
    let link = site.learner_connected();
    (&learner)
        .write_all(&[&good[..], &too_long].concat())
        .unwrap();
    assert_eq!(site.learner_packets(1), [introduction(1)]);
    site.learner_closed(link);
}

/// A leader must not disconnect a follower and all its clients because of one client's request.
#[test]
fn too_long_identities_are_dropped_from_a_request() {
    let site = TestMember::new();
    let (_port, address) = site.open_port();
    let learner = raw_learner(address);
    let link = site.learner_connected();
    write_packet(&learner, introduction(1));
    assert_eq!(site.learner_packets(1), [introduction(1)]);
    let request = |authinfo| {
        LearnerPacket::Request(LearnerRequest {
            session: SessionId(5),
            cxid: 7,
            op: 1,
            body: Bytes::from_static(b"body"),
            authinfo,
        })
    };
    let identity = Id {
        scheme: "digest".into(),
        id: "i".repeat(900_000).into(),
    };
    // These are far more bytes of identities than any connection has.
    let long = bytes_of(request(Some(vec![identity.clone(); 30])));
    let small = Id {
        scheme: "".into(),
        id: "".into(),
    };
    let many = bytes_of(request(Some(vec![small; 400_000])));
    for bytes in [long, many] {
        let pieces = bytes.chunks(70_001);
        pieces.for_each(|piece| (&learner).write_all(piece).unwrap());
        write_packet(&learner, introduction(1));
        assert_eq!(site.learner_packets(2), [request(None), introduction(1)]);
    }
    // A string with an invalid length follows the data that is too long.
    let mut wrong = bytes_of(request(Some(vec![identity; 3])));
    let at = wrong.len() - 900_000 - 4;
    wrong[at..at + 4].copy_from_slice(&3_000_000i32.to_be_bytes());
    (&learner).write_all(&wrong).unwrap();
    let reason = site.learner_closed(link);
    assert!(reason.contains("unreasonable length 3000000"), "{reason}");
}

#[test]
fn random_bytes_only_end_their_connection() {
    let site = TestMember::new();
    let (_port, address) = site.open_port();
    let (listener, leader) = raw_leader();
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let good = bytes_of(introduction(1));
    for round in 0..100 {
        let mut bytes: Vec<u8> = (0..next() % 300).map(|_| next() as u8).collect();
        if round % 2 == 0 {
            // This packet contains one wrong byte.
            bytes = good.clone();
            let at = next() as usize % bytes.len();
            bytes[at] = next() as u8;
        }
        closing_reason(&site, address, &bytes);

        let connection = site.dial(round, &[leader]);
        let (mut stream, _) = listener.accept().unwrap();
        site.leader_connected();
        let _ = stream.write_all(&bytes);
        drop(stream);
        loop {
            match site.of_leader() {
                (_, LeaderEvent::Packets(_)) => connection.receive_snapshot(),
                (attempt, LeaderEvent::Closed | LeaderEvent::SnapshotDamaged) => {
                    assert_eq!(attempt, round);
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(site.at_leader_within(Duration::ZERO).map(|_| ()), None);
}

#[test]
fn the_end_of_a_term_closes_connections_without_a_login() {
    let mut site = TestMember::new();
    site.auth = Arc::new(auth("zk", "secret", true));
    let (port, address) = site.open_port();
    let mut peer = raw_learner(address);
    // The first packet of a login: magic, status, length of the token.
    let magic = 0x5f24_3501_3501_edcc_i64.to_be_bytes();
    peer.write_all(&[&magic[..], &[0; 8]].concat()).unwrap();
    let mut challenge = [0; 16];
    peer.read_exact(&mut challenge).unwrap();
    port.close_all();
    // A login may take longer.
    let limit = site.stall / 3;
    peer.set_read_timeout(Some(limit)).unwrap();
    let mut rest = Vec::new();
    match peer.read_to_end(&mut rest) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
}
