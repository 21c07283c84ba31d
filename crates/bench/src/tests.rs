//! Complete runs against servers in this process.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

use clap::Parser;
use jute::Encode;
use proto::SessionId;
use proto::connect::ConnectResponse;

use super::*;
use crate::rounds::compare::Ratios;
use crate::rounds::round;
use crate::target::access::Access;

/// Starts an echo server, which ends with the process.
fn echo_server() -> String {
    echo_server_with(None)
}

/// Starts an echo server, which syncs writes to the log if there is one.
fn echo_server_with(log: Option<echo::Log>) -> String {
    let serving = echo::Serving::new(100, log);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || echo::serve(listener, &serving, 1));
    address
}

/// Parses arguments as on the command line.
fn load_args(options: &str) -> LoadArgs {
    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        load: LoadArgs,
    }
    let words = std::iter::once("bench").chain(options.split_ascii_whitespace());
    Line::parse_from(words).load
}

fn run(options: &str, work: SessionWork, mix: Mix) -> Result<Vec<Side>> {
    let args = load_args(options);
    measure(&job(&args, work, mix)?, &args, args.keep)
}

#[test]
fn every_mix_runs_to_its_end() {
    every_mix(&echo_server());
}

#[test]
fn every_mix_runs_to_its_end_where_writes_are_synced() {
    let dir = tempfile::tempdir().unwrap();
    let (log, _) = echo::Log::open(dir.path(), 0).unwrap();
    every_mix(&echo_server_with(Some(log)));
}

#[test]
fn every_mix_runs_to_its_end_where_a_majority_syncs() {
    let dir = tempfile::tempdir().unwrap();
    let (leader, followers) = echo::Log::open(dir.path(), 2).unwrap();
    let logs = followers.into_iter().chain([leader]);
    let members: Vec<String> = logs.map(|log| echo_server_with(Some(log))).collect();
    every_mix(&members.join(","));
}

fn every_mix(server: &str) {
    for mix in [
        Mix::Get,
        Mix::Exists,
        Mix::Set,
        Mix::Create,
        Mix::Mixed { read_percent: 50 },
        Mix::Multi { size: 5 },
    ] {
        let options =
            format!("--server {server} --sessions 3 --pipeline 4 --keys 20 --ops 500 --warmup 0");
        let sides = run(&options, SessionWork::Requests, mix).unwrap();
        let stats = sides[0].stats();
        assert_eq!((stats.ops(), stats.complaints()), (500, vec![]), "{mix:?}");
        assert!(stats.percentile(50.0) <= stats.max() && sides[0].ops_per_second() > 0.0);
    }
}

#[test]
fn a_fill_creates_the_requested_number_of_znodes() {
    let args = load_args(&format!("--server {} --warmup 0", echo_server()));
    let mix = Mix::Fill {
        from: 0,
        znodes: 1234,
        breadth: 100,
    };
    let mut job = job(&args, SessionWork::Requests, mix).unwrap();
    job.until_done = true;
    let sides = measure(&job, &args, true).unwrap();
    assert_eq!(sides[0].stats().ops(), 1234);
}

#[test]
fn two_servers_take_turns() {
    let (one, two) = (echo_server(), echo_server());
    let options = format!(
        "--server {one} --versus {two} --rounds 2 --sessions 2 --threads 2 --ops 300 --warmup 0 \
         --pid {0} --versus-pid {0}",
        std::process::id()
    );
    let sides = run(&options, SessionWork::Requests, Mix::Get).unwrap();
    let [first, second] = &sides[..] else {
        panic!("two sides");
    };
    assert_eq!((&first.name, &second.name), (&one, &two));
    for side in &sides {
        assert_eq!(side.rounds.len(), 2);
        assert_eq!(side.stats().ops(), 600);
        assert!(side.memory().unwrap().resident > 0);
    }
    assert!(Ratios::of(first, second).throughput > 0.0);
}

#[test]
fn a_time_is_measured_after_a_warmup() {
    let options = format!(
        "--server {} --duration 300ms --warmup 20ms --sessions 2",
        echo_server()
    );
    let sides = run(&options, SessionWork::Requests, Mix::Get).unwrap();
    let round = &sides[0].rounds[0];
    assert!(round.elapsed.as_millis() >= 300 && round.stats.ops() > 0);
}

#[test]
fn a_storm_opens_sessions() {
    let options = format!(
        "--server {} --sessions 4 --ops 40 --warmup 0",
        echo_server()
    );
    let sides = run(&options, SessionWork::Storm, Mix::Get).unwrap();
    assert_eq!(sides[0].stats().ops(), 40);
}

#[test]
fn idle_sessions_ping() {
    let options = format!(
        "--server {} --sessions 5 --duration 1s --warmup 0 --session-timeout 1s",
        echo_server()
    );
    let sides = run(&options, SessionWork::Idle, Mix::Get).unwrap();
    let stats = sides[0].stats();
    assert!(
        stats.ops() >= 5 && stats.is_clean(),
        "{:?}",
        stats.complaints()
    );
}

