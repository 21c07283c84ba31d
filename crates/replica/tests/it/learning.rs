//! A follower of three.

use std::sync::Arc;

use jute::Encode;
use proto::leader::LeaderPacket;
use proto::txn::{CreateTxn, Txn, TxnHeader, TxnRecord};
use proto::{Epoch, SessionId, Zxid};
use tree::{Tree, TreeSettings};
use zoarium_replica::{DiskOrder, Effect, Input, LeaderEvent, LoadedTree, State};

use crate::support::{Server, zxid};

/// Returns a transaction that creates a session.
pub(crate) fn record(zxid: Zxid) -> TxnRecord {
    let txn = Txn::CreateSession { timeout_ms: 60_000 };
    TxnRecord {
        header: TxnHeader {
            session: SessionId(zxid.0),
            cxid: 0,
            zxid,
            time_ms: 1,
            op: txn.op().number(),
        },
        txn,
        digest: None,
    }
}

/// Returns the tree of a leader at this zxid.
pub(crate) fn tree_at(zxid: Zxid) -> Tree {
    let settings = TreeSettings {
        standalone: false,
        ..TreeSettings::new(testkit::LIMITS)
    };
    let mut tree = Tree::new(Arc::new(settings));
    let mut events = Vec::new();
    tree.apply(&record(zxid), &mut Default::default(), &mut events);
    tree
}

/// Returns the tree that this server loads from its snapshot of this zxid.
pub(crate) fn loaded_at(zxid: Zxid) -> LoadedTree {
    LoadedTree {
        tree: tree_at(zxid),
        log_whole_from: zxid,
        has_snapshot: true,
    }
}

fn committed(server: &mut Server, attempt: u64, zxid: Zxid) {
    let txn = record(zxid).to_bytes();
    server.leader_sends(attempt, LeaderPacket::Proposal { zxid, txn });
    server.leader_sends(attempt, LeaderPacket::Commit { zxid });
}

/// ZOOKEEPER-2846: a leader of Apache ZooKeeper continues to commit while it sends its tree, so the
/// snapshot written here contains more than its zxid. The log files begin after the snapshot. A
/// learner that is synchronised from them must not miss these transactions.
#[test]
fn a_leader_with_a_hole_in_its_log_sends_a_snapshot() {
    let (mut server, attempt) = member_that_serves();
    logs_more_than_fits_in_memory(&mut server, attempt, 2, 4);
    leads_and_sends_a_snapshot(&mut server, 2);
}

/// The snapshot has its name when the leader fails, but the report arrives after the end of the
/// role. The tree is then loaded from this snapshot, and the log before it has the same hole.
#[test]
fn a_leader_that_loaded_the_snapshot_of_an_ended_role_sends_a_snapshot() {
    let (mut server, attempt, written) = member_that_takes_over();
    let event = LeaderEvent::Closed;
    server.handle(Input::Leader { attempt, event });
    let reloads =
        |effect: &Effect| matches!(effect, Effect::Disk(DiskOrder::Reload { keep: None }));
    assert!(server.effects().iter().any(reloads));
    server.handle(Input::SnapshotWritten {
        attempt,
        zxid: written,
    });
    server.handle(Input::Reloaded {
        tree: Some(Box::new(loaded_at(written))),
        end: written,
    });
    let attempt = server.follow_3(written, 2, 1);
    let event = LeaderEvent::Connected;
    server.handle(Input::Leader { attempt, event });
    server.leader_sends(attempt, LeaderPacket::leader_info(Epoch(3)));
    server.handle(Input::AcceptedEpochSaved(Epoch(3)));
    server.leader_sends(attempt, LeaderPacket::Diff { zxid: written });
    let new_leader = LeaderPacket::NewLeader {
        zxid: zxid(3, 0),
        config: None,
    };
    server.leader_sends(attempt, new_leader);
    server.handle(Input::CurrentEpochSaved(Epoch(3)));
    server.leader_sends(attempt, LeaderPacket::UpToDate);
    logs_more_than_fits_in_memory(&mut server, attempt, 3, 1);
    leads_and_sends_a_snapshot(&mut server, 3);
}

