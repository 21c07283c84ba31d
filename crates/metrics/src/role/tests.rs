use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use config::members::MemberRole;
use config::{Config, Ensemble, RawConfig, Surroundings, SystemProperties};
use proto::{ConfigVersion, Sid};

use super::*;
use crate::counters::BufferSizes;
use crate::table::Metrics;

/// A machine with `myid` 2, on which every name resolves to the machine itself.
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

fn cell_of(ensemble: Option<&Ensemble>) -> RoleCell {
    RoleCell::new(ensemble, Arc::new(Metrics::with_shards(1)), 0)
}

fn serving(cell: &RoleCell, mode: Mode) {
    serving_at(0, cell, mode);
}

fn serving_at(now_ms: u64, cell: &RoleCell, mode: Mode) {
    cell.update(now_ms, |view| {
        view.mode = mode;
        view.is_serving = true;
        view.zab = ZabState::Broadcast;
    });
}

#[test]
fn a_server_without_ensemble_serves_alone() {
    let cell = cell_of(None);
    assert_eq!(cell.get().served_mode(), Some(Mode::Standalone));
    assert!(cell.get().expires_sessions());
}

#[test]
fn a_member_is_looking_until_its_role_is_set() {
    let cell = cell_of(Some(&ensemble()));
    assert_eq!(cell.get().mode, Mode::Looking);
    assert!(!cell.get().expires_sessions());
    let (since_ms, learners) = (0, Learners::default());
    cell.update(0, |view| view.mode = Mode::Leader { since_ms, learners });
    let served = cell.get().served_mode();
    assert_eq!(served, None, "not in broadcast yet, or leaderServes=no");
    serving(&cell, Mode::Looking);
    assert_eq!(cell.get().served_mode(), None, "about to stop");
}

#[test]
fn each_role_shows_its_figures() {
    let cell = cell_of(Some(&ensemble()));
    serving(&cell, Mode::ReadOnly);
    assert_eq!(cell.get().served_mode(), Some(Mode::ReadOnly));
    assert_eq!(cell.get().quorum_size(), None);
    assert_eq!(cell.get().peer_state(), None);

    let synced_observers = Some(1);
    serving(&cell, Mode::Follower { synced_observers });
    cell.update(0, |view| view.sync = Some(SyncMode::Diff));
    let role = cell.get();
    let state = role.peer_state();
    assert_eq!(state.as_deref(), Some("following - broadcast - diff"));
    assert_eq!(role.quorum_size(), Some(3));
    assert_eq!(role.mode.synced_observers(), Some(1));

    cell.update(0, |view| view.sync = None);
    serving(&cell, Mode::Observer { master: Sid(3) });
    let state = cell.get().peer_state();
    assert_eq!(state.as_deref(), Some("observing - broadcast"));
    assert_eq!(cell.get().mode.synced_observers(), None);
    assert_eq!(cell.leader_figures(125), None);
}

#[test]
fn a_leader_shows_its_learners_and_proposals() {
    let cell = cell_of(Some(&ensemble()));
    let learners = Learners {
        connected: 3,
        synced_followers: 2,
        synced_non_voting_followers: 0,
        synced_observers: 1,
    };
    let since_ms = 100;
    serving(&cell, Mode::Leader { since_ms, learners });
    assert_eq!(cell.get().mode.synced_observers(), Some(1));
    cell.begin_leading();
    cell.proposed(48);
    cell.proposed(94);
    cell.set_pending_syncs(7);
    let figures = LeaderFigures {
        learners,
        pending_syncs: 7,
        uptime_ms: 25,
        proposal_sizes: BufferSizes {
            last: 94,
            min: 48,
            max: 94,
        },
    };
    assert_eq!(cell.leader_figures(125), Some(figures));
    cell.begin_leading();
    let figures = cell.leader_figures(125).unwrap();
    assert_eq!(
        (figures.pending_syncs, figures.proposal_sizes),
        (0, BufferSizes::NONE)
    );
}

#[test]
fn the_time_without_service_is_measured() {
    let metrics = Arc::new(Metrics::with_shards(1));
    let cell = RoleCell::new(Some(&ensemble()), metrics.clone(), 0);
    let following = Mode::Follower {
        synced_observers: None,
    };
    cell.update(30, |view| {
        view.mode = following;
        view.zab = ZabState::Synchronization;
    });
    serving_at(70, &cell, following);
    serving_at(80, &cell, following);
    // Returns the number of searches for a leader, and the count and sum of four durations. These
    // are the time until the server serves, the time until it serves as the leader, and the
    // synchronisation times as a follower and as an observer.
    let figures = |metrics: &Metrics| {
        let measured = [
            &metrics.unavailable_time,
            &metrics.leader_unavailable_time,
            &metrics.follower_sync_time,
            &metrics.observer_sync_time,
        ];
        let figures = measured.map(|metric| (metric.get().count, metric.get().sum));
        (metrics.looking_count.get(), figures)
    };
    assert_eq!(figures(&metrics), (1, [(1, 70), (0, 0), (1, 40), (0, 0)]));
    for (now_ms, mode) in [(100, Mode::Looking), (200, Mode::ReadOnly)] {
        cell.update(now_ms, |view| {
            view.mode = mode;
            view.zab = ZabState::Election;
        });
    }
    let learners = Learners::default();
    let since_ms = 0;
    serving_at(350, &cell, Mode::Leader { since_ms, learners });
    assert_eq!(
        figures(&metrics),
        (2, [(2, 320), (1, 250), (1, 40), (0, 0)])
    );
    let standing_alone = Arc::new(Metrics::with_shards(1));
    RoleCell::new(None, standing_alone.clone(), 0);
    assert_eq!(figures(&standing_alone), (0, [(0, 0); 4]));
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
    serving(&cell, Mode::Observer { master: Sid(1) });
    let conf = cell.get().configuration(&ensemble);
    assert!(conf.observer && conf.membership.ends_with("\nversion=100000005"));
    assert_eq!(conf.quorum_ports, [22]);
    assert_eq!(cell.get().quorum_size(), Some(2));

    cell.update(0, |view| view.members = Some(Arc::new(without_me)));
    let conf = cell.get().configuration(&ensemble);
    assert_eq!(
        (conf.election_ports, conf.quorum_ports),
        (vec![12], vec![2])
    );
}
