//! Invalid input to the election and quorum ports.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use fastrand::Rng;
use tests::ensemble::{Ensemble, EnsembleBuilder, Load, check};
use tests::{Flavour, or_skip, wait_for};

use crate::bad_input::words::{
    ACK, ACKEPOCH, Bytes, FOLLOWERINFO, HANDSHAKE, LEADERINFO, OBSERVERINFO, PING, PROPOSAL,
    REQUEST, REVALIDATE, handshake, learner_info, notification, packet,
};
use crate::bad_input::{PROGRESS, ours};

/// Longer than a peer's time limits for a handshake, a packet and an answer here.
const CLOSED_WITHIN: Duration = Duration::from_secs(20);
/// An id that no member list contains.
const STRANGER: i64 = 77;

/// Expected fate of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// The server closes it, and logs this text (only Zoarium).
    Closed(&'static str),
    /// The server may keep it: it is not invalid yet, or is only ignored.
    Any,
}

struct Case {
    what: &'static str,
    bytes: Vec<u8>,
    fate: Effect,
}

fn case(what: &'static str, bytes: Bytes, fate: Effect) -> Case {
    let bytes = bytes.0;
    Case { what, bytes, fate }
}

/// Starts three voters and an observer of the tested kind.
fn ensemble() -> Option<Ensemble> {
    let builder = EnsembleBuilder::new(&[ours(); 3]).observers(&[ours()]);
    or_skip("wrong input from peers", builder.start_led_by_last_voter())
}

/// Sends the bytes of each case to one of these ports, in turn, and checks after each that the
/// ensemble continues with the same leader. (Only to one port, because a server limits its log
/// lines per minute.)
fn throw(ensemble: &Ensemble, load: &Load, ports: &[(u64, SocketAddr)], cases: &[Case]) {
    for (case, &(id, address)) in cases.iter().zip(ports.iter().cycle()) {
        let before = ensemble.member(id).log().len();
        let mut stream = TcpStream::connect(address).expect("a connection");
        // The server may close it before it has read everything.
        stream.write_all(&case.bytes).ok();
        if let Effect::Closed(words) = case.fate {
            let closed = reads_end(&mut stream, CLOSED_WITHIN);
            assert!(closed, "member {id} keeps a link with {}", case.what);
            if ensemble.member(id).flavour() == Flavour::Zoarium {
                wait_for(
                    &format!("{words:?} about {}", case.what),
                    CLOSED_WITHIN,
                    || {
                        let log = ensemble.member(id).log().split_off(before);
                        log.contains(words).then_some(())
                    },
                );
            }
        }
        load.wait_for_progress(PROGRESS);
        assert_eq!(ensemble.leaders(), [3], "after {}", case.what);
    }
}

/// Returns whether the other side ends the connection in time, whatever it sends before.
fn reads_end(stream: &mut TcpStream, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    let mut buffer = [0; 4096];
    while let Some(left) = deadline.checked_duration_since(Instant::now()) {
        let left = left.max(Duration::from_millis(1));
        stream.set_read_timeout(Some(left)).expect("a time limit");
        match stream.read(&mut buffer) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => {
                use std::io::ErrorKind::{TimedOut, WouldBlock};
                return !matches!(error.kind(), TimedOut | WouldBlock);
            }
        }
    }
    false
}

fn random(rng: &mut Rng, count: usize) -> Bytes {
    let bytes = std::iter::repeat_with(|| rng.u8(..)).take(count);
    Bytes(bytes.collect())
}

fn goes_on(ensemble: &Ensemble, load: Load) {
    let report = load.finish();
    assert_eq!(report.sessions_lost(), 0);
    assert_eq!(report.unknown(), 0, "a connection of a client was lost");
    check::nothing_is_lost(ensemble, &report);
}

/// Address that the unknown peer announces.
const HERE: &str = "127.0.0.1:1";

/// Returns a vote of the unknown peer for itself, which beats every other.
fn best_vote(state: i32) -> Bytes {
    notification(state, STRANGER, i64::MAX, i64::MAX, i64::MAX)
}

