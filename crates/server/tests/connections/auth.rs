//! Tests of identities.

use crate::raw::{TestServer, op, path, put_buffer};

fn digest(user: &str) -> Vec<u8> {
    let mut out = 0i32.to_be_bytes().to_vec();
    put_buffer(&mut out, b"digest");
    put_buffer(&mut out, user.as_bytes());
    out
}

#[test]
fn with_enforcement_authentication_comes_first() {
    let server = TestServer::start("enforce.auth.enabled=true\nenforce.auth.schemes=digest\n");
    for request in [op::PING, op::CLOSE, op::EXISTS] {
        let mut raw = server.session();
        let reply = raw.call(request, &path("/"));
        assert_eq!((reply.err, reply.zxid, reply.body.len()), (-124, 0, 0));
        assert!(raw.is_closed_in_silence());
    }
    let mut raw = server.session();
    assert_eq!(raw.call(op::AUTH, &digest("bob:pw")).err, 0);
    assert_eq!(raw.call(op::EXISTS, &path("/")).err, 0);
}

/// Apache ZooKeeper ends the connection before it checks the password.
#[test]
fn a_wrong_password_does_not_end_the_owners_connection() {
    let server = TestServer::start("");
    let mut owner = server.session();
    let mut wrong = owner.password.clone();
    wrong[0] ^= 1;
    for password in [&wrong[..], &[], &[0; 16]] {
        let mut stranger = server.connect();
        assert_eq!(stranger.handshake(owner.session, password), 0, "no session");
        assert_eq!(owner.call(op::EXISTS, &path("/")).err, 0);
    }
}

#[test]
fn a_session_on_a_new_connection_has_none_of_the_old_identities() {
    let server = TestServer::start("");
    let mut old = server.session();
    assert_eq!(old.call(op::AUTH, &digest("bob:pw")).err, 0);
    let mut new = server.connect();
    assert_eq!(
        new.handshake(old.session, &old.password.clone()),
        old.session
    );
    assert!(old.is_closed_in_silence(), "the old connection ends");
    let who = new.call(107, &[]);
    assert_eq!(&who.body[..4], 1i32.to_be_bytes(), "the address only");
}
