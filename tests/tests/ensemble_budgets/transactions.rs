//! Identities, and transactions that are longer than their requests.

use proto::data::perms;
use proto::request::{Request, WriteRequest, flags};
use proto::{Acl, ErrorCode, OpCode};
use tests::ensemble::Ensemble;
use tests::requests::{create_with, delete, multi, set_data};

use crate::attacker::{LONG, attacker, create_long, credentials};
use crate::{FOLLOWER, LEADER, withstands};

/// Adds identities of `bytes` bytes until one is refused. Returns how many were accepted.
fn identities_taken(ensemble: &Ensemble, id: u64, bytes: usize, attempts: usize) -> usize {
    let mut session = attacker(ensemble, id);
    for taken in 0..attempts {
        let credentials = credentials(&format!("{taken:04}"), bytes);
        let refused = match session.authenticate("digest", credentials) {
            Ok(answer) => ErrorCode::from_i32(answer.err) == Some(ErrorCode::AuthFailed),
            Err(lost) => panic!("no answer to credentials: {lost:?}"),
        };
        if refused {
            return taken;
        }
    }
    attempts
}

#[test]
fn identities_of_a_connection_are_bounded_by_bytes_and_by_number() {
    let attack = |ensemble: &Ensemble| {
        for id in [FOLLOWER, LEADER] {
            assert_eq!(identities_taken(ensemble, id, 900_000, 300), 0);
            assert_eq!(identities_taken(ensemble, id, 1_000, 300), 15);
            // The connection's address is also an identity.
            assert_eq!(identities_taken(ensemble, id, 4, 300), 127);
        }
    };
    withstands("identities", |_| {}, attack);
}

/// The identities are part of each request that is forwarded to the leader.
#[test]
fn all_identities_with_all_requests_fit_through_the_link_to_the_leader() {
    let attack = |ensemble: &Ensemble| {
        let mut session = attacker(ensemble, FOLLOWER);
        for number in 0..15 {
            let credentials = credentials(&format!("{number:04}"), 1_000);
            let answer = session.authenticate("digest", credentials);
            assert_eq!(answer.expect("an answer").err, 0);
        }
        for _ in 0..2_000 {
            session.put(&Request::Write(delete("/missing", -1)));
        }
        for _ in 0..2_000 {
            let answer = session.take().expect("an answer");
            assert_eq!(ErrorCode::from_i32(answer.err), Some(ErrorCode::NoNode));
        }
    };
    withstands("requests with identities", |_| {}, attack);
}

/// Returns 14,000 creates for two identities of 250 bytes: a request of less than 1 MiB that would
/// become a transaction of 9 MB.
fn creates_for_all_identities() -> WriteRequest {
    let acl = [Acl::new(perms::ALL, "auth", "")];
    let create = |number| {
        let path = format!("/{number:05}");
        create_with(OpCode::Create, &path, None, flags::PERSISTENT, &acl, -1)
    };
    multi((0..14_000).map(create).collect())
}

#[test]
fn a_transaction_is_no_longer_than_every_member_can_read() {
    let attack = |ensemble: &Ensemble| {
        for id in [FOLLOWER, LEADER] {
            let mut session = attacker(ensemble, id);
            for user in ["a", "b"] {
                let answer = session.authenticate("digest", credentials(user, 250));
                assert_eq!(answer.expect("an answer").err, 0);
            }
            let request = Request::Write(creates_for_all_identities());
            for _ in 0..3 {
                let answer = session.call(&request).expect("an answer");
                let refused = ErrorCode::BadArguments.code().to_be_bytes();
                let results = answer.body.windows(4);
                assert!(results.into_iter().any(|bytes| bytes == refused));
                let none = session.call(&tests::requests::get_data("/00000"));
                let none = none.expect("an answer").err;
                assert_eq!(ErrorCode::from_i32(none), Some(ErrorCode::NoNode));
            }
            session.close().expect("the session ends");
        }
    };
    withstands("a long transaction", |_| {}, attack);
}

#[test]
fn long_writes_under_way_are_bounded_by_bytes() {
    let attack = |ensemble: &Ensemble| {
        let mut sessions: Vec<_> = (0..2).map(|_| attacker(ensemble, FOLLOWER)).collect();
        let request = Request::Write(set_data("/long", vec![b'x'; LONG], -1));
        std::thread::scope(|scope| {
            for session in &mut sessions {
                let request = &request;
                scope.spawn(move || {
                    for _ in 0..60 {
                        session.put(request);
                    }
                    for _ in 0..60 {
                        assert_eq!(session.take().expect("an answer").err, 0);
                    }
                });
            }
        });
    };
    withstands("long writes", create_long, attack);
}