/// Returns the cases for the election port.
#[expect(clippy::too_many_lines, reason = "a table, one entry a case")]
fn election_port_cases(rng: &mut Rng) -> Vec<Case> {
    use Effect::{Any, Closed};
    let start = || Bytes::default().long(HANDSHAKE).long(STRANGER);
    let stranger = || handshake(STRANGER, HERE);
    vec![
        // The first bit marks it as a protocol version.
        case(
            "an unknown version",
            Bytes::default().long(-7).long(STRANGER).sized(b"a:1"),
            Closed("election hello has the unknown version -7"),
        ),
        case(
            "random bytes",
            Bytes::default().long(i64::MIN).raw(&random(rng, 4000).0),
            Closed("election hello has the unknown version"),
        ),
        case(
            "no address",
            start().int(0),
            Closed("hello declares an address list of 0 bytes"),
        ),
        case(
            "a negative length of the address",
            start().int(-1),
            Closed("hello declares an address list of -1 bytes"),
        ),
        case(
            "a long address",
            start().int(2049),
            Closed("hello declares an address list of 2049 bytes"),
        ),
        case(
            "an address without a port",
            start().sized(b"localhost"),
            Closed("hello contains the malformed address"),
        ),
        case(
            "an address with a wrong port",
            start().sized(b"localhost:x"),
            Closed("hello contains the malformed address"),
        ),
        case(
            "an address that is no text",
            start().sized(&[0xff, 0xfe, 0xfd]),
            Closed("hello contains the malformed address"),
        ),
        case("half a handshake", start(), Any),
        case("nothing", Bytes::default(), Any),
        case(
            "a stranger's empty frame",
            stranger().int(0),
            Closed("the message has an invalid length of 0 bytes"),
        ),
        case(
            "a stranger's negative frame",
            stranger().int(-1),
            Closed("the message has an invalid length of -1 bytes"),
        ),
        case(
            "a stranger's large frame",
            stranger().int(524_289),
            Closed("the message has an invalid length of 524289 bytes"),
        ),
        case(
            "a stranger's short message",
            stranger().sized(&[0; 27]),
            Any,
        ),
        case(
            "a stranger's random message",
            stranger().sized(&random(rng, 300).0),
            Any,
        ),
        case(
            "a stranger who looks with the best vote",
            stranger().raw(&best_vote(0).0),
            Any,
        ),
        case("a stranger who leads", stranger().raw(&best_vote(2).0), Any),
        case("an unknown state", stranger().raw(&best_vote(9).0), Any),
    ]
}

#[test]
fn the_election_port_survives_wrong_handshakes_and_messages() {
    use Effect::Any;
    let Some(ensemble) = ensemble() else { return };
    let load = Load::start(&ensemble.addresses(&ensemble.ids()));
    let ids = [1, 2, 3, 4];
    let ports = ids.map(|id| (id, ensemble.member(id).election_address()));
    let mut rng = Rng::with_seed(4);
    throw(&ensemble, &load, &ports, &election_port_cases(&mut rng));
    // With the id of a voter. The voter's own link is replaced, and it reconnects.
    let mut as_voter = Vec::new();
    for (id, address) in ports {
        let others = ids.into_iter().filter(|other| *other > id);
        as_voter.extend(others.map(|other| (id, address, i64::try_from(other).unwrap_or(0))));
    }
    for (id, address, other) in as_voter {
        for bytes in [
            handshake(other, HERE).raw(&best_vote(0).0),
            handshake(other, HERE).raw(&random(&mut rng, 500).0),
        ] {
            let case = case("what a voter never says", bytes, Any);
            throw(&ensemble, &load, &[(id, address)], &[case]);
        }
    }
    let own = ports.map(|(id, address)| {
        let sid = i64::try_from(id).unwrap_or(0);
        (id, address, case("its own id", handshake(sid, HERE), Any))
    });
    for (id, address, case) in own {
        throw(&ensemble, &load, &[(id, address)], &[case]);
    }
    goes_on(&ensemble, load);
}