/// The leader may have logged the transaction before its `jute.maxbuffer` was lowered. If a learner
/// disconnected because of it, the learner would receive it again after each connection.
#[test]
fn a_transaction_that_is_longer_than_a_request_may_be_is_applied() {
    let (mut server, attempt) = member_that_serves();
    let zxid = zxid(2, 4);
    let mut record = record(zxid);
    record.txn = Txn::Create(CreateTxn {
        path: "/large".into(),
        data: Some(vec![7; 3 << 20].into()),
        acl: Vec::new(),
        ephemeral: false,
        parent_cversion: 1,
    });
    record.header.op = record.txn.op().number();
    let txn = record.to_bytes();
    server.leader_sends(attempt, LeaderPacket::Proposal { zxid, txn });
    server.leader_sends(attempt, LeaderPacket::Commit { zxid });
    assert_eq!(server.book.applied.last(), Some(&zxid));
}

/// The leader's snapshot has its name, and the marker of the files without a vote is removed. The
/// other two servers may need the vote of this server, and no report of the snapshot follows.
#[test]
fn a_member_that_loaded_its_leader_s_snapshot_votes_again() {
    for has_snapshot in [true, false] {
        let mut server = Server::member_without_vote(1);
        let attempt = server.follow_3_without_vote(zxid(1, 5), 1);
        let (mut server, attempt, written) = takes_over(server, attempt);
        let event = LeaderEvent::Closed;
        server.handle(Input::Leader { attempt, event });
        let loaded = LoadedTree {
            has_snapshot,
            ..loaded_at(written)
        };
        server.handle(Input::Reloaded {
            tree: Some(Box::new(loaded)),
            end: written,
        });
        let vote = server.replica.candidate().unwrap().zxid;
        assert_eq!(vote, has_snapshot.then_some(written));
    }
}

/// Loading a large tree takes minutes, and the next start loads it anyway.
#[test]
fn a_member_that_stops_while_it_takes_over_does_not_load_its_own_tree() {
    let (mut server, ..) = member_that_takes_over();
    let ordered = server.state.generation();
    server.handle(Input::Shutdown);
    let effects = server.effects();
    let disk = |effect: &Effect| matches!(effect, Effect::Disk(_));
    assert!(!effects.iter().any(disk), "{effects:?}");
    assert!(server.replica.is_over());
    assert_ne!(server.state.generation(), ordered, "no file gets its name");
}

/// Returns a member that has the tree of its leader and serves clients, and the number of its role.
fn member_that_serves() -> (Server, u64) {
    let (mut server, attempt, written) = member_that_takes_over();
    server.handle(Input::SnapshotWritten {
        attempt,
        zxid: written,
    });
    server.handle(Input::Synced(written));
    server.handle(Input::CurrentEpochSaved(Epoch(2)));
    server.leader_sends(attempt, LeaderPacket::UpToDate);
    assert!(server.replica.view().unwrap().is_serving);
    (server, attempt)
}

/// Returns a member that writes the tree of its leader, the number of its role, and the last zxid
/// of the tree.
fn member_that_takes_over() -> (Server, u64, Zxid) {
    let mut server = Server::member_that_keeps(1, 1);
    let attempt = server.follow_3(zxid(1, 5), 1, 1);
    takes_over(server, attempt)
}

