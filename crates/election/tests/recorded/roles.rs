//! Servers that gain and lose roles in one recording: all of their notifications to each peer, in
//! any state.
//!
//! The test provides the input from other connections: the end of a role, and the beginning of the
//! leader's epoch.

use std::collections::BTreeMap;

use proto::notification::{Notification, PeerState};
use proto::{ConfigVersion, ElectionRound, Epoch, Sid};

use crate::recording::{Record, electorate, folder, records};
use crate::standin::Standin;

pub(crate) const MULTI_ADDRESS: &str = "election-multi-address";
pub(crate) const QUORUM_LOSS: &str = "quorum-loss-election";

/// A change that is not visible on election connections.
#[derive(Clone, Copy)]
enum Step {
    /// The server starts or its role is over. Its log is in this epoch.
    Looks(Epoch),
    /// The leader is established, and its list has this version.
    Commits(ConfigVersion),
}

/// Plays one server of a recording. It must send to every peer the notifications that Java sent,
/// without repeats, except for votes that another one replaced in Java's queue of one.
fn replay(standin: &mut Standin, records: &[Record], steps: &[(i64, Step)]) {
    let me = standin.me;
    let mut steps = steps.iter().peekable();
    for record in records.iter().filter(|record| record.to == me) {
        while let Some(&(at_ms, step)) = steps.next_if(|(at_ms, _)| *at_ms <= record.at_ms) {
            standin.pass(at_ms);
            take(standin, records, step, at_ms);
        }
        standin.pass(record.at_ms);
        standin.hear(record.from, &record.notification, record.at_ms);
    }
    assert!(steps.next().is_none(), "server {me}: a step was left out");
    standin.pass(records.last().map_or(0, |record| record.at_ms) + 1000);
    let java = records.iter().filter(|record| record.from == me);
    let java = by_peer(java.map(|record| (record.to, &record.notification)));
    let ours = by_peer(standin.sent.iter().map(|(to, said)| (*to, said)));
    assert!(!java.is_empty(), "server {me} said nothing");
    for (peer, java) in java {
        let what = format!("server {me} to {peer}");
        let ours = ours.get(&peer).map_or(&[][..], Vec::as_slice);
        let mut rest = java.iter().peekable();
        for (at, said) in ours.iter().enumerate() {
            if rest.next_if_eq(&said).is_none() {
                let is_overtaken = said.state == PeerState::Looking && at + 1 < ours.len();
                assert!(is_overtaken, "{what}: only ours said {said:?}");
            }
        }
        assert_eq!(rest.next(), None, "{what}: ours never said this");
    }
}

fn take(standin: &mut Standin, records: &[Record], step: Step, now_ms: i64) {
    match step {
        Step::Looks(peer_epoch) => {
            standin.candidate.peer_epoch = peer_epoch;
            standin.start(now_ms);
        }
        Step::Commits(version) => {
            let mut lists = records
                .iter()
                .map(|record| electorate(&record.notification));
            let list = lists.find(|list| list.members().version == version);
            let list = list.expect("a list of this version");
            standin.election.set_electorate(list, now_ms);
        }
    }
}

type Said<'a> = Vec<&'a Notification>;

fn by_peer<'a>(all: impl Iterator<Item = (Sid, &'a Notification)>) -> BTreeMap<Sid, Said<'a>> {
    let mut peers: BTreeMap<Sid, Said<'a>> = BTreeMap::new();
    for (peer, notification) in all {
        let said = peers.entry(peer).or_default();
        if said.last() != Some(&notification) {
            said.push(notification);
        }
    }
    peers
}

fn first_of(records: &[Record], me: Sid) -> &Notification {
    let mut own = records.iter().filter(|record| record.from == me);
    // The first vote is for itself, if the server has a vote, though it may have replaced another.
    let for_itself = own.clone().find(|record| record.notification.leader == me);
    let first = for_itself.or_else(|| own.next());
    &first.expect("a vote").notification
}

/// Each server has two addresses, so its line of the list has two parts. Server 2 loses its leader
/// and finds it again.
#[test]
fn servers_with_two_addresses_each() {
    type Case<'a> = (i64, &'a [(i64, Step)], &'a [(PeerState, Sid)]);
    let Some(folder) = folder() else { return };
    let records = records(&folder, MULTI_ADDRESS);
    let listed = Step::Commits(ConfigVersion(0x1_0000_0000));
    let looks = |epoch| Step::Looks(Epoch(epoch));
    let following = (PeerState::Following, Sid(3));
    let cases: [Case<'_>; 3] = [
        (1, &[(4978, looks(0)), (5500, listed)], &[following]),
        (
            2,
            &[(4119, looks(0)), (5866, looks(1))],
            &[following, following],
        ),
        (
            3,
            &[(3837, looks(0)), (4900, listed)],
            &[(PeerState::Leading, Sid(3))],
        ),
    ];
    for (number, steps, ends) in cases {
        let mut standin = Standin::new(Sid(number), first_of(&records, Sid(number)));
        replay(&mut standin, &records, steps);
        let ours = standin.elected.iter();
        let ours = ours.map(|(state, vote)| (*state, vote.leader));
        assert_eq!(ours.collect::<Vec<_>>(), ends, "server {number}");
    }
}

/// The leader has lost its last follower and cannot elect a leader, also not by the ballot of an
/// observer. It continues to send the observer the outcome of the last election.
#[test]
fn a_leader_without_a_quorum() {
    let Some(folder) = folder() else { return };
    let records = records(&folder, QUORUM_LOSS);
    let (me, observer) = (Sid(2), Sid(4));
    let answer = first_of(&records, me);
    let mut standin = Standin::new(me, answer);
    let outcome = Notification {
        round: ElectionRound(answer.round.0 - 1),
        ..answer.clone()
    };
    standin.elect([Sid(1)], &outcome);
    standin.elected.clear();
    standin.sent.clear();
    replay(&mut standin, &records, &[(425, Step::Looks(Epoch(2)))]);
    assert_eq!(standin.elected, []);
    assert_eq!(standin.election.state(), PeerState::Looking);
    // Each question has its answer. The recorder left out packets that were repeated more than four
    // times.
    let to_observer = |to: Sid| to == observer;
    let ours = standin.sent.iter().filter(|(to, _)| to_observer(*to));
    let java = records.iter().filter(|record| to_observer(record.to));
    let questions = records.iter().filter(|record| record.to == me).count();
    assert_eq!((ours.count(), java.count()), (questions, questions.min(4)));
}

/// An observer that receives notifications of one voter only, which is not enough for an election.
#[test]
fn an_observer_of_a_lost_quorum() {
    let Some(folder) = folder() else { return };
    let records = records(&folder, QUORUM_LOSS);
    let me = Sid(4);
    let nobody = &records[0].notification;
    let mut standin = Standin::new(me, nobody);
    while standin.election.round().0 + 1 < nobody.round.0 {
        // Rounds before the recording.
        standin.start(0);
    }
    standin.sent.clear();
    replay(&mut standin, &records, &[(426, Step::Looks(Epoch(0)))]);
    assert_eq!(standin.elected, []);
    assert_eq!(standin.election.state(), PeerState::Looking);
}
