//! Recordings of election connections.

use bytes::Bytes;
use zoarium_proto::hello::{Endpoint, Hello, HelloFault};
use zoarium_proto::notification::{FRAME_BYTES_MAX, Form, Notification, PeerState};

use crate::record::Record;

pub(crate) fn check_hello(record: &Record) {
    let (bytes, place) = (record.bytes(), record.place());
    let texts = record.get("addrs").as_array().unwrap().iter();
    let texts: Vec<&str> = texts.map(|text| text.as_str().unwrap()).collect();
    let endpoints: Option<Vec<Endpoint>> = texts.iter().map(|text| Endpoint::parse(text)).collect();
    let decoded = Hello::decode(&bytes);
    let (hello, len) = match decoded {
        Ok(Some(read)) => read,
        Ok(None) => panic!("{place}: incomplete"),
        // Each was sent on purpose, and the recorded reason makes it invalid.
        Err(HelloFault::Version { version }) => {
            assert_eq!(Some(version), record.get("version").as_i64(), "{place}");
            assert!(![-65_536, -65_535].contains(&version), "{place}");
            return;
        }
        Err(HelloFault::Length { len }) => {
            let sent = i64::try_from(texts.join("|").len()).unwrap();
            assert!(
                i64::from(len) == sent && (sent == 0 || sent > 2048),
                "{place}"
            );
            return;
        }
        Err(fault) => {
            assert!(endpoints.is_none(), "{place}: {fault}");
            return;
        }
    };
    let mut dialable = endpoints.unwrap();
    dialable.retain(|endpoint| !endpoint.is_wildcard());
    assert_eq!(len, bytes.len(), "{place}");
    assert_eq!(Some(hello.sid.0), record.get("sid").as_i64(), "{place}");
    assert!(hello.dial_back().eq(&dialable), "{place}");
    let mut out = Vec::new();
    hello.encode(&mut out).unwrap();
    assert_eq!(out, bytes, "{place}");
}

pub(crate) fn check_notification(record: &Record) {
    let (bytes, place) = (record.bytes(), record.place());
    let len = u32::from_be_bytes(*bytes.first_chunk().unwrap()) as usize;
    assert!(len > 0 && len <= FRAME_BYTES_MAX, "{place}");
    assert_eq!(len + 4, bytes.len(), "{place}");
    let frame = Bytes::copy_from_slice(&bytes[4..]);
    let has = |key: &str| !record.get(key).is_null();
    let is_null_config = has("version") && !has("config");
    let ends_behind_epoch = has("peerEpoch") && !has("version") && !has("rest");
    // Sent on purpose; servers drop such messages.
    let is_wrong = record.text("type") == "MALFORMED" || is_null_config || ends_behind_epoch;
    let notification = match Notification::decode(frame) {
        Ok(notification) => notification,
        Err(error) => {
            assert!(is_wrong, "{place}: {error}");
            return;
        }
    };
    assert!(!is_wrong, "{place}: {notification:?}");
    check_fields(record, &notification);
    let mut out = Vec::new();
    notification.encode_frame(&mut out);
    assert_eq!(out, bytes, "{place}");
}

fn check_fields(record: &Record, notification: &Notification) {
    let place = record.place();
    let state = match notification.state {
        PeerState::Looking => "LOOKING".into(),
        PeerState::Following => "FOLLOWING".into(),
        PeerState::Leading => "LEADING".into(),
        PeerState::Observing => "OBSERVING".into(),
        PeerState::Unknown(number) => serde_json::Value::from(number),
    };
    assert_eq!(&state, record.get("state"), "{place}");
    let long = |key: &str| record.get(key).as_i64();
    assert_eq!(Some(notification.leader.0), long("leader"), "{place}");
    assert_eq!(notification.zxid.0, record.zxid(), "{place}");
    assert_eq!(Some(notification.round.0), long("electionEpoch"), "{place}");
    let peer_epoch = long("peerEpoch").unwrap_or(notification.zxid.epoch().0);
    assert_eq!(notification.peer_epoch.0, peer_epoch, "{place}");
    if let Form::Versioned { version, .. } = notification.form {
        assert_eq!(Some(version.into()), long("version"), "{place}");
    } else {
        assert!(record.get("version").is_null(), "{place}");
    }
    let config = notification.config().map(|text| &text[..]);
    let expected = record.get("config").as_str().map(str::as_bytes);
    assert_eq!(config, expected, "{place}");
}
