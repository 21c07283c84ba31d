//! Tests of election results and of joining servers.

use proto::notification::Form;

use super::*;
use config::members::MemberRole;
use proto::notification::PeerState::{Following, Leading, Looking, Observing};

fn ensemble(list: &Membership, candidates: &[(i64, Candidate)]) -> BTreeMap<i64, Peer> {
    let start = |(me, candidate): &(i64, Candidate)| (*me, Peer::start(*me, list, *candidate));
    candidates.iter().map(start).collect()
}

async fn outcomes(peers: &mut BTreeMap<i64, Peer>) -> Vec<(PeerState, i64)> {
    let mut all = Vec::new();
    for peer in peers.values_mut() {
        all.push(peer.elected().await);
    }
    all
}

#[tokio::test]
async fn among_equal_logs_the_greatest_sid_is_elected() {
    let list = TestEnsemble::new(1..=3).list(&[1, 2, 3], &[], 0);
    let mut peers = ensemble(&list, &[(1, zxid(0)), (2, zxid(0)), (3, zxid(0))]);
    let expected = [(Following, 3), (Following, 3), (Leading, 3)];
    assert_eq!(outcomes(&mut peers).await, expected);
}

#[tokio::test]
async fn the_newest_log_is_elected() {
    let list = TestEnsemble::new(1..=3).list(&[1, 2, 3], &[], 0);
    let mut peers = ensemble(&list, &[(1, zxid(10)), (2, zxid(9)), (3, zxid(8))]);
    let expected = [(Leading, 1), (Following, 1), (Following, 1)];
    assert_eq!(outcomes(&mut peers).await, expected);
    let newer_epoch = Candidate {
        zxid: Some(Zxid(0)),
        peer_epoch: Epoch(1),
    };
    let list = TestEnsemble::new(1..=3).list(&[1, 2, 3], &[], 0);
    let mut peers = ensemble(&list, &[(1, zxid(10)), (2, newer_epoch), (3, zxid(8))]);
    let expected = [(Following, 2), (Leading, 2), (Following, 2)];
    assert_eq!(outcomes(&mut peers).await, expected);
}

#[tokio::test]
async fn a_returning_server_joins_the_leader() {
    let list = TestEnsemble::new(1..=3).list(&[1, 2, 3], &[], 0);
    let mut peers = ensemble(&list, &[(1, zxid(0)), (2, zxid(0)), (3, zxid(0))]);
    outcomes(&mut peers).await;
    for peer in peers.values() {
        peer.voter.epoch_active(Epoch(1));
    }
    // The server's zxid is newer than the leader's, but it joins nevertheless.
    for sid in [1, 2] {
        peers.remove(&sid).unwrap().voter.stop().await;
        let mut back = Peer::start(sid, &list, zxid(99));
        let (state, vote, _) = back.outcome().await;
        assert_eq!(
            (state, vote.leader, vote.peer_epoch),
            (Following, Sid(3), Epoch(1))
        );
        back.voter.epoch_active(Epoch(1));
        peers.insert(sid, back);
    }
    assert!(peers.get_mut(&3).unwrap().is_settled());
}

#[tokio::test]
async fn after_the_leader_stops_the_others_elect_another() {
    let list = TestEnsemble::new(1..=3).list(&[1, 2, 3], &[], 0);
    let mut peers = ensemble(&list, &[(1, zxid(5)), (2, zxid(4)), (3, zxid(9))]);
    let expected = [(Following, 3), (Following, 3), (Leading, 3)];
    assert_eq!(outcomes(&mut peers).await, expected);
    // The leader ends without a message, as when its process is killed.
    drop(peers.remove(&3));
    peers[&1].voter.start_election(zxid(5));
    peers[&2].voter.start_election(zxid(4));
    assert_eq!(outcomes(&mut peers).await, [(Leading, 1), (Following, 1)]);
    let mut back = Peer::start(3, &list, zxid(9));
    assert_eq!(back.elected().await, (Following, 1));
}

#[tokio::test]
async fn observers_learn_the_leader() {
    let list = TestEnsemble::new(1..=5).list(&[1, 2, 3], &[4, 5], 0);
    let candidates: Vec<_> = (1..=5).map(|sid| (sid, zxid(sid))).collect();
    let mut peers = ensemble(&list, &candidates);
    let expected = [
        (Following, 3),
        (Following, 3),
        (Leading, 3),
        (Observing, 3),
        (Observing, 3),
    ];
    assert_eq!(outcomes(&mut peers).await, expected);
    // An observer with a small sid can only connect in order to be called back.
    let list = TestEnsemble::new(1..=3).list(&[2, 3], &[1], 0);
    let mut peers = ensemble(&list, &[(1, zxid(0)), (2, zxid(0)), (3, zxid(0))]);
    let expected = [(Observing, 3), (Following, 3), (Leading, 3)];
    assert_eq!(outcomes(&mut peers).await, expected);
}

#[tokio::test]
async fn a_supporter_that_looks_again_is_reported_to_its_leader() {
    let list = TestEnsemble::new(1..=2).list(&[1, 2], &[], 0);
    let mut peers = ensemble(&list, &[(1, zxid(0)), (2, zxid(0))]);
    assert_eq!(outcomes(&mut peers).await, [(Following, 2), (Leading, 2)]);
    peers[&1].voter.start_election(zxid(0));
    let event = peers.get_mut(&2).unwrap().event().await;
    assert!(
        matches!(event, VoterEvent::SupporterLooks { sid: Sid(1) }),
        "{event:?}"
    );
}

