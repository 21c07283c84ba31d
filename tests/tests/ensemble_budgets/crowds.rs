//! Many concurrent connections, each of which stays within its own limit.

use std::io::Write;
use std::time::Duration;

use proto::ErrorCode;
use proto::multi::MultiRead;
use proto::request::{
    PathModeRequest, PathRequest, PathWatchRequest, ReadRequest, Request, SetWatchesRequest, flags,
};
use tests::ensemble::Ensemble;
use tests::requests::{create, delete, get_children, get_data, multi, set_data};
use tests::{Faults, Flavour, ServerBuilder, or_skip, wait_for};

use crate::attacker::{LONG, attacker, create_long, create_znode};
use crate::crowd::{
    ask_all, connections, connections_to, frame_of, push, sessions, take_frame, with_sessions,
};
use crate::{FOLLOWER, LEADER, withstands};

/// Time limit for a server to read requests.
const LIMIT: Duration = Duration::from_secs(60);

/// Number of their addresses: 120 connections.
const ADDRESSES: u8 = 2;

/// The last byte of these requests never arrives, before the handshake and after it.
#[test]
fn incomplete_requests_share_a_bound() {
    let attack = |ensemble: &Ensemble| {
        let write = Request::Write(set_data("/long", vec![b'x'; LONG], -1));
        let frame = frame_of(1, &write);
        let mut fresh = connections(ensemble, FOLLOWER, ADDRESSES);
        push(&mut fresh, &frame[..frame.len() - 1]);
        let mut sessions = sessions(ensemble, LEADER, ADDRESSES);
        push(&mut sessions, &frame[..frame.len() - 1]);
        // Other clients are served meanwhile.
        let mut patient = attacker(ensemble, FOLLOWER);
        assert_eq!(patient.call(&write).expect("an answer").err, 0);
    };
    withstands("requests that are not whole", create_long, attack);
}

#[test]
fn long_writes_of_many_clients_wait_for_each_other() {
    let attack = |ensemble: &Ensemble| {
        let write = Request::Write(set_data("/long", vec![b'x'; LONG], -1));
        let frame = frame_of(1, &write);
        let mut sessions = sessions(ensemble, FOLLOWER, ADDRESSES);
        ask_all(&mut sessions, &frame, 1);
    };
    withstands("long writes of many", create_long, attack);
}

/// Each client may have 8 MiB of unread events while it is alone.
#[test]
fn unread_events_share_a_bound() {
    const LONG_NAME: usize = 500_000;
    let attack = |ensemble: &Ensemble| {
        let watch = Request::Read(ReadRequest::AddWatch(PathModeRequest {
            path: Some("/".into()),
            mode: 1,
        }));
        let mut silent = sessions(ensemble, FOLLOWER, 1);
        push(&mut silent, &frame_of(1, &watch));
        for stream in &mut silent {
            take_frame(stream).expect("an answer");
        }
        let mut busy = attacker(ensemble, LEADER);
        let path = format!("/{}", "n".repeat(LONG_NAME));
        for _ in 0..20 {
            let create = create(&path, "", flags::PERSISTENT);
            for request in [create, delete(&path, -1)] {
                let answer = busy.call(&Request::Write(request));
                assert_eq!(answer.expect("an answer").err, 0);
            }
        }
    };
    withstands("events that many do not read", |_| {}, attack);
}

/// The replies are short, so that none needs separate memory. A long request after them does not
/// take memory from other clients.
#[test]
fn unread_replies_share_a_bound() {
    let prepare = |ensemble: &Ensemble| {
        create_znode(ensemble, "/fair", vec![b'x'; 60_000]);
        create_long(ensemble);
    };
    let attack = |ensemble: &Ensemble| {
        let mut silent = sessions(ensemble, FOLLOWER, ADDRESSES);
        let mut frames = Vec::new();
        for xid in 0..100 {
            frames.extend(frame_of(xid, &get_data("/fair")));
        }
        frames.extend(frame_of(100, &long_multi_read()));
        push(&mut silent, &frames);
        let mut patient = attacker(ensemble, FOLLOWER);
        let write = Request::Write(set_data("/long", vec![b'x'; LONG], -1));
        assert_eq!(patient.call(&write).expect("an answer").err, 0);
    };
    withstands("short replies that many do not read", prepare, attack);
}

fn long_multi_read() -> Request {
    multi_read_of(10_000)
}

/// Returns a multiRead of a znode that does not exist.
pub(crate) fn multi_read_of(reads: usize) -> Request {
    let read = ReadRequest::GetData(PathWatchRequest {
        path: Some("/none".into()),
        watch: false,
    });
    let reads = vec![read; reads];
    Request::Read(ReadRequest::MultiRead(MultiRead::Reads(reads)))
}

/// A decoded list takes a multiple of the size of its frame.
#[test]
fn long_reads_after_writes_wait_undecoded() {
    let attack = |ensemble: &Ensemble| {
        let mut sessions = sessions(ensemble, FOLLOWER, 1);
        let mut frames = frame_of(1, &Request::Write(set_data("/short", "", -1)));
        for xid in 2..5 {
            frames.extend(frame_of(xid, &long_multi_read()));
        }
        ask_all(&mut sessions, &frames, 4);
    };
    withstands("long reads behind writes", create_long, attack);
}

/// Memory for the long requests of all connections.
const LONG_REQUESTS_BYTES: usize = 4 << 20;
/// Connections that occupy it.
const FEW: usize = 10;
/// Part of the path of every transaction log.
const LOGS: &str = "/log.";

