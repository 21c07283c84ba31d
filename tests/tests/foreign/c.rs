//! The common scenario with the C client (Debian's `libzookeeper-mt-dev`).

use tests::scenario::Scenario;
use tests::{Flavour, Server, c_program, or_skip};

#[test]
#[ignore = "runs other people's programs"]
fn c_client_notices_no_difference() {
    let Some(program) = or_skip("the C client", c_program()) else {
        return;
    };
    let server = Server::start(Flavour::under_test());
    let Some(mut server) = or_skip("the C client", server) else {
        return;
    };
    let further_steps = &["pipelined"];
    Scenario {
        program,
        further_steps,
    }
    .drive(&mut server);
}