#[tokio::test]
async fn the_oracle_lets_one_of_two_servers_lead() {
    let dir = tempfile::tempdir().unwrap();
    let oracle = dir.path().join("oracle");
    std::fs::write(&oracle, "0").unwrap();
    let list = TestEnsemble::new(1..=2).list(&[1, 2], &[], 0);
    let settings = VoterSettings {
        oracle_path: Some(oracle.clone()),
        ..settings(1)
    };
    let mut alone = Peer::with(settings, &list, zxid(0));
    let early = timeout(Duration::from_millis(700), alone.events.recv()).await;
    assert!(early.is_err(), "{early:?}");
    std::fs::write(&oracle, "1").unwrap();
    assert_eq!(alone.elected().await, (Leading, 1));
}

/// In Java, a reconfiguration names the leader without an election.
#[tokio::test]
async fn an_appointed_leader_answers_as_such() {
    let servers = TestEnsemble::new([1]);
    let list = Membership::parse(
        &format!(
            "{}server.9=127.0.0.1:1:2:participant\nversion=0",
            servers.line(1, "participant")
        ),
        false,
    );
    let list = list.unwrap();
    let peer = Peer::start(1, &list, zxid(0));
    let vote = Vote {
        leader: Sid(1),
        zxid: Zxid(7),
        peer_epoch: Epoch(3),
    };
    peer.voter.appoint(Leading, vote);
    let mut script = Script::greet(servers.port(1), 9).await;
    let question = Notification {
        state: Looking,
        leader: Sid(9),
        zxid: Zxid(0),
        round: ElectionRound(1),
        peer_epoch: Epoch(0),
        form: Form::WithoutEpoch,
    };
    script.send_notification(&question).await;
    let answer = loop {
        let answer = script.received_notification().await;
        if answer.state != Looking {
            break answer;
        }
    };
    assert_eq!(
        (answer.state, answer.leader, answer.zxid),
        (Leading, Sid(1), Zxid(7))
    );
}

#[tokio::test]
async fn a_newer_list_is_taken_over_while_looking() {
    let servers = TestEnsemble::new(1..=4);
    let (older, newer) = (
        servers.list(&[1, 2], &[], 1),
        servers.list(&[2, 3, 4], &[1], 5),
    );
    let reconfigurable = |me| {
        let mut settings = settings(me);
        settings.election.reconfig_enabled = true;
        settings
    };
    let mut peers = BTreeMap::new();
    for me in [2, 3, 4] {
        peers.insert(me, Peer::with(reconfigurable(me), &newer, zxid(me)));
    }
    let expected = [(Following, 4), (Following, 4), (Leading, 4)];
    assert_eq!(outcomes(&mut peers).await, expected);
    // The late server considers itself one of two voters, and learns that it is an observer.
    let mut late = Peer::with(reconfigurable(1), &older, zxid(0));
    match late.event().await {
        VoterEvent::ListSeen {
            list: membership, ..
        } => assert_eq!(membership, newer),
        other => panic!("{other:?}"),
    }
    late.voter
        .configure(newer.clone(), None, MemberRole::Observer);
    assert_eq!(late.elected().await, (Observing, 4));
}

/// The first epoch assigns a version to the list. The list does not change otherwise, and the round
/// continues.
#[tokio::test]
async fn a_list_that_differs_only_in_version_does_not_restart() {
    let servers = TestEnsemble::new([1, 2, 3]);
    let (older, newer) = (
        servers.list(&[1, 2, 3], &[], 0),
        servers.list(&[1, 2, 3], &[], 1 << 32),
    );
    let mut settings = settings(1);
    settings.election.reconfig_enabled = true;
    let mut peer = Peer::with(settings, &older, zxid(0));
    let mut peers = BTreeMap::new();
    for sid in [2, 3] {
        let peer = Peer::start(sid, &newer, zxid(sid));
        peers.insert(sid, peer);
    }
    let mut seen = 0;
    let outcome = loop {
        match peer.event().await {
            VoterEvent::ListSeen {
                list: membership, ..
            } => {
                assert_eq!(membership.version, newer.version);
                seen += 1;
            }
            VoterEvent::Elected { state, vote, .. } => break (state, vote.leader),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((seen, outcome), (1, (Following, Sid(3))));
    assert_eq!(outcomes(&mut peers).await, [(Following, 3), (Leading, 3)]);
}

#[tokio::test]
async fn a_voter_that_becomes_an_observer_looks_as_an_observer() {
    let servers = TestEnsemble::new(1..=4);
    let (older, newer) = (
        servers.list(&[1, 2, 3, 4], &[], 1),
        servers.list(&[1, 2, 3], &[4], 5),
    );
    // The server is alone, so it cannot have been elected yet.
    let mut demoted = Peer::start(4, &older, zxid(9));
    demoted
        .voter
        .configure(newer.clone(), None, MemberRole::Observer);
    let mut peers = ensemble(&newer, &[(1, zxid(0)), (2, zxid(0)), (3, zxid(0))]);
    let expected = [(Following, 3), (Following, 3), (Leading, 3)];
    assert_eq!(outcomes(&mut peers).await, expected);
    assert_eq!(demoted.elected().await, (Observing, 3));
}

#[tokio::test]
async fn groups_elect_by_weight() {
    let servers = TestEnsemble::new(1..=3);
    let text = servers.list(&[1, 2, 3], &[], 0).node_data();
    let text = format!("{text}\ngroup.1=1:2:3\nweight.1=5\nweight.3=0");
    let list = Membership::parse(&text, false).unwrap();
    // The server with the large weight decides alone, and the server without weight is never
    // elected.
    let mut peers = ensemble(&list, &[(1, zxid(0)), (3, zxid(9))]);
    assert_eq!(outcomes(&mut peers).await, [(Leading, 1), (Following, 1)]);
}
