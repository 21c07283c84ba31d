//! Tests of configured limits.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::raw::{Reply, TestServer, create, op, path, put_buffer, set};

/// The error code ThrottledOp.
const THROTTLED: i32 = -127;

#[test]
fn connections_of_one_address_are_limited() {
    let server = TestServer::start("maxClientCnxns=2\n");
    let (_first, second) = (server.session(), server.session());
    assert!(server.connect().is_closed_in_silence());
    drop(second);
    // The slot is free as soon as the server has seen the end of that connection.
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

/// Returns the version and the data's length from a getData reply.
fn version_and_len(reply: &Reply) -> (i32, usize) {
    let len = u32::from_be_bytes(reply.body[..4].try_into().unwrap()) as usize;
    let stat = &reply.body[4 + len..];
    let version = i32::from_be_bytes(stat[32..36].try_into().unwrap());
    (version, len)
}

/// Each read sees the write before it and not the one after it, regardless of the length of the
/// answers and of how quickly other sessions make them longer.
#[test]
fn reads_between_two_writes_see_the_first_and_not_the_second() {
    let server = TestServer::start("");
    let (mut raw, mut other) = (server.session(), server.session());
    for name in ["/own", "/other"] {
        assert_eq!(raw.call(op::CREATE, &create(name, b"", 0)).err, 0);
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // The data is short, and becomes long when the reads arrive.
                other.request(op::SET_DATA, &set("/other", b""));
                other.request(op::SET_DATA, &set("/other", &[0; 900_000]));
                assert_eq!(other.reply().unwrap().err, 0);
                assert_eq!(other.reply().unwrap().err, 0);
            }
        });
        let mut throttled = 0;
        for round in 0..40 {
            let len = [10, 30_000, 300_000][round % 3];
            for _ in 0..2 {
                raw.request(op::SET_DATA, &set("/own", &vec![0; len]));
                for _ in 0..20 {
                    raw.request(op::GET_DATA, &path("/own"));
                    raw.request(op::GET_DATA, &path("/other"));
                }
            }
            for half in 0..2 {
                assert_eq!(raw.reply().unwrap().err, 0);
                let version = i32::try_from(round * 2 + half + 1).unwrap();
                for _ in 0..20 {
                    let own = raw.reply().unwrap();
                    if own.err != THROTTLED {
                        assert_eq!(version_and_len(&own), (version, len), "{}", own.xid);
                    }
                    throttled += usize::from(own.err == THROTTLED);
                    let other = raw.reply().unwrap();
                    assert!([0, THROTTLED].contains(&other.err), "{}", other.err);
                }
            }
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(throttled < 400, "{throttled} of 1600 reads were refused");
    });
}

#[test]
fn replies_longer_than_the_read_ahead_arrive_complete_and_in_order() {
    let server = TestServer::start("");
    let mut raw = server.session();
    let names: Vec<String> = (0..3).map(|name| format!("/n{name}")).collect();
    for (name, byte) in names.iter().zip(b'a'..) {
        let data = vec![byte; 400_000];
        assert_eq!(raw.call(op::CREATE, &create(name, &data, 0)).err, 0);
    }
    // Children with the longest possible names, whose list exceeds a small reply.
    for number in 0..3 {
        let child = format!("/n0/{number}{}", "c".repeat(100_000));
        assert_eq!(raw.call(op::CREATE, &create(&child, b"", 0)).err, 0);
    }
    for round in 0..30 {
        raw.request(op::GET_DATA, &path(&names[round % 3]));
        raw.request(op::PING, b"");
        raw.request(op::GET_CHILDREN, &path("/n0"));
    }
    for round in 0..30 {
        let data = raw.reply().unwrap();
        let byte = b'a' + u8::try_from(round % 3).unwrap();
        assert!(data.body[4..400_004].iter().all(|found| *found == byte));
        assert_eq!(raw.reply().unwrap().body, b"");
        let children = raw.reply().unwrap();
        assert_eq!(children.body.len(), 4 + 3 * (4 + 100_001));
    }
}

/// Returns an auth packet of the digest scheme.
fn digest(credentials: &str) -> Vec<u8> {
    let mut out = 0i32.to_be_bytes().to_vec();
    put_buffer(&mut out, b"digest");
    put_buffer(&mut out, credentials.as_bytes());
    out
}

#[test]
fn identities_beyond_the_bounds_end_the_connection() {
    let server = TestServer::start("");
    for (user_bytes, most) in [(4, 127), (1_000, 15), (20_000, 0)] {
        let mut raw = server.session();
        let mut taken = 0;
        let refused = loop {
            let user = format!("{taken:04}").repeat(user_bytes / 4);
            let reply = raw.call(op::AUTH, &digest(&format!("{user}:x")));
            if reply.err != 0 {
                break reply.err;
            }
            // The same identity does not count again.
            assert_eq!(raw.call(op::AUTH, &digest(&format!("{user}:x"))).err, 0);
            taken += 1;
        };
        assert_eq!((refused, taken), (-115, most), "of {user_bytes} bytes");
        assert!(raw.is_closed_in_silence());
    }
}
