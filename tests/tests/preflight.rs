//! `zoarium preflight` beside Apache ZooKeeper, as everybody runs it first.

use std::process::{Command, Stdio};

use proto::request::{Request, flags};
use serde_json::Value;
use tests::requests::{create, set_data};
use tests::{Flavour, RawSession, Server, ServerBuilder, or_skip, zoarium_binary};

/// Asks while that many writes go on.
const WRITES: usize = 2000;

fn apache() -> Option<Server> {
    let builder = ServerBuilder::new(Flavour::Apache).setting("snapCount", "500");
    or_skip("preflight beside Apache ZooKeeper", builder.start())
}

/// Exit code and report of preflight on the server's zoo.cfg.
fn preflight(server: &Server) -> (Option<i32>, Value) {
    let mut command = Command::new(zoarium_binary());
    command.arg("preflight").arg(server.config_file());
    command.args(["--output", "json"]).stdin(Stdio::null());
    let output = command.output().expect("zoarium runs");
    let report = serde_json::from_slice(&output.stdout);
    (output.status.code(), report.expect("JSON"))
}

/// What is said of a running server that is well: nothing but notes, and that it runs.
fn check(server: &Server) {
    let (code, report) = preflight(server);
    let findings = report["findings"].as_array().expect("findings");
    let of_machine = ["clock", "limit-files", "limit-memory"];
    let is_loud = |finding: &&Value| {
        finding["severity"] != "note" && !of_machine.iter().any(|id| finding["id"] == *id)
    };
    let loud: Vec<&Value> = findings.iter().filter(is_loud).collect();
    assert!(loud.is_empty(), "{report:#}");
    assert_eq!(code, Some(0), "{report:#}");
    let by = format!("process {}", server.process_id().expect("it runs"));
    let mut running = findings
        .iter()
        .filter(|finding| finding["id"] == "server-running");
    assert!(running.any(|finding| {
        finding["problem"]
            .as_str()
            .is_some_and(|text| text.contains(&by))
    }));
}

#[test]
#[ignore = "runs other people's programs"]
fn a_server_that_has_not_written_since_its_start_is_known() {
    let Some(mut server) = apache() else { return };
    check(&server);
    // Now with files from before, of which it has none open.
    RawSession::open(&server.address(), None, 10_000).expect("a session");
    server.terminate();
    server.launch().expect("it starts again");
    check(&server);
}

#[test]
#[ignore = "runs other people's programs"]
fn what_is_being_written_and_purged_is_no_fault() {
    let Some(server) = apache() else { return };
    let mut session = RawSession::open(&server.address(), None, 10_000).expect("a session");
    let request = create("/there", Vec::new(), flags::PERSISTENT);
    session.call(&Request::Write(request)).expect("an answer");
    let writer = std::thread::spawn(move || {
        for number in 0..WRITES {
            let data = vec![b'x'; number % 3000];
            let request = Request::Write(set_data("/there", data, -1));
            session.call(&request).expect("an answer");
        }
    });
    let mut asked = 0;
    while !writer.is_finished() || asked == 0 {
        check(&server);
        asked += 1;
    }
    writer.join().expect("all is written");
    assert!(asked >= 1);
}
