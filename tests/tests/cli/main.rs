//! `zoarium cli` and the commands of the program: against what zkCli.sh of Apache ZooKeeper 3.9.5 printed, what it has beyond, and at a
//! terminal.

mod beyond;
mod import;
mod json;
mod program;
mod recorded;
mod terminal;
mod top;
mod two_places;

use std::io::Write;
use std::process::{Command, Output, Stdio};

use tests::zoarium_binary;

/// How long a command may take, in seconds.
const LIMIT_S: &str = "120";

/// How long something may take on a busy machine.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// Runs the shell with words behind `cli` and with what comes through a pipe.
fn run(words: &[String], stdin: Option<&str>) -> Output {
    // Whatever it waits for, the test ends.
    let mut child = Command::new("timeout")
        .arg(LIMIT_S)
        .arg(zoarium_binary())
        .arg("cli")
        .args(words)
        .env("TZ", "UTC")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start the shell");
    let mut input = child.stdin.take().expect("a pipe");
    // A command that needs no input may be gone already.
    let _ = input.write_all(stdin.unwrap_or_default().as_bytes());
    drop(input);
    child.wait_with_output().expect("the shell ends")
}
