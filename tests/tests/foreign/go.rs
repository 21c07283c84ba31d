//! The common scenario with go-zookeeper/zk, the client for Go.

use tests::scenario::Scenario;
use tests::{Flavour, Server, go_program, or_skip};

#[test]
#[ignore = "runs other people's programs"]
fn go_client_notices_no_difference() {
    let Some(program) = or_skip("the Go client", go_program()) else {
        return;
    };
    let server = Server::start(Flavour::under_test());
    let Some(mut server) = or_skip("the Go client", server) else {
        return;
    };
    let further_steps = &["lock"];
    Scenario {
        program,
        further_steps,
    }
    .drive(&mut server);
}
