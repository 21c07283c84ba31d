//! Members of Apache ZooKeeper 3.8, which has no zxids in watch events, and older metrics.

use tests::Flavour;
use tests::ensemble::{EnsembleBuilder, Load, LoadSettings, check};

use crate::mixed::{PROGRESS, led, ours};

#[test]
#[ignore = "runs other people's programs"]
fn a_server_of_3_8_follows_and_leads_zoarium() {
    for (leader, learner) in [(ours(), Flavour::Apache38), (Flavour::Apache38, ours())] {
        let with_observer = |builder: EnsembleBuilder| builder.observers(&[learner]);
        let what = "ensembles with Apache ZooKeeper 3.8";
        let Some(mut ensemble) = led(what, leader, &[learner, ours()], with_observer) else {
            return;
        };
        let mut reports = Vec::new();
        let mut load = Load::start(&ensemble.addresses(&ensemble.ids()));
        load.wait_for_progress(PROGRESS);
        // The follower misses some writes, and then the leader is killed.
        for id in [1, 3] {
            if ensemble.member(id).flavour() != Flavour::Apache38 {
                ensemble.survive_kill_of(id, &load, PROGRESS);
                continue;
            }
            ensemble.member_mut(id).kill();
            ensemble.wait_until_all_serve();
            load.wait_for_progress(PROGRESS);
            // There are no writes during its start, because a follower of 3.8 can lose commits
            // during its synchronisation (ZOOKEEPER-4394).
            reports.push(load.finish());
            ensemble.start(id);
            ensemble.wait_until_all_serve();
            let settings = LoadSettings {
                prefix: format!("after-{id}-"),
                ..LoadSettings::default()
            };
            load = Load::with(&ensemble.addresses(&ensemble.ids()), &settings);
        }
        load.wait_for_progress(PROGRESS);
        reports.push(load.finish());
        for report in &reports {
            println!("{leader:?} with {learner:?}: {}", report.summary());
            assert_eq!(report.sessions_lost(), 0);
            check::nothing_is_lost(&ensemble, report);
        }
    }
}
