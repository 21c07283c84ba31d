//! The shared wire conformance suite: every case must match the answer of Apache ZooKeeper 3.9.5.

use tests::{Conformance, Flavour, Missing, Server, ServerBuilder, or_skip};

use crate::DELIBERATE_DIFFERENCES;

/// Starts a server with the suite's own configuration.
fn server(suite: &Conformance) -> Result<Server, Missing> {
    ServerBuilder::new(Flavour::under_test())
        .template(&suite.template()?)
        // Apache ZooKeeper accepts this setting only as a property.
        .property("znode.container.checkIntervalMs", "500")
        .start()
}

#[test]
fn every_shared_case_matches() {
    let Some(suite) = or_skip("the conformance suite", Conformance::find()) else {
        return;
    };
    let Some(server) = or_skip("the conformance suite", server(&suite)) else {
        return;
    };
    let comparison = suite.compare(&server.address(), &[], &[]);
    comparison.assert_only_different(DELIBERATE_DIFFERENCES);
    let all = comparison.all;
    assert!(all >= 300, "only {all} cases were compared");
}
