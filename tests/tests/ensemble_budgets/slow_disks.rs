//! Disks that are slower than the writes of greedy clients.

use proto::request::{Request, flags};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tests::ensemble::Ensemble;
use tests::requests::{create, set_data};
use tests::{Faults, Flavour, Missing, Server, ServerBuilder, or_skip, wait_until};

use crate::attacker::{LONG, attacker, create_long};
use crate::crowd::{connections_to, frame_of, push, take_frame, with_sessions};
use crate::crowds::multi_read_of;
use crate::{FOLLOWER, LEADER, started_withstands, three};

/// Time limit for each expected event.
const LIMIT: Duration = Duration::from_secs(60);

/// Part of the path of every transaction log.
const LOGS: &str = "log.";
/// Bytes that a slow disk writes per millisecond: 10 MB/s.
const BYTES_PER_MS: u64 = 10_000;
/// Number of long writes of each greedy client.
const WRITES: usize = 25;

/// Starts three voters of which the last leads. The log writes of one member can be slowed down.
fn with_slow_disk_at(id: u64, faults: &Faults) -> Result<Ensemble, Missing> {
    let mut ensemble = three().prepare()?;
    let commands = faults.commands(id);
    let start = |ensemble: &mut Ensemble, other| {
        if other == id {
            ensemble.start_after(id, &commands);
        } else {
            ensemble.start(other);
        }
    };
    for member in [FOLLOWER, LEADER] {
        start(&mut ensemble, member);
    }
    assert_eq!(ensemble.wait_until_all_serve(), LEADER);
    start(&mut ensemble, 2);
    assert_eq!(ensemble.wait_until_all_serve(), LEADER);
    Ok(ensemble)
}

/// Clients of every member write as much as they can.
fn write_greedily(ensemble: &Ensemble) {
    std::thread::scope(|scope| {
        for member in ensemble.ids() {
            scope.spawn(move || {
                let mut session = attacker(ensemble, member);
                let write = Request::Write(set_data("/long", vec![b'x'; LONG], -1));
                for _ in 0..WRITES {
                    session.put(&write);
                }
                for _ in 0..WRITES {
                    assert_eq!(session.take().expect("an answer").err, 0);
                }
            });
        }
    });
}

fn bystanders_go_on_while_the_disk_is_slow_of(id: u64, what: &str) {
    let Some(faults) = or_skip(what, Faults::new()) else {
        return;
    };
    let start = || with_slow_disk_at(id, &faults);
    let attack = |ensemble: &Ensemble| {
        faults.slow_syncs(id, LOGS, BYTES_PER_MS);
        write_greedily(ensemble);
    };
    started_withstands(what, start, create_long, attack);
}

/// The leader commits with the acknowledgements of its followers, and would have to keep everything
/// that its own disk has not written.
#[test]
fn greedy_writers_wait_for_the_slow_disk_of_their_leader() {
    bystanders_go_on_while_the_disk_is_slow_of(LEADER, "greedy writers and a leader's slow disk");
}

/// The follower would have to keep everything that is committed without it, and would be dropped.
#[test]
fn greedy_writers_wait_for_the_slow_disk_of_a_follower() {
    bystanders_go_on_while_the_disk_is_slow_of(FOLLOWER, "greedy writers and a slow follower");
}

/// While too many requests of a client wait for the disk, the server does not read the rest of a
/// long request that has begun to arrive. It must not drop this client for slowness. It does drop a
/// client that sends only half of a long request.
#[test]
fn a_client_that_the_server_does_not_read_is_not_dropped_as_slow() {
    /// Longer than the time limit for sending a long request while others wait for the memory.
    const STILL_MS: &str = "14000";
    const WHAT: &str = "a disk that stands still";
    /// Connections whose requests occupy all memory for pending requests.
    const FILLING: usize = 40;
    /// Requests per connection, none of which needs separate memory.
    const SHORT: usize = 40;
    /// Requests of the client: more than the memory that the others leave free.
    const OWN: usize = 100;
    /// Number of pending requests at which the server stops reading: 15 KiB each, of 16 MiB.
    const FULL: usize = 1030;
    let Some(faults) = or_skip(WHAT, Faults::new()) else {
        return;
    };
    let builder = ServerBuilder::new(Flavour::Zoarium)
        .after(&faults.commands(1))
        .setting("maxSessionTimeout", "600000")
        .property("zookeeper.nio.sessionlessCnxnTimeout", STILL_MS);
    let Some(server) = or_skip(WHAT, builder.start()) else {
        return;
    };
    let address = server.address().parse().expect("an address");
    let mut streams = with_sessions(connections_to(address, 2));
    let (client, others) = streams.split_first_mut().expect("connections");
    let (filling, halves) = others.split_at_mut(FILLING);
    let first = create("/short", "", flags::PERSISTENT);
    ask(client, &frame_of(1, &Request::Write(first)));
    take_frame(client).expect("an answer");

    let write = frame_of(2, &Request::Write(set_data("/short", "", -1)));
    let long = frame_of(4, &multi_read_of(10_000));
    let (half, rest) = long.split_at(long.len() / 2);
    faults.hold_syncs(1, LOGS);
    let short = frame_of(3, &multi_read_of(800));
    ask(client, &[&write, &short.repeat(OWN)[..], half].concat());
    wait_until(LIMIT, || faults.has_held(1).then_some(())).expect("a sync that waits");
    for stream in &mut *filling {
        ask(stream, &[&write[..], &short.repeat(SHORT)].concat());
    }
    let is_full = || (queued(&server) >= FULL).then_some(());
    wait_until(LIMIT, is_full).expect("as many requests as the server takes in");
    // On this byte, the server checks whether it may continue to read.
    let (next, rest) = rest.split_at(1);
    ask(client, next);
    push(halves, half);
    ask(client, rest);
    // The server measures the time: it drops a connection that stays silent for this long.
    let mut silent = TcpStream::connect(address).expect("a connection");
    let ended = silent.read(&mut [0]).expect("the end of the connection");
    assert_eq!(ended, 0, "the server has said something");
    faults.release(1);
    for answer in 1..=OWN + 2 {
        let frame = take_frame(client);
        assert!(frame.is_some(), "no answer to request {answer}");
    }
    for stream in filling {
        for _ in 0..=SHORT {
            take_frame(stream).expect("an answer");
        }
    }
}

/// Returns the number of requests that wait for an answer.
fn queued(server: &Server) -> usize {
    let cons = server.word("cons");
    let numbers = cons.split("queued=").skip(1);
    let numbers = numbers.filter_map(|rest| rest.split(',').next()?.parse::<usize>().ok());
    numbers.sum()
}

fn ask(stream: &mut TcpStream, requests: &[u8]) {
    stream.write_all(requests).expect("the requests are taken");
}
