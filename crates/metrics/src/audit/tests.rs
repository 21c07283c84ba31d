use std::net::Ipv4Addr;

use proto::Id;
use proto::request::{
    CreateRequest, PathVersionRequest, SetAclRequest, SetDataRequest, WriteRequest,
};
use proto::txn::SetDataTxn;

use super::super::group::Level;
use super::*;

fn caller(user: &str) -> Caller {
    let id = |scheme: &str, id: &str| Id {
        scheme: scheme.into(),
        id: id.into(),
    };
    Caller {
        session: SessionId(0x1_0000),
        identities: Arc::from([id("ip", "127.0.0.1"), id("digest", user)]),
        ip: Ipv4Addr::LOCALHOST.into(),
    }
}

fn written(group: &LineGroup) -> Vec<(Level, String)> {
    let mut lines = Vec::new();
    group.write_lines(|level, text| lines.push((level, text.to_owned())));
    lines
}

fn create(op: OpCode, path: &str, flags: i32) -> WriteRequest {
    WriteRequest::Create {
        op,
        request: CreateRequest {
            path: Some(path.into()),
            data: None,
            acl: None,
            flags,
        },
        ttl: -1,
    }
}

fn texts(request: &AuditedRequest, txn: &Txn, outcome: &Outcome) -> Vec<String> {
    let caller = caller("a\tresult=x\n:h");
    let group = lines_of(caller, request.clone(), txn, outcome);
    written(&group).into_iter().map(|(_, text)| text).collect()
}

const NODE_EXISTS: Outcome = Outcome::Error(ErrorCode::NodeExists);

#[test]
fn client_text_cannot_forge_a_line_or_a_key() {
    let request = AuditedRequest::of(&create(OpCode::Create, "/a\nb", 0)).unwrap();
    let txn = Txn::error(ErrorCode::NodeExists);
    assert_eq!(
        texts(&request, &txn, &NODE_EXISTS),
        [
            "session=0x10000\tuser=a\\tresult=x\\n,127.0.0.1\tip=127.0.0.1\toperation=create\t\
             znode=/a\\nb\tznode_type=persistent\tresult=failure"
        ]
    );
}

#[test]
fn a_container_deleted_by_a_client_has_the_line_of_a_delete() {
    let request = AuditedRequest::of(&WriteRequest::DeleteContainer { path: "/c".into() }).unwrap();
    let deleted = Txn::DeleteContainer { path: "/c".into() };
    let refused = (
        Txn::error(ErrorCode::NoAuth),
        Outcome::Error(ErrorCode::NoAuth),
    );
    for ((txn, outcome), result) in [
        ((deleted, Outcome::Error(ErrorCode::Ok)), "success"),
        (refused, "failure"),
    ] {
        let lines = texts(&request, &txn, &outcome);
        let end = format!("operation=delete\tznode=/c\tresult={result}");
        assert!(lines.len() == 1 && lines[0].ends_with(&end), "{lines:?}");
    }
}

#[test]
fn a_multi_shows_the_kinds_that_java_finds() {
    let writes = vec![
        create(OpCode::Create, "/s-", 2),
        create(OpCode::CreateTtl, "/t", 5),
        create(OpCode::Create2, "/e", 1),
    ];
    let request = AuditedRequest::of(&WriteRequest::Multi(Ok(writes))).unwrap();
    let created = |path: &str| {
        Txn::Create2(proto::txn::CreateTxn {
            path: path.into(),
            data: None,
            acl: Vec::new(),
            ephemeral: false,
            parent_cversion: 0,
        })
    };
    let check = Txn::Check(proto::txn::CheckVersionTxn {
        path: "/".into(),
        version: 1,
    });
    let txn = Txn::Multi(vec![created("/s-01"), created("/t"), created("/e"), check]);
    let done = Outcome::Done { op: OpCode::Create };
    let outcome = Outcome::Multi(vec![done; 4]);
    let lines = texts(&request, &txn, &outcome);
    let ends: Vec<&str> = lines
        .iter()
        .map(|line| line.split_once("operation=create\tznode=").unwrap().1)
        .collect();
    assert_eq!(
        ends,
        [
            "/s-01\tresult=success",
            "/t\tresult=success",
            "/e\tznode_type=ephemeral\tresult=success"
        ]
    );
}

