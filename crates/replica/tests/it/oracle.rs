//! One of two servers with an oracle.

use proto::Epoch;
use zoarium_replica::{DiskOrder, Effect, Input, Port};

use crate::support::{Server, config, create, request, zxid};

const SESSION: i64 = 77;

/// Creates server 2, which is alone and has elected itself by a grant of the oracle. It saves an
/// epoch and queries again.
fn alone() -> Server {
    let lines = "server.1=a:2888:3888\nserver.2=b:2888:3888\noraclePath=/oracle\n";
    let mut server = Server::member_of(&config(2, lines), 500);
    for _ in 0..100 {
        server.wait_until(server.now_ms + 50);
        loop {
            let effects = server.effects();
            let asks = effects
                .iter()
                .any(|effect| matches!(effect, Effect::QueryOracle));
            let is_elected = |effect: &Effect| {
                let port = Port::Learners;
                matches!(effect, Effect::Listen { port: at, .. } if *at == port)
            };
            if effects.iter().any(is_elected) {
                assert!(asks);
                return server;
            }
            if !asks {
                break;
            }
            grant(&mut server);
        }
    }
    panic!("it is not elected");
}

fn asked(server: &mut Server) -> usize {
    let effects = server.effects();
    let asks = effects
        .iter()
        .filter(|effect| matches!(effect, Effect::QueryOracle));
    asks.count()
}

fn grant(server: &mut Server) {
    server.handle(Input::Oracle { grants: true });
}

/// The process hung between question and answer. The oracle may have named the other server since.
#[test]
fn an_oracle_answer_older_than_a_tick_is_ignored() {
    let mut server = alone();
    server.handle(Input::AcceptedEpochSaved(Epoch(1)));
    assert_eq!(asked(&mut server), 1);
    server.now_ms += 1000;
    let saves = |effect: &Effect| matches!(effect, Effect::Disk(DiskOrder::SaveCurrentEpoch(_)));
    let asks = |effect: &Effect| matches!(effect, Effect::QueryOracle);
    // The grants of the election and of the next step.
    for _ in 0..2 {
        grant(&mut server);
        let effects = server.effects();
        assert!(!effects.iter().any(saves), "{effects:?}");
        assert!(effects.iter().any(asks), "{effects:?}");
    }
    grant(&mut server);
    assert!(server.effects().iter().any(saves));
}

/// Like Apache ZooKeeper, which reads the file at each of these moments.
#[test]
fn a_lone_leader_asks_the_oracle_before_each_step_and_write() {
    let mut server = alone();
    grant(&mut server);
    server.effects();
    server.handle(Input::AcceptedEpochSaved(Epoch(1)));
    assert_eq!(asked(&mut server), 1);
    grant(&mut server);
    server.handle(Input::CurrentEpochSaved(Epoch(1)));
    assert_eq!(asked(&mut server), 1);
    grant(&mut server);
    assert!(server.replica.is_ordering());
    assert_eq!(asked(&mut server), 0, "nothing waits for its word");

    server.handle(Input::Requests(vec![request(1, SESSION, 1, create("/a"))]));
    assert_eq!(asked(&mut server), 0, "its own disk comes first");
    server.handle(Input::Synced(zxid(1, 1)));
    assert_eq!(asked(&mut server), 1);
    assert!(server.book.applied.is_empty());
    grant(&mut server);
    assert_eq!(server.book.applied, [zxid(1, 1)]);

    // A refused decision is queried again half a tick later, not immediately.
    server.handle(Input::Requests(vec![request(1, SESSION, 2, create("/b"))]));
    server.handle(Input::Synced(zxid(1, 2)));
    assert_eq!(asked(&mut server), 1);
    server.handle(Input::Oracle { grants: false });
    assert_eq!(asked(&mut server), 0);
    server.wait_until(server.now_ms + 100);
    assert_eq!(asked(&mut server), 1);
    assert_eq!(server.book.applied, [zxid(1, 1)]);
}
