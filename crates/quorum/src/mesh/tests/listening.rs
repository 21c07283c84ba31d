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