/// Reads that wait for writes occupy all memory for long requests, and the tasks of their
/// connections wait for more.
#[test]
fn long_reads_that_fill_the_bound_are_answered_after_their_writes() {
    let Some(faults) = or_skip("a held disk", Faults::new()) else {
        return;
    };
    let builder = ServerBuilder::new(Flavour::Zoarium).setting("maxSessionTimeout", "600000");
    let server = builder.after(&faults.commands(1)).start();
    let server = server.expect("a server of ours needs nothing");
    let address = server.address().parse().expect("an address");
    let mut sessions = with_sessions(connections_to(address, 1));
    sessions.truncate(FEW);
    let read = frame_of(2, &long_multi_read());
    let mut frames = frame_of(1, &Request::Write(set_data("/", "", -1)));
    let room = LONG_REQUESTS_BYTES / read.len();
    // This exceeds the memory: every connection waits for more.
    let reads = room + 1;
    (0..reads).for_each(|_| frames.extend_from_slice(&read));
    let received = || server.metric("packets_received")?.parse::<usize>().ok();
    let before = received().expect("a number");
    faults.hold_syncs(1, LOGS);
    let full = sessions.len() + room;
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| ask_all(&mut sessions, &frames, 1 + reads));
        wait_for("a held sync", LIMIT, || faults.has_held(1).then_some(()));
        wait_for("requests that hold all room", LIMIT, || {
            (received()? >= before + full).then_some(())
        });
        faults.release(1);
        asking.join().expect("all are answered");
    });
}

/// No client waits for the removal of 200,000 watches of a connection.
#[test]
fn many_watches_are_removed_in_parts() {
    let attack = |ensemble: &Ensemble| {
        let mut sessions = sessions(ensemble, FOLLOWER, 1);
        for session in sessions.iter_mut().take(1) {
            for part in 0..40 {
                let paths = (0..5_000).map(|number| Some(format!("/{part}{number:x}").into()));
                let request = ReadRequest::SetWatches(SetWatchesRequest {
                    exist: Some(paths.collect()),
                    data: Some(Vec::new()),
                    child: Some(Vec::new()),
                    persistent: Some(Vec::new()),
                    persistent_recursive: Some(Vec::new()),
                    relative_zxid: i64::MAX,
                });
                session
                    .write_all(&frame_of(part, &Request::Read(request)))
                    .expect("requests");
                take_frame(session).expect("an answer");
            }
        }
        drop(sessions);
    };
    withstands("many watches", create_long, attack);
}

/// Each of these requests walks everything below a znode, under a lock of the tree.
#[test]
fn walks_of_the_tree_take_turns() {
    const ZNODES: usize = 40_000;
    let prepare = |ensemble: &Ensemble| {
        create_znode(ensemble, "/many", "");
        let mut session = attacker(ensemble, LEADER);
        let paths: Vec<_> = (0..ZNODES)
            .map(|number| format!("/many/{number}"))
            .collect();
        for group in paths.chunks(4_000) {
            let creates = group.iter().map(|path| create(path, "", flags::PERSISTENT));
            let answer = session.call(&Request::Write(multi(creates.collect())));
            assert_eq!(answer.expect("an answer").err, 0);
        }
    };
    let attack = |ensemble: &Ensemble| {
        let mut sessions = sessions(ensemble, FOLLOWER, 1);
        let path = Some("/many".into());
        let walk = Request::Read(ReadRequest::GetAllChildrenNumber(PathRequest { path }));
        let write = Request::Write(set_data("/short", "", -1));
        // The walks are between two writes. Neither write may wait for them in the core.
        let mut frames = frame_of(0, &write);
        for xid in 1..30 {
            frames.extend(frame_of(xid, &walk));
        }
        frames.extend(frame_of(30, &write));
        frames.extend(frame_of(31, &get_children("/many")));
        push(&mut sessions, &frames);
        for session in &mut sessions {
            for _ in 0..32 {
                take_frame(session).expect("an answer");
            }
        }
    };
    withstands("walks of the tree", prepare, attack);
}

/// Each path is almost half as long as a request, and takes little memory in the tree. A list of
/// thousands of paths would take gigabytes, and so would the end of the session.
#[test]
fn the_paths_of_a_sessions_ephemerals_are_bounded() {
    const LONG_NAME: usize = 40_000;
    let attack = |ensemble: &Ensemble| {
        let mut session = attacker(ensemble, FOLLOWER);
        let mut parent = String::new();
        for _ in 0..10 {
            parent = format!("{parent}/{}", "n".repeat(LONG_NAME));
            let answer = session.call(&Request::Write(create(&parent, "", flags::PERSISTENT)));
            assert_eq!(answer.expect("an answer").err, 0);
        }
        let mut created = 0;
        for number in 0..40 {
            let path = format!("{parent}/{number}");
            let answer = session.call(&Request::Write(create(&path, "", flags::EPHEMERAL)));
            match ErrorCode::from_i32(answer.expect("an answer").err) {
                Some(ErrorCode::Ok) => created += 1,
                refused => assert_eq!(refused, Some(ErrorCode::BadArguments)),
            }
        }
        assert_eq!(created, (4 << 20) / (10 * LONG_NAME));
        let path = Some("/".into());
        let list = Request::Read(ReadRequest::GetEphemerals(PathRequest { path }));
        for _ in 0..3 {
            let answer = session.call(&list).expect("an answer");
            assert!(answer.err == 0 && answer.body.len() > created * 10 * LONG_NAME);
        }
        session.close().expect("the end of the session");
    };
    withstands("long paths of ephemerals", |_| {}, attack);
}
