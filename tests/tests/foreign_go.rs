//! The common scenario with go-zookeeper/zk, the client of Go programs.

use std::process::Command;
use std::time::Duration;

use tests::scenario::Scenario;
use tests::{Flavour, Missing, Server, fetch, find_tool, or_skip, prepare, run, source_dir};

const LIMIT: Duration = Duration::from_secs(5 * 60);

/// The scenario, built with the module that `go.mod` names.
fn scenario() -> Result<Scenario, Missing> {
    let go = find_tool("go")?;
    let sources =
        ["go.mod", "go.sum", "main.go", "talk.go"].map(|file| source_dir("go").join(file));
    let dir = prepare("go", &sources, |dir| {
        let go = |arguments: &[&str]| {
            let mut command = Command::new(&go);
            command
                .current_dir(source_dir("go"))
                .env("GOMODCACHE", dir.join("modules"))
                .env("GOCACHE", dir.join("cache"))
                // No other toolchain is fetched, and what is fetched can be removed again.
                .env("GOTOOLCHAIN", "local")
                .env("GOFLAGS", "-modcacherw")
                .args(arguments);
            command
        };
        fetch(&mut go(&["mod", "download"]))?;
        let output = dir.join("scenario");
        let mut build = go(&["build", "-buildvcs=false", "-o", &output.to_string_lossy()]);
        if let Err(failure) = run(&mut build, LIMIT) {
            panic!("the scenario does not compile: {failure}");
        }
        Ok(())
    })?;
    Ok(Scenario {
        program: vec![dir.join("scenario")],
        further_steps: &["lock"],
    })
}

#[test]
fn go_client_notices_no_difference() {
    let Some(scenario) = or_skip("the Go client", scenario()) else {
        return;
    };
    let server = Server::start(Flavour::under_test());
    let Some(mut server) = or_skip("the Go client", server) else {
        return;
    };
    scenario.drive(&mut server);
}
