//! `enableEagerACLCheck`: a member refuses requests by the ACLs in its own tree, without a
//! transaction.

use bytes::Bytes;
use proto::request::{Request, WriteRequest};
use proto::{Acl, Id, OpCode, Zxid};
use tests::ensemble::{Ensemble, EnsembleBuilder, Role};
use tests::requests::{create, create_with, delete, set_acl, set_data};
use tests::{Flavour, RawSession, or_skip};

fn acl(perms: i32, scheme: &str, id: &str) -> Acl {
    let id = Id {
        scheme: scheme.into(),
        id: id.into(),
    };
    Acl { perms, id }
}

fn create_by(op: OpCode, path: &str, acl: &[Acl]) -> WriteRequest {
    create_with(op, path, Some(Bytes::new()), 0, acl, -1)
}

/// Returns the requests of an unauthorised client. The answers of Apache ZooKeeper and Zoarium are
/// compared.
fn requests() -> Vec<(&'static str, WriteRequest)> {
    let bad = [acl(31, "nosuch", "x")];
    vec![
        (
            "create below what is closed",
            create("/closed/child", "", 0),
        ),
        (
            "create2 below it",
            create_by(OpCode::Create2, "/closed/child", &[Acl::open()]),
        ),
        ("delete below it", delete("/closed/inside", -1)),
        ("setData on it", set_data("/closed", "x", -1)),
        ("setACL on it", set_acl("/closed", &[Acl::open()], -1)),
        ("a bad ACL", create_by(OpCode::Create, "/bad", &bad)),
        (
            "a bad ACL below nothing",
            create_by(OpCode::Create, "/no/bad", &bad),
        ),
        ("a bad ACL for what is open", set_acl("/", &bad, -1)),
        ("setData on nothing", set_data("/no", "x", -1)),
        ("a path without a slash", create("no-slash", "", 0)),
        (
            "a bad version of what is closed",
            set_data("/closed", "x", 77),
        ),
        ("what is allowed", create("/open", "", 0)),
    ]
}

/// Returns the error of each request, and whether there was a transaction.
fn answers(ensemble: &Ensemble, id: u64) -> Vec<(&'static str, i32, bool)> {
    let address = ensemble.member(id).client_address().to_string();
    let mut session = RawSession::open(&address, None, 30_000).expect("a session");
    session.sync().expect("an answer");
    let mut answers = Vec::new();
    for (name, request) in requests() {
        let answer = session.call(&Request::Write(request)).expect("an answer");
        answers.push((name, answer.err, answer.zxid != Zxid(0)));
    }
    answers.push(("end", 0, true));
    session
        .call(&Request::Write(delete("/open", -1)))
        .expect("an answer");
    answers
}

#[test]
#[ignore = "runs other people's programs"]
fn every_role_refuses_immediately_as_java_does() {
    let mut recorded: Option<Vec<_>> = None;
    for flavour in [Flavour::Apache, Flavour::under_test()] {
        let builder = EnsembleBuilder::new(&[flavour; 3])
            .observers(&[flavour])
            .setting("enableEagerACLCheck", "true");
        let Some(ensemble) = or_skip("Apache", builder.start()) else {
            return;
        };
        let leader = ensemble.wait_until_all_serve();
        let address = ensemble.member(leader).client_address().to_string();
        let mut owner = RawSession::open(&address, None, 30_000).expect("a session");
        owner.authenticate("digest", "owner:pw").expect("an answer");
        let closed = [acl(31, "auth", ""), acl(1, "world", "anyone")];
        for path in ["/closed", "/closed/inside"] {
            let made = owner.call(&Request::Write(create_by(OpCode::Create, path, &closed)));
            assert_eq!(made.expect("an answer").err, 0);
        }
        for role in [Role::Follower, Role::Leader, Role::Observer] {
            let found = answers(&ensemble, ensemble.in_role(role)[0]);
            let known = recorded.get_or_insert_with(|| found.clone());
            assert_eq!(&found, known, "{flavour:?} {role:?}");
        }
    }
    // The first requests were answered without a transaction, so the comparison is meaningful.
    let recorded = recorded.expect("answers");
    assert_eq!(recorded[0], ("create below what is closed", -102, false));
}
