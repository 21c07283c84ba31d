//! Each kind leads the other's followers and observers, and all accept writes.

use tests::ensemble::{EnsembleBuilder, Load, LoadSettings, Role, check};

use crate::mixed::{PROGRESS, both_ways, led};

#[test]
#[ignore = "runs other people's programs"]
fn each_kind_leads_followers_and_observers_of_the_other() {
    both_ways(|leader, learner| {
        let with_observer = |builder: EnsembleBuilder| builder.observers(&[learner]);
        let what = "mixed ensembles";
        let Some(ensemble) = led(what, leader, &[learner, learner], with_observer) else {
            return;
        };
        let roles = ensemble.ids().into_iter();
        let roles: Vec<_> = roles.filter_map(|id| ensemble.member(id).role()).collect();
        let expected = [Role::Follower, Role::Follower, Role::Leader, Role::Observer];
        assert_eq!(roles, expected);
        // A writer on each member. Learners forward their writes.
        let addresses = ensemble.addresses(&ensemble.ids());
        let settings = LoadSettings {
            writers: addresses.len(),
            ..LoadSettings::default()
        };
        let load = Load::with(&addresses, &settings);
        load.wait_for_progress(10 * PROGRESS);
        let report = load.finish();
        println!("{leader:?} leads {learner:?}: {}", report.summary());
        assert_eq!(report.unknown(), 0);
        check::nothing_is_lost(&ensemble, &report);
    });
}
