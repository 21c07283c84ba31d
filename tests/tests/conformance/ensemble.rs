//! The shared wire conformance suite through each kind of member, in an ensemble of three voters
//! and an observer.

use std::time::Duration;

use proto::request::{Request, flags};
use tests::ensemble::{Ensemble, EnsembleBuilder, Role};
use tests::requests::create;
use tests::{Conformance, Flavour, RawSession, or_skip};

use crate::DELIBERATE_DIFFERENCES;

const PATIENCE: Duration = Duration::from_secs(10);

fn ensemble(suite: &Conformance) -> Option<Ensemble> {
    let flavour = Flavour::under_test();
    let template = or_skip("conformance of ensembles", suite.template())?;
    let builder = EnsembleBuilder::new(&[flavour; 3])
        .observers(&[flavour])
        .template(&template)
        // Apache ZooKeeper accepts this setting only as a property.
        .property("znode.container.checkIntervalMs", "500");
    or_skip(
        "conformance of ensembles",
        builder.start_led_by_last_voter(),
    )
}

fn matches_through(id: u64, role: Role, name: &str) {
    let Some(suite) = or_skip("conformance of ensembles", Conformance::find()) else {
        return;
    };
    let Some(ensemble) = ensemble(&suite) else {
        return;
    };
    let member = ensemble.member(id);
    assert_eq!(member.role(), Some(role));
    let mut to_run = vec!["--role", name];
    let mut to_compare = to_run.clone();
    if Flavour::under_test() != Flavour::Zoarium {
        // Such a request permanently stops a Java ensemble.
        to_run.extend(["--not-area", "malformed"]);
        to_compare.push("--only-run");
    }
    let address = member.client_address().to_string();
    let comparison = suite.compare(&address, &to_run, &to_compare);
    comparison.assert_only_different(DELIBERATE_DIFFERENCES);
    let all = comparison.all;
    assert!(all >= 300, "only {all} cases were compared");
    // After all requests, including malformed ones, every member continues as before.
    assert_eq!(ensemble.wait_until_all_serve(), 3);
    for id in ensemble.ids() {
        let address = ensemble.member(id).client_address().to_string();
        let mut session = RawSession::open(&address, None, 4000).expect("a session");
        session.set_patience(PATIENCE);
        let path = format!("/after{id}");
        let request = Request::Write(create(&path, "", flags::PERSISTENT));
        assert_eq!(session.call(&request).expect("an answer").err, 0);
        session.close().expect("the end of the session");
    }
}

/// Three concurrent ensembles, because the cases mostly wait.
#[test]
fn every_shared_case_matches_through_leader_follower_and_observer() {
    let members = [
        (3, Role::Leader, "leader"),
        (1, Role::Follower, "follower"),
        (4, Role::Observer, "observer"),
    ];
    std::thread::scope(|scope| {
        let threads = members.map(|(id, role, name)| {
            let thread = scope.spawn(move || matches_through(id, role, name));
            (name, thread)
        });
        for (name, thread) in threads {
            // Its message was printed at the failure.
            assert!(thread.join().is_ok(), "not the same through the {name}");
        }
    });
}
