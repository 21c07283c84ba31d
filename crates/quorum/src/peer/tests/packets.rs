//! Tests of packets between a leader and its learners, and of the lifetime of the port.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proto::leader::LeaderPacket;
use proto::learner::LearnerPacket;
use proto::{Epoch, Zxid};
use replica::{Input, LeaderEvent};
use zab::leader::LinkFault;

use super::support::{
    TestMember, bytes_of, introduction, is_closed, listen_on, open, raw_learner, write_packet,
};
use crate::peer::{LearnerPort, ListenSettings};

fn proposal(number: i64, len: usize) -> LeaderPacket {
    LeaderPacket::Proposal {
        zxid: Zxid(number),
        txn: Bytes::from(vec![number as u8; len]),
    }
}

#[test]
fn packets_go_both_ways_in_order() {
    let site = TestMember::new();
    let (port, address) = site.open_port();
    let mut connection = site.dial(7, &[address]);
    // Packets that were sent before the connection is established wait for it.
    connection.send(introduction(2));
    connection.flush();
    site.leader_connected();
    let link = site.learner_connected();
    assert_eq!(site.learner_packets(1), [introduction(2)]);

    let mut sent = vec![LeaderPacket::leader_info(Epoch(4))];
    // Some packets are small and are written together, and others are larger than a write and a
    // read.
    sent.extend((1..200).map(|number| proposal(number, 100)));
    sent.extend((200..210).map(|number| proposal(number, 300 << 10)));
    // The leader's log may contain a transaction from before `jute.maxbuffer` was lowered.
    sent.push(proposal(210, 3 << 20));
    sent.push(LeaderPacket::UpToDate);
    for packet in &sent {
        port.send(link, packet.clone());
    }
    port.flush();
    assert_eq!(site.leader_packets(sent.len()), sent);

    let answers: Vec<_> = (0..500)
        .map(|zxid| LearnerPacket::Ack { zxid: Zxid(zxid) })
        .collect();
    for packet in &answers {
        connection.send(packet.clone());
    }
    connection.flush();
    assert_eq!(site.learner_packets(answers.len()), answers);
}

#[test]
fn packets_arrive_while_their_task_waits_for_the_disk() {
    let mut site = TestMember::new();
    let (end_work, work_ends) = crossbeam_channel::bounded::<()>(0);
    let (worked, has_worked) = crossbeam_channel::unbounded();
    site.deferred_work = Arc::new(move || {
        let (work_ends, worked) = (work_ends.clone(), worked.clone());
        Some(Box::new(move || {
            // This ends when the test drops the other end.
            let _ = work_ends.recv();
            worked.send(()).unwrap();
        }))
    });
    let (port, address) = site.open_port();
    let mut connection = site.dial(7, &[address]);
    connection.send(introduction(2));
    connection.flush();
    site.leader_connected();
    let link = site.learner_connected();
    for number in 1..=8 {
        port.send(link, proposal(number, 100));
        port.flush();
        assert_eq!(site.leader_packets(1), [proposal(number, 100)]);
    }
    assert!(has_worked.is_empty(), "the work has not ended");
    drop(end_work);
    for _ in 1..=8 {
        has_worked.recv_timeout(Duration::from_secs(30)).unwrap();
    }
    drop(port);
    let (_, closed) = site.of_leader();
    assert!(matches!(closed, LeaderEvent::Closed), "{closed:?}");
}

#[test]
fn a_broadcast_reaches_each_learner() {
    let site = TestMember::new();
    let (port, address) = site.open_port();
    let mut learners = [raw_learner(address), raw_learner(address)];
    let links = [site.learner_connected(), site.learner_connected()];
    let mut sent = vec![proposal(1, 100), proposal(1, 101), proposal(1, 101)];
    sent.extend([2, 3, 2].map(|zxid| LeaderPacket::Commit { zxid: Zxid(zxid) }));
    for packet in &sent {
        links
            .iter()
            .for_each(|link| port.send(*link, packet.clone()));
    }
    port.flush();
    let expected: Vec<u8> = sent.into_iter().flat_map(bytes_of).collect();
    for learner in &mut learners {
        let mut read = vec![0; expected.len()];
        learner.read_exact(&mut read).unwrap();
        assert_eq!(read, expected);
    }
}

