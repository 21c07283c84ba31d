//! The common scenario with `zookeeper-client`, the client for Rust.

use tests::scenario::Scenario;
use tests::{Flavour, Server, or_skip, rust_program};

#[test]
#[ignore = "runs other people's programs"]
fn rust_client_notices_no_difference() {
    let Some(program) = or_skip("the Rust client", rust_program()) else {
        return;
    };
    let server = Server::start(Flavour::under_test());
    let Some(mut server) = or_skip("the Rust client", server) else {
        return;
    };
    let further_steps = &["lock", "persistent-watches"];
    Scenario {
        program,
        further_steps,
    }
    .drive(&mut server);
}
