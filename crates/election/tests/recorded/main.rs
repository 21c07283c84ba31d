//! Replay of recorded elections of Apache ZooKeeper 3.9.5: a server of Zoarium replaces one server
//! of each recording. It receives the recorded notifications at their recorded times, and must
//! reach the recorded outcome by equal votes.
//!
//! A queue of one dropped some of Java's votes, and two threads of Java answer one connection.
//! Java's notifications to a peer must therefore be a subsequence of Zoarium's, with an equal last
//! one. Answers of settled servers are compared byte by byte.

mod reactions;
mod recording;
mod roles;
mod standin;

use std::collections::BTreeSet;
use std::fs;

use proto::notification::PeerState;
use proto::{ConfigVersion, ElectionRound, Sid};
use zoarium_election::Vote;

use crate::recording::{
    Record, distinct, folder, is_subsequence, lines, members, records, sid, vote,
};
use crate::standin::Standin;

/// Looking servers: recording, server, resulting state and leader.
const LOOKERS: &[(&str, i64, PeerState, i64)] = &[
    ("election-3-fresh", 1, PeerState::Following, 3),
    ("election-3-fresh", 2, PeerState::Following, 3),
    ("election-3-fresh", 3, PeerState::Leading, 3),
    ("election-by-epoch", 1, PeerState::Leading, 1),
    ("election-by-epoch", 2, PeerState::Following, 1),
    ("election-by-epoch", 3, PeerState::Following, 1),
    ("election-by-sid", 1, PeerState::Following, 3),
    ("election-by-sid", 2, PeerState::Following, 3),
    ("election-by-sid", 3, PeerState::Leading, 3),
    ("election-by-zxid", 1, PeerState::Following, 2),
    ("election-by-zxid", 2, PeerState::Leading, 2),
    ("election-by-zxid", 3, PeerState::Following, 2),
    ("election-ahead-joins", 3, PeerState::Following, 2),
    ("election-join-running", 3, PeerState::Following, 2),
    ("election-rejoin", 1, PeerState::Following, 3),
    ("election-join-unlisted", 5, PeerState::Following, 3),
    ("fake-leader-election", 1, PeerState::Following, 5),
    ("fake-leader-election", 4, PeerState::Observing, 5),
    ("election-observer", 4, PeerState::Observing, 3),
    ("reconfig-add-election", 5, PeerState::Following, 3),
    ("leader-loss-election", 1, PeerState::Following, 2),
    ("leader-loss-election", 2, PeerState::Leading, 2),
    // A wrong result because of the voters' published votes: 3 is the killed leader.
    ("leader-loss-election", 4, PeerState::Observing, 3),
];

#[test]
fn looking_servers_vote_as_java_did() {
    let Some(folder) = folder() else { return };
    for &(file, number, state, leader) in LOOKERS {
        let me = Sid(number);
        let records = records(&folder, file);
        let begins = |record: &&Record| {
            let leader = record.notification.leader;
            let is_own = leader == me || leader == Vote::NOBODY.leader;
            record.from == me
                && record.notification.state == PeerState::Looking
                && record.notification.round > ElectionRound(0)
                && is_own
        };
        let first = records.iter().find(begins).expect("its first vote");
        let mut standin = Standin::new(me, &first.notification);
        while standin.election.round().0 + 1 < first.notification.round.0 {
            // The recording does not contain these earlier rounds.
            standin.start(0);
        }
        standin.sent.clear();
        let start_ms = first.at_ms;
        let heard: Vec<&Record> = records.iter().filter(|record| record.to == me).collect();
        let mut is_started = false;
        for record in heard {
            if !is_started && (record.at_ms >= start_ms || standin.election.round().0 > 0) {
                standin.start(start_ms.min(record.at_ms));
                is_started = true;
            }
            standin.pass(record.at_ms);
            standin.hear(record.from, &record.notification, record.at_ms);
        }
        if !is_started {
            standin.start(start_ms);
        }
        standin.pass(records.last().map_or(0, |record| record.at_ms) + 1000);
        let what = format!("{file}: server {number}");
        let end = standin
            .elected
            .first()
            .map(|(state, vote)| (*state, vote.leader));
        assert_eq!(end, Some((state, Sid(leader))), "{what}");
        for peer in records
            .iter()
            .map(|record| record.to)
            .collect::<BTreeSet<_>>()
        {
            let java = records
                .iter()
                .filter(|record| record.from == me && record.to == peer);
            // Servers without a vote receive the published outcome instead of the current vote.
            let is_voter = standin.election.electorate().is_voter(peer);
            let java = distinct(java.map(|record| &record.notification));
            let ours = standin.votes_to(peer);
            if is_voter && state != PeerState::Observing {
                assert!(
                    is_subsequence(&java, &ours),
                    "{what} to {peer}: {java:?} {ours:?}"
                );
                assert_eq!(java.last(), ours.last(), "{what} to {peer}");
            }
        }
    }
}

