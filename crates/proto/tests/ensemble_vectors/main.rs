//! All recorded connections between Apache ZooKeeper 3.9.5 servers decode to the recorded fields
//! and encode to the recorded bytes.

#![allow(clippy::unwrap_used, reason = "a test")]

mod election;
mod packets;
mod record;
mod snapshot;

use std::collections::BTreeMap;

#[test]
fn every_recorded_message_decodes_and_encodes_to_the_same_bytes() {
    let Some(records) = record::read_all() else {
        return;
    };
    let mut checked = BTreeMap::<String, usize>::new();
    for record in &records {
        match record.text("type") {
            // Bytes that are not a whole message, sent on purpose.
            "RAW" | "PARTIAL" => continue,
            "HANDSHAKE" => election::check_hello(record),
            "NOTIFICATION" | "MALFORMED" => election::check_notification(record),
            "SNAPSHOT" => snapshot::check(record),
            _ => packets::check(record),
        }
        *checked.entry(record.text("type").to_owned()).or_default() += 1;
    }
    println!("checked {checked:?}");
    for packet_type in zoarium_proto::packet::PacketType::ALL {
        assert!(
            checked.contains_key(packet_type.name()),
            "no {packet_type:?}"
        );
    }
    for other in ["HANDSHAKE", "NOTIFICATION", "MALFORMED", "SNAPSHOT"] {
        assert!(checked.contains_key(other), "no {other}");
    }
}
