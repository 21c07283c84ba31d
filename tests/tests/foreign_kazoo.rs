//! The common scenario with kazoo, the client of Python programs.

use tests::scenario::Scenario;
use tests::{Flavour, Server, or_skip, python_with_kazoo, source_dir};

#[test]
fn kazoo_notices_no_difference() {
    let Some(python) = or_skip("kazoo", python_with_kazoo()) else {
        return;
    };
    let Some(mut server) = or_skip("kazoo", Server::start(Flavour::under_test())) else {
        return;
    };
    let program = vec![python, source_dir("python").join("scenario.py")];
    Scenario {
        program,
        further_steps: &["recipes"],
    }
    .drive(&mut server);
}
