//! The example ensembles of `conf/`. They start as written, except for ports and directories, and
//! lose nothing when any one server is killed.

use tests::ensemble::{Ensemble, EnsembleBuilder, Load, Role, check};
use tests::{Flavour, Port, or_skip, workspace_root};

/// Writes of each writer that prove progress.
const PROGRESS: u64 = 30;

/// Prepares members with the zoo.cfg and myid of an example. The ports are reserved while the
/// result lives.
fn example(name: &str, voters: usize, observers: usize) -> Option<(Ensemble, Vec<Port>)> {
    let flavour = Flavour::under_test();
    let builder = EnsembleBuilder::new(&vec![flavour; voters]);
    let prepared = builder.observers(&vec![flavour; observers]).prepare();
    let mut ensemble = or_skip("the example ensembles", prepared)?;
    let mut admin_ports = Vec::new();
    for id in ensemble.ids() {
        let dir = workspace_root()
            .join("conf")
            .join(name)
            .join(id.to_string());
        let read = |file: &str| {
            std::fs::read_to_string(dir.join(file))
                .unwrap_or_else(|error| panic!("{file}: {error}"))
        };
        assert_eq!(read("myid").trim(), id.to_string());
        let mut text = read("zoo.cfg");
        let admin = Port::take();
        let mut replace = |from: String, to: String| {
            assert!(text.contains(&from), "{name}/{id}/zoo.cfg lacks {from}");
            text = text.replace(&from, &to);
        };
        let member = ensemble.member(id);
        let data_dir = member.data_dir().display().to_string();
        replace(
            format!("dataDir=./conf/{name}/{id}\n"),
            format!("dataDir={data_dir}\n"),
        );
        let port = member.client_address().port();
        replace(
            format!("clientPort=218{id}\n"),
            format!("clientPort={port}\n"),
        );
        let admin_port = admin.number();
        replace(
            format!("serverPort=808{id}\n"),
            format!("serverPort={admin_port}\n"),
        );
        for other in ensemble.ids() {
            let member = ensemble.member(other);
            let line = member.line(false);
            let duty = line.rsplit(':').next().unwrap_or_default();
            let written = format!("server.{other}=127.0.0.1:2888{other}:3888{other}:{duty}\n");
            replace(written, format!("{line}\n"));
        }
        std::fs::write(member.config_file(), text).expect("write zoo.cfg");
        admin_ports.push(admin);
    }
    for id in ensemble.ids() {
        ensemble.start(id);
    }
    ensemble.wait_until_all_serve();
    Some((ensemble, admin_ports))
}

/// Kills every server in turn.
fn survives_each(name: &str, voters: usize, observers: usize) {
    let Some((mut ensemble, _ports)) = example(name, voters, observers) else {
        return;
    };
    assert_eq!(ensemble.in_role(Role::Observer).len(), observers);
    let load = Load::start(&ensemble.addresses(&ensemble.ids()));
    load.wait_for_progress(PROGRESS);
    for id in ensemble.ids() {
        ensemble.member_mut(id).kill();
        ensemble.wait_until_all_serve();
        load.wait_for_progress(PROGRESS);
        ensemble.start(id);
        ensemble.wait_until_all_serve();
    }
    let report = load.finish();
    println!("{name}: {}", report.summary());
    assert_eq!(report.sessions_lost(), 0);
    check::nothing_is_lost(&ensemble, &report);
}

#[test]
fn three_servers_survive_the_loss_of_any_one() {
    survives_each("three-servers", 3, 0);
}

#[test]
fn three_servers_with_two_observers_survive_the_loss_of_any_one() {
    survives_each("five-servers-two-observers", 3, 2);
}
