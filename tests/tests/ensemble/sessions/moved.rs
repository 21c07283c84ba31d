//! Sessions that move from one server to another while the client's old connection is still open.

use proto::request::{Request, flags};
use tests::Flavour;
use tests::ensemble::EnsembleBuilder;
use tests::requests::{create, exists_watched, get_data};
use tests::{RawSession, or_skip};

use super::{LONG_MS, open, try_open, write};

/// Sends a request, and returns whether the connection has ended instead of an answer.
type IsRefused = fn(&mut RawSession) -> bool;

/// A leader stops serving a session's old connection once the session has moved. It answers no
/// request of any kind, and a ping does not keep the session alive.
///
/// Source: PrepRequestProcessor, which checks the owner for each request, and
/// FinalRequestProcessor, which ends the connection after SessionMovedException.
#[test]
fn a_leader_ends_the_old_connection_of_a_session_that_has_moved() {
    let builder = EnsembleBuilder::new(&[Flavour::under_test(); 3]);
    let Some(ensemble) = or_skip("sessions that move", builder.start()) else {
        return;
    };
    let leader = ensemble.wait_until_all_serve();
    let follower = (1..=3).find(|id| *id != leader).expect("a follower");
    let mut other = open(&ensemble, leader);
    write(&mut other, create("/a", "", flags::PERSISTENT));

    let requests: [(&str, IsRefused); 5] = [
        ("a read", |session| session.call(&get_data("/a")).is_err()),
        ("a watch", |session| {
            session.call(&exists_watched("/a")).is_err()
        }),
        ("a sync", |session| session.sync().is_err()),
        ("a ping", |session| session.ping().is_err()),
        ("a write", |session| {
            let request = create("/b", "", flags::PERSISTENT);
            session.call(&Request::Write(request)).is_err()
        }),
    ];
    for (name, is_refused) in requests {
        let mut old = open(&ensemble, leader);
        assert!(old.call(&get_data("/a")).is_ok());
        let moved = try_open(&ensemble, follower, Some(&old), LONG_MS);
        let mut moved = moved.expect("the session goes on at the follower");
        assert!(is_refused(&mut old), "{name} over the old connection");
        write(
            &mut moved,
            create(&format!("/{name}"), "", flags::EPHEMERAL),
        );
        // The session may return.
        let mut back =
            try_open(&ensemble, leader, Some(&old), LONG_MS).expect("the session goes on");
        assert!(back.ping().is_ok() && back.call(&get_data("/a")).is_ok());
    }
}