#[test]
fn each_side_reports_a_closed_connection_once() {
    let site = TestMember::new();
    let (port, address) = site.open_port();
    let connection = site.dial(1, &[address]);
    let link = site.learner_connected();
    site.leader_connected();
    drop(connection);
    assert!(site.learner_closed(link).contains("the other side closed"));

    let mut connection = site.dial(2, &[address]);
    let link = site.learner_connected();
    site.leader_connected();
    port.close(link, &LinkFault::Throttled);
    match site.of_leader() {
        (2, LeaderEvent::Closed) => {}
        other => panic!("{other:?}"),
    }
    // Orders for closed connections have no effect, and the side that has closed a connection
    // receives no event.
    connection.send(introduction(1));
    connection.flush();
    port.send(link, LeaderPacket::UpToDate);
    port.flush();
    port.send_snapshot(link, Zxid(1));
    port.read_log(link, Zxid(1), Zxid(2));
    port.close(link, &LinkFault::Throttled);
    drop(connection);
    let next = site.dial(3, &[address]);
    site.learner_connected();
    assert!(matches!(site.of_leader(), (3, LeaderEvent::Connected)));
    drop(next);
}

#[test]
fn learners_are_refused_outside_of_a_term_and_no_link_is_numbered_twice() {
    let site = TestMember::new();
    let (port, address) = site.open_port();
    let listen = listen_on("127.0.0.1", address.port());
    let mut numbers = Vec::new();
    for _ in 0..3 {
        let learners = [raw_learner(address), raw_learner(address)];
        numbers.extend(learners.iter().map(|_| site.learner_connected()));
        port.close_all();
        assert!(learners.iter().all(is_closed));
        assert!(TcpStream::connect(address).is_err());
        // The address can be reused immediately, although connections were open on it.
        assert_eq!(open(&port, listen.clone()), [address]);
    }
    let count = numbers.len();
    numbers.sort();
    numbers.dedup();
    assert_eq!((numbers.len(), count), (6, 6));
    // A new term ends the previous one.
    let learner = raw_learner(address);
    site.learner_connected();
    open(&port, listen);
    assert!(is_closed(&learner));
    drop(port);
    assert!(TcpStream::connect(address).is_err());
}

/// Returns a synchronised learner that has not read its output when the leader hands over. The
/// output exceeds the socket buffers.
fn handed_over(site: &TestMember) -> (LearnerPort, TcpStream, Vec<u8>) {
    let (port, address) = site.open_port();
    let learner = raw_learner(address);
    let link = site.learner_connected();
    let zxid = Zxid::new(Epoch(1), 0);
    let mut sent = vec![LeaderPacket::NewLeader { zxid, config: None }];
    sent.extend((1..64).map(|number| proposal(number, 300 << 10)));
    for packet in &sent {
        port.send(link, packet.clone());
    }
    port.hand_over();
    assert!(TcpStream::connect(address).is_err());
    // Packets that are sent after the term are not written.
    port.send(link, LeaderPacket::UpToDate);
    port.flush();
    (port, learner, sent.into_iter().flat_map(bytes_of).collect())
}

#[test]
fn a_handover_writes_queued_packets_and_delivers_no_input() {
    let site = TestMember::new();
    let (port, mut learner, expected) = handed_over(&site);
    let ack = LearnerPacket::Ack { zxid: Zxid(1) };
    for _ in 0..100 {
        write_packet(&learner, ack.clone());
    }
    let mut read = Vec::new();
    learner.read_to_end(&mut read).unwrap();
    assert!(read == expected, "{} of {}", read.len(), expected.len());
    // The leader still reads, because the last output could otherwise be lost.
    write_packet(&learner, ack);
    drop(learner);
    drop(port);
    site.wait_for_silence();
    // The core receives neither the learner's packet nor the event for the end of the connection.
    assert!(site.at_leader_within(Duration::ZERO).is_none());
}

