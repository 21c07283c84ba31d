//! The common scenario with Apache ZooKeeper's own Java client and with Curator.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tests::scenario::Scenario;
use tests::{
    Flavour, Missing, Server, ServerBuilder, apache_class_path, java_tool, or_skip, prepare, run,
    source_dir,
};

const COMPILE_LIMIT: Duration = Duration::from_secs(5 * 60);

/// The scenario of the given main class, compiled.
fn scenario(main: &str, further_steps: &'static [&'static str]) -> Result<Scenario, Missing> {
    let class_path = apache_class_path()?;
    let compiler = java_tool("javac")?;
    let sources: Vec<PathBuf> = ["Talk", "Watching", main]
        .map(|class| source_dir("java").join(class).with_extension("java"))
        .to_vec();
    let classes = prepare(main, &sources, |dir| {
        let mut compile = Command::new(&compiler);
        compile.args(["-nowarn", "-cp", &class_path, "-d"]);
        if let Err(failure) = run(compile.arg(dir).args(&sources), COMPILE_LIMIT) {
            panic!("the scenario does not compile: {failure}");
        }
        Ok(())
    })?;
    let logging = source_dir("java").join("logback.xml");
    let program = vec![
        java_tool("java")?,
        "-XX:+UseSerialGC".into(),
        "-XX:TieredStopAtLevel=1".into(),
        format!("-Dlogback.configurationFile={}", logging.display()).into(),
        "-cp".into(),
        format!("{class_path}:{}", classes.display()).into(),
        main.into(),
    ];
    Ok(Scenario {
        program,
        further_steps,
    })
}

#[test]
fn java_client_notices_no_difference() {
    let further_steps = &["persistent-watches", "node-kinds", "newer-requests"];
    let scenario = scenario("JavaScenario", further_steps);
    let Some(scenario) = or_skip("the Java client", scenario) else {
        return;
    };
    // Containers and TTL nodes are to go while the scenario waits.
    let server = ServerBuilder::new(Flavour::under_test())
        .property("znode.container.checkIntervalMs", "500")
        .start();
    let Some(mut server) = or_skip("the Java client", server) else {
        return;
    };
    scenario.drive(&mut server);
}

#[test]
fn curator_notices_no_difference() {
    let scenario = scenario("CuratorScenario", &["locks-and-leaders", "cache"]);
    let Some(scenario) = or_skip("Curator", scenario) else {
        return;
    };
    let Some(mut server) = or_skip("Curator", Server::start(Flavour::under_test())) else {
        return;
    };
    scenario.drive(&mut server);
}