/// Lets a member take over the tree of its leader.
fn takes_over(mut server: Server, attempt: u64) -> (Server, u64, Zxid) {
    let sent = zxid(1, 5);
    let event = LeaderEvent::Connected;
    server.handle(Input::Leader { attempt, event });
    server.leader_sends(attempt, LeaderPacket::leader_info(Epoch(2)));
    server.handle(Input::AcceptedEpochSaved(Epoch(2)));
    server.leader_sends(attempt, LeaderPacket::Snap { zxid: sent });
    let event = LeaderEvent::SnapshotReceived(Box::new(tree_at(sent)));
    server.handle(Input::Leader { attempt, event });
    for counter in 1..=3 {
        committed(&mut server, attempt, zxid(2, counter));
    }
    let new_leader = LeaderPacket::NewLeader {
        zxid: zxid(2, 0),
        config: None,
    };
    server.leader_sends(attempt, new_leader);
    let written = zxid(2, 3);
    let effects = server.effects();
    let takes_over = |effect: &Effect| matches!(effect, Effect::Disk(DiskOrder::TakeOver { last, .. }) if *last == written);
    assert!(effects.iter().any(takes_over), "{effects:?}");
    (server, attempt, written)
}

/// Logs the transactions of this epoch from `first` on, and ends the role.
fn logs_more_than_fits_in_memory(server: &mut Server, attempt: u64, epoch: i64, first: u32) {
    for counter in first..=20 {
        committed(server, attempt, zxid(epoch, counter));
    }
    server.handle(Input::Synced(zxid(epoch, 20)));
    let event = LeaderEvent::Closed;
    server.handle(Input::Leader { attempt, event });
}

/// Lets the server lead after this epoch. Its log begins after 2:3, and a learner lacks 2:1.
fn leads_and_sends_a_snapshot(server: &mut Server, epoch: i64) {
    let next = epoch + 1;
    server.lead_as_1_in(epoch, zxid(epoch, 20), next);
    server.effects();
    server.learner_comes(7, 2, Epoch(next), zxid(2, 0));
    server.handle(Input::CurrentEpochSaved(Epoch(next)));
    let effects = server.effects();
    let reads = |effect: &Effect| matches!(effect, Effect::ReadLog { .. });
    let sends = |effect: &Effect| matches!(effect, Effect::SendSnapshot { .. });
    assert!(!effects.iter().any(reads), "{effects:?}");
    assert!(effects.iter().any(sends), "{effects:?}");
}

/// Records from a leader whose epoch is not established may be cut under the next one, so they are
/// not durable state before UPTODATE.
#[test]
fn transactions_before_uptodate_are_not_committed_until_then() {
    let last = zxid(1, 5);
    let mut server = Server::member_that_keeps(1, 1);
    let attempt = server.follow_3(last, 1, 1);
    let event = LeaderEvent::Connected;
    server.handle(Input::Leader { attempt, event });
    server.leader_sends(attempt, LeaderPacket::leader_info(Epoch(2)));
    server.handle(Input::AcceptedEpochSaved(Epoch(2)));
    server.leader_sends(attempt, LeaderPacket::Snap { zxid: last });
    let event = LeaderEvent::SnapshotReceived(Box::new(tree_at(last)));
    server.handle(Input::Leader { attempt, event });
    for counter in 1..=2 {
        committed(&mut server, attempt, zxid(2, counter));
    }
    let new_leader = LeaderPacket::NewLeader {
        zxid: zxid(2, 0),
        config: None,
    };
    server.leader_sends(attempt, new_leader);
    let written = zxid(2, 2);
    assert_eq!(server.book.applied, [zxid(2, 1), written]);
    server.handle(Input::SnapshotWritten {
        attempt,
        zxid: written,
    });
    server.handle(Input::Synced(written));
    server.handle(Input::CurrentEpochSaved(Epoch(2)));
    assert!(server.book.committed.is_empty() && server.book.established.is_empty());
    assert!(!server.state.generation().is_established());
    // An operator's tree does not replace records that may be cut either.
    let own = server.state.tree.borrow().digest();
    server.effects();
    server.handle(Input::Restore(Box::new(tree_at(zxid(1, 9)))));
    assert!(server.effects().is_empty());
    assert_eq!(server.state.tree.borrow().digest(), own);
    server.leader_sends(attempt, LeaderPacket::UpToDate);
    assert_eq!(server.book.established, [written]);
    assert!(server.state.generation().is_established());
    committed(&mut server, attempt, zxid(2, 3));
    server.handle(Input::Synced(zxid(2, 3)));
    assert_eq!(server.book.committed, [zxid(2, 3)]);
    // A leader's records are reported when its own epoch is established.
    let event = LeaderEvent::Closed;
    server.handle(Input::Leader { attempt, event });
    server.lead_as_1(zxid(2, 3), 3);
    assert_eq!(server.book.established, [written, zxid(2, 3)]);
}

