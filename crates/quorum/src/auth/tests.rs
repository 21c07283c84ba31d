//! Tests of logins with names and passwords over a pipe.

use config::Secret;
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};

use super::*;

const SOMEBODY: DialledServer<'_> = DialledServer {
    sid: None,
    host: "localhost",
};

pub(crate) fn auth(joins_as: &str, password: &str, server_requires: bool) -> QuorumAuth {
    let users = [("zk".to_owned(), Secret::new("secret"))];
    QuorumAuth {
        learner: Some(SaslInitiator::DigestMd5(SaslLogin {
            user: joins_as.to_owned(),
            password: Secret::new(password),
        })),
        may_join: Some(SaslAcceptor::DigestMd5(SaslUsers::new(users))),
        server_requires,
        hosts: Hosts::default(),
    }
}

async fn both(
    dials: &QuorumAuth,
    listens: &QuorumAuth,
    ahead: usize,
) -> (Result<(), AuthError>, Result<Vec<u8>, AuthError>) {
    let (mut out, mut inward) = duplex(1 << 16);
    let dialling = async {
        let logged_in = dials.log_in(&mut out, SOMEBODY).await;
        let _ = out.write_all(b"what follows").await;
        logged_in
    };
    let listening = async {
        let mut come = vec![0; ahead];
        inward.read_exact(&mut come).await.unwrap();
        listens.admit(&mut inward, come).await
    };
    tokio::join!(dialling, listening)
}

/// Source: the first bytes of a Java learner.
#[test]
fn the_magic_equals_javas() {
    assert_eq!(
        MAGIC.to_be_bytes(),
        [0x5f, 0x24, 0x35, 1, 0x35, 1, 0xed, 0xcc]
    );
}

#[tokio::test]
async fn members_with_the_password_are_admitted() {
    let auth = auth("zk", "secret", true);
    // Each time, a longer part of the first packet has already been read.
    for ahead in [0, 3, 8, 11, 16] {
        let (logged_in, admitted) = both(&auth, &auth, ahead).await;
        logged_in.unwrap();
        assert_eq!(admitted.unwrap(), b"");
    }
}

#[tokio::test]
async fn a_member_without_the_password_is_refused_if_required() {
    for (user, password) in [("zk", "wrong"), ("kz", "secret")] {
        let wrong = auth(user, password, true);
        let (logged_in, admitted) = both(&wrong, &wrong, 0).await;
        assert!(matches!(logged_in, Err(AuthError::Denied)), "{logged_in:?}");
        assert!(matches!(
            admitted,
            Err(AuthError::Refused(Refusal::WrongPassword))
        ));
        let lenient = auth(user, password, false);
        let (logged_in, admitted) = both(&wrong, &lenient, 0).await;
        assert!(logged_in.is_err() && admitted.is_ok());
    }
}

#[tokio::test]
async fn a_member_without_a_login_keeps_its_bytes_unless_required() {
    let silent = QuorumAuth::default();
    let (_, admitted) = both(&silent, &auth("zk", "secret", true), 2).await;
    assert!(matches!(admitted, Err(AuthError::Missing)));
    let (_, admitted) = both(&silent, &auth("zk", "secret", false), 2).await;
    assert!(b"what follows".starts_with(&admitted.unwrap()));
    // Without SASL the bytes are not examined.
    let (_, admitted) = both(&silent, &silent, 2).await;
    assert_eq!(admitted.unwrap(), b"wh");
}

#[tokio::test]
async fn a_silent_member_is_admitted_after_a_timeout_unless_required() {
    let (_out, mut inward) = duplex(1 << 16);
    let lenient = auth("zk", "secret", false);
    assert_eq!(
        lenient.admit(&mut inward, b"ab".to_vec()).await.unwrap(),
        b"ab"
    );
}

async fn answer(hostile: impl AsyncFnOnce(&mut DuplexStream)) -> Result<Vec<u8>, AuthError> {
    let (mut out, mut inward) = duplex(1 << 16);
    let auth = auth("zk", "secret", true);
    let attacking = async {
        hostile(&mut out).await;
        out.shutdown().await.unwrap();
    };
    tokio::join!(attacking, auth.admit(&mut inward, Vec::new())).1
}

/// A server on the election port calls such a peer back.
#[tokio::test]
async fn a_closed_connection_is_admitted_unless_a_login_is_required() {
    for server_requires in [false, true] {
        let (mut out, mut inward) = duplex(1 << 16);
        out.shutdown().await.unwrap();
        let auth = auth("zk", "secret", server_requires);
        let admitted = auth.admit(&mut inward, Vec::new()).await;
        assert_eq!(admitted.is_err(), server_requires);
    }
}

#[tokio::test]
async fn wrong_packets_end_the_login() {
    let long = [&MAGIC.to_be_bytes()[..], &[0; 4], &5000i32.to_be_bytes()].concat();
    let refused = answer(async |out| out.write_all(&long).await.unwrap()).await;
    assert!(
        matches!(refused, Err(AuthError::Length(5000))),
        "{refused:?}"
    );
    let negative = [&MAGIC.to_be_bytes()[..], &[0; 4], &(-2i32).to_be_bytes()].concat();
    let refused = answer(async |out| out.write_all(&negative).await.unwrap()).await;
    assert!(matches!(refused, Err(AuthError::Length(-2))));
    let refused = answer(async |out| out.write_all(&[0x5f, 0x24]).await.unwrap()).await;
    assert!(matches!(refused, Err(AuthError::Missing)));
    let cut = [&MAGIC.to_be_bytes()[..], &[0; 3]].concat();
    let refused = answer(async |out| out.write_all(&cut).await.unwrap()).await;
    assert!(matches!(refused, Err(AuthError::Io(_))));
    let twice = answer(async |out| {
        write(out, IN_PROGRESS, b"").await.unwrap();
        write(out, IN_PROGRESS, b"username=\"zk\"").await.unwrap();
    });
    assert!(matches!(
        twice.await,
        Err(AuthError::Refused(Refusal::Missing(_)))
    ));
}

#[tokio::test]
async fn a_server_without_the_password_is_disconnected() {
    let (mut out, mut inward) = duplex(1 << 16);
    let auth = auth("zk", "secret", true);
    let pretending = async {
        for (status, token) in [
            (
                IN_PROGRESS,
                &b"realm=\"zk-quorum-sasl-md5\",nonce=\"a\",algorithm=md5-sess"[..],
            ),
            (SUCCESS, &b"rspauth=00000000000000000000000000000000"[..]),
        ] {
            expect_magic(&mut inward).await.unwrap();
            read_rest(&mut inward, TOKEN_BYTES_MAX).await.unwrap();
            write(&mut inward, status, token).await.unwrap();
        }
    };
    let (logged_in, ()) = tokio::join!(auth.log_in(&mut out, SOMEBODY), pretending);
    assert!(matches!(
        logged_in,
        Err(AuthError::Refused(Refusal::WrongPassword))
    ));
}
