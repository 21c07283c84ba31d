//! The common scenario with the C client (Debian's `libzookeeper-mt-dev`).

use std::process::Command;
use std::time::Duration;

use tests::scenario::Scenario;
use tests::{Flavour, Missing, Server, find_tool, or_skip, prepare, run, source_dir};

const COMPILE_LIMIT: Duration = Duration::from_secs(60);

/// The scenario, compiled and linked with the library.
fn scenario() -> Result<Scenario, Missing> {
    let compiler = find_tool("cc")?;
    let source = source_dir("c").join("scenario.c");
    let dir = prepare("c", std::slice::from_ref(&source), |dir| {
        // Whether header and library are there is found out apart from our own faults.
        let probe = dir.join("probe.c");
        std::fs::write(
            &probe,
            "#include <zookeeper/zookeeper.h>\nint main(void){return 0;}\n",
        )
        .map_err(|error| Missing(format!("{}: {error}", probe.display())))?;
        let build = |source| {
            let mut command = Command::new(&compiler);
            command.args([
                "-std=gnu11",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-O1",
                "-DTHREADED",
            ]);
            command.arg(source).arg("-o").arg(dir.join("scenario"));
            command.args(["-lzookeeper_mt", "-lpthread"]);
            run(&mut command, COMPILE_LIMIT)
        };
        build(&probe).map_err(|failure| Missing(format!("no libzookeeper-mt-dev: {failure}")))?;
        if let Err(failure) = build(&source) {
            panic!("the scenario does not compile: {failure}");
        }
        Ok(())
    })?;
    Ok(Scenario {
        program: vec![dir.join("scenario")],
        further_steps: &["pipelined"],
    })
}

#[test]
fn c_client_notices_no_difference() {
    let Some(scenario) = or_skip("the C client", scenario()) else {
        return;
    };
    let server = Server::start(Flavour::under_test());
    let Some(mut server) = or_skip("the C client", server) else {
        return;
    };
    scenario.drive(&mut server);
}
