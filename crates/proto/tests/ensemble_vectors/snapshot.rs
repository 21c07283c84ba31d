//! The raw stream after a SNAP packet, which consists of the records of a snapshot file.

use bytes::Bytes;
use jute::{Decode, Encode, Reader, Str};
use zoarium_proto::leader::SNAPSHOT_SIGNATURE;
use zoarium_proto::learner::Touch;
use zoarium_proto::{Acl, StatPersisted};

use crate::record::{Record, hex_long};

pub(crate) fn check(record: &Record) {
    let (bytes, place) = (record.bytes(), record.place());
    let mut input = Reader::new(bytes.clone());
    let mut out = Vec::new();

    let sessions: Vec<Touch> = Decode::decode(&mut input).unwrap();
    sessions.encode(&mut out);
    for (session, expected) in sessions.iter().zip(array(record, "sessions")) {
        assert_eq!(session.session.0, hex_long(&expected["session"]), "{place}");
    }

    let acls = i32::decode(&mut input).unwrap();
    acls.encode(&mut out);
    assert_eq!(Ok(array(record, "acls").len()), acls.try_into(), "{place}");
    for expected in array(record, "acls") {
        let (id, acl) = (
            i64::decode(&mut input),
            Option::<Vec<Acl>>::decode(&mut input),
        );
        assert_eq!(
            id.as_ref().ok().copied(),
            expected["id"].as_i64(),
            "{place}"
        );
        id.unwrap().encode(&mut out);
        acl.unwrap().encode(&mut out);
    }

    for expected in array(record, "nodes") {
        let path = Str::decode(&mut input).unwrap();
        assert_eq!(Some(&path[..]), expected["path"].as_str(), "{place}");
        path.encode(&mut out);
        Option::<Bytes>::decode(&mut input)
            .unwrap()
            .encode(&mut out);
        i64::decode(&mut input).unwrap().encode(&mut out);
        let stat = StatPersisted::decode(&mut input).unwrap();
        let (czxid, owner) = (
            &expected["stat"]["czxid"],
            &expected["stat"]["ephemeralOwner"],
        );
        assert_eq!(stat.czxid, hex_long(czxid), "{place} {path}");
        assert_eq!(stat.ephemeral_owner, hex_long(owner), "{place} {path}");
        stat.encode(&mut out);
    }

    let (end, signature) = (Str::decode(&mut input), Str::decode(&mut input));
    assert_eq!(&end.unwrap()[..], "/", "{place}");
    let signature = signature.unwrap();
    assert_eq!(&signature[..], record.text("signature"), "{place}");
    // The script sent another signature on purpose.
    let is_right = &signature[..] == SNAPSHOT_SIGNATURE;
    assert!(is_right || record.is_reaction(), "{place}");
    Str::from("/").encode(&mut out);
    signature.encode(&mut out);
    assert!(input.is_empty(), "{place}");
    assert_eq!(out, bytes, "{place}");
}

fn array<'a>(record: &'a Record, key: &str) -> &'a [serde_json::Value] {
    record.get(key).as_array().unwrap()
}
