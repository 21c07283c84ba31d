//! The common scenario with `zookeeper-client`, the client of Rust programs.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tests::scenario::Scenario;
use tests::{Flavour, Missing, Server, fetch, find_tool, or_skip, prepare, run, source_dir};

const LIMIT: Duration = Duration::from_secs(15 * 60);

/// The scenario, a Cargo project of its own with its own lock file.
fn scenario() -> Result<Scenario, Missing> {
    let cargo =
        std::env::var_os("CARGO").map_or_else(|| find_tool("cargo"), |cargo| Ok(cargo.into()))?;
    let source = source_dir("rust");
    let inputs: Vec<PathBuf> = [
        "Cargo.toml",
        "Cargo.lock",
        "src/main.rs",
        "src/talk.rs",
        "src/steps.rs",
    ]
    .map(|file| source.join(file))
    .to_vec();
    let dir = prepare("rust", &inputs, |dir| {
        let cargo = |arguments: &[&str]| {
            let mut command = Command::new(&cargo);
            command
                .current_dir(&source)
                .args(arguments)
                .env("CARGO_TARGET_DIR", dir);
            command
        };
        fetch(&mut cargo(&["fetch", "--quiet", "--locked"]))?;
        let mut build = cargo(&["build", "--quiet", "--locked", "--offline"]);
        if let Err(failure) = run(&mut build, LIMIT) {
            panic!("the scenario does not compile: {failure}");
        }
        Ok(())
    })?;
    let further_steps = &["lock", "persistent-watches"];
    Ok(Scenario {
        program: vec![dir.join("debug/scenario")],
        further_steps,
    })
}

#[test]
fn rust_client_notices_no_difference() {
    let Some(scenario) = or_skip("the Rust client", scenario()) else {
        return;
    };
    let server = Server::start(Flavour::under_test());
    let Some(mut server) = or_skip("the Rust client", server) else {
        return;
    };
    scenario.drive(&mut server);
}
