//! The rolling migration of docs/MIGRATION.md. Three Java servers are replaced by Zoarium one at a
//! time, and then by Java again, during writes and with sessions that hold ephemerals and watches.

use std::time::Duration;

use tests::ensemble::{Ensemble, EnsembleBuilder, Holders, Load, LoadReport, check};
use tests::{Flavour, or_skip, wait_for, workspace_root};

use crate::mixed::{PROGRESS, ours};

const LIMIT: Duration = Duration::from_secs(60);

/// The steps for one server in the guide. The test executes each of them.
const STEPS: [&str; 4] = [
    "### 1. Check that all servers serve",
    "### 2. Stop the server",
    "### 3. Start Zoarium with the same zoo.cfg",
    "### 4. Wait until it follows and has caught up",
];

#[test]
fn the_guide_has_these_steps() {
    let guide = std::fs::read_to_string(workspace_root().join("docs/MIGRATION.md"));
    let guide = guide.expect("the guide");
    for step in STEPS {
        assert!(guide.contains(step), "the guide lacks {step:?}");
    }
}

/// Executes steps 1 to 4 for one server.
fn migrate(ensemble: &mut Ensemble, id: u64, to: Flavour) {
    let others = ensemble.ids().len() - 1;
    let leader = wait_for("whole ensemble", LIMIT, || {
        let leader = ensemble.wait_until_all_serve();
        let synced = ensemble.member(leader).metric("synced_followers")?;
        (synced.parse() == Ok(others)).then_some(leader)
    });
    let target = ensemble.member(leader).zxid().expect("the leader's zxid");
    ensemble.member_mut(id).terminate();
    ensemble.replace(id, to);
    ensemble.start(id);
    ensemble.wait_until_all_serve();
    wait_for("server that has caught up", LIMIT, || {
        let zxid = ensemble.member(id).zxid()?;
        (zxid >= target).then_some(())
    });
}

/// Migrates every server, the leader last.
fn migrate_all(ensemble: &mut Ensemble, to: Flavour, holders: &mut Holders, load: &Load) {
    let leader = ensemble.wait_until_all_serve();
    let mut order = ensemble.ids();
    order.retain(|id| *id != leader);
    order.push(leader);
    for id in order {
        migrate(ensemble, id, to);
        load.wait_for_progress(PROGRESS);
        holders.check();
    }
}

fn there_and_back() -> Option<(Ensemble, LoadReport)> {
    let builder =
        EnsembleBuilder::new(&[Flavour::Apache; 3]).property("zookeeper.snapCount", "500");
    // The replacement must be available now.
    or_skip(
        "the rolling migration",
        EnsembleBuilder::new(&[ours()]).prepare(),
    )?;
    let mut ensemble = or_skip("the rolling migration", builder.start())?;
    let addresses = ensemble.addresses(&ensemble.ids());
    let load = Load::start(&addresses);
    let mut holders = Holders::open(&addresses, Duration::from_secs(30));
    load.wait_for_progress(PROGRESS);
    for to in [ours(), Flavour::Apache] {
        migrate_all(&mut ensemble, to, &mut holders, &load);
        let flavours = ensemble.ids().into_iter();
        let mut flavours = flavours.map(|id| ensemble.member(id).flavour());
        assert!(flavours.all(|flavour| flavour == to));
    }
    holders.close();
    Some((ensemble, load.finish()))
}

#[test]
#[ignore = "runs other people's programs"]
fn three_servers_go_to_zoarium_and_back_under_load() {
    let Some((ensemble, report)) = there_and_back() else {
        return;
    };
    println!("rolling migration: {}", report.summary());
    assert_eq!(report.sessions_lost(), 0);
    check::nothing_is_lost(&ensemble, &report);
}
