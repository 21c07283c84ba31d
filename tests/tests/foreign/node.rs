//! The common scenario with node-zookeeper-client, the client for JavaScript.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tests::scenario::Scenario;
use tests::{Flavour, Missing, Server, fetch, find_tool, or_skip, prepare, run, source_dir};

use crate::documented;

/// Returns Node.js and the scenario, next to the library that `package-lock.json` names.
pub(crate) fn node() -> Result<(PathBuf, PathBuf), Missing> {
    let (node, npm) = (find_tool("node")?, find_tool("npm")?);
    let sources =
        ["package.json", "package-lock.json", "scenario.js"].map(|f| source_dir("node").join(f));
    let dir = prepare("node", &sources, |dir| {
        // Node.js searches for libraries from the location of the script, so the script is copied
        // next to them.
        for source in &sources {
            let copy = dir.join(source.file_name().unwrap_or_default());
            std::fs::copy(source, &copy)
                .unwrap_or_else(|error| panic!("copy to {}: {error}", copy.display()));
        }
        let mut install = Command::new(&npm);
        install
            .current_dir(dir)
            .args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]);
        fetch(&mut install)
    })?;
    Ok((node, dir))
}

fn scenario() -> Result<Scenario, Missing> {
    let (node, dir) = node()?;
    Ok(Scenario {
        program: vec![node, dir.join("scenario.js")],
        further_steps: &[],
    })
}

#[test]
#[ignore = "runs other people's programs"]
fn the_quick_start_works_in_node() {
    let Some((node, dir)) = or_skip("the Node.js client", node()) else {
        return;
    };
    let Some(server) = or_skip("the Node.js client", Server::start(Flavour::under_test())) else {
        return;
    };
    let program = documented("QUICKSTART.md", "js", &server.address());
    let mut command = Command::new(node);
    command.current_dir(dir).args(["-e", &program]);
    let output = run(&mut command, Duration::from_secs(120)).unwrap();
    assert_eq!(output.trim(), "hello version 0");
}

#[test]
#[ignore = "runs other people's programs"]
fn node_client_notices_no_difference() {
    let Some(scenario) = or_skip("the Node.js client", scenario()) else {
        return;
    };
    let server = Server::start(Flavour::under_test());
    let Some(mut server) = or_skip("the Node.js client", server) else {
        return;
    };
    scenario.drive(&mut server);
}
