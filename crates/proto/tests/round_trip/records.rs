//! Handshake, headers, shared records, replies and events.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use zoarium_proto::connect::{
    AuthPacket, ConnectRequest, ConnectResponse, ReplyHeader, RequestHeader, SaslToken,
};
use zoarium_proto::multi::MultiHeader;
use zoarium_proto::response::{
    ClientInfo, Create2Response, CreateResponse, ErrorResponse, GetAclResponse,
    GetAllChildrenNumberResponse, GetChildren2Response, GetDataResponse, NamesResponse,
    StatResponse, SyncResponse, WhoAmIResponse,
};
use zoarium_proto::watch::WatcherEvent;
use zoarium_proto::{Xid, Zxid};

use crate::check;
use crate::parts::*;

proptest! {
    #[test]
    fn handshake(
        numbers: (i32, i64, i32, i64), given in nullable_bytes(), password in bytes(),
        read_only in option::of(any::<bool>()),
    ) {
        let (protocol_version, zxid, timeout_ms, session) = numbers;
        let session_id = zoarium_proto::SessionId(session);
        let last_zxid_seen = Zxid(zxid);
        check(&ConnectRequest {
            protocol_version, last_zxid_seen, timeout_ms, session_id, password: given.into(), read_only,
        })?;
        check(&ConnectResponse { protocol_version, timeout_ms, session_id, password: password.into(), read_only })?;
    }

    #[test]
    fn headers(xid in any::<i32>().prop_map(Xid), op: i32, zxid in zxid(), done: bool) {
        check(&RequestHeader { xid, op })?;
        check(&ReplyHeader { xid, zxid, err: op })?;
        check(&MultiHeader { op, done, err: xid.0 })?;
    }

    #[test]
    fn credentials(auth_type: i32, scheme in nullable_text(), auth in nullable_bytes()) {
        check(&SaslToken { token: auth.clone().into() })?;
        check(&AuthPacket { auth_type, scheme, auth: auth.into() })?;
    }

    #[test]
    fn shared_records(acl in acl(), lax in request_acl(), stat in stat(), persisted in stat_persisted()) {
        check(&acl)?;
        check(&lax)?;
        check(&stat)?;
        check(&persisted)?;
        prop_assert_eq!(jute::Encode::to_bytes(&stat).len(), 68);
        prop_assert_eq!(jute::Encode::to_bytes(&persisted).len(), 60);
    }

    #[test]
    fn replies(
        path in text(), echoed in nullable_text(), data in nullable_bytes(), acl in acls(),
        names in vec(text(), 0..5), stat in stat(), number: i32,
    ) {
        check(&CreateResponse { path: path.clone() })?;
        check(&Create2Response { path: path.clone(), stat })?;
        check(&StatResponse { stat })?;
        check(&GetDataResponse { data, stat })?;
        check(&GetAclResponse { acl, stat })?;
        check(&NamesResponse { names: names.clone() })?;
        check(&GetChildren2Response { children: names.clone(), stat })?;
        check(&GetAllChildrenNumberResponse { total: number })?;
        check(&SyncResponse { path: echoed })?;
        check(&ErrorResponse { err: number })?;
        let user = |name| ClientInfo { scheme: path.clone(), user: name };
        check(&WhoAmIResponse { clients: names.into_iter().map(user).collect() })?;
    }

    #[test]
    fn events(event_type: i32, state: i32, path in text()) {
        check(&WatcherEvent { event_type, state, path })?;
    }
}