#[test]
fn requests_that_java_cannot_decode_have_no_line() {
    assert!(AuditedRequest::of(&create(OpCode::Create, "/a", 99)).is_none());
    let no_list = SetAclRequest {
        path: Some("/a".into()),
        acl: None,
        version: -1,
    };
    assert!(AuditedRequest::of(&WriteRequest::SetAcl(no_list)).is_none());
    let writes = vec![create(OpCode::Create, "/a", 99)];
    let request = AuditedRequest::of(&WriteRequest::Multi(Ok(writes))).unwrap();
    let txn = Txn::Multi(vec![Txn::error(ErrorCode::BadArguments)]);
    let outcome = Outcome::Multi(vec![Outcome::Error(ErrorCode::BadArguments)]);
    assert!(texts(&request, &txn, &outcome).is_empty());
    // The request was refused before its operations were executed.
    let txn = Txn::error(ErrorCode::SessionExpired);
    let refused = texts(&request, &txn, &Outcome::Error(ErrorCode::SessionExpired));
    assert!(refused[0].ends_with("operation=multiOperation\tresult=failure"));
}

#[test]
fn a_null_path_has_no_key() {
    let delete = PathVersionRequest {
        path: None,
        version: -1,
    };
    let request = AuditedRequest::of(&WriteRequest::Delete(delete)).unwrap();
    let txn = Txn::error(ErrorCode::MarshallingError);
    let lines = texts(&request, &txn, &Outcome::Error(ErrorCode::MarshallingError));
    assert!(lines[0].ends_with("operation=delete\tresult=failure"));
}

#[test]
fn the_end_of_a_session_lists_deleted_ephemerals() {
    let outcome = Outcome::Closed {
        missing: vec!["/gone".into()],
        unlisted: vec!["/more".into()],
    };
    let paths: Vec<Str> = vec!["/e".into(), "/gone".into()];
    let mut group = lines_of_close(&"zk".into(), SessionId(7), Some(&paths), &outcome);
    let lines = written(&group);
    let shown: Vec<_> = lines
        .iter()
        .map(|(level, text)| (*level, text.split_once("znode=").unwrap().1))
        .collect();
    assert_eq!(
        shown,
        [
            (Level::Info, "/e\tresult=success"),
            (Level::Error, "/gone\tresult=failure"),
            (Level::Info, "/more\tresult=success")
        ]
    );
    assert_eq!(
        lines[0].1,
        "session=0x7\tuser=zk\toperation=ephemeralZNodeDeletionOnSessionCloseOrExpire\tznode=/e\t\
         result=success"
    );
    group.retain_failures();
    assert_eq!(written(&group), [lines[1].clone()]);
}

/// A multi may have 45,000 operations, and identities may have 16 KiB.
#[test]
fn lines_of_a_multi_hold_the_identities_once() {
    const LINES: usize = 1000;
    let set = SetDataRequest {
        path: Some("/a".into()),
        data: None,
        version: -1,
    };
    let writes = vec![WriteRequest::SetData(set); LINES];
    let request = AuditedRequest::of(&WriteRequest::Multi(Ok(writes))).unwrap();
    let set = Txn::SetData(SetDataTxn {
        path: "/a".into(),
        data: None,
        version: 1,
    });
    let done = Outcome::Done {
        op: OpCode::SetData,
    };
    let (txn, outcome) = (
        Txn::Multi(vec![set; LINES]),
        Outcome::Multi(vec![done; LINES]),
    );
    let user = "u".repeat(16 << 10);
    let group = lines_of(caller(&user), request, &txn, &outcome);
    let bytes = group.bytes();
    assert!(bytes < user.len() + LINES * 64, "{bytes} bytes");
    let line = format!(
        "session=0x10000\tuser={user},127.0.0.1\tip=127.0.0.1\toperation=setData\tznode=/a\t\
         result=success"
    );
    assert_eq!(written(&group), vec![(Level::Info, line); LINES]);
}

#[test]
fn the_last_kind_of_a_path_applies() {
    let writes = vec![
        create(OpCode::Create, "/a", 1),
        create(OpCode::Create, "/a", 0),
    ];
    let Some(AuditedRequest::Multi(modes)) = AuditedRequest::of(&WriteRequest::Multi(Ok(writes)))
    else {
        panic!("a multi");
    };
    assert_eq!(modes.of("/a").map(|mode| mode.name()), Some("persistent"));
}
