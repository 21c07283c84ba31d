//! Tests of growth from three servers to five by restarts with a new member list, in the wrong
//! order and in the right order.

use super::*;
use proto::notification::PeerState::{Following, Leading};

/// State of every server after the first leader has served.
const SYNCED: Candidate = Candidate {
    zxid: Some(Zxid(1)),
    peer_epoch: Epoch(1),
};

struct Growth {
    three: Membership,
    five: Membership,
    is_guarded: bool,
}

impl Growth {
    fn new(is_guarded: bool) -> Self {
        let ensemble = TestEnsemble::new(1..=5);
        Self {
            three: ensemble.list(&[1, 2, 3], &[], 0),
            five: ensemble.list(&[1, 2, 3, 4, 5], &[], 0),
            is_guarded,
        }
    }

    fn start(&self, me: i64, list: &Membership, candidate: Candidate) -> Peer {
        let mut settings = settings(me);
        settings.election.membership_guard = self.is_guarded;
        Peer::with(settings, list, candidate)
    }

    /// Starts servers 1 to 3 with the list of three and leader 2, and servers 4 and 5 with the list
    /// of five. Servers 4 and 5 follow.
    async fn begin(&self) -> BTreeMap<i64, Peer> {
        let mut peers = BTreeMap::new();
        for me in 1..=3 {
            let candidate = zxid(i64::from(me == 2));
            peers.insert(me, self.start(me, &self.three, candidate));
        }
        for (me, peer) in &mut peers {
            let expected = if *me == 2 { Leading } else { Following };
            assert_eq!(peer.elected().await, (expected, 2));
            peer.voter.epoch_active(Epoch(1));
        }
        for me in [4, 5] {
            let mut peer = self.start(me, &self.five, zxid(0));
            assert_eq!(peer.elected().await, (Following, 2));
            peer.voter.epoch_active(Epoch(1));
            peers.insert(me, peer);
        }
        peers
    }

    /// Stops the leader first, so the others look for a new one. Servers 1 and 3 elect 3.
    async fn lose_leader(&self, peers: &mut BTreeMap<i64, Peer>) {
        peers.remove(&2).unwrap().voter.stop().await;
        for peer in peers.values() {
            peer.voter.start_election(SYNCED);
        }
        assert_eq!(peers.get_mut(&1).unwrap().elected().await, (Following, 3));
        assert_eq!(peers.get_mut(&3).unwrap().elected().await, (Leading, 3));
        for sid in [1, 3] {
            peers[&sid].voter.epoch_active(Epoch(2));
        }
    }
}

#[tokio::test]
async fn without_the_guard_the_wrong_order_makes_two_leaders() {
    let growth = Growth::new(false);
    let mut peers = growth.begin().await;
    growth.lose_leader(&mut peers).await;
    let mut second = growth.start(2, &growth.five, SYNCED);
    assert_eq!(second.elected().await, (Following, 5));
    assert_eq!(peers.get_mut(&4).unwrap().elected().await, (Following, 5));
    assert_eq!(peers.get_mut(&5).unwrap().elected().await, (Leading, 5));
    assert!(peers.get_mut(&3).unwrap().is_settled(), "3 leads as well");
}

#[tokio::test]
async fn with_the_guard_the_wrong_order_ends_with_one_leader_and_a_message() {
    let (log, _guard) = Log::capture();
    let growth = Growth::new(true);
    let mut peers = growth.begin().await;
    growth.lose_leader(&mut peers).await;
    let mut second = growth.start(2, &growth.five, SYNCED);
    log.wait("refusing to elect server 5: server 3 is the leader")
        .await;
    let refusals = log.lines("refusing to elect");
    let line = &refusals[0];
    for part in [
        "WARN",
        "servers only in this server's list: 4, 5; servers only in the leader's list: none",
        "ours=1,2,3,4,5",
        "theirs=1,2,3 ",
    ] {
        assert!(line.contains(part), "{line}");
    }
    // To recover, the other servers receive the list of five, the leader last, and elect one
    // leader.
    for sid in [1, 3] {
        peers.remove(&sid).unwrap().voter.stop().await;
        peers.insert(sid, growth.start(sid, &growth.five, SYNCED));
    }
    let mut leaders = Vec::new();
    for peer in peers.values_mut().chain([&mut second]) {
        leaders.push(peer.elected().await.1);
    }
    leaders.dedup();
    assert_eq!(leaders.len(), 1, "{leaders:?}");
    assert!(
        log.lines("refusing to elect").len() <= 5,
        "said again and again"
    );
}

#[tokio::test]
async fn in_the_right_order_the_leader_stays_until_it_is_last() {
    let (log, _guard) = Log::capture();
    let growth = Growth::new(true);
    let mut peers = growth.begin().await;
    for sid in [1, 3] {
        peers.remove(&sid).unwrap().voter.stop().await;
        let mut back = growth.start(sid, &growth.five, SYNCED);
        assert_eq!(back.elected().await, (Following, 2));
        back.voter.epoch_active(Epoch(1));
        peers.insert(sid, back);
    }
    assert!(peers.get_mut(&2).unwrap().is_settled());
    peers.remove(&2).unwrap().voter.stop().await;
    let mut again = zxid(1);
    again.peer_epoch = Epoch(1);
    for peer in peers.values() {
        peer.voter.start_election(again);
    }
    for (sid, peer) in &mut peers {
        let expected = if *sid == 5 { Leading } else { Following };
        assert_eq!(peer.elected().await, (expected, 5));
    }
    assert!(log.lines("refusing to elect").is_empty());
}
