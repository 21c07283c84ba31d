use std::io;
use std::net::IpAddr;
use std::path::Path;

use config::{Config, RawConfig, Surroundings, SystemProperties};
use proto::ConfigVersion;

use super::*;
use crate::metrics::BufferSizes;

/// A machine on which `myid` is 2 and every name is this machine.
struct SecondOfThree;

impl Surroundings for SecondOfThree {
    fn read(&mut self, path: &Path, _limit: usize) -> io::Result<Vec<u8>> {
        match path.file_name() {
            Some(name) if name == "myid" => Ok(b"2".to_vec()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn resolve(&mut self, _host: &str) -> io::Result<IpAddr> {
        Ok(IpAddr::from([127, 0, 0, 1]))
    }
}

fn ensemble() -> Ensemble {
    let text = "dataDir=/data\ninitLimit=10\nsyncLimit=5\n\
                server.1=h:1:11;2181\nserver.2=h:2:12;2182\nserver.3=h:3:13;2183\n\
                server.4=h:4:14:observer;2184\n";
    let raw = RawConfig::parse("zoo.cfg".as_ref(), text.as_bytes()).unwrap();
    let config = Config::parse(raw, SystemProperties::new(), &mut SecondOfThree).unwrap();
    config.ensemble.unwrap()
}

fn member(sync: Option<SyncMode>) -> Member {
    Member {
        quorum_size: 3,
        zab: ZabState::Broadcast,
        sync,
    }
}

fn cell_of(ensemble: Option<&Ensemble>) -> RoleCell {
    RoleCell::new(ensemble, Arc::new(Metrics::with_shards(1)), 0)
}

fn serving(cell: &RoleCell, role: RoleNow) {
    serving_at(0, cell, role);
}

fn serving_at(now_ms: u64, cell: &RoleCell, role: RoleNow) {
    cell.update(now_ms, |view| {
        view.role = role;
        view.is_serving = true;
        view.zab = ZabState::Broadcast;
    });
}

#[test]
fn a_server_without_ensemble_serves_alone() {
    let cell = cell_of(None);
    assert_eq!(cell.mode(0), Some(Mode::Standalone));
    assert!(cell.get().expires_sessions());
}

#[test]
fn a_member_looks_until_it_is_told_otherwise() {
    let cell = cell_of(Some(&ensemble()));
    assert_eq!(cell.mode(0), None);
    assert!(!cell.get().expires_sessions());
    cell.update(0, |view| {
        view.role = RoleNow::Leading {
            since_ms: 0,
            learners: Learners::default(),
        }
    });
    assert_eq!(
        cell.mode(0),
        None,
        "not in broadcast yet, or leaderServes=no"
    );
}

#[test]
fn each_role_shows_what_it_knows() {
    let cell = cell_of(Some(&ensemble()));
    serving(&cell, RoleNow::ReadOnly);
    assert_eq!(cell.mode(0), Some(Mode::ReadOnly));

    let synced_observers = Some(1);
    serving(&cell, RoleNow::Following { synced_observers });
    cell.update(0, |view| view.sync = Some(SyncMode::Diff));
    let mode = cell.mode(0).unwrap();
    assert_eq!(
        mode.peer_state().unwrap().to_string(),
        "following - broadcast - diff"
    );
    let member_of_diff = member(Some(SyncMode::Diff));
    assert_eq!(
        mode,
        Mode::Follower {
            member: member_of_diff,
            synced_observers
        }
    );

    cell.update(0, |view| view.sync = None);
    serving(&cell, RoleNow::Observing { master: Sid(3) });
    let (member, master) = (member(None), Sid(3));
    assert_eq!(cell.mode(0), Some(Mode::Observer { member, master }));

    let learners = Learners {
        connected: 3,
        synced_followers: 2,
        synced_non_voting_followers: 0,
        synced_observers: 1,
    };
    serving(
        &cell,
        RoleNow::Leading {
            since_ms: 100,
            learners,
        },
    );
    cell.begin_leading();
    cell.proposed(48);
    cell.proposed(94);
    cell.set_pending_syncs(7);
    let proposal_sizes = BufferSizes {
        last: 94,
        min: 48,
        max: 94,
    };
    let leading = Leading {
        learners: 3,
        synced_followers: 2,
        synced_non_voting_followers: 0,
        synced_observers: 1,
        pending_syncs: 7,
        uptime_ms: 25,
        proposal_sizes,
    };
    assert_eq!(cell.mode(125), Some(Mode::Leader { member, leading }));
    cell.begin_leading();
    let leading = cell.mode(125).unwrap().leading().copied().unwrap();
    assert_eq!(
        (leading.pending_syncs, leading.proposal_sizes.last),
        (0, -1)
    );
}

#[test]
fn the_time_without_service_is_measured() {
    let cell = cell_of(Some(&ensemble()));
    let following = RoleNow::Following {
        synced_observers: None,
    };
    cell.update(30, |view| {
        view.role = following;
        view.zab = ZabState::Synchronization;
    });
    serving_at(70, &cell, following);
    serving_at(80, &cell, following);
    // How often this server looked for a leader; how often and how long nobody was served, a
    // leader was not in office, and a follower or an observer was brought up to date.
    let figures = |cell: &RoleCell| {
        let metrics = &cell.metrics;
        let measured = [
            &metrics.unavailable_time,
            &metrics.leader_unavailable_time,
            &metrics.follower_sync_time,
            &metrics.observer_sync_time,
        ];
        let figures = measured.map(|metric| (metric.get().count, metric.get().sum));
        (metrics.looking_count.get(), figures)
    };
    assert_eq!(figures(&cell), (1, [(1, 70), (0, 0), (1, 40), (0, 0)]));
    for (now_ms, role) in [(100, RoleNow::Looking), (200, RoleNow::ReadOnly)] {
        cell.update(now_ms, |view| {
            view.role = role;
            view.zab = ZabState::Election;
        });
    }
    let learners = Learners::default();
    let since_ms = 0;
    serving_at(350, &cell, RoleNow::Leading { since_ms, learners });
    assert_eq!(figures(&cell), (2, [(2, 320), (1, 250), (1, 40), (0, 0)]));
    assert_eq!(figures(&cell_of(None)), (0, [(0, 0); 4]));
}

#[test]
fn conf_follows_the_member_list_in_force() {
    let ensemble = ensemble();
    let cell = cell_of(Some(&ensemble));
    let conf = cell.get().configuration(&ensemble);
    assert_eq!(
        (conf.init_limit, conf.sync_limit, conf.election_alg),
        (10, 5, 3)
    );
    assert_eq!(
        (&conf.election_ports[..], &conf.quorum_ports[..]),
        (&[12][..], &[2][..])
    );
    assert!(!conf.observer);
    let first = "server.1=h:1:11:participant;0.0.0.0:2181\n";
    assert!(conf.membership.starts_with(first), "{}", conf.membership);
    assert!(
        conf.membership.ends_with("\nversion=0"),
        "{}",
        conf.membership
    );

    let mut list = ensemble.membership.clone();
    list.version = ConfigVersion(0x1_0000_0005);
    let me = list.members.get_mut(&Sid(2)).unwrap();
    me.role = MemberRole::Observer;
    me.addresses[0].quorum_port = 22;
    let without_me = {
        let mut list = list.clone();
        list.members.remove(&Sid(2));
        list
    };
    cell.update(0, |view| view.members = Some(Arc::new(list)));
    serving(&cell, RoleNow::Observing { master: Sid(1) });
    let conf = cell.get().configuration(&ensemble);
    assert!(conf.observer && conf.membership.ends_with("\nversion=100000005"));
    assert_eq!(conf.quorum_ports, [22]);
    assert_eq!(cell.mode(0).unwrap().member().unwrap().quorum_size, 2);

    cell.update(0, |view| view.members = Some(Arc::new(without_me)));
    let conf = cell.get().configuration(&ensemble);
    assert_eq!(
        (conf.election_ports, conf.quorum_ports),
        (vec![12], vec![2])
    );
}
