//! Kept connections, calls back, and repeated dials.

use bytes::Bytes;
use proto::hello::{Endpoint, Hello, HelloAddresses};
use proto::notification::{Form, Notification, PeerState};
use proto::{ElectionRound, Epoch, Sid, Zxid};
use zoarium_election::limits::{DIAL_PAUSE_MAX_MS, DIAL_PAUSE_MIN_MS, STRANGERS_MAX};
use zoarium_election::links::{CloseReason, ConnectionId, LinkAction, Links};

fn links(me: i64) -> Links {
    Links::new(Sid(me), (1..=5).map(Sid).collect())
}

fn vote(round: i64) -> Notification {
    Notification {
        state: PeerState::Looking,
        leader: Sid(1),
        zxid: Zxid(0),
        round: ElectionRound(round),
        peer_epoch: Epoch(0),
        form: Form::Versioned {
            version: 2,
            config: Some(Bytes::new()),
        },
    }
}

fn hello(sid: i64, host: &str) -> Hello {
    let endpoint = Endpoint {
        host: host.to_owned(),
        port: 3888,
    };
    Hello {
        sid: Sid(sid),
        addresses: HelloAddresses::One(vec![endpoint]),
    }
}

/// Returns the actions, one line each.
fn take(out: &mut Vec<LinkAction>) -> Vec<String> {
    out.drain(..).map(|action| action.to_string()).collect()
}

#[test]
fn the_greater_sid_dials_and_keeps_the_connection() {
    let (mut links, mut out) = (links(3), Vec::new());
    links.send(Sid(1), vote(1), 0, &mut out);
    links.send(Sid(1), vote(2), 0, &mut out);
    assert_eq!(take(&mut out), ["dial 1"]);
    links.handle_dialled(Sid(1), ConnectionId(7), 5, &mut out);
    // The newest notification replaced the older one.
    let written = "write #7: LOOKING (0x0, 0x0, 1) round 2";
    assert_eq!(take(&mut out), ["keep #7 of 1", written]);
    links.send(Sid(1), vote(3), 6, &mut out);
    assert_eq!(take(&mut out), ["write #7: LOOKING (0x0, 0x0, 1) round 3"]);
    assert!(links.is_up(Sid(1)) && links.next_deadline().is_none());
}

#[test]
fn the_smaller_sid_connects_briefly_and_is_dialled_back() {
    let (mut one, mut three) = (links(1), links(3));
    let mut out = Vec::new();
    one.send(Sid(3), vote(1), 0, &mut out);
    assert_eq!(take(&mut out), ["dial 3"]);
    one.handle_dialled(Sid(3), ConnectionId(1), 0, &mut out);
    assert_eq!(take(&mut out), ["close #1: the other server connects back"]);
    three.handle_hello(ConnectionId(50), &hello(1, "10.0.0.1"), &mut out);
    assert_eq!(
        take(&mut out),
        [
            "close #50: this server connects back",
            "dial 1 10.0.0.1:3888"
        ]
    );
    three.handle_dialled(Sid(1), ConnectionId(51), 1, &mut out);
    assert_eq!(take(&mut out), ["keep #51 of 1"]);
    one.handle_hello(ConnectionId(2), &hello(3, "10.0.0.3"), &mut out);
    let written = "write #2: LOOKING (0x0, 0x0, 1) round 1";
    assert_eq!(take(&mut out), ["keep #2 of 3", written]);
}

#[test]
fn a_wildcard_server_is_dialled_at_its_configured_address() {
    let (mut links, mut out) = (links(3), Vec::new());
    links.handle_hello(ConnectionId(1), &hello(1, "0.0.0.0"), &mut out);
    assert_eq!(
        take(&mut out),
        ["close #1: this server connects back", "dial 1"]
    );
    // A server outside the list with such an address cannot be called back, and its state is not
    // kept.
    links.handle_hello(ConnectionId(2), &hello(0, "0.0.0.0"), &mut out);
    assert_eq!(take(&mut out), ["close #2: this server connects back"]);
    links.send(Sid(0), vote(1), 0, &mut out);
    assert_eq!(take(&mut out), [""; 0]);
}

