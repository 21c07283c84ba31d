//! The identity of a client by its certificate, and its rights.

use proto::request::Request;
use proto::{Acl, Id, OpCode};
use tests::RawSession;
use tests::certificates::Certificates;
use tests::requests::{create, create_with, get_data};

use crate::{session, started, unified};

fn only_for(scheme: &str, id: &str) -> Acl {
    Acl {
        perms: 31,
        id: Id {
            scheme: scheme.into(),
            id: id.into(),
        },
    }
}

fn code_of(session: &mut RawSession, path: &str) -> i32 {
    session.call(&get_data(path)).unwrap().err
}

const NO_AUTH: i32 = -102;
const INVALID_ACL: i32 = -114;

fn make(session: &mut RawSession, path: &str, acl: &Acl) -> i32 {
    let request = create_with(
        OpCode::Create,
        path,
        Some("x".into()),
        0,
        std::slice::from_ref(acl),
        -1,
    );
    session.call(&Request::Write(request)).unwrap().err
}

#[test]
fn acls_of_scheme_x509_hold_for_the_subject_and_for_the_super_user() {
    let certificates = Certificates::new();
    for name in ["server", "ann", "bob", "root"] {
        certificates.sign(name);
    }
    let builder = unified(&certificates, "pem").setting(
        "X509AuthenticationProvider.superUser",
        "CN=root,OU=Ops,O=Test",
    );
    let server = started(&builder);
    let connect = |name| session(&server, certificates.connector(Some(name))).unwrap();
    let (mut ann, mut bob, mut root) = (connect("ann"), connect("bob"), connect("root"));
    let acl = only_for("x509", "CN=ann,OU=Ops,O=Test");
    assert_eq!(make(&mut ann, "/by-name", &acl), 0);
    assert_eq!(make(&mut ann, "/by-auth", &only_for("auth", "")), 0);
    for path in ["/by-name", "/by-auth"] {
        assert_eq!(code_of(&mut ann, path), 0);
        assert_eq!(code_of(&mut bob, path), NO_AUTH);
        assert_eq!(code_of(&mut root, path), 0);
        let mut plain = RawSession::open(&server.address(), None, 10_000).unwrap();
        assert_eq!(code_of(&mut plain, path), NO_AUTH);
    }
    // All three identities at the same time.
    bob.authenticate("digest", "bob:secret").unwrap();
    assert_eq!(make(&mut bob, "/by-both", &only_for("auth", "")), 0);
    let mut digest_only = RawSession::open(&server.address(), None, 10_000).unwrap();
    assert_eq!(code_of(&mut digest_only, "/by-both"), NO_AUTH);
    digest_only.authenticate("digest", "bob:secret").unwrap();
    assert_eq!(code_of(&mut digest_only, "/by-both"), 0);
    assert_eq!(code_of(&mut connect("bob"), "/by-both"), 0);
    assert_eq!(make(&mut bob, "/by-ip", &only_for("ip", "127.0.0.1")), 0);
    assert_eq!(code_of(&mut ann, "/by-ip"), 0);
    assert_eq!(
        make(&mut bob, "/no-name", &only_for("x509", "no name")),
        INVALID_ACL
    );
}

#[test]
fn optional_certificates_give_no_identity() {
    let certificates = Certificates::new();
    certificates.sign("server");
    certificates.sign("ann");
    let builder = unified(&certificates, "pem")
        .setting("ssl.clientAuth", "want")
        .setting("enforce.auth.enabled", "true")
        .setting("enforce.auth.schemes", "x509");
    let server = started(&builder);
    let mut without = session(&server, certificates.connector(None)).unwrap();
    let refused = without.call(&Request::Write(create("/a", "", 0)));
    assert!(refused.is_err() || refused.is_ok_and(|answer| answer.err == -124));
    let mut with = session(&server, certificates.connector(Some("ann"))).unwrap();
    assert_eq!(
        with.call(&Request::Write(create("/a", "", 0))).unwrap().err,
        0
    );
}