/// Returns the cases for the quorum port.
#[expect(clippy::too_many_lines, reason = "a table, one entry a case")]
fn quorum_port_cases(rng: &mut Rng) -> Vec<Case> {
    use Effect::{Any, Closed};
    let info = |epoch| learner_info(FOLLOWERINFO, STRANGER, 0x10000, epoch);
    // After the handshake, a leader that serves this learner reads the rest.
    let joined = |next: Bytes| {
        let epoch = Bytes::default().int(0);
        let next = packet(ACKEPOCH, 0, Some(&epoch.0)).raw(&next.0);
        info(0).raw(&next.0)
    };
    let large = || Bytes::default().int(ACK).long(0).int(2_097_151);
    let version_ahead = Bytes::default().long(STRANGER).int(0x10000).long(i64::MAX);
    vec![
        case(
            "random bytes",
            random(rng, 4000),
            Closed("malformed packet: unreasonable length"),
        ),
        case(
            "an unknown first packet",
            packet(99, 0, None),
            Closed("unexpected type 99"),
        ),
        case(
            "an ACK first",
            packet(ACK, 0, None),
            Closed("unexpected ACK 0x0"),
        ),
        case(
            "a leader's packet first",
            packet(LEADERINFO, 0, Some(&[0, 1, 0, 0])),
            Closed("unexpected type 17"),
        ),
        case(
            "an oversized first packet",
            large().raw(&[0; 100]),
            Closed("malformed packet: unreasonable length 2097151"),
        ),
        case(
            "a negative length",
            Bytes::default().int(FOLLOWERINFO).long(0).int(-2),
            Closed("malformed packet: unreasonable length -2"),
        ),
        case(
            "a short learner info",
            packet(FOLLOWERINFO, 0, Some(&[1, 2, 3])),
            Any,
        ),
        case(
            "a configuration ahead",
            packet(FOLLOWERINFO, 0, Some(&version_ahead.0)),
            Closed(
                "the learner's member list has version 0x7fffffffffffffff, which is newer than this server's version 0x0",
            ),
        ),
        case("an epoch far above", info(i64::from(i32::MAX)), Any),
        case(
            "an old protocol",
            learner_info(FOLLOWERINFO, STRANGER, 1, 0),
            Any,
        ),
        case(
            "a protocol to come",
            learner_info(OBSERVERINFO, STRANGER, i32::MAX, 0),
            Any,
        ),
        case(
            "another packet for ACKEPOCH",
            info(0).raw(&packet(PING, 0, None).0),
            Closed("malformed packet: null value"),
        ),
        case(
            "an ACKEPOCH without data",
            info(0).raw(&packet(ACKEPOCH, 0, None).0),
            Closed("malformed packet: null value"),
        ),
        case(
            "an oversized packet",
            joined(large()),
            Closed("malformed packet: unreasonable length 2097151"),
        ),
        case("an unknown packet", joined(packet(99, 0, None)), Any),
        case(
            "a PROPOSAL of a learner",
            joined(packet(PROPOSAL, 1 << 40, Some(&[0; 50]))),
            Any,
        ),
        case(
            "a short REQUEST",
            joined(packet(REQUEST, 0, Some(&[1, 2]))),
            Closed("malformed packet: record ends early"),
        ),
        case(
            "a REVALIDATE without data",
            joined(packet(REVALIDATE, 0, None)),
            Closed("malformed packet: null value"),
        ),
        case(
            "a PING of odd length",
            joined(packet(PING, 0, Some(&[0; 13]))),
            Closed("malformed packet: record ends early"),
        ),
        case("random bytes of a learner", joined(random(rng, 3000)), Any),
        case(
            "half a packet",
            joined(Bytes::default().int(REQUEST).int(7)),
            Any,
        ),
        case("nothing", Bytes::default(), Any),
    ]
}

#[test]
fn the_quorum_port_survives_wrong_packets() {
    let Some(ensemble) = ensemble() else { return };
    let load = Load::start(&ensemble.addresses(&ensemble.ids()));
    let leader = [(3, ensemble.member(3).quorum_address())];
    let mut rng = Rng::with_seed(5);
    throw(&ensemble, &load, &leader, &quorum_port_cases(&mut rng));
    // A follower does not listen there, or closes the connection.
    goes_on(&ensemble, load);
}

/// Connections that send nothing, or nothing further, neither accumulate nor block connections of
/// peers.
#[test]
fn silent_peers_do_not_block_others() {
    if ours() != Flavour::Zoarium {
        // Java reads handshakes one after the other.
        return;
    }
    let Some(mut ensemble) = ensemble() else {
        return;
    };
    let load = Load::start(&ensemble.addresses(&ensemble.ids()));
    let mut silent = Vec::new();
    for id in [1, 2, 3] {
        let member = ensemble.member(id);
        for _ in 0..60 {
            let election = TcpStream::connect(member.election_address());
            silent.push(election.expect("a connection"));
        }
        if id == 3 {
            for number in 0..60 {
                let quorum = TcpStream::connect(member.quorum_address());
                let mut quorum = quorum.expect("a connection");
                if number % 2 == 0 {
                    let info = learner_info(FOLLOWERINFO, STRANGER + number, 0x10000, 0);
                    quorum.write_all(&info.0).expect("the packet is taken");
                }
                silent.push(quorum);
            }
        }
    }
    load.wait_for_progress(PROGRESS);
    // A follower and then the leader are killed and reconnect despite these connections.
    for id in [1, 3] {
        ensemble.survive_kill_of(id, &load, PROGRESS);
    }
    load.wait_for_progress(PROGRESS);
    drop(silent);
    let report = load.finish();
    check::nothing_is_lost(&ensemble, &report);
}