#[test]
fn a_server_with_the_own_sid_is_refused() {
    let (mut links, mut out) = (links(3), Vec::new());
    links.handle_hello(ConnectionId(1), &hello(3, "10.0.0.9"), &mut out);
    assert_eq!(
        take(&mut out),
        ["close #1: the other server has this server's own sid"]
    );
    links.send(Sid(3), vote(1), 0, &mut out);
    assert_eq!(take(&mut out), [""; 0]);
}

#[test]
fn a_new_connection_replaces_the_old_one() {
    let (mut one, mut out) = (links(1), Vec::new());
    one.handle_hello(ConnectionId(1), &hello(3, "10.0.0.3"), &mut out);
    assert_eq!(take(&mut out), ["keep #1 of 3"]);
    one.handle_hello(ConnectionId(2), &hello(3, "10.0.0.3"), &mut out);
    let replaced = [
        "close #1: a newer connection replaces this one",
        "down: 3",
        "keep #2 of 3",
    ];
    assert_eq!(take(&mut out), replaced);
    // A late close of the old connection changes nothing.
    one.handle_closed(ConnectionId(1), &mut out);
    assert!(out.is_empty() && one.is_up(Sid(3)));
    one.handle_closed(ConnectionId(2), &mut out);
    assert_eq!(take(&mut out), ["down: 3"]);
    assert!(!one.is_up(Sid(3)));
}

#[test]
fn a_knock_of_a_connected_server_replaces_the_connection() {
    let (mut links, mut out) = (links(3), Vec::new());
    links.send(Sid(1), vote(1), 0, &mut out);
    links.handle_dialled(Sid(1), ConnectionId(1), 0, &mut out);
    out.clear();
    links.handle_hello(ConnectionId(2), &hello(1, "10.0.0.1"), &mut out);
    let steps = [
        "close #1: a newer connection replaces this one",
        "down: 1",
        "close #2: this server connects back",
        "dial 1 10.0.0.1:3888",
    ];
    assert_eq!(take(&mut out), steps);
    // During a dial, a knock or a notification does not dial a second time.
    links.handle_hello(ConnectionId(3), &hello(1, "10.0.0.1"), &mut out);
    links.send(Sid(1), vote(2), 0, &mut out);
    assert_eq!(take(&mut out), ["close #3: this server connects back"]);
}

#[test]
fn dials_pause_longer_each_time_and_a_knock_ends_the_pause() {
    let (mut links, mut out) = (links(3), Vec::new());
    let (mut now_ms, mut pauses) = (0, Vec::new());
    links.send(Sid(1), vote(1), now_ms, &mut out);
    for _ in 0..8 {
        assert_eq!(take(&mut out), ["dial 1"]);
        links.handle_dial_failed(Sid(1), now_ms);
        // Notifications in between do not dial.
        links.send(Sid(1), vote(2), now_ms, &mut out);
        assert!(out.is_empty());
        let next_ms = links.next_deadline().expect("there is something to say");
        links.handle_deadline(next_ms - 1, &mut out);
        assert!(out.is_empty());
        links.handle_deadline(next_ms, &mut out);
        pauses.push(next_ms - now_ms);
        now_ms = next_ms;
    }
    assert_eq!(pauses, [200, 400, 800, 1600, 3200, 5000, 5000, 5000]);
    assert_eq!(
        (pauses[0], pauses[7]),
        (DIAL_PAUSE_MIN_MS, DIAL_PAUSE_MAX_MS)
    );
    out.clear();
    links.handle_dial_failed(Sid(1), now_ms);
    links.handle_hello(ConnectionId(9), &hello(1, "10.0.0.1"), &mut out);
    assert_eq!(
        take(&mut out),
        [
            "close #9: this server connects back",
            "dial 1 10.0.0.1:3888"
        ]
    );
    // The address of the knock is tried once, then the configuration's again.
    links.handle_dial_failed(Sid(1), now_ms);
    assert_eq!(links.next_deadline(), Some(now_ms + DIAL_PAUSE_MIN_MS));
    links.handle_deadline(now_ms + DIAL_PAUSE_MIN_MS, &mut out);
    assert_eq!(take(&mut out), ["dial 1"]);
}

