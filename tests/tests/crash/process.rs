//! Processes: two of them on one directory, signals, the port of a killed process.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use client::Session;
use proto::request::{Request, WriteRequest, flags};
use proto::response::GetDataResponse;
use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::Signal;
use tests::requests::{create, get_data};
use tests::{
    Flavour, Port, Process, RawSession, Server, ServerBuilder, StartFailure, or_skip, wait_for,
    zoarium_binary,
};

/// Longest session timeout that a server here grants.
const TIMEOUT_MS: i32 = 10_000;

const LIMIT: Duration = Duration::from_secs(60);

fn write(session: &mut RawSession, request: WriteRequest) {
    let answer = session.call(&Request::Write(request)).expect("an answer");
    assert_eq!(answer.err, 0);
}

fn open(server: &Server, continued: Option<&Session>) -> RawSession {
    RawSession::open(&server.address(), continued, TIMEOUT_MS).expect("a session")
}

fn owner_of(session: &mut RawSession, path: &str) -> i64 {
    let answer = session.call(&get_data(path)).expect("an answer");
    answer.record::<GetDataResponse>().stat.ephemeral_owner
}

fn refused(data_dir: &Path) -> StartFailure {
    let second = ServerBuilder::new(Flavour::Zoarium).data_dir(data_dir);
    let started = second.try_start().expect("nothing that our server lacks");
    started.map(drop).expect_err("a refusal")
}

#[test]
fn a_second_server_on_the_same_data_is_refused() {
    let Some(mut server) = or_skip("two servers", Server::start(Flavour::Zoarium)) else {
        return;
    };
    let mut session = open(&server, None);
    write(&mut session, create("/a", "1", flags::PERSISTENT));
    let failure = refused(server.data_dir());
    let code = failure.status.and_then(|status| status.code());
    assert_eq!(code, Some(3), "{}", failure.log);
    let sentence = format!(
        "data directory {} is in use by another process",
        server.data_dir().display()
    );
    assert!(failure.log.contains(&sentence), "{}", failure.log);
    // The first server is not affected.
    write(&mut session, create("/b", "2", flags::PERSISTENT));
    // The lock ends with the process, however the process ends.
    server.crash_and_restart();
    let mut session = open(&server, Some(session.session()));
    write(&mut session, create("/c", "3", flags::PERSISTENT));
}

#[test]
fn a_killed_servers_port_is_free_at_once() {
    let Some(mut server) = or_skip("a killed server", Server::start(Flavour::Zoarium)) else {
        return;
    };
    let mut sessions: Vec<RawSession> = (0..20).map(|_| open(&server, None)).collect();
    for round in 0..5 {
        for (number, session) in sessions.iter_mut().enumerate() {
            let path = format!("/e{round}-{number}");
            write(session, create(&path, "", flags::EPHEMERAL));
        }
        // Twenty connections are open, and none of them occupies the port.
        server.kill();
        if let Err(failure) = server.launch() {
            panic!("{failure:?}");
        }
        for (number, session) in sessions.iter_mut().enumerate() {
            *session = open(&server, Some(session.session()));
            let owner = owner_of(session, &format!("/e{round}-{number}"));
            assert_eq!(owner, session.session().id.0);
        }
    }
}

#[test]
fn sigterm_ends_the_server_in_order_and_keeps_sessions() {
    let Some(mut server) = or_skip("a stopped server", Server::start(Flavour::Zoarium)) else {
        return;
    };
    let mut session = open(&server, None);
    write(&mut session, create("/e", "", flags::EPHEMERAL));
    // Far more requests than are answered before the end.
    let mut load = open(&server, None);
    for number in 0..5000 {
        let path = format!("/n{number:06}");
        load.put(&Request::Write(create(&path, "", flags::PERSISTENT)));
    }
    let mut answered = 0;
    load.take().expect("an answer before the end");
    answered += 1;
    let begun = Instant::now();
    let status = server.terminate();
    let elapsed = begun.elapsed();
    assert_eq!(status.code(), Some(0), "{}", server.log());
    assert!(elapsed < Duration::from_secs(10), "{elapsed:?}");
    while load.take().is_ok() {
        answered += 1;
    }
    assert!(server.log().contains("stopped"));
    if let Err(failure) = server.launch() {
        panic!("{failure:?}");
    }
    let mut session = open(&server, Some(session.session()));
    let owner = owner_of(&mut session, "/e");
    assert_eq!(owner, session.session().id.0);
    let mut load = open(&server, Some(load.session()));
    for number in 0..answered {
        load.put(&get_data(&format!("/n{number:06}")));
    }
    for number in 0..answered {
        assert_eq!(load.take().expect("an answer").err, 0, "/n{number:06}");
    }
}

/// Its audit log is a pipe without a reader, so the server blocks when it opens the log.
#[test]
fn sigterm_ends_a_server_that_still_starts_in_order() {
    let home = tempfile::tempdir().expect("make a directory");
    let (config, pipe) = (home.path().join("zoo.cfg"), home.path().join("pipe"));
    mkfifoat(CWD, &pipe, Mode::RWXU).expect("make a pipe with a name");
    let builder = ServerBuilder::new(Flavour::Zoarium)
        .setting("audit.enable", "true")
        .setting("auditlog.file", &pipe.display().to_string());
    let text = builder.zoo_cfg(Port::take().number(), &home.path().join("data"));
    fs::write(&config, text).expect("write zoo.cfg");
    let mut command = Command::new(zoarium_binary());
    command.arg("server").arg(&config);
    let mut process = Process::spawn(&mut command, &home.path().join("printed")).expect("start it");
    wait_for("a server that hears of signals", LIMIT, || {
        catches(process.id(), Signal::TERM).then_some(())
    });
    process.signal(Signal::TERM);
    let status = process.wait(LIMIT).expect("an end after SIGTERM");
    let printed = process.log();
    assert_eq!(status.code(), Some(0), "{printed}");
    assert!(
        printed.contains("stopped before serving clients"),
        "{printed}"
    );
}

/// Returns whether the process has a handler for this signal.
fn catches(process: u32, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask >> (signal.as_raw() - 1) & 1 == 1)
}
