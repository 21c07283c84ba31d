//! Each committed transaction says which digest the tree has after it.

use jute::Encode;
use proto::leader::LeaderPacket;
use proto::request::WriteRequest;
use proto::txn::{CreateTxn, SetDataTxn, Txn, TxnDigest, TxnHeader, TxnRecord};
use proto::{Acl, Epoch, SessionId, Zxid};
use replica::{Input, LeaderEvent, State};
use tree::Tree;

use crate::support::{Server, create, request, zxid};

const SESSION: i64 = 77;

fn record(zxid: Zxid, txn: Txn) -> TxnRecord {
    TxnRecord {
        header: TxnHeader {
            session: SessionId(SESSION),
            cxid: 0,
            zxid,
            time_ms: 1,
            op: txn.op().number(),
        },
        txn,
        digest: None,
    }
}

fn created(path: &str) -> Txn {
    Txn::Create(CreateTxn {
        path: path.into(),
        data: None,
        acl: vec![Acl::open()],
        ephemeral: false,
        parent_cversion: 1,
    })
}

/// Changes the data of a znode, as no transaction did.
fn damage(server: &Server, path: &str) {
    let mut tree = server.state.tree_mut();
    let txn = Txn::SetData(SetDataTxn {
        path: path.into(),
        data: Some("damaged".into()),
        version: 0,
    });
    let damage = record(tree.last_zxid(), txn);
    let outcome = tree.apply(&damage, &mut Default::default(), &mut Vec::new());
    assert_eq!(outcome.error(), proto::ErrorCode::Ok);
}

/// A leader with a tree of its own, in which everything is as it should be.
struct Leader(Tree);

impl Leader {
    /// The next transaction with the digest that the tree has after it.
    fn commits(&mut self, server: &mut Server, attempt: u64, zxid: Zxid, txn: Txn) {
        let mut record = record(zxid, txn);
        self.0
            .apply(&record, &mut Default::default(), &mut Vec::new());
        record.digest = Some(TxnDigest::new(self.0.digest()));
        let txn = record.to_bytes();
        server.leader_sends(attempt, LeaderPacket::Proposal { zxid, txn });
        server.leader_sends(attempt, LeaderPacket::Commit { zxid });
    }
}

#[test]
fn a_server_that_stands_alone_counts_each_transaction_that_finds_another_tree() {
    let mut server = Server::alone();
    let begin = WriteRequest::CreateSession { timeout_ms: 4000 };
    let writes = [begin, create("/a"), create("/b"), create("/c")];
    for (at, write) in (1..).zip(writes) {
        if at == 3 {
            assert!(server.book.mismatches.is_empty());
            damage(&server, "/a");
        }
        server.handle(Input::Requests(vec![request(1, SESSION, at, write)]));
        server.handle(Input::Synced(Zxid(at.into())));
    }
    assert_eq!(server.book.mismatches, [Zxid(3), Zxid(4)]);
}

#[test]
fn a_learner_compares_from_uptodate_on_what_is_committed() {
    let mut server = Server::member(1);
    let attempt = server.follow_3(Zxid::ZERO, 1, 0);
    let event = LeaderEvent::Connected;
    server.handle(Input::Leader { attempt, event });
    server.leader_sends(attempt, LeaderPacket::leader_info(Epoch(1)));
    server.handle(Input::AcceptedEpochSaved(Epoch(1)));
    server.leader_sends(attempt, LeaderPacket::Diff { zxid: Zxid::ZERO });
    let mut leader = Leader(Tree::new(server.state.tree().settings().clone()));
    let new_leader = LeaderPacket::NewLeader {
        zxid: zxid(1, 0),
        config: None,
    };
    server.leader_sends(attempt, new_leader);
    server.handle(Input::CurrentEpochSaved(Epoch(1)));
    server.leader_sends(attempt, LeaderPacket::UpToDate);
    leader.commits(&mut server, attempt, zxid(1, 1), created("/a"));
    assert!(server.book.mismatches.is_empty());
    damage(&server, "/a");
    leader.commits(&mut server, attempt, zxid(1, 2), created("/b"));
    assert_eq!(server.book.mismatches, [zxid(1, 2)]);
    // What replaces the damaged data makes both trees equal again.
    let healed = Txn::Delete { path: "/a".into() };
    leader.commits(&mut server, attempt, zxid(1, 3), healed);
    leader.commits(&mut server, attempt, zxid(1, 4), created("/c"));
    assert_eq!(server.book.mismatches, [zxid(1, 2)]);
    // A leader that makes no digests, or digests of another version, is not compared with.
    damage(&server, "/b");
    let mut other = record(zxid(1, 5), created("/d"));
    for (counter, digest) in [
        (5, None),
        (
            6,
            Some(TxnDigest {
                version: 1,
                digest: 7,
            }),
        ),
    ] {
        (other.header.zxid, other.digest) = (zxid(1, counter), digest);
        let (zxid, txn) = (other.header.zxid, other.to_bytes());
        server.leader_sends(attempt, LeaderPacket::Proposal { zxid, txn });
        server.leader_sends(attempt, LeaderPacket::Commit { zxid });
    }
    assert_eq!(server.book.mismatches, [zxid(1, 2)]);
}
