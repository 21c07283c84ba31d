//! Values for the fields of records.

use bytes::Bytes;
use jute::Str;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use zoarium_proto::data::RequestAcl;
use zoarium_proto::{Acl, Epoch, Id, SessionId, Sid, Stat, StatPersisted, Zxid};

/// Generates text without characters above U+FFFF, which are written as in Java and do not read
/// back.
pub(crate) fn text() -> impl Strategy<Value = Str> {
    prop_oneof!["[/a-z0-9.]{0,12}", "[\u{0}-\u{d7ff}\u{e000}-\u{ffff}]{0,6}"].prop_map(Str::from)
}

pub(crate) fn nullable_text() -> impl Strategy<Value = Option<Str>> {
    option::of(text())
}

pub(crate) fn bytes() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..40).prop_map(Bytes::from)
}

pub(crate) fn nullable_bytes() -> impl Strategy<Value = Option<Bytes>> {
    option::of(bytes())
}

pub(crate) fn zxid() -> impl Strategy<Value = Zxid> {
    any::<i64>().prop_map(Zxid)
}

pub(crate) fn session() -> impl Strategy<Value = SessionId> {
    any::<i64>().prop_map(SessionId)
}

pub(crate) fn sid() -> impl Strategy<Value = Sid> {
    any::<i64>().prop_map(Sid)
}

/// Generates an epoch that fits the upper half of a zxid.
pub(crate) fn epoch() -> impl Strategy<Value = Epoch> {
    any::<i32>().prop_map(|epoch| Epoch(epoch.into()))
}

pub(crate) fn id() -> impl Strategy<Value = Id> {
    (text(), text()).prop_map(|(scheme, id)| Id { scheme, id })
}

pub(crate) fn acl() -> impl Strategy<Value = Acl> {
    (any::<i32>(), id()).prop_map(|(perms, id)| Acl { perms, id })
}

pub(crate) fn acls() -> impl Strategy<Value = Vec<Acl>> {
    vec(acl(), 0..4)
}

pub(crate) fn request_acl() -> impl Strategy<Value = RequestAcl> {
    (any::<i32>(), nullable_text(), nullable_text()).prop_map(|(perms, scheme, id)| RequestAcl {
        perms,
        scheme,
        id,
    })
}

pub(crate) fn stat() -> impl Strategy<Value = Stat> {
    (any::<[i64; 6]>(), any::<[i32; 5]>()).prop_map(|(longs, ints)| Stat {
        czxid: longs[0],
        mzxid: longs[1],
        ctime: longs[2],
        mtime: longs[3],
        version: ints[0],
        cversion: ints[1],
        aversion: ints[2],
        ephemeral_owner: longs[4],
        data_length: ints[3],
        num_children: ints[4],
        pzxid: longs[5],
    })
}

pub(crate) fn stat_persisted() -> impl Strategy<Value = StatPersisted> {
    (any::<[i64; 6]>(), any::<[i32; 3]>()).prop_map(|(longs, ints)| StatPersisted {
        czxid: longs[0],
        mzxid: longs[1],
        ctime: longs[2],
        mtime: longs[3],
        version: ints[0],
        cversion: ints[1],
        aversion: ints[2],
        ephemeral_owner: longs[4],
        pzxid: longs[5],
    })
}
