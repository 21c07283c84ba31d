//! Tests of the addresses on which a mesh listens.

use tokio::net::TcpListener;

use super::*;
use config::members::MemberRole;
use proto::notification::PeerState::Looking;

#[tokio::test]
async fn a_port_that_stays_in_use_ends_the_server() {
    let ensemble = TestEnsemble::new([1, 2]);
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, ensemble.port(1))).await;
    let settings = VoterSettings {
        bind_attempts: Some(2),
        ..settings(1)
    };
    let mut peer = Peer::with(settings, &ensemble.list(&[1, 2], &[], 0), zxid(0));
    match peer.event().await {
        VoterEvent::Failed { error } => {
            let text = error.to_string();
            let place = format!(
                "elections on 127.0.0.1:{} after 2 attempts",
                ensemble.port(1)
            );
            assert!(text.contains(&place), "{text}");
        }
        other => panic!("{other:?}"),
    }
    drop(taken);
}

#[tokio::test]
async fn an_unknown_host_ends_the_server() {
    let list = "server.1=host.invalid:1:2\nserver.2=127.0.0.1:1:2\nversion=0";
    let list = Membership::parse(list, false).unwrap();
    let settings = VoterSettings {
        bind_attempts: Some(1),
        ..settings(1)
    };
    let mut peer = Peer::with(settings, &list, zxid(0));
    let event = peer.event().await;
    assert!(matches!(event, VoterEvent::Failed { .. }), "{event:?}");
}

#[tokio::test]
async fn a_port_that_becomes_free_is_bound() {
    let ensemble = TestEnsemble::new([1, 2]);
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, ensemble.port(1))).await;
    let (log, _guard) = Log::capture();
    let settings = VoterSettings {
        bind_attempts: None,
        ..settings(1)
    };
    let _peer = Peer::with(settings, &ensemble.list(&[1, 2], &[], 0), zxid(0));
    log.wait("cannot listen for elections, retrying").await;
    drop(taken);
    log.wait("listening for elections").await;
    Script::greet(ensemble.port(1), 2)
        .await
        .received_notification()
        .await;
}

#[tokio::test]
async fn a_new_address_is_listened_on_in_place_of_the_old_one() {
    let ensemble = TestEnsemble::new([1, 2]);
    let moved = TestEnsemble {
        election_ports: BTreeMap::from([(1, free_port()), (2, ensemble.port(2))]),
    };
    let peer = Peer::start(1, &ensemble.list(&[1, 2], &[], 0), zxid(0));
    let mut script = Script::greet(ensemble.port(1), 2).await;
    script.received_notification().await;
    let list = moved.list(&[1, 2], &[], 5);
    peer.voter
        .configure(list.clone(), None, MemberRole::Participant);
    let mut other = Script::greet(moved.port(1), 2).await;
    let heard = other.received_notification().await;
    assert_eq!(heard.config().unwrap(), list.node_data().as_bytes());
    TcpListener::bind((Ipv4Addr::LOCALHOST, ensemble.port(1)))
        .await
        .unwrap();
    // The newer connection of the server has replaced the older one.
    script.wait_for_close().await;
}

/// Waits until the server at this port announces this list. It may close earlier connections.
async fn announces(port: u16, list: &Membership) {
    let announced = async {
        loop {
            let mut script = Script::greet(port, 2).await;
            if script.stream.readable().await.is_err()
                || script.stream.peek(&mut [0]).await.ok() != Some(1)
            {
                continue;
            }
            let heard = script.received_notification().await;
            if heard.config().unwrap() == list.node_data().as_bytes() {
                return;
            }
        }
    };
    timeout(PATIENCE, announced).await.expect("the new list");
}

/// The first attempt to bind must succeed, although the old socket has the same address.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kept_address_is_free_when_it_is_bound_again() {
    let ensemble = TestEnsemble::new([1, 2]);
    let settings = VoterSettings {
        listen_on_all_ips: true,
        bind_attempts: Some(1),
        ..settings(1)
    };
    let list = ensemble.list(&[1, 2], &[], 0);
    let mut peer = Peer::with(settings, &list, zxid(0));
    announces(ensemble.port(1), &list).await;
    for version in 1..4 {
        let list = ensemble.list(&[1, 2], &[], version).node_data();
        let own = format!("server.1=127.0.0.{version}:");
        let list = list.replace("server.1=127.0.0.1:", &own);
        let list = Membership::parse(&list, false).unwrap();
        let role = MemberRole::Participant;
        peer.voter.configure(list.clone(), None, role);
        announces(ensemble.port(1), &list).await;
    }
    while let Ok(event) = peer.events.try_recv() {
        let has_failed = matches!(event, VoterEvent::Failed { .. });
        assert!(!has_failed, "{event:?}");
    }
}

#[tokio::test]
async fn a_list_without_this_server_keeps_its_listeners() {
    let ensemble = TestEnsemble::new([1, 2, 3]);
    let peer = Peer::start(1, &ensemble.list(&[1, 2], &[], 0), zxid(0));
    peer.voter.configure(
        ensemble.list(&[2, 3], &[], 5),
        None,
        MemberRole::Participant,
    );
    let mut script = Script::greet(ensemble.port(1), 2).await;
    assert_eq!(script.received_notification().await.state, Looking);
}

#[tokio::test]
async fn on_all_addresses_if_configured() {
    let ensemble = TestEnsemble::new([1, 2]);
    let settings = VoterSettings {
        listen_on_all_ips: true,
        ..settings(1)
    };
    let _peer = Peer::with(settings, &ensemble.list(&[1, 2], &[], 0), zxid(0));
    Script::greet(ensemble.port(1), 2)
        .await
        .received_notification()
        .await;
    let taken = TcpListener::bind(("127.0.0.2", ensemble.port(1))).await;
    assert!(taken.is_err());
}

#[tokio::test]
async fn after_stop_the_port_is_free_and_connections_are_closed() {
    let ensemble = TestEnsemble::new([1, 2]);
    let peer = Peer::start(1, &ensemble.list(&[1, 2], &[], 0), zxid(0));
    let mut script = Script::greet(ensemble.port(1), 2).await;
    script.received_notification().await;
    peer.voter.stop().await;
    TcpListener::bind((Ipv4Addr::LOCALHOST, ensemble.port(1)))
        .await
        .unwrap();
    script.wait_for_close().await;
}