#[test]
fn a_server_outside_the_list_adopts_the_list_of_the_ensemble() {
    let Some(folder) = folder() else { return };
    let records = records(&folder, "election-join-unlisted");
    let me = Sid(5);
    let first = records
        .iter()
        .find(|record| record.from == me)
        .expect("its vote");
    let mut standin = Standin::new(me, &first.notification);
    standin.start(first.at_ms);
    for record in records.iter().filter(|record| record.to == me) {
        standin.hear(record.from, &record.notification, record.at_ms);
    }
    assert_eq!(standin.configs_seen, [ConfigVersion(0x1_0000_0000)].into());
    // The server votes for itself by its own list, and for no candidate by the ensemble's list,
    // where it lacks a vote.
    let java = records
        .iter()
        .filter(|record| record.from == me && record.to == Sid(1));
    let java = distinct(java.map(|record| &record.notification));
    assert_eq!(standin.votes_to(Sid(1)), java);
    assert_eq!((java.len(), java[1].0.leader), (2, Vote::NOBODY.leader));
}

/// Servers with a role that answer others.
const SETTLED: &[(&str, i64)] = &[
    ("election-probe-joins", 1),
    ("election-probe-joins", 2),
    ("election-probe-joins", 3),
    ("election-probe-joins-v2", 1),
    ("election-probe-joins-v2", 2),
    ("election-probe-joins-v2", 3),
    ("election-probe-observer", 1),
    ("election-probe-observer", 2),
    ("election-probe-observer", 3),
    ("election-rejoin", 2),
    ("election-rejoin", 3),
    ("election-join-running", 1),
    ("election-join-running", 2),
    ("election-ahead-joins", 1),
    ("election-ahead-joins", 2),
    ("election-join-unlisted", 1),
    ("election-join-unlisted", 2),
    ("election-join-unlisted", 3),
    ("reconfig-add-election", 1),
    ("reconfig-add-election", 2),
    ("reconfig-add-election", 3),
    ("election-observer", 1),
    ("election-observer", 2),
    ("election-observer", 3),
];

#[test]
fn settled_servers_answer_in_javas_bytes() {
    let Some(folder) = folder() else { return };
    for &(file, number) in SETTLED {
        let me = Sid(number);
        let records = records(&folder, file);
        let is_answer =
            |record: &&Record| record.from == me && record.notification.state != PeerState::Looking;
        let answer = records.iter().find(is_answer).expect("an answer");
        let agreed = vote(&answer.notification);
        let mut standin = Standin::new(me, &answer.notification);
        // This vote led to the role of the server. The epoch was set when the leader was
        // established.
        standin.elect(members(&answer.notification).voters, &answer.notification);
        standin.election.handle_epoch_active(agreed.peer_epoch);
        standin.sent.clear();
        let asks =
            |record: &&Record| record.to == me && record.notification.state == PeerState::Looking;
        let mut now_ms = 10_000;
        for question in records.iter().filter(asks) {
            now_ms += 1000;
            standin.hear(question.from, &question.notification, now_ms);
            let (to, ours) = standin.sent.pop().expect("an answer to each question");
            let mut frame = Vec::new();
            ours.encode_frame(&mut frame);
            assert_eq!(to, question.from);
            assert_eq!(frame, answer.frame, "{file}: server {number}");
        }
        assert!(now_ms > 10_000, "{file}: nobody asks server {number}");
    }
}

/// Recordings with their own tests, and the servers replaced there.
const ALONE: &[(&str, &[i64])] = &[
    (roles::MULTI_ADDRESS, &[1, 2, 3]),
    (roles::QUORUM_LOSS, &[2, 4]),
    (reactions::REACTIONS, &[1]),
];

/// Every recording must be used: each real server that sends something in it is replaced once.
#[test]
fn every_server_of_every_recorded_election_is_replaced() {
    let Some(folder) = folder() else { return };
    let lookers = LOOKERS.iter().map(|(file, number, ..)| (*file, *number));
    let settled = SETTLED.iter().copied();
    let alone = ALONE
        .iter()
        .flat_map(|(file, numbers)| numbers.iter().map(|number| (*file, *number)));
    let replaced = lookers.chain(settled).chain(alone);
    let replaced: BTreeSet<_> = replaced
        .map(|(file, number)| (file.to_owned(), Sid(number)))
        .collect();
    let mut recorded = BTreeSet::new();
    for entry in fs::read_dir(&folder).expect("the recordings") {
        let path = entry.expect("a file").path();
        if path.extension().is_none_or(|kind| kind != "jsonl") {
            continue;
        }
        let name = path.file_stem().and_then(|name| name.to_str());
        let name = name.expect("a name").to_owned();
        for line in lines(&folder, &name) {
            let is_real = line["from"]
                .as_str()
                .is_some_and(|from| from.starts_with("java-"));
            if line["type"] == "NOTIFICATION" && is_real {
                recorded.insert((name.clone(), sid(&line["from"]).expect("a sender")));
            }
        }
    }
    assert_eq!(recorded, replaced);
}
