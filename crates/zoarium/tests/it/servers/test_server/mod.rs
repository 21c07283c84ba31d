//! `zoarium test-server`, as programs in other languages start it.

mod commands;
mod fixture;
mod listening;

use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::Duration;

use client::{Client, Options};
use rustix::process::{Pid, Signal, kill_process};

use self::fixture::Fixture;
use crate::embedded::embedding::run;
use crate::support::{stderr, zoarium};

async fn connect(connect_string: &str) -> Client {
    let options = Options::new(connect_string).with_session_timeout(Duration::from_secs(60));
    Client::connect(options).await.unwrap()
}

fn send(process: u32, signal: Signal) {
    let pid = Pid::from_raw(process.cast_signed()).unwrap();
    kill_process(pid, signal).unwrap();
}

#[test]
fn it_prints_its_address_and_ends_with_its_standard_input() {
    let members = ["--members", "3", "--observers", "1"];
    let limit = ["--set", "maxSessionTimeout=7000"];
    let mut fixture = Fixture::start(&[&members[..], &limit].concat());
    assert_eq!(fixture.members().len(), 4);
    assert_eq!(fixture.connect_string(), fixture.members().join(","));
    assert_eq!(fixture.said["adminAddresses"].as_array().unwrap().len(), 4);
    run(async {
        for member in fixture.members() {
            connect(member).await.close().await.unwrap();
        }
        let client = connect(fixture.connect_string()).await;
        client.close().await.unwrap();
    });
    let files = fixture.files();
    let is_named = |name: &String| name.starts_with("zoarium-test-server-");
    assert!(files.len() == 1 && files.iter().all(is_named), "{files:?}");
    // A warning about the ACL of a test would hide others.
    assert!(!fixture.log().contains("the ACL of /"), "{}", fixture.log());
    drop(fixture.stdin.take());
    fixture.ends();
}

#[test]
fn a_signal_stops_it_and_removes_its_files() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let fixture = Fixture::start(&[]);
        send(fixture.process.id(), signal);
        fixture.ends();
    }
}

#[test]
fn it_survives_an_empty_standard_input_and_ends_with_its_parent() {
    // The shell gives a process in the background /dev/null as its standard input.
    let mut shell = Command::new("sh");
    let script = r#""$0" test-server & wait"#;
    shell.args(["-c", script, env!("CARGO_BIN_EXE_zoarium")]);
    shell.stdin(Stdio::null());
    let mut fixture = Fixture::begin(shell).unwrap();
    for _ in 0..3 {
        let answer = fixture.http("POST / HTTP/1.1", "restart\nwait\n");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    assert_eq!(fixture.files().len(), 1);
    fixture.process.kill().unwrap();
    fixture.wait();
    // The output ends with the last process that has it.
    while fixture
        .lines
        .recv_timeout(crate::embedded::embedding::PATIENCE)
        .is_ok()
    {}
    assert_eq!(fixture.files(), [""; 0]);
}

#[test]
fn its_members_have_the_requested_ports() {
    // The ports of a server that has ended. Another process may take them first.
    let started = (0..10).find_map(|_| {
        let first = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let port = first.port().checked_add(1)?;
        let arguments = ["--members", "2", "--port", &port.to_string()];
        Some((port, Fixture::try_start(&arguments)?))
    });
    let (port, fixture) = started.expect("two free ports");
    let expected = [port, port + 1].map(|port| format!("127.0.0.1:{port}"));
    assert_eq!(fixture.members(), expected);
}

#[test]
fn unsuitable_arguments_are_refused() {
    let refused = [
        (["--members", "0"], "0"),
        (["--port", "0"], "0"),
        (["--set", "tickTime=soon"], "tickTime"),
        (["--set", "snapCount"], "KEY=VALUE"),
        (["--set", "snapCuont=1"], "did you mean snapCount"),
        (["--set", "zookeeper.snapCount=1"], "no effect"),
        (["--set", "clientPort=2181"], "use --port"),
        (["--set", "admin.serverPort=1"], "first line of output"),
    ];
    for (arguments, reason) in refused {
        let output = zoarium([&["test-server"], &arguments[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(reason), "{}", stderr(&output));
    }
    let beyond = zoarium(["test-server", "--members", "2", "--port", "65535"]);
    assert_eq!(beyond.status.code(), Some(1));
    assert!(stderr(&beyond).contains("65535"), "{}", stderr(&beyond));
}
