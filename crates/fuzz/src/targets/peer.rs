//! Messages between servers, and transactions, which servers also write to their logs.

use bytes::Bytes;
use jute::{Decode, Encode, Reader};
use proto::hello::Hello;
use proto::leader::LeaderPacket;
use proto::learner::LearnerPacket;
use proto::notification::Notification;
use proto::packet::{Extent, QuorumPacket};
use proto::request::Request;
use proto::txn::{Txn, TxnRecord};

use super::assert_reads_back;
use crate::seeds::{history, peers};
use crate::{Memory, Target, recorded};

pub(super) const TRANSACTION: Target = Target {
    name: "transaction",
    run: transaction,
    seeds: transaction_seeds,
    words: &["\0\0\0\x02", "/a"],
    repair: None,
    memory: Memory::DECODER,
};

pub(super) const QUORUM_PACKET: Target = Target {
    name: "quorum_packet",
    run: quorum_packet,
    seeds: packet_seeds,
    words: &["\0\0\0\x02ip", "super"],
    repair: None,
    memory: Memory::DECODER,
};

pub(super) const HELLO: Target = Target {
    name: "hello",
    run: hello,
    seeds: hello_seeds,
    words: &["|", ":3888", "[::]", "0.0.0.0"],
    repair: None,
    memory: Memory::DECODER,
};

pub(super) const NOTIFICATION: Target = Target {
    name: "notification",
    run: notification,
    seeds: notification_seeds,
    words: &["server.1=", "version="],
    repair: None,
    memory: Memory::DECODER,
};

fn transaction(data: &[u8]) {
    let mut input = Reader::new(data.to_vec());
    if let Ok(record) = TxnRecord::decode(&mut input)
        && !names_nothing(&record.txn)
    {
        assert_reads_back(&record);
    }
}

/// Returns whether a closeSession contains only empty paths, or no path. Two empty paths take
/// twelve bytes that begin like a digest, and are decoded as a digest if no bytes follow. Servers
/// never write such a closeSession.
fn names_nothing(txn: &Txn) -> bool {
    match txn {
        Txn::CloseSession { paths: Some(paths) } => paths.iter().all(|path| path.is_empty()),
        Txn::Multi(txns) => txns.iter().any(names_nothing),
        _ => false,
    }
}

fn transaction_seeds() -> Vec<Vec<u8>> {
    let (mut records, _) = history::history();
    records.extend(history::of_old_releases());
    records
        .iter()
        .map(|record| record.to_bytes().to_vec())
        .collect()
}

/// Decodes consecutive packets, as from a stream.
fn quorum_packet(data: &[u8]) {
    let mut rest = data;
    while let Ok(Some(Extent::Whole(len))) = QuorumPacket::extent(rest, testkit::LIMITS) {
        let (frame, behind) = rest.split_at(len);
        rest = behind;
        let mut input = Reader::new(frame.to_vec());
        let Ok(packet) = QuorumPacket::decode(&mut input) else {
            return;
        };
        assert!(input.is_empty(), "the frame is longer than the packet");
        assert_reads_back(&packet);
        understand(packet);
    }
}

fn understand(packet: QuorumPacket) {
    if let Ok(LearnerPacket::Request(request)) = LearnerPacket::try_from(packet.clone())
        && let Some(op) = request.op()
    {
        drop(Request::decode(op, &mut Reader::new(request.body)));
    }
    let txn = match LeaderPacket::try_from(packet) {
        Ok(LeaderPacket::Proposal { txn, .. } | LeaderPacket::Inform { txn, .. }) => txn,
        Ok(LeaderPacket::InformAndActivate { txn, .. }) => txn,
        _ => return,
    };
    drop(TxnRecord::decode(&mut Reader::new(txn)));
}

fn packet_seeds() -> Vec<Vec<u8>> {
    let mut seeds = peers::packets();
    seeds.push(seeds.concat());
    seeds.extend(recorded::messages("\"num\""));
    seeds
}

fn hello(data: &[u8]) {
    let Ok(Some((hello, len))) = Hello::decode(data) else {
        return;
    };
    assert!(len <= data.len() && len <= Hello::BYTES_MAX);
    assert!(hello.dial_back().count() <= Hello::ADDRESS_BYTES_MAX);
    let mut out = Vec::new();
    // Replacing invalid UTF-8 makes the string longer, and possibly too long.
    if hello.encode(&mut out).is_ok() {
        let read = Hello::decode(&out);
        assert_eq!(read, Ok(Some((hello, out.len()))));
    }
}

fn hello_seeds() -> Vec<Vec<u8>> {
    let mut seeds = peers::hellos();
    seeds.extend(recorded::messages("\"HANDSHAKE\""));
    seeds
}

fn notification(data: &[u8]) {
    let Ok(notification) = Notification::decode(Bytes::copy_from_slice(data)) else {
        return;
    };
    let mut out = Vec::new();
    notification.encode_frame(&mut out);
    let frame = Bytes::from(out.split_off(4));
    // The formats are distinguished by their lengths, and trailing bytes may have been dropped.
    if frame.len() == data.len() {
        assert_eq!(Notification::decode(frame), Ok(notification));
    }
}

fn notification_seeds() -> Vec<Vec<u8>> {
    let mut seeds = peers::notifications();
    let framed = recorded::messages("\"NOTIFICATION\"").into_iter();
    seeds.extend(framed.filter_map(|frame| Some(frame.get(4..)?.to_vec())));
    seeds
}
