//! `zoarium preflight` next to Apache ZooKeeper, which is its usual first use.

use std::process::{Command, Stdio};

use client::{Client, Options};
use proto::Acl;
use proto::request::{Request, flags};
use serde_json::Value;
use tests::requests::{create, set_data};
use tests::{Flavour, RawSession, Server, ServerBuilder, or_skip, workspace_root, zoarium_binary};

/// Number of writes during the checks.
const WRITES: usize = 2000;

fn apache() -> Option<Server> {
    let builder = ServerBuilder::new(Flavour::Apache).setting("snapCount", "500");
    or_skip("preflight beside Apache ZooKeeper", builder.start())
}

/// Runs preflight on the server's zoo.cfg. Returns the exit code and the report.
fn preflight(server: &Server) -> (Option<i32>, Value) {
    let mut command = Command::new(zoarium_binary());
    command.arg("preflight").arg(server.config_file());
    command.args(["--output", "json"]).stdin(Stdio::null());
    let output = command.output().expect("zoarium runs");
    let report = serde_json::from_slice(&output.stdout);
    (output.status.code(), report.expect("JSON"))
}

/// Checks the report about a healthy server: only notes, and that the server runs.
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
    // Now there are older files, none of which the server has open.
    RawSession::open(&server.address(), None, 10_000).expect("a session");
    server.terminate();
    server.launch().expect("it starts again");
    check(&server);
}

#[test]
#[ignore = "runs other people's programs"]
fn files_being_written_or_purged_are_not_faults() {
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

/// The report lists every point of the checklist in docs/SECURITY.md, and the data is read for the
/// ACL of `/`.
#[tokio::test]
async fn the_security_checklist_is_printed_point_by_point() {
    if Flavour::under_test() != Flavour::Zoarium {
        return;
    }
    let builder = ServerBuilder::new(Flavour::Zoarium);
    let Some(server) = or_skip("a server", builder.start()) else {
        return;
    };
    let print = || {
        let mut command = Command::new(zoarium_binary());
        command
            .arg("preflight")
            .arg(server.config_file())
            .arg("--security");
        let output = command.stdin(Stdio::null()).output().expect("zoarium runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let page = workspace_root().join("docs/SECURITY.md");
    let page = std::fs::read_to_string(page).expect("docs/SECURITY.md");
    let (_, table) = page.split_once("### The checklist").expect("the checklist");
    let points = table.lines().skip_while(|line| !line.starts_with("| `"));
    let points = points.map_while(|line| line.strip_prefix("| `")?.split('`').next());
    let shown = print();
    let mut count = 0;
    for point in points {
        let of_point = ["ok", "open"].map(|state| format!("security {state:4} {point}\n"));
        let found = of_point.iter().filter(|line| shown.contains(*line)).count();
        assert_eq!(found, 1, "{point}: {shown}");
        count += 1;
    }
    assert!(count >= 11, "{count} points");
    assert!(shown.contains("security open root-open\n"), "{shown}");
    assert!(shown.contains("setAcl / digest:USER:HASH:cdrwa"), "{shown}");
    let client = Client::connect(Options::new(&server.address()));
    let client = client.await.expect("a session");
    let closed = vec![Acl::new(1, "world", "anyone")];
    client
        .set_acl("/", closed, -1)
        .await
        .expect("set the ACL of /");
    let shown = print();
    assert!(shown.contains("security ok   root-open\n"), "{shown}");
}
