//! Members of both kinds join and leave, with leaders of both kinds.

use tests::ensemble::{Change, Duty, EnsembleBuilder, Load, check};

use crate::mixed::{PROGRESS, both_ways, led};

#[test]
#[ignore = "runs other people's programs"]
fn members_of_both_kinds_join_and_leave_under_each_leader() {
    both_ways(|leader, other| {
        let what = "reconfiguration of mixed ensembles";
        let dynamic = |builder: EnsembleBuilder| builder.dynamic();
        let Some(mut ensemble) = led(what, leader, &[other, leader], dynamic) else {
            return;
        };
        let load = Load::start(&ensemble.addresses(&[1, 2, 3]));
        load.wait_for_progress(PROGRESS);
        for (flavour, duty) in [(other, Duty::Participant), (other, Duty::Observer)] {
            let id = ensemble.add(flavour, duty);
            let mut servers: Vec<_> = ensemble.voters().into_iter().collect();
            servers.retain(|other| *other != id);
            let mut list: Vec<_> = servers
                .into_iter()
                .map(|id| (id, Duty::Participant))
                .collect();
            list.push((id, duty));
            ensemble.configure(id, &list);
            ensemble.start(id);
            ensemble.wait_until_all_serve();
            let line = ensemble.member(id).line(true);
            let change = Change {
                joining: vec![line.clone()],
                ..Change::default()
            };
            let text = ensemble.reconfigure(1, &change);
            assert!(text.contains(&line), "{text}");
            ensemble.wait_until_all_serve();
            load.wait_for_progress(PROGRESS);
        }
        // All members of both kinds have the same list.
        let first = ensemble.configuration(1).expect("a configuration");
        for id in ensemble.ids() {
            assert_eq!(
                ensemble.configuration(id).as_ref(),
                Some(&first),
                "member {id}"
            );
        }
        // The leader leaves together with the observer. Another leader is designated in its place.
        let leaving = vec![ensemble.wait_until_all_serve(), 5];
        let change = Change {
            leaving: leaving.clone(),
            ..Change::default()
        };
        let mut staying = ensemble.ids();
        staying.retain(|id| !leaving.contains(id));
        ensemble.reconfigure(staying[0], &change);
        ensemble.wait_until_these_serve(&staying);
        for id in leaving {
            ensemble.member_mut(id).terminate();
        }
        load.wait_for_progress(PROGRESS);
        let report = load.finish();
        println!("{leader:?} leads: {}", report.summary());
        check::nothing_is_lost(&ensemble, &report);
    });
}
