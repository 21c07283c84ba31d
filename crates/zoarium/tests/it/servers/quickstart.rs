//! `zoarium quickstart`, as a new user runs it.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use crate::embedded::embedding::PATIENCE;
use crate::support::{stderr, stdout, zoarium};

/// A running `zoarium quickstart`. Its members are stopped when this value is dropped.
struct Quickstart {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

/// A row of the printed table.
#[derive(Debug)]
struct Row {
    role: String,
    client: String,
    pid: i32,
}

impl Quickstart {
    fn start(arguments: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_zoarium"))
            .arg("quickstart")
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines }
    }

    /// Returns the next line with this text.
    fn line_with(&mut self, text: &str) -> String {
        let mut lines = self.lines.by_ref().map(Result::unwrap);
        let line = lines.find(|line| line.contains(text));
        line.unwrap_or_else(|| panic!("it ended without {text:?}"))
    }

    fn rows(&mut self, count: usize) -> Vec<Row> {
        self.line_with("console");
        let row = |_| {
            let line = self.lines.next().unwrap().unwrap();
            let cells: Vec<&str> = line.split_whitespace().collect();
            Row {
                role: cells[1].to_owned(),
                client: cells[2].to_owned(),
                pid: cells[4].parse().unwrap(),
            }
        };
        (0..count).map(row).collect()
    }

    fn stop(&mut self) -> ExitStatus {
        signal(i32::try_from(self.process.id()).unwrap(), Signal::INT);
        self.process.wait().unwrap()
    }
}

impl Drop for Quickstart {
    fn drop(&mut self) {
        if let Ok(None) = self.process.try_wait() {
            signal(i32::try_from(self.process.id()).unwrap(), Signal::TERM);
            let _ = self.process.wait();
        }
    }
}

fn signal(pid: i32, signal: Signal) {
    // A process that has ended does not need a signal.
    let _ = kill_process(Pid::from_raw(pid).unwrap(), signal);
}

fn cli(address: &str, arguments: &[&str]) -> (bool, String) {
    let output = zoarium(["cli", "-server", address].iter().chain(arguments));
    (output.status.success(), stdout(&output) + &stderr(&output))
}

#[test]
fn three_members_serve_and_survive_the_loss_of_their_leader() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("try");
    let shown = directory.display().to_string();
    let mut quickstart = Quickstart::start(&["--members", "3", "--dir", &shown]);
    let rows = quickstart.rows(3);
    let leaders: Vec<&Row> = rows.iter().filter(|row| row.role == "leader").collect();
    assert_eq!(leaders.len(), 1, "{rows:?}");
    let connect_string = quickstart.line_with("zoarium cli -server");
    let connect_string = connect_string.split_whitespace().last().unwrap().to_owned();
    let (is_done, printed) = cli(&connect_string, &["create", "/greeting", "hello"]);
    assert!(is_done, "{printed}");

    signal(leaders[0].pid, Signal::KILL);
    quickstart.line_with("has ended");
    let others = rows.iter().filter(|row| row.role != "leader");
    for other in others {
        let began = Instant::now();
        loop {
            let (_, printed) = cli(&other.client, &["get", "/greeting"]);
            if printed.contains("hello") {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "{printed}");
        }
    }

    assert!(quickstart.stop().success());
    assert!(
        directory.join("1/zoo.cfg").exists(),
        "the user named the directory"
    );
    let again = zoarium(["quickstart", "--dir", &shown]);
    assert_eq!(again.status.code(), Some(1));
    assert!(
        stderr(&again).contains("is not empty"),
        "{}",
        stderr(&again)
    );
}

#[test]
fn one_member_is_enough_and_leaves_no_files() {
    let scratch = tempfile::tempdir().unwrap();
    let mut process = Command::new(env!("CARGO_BIN_EXE_zoarium"));
    process.args(["quickstart", "--members", "1"]);
    process.env("TMPDIR", scratch.path());
    let mut child = process
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut quickstart = Quickstart {
        process: child,
        lines,
    };
    assert_eq!(quickstart.rows(1).len(), 1);
    assert!(quickstart.stop().success());
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
}
