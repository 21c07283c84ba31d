//! `zoarium-lab growth` against `zoarium server`.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tests::{Flavour, Server, ServerBuilder, or_skip};

/// Runs `zoarium-lab growth` with these options until it ends.
fn growth(options: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zoarium-lab"));
    command.arg("growth").args(options.split_ascii_whitespace());
    command.stdin(Stdio::null()).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn children_of_root(server: &Server) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let client = client::Client::connect(client::Options::new(&server.address()))
            .await
            .unwrap();
        let children = client.get_children("/").await.unwrap();
        client.close().await.unwrap();
        children.iter().map(ToString::to_string).collect()
    })
}

#[test]
fn growth_is_measured_and_drawn_along_each_axis() {
    // The timeout is so long that no session expires on a busy machine.
    let builder = ServerBuilder::new(Flavour::Zoarium).setting("tickTime", "2000");
    let start = || or_skip("growth", builder.start());
    let (Some(server), Some(other)) = (start(), start()) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let ends = ["payload=10", "sessions=10", "watches=1000", "children=100"]
        .map(|end| format!("--upto {end}"));
    let output = growth(&format!(
        "--server {server} --versus {other} --name Ours --pid {pid} {} --upto znodes=10000 --rounds 1 \
         --duration 100ms --warmup 0 --voters 1={server} --voters 3={server} --versus-voters 3={other} \
         --json --report {}",
        ends.join(" "),
        dir.path().display(),
        server = server.address(),
        other = other.address(),
        pid = server.process_id().unwrap(),
    ));
    assert!(output.status.success(), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let axes = report["axes"].as_array().unwrap();
    let names: Vec<&str> = axes
        .iter()
        .map(|axis| axis["axis"].as_str().unwrap())
        .collect();
    let expected = [
        "sessions", "watches", "znodes", "children", "payload", "voters",
    ];
    assert_eq!(names, expected);
    for axis in axes {
        for curve in axis["curves"].as_array().unwrap() {
            let points = curve["points"].as_array().unwrap();
            for point in points {
                let p99 = |kind: usize| point["servers"][kind]["p99_us"].as_f64();
                // No client pings that early.
                let is_idle = curve["load"] == "idle";
                assert!(is_idle || p99(0).unwrap() > 0.0, "{axis} {curve}");
                let is_missing = axis["axis"] == "voters" && point["at"] == 1;
                assert_eq!(p99(1).is_none(), is_missing, "{axis} {point}");
            }
            let has_bytes = points[0]["servers"][0]["bytes"].as_f64().is_some();
            assert_eq!(has_bytes, curve["bytes_of"].is_string(), "{curve}");
        }
        let file = format!("{}.svg", axis["axis"].as_str().unwrap());
        let drawing = std::fs::read_to_string(dir.path().join(file)).unwrap();
        assert!(
            drawing.starts_with("<svg ") && drawing.contains("Ours, and "),
            "{drawing}"
        );
        assert!(drawing.contains(axis["unit"].as_str().unwrap()));
    }
    let text = std::fs::read_to_string(dir.path().join("growth.md")).unwrap();
    assert!(
        text.contains("| children of one znode | Ours: ops/s |"),
        "{text}"
    );
    assert!(
        text.contains("| 100 |") && !text.contains("Problems:"),
        "{text}"
    );
    assert_eq!(children_of_root(&server), ["zookeeper"]);
}

#[test]
fn an_unknown_axis_is_refused_with_the_known_ones() {
    for options in ["--only height", "--upto height=3"] {
        let output = growth(options);
        assert_eq!(output.status.code(), Some(1));
        let text = stderr(&output);
        assert!(
            text.contains("\"height\" is not an axis; known axes are sessions, watches"),
            "{text}"
        );
    }
    for (options, reason) in [
        ("--upto znodes", "write AXIS=NUMBER"),
        ("--upto znodes=many", "\"many\" is not a number"),
        ("--voters localhost:2181", "write NUMBER=HOST:PORT"),
        (
            "--voters x=localhost:2181",
            "the text before = is not a number",
        ),
    ] {
        let output = growth(options);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(reason), "{}", stderr(&output));
    }
}
