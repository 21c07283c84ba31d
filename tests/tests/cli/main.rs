//! `zoarium cli` and the commands of the program: comparison with the recorded output of zkCli.sh
//! from Apache ZooKeeper 3.9.5, additional commands, and behaviour at a terminal.

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

/// Time limit for a command, in seconds.
const LIMIT_S: &str = "120";

/// Time limit for each expected event on a busy machine.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// Runs the shell with the words after `cli`, and with input from a pipe.
fn run(words: &[String], stdin: Option<&str>) -> Output {
    let words: Vec<String> = std::iter::once("cli".to_owned())
        .chain(words.iter().cloned())
        .collect();
    run_program(&words, stdin)
}

/// Runs a command of the program, with input from a pipe.
fn run_program(words: &[String], stdin: Option<&str>) -> Output {
    // The test ends, even if the program hangs.
    let mut child = Command::new("timeout")
        .arg(LIMIT_S)
        .arg(zoarium_binary())
        .args(words)
        .env("TZ", "UTC")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start the shell");
    let mut input = child.stdin.take().expect("a pipe");
    // A command without input may already have ended.
    let _ = input.write_all(stdin.unwrap_or_default().as_bytes());
    drop(input);
    child.wait_with_output().expect("the shell ends")
}
