//! A server starts on an installation if preflight finds no blocker, and otherwise refuses to
//! start.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use super::installations::{all_cases, with_data};
use super::site::Site;

/// Time within which a start fails or the server serves, also on a slow machine.
const LIMIT: Duration = Duration::from_secs(60);
/// Number of installations that are tested concurrently.
const THREADS: usize = 4;

/// A server of `zkServer.sh start-foreground`, which reads the files of flags. It is killed when
/// this value is dropped.
struct Foreground {
    process: Child,
    is_ready: bool,
}

impl Foreground {
    fn start(site: &Site) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conf/zkServer.sh");
        let mut command = Command::new(script);
        command
            .arg("--config")
            .arg(site.path("conf"))
            .arg("start-foreground")
            .env("ZOARIUM", env!("CARGO_BIN_EXE_zoarium"))
            .env("ZOO_LOG_DIR", site.path("output"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        for name in ["ZOOCFG", "ZOOCFGDIR", "SERVER_JVMFLAGS", "JVMFLAGS"] {
            command.env_remove(name);
        }
        let mut process = command.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut lines = lines.map_while(Result::ok);
        let is_ready = lines.any(|line| line.contains("; data in "));
        Self { process, is_ready }
    }

    /// Returns the exit code, or `None` if the server still runs at the time limit.
    fn end(&mut self) -> Option<i32> {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status.code();
            }
            if Instant::now() > deadline {
                return None;
            }
            thread::park_timeout(Duration::from_millis(20));
        }
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_start_agrees_with_preflight_on_each_installation() {
    if testkit::recordings::find("vectors/storage").is_none() {
        return;
    }
    let cases = Mutex::new(all_cases());
    let wrong = Mutex::new(Vec::new());
    let work = || {
        loop {
            let Some(case) = cases.lock().unwrap().next() else {
                return;
            };
            let site = Site::new();
            (case.prepare)(&site);
            let said = site.preflight(&[]);
            let mut server = Foreground::start(&site);
            // A member that cannot listen for elections ends after it has reported that it is
            // ready.
            let is_right = match said.verdict.as_str() {
                "no-go" => server.end().is_some_and(|code| code != 0),
                _ => server.is_ready,
            };
            if !is_right {
                let text = format!("{}: ready: {}: {:#}", case.name, server.is_ready, said.json);
                wrong.lock().unwrap().push(text);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(work);
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_election_port_that_is_taken_ends_the_start_with_code_14() {
    if testkit::recordings::find("vectors/storage").is_none() {
        return;
    }
    let site = Site::new();
    with_data(&site);
    site.member("electionPortBindRetry=1\n");
    let _taken = TcpListener::bind(site.filled("NET.1:3888")).unwrap();
    let said = site.preflight(&[]);
    assert_eq!(said.told("blocker"), ["port-taken conf/zoo.cfg:7"]);
    assert_eq!(Foreground::start(&site).end(), Some(14));
}

#[test]
fn a_refusal_leaves_the_files_as_they_are() {
    if testkit::recordings::find("vectors/storage").is_none() {
        return;
    }
    for name in [
        "a member with two empty epoch files",
        "a member whose currentEpoch is empty, and not certain",
    ] {
        let case = all_cases().find(|case| case.name == name).unwrap();
        let site = Site::new();
        (case.prepare)(&site);
        let files = |site: &Site| {
            let mut files = site.contents();
            files.retain(|path, _| path.parent().is_some_and(|dir| dir.ends_with("version-2")));
            files
        };
        let before = files(&site);
        assert_eq!(Foreground::start(&site).end(), Some(1), "{name}");
        assert!(before == files(&site), "{name}: a file was changed");
    }
}