#[test]
fn a_handover_drops_unsynchronised_learners() {
    let site = TestMember::new();
    let (port, address) = site.open_port();
    let learner = raw_learner(address);
    let link = site.learner_connected();
    port.send(link, LeaderPacket::leader_info(Epoch(1)));
    port.hand_over();
    assert!(is_closed(&learner));
    // The drop does not wait for the learner.
    drop(port);
    site.wait_for_silence();
}

#[test]
fn a_link_that_is_handed_over_ends_after_a_stall_or_with_the_next_term() {
    let mut site = TestMember::new();
    site.stall = Duration::from_millis(50);
    let (_port, learner, expected) = handed_over(&site);
    assert_is_cut(learner, &expected);
    let site = TestMember::new();
    let (port, learner, expected) = handed_over(&site);
    open(&port, listen_on("127.0.0.1", 0));
    assert_is_cut(learner, &expected);
}

/// Waits until the other side has dropped the connection, and then reads the data that has arrived.
fn assert_is_cut(mut learner: TcpStream, expected: &[u8]) {
    let ack = bytes_of(LearnerPacket::Ack { zxid: Zxid(1) });
    while learner.write_all(&ack).is_ok() {
        std::thread::yield_now();
    }
    let mut read = Vec::new();
    // The connection may have been reset.
    let _ = learner.read_to_end(&mut read);
    assert!(read.len() < expected.len() && expected.starts_with(&read));
}

#[test]
fn a_dropped_port_closes_its_connections() {
    let site = TestMember::new();
    let (port, address) = site.open_port();
    let learners = [raw_learner(address), raw_learner(address)];
    let connections = [site.dial(1, &[address]), site.dial(2, &[address])];
    let links: Vec<_> = (0..4).map(|_| site.learner_connected()).collect();
    write_packet(&learners[0], introduction(1));
    site.learner_packets(1);
    port.close(links[0], &LinkFault::Throttled);
    port.close_all();
    open(&port, listen_on("127.0.0.1", 0));
    drop((port, connections));
    site.wait_for_silence();
}

#[test]
fn all_addresses_are_listened_on_and_one_is_enough() {
    let site = TestMember::new();
    let mut listen = listen_on("127.0.0.1", 0);
    // One address is reserved for documentation, and the other is a name.
    listen.addresses.extend(listen_on("192.0.2.1", 0).addresses);
    listen.addresses.extend(listen_on("localhost", 0).addresses);
    let port = site.port();
    let addresses = open(&port, listen.clone());
    assert_eq!(addresses.len(), 2);
    for address in addresses {
        let learner = raw_learner(address);
        let link = site.learner_connected();
        drop(learner);
        site.learner_closed(link);
    }
    listen.addresses = listen_on("192.0.2.1", 0).addresses;
    port.open(7, listen);
    let failed = site.at_leader().input;
    assert!(
        matches!(failed, Input::ListenFailed { attempt: 7, .. }),
        "{failed:?}"
    );
}

#[test]
fn with_quorum_listen_on_all_ips_only_the_port_counts() {
    let site = TestMember::new();
    let port = site.port();
    let everywhere = ListenSettings {
        on_all_ips: true,
        ..listen_on("192.0.2.1", 0)
    };
    let addresses = open(&port, everywhere);
    assert_eq!(addresses.len(), 1);
    assert!(addresses[0].ip().is_unspecified());
    let learner = raw_learner(([127, 0, 0, 1], addresses[0].port()).into());
    let link = site.learner_connected();
    write_packet(&learner, introduction(1));
    assert_eq!(site.learner_packets(1), [introduction(1)]);
    drop(learner);
    site.learner_closed(link);
}

#[test]
fn after_trunc_packets_continue_and_a_late_snap_is_a_packet() {
    let site = TestMember::new();
    let (port, address) = site.open_port();
    let connection = site.dial(1, &[address]);
    let link = site.learner_connected();
    site.leader_connected();
    let sent = [
        LeaderPacket::Trunc { zxid: Zxid(5) },
        LeaderPacket::Snap { zxid: Zxid(6) },
        LeaderPacket::UpToDate,
    ];
    for packet in &sent {
        port.send(link, packet.clone());
    }
    port.flush();
    assert_eq!(site.leader_packets(3), sent);
    drop(connection);
    assert!(site.at_learner_within(Duration::from_millis(1)).is_none());
}