/// The connection to the leader ends while the log is being cut. The list of committed transactions
/// in memory must then end where the log ends, because the member sends the list when it leads.
#[test]
fn a_cut_that_outlasts_its_role_also_shortens_the_committed_list() {
    let (kept, tail) = (zxid(2, 1), zxid(2, 2));
    let mut server = Server::member(1);
    let close = |server: &mut Server, attempt| {
        let event = LeaderEvent::Closed;
        server.handle(Input::Leader { attempt, event });
    };
    let begin = |server: &mut Server, attempt, epoch| {
        let event = LeaderEvent::Connected;
        server.handle(Input::Leader { attempt, event });
        server.leader_sends(attempt, LeaderPacket::leader_info(epoch));
        server.handle(Input::AcceptedEpochSaved(epoch));
    };
    let synchronise = |server: &mut Server, attempt, last, epoch| {
        begin(server, attempt, epoch);
        server.leader_sends(attempt, LeaderPacket::Diff { zxid: last });
        let new_leader = LeaderPacket::NewLeader {
            zxid: Zxid::new(epoch, 0),
            config: None,
        };
        server.leader_sends(attempt, new_leader);
        server.handle(Input::CurrentEpochSaved(epoch));
        server.leader_sends(attempt, LeaderPacket::UpToDate);
    };
    let attempt = server.follow_3(zxid(1, 5), 1, 1);
    synchronise(&mut server, attempt, Zxid::ZERO, Epoch(2));
    committed(&mut server, attempt, kept);
    // The last proposal is logged, and no commit follows.
    let txn = record(tail).to_bytes();
    server.leader_sends(attempt, LeaderPacket::Proposal { zxid: tail, txn });
    server.handle(Input::Synced(tail));
    close(&mut server, attempt);

    let attempt = server.follow_3(zxid(2, 9), 2, 2);
    begin(&mut server, attempt, Epoch(3));
    server.effects();
    server.leader_sends(attempt, LeaderPacket::Trunc { zxid: kept });
    let effects = server.effects();
    let cuts = |effect: &Effect| matches!(effect, Effect::Disk(DiskOrder::Reload { keep }) if *keep == Some(kept));
    assert!(effects.iter().any(cuts), "{effects:?}");
    close(&mut server, attempt);
    server.handle(Input::Reloaded {
        tree: Some(Box::new(loaded_at(kept))),
        end: kept,
    });

    // The next leader continues without the transaction, and then this member leads.
    let attempt = server.follow_3(zxid(2, 9), 3, 2);
    synchronise(&mut server, attempt, kept, Epoch(4));
    committed(&mut server, attempt, zxid(4, 1));
    server.handle(Input::Synced(zxid(4, 1)));
    close(&mut server, attempt);
    server.lead_as_1_in(4, zxid(4, 1), 5);
    server.effects();
    server.learner_comes(7, 2, Epoch(5), kept);
    let sent = server
        .effects()
        .into_iter()
        .filter_map(|effect| match effect {
            Effect::Send {
                packet: LeaderPacket::Proposal { zxid, .. },
                ..
            } => Some(zxid),
            _ => None,
        });
    assert_eq!(sent.collect::<Vec<_>>(), [zxid(4, 1)]);
}
