//! The common scenario with kazoo, the client for Python.

use std::process::Command;
use std::time::Duration;

use tests::scenario::Scenario;
use tests::{Flavour, Server, kazoo_program, or_skip, python_with_kazoo, run};

use crate::documented;

#[test]
#[ignore = "runs other people's programs"]
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

#[test]
#[ignore = "runs other people's programs"]
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
