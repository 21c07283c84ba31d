//! The common scenario with Apache ZooKeeper's own Java client and with Curator.

use tests::scenario::Scenario;
use tests::{Flavour, Missing, Server, ServerBuilder, java_program, or_skip};

/// Returns the compiled scenario of this main class.
fn scenario(main: &str, further_steps: &'static [&'static str]) -> Result<Scenario, Missing> {
    Ok(Scenario {
        program: java_program(main, &["Talk", "Watching"], &[])?,
        further_steps,
    })
}

#[test]
#[ignore = "runs other people's programs"]
fn java_client_notices_no_difference() {
    let further_steps = &["persistent-watches", "node-kinds", "newer-requests"];
    let scenario = scenario("JavaScenario", further_steps);
    let Some(scenario) = or_skip("the Java client", scenario) else {
        return;
    };
    // Containers and TTL nodes must be deleted while the scenario waits.
    let server = ServerBuilder::new(Flavour::under_test())
        .property("znode.container.checkIntervalMs", "500")
        .start();
    let Some(mut server) = or_skip("the Java client", server) else {
        return;
    };
    scenario.drive(&mut server);
}

#[test]
#[ignore = "runs other people's programs"]
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
