//! Clients that close their connection directly after a request.

use std::thread;

use proto::request::{Request, WriteRequest, flags};
use proto::response::NamesResponse;
use tests::Flavour;
use tests::ensemble::EnsembleBuilder;
use tests::requests::{create, get_children};
use tests::{or_skip, wait_for};

use super::{LIMIT, open, write};

const CLIENTS: usize = 40;

/// The C client does not wait for the answer to closeSession. A follower passes requests on even if
/// the connection has ended, as the leader executes them.
///
/// Source: FollowerRequestProcessor.
#[test]
fn requests_are_executed_although_their_clients_do_not_wait() {
    let builder = EnsembleBuilder::new(&[Flavour::under_test(); 3]);
    let Some(ensemble) = or_skip("hasty clients", builder.start()) else {
        return;
    };
    let leader = ensemble.wait_until_all_serve();
    let follower = (1..=3).find(|id| *id != leader).expect("a follower");
    let mut witness = open(&ensemble, follower);
    for parent in ["/left", "/closed"] {
        write(&mut witness, create(parent, "", flags::PERSISTENT));
    }
    let sessions: Vec<_> = (0..CLIENTS).map(|_| open(&ensemble, follower)).collect();
    // Many clients write at the same time, so their connections do not run the core themselves.
    thread::scope(|scope| {
        for (number, mut session) in sessions.into_iter().enumerate() {
            scope.spawn(move || {
                let left = create(&format!("/left/{number}"), "", flags::PERSISTENT);
                session.put(&Request::Write(left));
                if number % 2 == 0 {
                    let closed = create(&format!("/closed/{number}"), "", flags::EPHEMERAL);
                    session.put(&Request::Write(closed));
                    session.put(&Request::Write(WriteRequest::CloseSession));
                }
                assert!(session.flush().is_ok());
            });
        }
    });
    let mut names = |parent| {
        assert_eq!(witness.sync().expect("an answer").err, 0);
        let answer = witness.call(&get_children(parent)).expect("an answer");
        answer.record::<NamesResponse>().names.len()
    };
    wait_for("all requests", LIMIT, || {
        (names("/left") == CLIENTS && names("/closed") == 0).then_some(())
    });
}
