//! `zoarium test-server`, as programs in other languages start it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use client::{Client, Options};
use serde_json::Value;

use crate::embedding::{PATIENCE, run};
use crate::support::{stderr, zoarium};

/// A process that is killed on drop, so that a failed test leaves no process.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn it_says_where_it_serves_and_ends_with_its_standard_input() {
    let directory = tempfile::tempdir().unwrap();
    let mut process = Command::new(env!("CARGO_BIN_EXE_zoarium"));
    process
        .args(["test-server", "--members", "3", "--observers", "1"])
        .args(["--set", "maxSessionTimeout=7000"])
        .env("TMPDIR", directory.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut process = Started(process.spawn().unwrap());
    let (told, line) = mpsc::channel();
    let stdout = process.0.stdout.take().unwrap();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = BufReader::new(stdout).read_line(&mut line);
        let _ = told.send(read.map(|_| line));
    });
    let line = line.recv_timeout(PATIENCE).unwrap().unwrap();
    let said: Value = serde_json::from_str(&line).unwrap();
    let members = said["members"].as_array().unwrap();
    assert_eq!(members.len(), 4);
    let connect_string = said["connectString"].as_str().unwrap();
    run(async {
        for member in members {
            let client = Client::connect(Options::new(member.as_str().unwrap()));
            client.await.unwrap().close().await.unwrap();
        }
        let options = Options::new(connect_string).with_session_timeout(Duration::from_secs(60));
        Client::connect(options)
            .await
            .unwrap()
            .close()
            .await
            .unwrap();
    });
    drop(process.0.stdin.take());
    let began = Instant::now();
    let status = loop {
        match process.0.try_wait().unwrap() {
            Some(status) => break status,
            None if began.elapsed() > PATIENCE => panic!("it does not end"),
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    assert!(status.success(), "{status}");
    let left: Vec<_> = directory.path().read_dir().unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn what_it_is_not_to_be_is_refused() {
    let no_members = zoarium(["test-server", "--members", "0"]);
    assert_eq!(no_members.status.code(), Some(2));
    let wrong = zoarium(["test-server", "--set", "tickTime=soon"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("tickTime"), "{}", stderr(&wrong));
    let unknown = zoarium(["test-server", "--set", "snapCount"]);
    assert!(
        stderr(&unknown).contains("KEY=VALUE"),
        "{}",
        stderr(&unknown)
    );
}
