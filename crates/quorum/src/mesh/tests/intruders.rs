//! Tests of unexpected input on the election port: random bytes, false messages, and servers with a
//! wrong `myid`.

use log_limiter::LogLimiter;
use proto::notification::{FRAME_BYTES_MAX, Form};

use super::super::limits::GREETINGS_MAX;
use super::*;
use proto::notification::PeerState::{Following, Leading, Looking};

/// Starts only server 1 of three servers. The test acts as the other servers.
fn alone() -> (TestEnsemble, Peer) {
    let ensemble = TestEnsemble::new(1..=3);
    let list = ensemble.list(&[1, 2, 3], &[], 0);
    let peer = Peer::start(1, &list, zxid(5));
    (ensemble, peer)
}

fn vote(leader: i64) -> Notification {
    Notification {
        state: Looking,
        leader: Sid(leader),
        zxid: Zxid(0),
        round: ElectionRound(1),
        peer_epoch: Epoch(0),
        form: Form::Versioned {
            version: 2,
            config: None,
        },
    }
}

/// Checks that the server still answers correctly.
async fn assert_sane(port: u16) {
    let mut script = Script::greet(port, 3).await;
    let heard = script.received_notification().await;
    assert_eq!(
        (heard.state, heard.leader, heard.zxid),
        (Looking, Sid(1), Zxid(5))
    );
}

#[tokio::test]
async fn invalid_bytes_close_the_connection_and_log_few_lines() {
    let (log, _guard) = Log::capture();
    let (ensemble, _peer) = alone();
    let port = ensemble.port(1);
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..200 {
        let mut script = Script::connect(port).await;
        let mut noise = Vec::new();
        for _ in 0..64 {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            noise.extend(seed.to_be_bytes());
        }
        // A positive number would be a valid hello of a version before 3.5, which contains only the
        // sid.
        noise[0] |= 0x80;
        noise.truncate(8 + round);
        // The server may close before all bytes are written.
        let _ = script.stream.write_all(&noise).await;
        script.wait_for_close().await;
    }
    assert_sane(port).await;
    let told = log.lines("election connection closed").len();
    let bound = usize::try_from(LogLimiter::LINES_MAX).unwrap();
    assert!((1..=bound).contains(&told), "{told} lines");
    assert!(!log.lines("unknown version").is_empty());
}

#[tokio::test]
async fn wrong_hellos_are_closed() {
    let (ensemble, _peer) = alone();
    let port = ensemble.port(1);
    let hello = |version: i64, len: i32, text: &str| {
        let sid = 9i64.to_be_bytes();
        [
            &version.to_be_bytes()[..],
            &sid,
            &len.to_be_bytes(),
            text.as_bytes(),
        ]
        .concat()
    };
    for bytes in [
        hello(-65537, 15, "127.0.0.1:25209"),
        hello(-65536, 0, ""),
        hello(-65536, -1, ""),
        hello(-65536, 2049, ""),
        hello(-65536, 9, "127.0.0.1"),
        hello(-65535, 11, "127.0.0.1:x"),
    ] {
        let mut script = Script::connect(port).await;
        script.write(&bytes).await;
        script.wait_for_close().await;
    }
    assert_sane(port).await;
}

#[tokio::test]
async fn an_incomplete_hello_times_out() {
    let ensemble = TestEnsemble::new(1..=3);
    let list = ensemble.list(&[1, 2, 3], &[], 0);
    let settings = VoterSettings {
        read_timeout: Duration::from_millis(100),
        ..settings(1)
    };
    let _peer = Peer::with(settings, &list, zxid(5));
    let mut silent = Script::connect(ensemble.port(1)).await;
    let mut half = Script::connect(ensemble.port(1)).await;
    half.write(&(-65536i64).to_be_bytes()).await;
    silent.wait_for_close().await;
    half.wait_for_close().await;
    // After the hello, silence is permitted, but an incomplete message is not.
    let mut known = Script::greet(ensemble.port(1), 3).await;
    known.received_notification().await;
    let mut stalled = Script::greet(ensemble.port(1), 9).await;
    stalled.write(&[0, 0, 0, 40, 0]).await;
    stalled.wait_for_close().await;
    known.send_notification(&vote(3)).await;
    loop {
        if known.received_notification().await.zxid == Zxid(5) {
            break;
        }
    }
}

