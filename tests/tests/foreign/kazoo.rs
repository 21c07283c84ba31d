//! The common scenario with kazoo, the client of Python programs.

use std::fs;
use std::process::Command;
use std::time::Duration;

use tests::scenario::Scenario;
use tests::{
    Flavour, Server, kazoo_program, or_skip, python_with_kazoo, run, workspace_root, zoarium_binary,
};

use crate::documented;

#[test]
fn kazoo_notices_no_difference() {
    let Some(program) = or_skip("kazoo", kazoo_program()) else {
        return;
    };
    let server = Server::start(Flavour::under_test());
    let Some(mut server) = or_skip("kazoo", server) else {
        return;
    };
    let further_steps = &["recipes"];
    Scenario {
        program,
        further_steps,
    }
    .drive(&mut server);
}

/// What a test of somebody's would do with the fixture.
const USE: &str = r#"
from kazoo.client import KazooClient

with zookeeper() as connect_string:
    client = KazooClient(hosts=connect_string)
    client.start(timeout=60)
    client.create("/made", b"by a test")
    assert client.get("/made")[0] == b"by a test"
    client.stop()
print("done")
"#;

#[test]
fn the_fixture_of_the_documents_serves_kazoo() {
    let Some(python) = or_skip("kazoo", python_with_kazoo()) else {
        return;
    };
    let text = fs::read_to_string(workspace_root().join("docs/EMBEDDING.md")).unwrap();
    let (_, rest) = text.split_once("```python\n").expect("there is a fixture");
    let (fixture, _) = rest.split_once("```").expect("the fixture ends");
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("fixture.py");
    fs::write(&script, format!("{fixture}{USE}")).unwrap();
    let binary = zoarium_binary();
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", binary.parent().unwrap().display());
    let mut command = Command::new(python);
    command.arg(script).env("PATH", path);
    let output = run(&mut command, Duration::from_secs(120)).unwrap();
    assert!(output.contains("done"), "{output}");
}

#[test]
fn the_quick_start_works_in_python() {
    let Some(python) = or_skip("kazoo", python_with_kazoo()) else {
        return;
    };
    let Some(server) = or_skip("kazoo", Server::start(Flavour::under_test())) else {
        return;
    };
    let program = documented("QUICKSTART.md", "python", &server.address());
    let mut command = Command::new(python);
    command.args(["-c", &program]);
    let output = run(&mut command, Duration::from_secs(120)).unwrap();
    assert_eq!(output.trim(), "hello version 1");
}
