//! Ensembles inside this process, and operations on them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use client::{Client, Create, Options, State};
use zoarium::ServerError;
use zoarium::testing::{SessionId, TestEnsemble, TestServer};

use crate::embedded::embedding::{Alone, run};

async fn client_of(connect_string: &str) -> Client {
    let options = Options::new(connect_string).with_session_timeout(Duration::from_secs(10));
    Client::connect(options).await.unwrap()
}

/// Retries the create until the znode exists, because the connection may be lost after the create.
async fn create(client: &Client, path: &str) {
    while client.exists(path).await.ok().flatten().is_none() {
        let _ = client.create(path, "data", &Create::persistent()).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn an_ensemble_serves_within_a_second() {
    let alone = Alone::begin();
    // The best of several runs, because other tests run concurrently.
    let best = (0..5).map(|_| {
        run(async {
            let began = Instant::now();
            let ensemble = TestEnsemble::start(3).await.unwrap();
            let took = began.elapsed();
            ensemble.stop().await.unwrap();
            took
        })
    });
    let best = best.min().unwrap();
    println!("an ensemble of three served after {best:?}");
    assert!(best < Duration::from_secs(1), "{best:?}");
    alone.end();
}

#[test]
fn an_ensemble_continues_without_its_leader() {
    let alone = Alone::begin();
    run(async {
        let ensemble = TestEnsemble::builder().members(3).observers(1);
        let mut ensemble = ensemble.start().await.unwrap();
        let client = client_of(&ensemble.connect_string()).await;
        create(&client, "/before").await;
        let leader = ensemble.leader().unwrap();
        ensemble.kill(leader).await.unwrap();
        assert!(!ensemble.is_serving(leader));
        ensemble.wait_until_serving().await.unwrap();
        assert_ne!(ensemble.leader(), Some(leader));
        assert!(ensemble.is_serving(4), "the observer");
        create(&client, "/between").await;
        ensemble.restart(leader).await.unwrap();
        ensemble.wait_until_serving().await.unwrap();
        let back = client_of(&ensemble.connect_string_of(leader).unwrap()).await;
        back.sync("/").await.unwrap();
        for path in ["/before", "/between"] {
            assert!(back.exists(path).await.unwrap().is_some(), "{path}");
        }
        // Two of three participants have ended, which is reported immediately.
        let others: Vec<u32> = (1..=3).filter(|id| *id != leader).collect();
        for id in others {
            ensemble.kill(id).await.unwrap();
        }
        let error = ensemble.wait_until_serving().await.unwrap_err();
        assert!(matches!(error, ServerError::NotServing(_)), "{error}");
        assert!(ensemble.kill(9).await.is_err());
    });
    alone.end();
}

#[test]
fn a_disconnected_leader_steps_down() {
    let alone = Alone::begin();
    run(async {
        let mut ensemble = TestEnsemble::start(3).await.unwrap();
        let old = ensemble.leader().unwrap();
        let lonely = client_of(&ensemble.connect_string_of(old).unwrap()).await;
        create(&lonely, "/before").await;
        ensemble.partition(&[old]);
        ensemble.wait_until_serving().await.unwrap();
        assert_ne!(ensemble.leader(), Some(old));
        // The old leader notices that it has no followers.
        while ensemble.is_serving(old) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let client = client_of(&ensemble.connect_string()).await;
        create(&client, "/between").await;
        ensemble.heal();
        ensemble.wait_until_serving().await.unwrap();
        let back = client_of(&ensemble.connect_string_of(old).unwrap()).await;
        back.sync("/").await.unwrap();
        assert!(back.exists("/between").await.unwrap().is_some());
    });
    alone.end();
}

#[test]
fn acknowledged_writes_survive_a_kill() {
    let alone = Alone::begin();
    run(async {
        let mut server = TestServer::start().await.unwrap();
        let client = client_of(server.connect_string()).await;
        let persistent = Create::persistent();
        let made = client.create("/acknowledged", "data", &persistent);
        made.await.unwrap();
        server.slow(Duration::from_secs(1));
        let began = Instant::now();
        let slow = client.create("/slow", "data", &persistent);
        slow.await.unwrap();
        assert!(began.elapsed() >= Duration::from_secs(1));
        server.kill().await;
        assert!(std::net::TcpStream::connect(server.connect_string()).is_err());
        server.restart().await.unwrap();
        for path in ["/acknowledged", "/slow"] {
            assert!(client.exists(path).await.unwrap().is_some(), "{path}");
        }
        server.stop().await.unwrap();
    });
    alone.end();
}

/// Number of sessions that are ended one after the other.
const SESSIONS: usize = 30;

#[test]
fn a_session_can_be_ended() {
    let alone = Alone::begin();
    run(async {
        let ensemble = TestEnsemble::start(3).await.unwrap();
        let other = client_of(&ensemble.connect_string()).await;
        // A client that reconnects immediately may do so before its session is closed.
        for _ in 0..SESSIONS {
            let client = client_of(&ensemble.connect_string()).await;
            let ephemeral = Create::ephemeral();
            let made = client.create("/mine", "data", &ephemeral);
            made.await.unwrap();
            ensemble.expire(client.session_id()).await.unwrap();
            other.sync("/").await.unwrap();
            assert!(other.exists("/mine").await.unwrap().is_none());
            let mut state = client.state();
            let expired = state.wait_for(|state| matches!(state, State::Expired));
            expired.await.unwrap();
        }
        let unknown = ensemble.expire(SessionId(1)).await.unwrap_err();
        assert!(unknown.to_string().contains("session"), "{unknown}");
    });
    alone.end();
}

#[test]
fn a_panicking_test_leaves_no_files() {
    let alone = Alone::begin();
    let mut addresses = Vec::new();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        run(async {
            let ensemble = TestEnsemble::start(3).await.unwrap();
            let each = ensemble.connect_string();
            addresses.extend(each.split(',').map(str::to_owned));
            panic!("as a test does");
        })
    }));
    assert!(panicked.is_err() && addresses.len() == 3);
    for address in addresses {
        assert!(std::net::TcpStream::connect(&address).is_err(), "{address}");
    }
    alone.end();
}
