//! The leader is killed under load, and a server of the other kind takes over, and vice versa.

use tests::Flavour;
use tests::ensemble::{Ensemble, Load, check};

use crate::mixed::{PROGRESS, led, ours};

/// Maximum number of kills until each kind has taken over from the other one.
const KILLS_MAX: usize = 12;

#[test]
#[ignore = "runs other people's programs"]
fn leadership_moves_from_java_to_zoarium_and_back() {
    let followers = [ours(), ours()];
    let Some(mut ensemble) = led("fail-over", Flavour::Apache, &followers, |builder| builder)
    else {
        return;
    };
    let load = Load::start(&ensemble.addresses(&ensemble.ids()));
    load.wait_for_progress(PROGRESS);
    let (mut to_ours, mut to_java) = (false, false);
    for _ in 0..KILLS_MAX {
        let from = kill_leader(&mut ensemble, &load);
        let leader = ensemble.wait_until_all_serve();
        match (from.0, leader) {
            (3, 1 | 2) => to_ours = true,
            (1 | 2, 3) => to_java = true,
            _ => {}
        }
        if to_ours && to_java {
            break;
        }
    }
    assert!(
        to_ours && to_java,
        "{KILLS_MAX} kills never changed the kind"
    );
    let report = load.finish();
    println!("fail-over: {}", report.summary());
    assert_eq!(report.sessions_lost(), 0);
    check::nothing_is_lost(&ensemble, &report);
}

/// Kills the leader, lets the others continue, and starts it again as their follower. Returns the
/// old leader's id and the next one's.
fn kill_leader(ensemble: &mut Ensemble, load: &Load) -> (u64, u64) {
    let leader = ensemble.wait_until_all_serve();
    ensemble.member_mut(leader).kill();
    let next = ensemble.wait_until_all_serve();
    load.wait_for_progress(PROGRESS);
    ensemble.start(leader);
    assert_eq!(ensemble.wait_until_all_serve(), next);
    (leader, next)
}