#[test]
fn a_port_without_a_listener_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = run(
        &format!("--server {address}"),
        SessionWork::Requests,
        Mix::Get,
    )
    .unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with(&format!("cannot connect to {address}: ")),
        "{text}"
    );
}

#[test]
fn a_refusal_by_the_server_is_explained() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // This server closes every connection without a reset, as servers do if a client has too many
    // connections.
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let _ = stream.shutdown(Shutdown::Write);
            let _ = (&stream).read(&mut [0; 64]);
        }
    });
    let error = run(
        &format!("--server {address}"),
        SessionWork::Requests,
        Mix::Get,
    )
    .unwrap_err();
    assert!(error.to_string().contains("maxClientCnxns"), "{error}");
}

/// Answers a handshake, regardless of its contents.
fn shake_hands(stream: &mut TcpStream, timeout_ms: i32) {
    let response = ConnectResponse {
        protocol_version: 0,
        timeout_ms,
        session_id: SessionId(1),
        password: bytes::Bytes::from_static(&[0; 16]).into(),
        read_only: Some(false),
    };
    let mut out = Vec::new();
    client::frame::put_frame(&mut out, |out| response.encode(out));
    let _ = stream.read(&mut [0; 1024]);
    let _ = stream.write_all(&out);
}

/// Completes a handshake, and closes the connection after the first request.
fn quit_after_the_first_request(mut stream: TcpStream) {
    shake_hands(&mut stream, 30_000);
    let _ = stream.read(&mut [0; 1024]);
}

/// Returns the xid of the next request, or `None` if the request is closeSession or the connection
/// has ended.
fn next_xid(stream: &mut TcpStream) -> Option<i32> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let mut request = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut request).ok()?;
    let (xid, rest) = request.split_first_chunk()?;
    let is_end = rest.starts_with(&proto::OpCode::CloseSession.number().to_be_bytes());
    (!is_end).then(|| i32::from_be_bytes(*xid))
}

/// Answers a ping only together with the next request.
fn answer_pings_late(mut stream: TcpStream) {
    let mut xids = Vec::new();
    while let Some(xid) = next_xid(&mut stream) {
        xids.push(xid);
        if xid < 0 {
            continue;
        }
        for xid in xids.drain(..) {
            let mut out = Vec::new();
            client::frame::put_frame(&mut out, |out| {
                out.extend_from_slice(&xid.to_be_bytes());
                out.extend_from_slice(&[0; 12]);
            });
            let _ = stream.write_all(&out);
        }
    }
}

#[test]
fn a_late_ping_reply_does_not_count_as_a_reply_of_the_load() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let (mut first, _) = listener.accept().unwrap();
        shake_hands(&mut first, 30);
        // Waits for a ping. The load begins only after the second session has been opened.
        let mut length = [0; 4];
        first.peek(&mut length).unwrap();
        let (mut second, _) = listener.accept().unwrap();
        shake_hands(&mut second, 30_000);
        thread::spawn(move || answer_pings_late(second));
        answer_pings_late(first);
    });
    let args = load_args(&format!(
        "--server {server} --sessions 2 --pipeline 1 --ops 20 --warmup 0"
    ));
    let job = job(&args, SessionWork::Requests, Mix::Get).unwrap();
    let target = Target::new(&args.servers.server, &[], Access::default()).unwrap();
    let round = round::run(&job, &target, 0, &Progress::new()).unwrap();
    assert_eq!((round.stats.ops(), round.stats.complaints()), (20, vec![]));
}

#[test]
fn lost_sessions_are_counted_with_their_pending_requests() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            thread::spawn(move || quit_after_the_first_request(stream));
        }
    });
    let args = load_args(&format!(
        "--server {server} --sessions 3 --pipeline 2 --warmup 0"
    ));
    let job = job(&args, SessionWork::Requests, Mix::Get).unwrap();
    let target = Target::new(&args.servers.server, &[], Access::default()).unwrap();
    let round = round::run(&job, &target, 0, &Progress::new()).unwrap();
    assert_eq!(round.stats.ops(), 0);
    assert_eq!(round.stats.lost.values().sum::<u64>(), 3);
    assert_eq!(round.stats.unanswered, 6);
}

#[test]
fn fsync_writes_and_cleans_up() {
    let dir = tempfile::tempdir().unwrap();
    for preallocate in [
        args::Preallocate::Zeroes,
        args::Preallocate::Sparse,
        args::Preallocate::None,
    ] {
        let args = FsyncArgs {
            dir: dir.path().to_path_buf(),
            bytes: 200,
            group: 10,
            duration: Duration::from_millis(30),
            preallocate,
            json: false,
        };
        let result = fsync::run(&args).unwrap();
        assert!(result.stats.ops() > 0);
        let text = report::fsync_text(&args, &result);
        assert!(text.contains("records/s"), "{text}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
