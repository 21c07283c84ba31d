//! Tests of input that would harm a careless server.

use std::io::Read;
use std::net::Shutdown;

use crate::raw::{TestServer, create, op, path, put_buffer, set};

#[test]
fn invalid_frames_close_only_their_connection() {
    let server = TestServer::start("");
    let mut other = server.session();
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc],
        &0x8000_0000u32.to_be_bytes(),
        &(0xf_ffff_i32 + 1).to_be_bytes(),
        &[0, 0, 0, 0],
        &[0, 0, 0, 5, 1, 2, 3, 4, 5],
    ] {
        let mut raw = server.connect();
        raw.send(bytes);
        assert!(raw.is_closed_in_silence(), "{bytes:?}");
    }
    for bytes in [&[0, 0, 0, 3, 0, 0, 0][..], &(-1i32).to_be_bytes(), b"ruok"] {
        let mut raw = server.session();
        raw.send(bytes);
        assert!(raw.is_closed_in_silence(), "{bytes:?} on an open session");
        let (session, password) = (raw.session, raw.password.clone());
        assert_eq!(
            server.connect().handshake(session, &password),
            session,
            "it lives on"
        );
    }
    assert_eq!(other.call(op::EXISTS, &path("/")).err, 0);
}

#[test]
fn requests_that_do_not_decode_are_answered_in_their_place() {
    let server = TestServer::start("");
    let mut raw = server.session();
    let mut other = server.session();
    raw.request(op::CREATE, &create("/a", b"x", 0));
    raw.request(op::CREATE, &[]);
    raw.request(op::GET_DATA, &i32::MAX.to_be_bytes());
    raw.request(op::EXISTS, &path("/a"));
    let replies: Vec<_> = (0..4).map(|_| raw.reply().unwrap()).collect();
    let errs: Vec<_> = replies.iter().map(|reply| (reply.xid, reply.err)).collect();
    assert_eq!(errs, [(1, 0), (2, -5), (3, -5), (4, 0)]);
    assert_eq!(
        replies[0].zxid, replies[3].zxid,
        "neither of them used a zxid"
    );
    assert_eq!(
        other.call(op::CREATE, &create("/b", b"", 0)).zxid,
        replies[0].zxid + 1
    );
}

#[test]
fn an_unfinished_handshake_is_abandoned() {
    let server = TestServer::start("nio.sessionlessCnxnTimeout=300\n");
    let mut silent = server.connect();
    let mut half = server.connect();
    half.send(&[0, 0, 0, 45, 0, 0]);
    assert!(silent.is_closed_in_silence());
    assert!(half.is_closed_in_silence());
}

/// Source: NIOServerCnxn.checkFourLetterWord, which reads the mask without waiting, and
/// NIOServerCnxnFactory, which expires a connection without a session.
#[test]
fn half_of_a_four_letter_word_is_dropped_without_an_answer() {
    let server = TestServer::start("nio.sessionlessCnxnTimeout=300\n4lw.commands.whitelist=*\n");
    let halves: [&[u8]; 4] = [b"stmk", b"stmk\0\0\0\0\0\0\x01", b"ruo", b"s"];
    let mut clients = halves.map(|half| {
        let mut client = server.connect();
        client.send(half);
        client
    });
    for client in &mut clients {
        assert!(client.is_closed_in_silence());
    }
    let mut whole = server.connect();
    whole.send(b"st");
    whole.send(b"mk\0\0\0\0\0\0\x01\x32");
    let mut answer = String::new();
    whole.stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "306");
}

#[test]
fn a_client_that_stops_sending_is_closed_and_its_requests_are_done() {
    let server = TestServer::start("");
    let mut raw = server.session();
    raw.request(op::CREATE, &create("/half", b"", 0));
    raw.stream.shutdown(Shutdown::Write).unwrap();
    while raw.frame().is_some() {}
    let mut other = server.session();
    assert_eq!(other.call(op::EXISTS, &path("/half")).err, 0);
}

#[test]
fn unread_replies_delay_no_other_client() {
    let server = TestServer::start("forceSync=no\n");
    let mut greedy = server.session();
    assert_eq!(
        greedy
            .call(op::CREATE, &create("/large", &[7; 1_000_000], 0))
            .err,
        0
    );
    for _ in 0..300 {
        greedy.request(op::GET_DATA, &path("/large"));
    }
    let mut other = server.session();
    for _ in 0..50 {
        assert_eq!(other.call(op::SET_DATA, &set("/large", b"small")).err, 0);
    }
    // Earlier requests are still answered, in order, once it reads.
    for xid in 2..=301 {
        assert_eq!(greedy.reply().unwrap().xid, xid);
    }
}

#[test]
fn a_client_that_does_not_read_its_events_is_cut() {
    let server = TestServer::start("forceSync=no\nsnapCount=1000000\n");
    let mut writer = server.session();
    let long = format!("/{}", "n".repeat(900_000));
    assert_eq!(writer.call(op::CREATE, &create(&long, b"", 0)).err, 0);
    let mut deaf = server.session();
    let mut watch = Vec::new();
    put_buffer(&mut watch, long.as_bytes());
    watch.extend(0i32.to_be_bytes());
    assert_eq!(deaf.call(op::ADD_WATCH, &watch).err, 0);
    // Each event contains the path. Together the events exceed the capacity of the outbox and the
    // kernel.
    for _ in 0..160 {
        assert_eq!(writer.call(op::SET_DATA, &set(&long, b"")).err, 0);
    }
    let mut events = 0;
    while deaf.frame().is_some() {
        events += 1;
    }
    assert!((1..160).contains(&events), "{events} events, then closed");
}
