use proto::request::{PathVersionRequest, SetAclRequest, SetDataRequest};
use proto::txn::{
    CheckVersionTxn, CreateContainerTxn, CreateTtlTxn, CreateTxn, SetAclTxn, SetDataTxn, TxnHeader,
};
use proto::{OpCode, Zxid};

use super::*;

const SESSION: SessionId = SessionId(7);

fn create(path: &str, data: &str, flags: i32) -> WriteRequest {
    WriteRequest::Create {
        op: OpCode::Create2,
        request: CreateRequest {
            path: Some(path.into()),
            data: (!data.is_empty()).then(|| data.to_owned().into()),
            acl: None,
            flags,
        },
        ttl: -1,
    }
}

fn created(path: &str, data: &str) -> Txn {
    Txn::Create2(CreateTxn {
        path: path.into(),
        data: Some(data.to_owned().into()),
        acl: Vec::new(),
        ephemeral: false,
        parent_cversion: 1,
    })
}

fn set(path: &str, data: &str) -> WriteRequest {
    WriteRequest::SetData(SetDataRequest {
        path: Some(path.into()),
        data: Some(data.to_owned().into()),
        version: -1,
    })
}

fn was_set(path: &str, data: &str) -> Txn {
    Txn::SetData(SetDataTxn {
        path: path.into(),
        data: Some(data.to_owned().into()),
        version: 3,
    })
}

fn of_path(path: &str) -> PathVersionRequest {
    PathVersionRequest {
        path: Some(path.into()),
        version: -1,
    }
}

fn record(cxid: i32, txn: Txn) -> TxnRecord {
    TxnRecord {
        header: TxnHeader {
            session: SESSION,
            cxid,
            zxid: Zxid(1),
            time_ms: 0,
            op: txn.op().number(),
        },
        txn,
        digest: None,
    }
}

fn waiting(requests: Vec<(i32, WriteRequest)>) -> ForwardedRequests {
    let mut all = ForwardedRequests::default();
    for (cxid, request) in requests {
        let origin = Ticket(u64::try_from(cxid).unwrap());
        let large_bytes = LargeBytes {
            counted: 10,
            room: 0,
        };
        let one = Forwarded {
            cxid,
            request,
            origin,
            large_bytes,
        };
        all.push(SESSION, one);
    }
    all
}

fn multi(first: &str) -> WriteRequest {
    WriteRequest::Multi(Ok(vec![set("/a", first), create("/b-", "2", 2)]))
}

/// Requests and their transactions.
fn simple_pairs() -> Vec<(WriteRequest, Txn)> {
    let (container, ttl) = (4, 5);
    vec![
        (create("/a", "1", 0), created("/a", "1")),
        (create("/a", "", 1), created("/a", "")),
        (create("/a-1", "1", 2), created("/a-10000000004", "1")),
        (create("/a/", "1", 3), created("/a/-2147483648", "1")),
        (
            create("/c", "", container),
            Txn::CreateContainer(CreateContainerTxn {
                path: "/c".into(),
                data: None,
                acl: Vec::new(),
                parent_cversion: 1,
            }),
        ),
        (
            create("/t", "1", ttl),
            Txn::CreateTtl(CreateTtlTxn {
                path: "/t".into(),
                data: Some("1".into()),
                acl: Vec::new(),
                parent_cversion: 1,
                ttl: 5,
            }),
        ),
        (set("/a", "1"), was_set("/a", "1")),
        (set("/a", "2"), was_set("/a", "2")),
        (
            WriteRequest::Delete(of_path("/d")),
            Txn::Delete { path: "/d".into() },
        ),
    ]
}

fn other_pairs() -> Vec<(WriteRequest, Txn)> {
    let path = Str::from("/a");
    vec![
        (
            WriteRequest::SetAcl(SetAclRequest {
                path: Some(path.clone()),
                acl: None,
                version: -1,
            }),
            Txn::SetAcl(SetAclTxn {
                path: path.clone(),
                acl: Vec::new(),
                version: 1,
            }),
        ),
        (
            WriteRequest::Check(of_path("/a")),
            Txn::Check(CheckVersionTxn { path, version: 1 }),
        ),
        (
            multi("1"),
            Txn::Multi(vec![was_set("/a", "1"), created("/b-0000000002", "2")]),
        ),
        (
            multi("2"),
            Txn::Multi(vec![was_set("/a", "2"), created("/b-0000000003", "2")]),
        ),
        (
            WriteRequest::CreateSession { timeout_ms: 5 },
            Txn::CreateSession { timeout_ms: 5 },
        ),
        (
            WriteRequest::CloseSession,
            Txn::CloseSession { paths: None },
        ),
    ]
}

#[test]
fn each_request_matches_only_its_own_transaction() {
    let pairs = [simple_pairs(), other_pairs()].concat();
    for (number, (request, _)) in pairs.iter().enumerate() {
        for (other, (_, txn)) in pairs.iter().enumerate() {
            assert_eq!(
                can_result_from(txn, request),
                number == other,
                "{txn:?} of {request:?}"
            );
        }
        assert!(can_result_from(&Txn::Error { code: -118 }, request));
    }
    let refused = Txn::Multi(vec![Txn::Error { code: 0 }, Txn::Error { code: -101 }]);
    assert!(can_result_from(&refused, &multi("1")));
}

/// Two connections of one session at two members. Both count their requests from 1.
#[test]
fn an_equal_cxid_of_another_connection_is_not_an_answer() {
    let mut all = waiting(vec![(1, set("/a", "old"))]);
    let matched = all.take(&record(1, was_set("/a", "new")));
    assert!(matched.request.is_none() && matched.skipped.is_empty());
    assert_eq!((all.len(), all.large_bytes().counted), (1, 10));
    // -118 is the error code of SessionMoved.
    let matched = all.take(&record(1, Txn::Error { code: -118 }));
    assert_eq!(matched.request.map(|one| one.origin), Some(Ticket(1)));
}

#[test]
fn requests_that_the_leader_omitted_are_skipped() {
    let mut all = waiting(vec![
        (1, set("/a", "1")),
        (2, set("/a", "2")),
        (3, set("/a", "3")),
    ]);
    assert!(all.take(&record(9, was_set("/a", "1"))).request.is_none());
    let matched = all.take(&record(2, was_set("/a", "2")));
    assert_eq!(matched.request.map(|one| one.origin), Some(Ticket(2)));
    assert_eq!(matched.skipped.len(), 1);
    assert_eq!((all.len(), all.large_bytes().counted), (1, 10));
    let matched = all.take(&record(3, Txn::Error { code: -118 }));
    assert_eq!(matched.request.map(|one| one.origin), Some(Ticket(3)));
    assert_eq!((all.len(), all.large_bytes().counted), (0, 0));
}
