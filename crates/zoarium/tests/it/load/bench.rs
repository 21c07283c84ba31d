//! `zoarium bench` against `zoarium server`.

use std::process::Command;

use serde_json::Value;

use crate::support::{RunningServer, output_of, stderr, stdout, zoarium};

/// Runs a workload and returns its report.
fn bench(server: &RunningServer, workload: &str, options: &str) -> Value {
    let arguments = format!(
        "bench {workload} --server {} --warmup 0 --json {options}",
        server.address
    );
    let output = zoarium(arguments.split_ascii_whitespace());
    assert!(output.status.success(), "{workload}: {}", stderr(&output));
    serde_json::from_str(&stdout(&output)).unwrap()
}

fn children_of_root(server: &RunningServer) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let client = client::Client::connect(client::Options::new(&server.address))
            .await
            .unwrap();
        let children = client.get_children("/").await.unwrap();
        client.close().await.unwrap();
        children.iter().map(ToString::to_string).collect()
    })
}

#[test]
fn every_workload_runs_without_an_error_and_cleans_up() {
    let server = RunningServer::start();
    let load = "--sessions 4 --pipeline 8 --keys 50 --ops 400";
    for workload in ["get", "exists", "set", "create", "mixed", "multi"] {
        let report = bench(&server, workload, load);
        let side = &report["servers"][0];
        assert_eq!(side["ops"], 400, "{workload}: {report}");
        assert_eq!(side["errors"], serde_json::json!({}), "{workload}");
        assert!(side["latency_us"]["p99"].as_f64().unwrap() > 0.0);
    }
    assert_eq!(children_of_root(&server), ["zookeeper"]);
}

#[test]
fn every_watcher_gets_every_event() {
    let server = RunningServer::start();
    let report = bench(&server, "watch", "--sessions 5 --ops 20");
    let ops = report["servers"][0]["ops"].as_u64().unwrap();
    // The writer may stop before the events of its last change arrive.
    assert!((95..=100).contains(&ops), "{report}");
    let report = bench(&server, "watch", "--sessions 5 --watches 300 --ops 4");
    let ops = report["servers"][0]["ops"].as_u64().unwrap();
    assert!((4500..=6000).contains(&ops), "{report}");
    assert_eq!(report["load"]["keys"], 300);
}

#[test]
fn a_filled_tree_stays_until_it_is_cleaned() {
    let server = RunningServer::start();
    let report = bench(
        &server,
        "fill",
        "--znodes 500 --breadth 60 --root /zoarium-bench-it/fill",
    );
    assert_eq!(report["servers"][0]["ops"], 500);
    assert_eq!(children_of_root(&server).len(), 2);
    let output = zoarium(["bench", "clean", "--server", &server.address]);
    // 500 leaves, 9 parents, the root and its parent.
    assert_eq!(stdout(&output), "/zoarium-bench-it: 511 znodes deleted\n");
    assert_eq!(children_of_root(&server), ["zookeeper"]);
}

#[test]
fn clean_uses_the_server_of_the_environment_as_the_loads_do() {
    // No server listens on port 1.
    let mut command = Command::new(env!("CARGO_BIN_EXE_zoarium"));
    command.args(["bench", "clean"]);
    let output = output_of(command.env("ZOARIUM_SERVER", "127.0.0.1:1"));
    assert!(!output.status.success());
    let text = stderr(&output);
    assert!(text.contains("127.0.0.1:1"), "{text}");
    assert!(!text.contains("2181"), "{text}");
}

#[test]
fn a_comparison_reports_both_servers() {
    let (one, two) = (RunningServer::start(), RunningServer::start());
    let options = format!("--versus {} --rounds 2 --sessions 2 --ops 50", two.address);
    let report = bench(&one, "get", &options);
    assert_eq!(report["servers"][1]["server"], two.address);
    assert_eq!(report["servers"][1]["rounds"].as_array().unwrap().len(), 2);
    assert!(report["ratios"]["throughput"].as_f64().unwrap() > 0.0);
}

#[test]
fn refusals_of_the_server_are_counted_and_fail_the_run() {
    let server = RunningServer::start();
    // The request is larger than a server accepts, and the server closes the connection.
    let arguments = format!(
        "bench multi --server {} --size 20 --payload 60000 --keys 1 --sessions 1 --ops 5 --warmup 0",
        server.address
    );
    let output = zoarium(arguments.split_ascii_whitespace());
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    assert!(text.contains("lost sessions: 1, reason: "), "{text}");
}

#[test]
fn locks_are_passed_on_and_none_remains() {
    let server = RunningServer::start();
    let report = bench(&server, "lock", "--sessions 6 --locks 2 --ops 300");
    let side = &report["servers"][0];
    assert_eq!(side["ops"], 300, "{report}");
    assert_eq!(side["errors"], serde_json::json!({}));
    // Contenders that still wait at the end do not leave znodes either.
    let report = bench(&server, "lock", "--sessions 6 --locks 2 --duration 200ms");
    assert!(report["servers"][0]["ops"].as_u64() > Some(0), "{report}");
    assert_eq!(children_of_root(&server), ["zookeeper"]);
}