/// Silent peers do not block others.
#[tokio::test]
async fn silent_connections_yield_to_others() {
    let (log, _guard) = Log::capture();
    let (ensemble, _peer) = alone();
    let mut crowd = Vec::new();
    for _ in 0..GREETINGS_MAX + 20 {
        crowd.push(Script::connect(ensemble.port(1)).await);
    }
    crowd[0].wait_for_close().await;
    let oldest = crowd[0].stream.local_addr().expect("its address");
    let told = log.lines("too many election connections");
    assert!(told[0].contains(&format!("peer={oldest}")), "{told:?}");
    assert_sane(ensemble.port(1)).await;
}

#[tokio::test]
async fn a_message_with_a_wrong_length_ends_its_connection_only() {
    let (log, _guard) = Log::capture();
    let (ensemble, _peer) = alone();
    let mut good = Script::greet(ensemble.port(1), 3).await;
    good.received_notification().await;
    let too_long = i32::try_from(FRAME_BYTES_MAX + 1).unwrap();
    for len in [0, -1, too_long, i32::MAX] {
        let mut script = Script::greet(ensemble.port(1), 2).await;
        script.received_notification().await;
        script.write(&len.to_be_bytes()).await;
        script.wait_for_close().await;
    }
    log.wait("the message has an invalid length of 524289 bytes")
        .await;
    // This vote is better, so the server adopts it and sends it to the others.
    let better = Notification {
        zxid: Zxid(9),
        ..vote(3)
    };
    good.send_notification(&better).await;
    while good.received_notification().await.leader != Sid(3) {}
}

#[tokio::test]
async fn a_malformed_message_is_dropped_and_the_connection_stays() {
    let (log, _guard) = Log::capture();
    let (ensemble, _peer) = alone();
    let mut script = Script::greet(ensemble.port(1), 3).await;
    script.received_notification().await;
    for len in [1i32, 27, 29, 36] {
        let body = vec![0; usize::try_from(len).unwrap()];
        script
            .write(&[&len.to_be_bytes()[..], &body].concat())
            .await;
    }
    // An invalid list does not affect the vote.
    let better = Notification {
        zxid: Zxid(9),
        form: Form::Versioned {
            version: 2,
            config: Some(b"nonsense".to_vec().into()),
        },
        ..vote(3)
    };
    script.send_notification(&better).await;
    while script.received_notification().await.leader != Sid(3) {}
    assert!(!log.lines("malformed notification").is_empty());
}

/// Several servers that are not in the member list send messages of the maximum length.
#[tokio::test]
async fn unlisted_servers_are_answered() {
    let (ensemble, _peer) = alone();
    for sid in [100, 101, 102] {
        let mut stranger = Script::greet(ensemble.port(1), sid).await;
        let lie = Notification {
            form: Form::Versioned {
                version: 2,
                config: Some(vec![b'x'; FRAME_BYTES_MAX - 44].into()),
            },
            ..vote(sid)
        };
        stranger.send_notification(&lie).await;
        let answer = stranger.received_notification().await;
        assert_eq!((answer.state, answer.leader), (Looking, Sid(1)));
    }
}

#[tokio::test]
async fn two_servers_with_one_myid_are_reported_and_do_not_storm() {
    let (log, _guard) = Log::capture();
    let ensemble = TestEnsemble::new([1, 2, 3]);
    let list = ensemble.list(&[1, 2, 3], &[], 0);
    // A server on another machine was configured with the id 3 of its neighbour.
    let elsewhere = TestEnsemble {
        election_ports: BTreeMap::from([
            (1, ensemble.port(1)),
            (2, ensemble.port(2)),
            (3, free_port()),
        ]),
    };
    let mut peers = vec![
        Peer::start(1, &list, zxid(0)),
        Peer::start(2, &list, zxid(0)),
    ];
    let mut third = Peer::start(3, &list, zxid(0));
    for peer in &mut peers {
        assert_eq!(peer.elected().await, (Following, 3));
    }
    assert_eq!(third.elected().await, (Leading, 3));
    // The twin takes over the connections of the real server, and receives the message that 3,
    // which is its own id, leads.
    let mut twin = Peer::start(3, &elsewhere.list(&[1, 2, 3], &[], 0), zxid(0));
    for port in [ensemble.port(3), elsewhere.port(3)] {
        let mut script = Script::greet(port, 3).await;
        script.wait_for_close().await;
    }
    log.wait("another server has the same id as this server")
        .await;
    let line = &log.lines("another server has the same id as this server")[0];
    assert!(line.contains("WARN") && line.contains("me=3"), "{line}");
    // The servers continue, and log lines are not repeated indefinitely.
    let quiet = timeout(Duration::from_secs(2), twin.events.recv()).await;
    drop(quiet);
    let lines = log.lines("").len();
    assert!(lines < 40, "{lines} lines: {:#?}", log.lines(""));
}