#[test]
fn an_unanswered_dial_is_repeated() {
    let (mut links, mut out) = (links(1), Vec::new());
    links.send(Sid(3), vote(1), 0, &mut out);
    links.handle_dialled(Sid(3), ConnectionId(1), 0, &mut out);
    out.clear();
    assert_eq!(links.next_deadline(), Some(DIAL_PAUSE_MIN_MS));
    links.handle_deadline(DIAL_PAUSE_MIN_MS, &mut out);
    assert_eq!(take(&mut out), ["dial 3"]);
}

#[test]
fn connections_of_unlisted_servers_are_bounded() {
    let (mut links, mut out) = (links(3), Vec::new());
    let max = i64::try_from(STRANGERS_MAX).expect("a small bound");
    for stranger in 0..max {
        let connection = ConnectionId(stranger.unsigned_abs());
        links.handle_hello(connection, &hello(100 + stranger, "10.1.0.1"), &mut out);
    }
    let kept = |action: &LinkAction| matches!(action, LinkAction::Keep { .. });
    assert!(out.iter().all(kept) && out.len() == STRANGERS_MAX);
    out.clear();
    links.handle_hello(ConnectionId(900), &hello(999, "10.1.0.1"), &mut out);
    assert_eq!(
        take(&mut out),
        ["close #900: too many servers outside the member list"]
    );
    // Members always have a slot, and a closed connection frees one.
    links.handle_hello(ConnectionId(901), &hello(5, "10.0.0.5"), &mut out);
    links.handle_closed(ConnectionId(0), &mut out);
    links.handle_hello(ConnectionId(902), &hello(999, "10.1.0.1"), &mut out);
    let steps = ["keep #901 of 5", "down: 100", "keep #902 of 999"];
    assert_eq!(take(&mut out), steps);
}

#[test]
fn unreachable_unlisted_servers_leave_no_state() {
    let (mut links, mut out) = (links(300), Vec::new());
    for knock in 0..200 {
        let connection = ConnectionId(knock);
        let sid = 10 + i64::try_from(knock).expect("small");
        links.handle_hello(connection, &hello(sid, "10.1.0.1"), &mut out);
        links.handle_dial_failed(Sid(sid), 0);
    }
    let refused = |action: &LinkAction| {
        let LinkAction::Close { reason, .. } = action else {
            return false;
        };
        *reason == CloseReason::TooManyStrangers
    };
    assert!(!out.iter().any(refused));
    assert_eq!(links.next_deadline(), None);
}

#[test]
fn an_observer_without_a_sid_gets_one_for_dialling_back() {
    let (mut links, mut out) = (links(3), Vec::new());
    links.handle_hello(ConnectionId(1), &hello(i64::MAX, "10.1.0.1"), &mut out);
    links.handle_hello(ConnectionId(2), &hello(i64::MAX, "10.1.0.2"), &mut out);
    let steps = [
        "close #1: this server connects back",
        "dial -1 10.1.0.1:3888",
        "close #2: this server connects back",
        "dial -2 10.1.0.2:3888",
    ];
    assert_eq!(take(&mut out), steps);
    links.handle_dialled(Sid(-1), ConnectionId(3), 0, &mut out);
    assert_eq!(take(&mut out), ["keep #3 of -1"]);
}

#[test]
fn a_server_that_left_the_list_stays_connected_and_is_not_dialled() {
    let (mut links, mut out) = (links(3), Vec::new());
    for sid in [1, 2] {
        links.send(Sid(sid), vote(1), 0, &mut out);
    }
    links.handle_dialled(Sid(1), ConnectionId(1), 0, &mut out);
    links.handle_dial_failed(Sid(2), 0);
    out.clear();
    links.set_members([Sid(3), Sid(4)].into());
    links.send(Sid(1), vote(2), 0, &mut out);
    links.send(Sid(2), vote(2), 0, &mut out);
    assert_eq!(take(&mut out), ["write #1: LOOKING (0x0, 0x0, 1) round 2"]);
    assert_eq!(links.next_deadline(), None);
}