/// Checks that both forms of a report name the profile that `--version` prints.
fn expect_profile(text: &str, json: &Value) {
    let version = stdout(&zoarium(["--version"]));
    let (_, rest) = version.split_once("profile ").expect("a profile");
    let (profile, _) = rest.split_once(',').expect("an end of the profile");
    let sentence = format!("built with the profile {profile}.");
    assert!(text.contains(&sentence), "{text}");
    assert_eq!(json["generator_profile"], profile);
}

#[test]
fn a_suite_is_one_report_in_markdown_and_json() {
    let (one, two) = (RunningServer::start(), RunningServer::start());
    let dir = tempfile::tempdir().unwrap();
    let arguments = format!(
        "bench suite --server {} --versus {} --only get,connect,lock --rounds 2 \
         --duration 100ms --warmup 0 --znodes 500 --dir {dir} --report {dir}/report",
        one.address,
        two.address,
        dir = dir.path().display()
    );
    let output = zoarium(arguments.split_ascii_whitespace());
    assert!(output.status.success(), "{}", stderr(&output));
    let read = |name| std::fs::read_to_string(dir.path().join("report").join(name)).unwrap();
    let text = read("report.md");
    assert_eq!(stdout(&output), text);
    let tables: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
    let first_cells = tables.iter().filter_map(|line| line.split('|').nth(1));
    let first_cells: Vec<&str> = first_cells.map(str::trim).collect();
    let expected = [
        "load",
        "---",
        "get 16 x 16",
        "get 1 x 1",
        "connect, 16 sessions",
        "lock, 32 sessions on 8",
        "server",
        "---",
        &one.address,
        &two.address,
        "load",
        "---",
        "get 16 x 16",
        "get 1 x 1",
        "connect, 16 sessions",
        "lock, 32 sessions on 8",
    ];
    assert_eq!(first_cells, expected, "{text}");
    // Each figure of a comparison is present, except for processes without `--pid`.
    for line in &tables[2..6] {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let figures = cells.iter().filter(|cell| **cell != "-").count();
        assert_eq!((cells.len(), figures), (18, 15), "{line}");
    }
    let json: Value = serde_json::from_str(&read("report.json")).unwrap();
    expect_profile(&text, &json);
    let loads = json["loads"].as_array().unwrap();
    assert_eq!(loads.len(), 4);
    for load in loads {
        let ratio = load["ratios"]["throughput"].as_f64();
        assert!(ratio.is_some_and(|ratio| ratio > 0.0), "{load}");
    }
    assert_eq!(json["fill"]["servers"][1]["ops"], 500);
    let does = ["replies", "replies", "syncs", "syncs"];
    for (limit, does) in tables[12..].iter().zip(does) {
        let cells: Vec<&str> = limit.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells[1], format!("server that only {does}"), "{limit}");
        assert!(cells.len() == 6 && !cells.contains(&"-"), "{limit}");
    }
    let limits = json["limits"]["servers"].as_array().unwrap();
    assert_eq!(limits.len(), 4, "{json}");
    for limit in limits {
        // One turn leaves nothing that would end the next one.
        let turns = limit["servers"][0]["rounds"].as_array().unwrap();
        let ops = turns.iter().map(|turn| turn["ops"].as_u64().unwrap());
        assert_eq!(ops.filter(|ops| *ops > 0).count(), 2, "{limit}");
    }
    for server in [&one, &two] {
        assert_eq!(children_of_root(server), ["zookeeper"]);
    }
}

#[test]
fn a_load_that_cannot_run_is_a_row_with_its_reason() {
    let server = RunningServer::start_with(&["2000", "60"]);
    let suite = |only: &str| {
        let arguments = format!(
            "bench suite --server {} --only {only} --rounds 1 --duration 50ms --warmup 0",
            server.address
        );
        zoarium(arguments.split_ascii_whitespace())
    };
    let output = suite("watch,connect");
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("- watch, 1000 sessions: not measured: "),
        "{text}"
    );
    assert!(text.contains("maxClientCnxns"), "{text}");
    let row = |name: &str| {
        text.lines()
            .find(|line| line.starts_with(&format!("| {name}")))
    };
    assert!(
        row("connect").is_some_and(|row| !row.contains("| - | - | - | -")),
        "{text}"
    );

    let output = suite("set --dir /nowhere/at/all");
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("- 256 records per sync: not measured: cannot create /nowhere"),
        "{text}"
    );

    let output = suite("sort");
    let error = stderr(&output);
    assert!(
        error.contains("--only") && error.contains("get 16 x 16"),
        "{error}"
    );
}
