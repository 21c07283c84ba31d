//! Limits of the configuration.

use crate::raw::{TestServer, create, op, path};

#[test]
fn connections_of_one_address_are_limited() {
    let server = TestServer::start("maxClientCnxns=2\n");
    let (_first, second) = (server.session(), server.session());
    assert!(server.connect().is_closed_in_silence());
    drop(second);
    // The place is free as soon as the server has seen the end of that connection.
    let mut tries = 0..10_000;
    assert!(tries.any(|_| {
        let mut raw = server.connect();
        raw.send(&0i32.to_be_bytes()[..3]);
        raw.stream.set_nonblocking(true).unwrap();
        std::thread::yield_now();
        let mut byte = [0];
        let open = std::io::Read::read(&mut raw.stream, &mut byte);
        open.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    }));
}

#[test]
fn all_connections_are_limited() {
    let server = TestServer::start("maxCnxns=1\n");
    let _first = server.session();
    assert!(server.connect().is_closed_in_silence());
}

#[test]
fn handshakes_beyond_the_tokens_are_closed() {
    let server =
        TestServer::start("connection_throttle_tokens=2\nconnection_throttle_fill_time=3600000\n");
    let _sessions = [server.session(), server.session()];
    let mut refused = server.connect();
    refused.send(
        &[
            &45i32.to_be_bytes()[..],
            &[0; 24],
            &16i32.to_be_bytes(),
            &[0; 17],
        ]
        .concat(),
    );
    assert!(refused.is_closed_in_silence());
}

#[test]
fn large_requests_beyond_the_bound_close_the_connection() {
    let server = TestServer::start("largeRequestThreshold=1000\nlargeRequestMaxBytes=5000\n");
    let mut raw = server.session();
    assert_eq!(raw.call(op::CREATE, &create("/fits", &[0; 4000], 0)).err, 0);
    assert_eq!(
        raw.call(op::CREATE, &create("/again", &[0; 4000], 0)).err,
        0,
        "given back"
    );
    raw.request(op::CREATE, &create("/too-much", &[0; 6000], 0));
    assert!(raw.is_closed_in_silence());
    assert_eq!(
        server.session().call(op::EXISTS, &path("/too-much")).err,
        -101
    );
}

#[test]
fn more_requests_than_may_be_outstanding_are_all_answered() {
    let server = TestServer::start("globalOutstandingLimit=1\nrequest_throttle_max_requests=1\n");
    let mut sessions: Vec<_> = (0..4).map(|_| server.session()).collect();
    for (number, raw) in sessions.iter_mut().enumerate() {
        for request in 0..500 {
            raw.request(
                op::CREATE,
                &create(&format!("/n{number}-{request}"), b"", 0),
            );
        }
    }
    for raw in &mut sessions {
        for xid in 1..=500 {
            let reply = raw.reply().unwrap();
            assert_eq!((reply.xid, reply.err), (xid, 0));
        }
    }
}
